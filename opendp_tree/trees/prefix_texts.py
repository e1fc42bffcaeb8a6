"""Prefixes of bits as people write them: integers, or addresses."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from opendp_tree._types import Ints, Words
from opendp_tree.trees.bit_keys import BitKeys
from opendp_tree.trees.open_tree import OpenTree


def prefix_texts(prefixes: BitKeys, bits: Ints, tree: OpenTree) -> pl.Series:
    """Each prefix with its length, `10.0.0.0/8`: an address, or the least integer that it begins."""
    high, low = prefixes.to_the_right(tree.width)
    if tree.shown_as == "integer":
        first = prefix_integers(prefixes, tree)
    else:
        first = _ipv4(low) if tree.shown_as == "ipv4" else _ipv6(high, low)
    return pl.select(pl.concat_str(first, pl.lit("/"), pl.Series(bits))).to_series()


def prefix_integers(prefixes: BitKeys, tree: OpenTree) -> pl.Series:
    """The least integer that each prefix begins."""
    high, low = prefixes.to_the_right(tree.width)
    if tree.width <= 64:
        return pl.Series(low, dtype=pl.UInt64)
    both = pl.Series(high).cast(pl.UInt128), pl.Series(low).cast(pl.UInt128)
    return pl.select(both[0] * pl.lit(2**64, dtype=pl.UInt128) + both[1]).to_series()


def _ipv4(words: Words) -> pl.Series:
    parts = [pl.Series(words >> np.uint64(shift) & np.uint64(255)) for shift in (24, 16, 8, 0)]
    return pl.select(pl.concat_str(parts, separator=".")).to_series()


def _ipv6(high: Words, low: Words) -> pl.Series:
    """Addresses as RFC 5952 writes them: the longest run of zeros, if longer than one, becomes `::`."""
    shifts = (48, 32, 16, 0)
    groups = np.stack([word >> np.uint64(shift) & np.uint64(0xFFFF) for word in (high, low) for shift in shifts])
    texts = [_hexadecimals().gather(group) for group in groups]
    runs = np.zeros((9, high.size), dtype=np.int64)  # the zeros that begin at each group
    for place in reversed(range(8)):
        runs[place] = np.where(groups[place] == 0, runs[place + 1] + 1, 0)
    longest = runs.max(axis=0)
    cases = np.where(longest > 1, runs.argmax(axis=0) * 9 + longest, 0)
    address = pl.Series([""]).new_from_index(0, high.size)
    for case in np.unique(cases).tolist():
        rows = np.flatnonzero(cases == case)
        start, length = divmod(case, 9)
        here = [text.gather(rows) for text in texts]
        if length:
            left, right = (_together(part, rows.size) for part in (here[:start], here[start + length :]))
            joined = pl.select(pl.concat_str(left, pl.lit("::"), right)).to_series()
        else:
            joined = _together(here, rows.size)
        address = address.scatter(rows, joined)
    return address


def _together(parts: list[pl.Series], size: int) -> pl.Series:
    if not parts:
        return pl.Series([""]).new_from_index(0, size)
    return pl.select(pl.concat_str(parts, separator=":")).to_series()


@lru_cache(maxsize=1)
def _hexadecimals() -> pl.Series:
    return pl.Series([f"{number:x}" for number in range(2**16)])
