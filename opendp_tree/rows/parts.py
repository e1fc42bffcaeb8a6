"""Rows in parts that fit into memory: all rows of a person are in one part, and no part knows of another.

Into how many parts people fall says nothing about what is kept of them, so the law of what is released is the same for
any number. It shows in time and memory alone, and so may depend on how many rows there are.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._arguments import check_integer
from opendp_tree._types import Ints
from opendp_tree.noise import uniform_words
from opendp_tree.rows.groups import UNIT, guarded, may_read_again
from opendp_tree.rows.people import PeoplePart

__all__ = [
    "by_unit",
    "frame_parts",
    "new_salt",
    "parts_for",
    "people_part",
    "people_records",
    "read_memory",
    "same_when_read_again",
]

_UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1024 ** (place + 1) for place, letter in enumerate("KMGT")}}
_UNITS |= {f"{letter}B": 1000 ** (place + 1) for place, letter in enumerate("KMGT")}
_LARGEST_SHARE, _LARGEST_DEFAULT = 8, 2 * 2**30
_BYTES_A_RECORD, _BYTES_A_COLUMN = 160, 48
"""What a row takes while people's records are sorted and weighed, beside columns that are held: three times what was
measured, because allocators keep for a while what a scan of files has used before.
"""
_MOST_PARTS = 1024
_HASHED = (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Duration, pl.Binary)
_WIDE = (pl.Int128, pl.UInt128)


def read_memory(memory: int | str | None) -> int:
    """A number of bytes; by default an eighth of the machine's memory, and at most 2 GiB."""
    if memory is None:
        return min(_machine_memory() // _LARGEST_SHARE, _LARGEST_DEFAULT)
    if not isinstance(memory, str):
        return check_integer(memory, name="memory", least=1)
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([A-Za-z]*)", memory.strip(), re.ASCII)
    if found is None or found[2] not in _UNITS or not 1 <= float(found[1]) * _UNITS[found[2]] < 2**62:
        raise ValueError(f"memory ({memory!r}) must be a number of bytes. Hint: '2GiB', or 2 * 2**30")
    return int(float(found[1]) * _UNITS[found[2]])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # there is no way to ask on this system
        return _LARGEST_SHARE * _LARGEST_DEFAULT


def new_salt() -> bytes:
    """Sixteen secure bytes, to key a hash. Nothing depends on their being secret: they keep order from being chosen."""
    return uniform_words(2).tobytes()


def parts_for(rows: int, columns: int, memory: int) -> int:
    """Into how many parts to take so many rows, each with so many columns besides, for each to stay within memory."""
    needed = rows * (_BYTES_A_RECORD + _BYTES_A_COLUMN * columns)
    return max(1, min(-(-needed // memory), rows, _MOST_PARTS))


def frame_parts(frame: pl.LazyFrame, unit: str, rows: int, memory: int) -> int:
    """Into how many parts to take the people of a frame; one where values of its identifier have no hash."""
    dtype = guarded(frame.collect_schema)[unit]
    if _hashable(dtype, unit) is None:
        return 1
    return parts_for(rows, 0 if dtype.is_integer() else 1, memory)  # of the key, each row has a number alone


def same_when_read_again(frame: pl.LazyFrame) -> pl.LazyFrame:
    """A frame that has the same rows in every pass: one of which that is not known is run now, and held."""
    return frame if may_read_again(frame) else guarded(lambda: frame.collect(engine="streaming")).lazy()


def people_part(frame: pl.LazyFrame, unit: str, salt: bytes, part: int, parts: int) -> pl.LazyFrame:
    """The rows of the people of one part; a person's part is a hash of the salt and the identifier's value."""
    value = _hashable(guarded(frame.collect_schema)[unit], unit)
    if parts == 1 or value is None:
        return frame
    return frame.filter(value.hash(int.from_bytes(salt[:8], "little")) % parts == part)


def _hashable(dtype: Any, unit: str) -> pl.Expr | None:
    """The values of an identifier, where equal ones surely have equal hashes in every pass."""
    column = pl.col(unit)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)  # codes may differ from one pass to the next
    plain = dtype.is_integer() and dtype not in _WIDE
    return column if plain or dtype in _HASHED else None


def people_records(size: int, units: pl.Series, leaves: Ints, rows: Ints | None = None) -> PeoplePart:
    """The records of rows that come in any order: whose each is, none null, and at which of `size` leaves."""
    bits = max(size - 1, 0).bit_length()
    # Person and leaf in one word: one sort of plain integers puts both in order.
    joined = person_numbers(units, 63 - bits)
    joined <<= bits
    joined |= leaves
    if rows is None:
        joined = pl.Series(joined).sort().to_numpy()
        firsts = _run_starts(joined)
        rows = np.append(firsts[1:], joined.size)[: firsts.size]
        rows -= firsts
    else:
        order = np.argsort(joined)
        joined = joined[order]
        firsts = _run_starts(joined)
        rows = np.add.reduceat(rows[order], firsts) if firsts.size else rows
    pairs = joined[firsts]
    del joined, firsts
    starts = _run_starts(pairs >> bits)
    pairs &= (1 << bits) - 1
    return PeoplePart(size, starts, pairs, rows)


def person_numbers(units: pl.Series, bits: int) -> Ints:
    """A number from 0 to below 2**bits for each row, the same for rows of one person alone; a new array."""
    if units.dtype.is_integer() and units.dtype not in _WIDE:
        values = units.to_numpy()
        if values.size and int(values.max()) - int(values.min()) >= 1 << bits:
            values = units.rank("dense").to_numpy()
        wide = values.astype(np.int64 if np.issubdtype(values.dtype, np.signedinteger) else np.uint64, copy=False)
        return (wide - (wide.min() if wide.size else wide.dtype.type(0))).view(np.int64)
    order, starts = by_unit(units)
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
    return numbers


def by_unit(units: pl.Series) -> tuple[Ints, Ints]:
    """An order of rows in which each unit's are together, and where each unit starts in it."""
    if units.dtype.is_integer() and units.dtype not in _WIDE:
        order = np.argsort(units.to_numpy())
        return order, _run_starts(units.to_numpy()[order])
    places = pl.DataFrame({UNIT: units}).with_row_index("place").group_by(UNIT).agg("place")["place"]
    sizes = places.list.len().to_numpy().astype(np.int64)
    return places.explode().to_numpy().astype(np.int64), np.cumsum(sizes) - sizes


def _run_starts(values: Ints) -> Ints:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])
