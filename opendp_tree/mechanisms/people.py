"""People with many rows: found at one row each, then counted in layers in which each person weighs a bounded amount.

Weights are whole units, `UNITS` to 1, so that sums are exact whatever their order: a row weighs at most `UNITS`, and
sums over all people stay below 2**52. Nothing but `PeopleRelease` sees data. Proof: docs/proofs/people_layers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_positive,
    check_probability,
    is_zero,
    read_distance,
)
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.consistent import Consistency
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, choose_parameters, even_parameters, variance
from opendp_tree.mechanisms.layers import ShownTree, choose_layers, measure
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tails import layer_bounds, leaf_reaches
from opendp_tree.mechanisms.tree_estimator import (
    Found,
    GapNoise,
    KnownPlaces,
    check_levels,
    estimate_nodes,
    hidden_weight,
)
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance, one_or_all, single_bound
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.rows.people import PeoplePart, PeopleRecords, read_records, tree_of_people
from opendp_tree.rows.unit import COUNTS, level_bounds, weighed_words
from opendp_tree.theorems.interval import Interval, round_down, round_up
from opendp_tree.theorems.partition import estimator_loss, find_epsilon_delta
from opendp_tree.theorems.people_layers import (
    layer_l1,
    layer_l2_squared,
    layers_epsilon,
    layers_rho,
    node_units,
    node_units_squared,
    zcdp_epsilon_at,
)
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_people_estimator", "then_people_estimator"]

UNITS = 2**20
"""So many units are one: a person with a thousand leaves loses less than a thousandth to rounding."""
MEASURING = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Shares of epsilon that may measure, from which the one of least predicted error is taken."""
GAUSSIAN_DELTA = Fraction(1, 2)
"""Of delta, what Gaussian layers take where nodes must be found as well."""
SPREAD = 0.125
"""What each person of a cell adds to the variance of its gap, as a guess: being put there or elsewhere."""
_LESS = 1 - Fraction(1, 2**40)
"""Scales are made for a little less than the budget, so that rounding them up keeps it."""
_EVEN = 0.5
"""The share of epsilon that measures where gaps count people: leaves are found and other levels measured alike."""
_LADDER = 6
"""Deep trees are measured by a ladder of about so many layers, whatever their depth."""
_LEAST_SHARE = 2**17
"""No layer that is chosen by what was found has less than one over this of what all of them may cost."""
_PLACED = 0.5
"""Of the chance to miss a leaf's shares, what is for where people were put; the rest is for the noise of its gap."""
_ROUNDING = 1e-9
"""By so much of themselves bounds that floats compute are moved outward."""


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
    known: KnownNodes | None = None,
    noise: str | None = None,
    measuring: float | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
    confidence: float = 0.95,
) -> Measurement:
    """Counts of every node, from records of people with many rows each: a `TreeRelease`.

    In an open tree nodes are found with one row of each person, drawn at random; known nodes and what was found, or the
    whole of a public tree, are counted level by level, and nobody weighs more in a level than is declared. So a person
    costs 1 to find nodes, however many rows there are, and at each level the bound of that level.

    For k people: with Laplace noise epsilon is k times the sum of the cells' epsilon and, over the levels, of
    bound/scale; delta is the cells' at distance k. Gaussian noise has rho, k**2/2 times the sum of bound/scale**2 for
    people, of (bound/scale)**2 otherwise; in open trees it is turned into epsilon, with half of delta. The measure is
    `approximate(max_divergence())` where nodes must be found; otherwise `max_divergence()`, or
    `zero_concentrated_divergence()` with Gaussian noise. Proof: docs/proofs/people_layers.md.

    Parameters
    ----------
    input_domain
        `people_domain(tree)`: what `make_people_records` gives.
    input_metric
        `symmetric_distance`: how many people come or go.
    count
        What is counted: "rows" (the default), those of a person weighed down to `rows` in all; "people", each at every
        node where they are, weighed down to `nodes` nodes of a level; "shares", all rows of one person weighing 1, as
        "rows" does with `rows=1`.
    epsilon
        The privacy loss of `d_in` people. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Open trees need it, unless all known nodes are closed.
    rho
        The privacy loss of zero-concentrated differential privacy, where no nodes must be found, instead of `epsilon`.
    rows
        For "rows", what all rows of one person weigh at most: one number, or one for each shown level from the root's
        down. A public number, not the data's. By default None.
    nodes
        For "people", what one person weighs at all nodes of a level at most, shown or not: one number, or one for each
        shown level below the root's. A public number. By default None.
    known
        For an open tree, the nodes that are public: they are shown, empty ones too. None, the default, is the root
        alone.
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
    kept = check_levels(tree.depth, levels)
    if isinstance(tree, Tree) and len(kept) < tree.depth:
        raise ValueError("levels must be left out for a public tree, all of whose levels are counted")
    names = _names(tree, known)
    finds = names is not None and not all(names.closed)
    bounds = level_bounds(count, len(kept), rows=rows, nodes=nodes)
    unfunded = rho is None and epsilon is not None and is_zero(epsilon)
    budget = _budget(1.0 if unfunded else epsilon, delta, rho, d_in, finds=finds)
    share = None if measuring is None else float(check_probability(measuring, name="measuring"))
    design = choose_design(count, bounds, budget, finds=finds, noise=noise, measuring=share)
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)

    def privacy_map(people: int | float) -> float | tuple[float, float]:
        number = math.ceil(read_distance(people))
        loss = design.loss(number)
        return with_promised_delta(loss, budget.delta if number <= d_in else 0.0) if finds else loss[0]

    said = f"{weighed_words(count, 'person', rows=rows, nodes=nodes)}"
    statement = _statement(design, privacy_map(d_in), d_in, said, names)
    release = PeopleRelease(design, names, kept, sure, statement)

    def function(data: Any) -> TreeRelease:
        return release.make(read_records(data, tree=tree))

    return make_measurement(input_domain, input_metric, design.measure, function, privacy_map)


then_people_estimator = to_then(make_people_estimator)


def _names(tree: Tree | OpenTree, known: KnownNodes | None) -> KnownNodes | None:
    """The known nodes of an open tree; None for a public one."""
    if isinstance(tree, Tree):
        if known is not None:
            raise ValueError("known must be left out for a public tree, all of whose nodes are known")
        return None
    names = KnownNodes.of(tree, ()) if known is None else known
    if not isinstance(names, KnownNodes) or names.tree != tree:
        raise ValueError("known must be KnownNodes of the tree of input_domain. Hint: KnownNodes.of(tree, paths)")
    return names


def _budget(epsilon: Any, delta: Any, rho: Any, d_in: int, *, finds: bool) -> Budget:
    if (epsilon is None) == (rho is None):
        raise ValueError("exactly one of epsilon and rho must be given")
    lost = 0.0 if is_zero(delta) else float(check_probability(delta, name="delta"))
    if finds and (rho is not None or lost == 0):
        raise ValueError("epsilon and delta must be given where nodes must be found. Hint: epsilon=1.0, delta=1e-6")
    return Budget(
        None if epsilon is None else float(check_positive(epsilon, name="epsilon")),
        lost,
        None if rho is None else float(check_positive(rho, name="rho")),
        check_integer(d_in, name="d_in", least=1),
    )


def _statement(design: PeopleDesign, loss: Any, d_in: int, counted: str, known: KnownNodes | None) -> PrivacyStatement:
    """What a release costs, and what it was made with."""
    names = ["rho"] if design.measure == zero_concentrated_divergence() else ["epsilon", "delta"]
    spent = dict(zip(names, loss if isinstance(loss, tuple) else (loss,), strict=False))
    parameters: dict[str, int | float | str | None] = {
        "count": design.count,
        "noise": design.noise,
        "most": one_or_all(design.bounds),
        "noise_deviations": one_or_all([float(f"{each:.4g}") for each in design.deviations()]),
        "units": design.units,
    }
    if design.scales is not None:
        parameters["level_scales"] = one_or_all(design.scales)
    if design.parameters is not None:
        top = design.parameters.fringes[0]
        parameters |= {"scale": float(top.test_scale), "token_scale": float(top.token_scale)}
        parameters["threshold"] = design.threshold
    if known is not None:
        parameters["known"] = len(known.paths)
    name, unit = f"people_{design.noise}", "one person" if d_in == 1 else f"{d_in} people"
    return PrivacyStatement(name, measure_name(design.measure), d_in, spent, parameters, unit, counted)


@dataclass(frozen=True)
class PeopleDesign:
    """All that is decided before data: what is counted, what one person weighs at most by level, noise, finding."""

    count: str
    bounds: tuple[int, ...]
    noise: str
    scales: tuple[float, ...] | None
    """Of the levels' noise, in units; None where layers are chosen by what was found."""
    parameters: PartitionParameters | None
    """How nodes are found; None where none must be."""
    layer_delta: Fraction = Fraction(0)
    units: int = UNITS

    @property
    def adds_up(self) -> bool:
        """Whether a node counts what its children count, and no more."""
        return self.count != "people" and len(set(self.bounds)) == 1

    @property
    def threshold(self) -> int | None:
        """How many people a leaf needs to be found for sure; None where nothing is looked for."""
        tested = () if self.parameters is None else self.parameters.fringes[0].thresholds
        return tested[-1] if tested else None

    @property
    def measure(self) -> Any:
        """The privacy measure of the map."""
        if self.parameters is not None:
            return approximate(max_divergence())
        return max_divergence() if self.noise == "laplace" else zero_concentrated_divergence()

    def epsilon(self, people: int) -> Fraction:
        """The epsilon of all layers of Laplace noise for so many people."""
        distances = [layer_l1(people, most=bound, units=self.units) for bound in self.bounds]
        return layers_epsilon(distances, scales=[Fraction(scale) for scale in self.scales or ()])

    def rho(self, people: int) -> Fraction:
        """The rho of Gaussian layers for so many people."""
        squares = [layer_l2_squared(people, most=bound, units=self.units) for bound in squared_bounds(self)]
        return layers_rho(squares, scales=[Fraction(scale) for scale in self.scales or ()])

    def loss(self, people: int) -> tuple[float, float]:
        """What everything costs so many people: epsilon and delta; or rho and 0 for Gaussian noise on known nodes."""
        if people == 0:
            return 0.0, 0.0
        if self.parameters is None:
            return round_up(self.rho(people) if self.noise == "gaussian" else self.epsilon(people)), 0.0
        given = self.parameters
        if self.scales is None:
            epsilon, delta = estimator_loss(given.fringes, alphas=given.alphas, betas=given.betas, k=people)
            return round_up(epsilon), min(1.0, round_up(delta))
        epsilon, delta = find_epsilon_delta(given.fringes, k=people)
        if self.noise == "laplace":
            return round_up(epsilon + Interval.of(self.epsilon(people))), min(1.0, round_up(delta))
        rho = self.rho(people)
        measured = zcdp_epsilon_at(rho, self.layer_delta, order=best_order(float(rho), float(self.layer_delta)))
        return round_up(epsilon + measured), min(1.0, round_up(delta + Interval.of(self.layer_delta)))

    def deviations(self) -> tuple[float, ...]:
        """The predicted standard deviation of each shown level's noise, in what is counted."""
        if self.scales is None:
            given, size = self.parameters, len(self.bounds)
            assert given is not None
            layers = max(size - 2, 1) if size <= NAMED else _LADDER
            above = math.sqrt(variance(layers / float(given.alphas)) + variance(layers / float(given.betas)))
            top = given.fringes[0]
            leaf = math.sqrt(variance(float(top.test_scale)) + variance(float(top.token_scale)))
            return (above,) * (size - 1) + (leaf if size > 1 else above,)
        spread = laplace_variance if self.noise == "laplace" else gaussian_variance
        return tuple(math.sqrt(spread(scale)) / self.units for scale in self.scales)


def squared_bounds(design: PeopleDesign) -> tuple[int, ...]:
    """The squares of what one person weighs at most: people are bounded by these, rows and shares by their sum."""
    return design.bounds if design.count == "people" else tuple(bound**2 for bound in design.bounds)


def choose_design(
    count: str,
    bounds: Sequence[int],
    budget: Budget,
    *,
    finds: bool,
    noise: str | None = None,
    measuring: float | None = None,
) -> PeopleDesign:
    """The design of least predicted noise for a budget; a ValueError where none fits."""
    found, reason = [], "epsilon must be larger"
    for each in ("laplace", "gaussian") if noise is None else (noise,):
        try:
            if not finds:
                found.append(_known(PeopleDesign(count, tuple(bounds), each, (), None), budget))
            else:
                found += _finding(count, tuple(bounds), budget, each, measuring)
        except ValueError as error:
            reason = str(error)
    if not found:
        raise ValueError(reason)
    return min(found, key=predicted_error)


def predicted_error(design: PeopleDesign) -> float:
    """What designs are chosen by: noise over the levels, and what of a node is missed that is not found."""
    spread = sum(deviation**2 for deviation in design.deviations()) / len(design.bounds)
    if design.threshold is None:
        return math.sqrt(spread)
    # A node of which half a threshold was put there is not found; with it goes what these people weigh.
    missed = design.threshold / 2 * math.sqrt(design.bounds[-1] if design.count == "rows" else 1)
    return math.sqrt(spread + missed**2)


def _known(empty: PeopleDesign, budget: Budget) -> PeopleDesign:
    """The design where no nodes must be found."""
    if empty.noise == "gaussian":
        if budget.rho is None and budget.delta == 0:
            raise ValueError("delta must be above 0 for Gaussian noise. Hint: delta=1e-6, or noise='laplace'")
        rho = rho_within(*budget.exact) if budget.rho is None else Fraction(budget.rho)
        return _gaussian(empty, rho, budget.d_in)
    if budget.rho is None:
        return _laplace(empty, budget.exact[0], budget.d_in)
    return _laplace(empty, Fraction(round_down(Fraction(math.sqrt(2 * budget.rho)) * _LESS)), budget.d_in)


def _finding(
    count: str, bounds: tuple[int, ...], budget: Budget, noise: str, measuring: float | None
) -> list[PeopleDesign]:
    """The designs with one noise where nodes must be found."""
    if budget.epsilon is None or budget.delta == 0:
        raise ValueError("epsilon and delta must be given: which nodes there are cannot be found without them")
    if count != "people" and set(bounds) == {1} and noise == "laplace":
        return [_by_gaps(count, bounds, budget, measuring)]
    designs = []
    for share in MEASURING if measuring is None else (measuring,):
        try:
            designs.append(_layered(count, bounds, budget, noise, Fraction(share)))
        except ValueError:
            if measuring is not None:
                raise
    if not designs:
        raise ValueError("epsilon and delta must be larger for what is to be found and measured")
    return designs


def _by_gaps(count: str, bounds: tuple[int, ...], budget: Budget, measuring: float | None) -> PeopleDesign:
    """Where everybody weighs 1, gaps tell what leaves hold, and layers are those of the tree estimator."""
    epsilon, delta = budget.exact
    if measuring is None and 2 < len(bounds) <= NAMED:
        measuring = _EVEN
    given = choose_parameters(len(bounds), epsilon, delta, d_in=budget.d_in, measuring=measuring)
    if min(given.alphas, given.betas) * Fraction(LARGEST_SCALE) < _LEAST_SHARE * UNITS:
        raise ValueError("epsilon must be larger: noise of such a scale cannot be drawn")
    return PeopleDesign(count, bounds, "laplace", None, given)


def _layered(count: str, bounds: tuple[int, ...], budget: Budget, noise: str, share: Fraction) -> PeopleDesign:
    """Nodes are found by what measuring leaves, and known ones are silent."""
    epsilon, delta = budget.exact
    taken = Fraction(round_down(delta * GAUSSIAN_DELTA)) if noise == "gaussian" else Fraction(0)
    given = even_parameters(len(bounds), epsilon, delta - taken, finding=1 - share, d_in=budget.d_in, silent=True)
    empty, left = PeopleDesign(count, bounds, noise, (), given, layer_delta=taken), given.alphas * budget.d_in
    if noise == "laplace":
        return _laplace(empty, left, budget.d_in)
    return _gaussian(empty, rho_within(left, taken), budget.d_in)


def _laplace(empty: PeopleDesign, epsilon: Fraction, people: int) -> PeopleDesign:
    """Scales of which the sum of standard deviations is least: a level's share is as the root of its bound."""
    roots = [Fraction(math.sqrt(bound)) for bound in empty.bounds]
    each = [epsilon * _LESS * root / sum(roots) for root in roots]
    distances = [layer_l1(people, most=bound, units=empty.units) for bound in empty.bounds]
    return _checked(empty, [round_up(distance / share) for distance, share in zip(distances, each, strict=True)])


def _gaussian(empty: PeopleDesign, rho: Fraction, people: int) -> PeopleDesign:
    """The same for Gaussian noise, whose shares of rho are as the cube root of the bounds' squares."""
    squares = [layer_l2_squared(people, most=bound, units=empty.units) for bound in squared_bounds(empty)]
    roots = [Fraction((square / squares[0]) ** (1 / 3)) for square in squares]
    each = [rho * _LESS * root / sum(roots) for root in roots]
    needed = [round_up(square / (2 * share)) for square, share in zip(squares, each, strict=True)]
    return _checked(empty, [math.sqrt(square) * (1 + 2.0**-45) for square in needed])


def _checked(empty: PeopleDesign, scales: Sequence[float]) -> PeopleDesign:
    largest = LARGEST_SCALE / 2 if empty.noise == "gaussian" else LARGEST_SCALE
    if max(scales) > largest:
        raise ValueError("epsilon must be larger, or bounds smaller: noise of such a scale cannot be drawn")
    return replace(empty, scales=tuple(scales))


def best_order(rho: float, delta: float) -> Fraction:
    """About the order of Renyi divergence at which rho has the least epsilon; any order is sound."""

    def epsilon(log: float) -> float:
        order = 1 + math.exp(log)
        return rho * order + (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)

    low, high = -12.0, 40.0
    for _ in range(90):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, right) if epsilon(left) < epsilon(right) else (left, high)
    return Fraction(1 + math.exp((low + high) / 2))


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, nearly, that has at most this epsilon at a delta."""
    low, high = Fraction(0), Fraction(epsilon)
    for _ in range(50):
        middle = (low + high) / 2
        order = best_order(float(middle), float(delta))
        fits = Fraction(zcdp_epsilon_at(middle, delta, order=order).hi) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    found = Fraction(round_down(low))
    if found == 0:
        raise ValueError("epsilon and delta must be larger for Gaussian noise. Hint: noise='laplace'")
    return found


def leaf_units(part: PeoplePart, bound: int, *, units: int = UNITS) -> Ints:
    """For each leaf what all rows there weigh: `row_units`, over all records."""
    totals = part.totals
    weighed = totals > bound  # others count as they are
    whole, rest = np.divmod(units * bound, totals)
    whole, rest = np.where(weighed, whole, units), np.where(weighed, rest, 0)
    # whole * rows + rest * rows // totals is the floor of units * bound * rows / totals, in numbers that fit.
    lengths, rows = part.lengths, part.rows
    weights = np.repeat(whole, lengths) * rows
    left = np.flatnonzero(np.repeat(rest > 0, lengths))
    person = part.people[left]
    product = rest[person].astype(np.uint64) * rows[left].astype(np.uint64)
    weights[left] += (product // totals[person].astype(np.uint64)).astype(np.int64)
    return part.added(weights)


def people_units(
    part: PeoplePart, node_of_leaf: Ints, size: int, bound: int, *, squared: bool, units: int = UNITS
) -> Ints:
    """For each of all nodes of a level what people there weigh: each `node_units` at every node where they are."""
    nodes = node_of_leaf[part.leaves]
    inside = nodes >= 0
    pairs = part.people[inside] * np.int64(max(size, 1)) + nodes[inside]
    if (pairs[1:] < pairs[:-1]).any():
        pairs = np.sort(pairs)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    people, nodes = np.divmod(pairs, max(size, 1))
    held = np.bincount(people, minlength=part.starts.size)
    weigh: Callable[..., int] = node_units_squared if squared else node_units
    distinct, which = np.unique(held, return_inverse=True)
    table = np.array([weigh(max(each, 1), most=bound, units=units) for each in distinct.tolist()], dtype=np.int64)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, nodes, table[which][people])
    return sums


@dataclass(frozen=True)
class PeopleRelease:
    """How records become a release; all of it is public."""

    design: PeopleDesign
    known: KnownNodes | None
    """None for a public tree."""
    levels: tuple[int, ...]
    confidence: float
    statement: PrivacyStatement

    def make(self, records: PeopleRecords) -> TreeRelease:
        """The release of the records, which are read once; twice where people are counted at nodes that are found."""
        if isinstance(records.tree, Tree):
            return self._public(records, records.tree)
        assert self.known is not None
        design, places = self.design, KnownPlaces.of(self.known, self.levels, records.sparse)
        # Where gaps count people, everybody is put somewhere; else only where somebody's place may be shown.
        drawn = None if design.scales is None else places.unknown[places.place_of]
        bounds = [] if design.count == "people" else list(dict.fromkeys(design.bounds))
        weigh: list[Callable[[PeoplePart], Ints]] = [partial(PeoplePart.placed, among=drawn)]
        weigh += [partial(leaf_units, bound=bound, units=design.units) for bound in bounds]
        placed, *units = records.summed(*weigh)
        found = Found.of(places.with_counts(placed), design.parameters)
        if design.scales is None:
            return self._by_gaps(found, units[0])
        if design.count == "people":
            return self._layered(found, self._people(records, found))
        sums = np.zeros(found.shown.levels.size, dtype=np.int64)
        for bound, counts in zip(bounds, units, strict=True):
            here = np.isin(found.shown.levels, [level for level, each in enumerate(design.bounds) if each == bound])
            sums[here] = saturate.join(*found.people(here, counts))[here]
        return self._layered(found, sums)

    def _public(self, records: PeopleRecords, tree: Tree) -> TreeRelease:
        """Every node of a public tree: level by level, and least squares where levels add up."""
        design, noisy = self.design, np.zeros(tree.node_count)
        scales, bounds = self._scales, design.bounds
        if design.count == "people":
            owners = [partial(_owners, tree, level) for level in range(tree.depth)]
            sums = self._people_at(records, owners, [np.arange(nodes.size) for nodes in tree.levels])
        else:
            weights = list(dict.fromkeys(bounds))
            units = records.summed(*(partial(leaf_units, bound=bound, units=design.units) for bound in weights))
            by_bound = {bound: tree.sum(each) for bound, each in zip(weights, units, strict=True)}
            sums = tuple(by_bound[bound][nodes] for bound, nodes in zip(bounds, tree.levels, strict=True))
        for level, nodes in enumerate(tree.levels):
            noisy[nodes] = self._noisy(sums[level], scales[level])
        if design.adds_up:
            variances = np.array([self._variance(scale) for scale in scales])[tree.node_levels]
            release = self._consistent(tree, variances).release(noisy, self.statement)
            parts = {name: getattr(release, name) / design.units for name in ("estimates", "lower", "upper")}
            return replace(release, **parts, fit=None)
        reach = np.array([self._reach(scale) for scale in scales])[tree.node_levels]
        return TreeRelease(tree, *_around(noisy / design.units, reach), self.confidence, self.statement, adds_up=False)

    def _layered(self, found: Found, sums: Ints) -> TreeRelease:
        """Shown nodes of an open tree, level by level; with rests and least squares where levels add up."""
        if self.design.adds_up:
            estimates, reach = self._joined(found.shown, sums)
        else:
            estimates = np.zeros(sums.size)
            reach = np.array([self._reach(scale) for scale in self._scales])[found.shown.levels]
            for level, scale in enumerate(self._scales):
                here = found.shown.at(level)
                estimates[here] = self._noisy(sums[here], scale) / self.design.units
        return self._released(found, *_around(estimates, reach))

    def _joined(self, shown: ShownTree, sums: Ints) -> tuple[Floats, Floats]:
        """Least squares over all layers: each has its level's nodes, and what is left over above them."""
        size, inner = shown.levels.size, np.flatnonzero(shown.child_counts > 0)
        parents = np.concatenate((shown.parents, inner))
        rest = sums.copy()
        np.subtract.at(rest, shown.parents[1:], sums[1:])
        values = np.concatenate((sums, rest[inner]))
        first = np.concatenate((shown.levels, shown.levels[inner] + 1))  # the first layer that counts it
        last = np.full(values.size, shown.depth)
        last[inner] = shown.levels[inner]
        total, precision = np.zeros(values.size), np.zeros(values.size)
        for level, scale in enumerate(self._scales):
            here = np.flatnonzero((first <= level) & (level <= last))
            weight = 1 / self._variance(scale)
            total[here] += weight * self._noisy(values[here], scale)
            precision[here] += weight
        solved = self._consistent(Tree.from_parents(parents), 1 / precision).release(total / precision, None)
        reach = (solved.upper - solved.lower) / 2
        return solved.estimates[:size] / self.design.units, reach[:size] / self.design.units

    def _by_gaps(self, found: Found, units: Ints) -> TreeRelease:
        """Everybody weighs 1, as in the gaps: the layers, and the least squares, of the tree estimator."""
        given, shown, miss = self.design.parameters, found.shown, 1 - self.confidence
        assert given is not None
        model = GapNoise.of(given, found.tops, shown)
        model = replace(model, spread=model.spread + SPREAD * np.maximum(shown.gaps, 0))
        layers = choose_layers(shown, model.rest_variance(shown), given.alphas, given.betas)
        # A power of two changes no digit of a scale.
        wide = [
            replace(layer, right_scale=layer.right_scale * UNITS, left_scale=layer.left_scale * UNITS)
            for layer in layers.layers
        ]
        fine = measure(replace(layers, layers=tuple(wide)), *found.people(layers.marked, units))
        measured = tuple(replace(part, sums=part.sums / UNITS, unit=1 / UNITS) for part in fine)
        estimates = np.maximum(estimate_nodes(shown, measured, model), 0)
        lower, upper = layer_bounds(shown, layers, measured, least=np.zeros(estimates.size), miss=miss * 0.99)
        leaves = np.flatnonzero((shown.levels == shown.depth - 1) & ~layers.marked)
        below, beyond = leaf_reaches(given, found.tops[leaves], miss * (1 - _PLACED))
        lower[leaves] = least_shares(np.maximum(shown.gaps[leaves] - below, 0), miss * _PLACED / 2)
        upper[leaves] = most_shares(np.maximum(shown.gaps[leaves] + beyond, 0), miss * _PLACED / 2)
        lower, upper = np.minimum(np.maximum(lower, 0), estimates), np.maximum(upper, estimates)
        return self._released(found, estimates, lower, upper, hidden=self._hidden(found))

    def _hidden(self, found: Found) -> float | None:
        """What a node that is not shown weighs at most: people put there, and those who were put elsewhere."""
        given, miss = self.design.parameters, 1 - self.confidence
        assert given is not None
        most = hidden_weight(given, self.levels, found.places.counts.tree.depth, miss * (1 - _PLACED))
        return float(most_shares(np.array([most]), miss * _PLACED)[0]) if math.isfinite(most) else None

    def _people(self, records: PeopleRecords, found: Found) -> Ints:
        """What people weigh at shown nodes, who weigh the same whatever is shown."""
        occupied, shown = found.places.counts.occupied, found.shown

        def nodes_of_places(level: int) -> Ints:
            starts, ends = occupied.nodes_at(self.levels[level])
            owner = np.full(occupied.levels.size, -1)
            inside = np.repeat(np.arange(starts.size), ends - starts)
            firsts = np.repeat(starts - np.append(0, np.cumsum(ends - starts)[:-1]), ends - starts)
            owner[firsts + np.arange(inside.size)] = inside
            return owner

        def nodes_of_leaves(level: int) -> Ints:
            return nodes_of_places(level)[found.places.place_of]

        levels = range(len(self.levels))
        here = [found.first[shown.at(level)] for level in levels]
        wanted = [nodes_of_places(level)[places] for level, places in zip(levels, here, strict=True)]
        owners = [partial(nodes_of_leaves, level) for level in levels]
        sums: Ints = np.concatenate(self._people_at(records, owners, wanted))
        return sums

    def _people_at(
        self, records: PeopleRecords, owners: Sequence[Callable[[], Ints]], wanted: Sequence[Ints]
    ) -> tuple[Ints, ...]:
        """For each level what people weigh at some of its nodes; `owners` gives the node of each leaf, -1 for none."""

        def weigh(level: int, part: PeoplePart) -> Ints:
            nodes, squared = owners[level](), self.design.noise == "gaussian"
            size = 1 + max(int(nodes.max(initial=-1)), int(wanted[level].max(initial=-1)))
            units = people_units(part, nodes, size, self.design.bounds[level], squared=squared, units=self.design.units)
            return units[wanted[level]]

        return records.summed(*(partial(weigh, level) for level in range(len(owners))))

    @property
    def _scales(self) -> tuple[float, ...]:
        assert self.design.scales is not None
        return self.design.scales

    def _noisy(self, sums: Ints, scale: float) -> Floats:
        drawn = (noise.laplace if self.design.noise == "laplace" else noise.gaussian)(scale, sums.size)
        return saturate.add(sums, drawn).astype(np.float64)

    def _variance(self, scale: float) -> float:
        return laplace_variance(scale) if self.design.noise == "laplace" else gaussian_variance(scale)

    def _reach(self, scale: float) -> float:
        return (single_bound(self.design.noise, scale, self.confidence) + 1) / self.design.units

    def _consistent(self, tree: Tree, variances: Floats) -> Consistency:
        kind, sure = self.design.noise, self.confidence
        return Consistency.of(tree, variances, noise=kind, confidence=sure, nonnegative=False, integers=False)

    def _released(
        self, found: Found, estimates: Floats, lower: Floats, upper: Floats, hidden: float | None = None
    ) -> TreeRelease:
        """Nodes of levels that are not shown have no numbers."""
        wanted, shown = found.wanted, found.shown
        values, least, most = np.zeros(wanted.size), np.zeros(wanted.size), np.full(wanted.size, np.inf)
        values[wanted], least[wanted], most[wanted] = estimates, lower, upper
        cells = np.zeros(wanted.size, dtype=np.int64)
        cells[wanted] = np.rint(shown.totals(shown.is_cell.astype(np.float64)))
        return TreeRelease(
            found.places.counts.tree,
            values,
            least,
            most,
            self.confidence,
            self.statement,
            cells=cells,
            nodes=found.nodes,
            shown=None if wanted.all() else wanted,
            hidden=hidden,
            adds_up=self.design.adds_up,
        )


def _around(estimates: Floats, reach: Floats) -> tuple[Floats, Floats, Floats]:
    """Estimates that are not negative, since nobody weighs less than nothing, and intervals around the noise."""
    return np.maximum(estimates, 0), np.maximum(estimates - reach, 0), np.maximum(estimates + reach, 0)


def _owners(tree: Tree, level: int) -> Ints:
    """For each leaf of a public tree which of a level's nodes holds it; -1 for a leaf above that level."""
    deep, nodes = tree.node_levels[tree.leaves] >= level, tree.levels[level]
    above = tree.ancestors_at(tree.leaves, np.full(tree.leaves.size, level))
    place = np.full(tree.node_count, -1)
    place[nodes] = np.arange(nodes.size)
    return np.where(deep, place[above], -1)


def most_shares(placed: Floats | Ints, chance: float) -> Floats:
    """The most that the shares of people may be, of whom so many or fewer were put there, but for this chance."""
    n = np.asarray(placed, dtype=np.float64)
    far = math.log(1 / chance)
    return _crossing(n, n + 2 * far + 2 * np.sqrt(n * far) + 1, n, chance) * (1 + _ROUNDING)


def least_shares(placed: Floats | Ints, chance: float) -> Floats:
    """The least that the shares of people may be, of whom so many or more were put there, but for this chance."""
    n = np.asarray(placed, dtype=np.float64)
    return _crossing(n, np.zeros(n.size), n, chance) * (1 - _ROUNDING)


def _crossing(near: Floats, far: Floats, n: Floats, chance: float) -> Floats:
    """Between shares that are likely, with so many people put there, and others: Chernoff's bound for sums of coins."""
    for _ in range(60):
        middle = (near + far) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(n > 0, n * np.log(middle / np.maximum(n, 1e-300)), 0.0)
        likely = n - middle + rest > math.log(chance)
        near, far = np.where(likely, middle, near), np.where(likely, far, middle)
    return far
