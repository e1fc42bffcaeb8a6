"""The partition in two parts: subtrees below a cut, each wherever its counts are, then the top from what they pass up.

What leaves a subtree is what its root passes up, its cells, and the exact counts that layers are measured from: one
number for each of its shown nodes. The law is that of the whole walk: docs/proofs/partition_by_subtrees.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from opendp_tree import saturate
from opendp_tree._types import Ints
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.mechanisms.partition.walk import Cells, walk_up
from opendp_tree.trees.distant_counts import DistantCounts, Excerpt
from opendp_tree.trees.occupied import Occupied, meets_between
from opendp_tree.trees.sparse_counts import SparseCounts

NO_ROOT = -1
"""In the place of what a root passes up, where a place does not stand for one."""


@dataclass(frozen=True)
class Below:
    """What leaves some subtrees: private, but for the cells."""

    kept: Ints
    """Some of the places, ascending. Each stands for all people who have the same shown node as the nearest one."""
    people: Ints
    """How many that are, exactly."""
    passed: Ints
    """What a subtree's root passes up, at the first kept place of the subtree; NO_ROOT at all others."""
    cells: Cells
    """Their places are numbers among those kept."""


def cut_levels(parameters: GapParameters) -> tuple[int, ...]:
    """The levels at which the tree may be cut: the tested ones, but for the topmost."""
    return parameters.shape.levels[1:]


def find_below(occupied: Occupied, parameters: GapParameters, cut: int) -> Below:
    """Test all nodes of the cut's level and below."""
    walked = walk_up(occupied, _part(parameters, cut, below=True))
    people = occupied.counts.clip(0, saturate.LIMIT)
    home = np.minimum(np.maximum(_nearest_shown(occupied, walked.cells), cut), occupied.levels)
    # Nodes by their level and their first place; a place above the cut is its own home, and nobody else's below it.
    nodes = occupied.first_places(np.arange(people.size), home) * (home.max(initial=0) + 1) + home
    order = np.argsort(nodes, kind="stable")
    firsts = np.flatnonzero(np.append(True, np.diff(nodes[order]) != 0)[: order.size])
    sums = saturate.range_sums(people[order], firsts, np.append(firsts, order.size)[1:])
    by_place = np.argsort(order[firsts])
    kept, sums = order[firsts][by_place], sums[by_place]
    passed = np.full(kept.size, NO_ROOT)
    passed[np.searchsorted(kept, walked.roots)] = walked.passed
    cells = walked.cells
    return Below(kept, sums, passed, Cells(np.searchsorted(kept, cells.places), cells.levels, cells.gaps))


def find_above(occupied: Occupied, passed: Ints, parameters: GapParameters, cut: int) -> Cells:
    """Test the nodes above the cut, and no others."""
    is_above = occupied.levels < cut
    wanted = np.flatnonzero(is_above | (passed != NO_ROOT))
    by_child = np.where(is_above, 0, passed)[wanted]
    counts = np.where(is_above, occupied.counts, passed)[wanted]
    levels = np.minimum(occupied.levels[wanted], cut)
    top = Occupied(levels, meets_between(occupied.meets, wanted), counts, wanted)
    cells = walk_up(top, _part(parameters, cut, below=False), by_child).cells
    return Cells(wanted[cells.places], cells.levels, cells.gaps)


def find_in_parts(distant: DistantCounts, parameters: GapParameters) -> tuple[SparseCounts, Cells]:
    """The cells, and the counts of as many keys as it takes to know the people of every shown node."""
    cut = next((level for level in cut_levels(parameters) if level >= distant.level), None)
    if cut is None:
        raise ValueError(f"subtrees (level {distant.level}) must not be below all levels that are shown")
    counts, found = distant.gather(partial(_excerpt_below, parameters=parameters, cut=cut))
    people, passed = found.numbers.T
    occupied = replace(counts.occupied, counts=people)
    roots = np.flatnonzero((passed != NO_ROOT) & (occupied.levels >= cut))
    if (meets_between(occupied.meets, roots) >= cut).any():
        raise AssertionError("each subtree must come from one part")
    above = find_above(occupied, passed, parameters, cut)
    levels, gaps = found.records.T
    cells = Cells(np.append(found.at, above.places), np.append(levels, above.levels), np.append(gaps, above.gaps))
    return replace(counts, occupied=occupied), cells


def _excerpt_below(occupied: Occupied, *, parameters: GapParameters, cut: int) -> Excerpt:
    found = find_below(occupied, parameters, cut)
    cells = found.cells
    numbers, records = np.column_stack((found.people, found.passed)), np.column_stack((cells.levels, cells.gaps))
    return Excerpt(found.kept, numbers, cells.places, records)


def _part(parameters: GapParameters, cut: int, *, below: bool) -> GapParameters:
    """The tested levels on one side of a cut, whose own level is below it."""
    shape = parameters.shape
    if cut not in cut_levels(parameters):
        raise ValueError(f"cut ({cut}) must be one of the tested levels {cut_levels(parameters)}")
    first = shape.levels.index(cut)
    part = slice(first, None) if below else slice(None, first)
    return replace(
        parameters,
        shape=replace(
            shape,
            levels=shape.levels[part],
            thresholds=shape.thresholds[part],
            radii=shape.radii[part],
            margins=shape.margins[part],
        ),
    )


def _nearest_shown(occupied: Occupied, cells: Cells) -> Ints:
    """For each place the level of the deepest node that is at or above it and at or above a cell; -1 without any."""
    size = occupied.levels.size
    deepest = np.full(size, -1)
    np.maximum.at(deepest, cells.places, cells.levels)
    starts = np.flatnonzero(deepest >= 0)
    if starts.size == 0:
        return deepest
    joins = np.append(-1, occupied.meets)
    before = np.where(deepest >= 0, deepest, joins)  # a cell's own start meets it at its level
    after = np.append(joins[1:], -1)
    left: Ints = np.cumsum(deepest >= 0)  # how many cells begin at or before each place
    right: Ints = starts.size - left
    low = _running_least(before, left)
    high = _running_least(after[::-1], right[::-1])[::-1]
    return np.maximum(np.where(left > 0, low, -1), np.where(right > 0, high, -1))


def _running_least(values: Ints, runs: Ints) -> Ints:
    """The least value so far in each run; runs are numbered without a fall."""
    span = np.int64(values.max()) - np.int64(values.min()) + 1
    least: Ints = np.minimum.accumulate(values - runs * span) + runs * span
    return least
