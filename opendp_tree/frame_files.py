"""Frames from files and into files: Parquet, CSV, and JSON with one object a line."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

__all__ = ["FORMATS", "file_format", "frame_bytes", "read_all", "scan_file"]

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}
"""The format that a file's ending stands for."""


def file_format(path: str | Path) -> str | None:
    """What a file's ending says of its format, if anything."""
    return FORMATS.get(Path(path).suffix.lower())


def scan_file(path: str | Path, *, file_format: str) -> pl.LazyFrame:
    """A file as a lazy frame. Texts stay texts: guessing types would make later rows errors that depend on data.

    So every column of a CSV or NDJSON file is read as text, missing values at the end of a CSV row are null, and
    surplus ones are dropped.
    """
    if file_format == "parquet":
        return pl.scan_parquet(path, glob=False)
    if file_format == "csv":
        return pl.scan_csv(path, infer_schema=False, truncate_ragged_lines=True, glob=False)
    names = pl.scan_ndjson(path).collect_schema().names()
    return pl.scan_ndjson(path, schema=dict.fromkeys(names, pl.String))


def read_all(frame: pl.LazyFrame) -> None:
    """Read all rows and keep none: raises if the file is damaged."""
    frame.select(pl.all().hash().max()).collect(engine="streaming")


def frame_bytes(frame: pl.DataFrame, *, file_format: str) -> bytes:
    """A frame as the content of a file."""
    buffer = io.BytesIO()
    if file_format == "parquet":
        frame.write_parquet(buffer)
    elif file_format == "csv":
        frame.write_csv(buffer)
    else:
        frame.write_ndjson(buffer)
    return buffer.getvalue()
