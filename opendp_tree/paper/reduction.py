"""Reduction: an estimate for every node, from a ladder of classifications, and intervals that the ladder implies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_positive, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Floats, Ints
from opendp_tree.paper.classification import AccuracyWarning, Forest, classify, fitting, remove, shortfall, whole
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.distances import group_loss
from opendp_tree.theorems.interval import round_down, round_up
from opendp_tree.theorems.paper import Classifier, Ladder, Round, reduction_loss
from opendp_tree.trees.arrays import LevelOrder
from opendp_tree.trees.domains import CountSpace, check_metric
from opendp_tree.trees.tree import Tree

__all__ = ["make_ladder_estimator", "then_ladder_estimator"]


@dataclass(frozen=True)
class Rungs:
    """For each rung of a ladder, from the lowest up, its estimate and the counts that the guarantee allows there."""

    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: float

    @classmethod
    def of(cls, ladder: Ladder, classifiers: Sequence[Classifier], *, accurate: bool = True) -> Rungs:
        """The rungs of a ladder."""
        runs = zip(ladder.rounds, classifiers, strict=True)
        holds = accurate and ladder.is_connected() and all(run.is_accurate(step) for step, run in runs)
        bounds = [min(LIMIT, math.floor(mass)) for mass in ladder.masses]
        lower = [0, *(math.ceil((1 - step.alpha) * step.threshold) for step in ladder.rounds)]
        return cls(
            estimates=np.array(bounds, dtype=np.float64),
            # Floats do not hold all integers beyond 2**53: outward.
            lower=np.array([round_down(Fraction(count)) if holds else 0.0 for count in lower]),
            upper=np.array([round_up(Fraction(bound)) if holds else math.inf for bound in bounds]),
            confidence=max(0.0, round_down(1 - ladder.eta)),
        )

    def release(self, tree: Tree, places: Ints, statement: PrivacyStatement) -> TreeRelease:
        """A release of nodes, each on its rung."""
        return TreeRelease(
            tree, self.estimates[places], self.lower[places], self.upper[places], self.confidence, statement
        )


def paper_statement(
    mechanism: str, loss: tuple[float, float], parameters: Mapping[str, int | float | str | None]
) -> PrivacyStatement:
    """What one of the paper's estimators costs one person."""
    epsilon, delta = loss
    return PrivacyStatement(
        mechanism, "approximate(max_divergence())", 1, {"epsilon": epsilon, "delta": delta}, parameters
    )


def make_ladder_estimator(
    input_domain: Domain, input_metric: Metric, *, ladder: Ladder, tree: Tree | None = None
) -> Measurement:
    """An estimate of every node's count from a ladder of classifications: the paper's Algorithm Reduction.

    `approximate(max_divergence())`: at distance 1 the sum of what the ladder's rounds spend, at distance k by group
    privacy. Proof: docs/proofs/reduction.md.

    The rounds are run from the highest down. What a round finds above is estimated by the round's mass, rounded
    down; the rest, all of it, goes on to the next round; what no round finds above is estimated by `ladder.base`.
    Accuracy: if the root weighs at most the highest mass, then with probability at least 1 - `ladder.eta` a node's
    estimate is at most `ladder.alpha` times its count above its count, or its count is at most `ladder.base`. This
    takes a connected ladder and rounds whose accuracy is guaranteed, or else there is an `AccuracyWarning`. Leaf counts
    below 0 are taken as 0, and a node's count is the sum of those. The release is a `TreeRelease` whose intervals are
    what that guarantee implies: a round's nodes weigh from (1 - alpha) * threshold to its mass, the rest from 0 to the
    base; where nothing is guaranteed, from 0 to infinity.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared size, vectors are
        cut to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`, of an integer type or f64.
    ladder
        The rounds, each with its mass, threshold and budget, and the estimate of what no round finds above.
    tree
        The tree, where `input_domain` does not carry it.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> from opendp_tree.paper import Ladder, Round
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> low = Round(mass=2900, eta=0.05, alpha=0.25, threshold=2000, epsilon=0.5, delta=1e-7)
    >>> high = Round(mass=3400, eta=0.05, alpha=0.25, threshold=2300, epsilon=0.5, delta=1e-7)
    >>> ladder = Ladder(base=2500, rounds=(low, high))
    >>> estimator = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_ladder_estimator(ladder=ladder)
    >>> estimator.map(1)
    (1.0, 1.6106090981102968e-07)
    >>> release = estimator(tree.count([3] * 3300 + [5] * 100))
    >>> release.estimates
    array([3400., 3400., 2500., 3400., 2500., 2500., 2500.])
    >>> release.lower
    array([1725., 1725.,    0., 1725.,    0.,    0.,    0.])
    """
    assert_features("contrib")
    space, tree = CountSpace.of_leaves(input_domain, tree)
    check_metric(input_metric, l1_distance)
    ladder = _check_ladder(ladder)
    classifiers = run_by(ladder, depth=tree.depth)
    if not ladder.is_connected():
        warnings.warn(
            "accuracy is not guaranteed (privacy is): in ladder, some round leaves more to the one below than its mass",
            AccuracyWarning,
            stacklevel=2,
        )
    order = tree.level_order
    found, places, loss = Rungs.of(ladder, classifiers), range(len(classifiers) + 1), reduction_loss(classifiers)
    parameters = {"alpha": float(ladder.alpha), "eta": float(ladder.eta), "rounds": len(classifiers)}

    def function(data: Any) -> TreeRelease:
        weights = tree.sum(space.read_people(data))[order.nodes]
        by_node = reduce_to_classes(order, whole(order), weights, classifiers, places)
        statement = paper_statement("ladder_estimator", group_loss(*loss, k=1), parameters)
        return found.release(tree, by_node, statement)

    return make_measurement(
        input_domain,
        input_metric,
        approximate(max_divergence()),
        function,
        lambda d_in: group_loss(*loss, k=math.floor(read_distance(d_in))),
    )


then_ladder_estimator = to_then(make_ladder_estimator)


def _check_ladder(ladder: Ladder) -> Ladder:
    if not isinstance(ladder, Ladder):
        raise TypeError(f"ladder ({type(ladder).__name__}) must be a Ladder")
    rounds = tuple(
        Round(
            mass=check_scale(_float(step.mass, name="mass"), name="mass"),
            eta=check_probability(_float(step.eta, name="eta"), name="eta"),
            alpha=check_probability(_float(step.alpha, name="alpha"), name="alpha"),
            threshold=check_positive(_float(step.threshold, name="threshold"), name="threshold"),
            epsilon=check_positive(_float(step.epsilon, name="epsilon"), name="epsilon"),
            delta=check_probability(_float(step.delta, name="delta"), name="delta"),
        )
        for step in ladder.rounds
    )
    return Ladder(check_scale(_float(ladder.base, name="base"), name="base"), rounds)


def _float(value: Rational | float, *, name: str) -> float:
    """A ladder's number as a float: what is promised is computed from it, so how it was rounded does not matter."""
    if isinstance(value, bool) or not isinstance(value, (Rational, float)):
        raise TypeError(f"ladder: {name} ({value!r}) must be a number")
    return float(value)


def run_by(ladder: Ladder, *, depth: int) -> tuple[Classifier, ...]:
    """The classifiers of a ladder's rounds, from the lowest up; warns where their accuracy is not guaranteed."""
    classifiers = tuple(fitting(step, depth=depth) for step in ladder.rounds)
    for place, (step, run) in enumerate(zip(ladder.rounds, classifiers, strict=True), start=1):
        if (missing := shortfall(step, run, depth=depth)) is not None:
            warnings.warn(f"round {place} of {len(classifiers)}: {missing}", AccuracyWarning, stacklevel=3)
            break
    return classifiers


def reduce_to_classes(
    order: LevelOrder, forest: Forest, weights: Ints, classifiers: Sequence[Classifier], estimates: Sequence[int]
) -> Ints:
    """An estimate for each node id: by the first round, from the highest down, that finds the node above."""
    found = np.full(order.nodes.size, estimates[0], dtype=np.int64)
    for place in range(len(classifiers), 0, -1):
        if forest.members.size == 0:
            break
        above = classify(order, forest, weights, classifiers[place - 1])
        found[forest.members[above]] = estimates[place]
        forest = remove(order, forest, above)
    by_node = np.empty_like(found)
    by_node[order.nodes] = found
    return by_node
