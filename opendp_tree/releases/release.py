"""The result of a mechanism: an estimate and an interval for each node, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._files import PendingFile
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import PrivacyStatement
from opendp_tree.releases.curve import MeasuredCurve
from opendp_tree.releases.frame import release_frame
from opendp_tree.releases.json import read_release, write_release
from opendp_tree.releases.values import NodeValues
from opendp_tree.releases.words import release_html, release_text, release_words
from opendp_tree.releases.writing import FORMATS, arrow_table, format_of, made_bytes, pandas_frame
from opendp_tree.releases.writing import spreadsheet_safe as safe
from opendp_tree.trees.labels import FIGURES
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.nodes import ShownNodes
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["Fit", "PrivacyStatement", "TreeRelease"]


@dataclass(frozen=True)
class Fit:
    """How least squares computed the estimates, for queries about more than single nodes."""

    estimator: LeastSquares
    multiplier: float
    best: Floats
    nonnegative: bool


@dataclass(frozen=True)
class TreeRelease:
    """An estimate and an interval for each node.

    Arrays of a public tree are in the order of its node ids. Arrays of an open tree hold the nodes that were found, in
    the order of `nodes`.

    :param tree: The tree.
    :param estimates: The estimate of each node, of what the statement calls `counted`.
    :param lower: The lower end of an interval for each node's true count.
    :param upper: The upper end.
    :param confidence: The least probability that the interval of one node contains its true count; with 1 all do.
    :param statement: The privacy statement; None if post-processing does not know it.
    :param cells: The number of cells at or below each node; None by default: the mechanism has no cells.
    :param nodes: The nodes of an open tree; None for a public tree.
    :param fit: How least squares computed the estimates; None by default: it did not.
    :param shown: Which nodes are shown; all by default. Others of an open tree connect nodes and have no row.
    :param hidden: An upper bound on the count of each node that an open tree does not show; None by default: unknown.
    :param values: Sums and means of each value; none by default.
    :param curve: If the leaves are the bins of a line, the cumulative counts along it; None by default.
    :param curves: For groups, the curve of each shown group, by the group's index in the arrays; None by default.
    :param adds_up: Whether a node's count is the sum of its children's counts and of rows elsewhere below it, as by
        default. Counts of people who may be at several nodes do not add up, and have no rows "(other)".
    :param whole: Whether estimates were asked to be whole: frames and files then have integers, with the lower ends of
        intervals rounded down and the upper ends rounded up. By default False.
    """

    tree: Tree | OpenTree
    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: float
    statement: PrivacyStatement | None
    cells: Ints | None = None
    nodes: ShownNodes | None = None
    fit: Fit | None = None
    shown: Bools | None = None
    hidden: float | None = None
    values: tuple[NodeValues, ...] = ()
    curve: MeasuredCurve | None = None
    curves: Mapping[int, MeasuredCurve] | None = None
    adds_up: bool = True
    whole: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tree, (Tree, OpenTree)):
            raise TypeError(f"tree ({type(self.tree).__name__}) must be a Tree or an OpenTree")
        if not isinstance(self.nodes, ShownNodes if isinstance(self.tree, OpenTree) else type(None)):
            raise TypeError(f"nodes ({type(self.nodes).__name__}) must be ShownNodes for an open tree, else None")
        if not (isinstance(self.values, tuple) and all(isinstance(value, NodeValues) for value in self.values)):
            given = type(self.values).__name__
            raise TypeError(f"values ({given}) must be a tuple of NodeValues. Hint: leave them out")
        size = self.levels.size
        arrays = [(name, getattr(self, name)) for name in ("estimates", "lower", "upper", "cells", "shown")]
        arrays += [(f"values: {name}", getattr(value, name)) for value in self.values for name in FIGURES]
        for name, array in arrays:
            if array is not None and not isinstance(array, np.ndarray):
                raise TypeError(f"{name} ({type(array).__name__}) must be a NumPy array")
            if array is not None and array.shape != (size,):
                raise ValueError(f"{name} (of shape {array.shape}) must have one entry for each of the {size} nodes")

    def __repr__(self) -> str:
        """The largest nodes as a short table, and the release in words."""
        return release_text(self)

    def _repr_html_(self) -> str:
        return release_html(self)

    @property
    def levels(self) -> Ints:
        """The level of each node, in the order of the arrays; 0 for the root."""
        return self.tree.node_levels if self.nodes is None else self.nodes.levels  # type: ignore[union-attr]

    @property
    def parents(self) -> Ints:
        """The index of each node's parent in the arrays; -1 for the root."""
        return self.tree.parents if self.nodes is None else self.nodes.parents  # type: ignore[union-attr]

    @property
    def row_order(self) -> Ints:
        """The index in the arrays of each node, in the order of `to_frame(other=False)` with all nodes shown."""
        return np.arange(self.estimates.size) if isinstance(self.tree, OpenTree) else self.tree.level_order.nodes

    def to_frame(self, *, other: bool = True, spreadsheet_safe: bool = False) -> pl.DataFrame:
        """One row per node, level by level, with siblings together.

        The columns are `path` (the labels in one text), `estimate`, `lower`, `upper`, then `sum`, `mean` and their
        intervals if there are values, `level` (0 for the root), the labels, `cells` if the mechanism has cells, `shown`
        and `counted`. All columns and the rows "(other)" are explained in docs/release_format.md.

        :param other: Whether to add a row "(other)" after the children of a node whose total differs from the node's
            own estimate, with the difference; True by default. It may be negative.
        :param spreadsheet_safe: Whether to put an apostrophe before texts and column names that a spreadsheet would run
            as a formula. Use it for CSV files that people open; False by default: labels stay as they are.
        """
        frame = release_frame(self, other=other)
        return safe(frame) if spreadsheet_safe else frame

    def quantiles(self, at: Sequence[float]) -> pl.DataFrame:
        """Quantiles of a number: `quantile`, `estimate`, `lower`, `upper`. Costs no further budget.

        Rows outside of the line and rows without a value are not included. With the release's confidence, an interval
        contains all values with at most that share of rows strictly below and at least that share at or below them.
        Requires a release over a line, as of `Key.number`; below other columns, rows begin with their group's labels.

        :param at: Shares from 0 to 1: [0.25, 0.5, 0.75] for the quartiles.
        """
        return self._on_lines("quantiles", lambda curve: curve.quantile_frame(at))

    def cdf(self, at: Any = None) -> pl.DataFrame:
        """The share of rows below each value, of the same rows as `quantiles`: `value`, `estimate`, `lower`, `upper`.

        The last bin contains `high` itself. Requires a release over a line. Costs no further budget.

        :param at: The values; by default (None) all values at which the line was cut, which is all that is known.
        """
        return self._on_lines("cdf", lambda curve: curve.share_frame(at))

    def between(self, low: Any, high: Any) -> pl.DataFrame:
        """The number of rows from one value to another: `low`, `high`, `estimate`, `lower`, `upper`.

        Requires a release over a line. Costs no further budget.

        :param low: From this value; moved to the end of the line if it lies beyond.
        :param high: Up to this value, moved likewise. Rows at `high` itself are counted only at the end of the line,
            whose last bin contains them.
        """
        return self._on_lines("between", lambda curve: curve.count_frame(low, high))

    def _on_lines(self, name: str, frame_of: Callable[[MeasuredCurve], pl.DataFrame]) -> pl.DataFrame:
        """The frame of the line, or the frames of all groups, each row with its group's labels first."""
        if self.curve is not None:
            return frame_of(self.curve)
        if self.curves is None:
            raise ValueError(
                f"{name} requires a release over the bins of a line. Hint: by=Key.number('age', ...), or, with a unit, "
                "method=Curve() and Key.nested(..., Key.number(...)); another release costs its own budget"
            )
        rows = np.argsort(self.row_order)
        labels = self.to_frame(other=False).select(self.tree.names)
        parts = [labels[int(rows[node])].join(frame_of(curve), how="cross") for node, curve in self.curves.items()]
        return pl.concat(parts) if parts else labels.clear()

    def to_arrow(self, *, other: bool = True) -> Any:
        """The frame as a PyArrow table; 128-bit integers are texts. Other parameters: as for `to_frame`."""
        return arrow_table(self.to_frame(other=other))

    def to_pandas(self, *, other: bool = True) -> Any:
        """The frame as a pandas frame with nullable integers and booleans. Other parameters: as for `to_frame`."""
        return pandas_frame(self.to_frame(other=other))

    def write(self, path: str | Path, *, other: bool = True, spreadsheet_safe: bool = False) -> None:
        """Write the release to a file. A file that exists is replaced once the new one is complete.

        Other parameters: as for `to_frame`. No text in an Excel file is a formula, whatever `spreadsheet_safe` says.

        :param path: The file. Its ending is the format: `.parquet`, `.csv` and `.ndjson` have the rows of `to_frame`,
            `.xlsx` (Excel, needs XlsxWriter) also a sheet with the privacy statement; `.json` is the text of `to_json`;
            `.txt` and `.md` are the text of `describe`.
        """
        form, ending = format_of(path), Path(path).suffix.lower()
        if form is None and ending not in (".txt", ".md"):
            endings = ", ".join(f".{name}" for name in (*FORMATS, "txt", "md"))
            raise ValueError(f"path ({str(path)!r}) must end in one of {endings}. Hint: 'counts.csv'")
        if form is None:
            lines = self.describe().splitlines()
            content = (("\n\n" if ending == ".md" else "\n").join(lines) + "\n").encode()
        else:
            frame = None if form == "json" else self.to_frame(other=other, spreadsheet_safe=spreadsheet_safe)
            content = made_bytes(self, form, frame)
        try:
            with PendingFile(path) as file:
                file.commit(content)
        except OSError as error:
            hint = "Hint: check the name and the permissions of the file and its folder"
            raise OSError(error.errno, f"{error.strerror}: {path}. {hint}") from None

    def to_json(self) -> str:
        """The release as a JSON text for `from_json`, without `fit`. The format: docs/release_format.md."""
        return write_release(self)

    @classmethod
    def from_json(cls, text: str) -> TreeRelease:
        """Read a release that `to_json` wrote, with the same numbers and labels. Raises ValueError for any other text.

        :param text: The JSON text.
        """
        return cls(**read_release(text))

    def describe(self) -> str:
        """The release in words: what is counted, who is protected, the cost, the accuracy and what is not shown."""
        return "\n".join(line for part in release_words(self) for line in part)
