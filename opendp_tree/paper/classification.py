"""Classification: which nodes of a tree, or of a forest of its subtrees, are above a threshold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, check_scale, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Bools, Ints
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.theorems.distances import group_loss
from opendp_tree.theorems.paper import Classifier, Round, classification_threshold, classifier
from opendp_tree.trees.arrays import LevelOrder
from opendp_tree.trees.domains import CountSpace, check_metric
from opendp_tree.trees.tree import Tree

__all__ = ["AccuracyWarning", "Forest", "NodeClasses", "make_tree_classifier", "then_tree_classifier"]


@dataclass(frozen=True)
class Forest:
    """Some nodes of a tree that form disjoint whole subtrees: with a node, all that is below it."""

    members: Ints
    """Places in the level order, ascending."""
    trees: Ints
    """For each member, which tree of the forest it is in."""
    tree_count: int


def whole(order: LevelOrder) -> Forest:
    """The tree itself, as a forest of one."""
    return Forest(np.arange(order.nodes.size), np.zeros(order.nodes.size, dtype=np.int64), 1)


def rooted_at(order: LevelOrder, roots: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Forest:
    """The whole subtrees of the given nodes, none of which may be below another."""
    given = np.asarray(roots)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise TypeError("roots must be a non-empty, one-dimensional collection of node ids")
    if given.min() < 0 or given.max() >= order.nodes.size:
        raise ValueError(f"roots must be node ids from 0 to {order.nodes.size - 1}")
    first, last = order.leaf_ranges
    places = np.flatnonzero(np.isin(order.nodes, given))
    starts = places[np.argsort(first[places], kind="stable")]
    if starts.size < given.size or (first[starts[1:]] < last[starts[:-1]]).any():
        raise ValueError("roots must be distinct, and none may be below another: trees that overlap cost twice")
    edges = np.zeros(order.tree.leaf_count + 1, dtype=np.int64)
    edges[first[starts]] += 1
    edges[last[starts]] -= 1
    inside = np.cumsum(edges)[first] > 0
    owners = _owners(order, starts, first)
    members = np.flatnonzero(inside & (order.levels >= order.levels[starts][owners]))
    return Forest(members, owners[members], starts.size)


def remove(order: LevelOrder, forest: Forest, above: Bools) -> Forest:
    """The forest of the members that are not above, where with a member all its ancestors in its tree are."""
    first, _ = order.leaf_ranges
    below = forest.members[~above]
    left = np.zeros(order.nodes.size, dtype=np.bool_)
    left[below] = True
    parents = order.parents[below]
    roots = below[(parents < 0) | ~left[parents]]
    starts = roots[np.argsort(first[roots], kind="stable")]
    return Forest(below, _owners(order, starts, first[below]), starts.size)


def _owners(order: LevelOrder, starts: Ints, leaves: Ints) -> Ints:
    """For each leaf, the last of the roots, in order of their leaves, that begins at or before it."""
    begins = np.zeros(order.tree.leaf_count, dtype=np.int64)
    begins[order.leaf_ranges[0][starts]] = 1
    return np.maximum(np.cumsum(begins) - 1, 0)[leaves]


def runs(order: LevelOrder, places: Ints, trees: Ints) -> Ints:
    """Where each level of each tree begins among ascending places."""
    levels = order.levels[places]
    begins = np.ones(places.size, dtype=np.bool_)
    begins[1:] = (levels[1:] != levels[:-1]) | (trees[1:] != trees[:-1])
    return np.flatnonzero(begins)


def are_above(order: LevelOrder, places: Ints, others: Ints) -> Bools:
    """Whether each place is above one of the `others`, all of which are on deeper levels in their tree."""
    first, last = order.leaf_ranges
    marks = np.zeros(order.tree.leaf_count + 1, dtype=np.int64)
    marks[first[others] + 1] = 1
    counts = np.cumsum(marks)
    held: Bools = counts[last[places]] > counts[first[places]]
    return held


def lowest(order: LevelOrder, places: Ints) -> Ints:
    """Those of the places none of whose children is among them."""
    has_child = np.zeros(order.nodes.size, dtype=np.bool_)
    parents = order.parents[places]
    has_child[parents[parents >= 0]] = True
    return places[~has_child[places]]


class AccuracyWarning(UserWarning):
    """A mechanism is private as declared, but its parameters do not guarantee its accuracy."""


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
    OpenDP's searches for `epsilon` can compare. Proof: docs/proofs/classification.md.

    Accuracy: if no tree weighs more than `mass`, then in each tree, with probability at least 1 - `eta`, all nodes of
    at least (1 + alpha) * threshold are found above and all of less than (1 - alpha) * threshold are not. This takes
    alpha * threshold of at least the noise's reach, and for an `alpha` above 1/2 enough answers "above" for the `mass`;
    where that fails an `AccuracyWarning` says by how much, and the privacy still holds. Never, whatever the noise, is a
    node found above that weighs less than the threshold minus that reach. Leaf counts below 0 are taken as 0, and a
    node weighs the sum of those. A `mass` below `threshold` finds nothing above, draws nothing and costs nothing.

    `roots` are the ids of the nodes whose whole subtrees are to be classified, by default the tree's root. None may
    be below another: so no two trees share a leaf, and the forest costs what one tree does.
    `input_domain` is as for `make_tree_sum`. The release is a `NodeClasses`. The cost is a few passes over the nodes
    for each stop: one in the estimators; as many as `mass` allows here, if that many nodes are heavy.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared size, vectors are
        cut to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`, of an integer type or f64.
    threshold
        What counts are compared with.
    mass
        What no tree of the forest is taken to weigh more than; if one does, accuracy is lost and privacy is
        not.
    alpha
        The relative distance from the threshold at which the answer is right.
    epsilon
        What may be spent at distance 1. With 0, which OpenDP's searches try, there is a map and no release.
    delta
        What may be lost at distance 1.
    eta
        The probability with which a tree may be classified wrongly.
    roots
        The ids of the nodes whose whole subtrees are classified, none below another; by default the tree's
        root.
    tree
        The tree, where `input_domain` does not carry it.

    Examples
    --------
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
    assert_features("contrib")
    space, tree = CountSpace.of_leaves(input_domain, tree)
    check_metric(input_metric, l1_distance)
    unfunded = is_zero(epsilon)
    wanted = Round(
        mass=check_scale(mass, name="mass"),
        eta=check_probability(eta, name="eta"),
        alpha=check_probability(alpha, name="alpha"),
        threshold=check_positive(threshold, name="threshold"),
        epsilon=check_positive(1.0 if unfunded else epsilon, name="epsilon"),
        delta=check_probability(delta, name="delta"),
    )
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)
    run = fitting(wanted, depth=tree.depth)
    if (missing := shortfall(wanted, run, depth=tree.depth)) is not None:
        warnings.warn(missing, AccuracyWarning, stacklevel=2)
    order = tree.level_order
    forest = whole(order) if roots is None else rooted_at(order, roots)

    def function(data: Any) -> NodeClasses:
        weights = tree.sum(space.read_people(data))[order.nodes]
        found = forest.members[classify(order, forest, weights, run)]
        above = np.zeros(tree.node_count, dtype=np.bool_)
        above[order.nodes[found]] = True
        return NodeClasses(above, np.sort(order.nodes[lowest(order, found)]))

    loss = run.loss()

    def privacy_map(d_in: int | float) -> tuple[float, float]:
        lost = group_loss(*loss, k=math.floor(read_distance(d_in)))
        # Nothing above: nothing is drawn, and nothing promised for free.
        return with_promised_delta(lost, delta)

    return make_measurement(input_domain, input_metric, approximate(max_divergence()), function, privacy_map)


then_tree_classifier = to_then(make_tree_classifier)


def fitting(wanted: Round, *, depth: int) -> Classifier:
    """The classifier for a round, once its numbers are sure to fit the noise and the counts."""
    try:
        run = classifier(wanted, depth=depth)
    except ArithmeticError:
        raise ValueError(
            f"epsilon ({float(wanted.epsilon)}) and threshold ({float(wanted.threshold)}) must not be so small: "
            "no float holds the noise's scale"
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
    starts = runs(order, places, trees)
    largest = np.maximum.reduceat(weights[places], starts)
    asked = trees[starts]
    query_noise = noise.laplace(run.scale, starts.size)
    threshold_noise = noise.laplace(run.scale, tree_count)[asked]
    hit = _difference(query_noise, threshold_noise) >= run.threshold - largest
    stops = np.full(tree_count, -1, dtype=np.int64)
    np.maximum.at(stops, asked[hit], order.levels[places[starts[hit]]])
    return stops


def _difference(left: Ints, right: Ints) -> Ints:
    """The exact difference, or the end of int64 beyond which it lies."""
    difference = left - right
    wrapped = ((left ^ right) & (left ^ difference)) < 0
    end = np.iinfo(np.int64).max
    return np.where(wrapped, np.where(left < 0, -end, end), difference)
