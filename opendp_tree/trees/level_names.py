"""What the levels of a tree are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opendp_tree._arguments import is_text

RESERVED = ("level", "estimate", "lower", "upper", "cells", "shown", "path", "other", "node", "prefix", "bits", "gap")
"""What a release's frame calls its own columns."""
FIGURES = ("sum", "sum_lower", "sum_upper", "mean", "mean_lower", "mean_upper")
"""What a release's frame has for each value."""


def check_names(names: Iterable[str] | None, *, count: int | None = None) -> tuple[str, ...]:
    """What frames call the label of each level below the root."""
    if names is None:
        return tuple(f"label_{number}" for number in range(1, (count or 0) + 1))
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names ({names!r}) must be a collection of texts. Hint: wrap a single name: [name]")
    given = tuple(names)
    for name in given:
        if type(name) is not str:
            raise TypeError(f"names: {name!r} must be a text")
        if not name or not is_text(name):
            raise ValueError(f"names: {name!r} must be a text of at least one letter that can be written as UTF-8")
        if name in RESERVED:
            raise ValueError(f"names: {name!r} must not be one of {', '.join(RESERVED)}: columns of every release")
    if len(set(given)) < len(given):
        raise ValueError(f"names ({', '.join(given)}) must be distinct")
    if count is not None and len(given) != count:
        raise ValueError(f"names ({', '.join(given)}) must be {count}, one for each level below the root")
    return given


def figure_names(columns: Sequence[str]) -> list[str]:
    """What a release's frame calls the figures of its values: with several, the name of each stands before them."""
    return [f"{column}_{name}" if len(columns) > 1 else name for column in columns for name in FIGURES]


def check_figure_names(columns: Sequence[str], names: Sequence[str]) -> None:
    """That the figures of values and the levels of a tree have names of their own."""
    figures = figure_names(columns)
    taken = [name for name in figures if name in (*names, *RESERVED)]
    if taken or len(set(figures)) < len(figures):
        raise ValueError(
            f"value: the release would have two columns {(taken or figures)[0]!r}. Hint: rename the column of the data"
        )
