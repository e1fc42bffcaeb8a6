"""What each method promises for a hierarchy and a budget, the best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from opendp_tree._arguments import check_scale, shortened
from opendp_tree.budget import Budget
from opendp_tree.planning.candidate import Candidate, Setting
from opendp_tree.planning.finding_candidates import partition_candidate, pruned_candidate
from opendp_tree.planning.line_candidates import line_candidate
from opendp_tree.planning.methods import (
    MECHANISMS,
    REFERENCES,
    Auto,
    Curve,
    Line,
    Mechanism,
    Method,
    MultiplicativeEstimator,
    Partition,
    PeopleLayers,
    PrunedDescent,
    TreeNoise,
    read_method,
)
from opendp_tree.planning.public_candidates import noise_candidate, paper_candidate
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree


def check_alpha(alpha: float) -> float:
    """A share of a count, from 0 to below 1."""
    if check_scale(alpha, name="alpha") >= 1:
        raise ValueError(f"alpha ({shortened(alpha)}) must be at least 0 and below 1")
    return float(alpha)


def ranked(auto: Auto, setting: Setting, mechanisms: Sequence[Mechanism] = MECHANISMS) -> tuple[Candidate, ...]:
    """Candidates, the best first and impossible ones last."""
    candidates = [_of_levels(_guarded(each, setting, auto), setting.facts).wanted(auto) for each in mechanisms]
    return tuple(sorted(candidates, key=lambda each: _rank(each, auto.aim)))


def best_candidate(auto: Auto, setting: Setting) -> Candidate:
    """The best of a plan. What cannot be is not computed: references, and noise on nodes that nobody knows."""
    public = setting.facts.public
    able = [each for each in MECHANISMS if each.name not in REFERENCES and (public or not isinstance(each, TreeNoise))]
    return ranked(auto, setting, able)[0]


def candidate_for(method: Mechanism, setting: Setting) -> Candidate:
    """What one method promises."""
    with np.errstate(all="ignore"):
        if isinstance(method, TreeNoise):
            return noise_candidate(method, setting)
        if isinstance(method, PrunedDescent):
            return pruned_candidate(method, setting)
        if isinstance(method, Partition):
            return partition_candidate(method, setting)
        return paper_candidate(method, setting)


def _guarded(method: Mechanism, setting: Setting, auto: Auto) -> Candidate:
    """A candidate for what is asked of the release; not feasible where numbers give out."""
    if isinstance(method, TreeNoise):
        method = replace(method, nonnegative=auto.nonnegative, integers=auto.integers)
    try:
        candidate = candidate_for(method, setting)
    except (ArithmeticError, MemoryError, ValueError):
        candidate = None
    if candidate is not None and (math.isfinite(candidate.error) or not candidate.feasible):
        return candidate
    return Candidate.infeasible(
        method.name,
        reason="this depth and budget are beyond what can be computed",
        needs="a budget that is less extreme",
    )


def _of_levels(candidate: Candidate, facts: TreeFacts) -> Candidate:
    """The candidate, if it counts no other levels than are wanted."""
    if candidate.feasible and facts.leaves_out and not facts.public and candidate.name != Partition.name:
        return Candidate.infeasible(candidate.name, reason="it cannot leave out levels", needs="levels=None")
    return candidate


def _rank(candidate: Candidate, aim: str) -> tuple[bool, float, float, bool]:
    # Where least squares is only known to be no worse, it comes first.
    first, second = candidate.error, candidate.shown_from
    if aim == "keys":
        first, second = second, first
    return not candidate.feasible, first, second, candidate.name in REFERENCES


def planned_candidate(tree: Tree | OpenTree, budget: Budget, *, alpha: float, method: Method | str) -> Candidate:
    """The method's own candidate, or the best of all; one that is possible."""
    chosen = read_method(method)
    if isinstance(tree, Tree) and tree.ranges is not None and chosen == Auto():
        chosen = Curve()
    if isinstance(chosen, Line):
        return line_candidate(
            chosen, tree, budget, group=lambda groups, part: planned_candidate(groups, part, alpha=alpha, method="auto")
        )
    facts = TreeFacts.of(tree, levels=chosen.levels if isinstance(chosen, Auto) else None)
    setting = Setting(facts, budget, check_alpha(alpha))
    if isinstance(chosen, PeopleLayers):
        raise ValueError(f"method ({chosen.name}) is for records of people. Hint: unit=Unit('user', rows=5)")
    candidate = best_candidate(chosen, setting) if isinstance(chosen, Auto) else candidate_for(chosen, setting)
    if candidate.feasible:
        return candidate
    if isinstance(chosen, TreeNoise | MultiplicativeEstimator) and not facts.public:
        raise ValueError(
            f"method ({chosen.name}) must be one for unknown nodes, or all nodes must be known: {candidate.reason}. "
            "Hint: method='auto', or Key.columns(..., tree=Tree.from_paths(...))"
        )
    if not facts.public and budget.delta == 0:
        raise ValueError(
            "delta must be above 0 where nodes are unknown: without a chance of a larger loss, none can be found. "
            "Hint: delta=1e-6, or a public tree: Key.columns(..., tree=Tree.from_paths(...))"
        )
    if facts.leaves_out and not facts.public and budget.rho is not None:
        raise ValueError(
            "levels must be left out with rho where nodes are unknown: only the partition leaves levels out, and it "
            "spends epsilon and delta. Hint: epsilon=1.0, delta=1e-6"
        )
    what = "nothing is possible" if isinstance(chosen, Auto) else f"method ({chosen.name}) is not possible"
    raise ValueError(f"{what}: {candidate.reason}. It needs {candidate.needs}. Hint: plan(...).describe()")
