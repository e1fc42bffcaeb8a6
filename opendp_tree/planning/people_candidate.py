"""People with many rows: what layers in which they weigh little can promise for a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.mechanisms.people.design import PeopleDesign, choose_design
from opendp_tree.mechanisms.people.estimator import make_people_estimator
from opendp_tree.planning.candidate import Candidate, Setting, Space, shown_from
from opendp_tree.planning.finding_candidates import cell_chance
from opendp_tree.planning.methods import Auto, Method, PeopleLayers, read_method
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

NEEDS = "a unit; where nodes must be found, epsilon and delta; for Gaussian noise, delta or rho"


def weighs_people(unit: Unit | None, method: Method | str) -> bool:
    """Whether a release is one in which people are weighed: any with a unit, unless rows are to be kept."""
    chosen = read_method(method)
    if isinstance(chosen, PeopleLayers) and (unit is None or not unit.weighs):
        raise ValueError(f"method ({chosen.name}) needs a unit whose rows are weighed. Hint: Unit('user', rows=5)")
    return unit is not None and unit.weighs and isinstance(chosen, (Auto, PeopleLayers))


def people_candidate(method: PeopleLayers, unit: Unit, setting: Setting) -> Candidate:
    """Nodes found with one row a person, if they must be found, and layers with weights."""
    facts, budget, alpha = setting
    no = partial(Candidate.infeasible, method.name, needs=NEEDS)
    wanted = facts.levels if method.levels is None else method.levels
    levels = tuple(range(facts.depth)) if facts.public or wanted is None else tuple(sorted({0, *wanted}))
    bounds = unit.bounds(len(levels))
    try:
        design = _design(method, unit, bounds, budget, None if facts.public else levels)
    except ValueError as error:
        return no(reason=str(error).split(". Hint:")[0])
    deviations = design.deviations()

    def build(space: Space) -> Priced:
        made = make_people_estimator(
            space.domain,
            space.metric,
            count=unit.count,
            epsilon=budget.epsilon,
            delta=budget.delta if budget.rho is None else 0.0,
            rho=budget.rho,
            rows=unit.rows,
            nodes=unit.nodes,
            noise=design.noise,
            measuring=method.measuring,
            levels=None if facts.public else levels,
            d_in=budget.d_in,
            confidence=space.confidence,
        )
        return budget.priced(made)

    cells = design.cells
    return Candidate(
        method.name if method.noise else f"people_{design.noise}",
        feasible=True,
        reason=f"noise of a count, by level from the root's: {', '.join(f'{each:.3g}' for each in deviations)}",
        needs=NEEDS,
        error=max(deviations),
        guarantee="epsilon and delta" if cells else "zCDP" if design.noise == "gaussian" else "pure epsilon",
        parameters={
            "count": unit.count,
            "noise": design.noise,
            "most": ", ".join(map(str, bounds)),
            "noise_deviations": ", ".join(f"{each:.4g}" for each in deviations),
            "threshold": "none" if cells is None else max(cells.shape.thresholds),
        },
        shown_from=0.0 if cells is None else shown_from(partial(cell_chance, cells), max(cells.shape.thresholds)),
        nonnegative=not (facts.public and design.adds_up),
        polishes=True,
        curve=partial(_curve, max(deviations), alpha),
        builder=build,
        budget=budget,
    )


def _design(
    method: PeopleLayers, unit: Unit, bounds: Sequence[int], budget: Budget, levels: Sequence[int] | None
) -> PeopleDesign:
    return choose_design(unit.count, bounds, budget, levels=levels, noise=method.noise, measuring=method.measuring)


def _curve(deviation: float, alpha: float, weights: Floats) -> Floats:
    return np.sqrt(2 * normal_excess(alpha * weights, np.full_like(weights, max(deviation, 1e-9))))


def people_candidates(auto: Auto, unit: Unit, setting: Setting) -> tuple[Candidate, ...]:
    """Both noises, the better first."""
    found = [
        people_candidate(PeopleLayers(noise, levels=auto.levels), unit, setting).wanted(auto)
        for noise in ("laplace", "gaussian")
    ]
    return tuple(sorted(found, key=lambda each: each.error if each.feasible else math.inf))


def planned_people(
    tree: Tree | OpenTree, unit: Unit, budget: Budget, *, alpha: float, method: Method | str
) -> Candidate:
    """The method's own candidate, or the better of both noises; one that is possible."""
    chosen = read_method(method)
    facts = TreeFacts.of(tree, levels=chosen.levels if isinstance(chosen, (Auto, PeopleLayers)) else None)
    setting = Setting(facts, budget, alpha)
    if isinstance(chosen, PeopleLayers):
        candidate = people_candidate(chosen, unit, setting)
    else:
        assert isinstance(chosen, Auto)
        candidate = people_candidates(chosen, unit, setting)[0]
    if not candidate.feasible:
        if not facts.public and budget.rho is not None and isinstance(unit.rows, int):
            raise ValueError(
                "rho must be epsilon and delta where nodes are unknown and people are weighed: finding nodes spends "
                "these. Hint: epsilon=1.0, delta=1e-6, or method='pruned_gaussian', which keeps rows of each"
            )
        raise ValueError(
            f"method ({chosen.name}) is not possible for this unit: {candidate.reason}. It needs {candidate.needs}. "
            "Hint: plan(..., unit=...).describe()"
        )
    return candidate
