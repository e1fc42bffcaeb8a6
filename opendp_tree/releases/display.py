"""A release as people see it when they ask for nothing more: its words, and its largest nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from opendp_tree._show import Bar, html_table, one_line, table
from opendp_tree.releases.values import value_columns

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

__all__ = ["release_html", "release_text"]

_LINES, _ROWS, _WIDE = 12, 20, 48
ROOT = "(all)"
"""What stands for the root, whose path is empty."""


def release_text(release: TreeRelease) -> str:
    """A short table and the release's words."""
    rows, more = _largest(release, _LINES)
    cells = [[one_line(path, _WIDE), *figures] for path, *figures in rows]
    shown = table(["path", "estimate", "lower", "upper", *_means(release)], cells)
    return "\n".join([shown, *([more] if more else []), "", *map(one_line, release.describe().splitlines())])


def release_html(release: TreeRelease) -> str:
    """The same for a notebook, with bars and intervals."""
    rows, more = _largest(release, _ROWS)
    first, *words = release.describe().splitlines()
    cells = [
        [one_line(path, 2 * _WIDE), estimate, lower, upper, *means, Bar(estimate, lower, upper)]
        for path, estimate, lower, upper, *means in rows
    ]
    below = [*([more] if more else []), *words]
    return html_table(["path", "estimate", "lower", "upper", *_means(release), ""], cells, title=first, below=below)


def _means(release: TreeRelease) -> list[str]:
    """The columns of sums and means that a short table has room for: all but their ends."""
    return [name for name in value_columns(release.values) if name.endswith(("sum", "mean"))]


def _largest(release: TreeRelease, most: int) -> tuple[list[tuple[Any, ...]], str]:
    """The shown nodes with the largest estimates, in the order of the frame, and how many others there are."""
    frame = release.to_frame()
    shown = frame.filter("shown").select("path", "estimate", "lower", "upper", *_means(release), "level")
    top = shown.with_row_index("row")
    if top.height > most:
        # The root leads, whatever noise says.
        top = top.sort(pl.col("level") == 0, "estimate", descending=True, nulls_last=True).head(most).sort("row")
    left = shown.height - top.height
    rows = [(path if level or path else ROOT, *figures) for path, *figures, level in top.drop("row").rows()]
    return rows, f"... and {left:,} smaller {'row' if left == 1 else 'rows'}: to_frame() has all." if left else ""
