"""At most so many rows and leaves for each person, chosen without regard to the order of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendp_tree._types import Ints, Words
from opendp_tree.rows.unit import Unit


def truncate(rows: Ints, starts: Ints, unit: Unit, draw: Callable[[Ints], Words]) -> Ints:
    """How many of its rows each pair of a person and a leaf keeps."""
    kept = rows if unit.leaves is None else np.minimum(rows, unit.rows_per_leaf)
    sizes = np.diff(np.append(starts, rows.size))
    crowded = np.zeros(sizes.size, dtype=np.bool_)
    if unit.leaves is not None:
        crowded |= sizes > unit.leaves
    if unit.rows is not None and rows.size:
        crowded |= np.add.reduceat(kept, starts) > unit.rows
    if not crowded.any():
        return kept
    places = np.flatnonzero(np.repeat(crowded, sizes))
    sizes = sizes[crowded]
    places = places[shuffled(sizes, lambda: draw(places))]
    starts = np.cumsum(sizes) - sizes
    ordered = kept[places]
    if unit.leaves is not None:
        ordered[np.arange(places.size) - np.repeat(starts, sizes) >= unit.leaves] = 0
    if unit.rows is not None:
        before = np.cumsum(ordered) - ordered
        before -= np.repeat(before[starts], sizes)
        ordered = np.clip(unit.rows - before, 0, ordered)
    kept = kept.copy()
    kept[places] = ordered
    return kept


def shuffled(sizes: Ints, draw: Callable[[], Words]) -> Ints:
    """A uniformly random order within each run of `sizes` places. Equal words say nothing of the order: draw again."""
    persons = np.repeat(np.arange(sizes.size), sizes)
    # Mostly the person and the first bits of the draw, in one word, tell all apart: one sort instead of two.
    bits = np.uint64(sizes.size.bit_length())
    joined = persons.astype(np.uint64) << (np.uint64(64) - bits) | draw() >> bits
    order = np.argsort(joined)
    tied = joined[order][1:] == joined[order][:-1]
    while tied.any():
        words = draw()
        order = np.lexsort((words, persons))
        tied = (words[order][1:] == words[order][:-1]) & (persons[1:] == persons[:-1])
    return order
