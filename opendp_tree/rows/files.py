"""Frames from files: Parquet, Arrow IPC and CSV."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from opendp_tree.rows.groups import own_scan, read_again_like

__all__ = [
    "FORMATS",
    "FRAME_ERRORS",
    "file_format",
    "read_paths",
    "scan_file",
    "scan_files",
    "with_numbers",
    "with_times",
]

FRAME_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What reading can raise. The messages may hold data."""
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
"""The format to read that a file's ending stands for."""


def file_format(path: str | Path) -> str | None:
    """What a file's ending says of its format, if anything."""
    return FORMATS.get(Path(path).suffix.lower())


def scan_file(path: str | Path, *, file_format: str) -> pl.LazyFrame:
    """A file as a lazy frame, so that no row decides whether the others can be read."""
    if file_format == "parquet":
        return own_scan(pl.scan_parquet(path, glob=False))
    if file_format == "ipc":
        return own_scan(pl.scan_ipc(path, glob=False, hive_partitioning=False))
    lossy = pl.scan_csv(path, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy", glob=False)
    return own_scan(lossy)


def scan_files(pattern: str | Path) -> pl.LazyFrame:
    """One file, or all whose names match a pattern, as a lazy frame; their formats are those of their endings."""
    names = [str(pattern)] if Path(pattern).exists() else sorted(glob.glob(str(pattern), recursive=True))
    if not names:
        raise FileNotFoundError(f"there is no file {str(pattern)!r}. Hint: check the path; '*' stands for any letters")
    frames = [_scan_known(name) for name in names]
    first = frames[0].collect_schema()
    for name, frame in zip(names[1:], frames[1:], strict=True):
        if dict(frame.collect_schema()) != dict(first):
            raise ValueError(
                f"{name!r} must have the columns and data types of {names[0]!r}. "
                "Hint: read the files one by one and bring them to one schema"
            )
    if not frames[1:]:
        return frames[0]
    return own_scan(pl.concat([frame.select(selectors.by_name(*first)) for frame in frames]))


def _scan_known(name: str) -> pl.LazyFrame:
    """A file whose ending says its format, and whose columns can be read."""
    if Path(name).is_dir():
        raise IsADirectoryError(f"{name!r} must be a file. Hint: {str(Path(name) / '*.parquet')!r}")
    form = file_format(name)
    if form is None:
        raise ValueError(f"{name!r} must end in one of {' '.join(FORMATS)}. Hint: rename it, or pass a Polars scan")
    try:
        frame = scan_file(name, file_format=form)
        frame.collect_schema()
    except FRAME_ERRORS:
        frame = None
    if frame is None:  # not within `except`: what Polars says may hold data
        raise ValueError(f"{name!r} cannot be read as {form}. Hint: is it empty, damaged, or of another format?")
    return frame


def with_times(frame: pl.LazyFrame, column: str, *, hours: bool) -> pl.LazyFrame:
    """The frame with a column of texts as dates or times: ISO 8601, without zones; what is no date is null."""
    if frame.collect_schema()[column] != pl.String:
        return frame
    text = pl.col(column)
    if hours:
        hour = text.str.slice(0, 13).str.replace("T", " ", literal=True) + ":00:00"
        times = hour.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).alias(column)
    else:
        times = text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    return read_again_like(frame.with_columns(times), frame)


def with_numbers(frame: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    """The frame with columns of texts as floats; what is no number is null."""
    types = frame.collect_schema()
    texts = [pl.col(name).str.strip_chars() for name in columns if types[name] == pl.String]
    return read_again_like(frame.with_columns(text.cast(pl.Float64, strict=False) for text in texts), frame)


def read_paths(
    listed: pl.LazyFrame, columns: Sequence[str], *, like: pl.LazyFrame, separator: str, depth: int
) -> list[tuple[Any, ...]]:
    """The distinct rows of a list of nodes as paths, which end at the first null; labels as the data have them."""
    types = like.collect_schema()
    labels = (pl.String, pl.Categorical, pl.Enum)
    rows = listed.select(
        pl.col(name).cast(pl.String if types[name] in labels else types[name], strict=False) for name in columns
    )
    distinct = rows.unique(maintain_order=True).collect().rows()
    if separator:
        split = [
            str(text).removeprefix(separator).removesuffix(separator).split(separator) for (text,) in distinct if text
        ]
        return list(dict.fromkeys(tuple(path[: depth - 1]) for path in split))
    paths = [row[: row.index(None)] if None in row else row for row in distinct]
    return list(dict.fromkeys(path for path in paths if path))
