"""The walk of the tree partition from the leaves up, over occupied places only.

A chain of single children is one step: its nodes have the same blurred count, and the number of tests until the first
cell is drawn at once, then the cell's noise given that it sufficed. So the work is linear in the occupied places,
whatever the depth. That this has the law of the node-by-node mechanism is part of docs/proofs/tree_partition.md.

A public tree whose empty nodes must be tested too is walked node by node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Ints, Levels
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.theorems.tree_partition import GapShape
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.tree import Tree

_NONE = np.zeros(0, dtype=np.int64)

_BLOCK = 1 << 18
"""How many places are walked together."""


@dataclass(frozen=True)
class Cells:
    """What is released: each cell is the node at `levels` above (or at) `places`, and comes with its gap."""

    places: Ints
    levels: Ints
    gaps: Ints


def find_cells(occupied: Occupied, parameters: GapParameters) -> Cells:
    """One run of the mechanism."""
    shape = parameters.shape
    if not hides_empty_nodes(shape):
        raise ValueError("each threshold must exceed its radius where only occupied nodes are tested")
    # Levels that are not tested are left out: what is at or meets at one of them does so at the next tested one above.
    deepest = int(occupied.levels.max(initial=0))
    tested = np.searchsorted(shape.levels, np.arange(deepest + 1), side="right") - 1
    # By what is public, and with room for sums of two levels.
    tested = tested.astype(np.int16) if len(shape.levels) < 2**14 else tested
    walk, firsts, found = _walk_by_blocks(occupied, tested, np.zeros_like(occupied.counts), parameters)
    walk.up_to_the_root()
    found += [(firsts[places], levels, gaps) for places, levels, gaps in walk.found]
    places, levels, gaps = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (_NONE,) * 3
    return Cells(places, np.array(shape.levels)[levels], gaps)


def _walk_by_blocks(
    occupied: Occupied, tested: Ints, largest: Ints, parameters: GapParameters
) -> tuple[_Walk, Ints, list[tuple[Ints, Ints, Ints]]]:
    """What is left to walk once blocks of many places went as far up as they share no node, and the cells so far."""
    every, size = tested.size == tested[-1] + 1, occupied.counts.size
    meets = occupied.meets if every else tested[occupied.meets]
    if size <= _BLOCK:
        walk = _Walk(tested[occupied.levels], meets, occupied.counts, largest, parameters)
        return walk, np.arange(size), []

    def walked(block: tuple[slice, int]) -> tuple[Ints, tuple[Ints, Ints, Ints], list[tuple[Ints, Ints, Ints]]]:
        part, cut = block
        within = meets[part.start : part.stop - 1]
        walk = _Walk(tested[occupied.levels[part]], within, occupied.counts[part], largest[part], parameters)
        walk.merge_up_to(cut)
        heads = np.append(0, np.flatnonzero(within < cut) + 1)
        found = [(places + part.start, levels, gaps) for places, levels, gaps in walk.found]
        return heads + part.start, walk.groups(heads), found

    blocks = _blocks(meets, size)
    walks = list(map(walked, blocks))
    heads = np.concatenate([each for each, _, _ in walks])
    base, held, most = (np.concatenate(parts) for parts in zip(*(groups for _, groups, _ in walks), strict=True))
    found = [cells for _, _, block in walks for cells in block]
    return _Walk(base, meets[heads[1:] - 1], held, most, parameters), heads, found


def _blocks(meets: Levels, size: int) -> list[tuple[slice, int]]:
    """Blocks of about as many places, and for each the level from which on it shares no node with others."""
    near = max(_BLOCK // 4, 1)
    starts = [start + int(np.argmin(meets[start - 1 : start - 1 + near])) for start in range(_BLOCK, size, _BLOCK)]
    shared = [-1, *(int(meets[start - 1]) for start in starts), -1]
    ranges = pairwise([0, *starts, size])
    return [(slice(*ends), max(edges) + 1) for ends, edges in zip(ranges, pairwise(shared), strict=True)]


def hides_empty_nodes(shape: GapShape) -> bool:
    """Whether an empty node is never a cell, so that it need not be tested."""
    pairs = zip(shape.thresholds, shape.radii, strict=True)
    return all(radius is not None and threshold > radius for threshold, radius in pairs)


class _Walk:
    """Places with people form groups, which merge where their branches meet."""

    def __init__(self, levels: Ints, meets: Levels, counts: Ints, largest: Ints, parameters: GapParameters) -> None:
        self._parameters, self._meets = parameters, meets
        self._bands = _bands(parameters.shape)
        self._blur_levels = np.array(parameters.shape.blur_levels)
        self._end, self._start = np.arange(counts.size), np.arange(counts.size)
        self._base = levels.copy()
        self._held = counts.clip(0, saturate.LIMIT)  # by the group's first node: x
        self._largest = largest.clip(0, saturate.LIMIT)  # that one of its children passed up
        self.found: list[tuple[Ints, Ints, Ints]] = []

    def up_to_the_root(self) -> None:
        """Form and test all nodes up to the topmost tested level."""
        self.merge_up_to(0)
        if self._held.size:
            groups = np.append(0, np.flatnonzero(self._meets < 0) + 1)
            self._climb(groups[self._base[groups] >= 0], -1)  # nobody tests the others

    def merge_up_to(self, level: int) -> None:
        """Form all nodes at which groups meet, from the deepest level up to this one."""
        for deep, boundaries in _deepest_first(self._meets, level):
            self._merge(deep, boundaries)

    def groups(self, heads: Ints) -> tuple[Ints, Ints, Ints]:
        """Of the groups with these first places: where they were formed, whom they hold, and the most of a child."""
        return self._base[heads], self._held[heads], self._largest[heads]

    def _merge(self, level: int, boundaries: Ints) -> None:
        """Form the nodes of one level at which groups meet, at the given boundaries between places."""
        left, right = self._start[boundaries], boundaries + 1
        is_head = np.empty(boundaries.size, dtype=np.bool_)
        is_head[0] = True
        np.not_equal(left[1:], right[:-1], out=is_head[1:])
        slots = np.arange(boundaries.size) + np.cumsum(is_head)
        firsts = slots[is_head] - 1
        members = np.empty(boundaries.size + firsts.size, dtype=np.int64)
        members[slots], members[firsts] = right, left[is_head]
        lasts = np.append(firsts[1:], members.size)

        passed, by_child = self._climb(members, level)
        heads, ends = members[firsts], self._end[members[lasts - 1]]
        self._held[heads] = saturate.range_sums(passed, firsts, lasts)
        self._largest[heads] = np.maximum.reduceat(by_child, firsts)
        self._base[heads] = level
        self._end[heads], self._start[ends] = ends, heads

    def _climb(self, groups: Ints, top: int) -> tuple[Ints, Ints]:
        """Test each group's chain of nodes below `top`: what it passes up, and what of that comes from a child."""
        has_chain = self._base[groups] > top
        if has_chain.all():
            passed = self._test(groups, top)
            return passed, passed
        passed, by_child = self._held[groups], self._largest[groups]
        chains = np.flatnonzero(has_chain)
        if chains.size:
            by_child[chains] = self._test(groups[chains], top)
            passed[chains] = by_child[chains]
        return passed, by_child

    def _test(self, groups: Ints, top: int) -> Ints:
        """What each chain passes up: nothing from its first cell on, and else its blurred count."""
        base = self._base[groups]
        blurred = self._blur(groups, base)
        for band in self._bands:
            if band.high <= top:
                break
            start = np.minimum(base, band.high)
            room = start - max(top, band.low - 1)
            # Below threshold - radius nobody is shown: no noise is drawn. A group of none, once a cell, is among them.
            tested = np.flatnonzero((room > 0) & (blurred >= band.threshold - band.radius))
            if tested.size:
                found, wait, gap = self._first_cells(blurred[tested], room[tested], band)
                cells = tested[found]
                self.found.append((groups[cells], start[cells] - wait + 1, gap))
                blurred[cells] = 0
        return blurred

    def _blur(self, groups: Ints, base: Ints) -> Ints:
        """The counts of the chains' first nodes, less a token each where they are large."""
        held, blur_level = self._held[groups], self._blur_levels[base]
        large = np.flatnonzero(held >= blur_level)
        if large.size:
            token = np.minimum(noise.geometric(self._parameters.token_scale, large.size), saturate.LIMIT)
            least = np.maximum(blur_level[large] - 1, self._largest[groups[large]])
            held[large] = np.maximum(held[large] - token, least)
        return held

    def _first_cells(self, blurred: Ints, room: Ints, band: _Band) -> tuple[Ints, Ints, Ints]:
        """Which chains have a cell, after how many tests, and its gap."""
        scale, radius = self._parameters.scale, band.radius
        missing = np.maximum(band.threshold - blurred, 0)
        wait = np.ones(blurred.size, dtype=np.int64)
        open_ = np.flatnonzero(missing > 0)
        if open_.size:
            wait[open_] = noise.first_reach(scale, radius, missing[open_], limit=int(room[open_].max()))
        cells = np.flatnonzero(wait <= room)
        gap = saturate.add(blurred[cells], noise.truncated_geometric_from(scale, radius, missing[cells]))
        return cells, wait[cells], gap


@dataclass(frozen=True)
class _Band:
    """Tested levels in a row, low..high, that share a threshold and a radius."""

    low: int
    high: int
    threshold: int
    radius: int


def _bands(shape: GapShape) -> list[_Band]:
    """All tested levels, the deepest first."""
    bands, low = [], 0
    for (threshold, radius), run in groupby(zip(shape.thresholds, shape.radii, strict=True)):
        high = low + len(list(run)) - 1
        assert radius is not None
        bands.append(_Band(low, high, threshold, radius))
        low = high + 1
    return bands[::-1]


def _deepest_first(meets: Levels, least: int) -> Iterator[tuple[int, Ints]]:
    """The tested levels from `least` on at which groups meet, from the deepest up, each with the boundaries that do."""
    boundaries = np.flatnonzero(meets >= least)
    if boundaries.size == 0:
        return
    levels = meets[boundaries]
    small = levels.astype(np.uint16) if levels.max() < 2**16 else levels  # sorted by radix
    ordered = boundaries[np.argsort(small, kind="stable")]
    ends = np.cumsum(np.bincount(small)).tolist()
    for level, (start, end) in reversed(list(enumerate(pairwise([0, *ends])))):
        if start < end:
            yield level, ordered[start:end]


@dataclass(frozen=True)
class TreeCells:
    """The cells of a public tree: sorted node ids, and the gap of each."""

    nodes: Ints
    gaps: Ints


def find_cells_of_tree(tree: Tree, leaf_counts: Ints, parameters: GapParameters) -> TreeCells:
    """One run of the mechanism."""
    if not hides_empty_nodes(parameters.shape):
        return _test_every_node(tree, leaf_counts, parameters)
    occupied = tree.occupied(leaf_counts)
    assert occupied.ids is not None
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
