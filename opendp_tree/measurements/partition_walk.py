"""The walk of the tree partition from the leaves up, over occupied places only.

A chain of single children is one step: its nodes have the same residual, and the number of tests until the first
"top" is drawn at once. So the work is linear in the occupied places, whatever the depth. That this has the law of the
node-by-node mechanism is part of docs/proofs/tree_partition.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree import noise, saturate
from opendp_tree.theorems.tree_partition import PartitionShape
from opendp_tree.trees.occupied import Occupied

Ints = npt.NDArray[np.int64]

NO_TOKEN = -1


@dataclass(frozen=True)
class Cells:
    """The nodes marked "top": each is the node at `levels` above (or at) `places`, and holds `residuals` people."""

    places: Ints
    levels: Ints
    residuals: Ints


class PartitionWalk:
    """One run of the mechanism.

    Places with people form groups, which merge where their branches meet. A group is known by its first place; it
    stands for the chain of nodes from `base`, where it was formed, up to where it merges.
    """

    def __init__(self, occupied: Occupied, scale: float, shape: PartitionShape) -> None:
        size = occupied.counts.size
        self._scale, self._shape = scale, shape
        self._meets = occupied.meets
        self._end, self._start = np.arange(size), np.arange(size)
        self._base = occupied.levels.copy()
        self._residual = occupied.counts.clip(0, saturate.LIMIT)
        self._carriers = np.zeros(size, dtype=np.int64)  # among the children of the group's first node
        self._token = np.full(size, NO_TOKEN, dtype=np.int64)  # of its only carrier
        self._found: list[tuple[Ints, Ints, Ints]] = []

    def run(self) -> Cells:
        """Walk all the way up, and tell the cells."""
        if self._residual.size:
            for level, boundaries in _deepest_first(self._meets):
                self._merge(level, boundaries)
            self._climb(np.zeros(1, dtype=np.int64), self._base[:1] + 1)
        found = [np.concatenate(parts) for parts in zip(*self._found, strict=True)] if self._found else [_NONE] * 3
        return Cells(*found)

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

        passed, token = self._climb(members, self._base[members] - level)
        heads, ends = members[firsts], self._end[members[lasts - 1]]
        self._residual[heads] = saturate.range_sums(passed, firsts, lasts)
        self._carriers[heads] = np.add.reduceat(token != NO_TOKEN, firsts, dtype=np.int64)
        self._token[heads] = np.maximum.reduceat(token, firsts)
        self._base[heads] = level
        self._end[heads], self._start[ends] = ends, heads

    def _climb(self, groups: Ints, nodes: Ints) -> tuple[Ints, Ints]:
        """Test each group's chain of `nodes` nodes; what residual and, for carriers, token it passes up."""
        passed = self._residual[groups]
        token = np.full(groups.size, NO_TOKEN, dtype=np.int64)
        # No node of its own (people at the very node where groups meet), or surely "bottom": no test, no noise.
        tested = np.flatnonzero((nodes > 0) & (passed >= self._shape.doubt))
        if tested.size:
            residual, room = passed[tested], nodes[tested]
            wait, drawn = self._wait(groups[tested], residual, int(room.max()))
            top = wait <= room
            cells = tested[top]
            self._found.append((groups[cells], self._base[groups[cells]] - wait[top] + 1, passed[cells]))
            passed[cells] = 0
            token[tested[~top]] = drawn[~top]
        return passed, token

    def _wait(self, groups: Ints, residual: Ints, limit: int) -> tuple[Ints, Ints]:
        """How many tests until the first "top" (more than limit if none), and the token they share, if any."""
        shape = self._shape
        wait = np.full(groups.size, limit + 1, dtype=np.int64)
        token = np.full(groups.size, NO_TOKEN, dtype=np.int64)
        low = np.flatnonzero(residual < shape.carrier)
        if low.size:
            missing = shape.threshold - residual[low]
            wait[low] = noise.first_top(self._scale, shape.radius, missing, token_known=False, limit=limit)
        high = np.flatnonzero(residual >= shape.carrier)
        if high.size:
            carriers = self._carriers[groups[high]]
            inherited = self._token[groups[high]]
            fresh = np.flatnonzero(carriers == 0)
            inherited[fresh] = noise.geometric(self._scale, fresh.size)
            token[high] = inherited
            # At most 2**63 - 1: a residual of at least the carrier level takes off all but the margin of the threshold.
            missing = np.minimum(inherited, saturate.LIMIT) - (residual[high] - shape.threshold)
            sure = (carriers > 1) | (missing <= 0)
            wait[high[sure]] = 1
            open_ = np.flatnonzero(~sure & (missing <= shape.radius))
            wait[high[open_]] = noise.first_top(
                self._scale, shape.radius, missing[open_], token_known=True, limit=limit
            )
        return wait, token


def _deepest_first(meets: Ints) -> Iterator[tuple[int, Ints]]:
    """The levels that occur, from the deepest up, each with the boundaries that meet there, in order."""
    if meets.size == 0:
        return
    small = meets.astype(np.uint16) if meets.max() < 2**16 else meets  # sorted by radix
    order = np.argsort(small, kind="stable")
    levels, firsts = np.unique(small[order], return_index=True)
    parts = np.split(order, firsts[1:])
    yield from zip(reversed(levels.tolist()), reversed(parts), strict=True)


_NONE = np.zeros(0, dtype=np.int64)
