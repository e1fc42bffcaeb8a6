"""At most so many rows and leaves for each person, chosen without regard to the order of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Limits:
    """What one person may contribute."""

    rows: int | None
    """Rows in all."""
    leaves: int | None
    """Leaves in all; with them, `rows_per_leaf` at each."""
    rows_per_leaf: int = 1


def truncate(units: Ints, leaves: Ints, rows: Ints, draws: Words, limits: Limits) -> Ints:
    """How many of its rows each pair of a person and a leaf keeps.

    No pair occurs twice. A person's leaves are taken in the order of their draws, the first `limits.leaves` of them,
    each with at most `limits.rows_per_leaf` rows, until `limits.rows` rows are kept. So what is kept of a person is a
    function of that person's own counts and draws alone.

    >>> two = np.array([7, 7, 8]), np.array([0, 1, 1]), np.array([4, 4, 4])
    >>> truncate(*two, np.array([5, 3, 9], dtype=np.uint64), Limits(rows=5, leaves=None))
    array([1, 4, 4])
    """
    kept = rows.copy()
    if limits.leaves is not None:
        np.minimum(kept, limits.rows_per_leaf, out=kept)
    order = np.lexsort((leaves, draws, units))
    starts = np.flatnonzero(np.concatenate(([True], units[order][1:] != units[order][:-1]))) if units.size else units
    sizes = np.diff(np.append(starts, units.size))
    if limits.leaves is not None:
        place = np.arange(units.size) - np.repeat(starts, sizes)
        kept[order[place >= limits.leaves]] = 0
    if limits.rows is not None:
        ordered = kept[order]
        before = np.cumsum(ordered) - ordered
        before -= np.repeat(before[starts], sizes)
        kept[order] = np.clip(limits.rows - before, 0, ordered)
    return kept
