"""Classification: which nodes of a tree, or of a forest of its subtrees, are above a threshold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, check_scale, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Bools, Ints
from opendp_tree.budget import make_unfunded, with_promised_delta
from opendp_tree.theorems.interval import Interval
from opendp_tree.theorems.noise import group_loss
from opendp_tree.theorems.paper import Classifier, Round, classification_threshold, classifier
from opendp_tree.trees.domains import CountSpace
from opendp_tree.trees.tree import LevelOrder, Tree

PrivacyMap = Callable[[int | float], tuple[float, float]]

# What all of the paper's mechanisms share.


class AccuracyWarning(UserWarning):
    """A mechanism is private as declared, but its parameters do not guarantee its accuracy."""


def people_reader(input_domain: Domain, input_metric: Metric, tree: Tree | None) -> tuple[Tree, Callable[[Any], Ints]]:
    """The tree, and how to read the counts of its nodes: a leaf count below 0 is taken as 0."""
    space, known = CountSpace.of_leaves(input_domain, input_metric, tree)
    return known, lambda data: known.sum(space.read_people(data))


def group_map(loss: tuple[Fraction, Interval], *, promised: float = 0.0) -> PrivacyMap:
    """The privacy map of a loss at distance 1, by group privacy, with the delta that was promised."""
    return lambda d_in: with_promised_delta(group_loss(*loss, k=math.floor(read_distance(d_in))), promised)


@dataclass(frozen=True)
class Forest:
    """Some nodes of a tree that form disjoint whole subtrees: with a node, all that is below it."""

    members: Ints
    """Indices in the level order, ascending."""
    trees: Ints
    """For each member, which tree of the forest it is in."""
    tree_count: int

    @classmethod
    def of(cls, order: LevelOrder, members: Ints) -> Forest:
        """The forest of these indices in the level order, which include everything below each of them."""
        first, _ = order.leaf_ranges
        held = np.zeros(order.nodes.size, dtype=np.bool_)
        held[members] = True
        parents = order.parents[members]
        roots = members[(parents < 0) | ~held[parents]]
        # A member belongs to the last root, in order of their leaves, that begins at or before its first leaf.
        begins = np.zeros(order.tree.leaf_count, dtype=np.int64)
        begins[first[roots]] = 1
        return cls(members, np.cumsum(begins)[first[members]] - 1, roots.size)


def forest_below(order: LevelOrder, roots: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None) -> Forest:
    """The whole subtrees of the given nodes, none of which may be below another; by default the whole tree."""
    if roots is None:
        return Forest.of(order, np.arange(order.nodes.size))
    starts = np.asarray(roots)
    if starts.ndim != 1 or starts.size == 0 or starts.dtype.kind not in "iu":
        raise TypeError("roots must be a non-empty, one-dimensional collection of node ids")
    if starts.min() < 0 or starts.max() >= order.nodes.size:
        raise ValueError(f"roots must be node ids from 0 to {order.nodes.size - 1}")
    inside = np.isin(order.nodes, starts)
    parents = order.parents[inside]
    distinct = parents.size
    for level in order.inner_levels:
        inside[level.children] |= level.spread(inside[level.inner])
    if distinct < starts.size or inside[parents[parents >= 0]].any():
        raise ValueError("roots must be distinct, and none may be below another: trees that overlap cost twice")
    return Forest.of(order, np.flatnonzero(inside))


def are_above(order: LevelOrder, places: Ints, others: Ints) -> Bools:
    """Whether each node is above one of the `others`, all of which are on deeper levels in their tree."""
    first, last = order.leaf_ranges
    marks = np.zeros(order.tree.leaf_count + 1, dtype=np.int64)
    marks[first[others] + 1] = 1
    counts = np.cumsum(marks)
    held: Bools = counts[last[places]] > counts[first[places]]
    return held


@dataclass(frozen=True)
class NodeClasses:
    """Which nodes were found above the threshold."""

    above: Bools
    """For each node id; False outside of the forest. With a node, all its ancestors in its tree are above."""
    transitions: Ints
    """The ids, ascending, of the nodes that are above and have no child that is."""


def make_tree_classifier(
    input_domain: Domain,
    input_metric: Metric,
    *,
    threshold: float,
    mass: float,
    alpha: float,
    epsilon: float,
    delta: float,
    eta: float,
    roots: Sequence[int] | None = None,
    tree: Tree | None = None,
) -> Measurement:
    """For every node, whether its count is above a threshold: the paper's Algorithm Classification.

    `approximate(max_divergence())`: at distance 1, at most (`epsilon`, `delta`), computed from the noise that is
    really drawn; at distance k by group privacy. The map reports `delta` itself where a little less is lost, so that
    OpenDP's searches for `epsilon` can compare. Proof: docs/proofs/paper.md.

    Accuracy: if no tree weighs more than `mass`, then in each tree, with probability at least 1 - `eta`, all nodes of
    at least (1 + alpha) * threshold are found above and all of less than (1 - alpha) * threshold are not. This takes
    alpha * threshold of at least the noise's reach, and for an `alpha` above 1/2 enough answers "above" for the `mass`;
    where that fails an `AccuracyWarning` says by how much, and the privacy still holds. Whatever the noise, no node
    that weighs less than the threshold minus that reach is found above. Leaf counts below 0 are taken as 0, and a node
    weighs the sum of those. A `mass` below `threshold` finds nothing above, draws nothing and costs nothing.
    The release is a `NodeClasses`.

    Other parameters: as for `make_tree_sum`.

    :param threshold: What counts are compared with.
    :param mass: What a tree of the forest weighs at most; if one weighs more, accuracy is lost and privacy is not.
    :param alpha: The relative distance from the threshold at which the answer is right.
    :param epsilon: What may be spent at distance 1. With 0, which OpenDP's searches try, there is a map and no release.
    :param delta: What may be lost at distance 1.
    :param eta: The probability with which a tree may be classified wrongly.
    :param roots: The ids of the nodes whose whole subtrees are classified, none below another, so that the forest costs
        what one tree does; by default the tree's root.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> found = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_classifier(
    ...     threshold=2000, mass=5000, alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01
    ... )
    >>> found.map(1)
    (1.0, 1e-06)
    >>> classes = found(tree.count([3] * 4000))
    >>> classes.above, classes.transitions
    (array([ True,  True, False,  True, False, False, False]), array([3]))
    """
    tree, node_counts = people_reader(input_domain, input_metric, tree)
    granted = 1.0 if is_zero(epsilon) else epsilon
    wanted = check_round(mass=mass, eta=eta, alpha=alpha, threshold=threshold, epsilon=granted, delta=delta)
    if is_zero(epsilon):
        return make_unfunded(input_domain, input_metric, delta=delta)
    run = fitting(wanted, depth=tree.depth)
    if (missing := shortfall(wanted, run, depth=tree.depth)) is not None:
        warnings.warn(missing, AccuracyWarning, stacklevel=2)
    order = tree.level_order
    forest = forest_below(order, roots)

    def function(data: Any) -> NodeClasses:
        found = order.nodes[forest.members[classify(order, forest, node_counts(data)[order.nodes], run)]]
        above = np.zeros(tree.node_count, dtype=np.bool_)
        above[found] = True
        return NodeClasses(above, np.setdiff1d(found, tree.parents[found]))

    # A classifier that draws nothing promises nothing, and costs nothing.
    privacy_map = group_map(run.loss(), promised=delta)
    return make_measurement(input_domain, input_metric, approximate(max_divergence()), function, privacy_map)


then_tree_classifier = to_then(make_tree_classifier)


def check_round(
    *, mass: object, eta: object, alpha: object, threshold: object, epsilon: object, delta: object
) -> Round:
    """The numbers of a classification, exactly."""
    return Round(
        mass=check_scale(mass, name="mass"),
        eta=check_probability(eta, name="eta"),
        alpha=check_probability(alpha, name="alpha"),
        threshold=check_positive(threshold, name="threshold"),
        epsilon=check_positive(epsilon, name="epsilon"),
        delta=check_probability(delta, name="delta"),
    )


def fitting(wanted: Round, *, depth: int) -> Classifier:
    """The classifier for a round, once its numbers are sure to fit the noise and the counts."""
    try:
        run = classifier(wanted, depth=depth)
    except ArithmeticError:
        raise ValueError(
            f"epsilon ({float(wanted.epsilon)}) and threshold ({float(wanted.threshold)}) must be larger: "
            "no float holds the scale of the noise"
        ) from None
    if run.scale > noise.LARGEST_SCALE:
        raise ValueError(
            f"epsilon ({float(wanted.epsilon)}) must be larger: with {run.cutoff} possible answers "
            f'"above" its noise would exceed a scale of 2**50'
        )
    if max(run.threshold, run.radius, run.margin) > saturate.LIMIT:
        raise ValueError(f"threshold ({float(wanted.threshold)}) must be at most 2**62 - 1")
    return run


def shortfall(wanted: Round, run: Classifier, *, depth: int) -> str | None:
    """What to say if a classification's accuracy is not guaranteed; None if it is."""
    if run.is_accurate(wanted):
        return None
    if run.error > wanted.slack:
        what = f"noise may move a comparison by {run.error}, and alpha allows {float(wanted.slack):.6g}"
    else:
        what = f'after {run.cutoff} answers "above" a node of {float(run.left(wanted.mass)):.6g} may be left'
    return (
        f"accuracy is not guaranteed (privacy is): {what} at threshold {float(wanted.threshold):.6g}. For a mass of "
        f"{float(wanted.mass):.6g} a threshold of {classification_threshold(wanted, depth=depth):.6g} suffices"
    )


def classify(order: LevelOrder, forest: Forest, weights: Ints, run: Classifier) -> Bools:
    """Whether each member of a forest is above; every tree has its own noise and its own cutoff."""
    above = np.zeros(order.nodes.size, dtype=np.bool_)
    places, trees = forest.members, forest.trees
    for _ in range(run.cutoff):
        if places.size == 0:
            break
        stops = _stopping_levels(order, places, trees, weights, forest.tree_count, run)[trees]
        levels = order.levels[places]
        stopped = places[levels == stops]
        counts = saturate.add(weights[stopped], noise.truncated_laplace(run.count_scale, run.radius, stopped.size))
        found = stopped[counts >= run.count_threshold]
        # What is left is above the stop; below it, and in trees that did not stop, all has been answered "below".
        higher = levels < stops
        places, trees = places[higher], trees[higher]
        marked = are_above(order, places, found)
        above[found] = True
        above[places[marked]] = True
        places, trees = places[~marked], trees[~marked]
    return above[forest.members]


def _stopping_levels(
    order: LevelOrder, places: Ints, trees: Ints, weights: Ints, tree_count: int, run: Classifier
) -> Ints:
    """For each tree the deepest level whose largest count reaches its noisy threshold; -1 if there is none."""
    levels = order.levels[places]
    changes = (np.diff(levels, prepend=-1) != 0) | (np.diff(trees, prepend=-1) != 0)
    starts = np.flatnonzero(changes)  # of each level of each tree among the places
    largest = np.maximum.reduceat(weights[places], starts)
    asked = trees[starts]
    query_noise = noise.laplace(run.scale, starts.size)
    threshold_noise = noise.laplace(run.scale, tree_count)[asked]
    hit = _difference(query_noise, threshold_noise) >= run.threshold - largest
    stops = np.full(tree_count, -1, dtype=np.int64)
    np.maximum.at(stops, asked[hit], levels[starts[hit]])
    return stops


def _difference(left: Ints, right: Ints) -> Ints:
    """The exact difference, or the end of int64 beyond which it lies."""
    difference = left - right
    wrapped = ((left ^ right) & (left ^ difference)) < 0
    end = np.iinfo(np.int64).max
    return np.where(wrapped, np.where(left < 0, -end, end), difference)
