"""A release in words and small tables: what people see in terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._show import Bar, Cell, html_table, one_line, table
from opendp_tree._types import Floats
from opendp_tree.budget import cost_words, counted_words
from opendp_tree.releases.frame import BETWEEN
from opendp_tree.releases.values import value_columns
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

_LINES, _ROWS, _WIDTH = 12, 20, 48
ROOT = "(all)"
"""The text for the root, whose path is empty."""
_MECHANISMS = {
    "tree_estimator": "layers of nodes measured, least squares; unknown nodes are found first",
    "people_laplace": "counts from layers with Laplace noise; unknown nodes are found from one row per person",
    "people_gaussian": "counts from layers with Gaussian noise; unknown nodes are found from one row per person",
    "pruned_laplace": "Laplace noise from the root down to a threshold",
    "pruned_gaussian": "Gaussian noise from the root down to a threshold",
    "tree_laplace": "Laplace noise on every node and least squares",
    "tree_gaussian": "Gaussian noise on every node and least squares",
    "multiplicative_estimator": "the paper's rounds of sparse vectors",
    "ladder_estimator": "a ladder of sparse vectors",
    "tree_means": "counts, sums and means from pairs of noisy sums",
    "bin_curve": "a balanced tree over all bins, Laplace noise and least squares",
    "segment_curve": "a tree over segments with many rows, Laplace noise and least squares",
    "grouped_curves": "a curve for each group that is shown",
    "clipped_estimator": "estimates clipped into intervals that always hold",
}
"""What each mechanism does."""
NO_SUMS = "The counts of a node's children do not add up to the count of the node."
"""For releases in which one person may be counted at several nodes of a level, or weighted by level."""


def release_words(release: TreeRelease) -> tuple[list[str], list[str]]:
    """A release in sentences: first what is counted, who is protected and at what cost, then all others."""
    statement = release.statement
    parameters: Mapping[str, Any] = {} if statement is None else statement.parameters
    shown = slice(None) if release.shown is None else release.shown
    reach = _reach(release.estimates, release.lower, release.upper)[shown]
    known = parameters.get("known", 0)
    closed, known = parameters.get("threshold", 0) is None, known if isinstance(known, int) else 0
    first = [tree_words(release.tree, reach.size, None if closed else max(known - 1, 0))]
    counted = counted_words(statement)
    first += counted
    if not release.adds_up:
        first.append(NO_SUMS)
    for value in release.values if release.adds_up else ():
        reaches = _reach(value.mean, value.mean_lower, value.mean_upper)[shown]
        middle = np.median(reaches[np.isfinite(reaches)]) if np.isfinite(reaches).any() else None
        also = "" if middle is None else f"; the median interval of a mean extends {_upward(middle)} from its estimate"
        first.append(f"Sums and means: {value.words()}{also}.")
    first.append(cost_words(statement))

    sure = "always" if release.confidence == 1 else f"with probability at least {release.confidence:.10g}"
    what = "its true count" + (", as counted above," if counted else "")
    rest = [f"Accuracy: each node's interval contains {what} {sure}."]
    if reach.size:
        median, widest = np.median(reach), reach.max()
        all_reach = f"all at most {_upward(widest)}" if math.isfinite(widest) else "some have no upper end"
        rest.append(f"Half of the intervals reach at most {_upward(median)} from their estimates, and {all_reach}.")
    if closed:
        rest.append("Not shown: nothing. Rows that leave the known nodes count at the last one on their path.")
    else:
        rest += _hidden_words(release)
    if release.curve is not None or release.curves is not None:
        rest.append("Quantiles and shares are of the rows on the line; rows outside the line are not included.")
    one_number = parameters.get("one_number_up_to")
    if isinstance(one_number, (int, float)):  # a text that was read may hold anything
        rest.append(f"All counts up to {one_number:,} are estimated as {one_number:,}.")
    if statement is not None:
        words = _MECHANISMS.get(statement.mechanism, "")
        if parameters.get("threshold") is None:
            words = words.split("; unknown nodes")[0]
        rest.append(f"Mechanism: {statement.mechanism}{f' ({words})' if words else ''}.")
    return [one_line(line) for line in first], [one_line(line) for line in rest]


def _reach(estimates: Floats, lower: Floats, upper: Floats) -> Floats:
    """How far each interval extends from its estimate."""
    return np.maximum(upper - estimates, estimates - lower)


def _upward(figure: float) -> str:
    """A figure rounded up to a whole number, or to three digits if that is more."""
    if not 0 < figure < math.inf:
        return f"{figure:g}"
    decimals = max(2 - math.floor(math.log10(figure)), 0)
    text = f"{math.ceil(figure * 10**decimals - 1e-6) / 10**decimals:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def tree_words(tree: Tree | OpenTree, shown: int, known: int | None = 0) -> str:
    """What was released; `known` names were known beforehand, all of them if it is None."""
    names, levels = f" ({' / '.join(('total', *tree.names))})" if tree.names else "", _number(tree.depth, "level")
    if isinstance(tree, OpenTree):
        if tree.kind == "bits":
            kind = {"integer": f"{tree.width}-bit integers", "ipv4": "IPv4 addresses", "ipv6": "IPv6 addresses"}
            outside = "; all other values are outside" if tree.outside else ""
            names = f" (prefixes of {kind[tree.shown_as]}, {_number(tree.stride, 'bit')} per level{outside})"
        elif tree.kind == "paths":
            names = f" (paths split at {tree.separator!r})"
        found = f"{_noun(tree)} were found from the data"
        if known is None:
            found = f"all {_noun(tree)} were known"
        elif known:
            found = f"{known:,} {_noun(tree)} were known, and are shown whatever their counts; other {found}"
        return f"Counts of {_number(shown, 'node')} of {levels}{names}; {found}."
    if tree.ranges is not None:
        names = f" ({_number(tree.ranges.bins, 'range')} from {tree.ranges.low} to {tree.ranges.high})"
    nodes = _number(tree.node_count, "node")
    which = f"all {nodes}" if shown == tree.node_count else f"{shown} of {nodes}"
    return f"Counts of {which} of a public tree of {levels}{names}."


def _noun(tree: Tree | OpenTree) -> str:
    return "prefixes" if isinstance(tree, OpenTree) and tree.kind == "bits" else "names"


def _hidden_words(release: TreeRelease) -> list[str]:
    """What is not shown, and what is known about it."""
    said = release.statement
    words = () if said is None else (str(said.counted), said.mechanism)
    few = "people" if any(each.startswith(("people", "shares")) for each in words) else "rows"
    bound, which = release.hidden, _noun(release.tree)
    if isinstance(release.tree, Tree):
        if release.shown is None or release.shown.all():
            return []
        bound = float(release.upper[~release.shown].max())
        which = f"{_number(int((~release.shown).sum()), 'node')}, estimated as 0,"
    if bound is None or not np.isfinite(bound):
        return [f"Not shown: {which} with too few {few}. This release does not bound how many they have."]
    also = "" if release.confidence == 1 else ", with the same probability"
    return [f"Not shown: {which} with few {few}, at most {_upward(bound)} each{also}."]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def release_text(release: TreeRelease, *, where: str = "to_frame()") -> str:
    """A short table and the sentences, and where all rows are."""
    heads, rows, more = _largest(release, _LINES, _WIDTH, where)
    return "\n".join([table(heads, rows), *more, "", release.describe()])


def release_html(release: TreeRelease) -> str:
    """The same for a notebook, with bars and intervals: what is counted and its cost stand above the table."""
    heads, rows, more = _largest(release, _ROWS, 2 * _WIDTH, "to_frame()")
    (title, *above), below = release_words(release)
    return html_table(heads, rows, title=title, above=above, below=[*more, *below])


def _largest(release: TreeRelease, limit: int, width: int, where: str) -> tuple[list[str], list[list[Cell]], list[str]]:
    """The shown nodes with the largest estimates, in the order of the frame, and how many others there are."""
    means = [name for name in value_columns(release.values) if name.endswith(("sum", "mean"))]
    heads, frame = ["path", "estimate", "lower", "upper", *means], release.to_frame().filter("shown")
    decimals = [_decimals(frame, name) if name.endswith("mean") else None for name in heads[1:]]
    shown = frame.select(*heads, "level").with_row_index("row")
    top = shown
    if shown.height > limit:
        # The root comes first, even if noise makes it small.
        top = shown.sort(pl.col("level") == 0, "estimate", descending=True, nulls_last=True).head(limit).sort("row")
    rows: list[list[Cell]] = [
        [_short_path(path if level or path else ROOT, width), *map(_rounded, figures, decimals), Bar(*figures[:3])]
        for path, *figures, level in top.drop("row").rows()
    ]
    left = shown.height - top.height
    more = [f"... and {left:,} smaller {'row' if left == 1 else 'rows'}: see {where}."] if left else []
    return [*heads, ""], rows, more


def _short_path(path: str, width: int) -> str:
    """The path on one line of this width: what is above the last label is cut first, and then the label's end."""
    clean = one_line(path)
    if len(clean) <= width:
        return clean
    above, between, last = clean.rpartition(BETWEEN)
    last = _cut(last, width - len(between) - min(len(above), 2))
    return _cut(above, width - len(between) - len(last)) + between + last


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _decimals(frame: pl.DataFrame, mean: str) -> int | None:
    """How many decimals of a mean matter: two digits of the median reach of its intervals; None if unknown."""
    reach: Any = ((frame[f"{mean}_upper"] - frame[f"{mean}_lower"]) / 2).drop_nulls().drop_nans().median()
    known = reach is not None and 0 < reach < math.inf
    return min(max(1 - math.floor(math.log10(reach)), 0), 9) if known else None


def _rounded(figure: float | None, decimals: int | None) -> Cell:
    """The figure with this many decimals; by default as tables show it."""
    if decimals is None or figure is None or not math.isfinite(figure):
        return figure
    return Decimal(f"{round(figure, decimals) + 0.0:.{decimals}f}")  # never -0
