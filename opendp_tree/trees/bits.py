"""Keys of up to 128 bits as two words each: how they are read, sorted and compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_tree._types import Ints, Levels, Words

_WORD = 2**64 - 1
_BLOCK = 1 << 16


@dataclass(frozen=True)
class BitKeys:
    """Keys as high and low words, aligned to the left."""

    high: Words
    low: Words

    @classmethod
    def of_integers(cls, high: Words, low: Words, width: int) -> BitKeys:
        """Integers of `width` bits, moved to the left: `to_the_right` gives them back."""
        shift = 128 - width
        if shift >= 64:
            return cls(low << np.uint64(shift - 64), np.zeros_like(low))
        if shift == 0:
            return cls(high, low)
        return cls((high << np.uint64(shift)) | (low >> np.uint64(64 - shift)), low << np.uint64(shift))

    def to_the_right(self, width: int) -> tuple[Words, Words]:
        """High and low words of the integers of `width` bits that they came from."""
        shift = 128 - width
        if shift >= 64:
            return np.zeros_like(self.high), self.high >> np.uint64(shift - 64)
        if shift == 0:
            return self.high, self.low
        right, left = np.uint64(shift), np.uint64(64 - shift)
        return self.high >> right, (self.low >> right) | (self.high << left)

    def first(self, bits: Ints) -> BitKeys:
        """The keys with all but their first bits cleared."""
        return BitKeys(self.high & _mask(bits.clip(0, 64)), self.low & _mask((bits - 64).clip(0, 64)))

    def common_bits(self, other: BitKeys) -> Levels:
        """How many bits each key begins with that are those of the other key in its place; 128 if all are."""
        common = np.empty(self.high.size, dtype=np.int16)
        for start in range(0, self.high.size, _BLOCK):  # what is in between stays in cache
            part = slice(start, start + _BLOCK)
            upper = self.high[part] ^ other.high[part]
            found = 64 - bit_length(upper)
            alike = np.flatnonzero(upper == 0)
            found[alike] = 128 - bit_length((self.low[part] ^ other.low[part])[alike])
            common[part] = found
        return common

    def is_sorted(self) -> bool:
        """Whether the keys ascend, equal ones among them or not."""
        after, before = self.high[1:], self.high[:-1]
        if (after > before).all():
            return True
        return bool(((after > before) | ((after == before) & (self.low[1:] >= self.low[:-1]))).all())

    def sorted(self) -> BitKeys:
        """The keys in ascending order. Values sort faster than places: by NumPy, or as Polars' integers of 128 bits."""
        if not self.low.any():
            return BitKeys(np.sort(self.high), self.low)
        import polars as pl

        key, base = pl.col("key"), pl.lit(2**64, dtype=pl.UInt128)
        words = pl.DataFrame({"high": self.high, "low": self.low})
        joined = words.select((pl.col("high").cast(pl.UInt128) * base + pl.col("low")).alias("key")).to_series().sort()
        split = joined.to_frame().select(high=(key // base).cast(pl.UInt64), low=(key % base).cast(pl.UInt64))
        return BitKeys(split["high"].to_numpy(), split["low"].to_numpy())

    def order(self) -> Ints:
        """The places of the keys in ascending order."""
        order = np.argsort(self.high)
        high = self.high[order]
        same = high[1:] == high[:-1]
        if same.any() and self.low.any():
            tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
            runs, low = np.cumsum(np.append(True, ~same))[tied], self.low[order[tied]]
            # By the low word, and then by the run, 16 bits at a time: NumPy sorts these by radix, in linear time.
            within = np.argsort(low)
            for shift in range(0, int(runs[-1]).bit_length(), 16):
                within = within[np.argsort((runs[within] >> shift).astype(np.uint16), kind="stable")]
            order[tied] = order[tied[within]]
        return order

    def __getitem__(self, rows: Ints | slice) -> BitKeys:
        """Some of the keys."""
        return BitKeys(self.high[rows], self.low[rows])


def bit_length(words: Words) -> Ints:
    """The position of the highest bit set, from 1; 0 for 0."""
    upper, lower = (words >> np.uint64(32)).astype(np.float64), (words & np.uint64(2**32 - 1)).astype(np.float64)
    return np.where(upper > 0, np.frexp(upper)[1] + 32, np.frexp(lower)[1]).astype(np.int64)


def read_words(keys: Iterable[Any], width: int) -> tuple[Words, Words]:
    """Keys as high and low words; what is no integer of this width is left out."""
    array = keys if isinstance(keys, np.ndarray) else None
    if array is not None and array.dtype.kind not in "iuO":
        raise TypeError(f"keys ({array.dtype}) must be integers")
    if array is None or array.dtype.kind == "O":
        whole = [int(key) for key in (keys if array is None else array.tolist()) if _is_key(key, width)]
        return words_of(whole)
    if array.ndim == 1:
        low = (array if array.dtype.kind == "u" else array[array >= 0]).astype(np.uint64)
        if width < 64 and low.size and low.max() >= np.uint64(1 << width):
            low = low[low < np.uint64(1 << width)]
        return np.zeros_like(low), low
    if array.ndim == 2 and array.shape[1] == 2 and array.dtype == np.uint64:
        high, low = np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
        if width == 128:
            return high, low
        inside = high < np.uint64(1 << max(width - 64, 0))
        if width < 64:
            inside &= low < np.uint64(1 << width)
        return high[inside], low[inside]
    raise TypeError("keys must be a one-dimensional array of integers, or a uint64 array of shape (n, 2)")


def words_of(integers: list[int]) -> tuple[Words, Words]:
    """The high and low words of Python's integers."""
    high = np.array([integer >> 64 for integer in integers], dtype=np.uint64)
    return high, np.array([integer & _WORD for integer in integers], dtype=np.uint64)


def _is_key(key: Any, width: int) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= int(key) < (1 << width)


def _mask(bits: Ints) -> Words:
    """Words whose first bits are set. A shift by 64 is undefined, so none is made."""
    shifted = np.uint64(_WORD) << (64 - bits).clip(0, 63).astype(np.uint64)
    return np.where(bits > 0, shifted, np.uint64(0))
