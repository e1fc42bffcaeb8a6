"""A release in words and small tables: what people see in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._show import Bar, html_table, one_line, table
from opendp_tree._types import Floats
from opendp_tree.releases.values import NodeValues, value_columns
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

_LINES, _ROWS, _WIDE = 12, 20, 48
ROOT = "(all)"
"""What stands for the root, whose path is empty."""
_MECHANISMS = {
    "tree_estimator": "nodes found, layers of them measured, least squares",
    "people_laplace": "nodes found from one row per person, counts from layers with Laplace noise",
    "people_gaussian": "nodes found from one row per person, counts from layers with Gaussian noise",
    "pruned_laplace": "Laplace noise from the root down to a threshold",
    "pruned_gaussian": "Gaussian noise from the root down to a threshold",
    "tree_laplace": "Laplace noise on every node and least squares",
    "tree_gaussian": "Gaussian noise on every node and least squares",
    "raw_laplace": "Laplace noise on every node",
    "raw_gaussian": "Gaussian noise on every node",
    "multiplicative_estimator": "the paper's rounds of sparse vectors",
    "ladder_estimator": "a ladder of sparse vectors",
    "tree_means": "counts, sums and means from pairs of noisy sums",
    "bin_curve": "a balanced tree over all bins, Laplace noise and least squares",
    "segment_curve": "a tree over segments with many rows, Laplace noise and least squares",
    "grouped_curves": "a curve for each group that is shown",
    "chosen_quantiles": "the exponential mechanism",
    "clipped_estimator": "estimates clipped into intervals that always hold",
}
"""What each mechanism does."""
NO_SUMS = "The counts of a node's children do not add up to the count of the node."
"""Said of releases in which one person may be counted at several nodes of a level, or weighed by level."""


def release_words(release: TreeRelease) -> tuple[list[str], list[str]]:
    """A release in sentences: first what is counted, who is protected and at what cost, then all others."""
    statement = None if release.statement is None else release.statement.to_dict()
    mask = slice(None) if release.shown is None else release.shown
    reach = np.maximum(release.upper - release.estimates, release.estimates - release.lower)[mask]
    counted = counted_words(statement)
    first = [tree_words(release.tree, reach.size), *known_words(release), *counted]
    first += value_words(release.values, shown=mask) if release.adds_up else [NO_SUMS]
    first.append(cost_words(statement))
    rest = [*error_words(release.confidence, reach, counted=counted), *hidden_words(release)]
    if release.curve is not None or release.curves is not None:
        rest.append("Quantiles and shares are of the rows on the line; rows outside the line are not included.")
    if statement is not None:
        one_number = statement["parameters"].get("one_number_up_to")
        if isinstance(one_number, (int, float)):  # a text that was read may hold anything
            rest.append(f"Counts up to {one_number:,} are all estimated as that number.")
        words = _MECHANISMS.get(statement["mechanism"])
        rest.append(f"Mechanism: {statement['mechanism']}{f' ({words})' if words else ''}.")
    return [one_line(line) for line in first], [one_line(line) for line in rest]


def tree_words(tree: Tree | OpenTree, shown: int) -> str:
    """What was released."""
    names = f" ({' / '.join(tree.names)})" if tree.names else ""
    if isinstance(tree, OpenTree):
        kinds = {"columns": names, "bits": f" ({_prefixes(tree)})", "paths": f" (paths split at {tree.separator!r})"}
        return f"Counts of {_number(shown, 'node')} of an open tree of depth {tree.depth}{kinds[tree.kind]}."
    if tree.ranges is not None:
        names = f" ({_number(tree.ranges.bins, 'range')} from {tree.ranges.low} to {tree.ranges.high})"
    nodes = _number(tree.node_count, "node")
    which = f"all {nodes}" if shown == tree.node_count else f"{shown} of {nodes}"
    return f"Counts of {which} of a public tree of depth {tree.depth}{names}."


def known_words(release: TreeRelease) -> list[str]:
    """How many nodes of an open tree were known beforehand, besides the root."""
    known = None if release.statement is None else release.statement.parameters.get("known")
    if isinstance(release.tree, Tree) or not isinstance(known, int) or known < 2:
        return []
    return [f"Known beforehand: {_number(known - 1, 'node')} below the root, shown whatever their counts."]


def value_words(values: Sequence[NodeValues], *, shown: Any) -> list[str]:
    """What is summed, and how far intervals of means extend."""
    lines = []
    for each in values:
        reach = np.maximum(each.mean_upper - each.mean, each.mean - each.mean_lower)[shown]
        reach = reach[np.isfinite(reach)]
        line = f"Sums and means: {each.words()}"
        if reach.size:
            line += f"; the median interval of a mean extends {np.median(reach):.4g} from its estimate"
        lines.append(f"{line}.")
    return lines


def cost_words(statement: Mapping[str, Any] | None) -> str:
    """Who is protected, and what it cost."""
    if statement is None:
        return "Privacy: not known here. The cost is that of the noisy counts from which this release was made."
    loss = ", ".join(f"{name} {value:.10g}" for name, value in statement["loss"].items())
    measure = statement["measure"].replace("()", "").replace("_", " ").replace("(", " ").replace(")", "")
    rows = "one row" if statement["d_in"] == 1 else f"up to {statement['d_in']} rows"
    return f"Privacy: {loss} ({measure}) for adding or removing {statement['unit'] or rows}."


def counted_words(statement: Mapping[str, Any] | None) -> list[str]:
    """What the numbers are counts of; nothing if the statement does not say."""
    counted = None if statement is None else statement.get("counted")
    return [f"Counted: {counted}."] if counted else []


def error_words(confidence: float, reach: Floats, *, counted: Sequence[str] = ()) -> list[str]:
    """How sure the numbers are."""
    sure = "always" if confidence == 1 else f"with probability at least {confidence:.10g}"
    what = "its true count" + (", as counted above," if counted else "")
    lines = [f"Accuracy: each node's interval contains {what} {sure}."]
    if reach.size:
        median, widest = (f"{value:.4g}" for value in (np.median(reach), reach.max()))
        lines.append(f"The median interval extends {median} from its estimate, the widest {widest}.")
    return lines


def hidden_words(release: TreeRelease) -> list[str]:
    """What is not shown, and what is known about it."""
    bound, which = release.hidden, "nodes"
    if release.statement is not None and release.statement.parameters.get("threshold", 0) is None:
        return ["Not shown: nothing. Rows that lead to no known node count at the last one on their path."]
    if isinstance(release.tree, Tree):
        if release.shown is None or release.shown.all():
            return []
        bound = float(release.upper[~release.shown].max())
        which = f"{_number(int((~release.shown).sum()), 'node')}, estimated as 0,"
    if bound is None or not np.isfinite(bound):
        return [f"Not shown: {which} whose counts this release does not bound."]
    also = "" if release.confidence == 1 else ", with the same probability"
    return [f"Not shown: {which} that hold at most {bound:.4g} each{also}."]


def _prefixes(tree: OpenTree) -> str:
    kind = {"integer": f"{tree.width}-bit integers", "ipv4": "IPv4 addresses", "ipv6": "IPv6 addresses"}[tree.shown_as]
    outside = "; all other values are outside" if tree.outside else ""
    return f"prefixes of {kind}, {_number(tree.stride, 'bit')} per level{outside}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun if count == 1 else f'{noun}s'}"


def release_text(release: TreeRelease) -> str:
    """A short table and the sentences."""
    rows, more = _largest(release, _LINES)
    cells = [[one_line(path, _WIDE), *figures] for path, *figures in rows]
    shown = table(["path", "estimate", "lower", "upper", *_means(release)], cells)
    return "\n".join([shown, *([more] if more else []), "", release.describe()])


def release_html(release: TreeRelease) -> str:
    """The same for a notebook, with bars and intervals: what is counted and its cost stand above the table."""
    rows, more = _largest(release, _ROWS)
    (title, *above), below = release_words(release)
    cells = [
        [one_line(path, 2 * _WIDE), estimate, lower, upper, *means, Bar(estimate, lower, upper)]
        for path, estimate, lower, upper, *means in rows
    ]
    heads = ["path", "estimate", "lower", "upper", *_means(release), ""]
    return html_table(heads, cells, title=title, above=above, below=[*([more] if more else []), *below])


def _means(release: TreeRelease) -> list[str]:
    """The columns of sums and means in a short table: all but the ends of intervals."""
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
    return rows, f"... and {left:,} smaller {'row' if left == 1 else 'rows'}: see to_frame()." if left else ""


def with_truth(frame: pl.DataFrame, rows: pl.LazyFrame, by: Sequence[str]) -> pl.DataFrame:
    """The shown nodes with `truth`, the number of rows at each, and `error`."""
    levels = [
        rows.group_by(by[:level]).agg(pl.len().alias("truth")).with_columns(pl.lit(level, pl.Int64).alias("level"))
        for level in range(1, len(by) + 1)
    ]
    root = rows.select(pl.len().alias("truth"), pl.lit(0, pl.Int64).alias("level"))
    truth = pl.concat([root, *levels], how="diagonal").collect()
    shown = frame.filter(pl.col("shown") & ~pl.col("other"))
    joined = shown.join(truth, on=["level", *by], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("truth").fill_null(0)).with_columns(error=pl.col("estimate") - pl.col("truth"))


def nested_rows(frame: pl.DataFrame, by: Sequence[str], *, most: int) -> list[tuple[str, float, float, int, float]]:
    """The `most` largest children of each node, and of each of those, under one another."""
    half = (pl.col("upper") - pl.col("lower")) / 2
    rows = frame.sort("estimate", descending=True).select("level", *by, "estimate", half, "truth", "error").rows()
    children: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    figures: dict[tuple[object, ...], tuple[float, float, int, float]] = {}
    for level, *labels, estimate, width, truth, error in rows:
        path = tuple(labels[:level])
        figures[path] = estimate, width, truth, error
        if path:
            children.setdefault(path[:-1], []).append(path)
    lines = []
    waiting: list[tuple[object, ...]] = [()]
    while waiting:
        path = waiting.pop()
        if path in figures:
            lines.append(("  " * len(path) + (str(path[-1]) if path else "all"), *figures[path]))
        waiting.extend(reversed(children.get(path, [])[:most]))
    return lines


def error_rows(frame: pl.DataFrame) -> list[tuple[int, int, float, float]]:
    """For each level: the nodes shown, the root of their mean squared error, the largest error."""
    error = pl.col("error")
    return (
        frame.group_by("level")
        .agg(pl.len(), error.pow(2).mean().sqrt(), error.abs().max().alias("largest"))
        .sort("level")
        .rows()
    )
