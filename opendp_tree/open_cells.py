"""The released cells of an open tree, and the nodes above them: nothing here knows more than the cells' prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opendp_tree.occupied import Occupied
from opendp_tree.open_tree import BitKeys, OpenTree, SparseCounts, bit_length

if TYPE_CHECKING:
    import polars as pl

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class CellKeys:
    """Prefixes of cells in depth-first order: as words for bits, as one column of labels a level otherwise."""

    tree: OpenTree
    levels: Ints
    meets: Ints
    """For each cell but the last, the level of the deepest node that holds it and the next."""
    words: BitKeys | None
    columns: tuple[Any, ...]

    def shown(self) -> tuple[Ints, Ints, Ints]:
        """All nodes with a cell at or below them, level by level: their level, and their range of cells."""
        cells = Occupied(self.levels, self.meets, np.ones_like(self.levels), np.arange(self.levels.size))
        nodes = [cells.nodes_at(level) for level in range(self.tree.depth)]
        parts = [(np.full(starts.size, level), starts, ends) for level, (starts, ends) in enumerate(nodes)]
        levels, firsts, lasts = (np.concatenate(part) for part in zip(*parts, strict=True))
        return levels, firsts, lasts

    def to_frame(self, rows: Ints | None = None, levels: Ints | None = None) -> pl.DataFrame:
        """A row a cell: its level, and its prefix or labels. With rows and levels, for those cells' ancestors there."""
        from opendp_tree.frames import bit_frame, label_frame

        rows = np.arange(self.levels.size) if rows is None else rows
        levels = self.levels if levels is None else levels
        if self.words is not None:
            bits = self.tree.bits_at(levels)
            high, low = _first_bits(self.words.high[rows], self.words.low[rows], bits)
            return bit_frame(levels, bits, *_to_the_right(high, low, self.tree.width), wide=self.tree.width > 64)
        columns = [_above(column, rows, levels > place) for place, column in enumerate(self.columns)]
        return label_frame(levels, columns, self.tree.separator)


def cell_keys(counts: SparseCounts, places: Ints, levels: Ints) -> tuple[CellKeys, Ints]:
    """The prefixes of the nodes at `levels` above `places`, in depth-first order; and that order."""
    tree, keys = counts.tree, counts.keys
    if isinstance(keys, BitKeys):
        high, low = _first_bits(keys.high[places], keys.low[places], tree.bits_at(levels))
        order = np.lexsort((levels, low, high))
        high, low, levels = high[order], low[order], levels[order]
        upper, lower = high[1:] ^ high[:-1], low[1:] ^ low[:-1]
        common = np.where(upper != 0, 64 - bit_length(upper), 128 - bit_length(lower)) // tree.stride
        meets = np.minimum(common, np.minimum(levels[1:], levels[:-1]))
        return CellKeys(tree, levels, meets, BitKeys(high, low), ()), order
    from opendp_tree.frames import decode

    codes = np.where(np.arange(tree.depth - 1) < levels[:, None], keys.codes[places], -1)
    order = np.lexsort(codes.T[::-1])
    codes = codes[order]
    meets = np.argmax(codes[1:] != codes[:-1], axis=1)
    columns = tuple(decode(labels, column) for labels, column in zip(keys.labels, codes.T, strict=True))
    return CellKeys(tree, levels[order], meets, None, columns), order


def _first_bits(high: Words, low: Words, bits: Ints) -> tuple[Words, Words]:
    """The words with all but their first bits cleared."""
    return high & _mask(bits.clip(0, 64)), low & _mask((bits - 64).clip(0, 64))


def _mask(bits: Ints) -> Words:
    """Words whose first bits are set. A shift by 64 is undefined, so none is made."""
    shifted = np.uint64(2**64 - 1) << (64 - bits).clip(0, 63).astype(np.uint64)
    return np.where(bits > 0, shifted, np.uint64(0))


def _to_the_right(high: Words, low: Words, width: int) -> tuple[Words, Words]:
    """Words aligned to the left, as the integers of `width` bits that they came from."""
    shift = 128 - width
    if shift >= 64:
        return np.zeros_like(high), high >> np.uint64(shift - 64)
    if shift == 0:
        return high, low
    return high >> np.uint64(shift), (low >> np.uint64(shift)) | (high << np.uint64(64 - shift))


def _above(column: pl.Series, rows: Ints, reached: npt.NDArray[np.bool_]) -> pl.Series:
    from opendp_tree.frames import decode

    return decode(column, np.where(reached, rows, -1))
