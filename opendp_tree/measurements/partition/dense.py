"""The partition of a public tree; where the shape says so, every node is tested, the empty ones too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Ints
from opendp_tree.measurements.partition.parameters import GapParameters
from opendp_tree.measurements.partition.walk import find_cells, hides_empty_nodes
from opendp_tree.trees.tree import Tree


@dataclass(frozen=True)
class TreeCells:
    """The cells of a public tree: sorted node ids, and the gap of each."""

    nodes: Ints
    gaps: Ints


def find_cells_of_tree(tree: Tree, leaf_counts: Ints, parameters: GapParameters) -> TreeCells:
    """One run of the mechanism.

    Parameters
    ----------
    tree
        The tree, all of whose nodes are public.
    leaf_counts
        A count for each leaf, clamped to ±(2**62 - 1); counts below 0 are read as 0.
    parameters
        The scales and the shape. Only nodes with people are visited if each threshold exceeds its radius.
    """
    if not hides_empty_nodes(parameters.shape):
        return _test_every_node(tree, leaf_counts, parameters)
    occupied = tree.occupied(leaf_counts)
    cells = find_cells(occupied, parameters)
    nodes = tree.ancestors_at(occupied.ids[cells.places], cells.levels)
    order = np.argsort(nodes)
    return TreeCells(nodes[order], cells.gaps[order])


def _test_every_node(tree: Tree, leaf_counts: Ints, parameters: GapParameters) -> TreeCells:
    shape = parameters.shape
    row_of = {level: row for row, level in enumerate(shape.levels)}
    passed = np.zeros(tree.node_count, dtype=np.int64)  # x before a level is reached, V after
    passed[tree.leaves] = leaf_counts.clip(0, saturate.LIMIT)
    largest = np.zeros(tree.node_count, dtype=np.int64)  # V of one child, and of one tested node after its level
    gaps = np.zeros(tree.node_count, dtype=np.int64)  # no cell has a gap of 0: thresholds are positive
    for level in reversed(range(tree.depth)):
        nodes = tree.levels[level]
        if level in row_of:
            row = row_of[level]
            blurred = _blur(passed[nodes], largest[nodes], shape.blur_levels[row], parameters.token_scale)
            total = saturate.add(blurred, _test_noise(parameters.scale, shape.radii[row], nodes.size))
            cell = total >= shape.thresholds[row]
            gaps[nodes[cell]] = total[cell]
            blurred[cell] = 0
            passed[nodes] = largest[nodes] = blurred
        if level > 0:
            _hand_up(tree.parents[nodes], passed, largest, nodes)
    cells = np.flatnonzero(gaps)
    return TreeCells(cells, gaps[cells])


def _blur(held: Ints, largest: Ints, blur_level: int, token_scale: float) -> Ints:
    large = np.flatnonzero(held >= blur_level)
    token = np.minimum(noise.geometric(token_scale, large.size), saturate.LIMIT)
    held[large] = np.maximum(held[large] - token, np.maximum(blur_level - 1, largest[large]))
    return held


def _test_noise(scale: float, radius: int | None, size: int) -> Ints:
    return noise.geometric(scale, size) if radius is None else noise.truncated_geometric(scale, radius, size)


def _hand_up(parents: Ints, passed: Ints, largest: Ints, nodes: Ints) -> None:
    """Give parents the sum and the largest of what their children hold; they have nothing else, being no leaves."""
    order = np.argsort(parents, kind="stable")
    above, children = parents[order], nodes[order]
    firsts = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
    lasts = np.append(firsts[1:], children.size)
    passed[above[firsts]] = saturate.range_sums(passed[children], firsts, lasts)
    largest[above[firsts]] = np.maximum.reduceat(largest[children], firsts)
