"""Keys of up to 128 bits as two words each: how they are read, sorted, compared and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Levels, Words

if TYPE_CHECKING:
    from opendp_tree.trees.open_tree import OpenTree

_WORD = 2**64 - 1


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

    @classmethod
    def zeros(cls, size: int) -> BitKeys:
        """Keys with no bits set."""
        return cls(np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64))

    @classmethod
    def joined(cls, first: BitKeys, second: BitKeys) -> BitKeys:
        """The first keys, followed by the second."""
        return cls(np.concatenate((first.high, second.high)), np.concatenate((first.low, second.low)))

    def to_the_right(self, width: int) -> tuple[Words, Words]:
        """High and low words of the integers of `width` bits: the inverse of `of_integers`."""
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
        """The length of the common prefix of each key and the other key at its index."""
        pairs = (self.high, other.high), (self.low, other.low)
        high, low = (pl.Series(one ^ two).bitwise_leading_zeros().to_numpy().astype(np.int16) for one, two in pairs)
        common: Levels = high + low * (high == 64)
        return common

    def is_sorted(self) -> bool:
        """Whether the keys are in ascending order; equal neighbours are allowed."""
        after, before = self.high[1:], self.high[:-1]
        if (after > before).all():
            return True
        return bool(((after > before) | ((after == before) & (self.low[1:] >= self.low[:-1]))).all())

    def sorted(self) -> BitKeys:
        """The keys in ascending order: faster than by `order`."""
        if self.is_sorted():
            return self
        if not self.low.any():
            return BitKeys(np.sort(self.high), self.low)
        key, base = pl.col("key"), pl.lit(2**64, dtype=pl.UInt128)
        joined = _wide(self.high, self.low).sort().alias("key").to_frame()
        split = joined.select(high=(key // base).cast(pl.UInt64), low=(key % base).cast(pl.UInt64))
        return BitKeys(split["high"].to_numpy(), split["low"].to_numpy())

    def order(self) -> Ints:
        """The indices of the keys in ascending order."""
        if not self.low.any():
            return np.argsort(self.high)
        return _wide(self.high, self.low).arg_sort().to_numpy().astype(np.int64)

    def __getitem__(self, rows: Ints | slice) -> BitKeys:
        return BitKeys(self.high[rows], self.low[rows])


def read_words(keys: Iterable[Any], width: int) -> tuple[Words, Words]:
    """Keys as high and low words; values that are not integers of this width are left out."""
    if not isinstance(keys, np.ndarray) or keys.dtype.kind == "O":
        integers = (int(key) for key in keys if isinstance(key, (int, np.integer)) and not isinstance(key, bool))
        return words_of([key for key in integers if 0 <= key < 1 << width])
    if keys.dtype.kind not in "iu":
        raise TypeError(f"keys ({keys.dtype}) must be integers")
    if keys.ndim == 1:
        low = (keys if keys.dtype.kind == "u" else keys[keys >= 0]).astype(np.uint64)
        high = np.zeros_like(low)
    elif keys.ndim == 2 and keys.shape[1] == 2 and keys.dtype == np.uint64:
        high, low = np.ascontiguousarray(keys[:, 0]), np.ascontiguousarray(keys[:, 1])
    else:
        raise TypeError("keys must be a one-dimensional array of integers, or a uint64 array of shape (n, 2)")
    fits = fitting(high, low, width)
    return (high, low) if fits.all() else (high[fits], low[fits])


def fitting(high: Words, low: Words, width: int) -> Bools:
    """Which integers have at most `width` bits."""
    if width == 128:
        return np.ones(low.size, dtype=np.bool_)
    fits: Bools = high < np.uint64(1 << max(width - 64, 0))
    return fits & (low < np.uint64(1 << width)) if width < 64 else fits


def words_of(integers: list[int]) -> tuple[Words, Words]:
    """The high and low words of Python integers."""
    high = np.array([integer >> 64 for integer in integers], dtype=np.uint64)
    return high, np.array([integer & _WORD for integer in integers], dtype=np.uint64)


def prefix_texts(prefixes: BitKeys, bits: Ints, tree: OpenTree) -> pl.Series:
    """Each prefix with its length, `10.0.0.0/8`: an address, or the least integer with this prefix."""
    high, low = prefixes.to_the_right(tree.width)
    if tree.shown_as == "integer":
        first = prefix_integers(prefixes, tree)
    else:
        first = _ipv6(high, low) if tree.shown_as == "ipv6" else _ipv4(low)
    return pl.select(pl.concat_str(first, pl.lit("/"), pl.Series(bits))).to_series()


def prefix_integers(prefixes: BitKeys, tree: OpenTree) -> pl.Series:
    """The least integer with each prefix."""
    high, low = prefixes.to_the_right(tree.width)
    return pl.Series(low, dtype=pl.UInt64) if tree.width <= 64 else _wide(high, low)


def _wide(high: Words, low: Words) -> pl.Series:
    words = pl.DataFrame({"high": high, "low": low})
    return words.select(pl.col("high").cast(pl.UInt128) * pl.lit(2**64, dtype=pl.UInt128) + pl.col("low")).to_series()


def _ipv4(words: Words) -> pl.Series:
    parts = [pl.Series(words >> np.uint64(shift) & np.uint64(255)) for shift in (24, 16, 8, 0)]
    return pl.select(pl.concat_str(parts, separator=".")).to_series()


def _ipv6(high: Words, low: Words) -> pl.Series:
    """Addresses as RFC 5952 writes them: the first longest run of zeros, if longer than one, becomes `::`."""
    groups = [word >> np.uint64(shift) & np.uint64(0xFFFF) for word in (high, low) for shift in (48, 32, 16, 0)]
    address = pl.select(pl.concat_str([_hexadecimals().gather(group) for group in groups], separator=":")).to_series()
    for length in range(8, 1, -1):
        shorter = address.str.replace(f"(^|:){':'.join('0' * length)}(:|$)", "::")
        address = shorter.zip_with(~address.str.contains("::", literal=True), address)
    return address


@lru_cache(maxsize=1)
def _hexadecimals() -> pl.Series:
    return pl.Series([f"{number:x}" for number in range(2**16)])


def _mask(bits: Ints) -> Words:
    """Words whose first bits are set. A shift by 64 is undefined, so it is avoided."""
    shifted = np.uint64(_WORD) << (64 - bits).clip(0, 63).astype(np.uint64)
    return np.where(bits > 0, shifted, np.uint64(0))
