"""What is to be counted, from the arguments: a file, a hierarchy, and whose privacy. Reads no row of the data."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp_tree._arguments import float_below
from opendp_tree.cli.terminal import CommandError, Exit, silenced
from opendp_tree.keys.key import Key
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Source", "budget_of", "cost_of", "open_source", "read_key", "scan_columns", "typed"]


@dataclass(frozen=True)
class Source:
    """Rows, and where each belongs."""

    frame: pl.LazyFrame
    key: Key


KEY_KINDS = ("path", "url", "ip", "calendar", "number")
_BELONGS = {
    "separator": ("path",),
    "depth": ("path", "url"),
    "ip_version": ("ip",),
    "stride": ("ip",),
    "levels": ("calendar",),
    **dict.fromkeys(("low", "high", "bins", "width", "branching"), ("number",)),
}


def budget_of(options: argparse.Namespace) -> dict[str, Any]:
    """The budget as mechanisms take it: the nearest floats below."""
    return {name: float_below(amount) for name, amount in cost_of(options).items()}


def cost_of(options: argparse.Namespace) -> dict[str, Fraction]:
    """The budget exactly as written."""
    main = {"epsilon": options.epsilon} if options.rho is None else {"rho": options.rho}
    return {**main, "delta": options.delta}


def read_key(options: argparse.Namespace) -> Key:
    """The hierarchy that the arguments describe."""
    kind = next((kind for kind in KEY_KINDS if getattr(options, kind) is not None), None)
    if kind is None and options.by is None:
        others = ", ".join(f"--{each}" for each in KEY_KINDS)
        raise CommandError(Exit.USAGE, f"a hierarchy is missing. Hint: --by A,B,C or {others} COLUMN")
    for name, owners in _BELONGS.items():
        if getattr(options, name) is not None and kind not in owners:
            raise CommandError(Exit.USAGE, f"--{name.replace('_', '-')} goes with --{owners[0]}. Hint: leave it out")
    try:
        if kind is None:
            by: Key = options.by
            return by
        own = _key_of(kind, options)
        return own if options.by is None else Key.nested(options.by, own)
    except (TypeError, ValueError) as error:  # about arguments: no data has been read
        raise CommandError(Exit.USAGE, f"{error}. Hint: opendp-tree {options.command} --help") from None


def _key_of(kind: str, options: argparse.Namespace) -> Key:
    if kind == "path":
        separator = "/" if options.separator is None else options.separator
        return Key.path(options.path, separator=separator, depth=options.depth or 4)
    if kind == "url":
        return Key.url(options.url, depth=options.depth or 6)
    if kind == "ip":
        version = options.ip_version or "4"
        return Key.ip(options.ip, version="both" if version == "both" else int(version), stride=options.stride)
    if kind == "calendar":
        return Key.calendar(options.calendar, levels=options.levels or ("year", "month", "day"))
    return Key.number(
        options.number,
        low=options.low,
        high=options.high,
        bins=options.bins,
        width=options.width,
        branching=options.branching,
        outside=options.outside or "leaf",
    )


def open_source(options: argparse.Namespace, *, unit: str | None = None, values: tuple[str, ...] = ()) -> Source:
    """The file, with all that can be checked before its rows are read."""
    from opendp_tree.rows.sources import with_numbers

    key = read_key(options)
    columns = (*key.columns_used, *([unit] if unit else []))
    if twice := [name for name in values if name in columns]:
        raise CommandError(Exit.USAGE, f"--value {twice[0]} is in use already. Hint: another column")
    frame = scan_columns(options.file, options.format, (*columns, *values))
    frame = with_numbers(typed(frame, key), values)
    if options.nodes == "public" and options.tree is None:
        raise CommandError(Exit.USAGE, "public nodes must be listed. Hint: --tree FILE, or leave out --nodes public")
    if options.nodes == "open" and options.tree is not None:
        raise CommandError(Exit.USAGE, "--tree lists public nodes. Hint: --nodes public")
    try:
        tree = key.tree if options.tree is None else _read_tree(options, key, frame)
        of_number = key.tree is not None  # which has said where such rows go
        if options.outside is not None and of_number and options.number is None:
            raise ValueError("--outside is not for a number in --by. Hint: number(..., outside=drop)")
        key = replace(key, tree=tree, outside=key.outside if of_number else options.outside)
    except ValueError as error:  # about arguments: no data has been read
        raise CommandError(Exit.USAGE, f"{error}. Hint: opendp-tree {options.command} --help") from None
    return Source(frame, key)


def typed(frame: pl.LazyFrame, key: Key) -> pl.LazyFrame:
    """Texts of a CSV file as what the key reads; what is no such value is null."""
    from opendp_tree.rows.sources import with_numbers, with_times

    for column, owner in zip(key.columns_used, key.column_owners, strict=True):
        if owner.text_form == "number":
            frame = with_numbers(frame, [column])
        elif owner.text_form is not None:
            frame = with_times(frame, column, hours=owner.text_form == "time")
    return frame


def _read_tree(options: argparse.Namespace, key: Key, frame: pl.LazyFrame) -> Tree:
    """The public tree that a file lists, one leaf a row."""
    from opendp_tree.rows.sources import FRAME_ERRORS, read_paths

    separator = getattr(options, "path", None) and (options.separator or "/")
    if not (key.counts_by_value or separator) or (separator and options.by):
        raise CommandError(Exit.USAGE, "--tree goes with --by or --path. Hint: leave it out")
    listed = scan_columns(options.tree, None, key.columns_used)
    try:
        with silenced():
            paths = read_paths(listed, key.columns_used, like=frame, separator=separator or "", depth=key.depth)
    except FRAME_ERRORS:
        raise CommandError(Exit.FAILURE, f"{options.tree} cannot be read. Hint: is it damaged?") from None
    if not paths:
        raise CommandError(Exit.FAILURE, f"{options.tree} lists no nodes. Hint: one leaf a row")
    try:
        return Tree.from_paths(paths, names=key.names if key.counts_by_value else None)
    except (TypeError, ValueError):
        raise CommandError(Exit.FAILURE, f"{options.tree} lists no tree. Hint: one leaf a row, each once") from None


def scan_columns(name: str, given: str | None, columns: tuple[str, ...]) -> pl.LazyFrame:
    """A file with the columns, or a failure that says what is wrong."""
    from opendp_tree.rows.grouping import read_again_like
    from opendp_tree.rows.sources import FORMATS, FRAME_ERRORS, file_format, scan_file

    path = Path(name)
    if not path.is_file():
        raise CommandError(Exit.FAILURE, f"there is no file {name}. Hint: check the name")
    form = given or file_format(path)
    if form is None and path.suffix.lower() in (".ndjson", ".jsonl"):
        raise CommandError(
            Exit.USAGE,
            f"{name}: NDJSON is not read, because one line can decide whether the others can be. "
            "Hint: convert it to Parquet",
        )
    if form is None:
        raise CommandError(Exit.USAGE, f"{name} has an unknown ending. Hint: --format, or one of {' '.join(FORMATS)}")
    if path.stat().st_size == 0:
        raise CommandError(Exit.FAILURE, f"{name} is empty. Hint: even a file without rows must name its columns")
    try:
        with silenced():
            frame = scan_file(path, file_format=form)
            names = frame.collect_schema().names()
    except FRAME_ERRORS:
        raise CommandError(Exit.FAILURE, f"{name} cannot be read as {form}. Hint: --format, or convert it") from None
    for column in columns:
        if column not in names:
            # Which columns there are is not said: without a heading, they would be the first row.
            hint = "the first line of a CSV file must name its columns" if form == "csv" else "check the name"
            raise CommandError(Exit.USAGE, f"{name} has no column {column}. Hint: {hint}")
    return read_again_like(frame.select(list(dict.fromkeys(columns))), frame)
