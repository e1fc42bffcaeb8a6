"""The private tree partition: disjoint heavy cells of a tree, at one price whatever their number."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_scale, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.measurements.partition_walk import PartitionWalk
from opendp_tree.theorems.group_privacy import group_delta
from opendp_tree.theorems.interval import exp, round_up
from opendp_tree.theorems.tree_partition import (
    PartitionShape,
    partition_delta,
    partition_epsilon,
)
from opendp_tree.trees.domains import check_metric, read_occupied
from opendp_tree.trees.open_cells import cell_keys
from opendp_tree.trees.open_tree import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_partition", "then_tree_partition"]


def make_tree_partition(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    threshold: int,
    radius: int,
    margin: int,
    tree: Tree | None = None,
) -> Measurement:
    """The cells of a tree: nodes that hold, outside the cells below them, roughly `threshold` people or more.

    Every person lies in at most one cell. Gives the sorted node ids of a `Tree`; for an `OpenTree` a frame with a row
    a cell: its level and its prefix or labels. Nobody's count is told.

    `approximate(max_divergence())`. With q = exp(-1/scale) and depth d, epsilon at distance 1 is 1/scale plus
    d*ln(1/(1 - pi)), where pi is the chance of noise above `margin`; delta is d*p + q**(T - 2A) + d*q**(T - A - 1),
    where p is the chance of noise at `radius`, T the threshold and A the margin. Group privacy beyond. Any number of
    cells costs the same. Proof: docs/proofs/tree_partition.md.

    A node with fewer than threshold - radius people outside cells is never a cell. `best_partition` gives good
    parameters for a budget. The cost is that of sorting the leaves that hold people, whatever the depth.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=4)
    >>> cells = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_partition(
    ...     1.1, threshold=30, radius=21, margin=5
    ... )
    >>> cells.map(1)
    (0.9262348692676369, 2.625536621394278e-08)
    >>> cells(np.array([0, 900, 0, 0, 500, 2, 0, 0]))
    array([ 8, 11])
    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    found, read = read_occupied(input_domain, tree)
    shape = check_shape(found.depth, threshold=threshold, radius=radius, margin=margin)
    exact_scale = check_scale(scale)
    if scale > noise.LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be at most 2**50 to draw tokens")

    def function(data: Any) -> Any:
        from opendp_tree.releases.frame import cell_frame

        counts = read(data)
        if isinstance(counts, SparseCounts):
            cells = PartitionWalk(counts.occupied, float(scale), shape).run()
            return cell_frame(cell_keys(counts, cells.places, cells.levels)[0])
        assert isinstance(found, Tree)
        cells = PartitionWalk(counts, float(scale), shape).run()
        return np.sort(found.ancestors_at(counts.names[cells.places], cells.levels))

    return make_measurement(
        input_domain, input_metric, approximate(max_divergence()), function, partition_map(exact_scale, shape)
    )


then_tree_partition = to_then(make_tree_partition)


def check_shape(depth: int, *, threshold: int, radius: int, margin: int) -> PartitionShape:
    """The shape, once its numbers are sure to be integers that fit each other."""
    return PartitionShape(
        depth=depth,
        threshold=check_integer(threshold, name="threshold", least=1),
        radius=check_integer(radius, name="radius", least=1),
        margin=check_integer(margin, name="margin", least=0),
    )


def partition_map(scale: Fraction, shape: PartitionShape) -> Callable[[int | float], tuple[float, float]]:
    """The privacy map of a partition."""

    def privacy_map(d_in: int | float) -> tuple[float, float]:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        if people == 0:
            return 0.0, 0.0
        if scale == 0:
            return math.inf, 1.0
        return round_up(partition_epsilon(scale, shape) * people), partition_group_delta(scale, shape, people)

    return privacy_map


def partition_group_delta(scale: Fraction, shape: PartitionShape, people: int) -> float:
    """Delta at a distance; rounded up, at most 1."""
    epsilon = partition_epsilon(scale, shape)
    if epsilon.hi * people > 10**6:  # the exponential would overflow, for a promise that nobody can use
        return 1.0
    delta = partition_delta(exp(-1 / scale), shape)
    return min(1.0, round_up(group_delta(delta, ratio=epsilon.exp(), k=people)))
