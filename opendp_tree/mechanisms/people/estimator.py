"""Counts of all nodes from records of people: rows, people or shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_positive,
    check_probability,
    is_zero,
    read_distance,
)
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.people.design import PeopleDesign, choose_design
from opendp_tree.mechanisms.people.release import PeopleRelease
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tree_noise import one_or_all
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.rows.people import read_records, tree_of_people
from opendp_tree.rows.unit import COUNTS, level_bounds, weighed_words
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_people_estimator", "then_people_estimator"]


def make_people_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    count: str = "rows",
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    rows: int | Sequence[int] | None = None,
    nodes: int | Sequence[int] | None = None,
    noise: str | None = None,
    measuring: float | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
    confidence: float = 0.95,
) -> Measurement:
    """Counts of every node, from records of people with many rows each: a `TreeRelease`.

    In an open tree nodes are found with one row of each person, drawn at random; what was found, or the whole of a
    public tree, is counted level by level, and nobody weighs more in a level than is declared. So a person costs 1 to
    find nodes, however many rows there are, and at each level the bound of that level.

    For k people: with Laplace noise epsilon is k times the sum of the cells' epsilon and, over the levels, of
    bound/scale; delta is the cells' at distance k. Gaussian noise has rho, k**2/2 times the sum of bound/scale**2 for
    people, of (bound/scale)**2 otherwise; in open trees it is turned into epsilon, with half of delta. The measure is
    `approximate(max_divergence())` for an open tree; for a public one `max_divergence()`, or
    `zero_concentrated_divergence()` with Gaussian noise. Proof: docs/proofs/people_layers.md.

    Parameters
    ----------
    input_domain
        `people_domain(tree)`: what `make_people_records` gives.
    input_metric
        `symmetric_distance`: how many people come or go.
    count
        What is counted: "rows" (the default), those of a person weighed down to `rows` in all; "people", each at every
        node where they are, weighed down to `nodes` nodes of a level; "shares", all rows of one person weighing 1.
    epsilon
        The privacy loss of `d_in` people. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Open trees need it.
    rho
        The privacy loss of zero-concentrated differential privacy, for public trees, instead of `epsilon`.
    rows
        For "rows", what all rows of one person weigh at most: one number, or one for each shown level from the root's
        down. A public number, not the data's. By default None.
    nodes
        For "people", what one person weighs at all nodes of a level at most: one number, or one for each shown level
        below the root's. A public number. By default None.
    noise
        "laplace" or "gaussian"; by default None: whichever is predicted to be less.
    measuring
        The share of epsilon that measures what was found, in an open tree. By default None: that of least predicted
        error.
    levels
        Which levels of an open tree are shown, the root's being 0; the root always is. By default all.
    d_in
        How many people the budget is for. By default 1.
    confidence
        The probability with which each interval holds what is counted at its node, node by node. By default 0.95. What
        is counted is rounded down to 2**-20 for each person; at leaves of open trees, the intervals of shares are of
        shares before that.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import Unit, frame_domain
    >>> from opendp_tree.rows.people import then_people_records
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [*range(900), *range(300)], "city": ["ghent"] * 900 + ["liege"] * 300})
    >>> space = frame_domain(visits), dp.symmetric_id_distance("user")
    >>> records = space >> then_people_records(by="city", unit=Unit("user", count="shares"))
    >>> people = records >> then_people_estimator(count="people", nodes=2, epsilon=1.0, delta=1e-6)
    >>> people.map(1) <= (1.0, 1e-6), people(visits).to_frame()["path"].to_list()
    (True, ['', 'ghent', 'liege'])

    """
    assert_features("contrib")
    tree = tree_of_people(input_domain)
    if tree is None:
        raise ValueError(f"input_domain ({input_domain}) must be people_domain. Hint: make_people_records")
    if input_metric != symmetric_distance():
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance, of people")
    check_choice(count, name="count", choices=COUNTS)
    if noise is not None:
        check_choice(noise, name="noise", choices=("laplace", "gaussian"))
    sure = float(check_probability(confidence, name="confidence"))
    shown = _check_levels(tree, levels)
    most = level_bounds(count, len(shown), rows=rows, nodes=nodes)
    unfunded = rho is None and epsilon is not None and is_zero(epsilon)
    budget = _budget(tree, 1.0 if unfunded else epsilon, delta, rho, d_in)
    share = None if measuring is None else float(check_probability(measuring, name="measuring"))
    tested = shown if isinstance(tree, OpenTree) else None
    design = choose_design(count, most, budget, levels=tested, noise=noise, measuring=share)
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)
    approximately = design.cells is not None
    promised = budget.delta

    def privacy_map(people: int | float) -> float | tuple[float, float]:
        number = math.ceil(read_distance(people))
        loss = design.loss(number)
        return with_promised_delta(loss, promised if number <= d_in else 0.0) if approximately else loss[0]

    said = f"{weighed_words(count, 'person', rows=rows, nodes=nodes)}"
    release = PeopleRelease(design, sure, _statement(design, privacy_map(d_in), d_in, said))
    measure = approximate(max_divergence()) if approximately else max_divergence()
    if not approximately and design.noise == "gaussian":
        measure = zero_concentrated_divergence()
    return make_measurement(
        input_domain, input_metric, measure, lambda data: release.make(read_records(data, tree=tree)), privacy_map
    )


then_people_estimator = to_then(make_people_estimator)


def _budget(tree: Tree | OpenTree, epsilon: Any, delta: Any, rho: Any, d_in: int) -> Budget:
    if (epsilon is None) == (rho is None):
        raise ValueError("exactly one of epsilon and rho must be given")
    lost = 0.0 if is_zero(delta) else float(check_probability(delta, name="delta"))
    if isinstance(tree, OpenTree) and (rho is not None or lost == 0):
        raise ValueError("epsilon and delta must be given where nodes must be found. Hint: epsilon=1.0, delta=1e-6")
    return Budget(
        None if epsilon is None else float(check_positive(epsilon, name="epsilon")),
        lost,
        None if rho is None else float(check_positive(rho, name="rho")),
        check_integer(d_in, name="d_in", least=1),
    )


def _check_levels(tree: Tree | OpenTree, levels: Sequence[int] | None) -> tuple[int, ...]:
    """The levels that are shown, the root's among them."""
    every = tuple(range(tree.depth))
    if levels is None:
        return every
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise TypeError(f"levels ({levels!r}) must be a sequence of levels. Hint: [1, 3], where the root's level is 0")
    wanted = tuple(sorted({0, *(check_integer(level, name="levels", least=0) for level in levels)}))
    if wanted[-1] >= tree.depth:
        raise ValueError(f"levels ({list(levels)}) must be some of 0 to {tree.depth - 1}. Hint: the root's level is 0")
    if isinstance(tree, Tree) and wanted != every:
        raise ValueError("levels must be left out for a public tree, all of whose levels are counted")
    return wanted


def _statement(design: PeopleDesign, loss: Any, d_in: int, counted: str) -> PrivacyStatement:
    """What a release costs, and what it was made with."""
    cells, names = design.cells, ["epsilon", "delta"]
    measure = max_divergence() if cells is None else approximate(max_divergence())
    if cells is None and design.noise == "gaussian":
        measure, names = zero_concentrated_divergence(), ["rho"]
    spent = dict(zip(names, loss if isinstance(loss, tuple) else (loss,), strict=False))
    parameters: dict[str, int | float | str | None] = {
        "count": design.count,
        "noise": design.noise,
        "most": one_or_all(design.most),
        "noise_deviations": one_or_all([float(f"{each:.4g}") for each in design.deviations()]),
        "units": design.units,
    }
    if design.scales is not None:
        parameters["level_scales"] = one_or_all(design.scales)
    if cells is not None:
        parameters |= {"scale": cells.scale, "token_scale": cells.token_scale, "threshold": max(cells.shape.thresholds)}
    name, unit = f"people_{design.noise}", "one person" if d_in == 1 else f"{d_in} people"
    return PrivacyStatement(name, measure_name(measure), d_in, spent, parameters, unit, counted)
