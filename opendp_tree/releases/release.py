"""The result of a mechanism: an estimate and an interval for each node, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._files import PendingFile
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.releases.curve import MeasuredCurve
from opendp_tree.releases.frame import release_frame
from opendp_tree.releases.json import read_release, write_release
from opendp_tree.releases.values import NodeValues, column_bounds, value_columns
from opendp_tree.releases.words import release_html, release_text, release_words
from opendp_tree.releases.writing import FORMATS, arrow_table, format_of, frame_bytes, pandas_frame
from opendp_tree.releases.writing import spreadsheet_safe as safe
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownNodes
from opendp_tree.trees.tree import Tree


@dataclass(frozen=True)
class PrivacyStatement:
    """What a release cost and what it counts, as plain data.

    Parameters
    ----------
    mechanism
        The name of the mechanism, such as "tree_laplace".
    measure
        OpenDP's privacy measure, as the call that makes it: "approximate(max_divergence())".
    d_in
        The distance between neighboring inputs.
    loss
        The privacy loss at that distance: `epsilon`, `epsilon` and `delta`, or `rho` (and `delta`).
    parameters
        The parameters of the mechanism.
    unit
        What that distance protects, in words ("one person with at most 5 rows"); None, the default, if unknown.
    counted
        What estimates and intervals are counts of, in words ("rows after keeping at most 5 of each user"); None, the
        default, if unknown: they count whatever the mechanism received.
    """

    mechanism: str
    measure: str
    d_in: int
    loss: Mapping[str, float]
    parameters: Mapping[str, int | float | str | None]
    unit: str | None = None
    counted: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The statement as nested dictionaries of numbers and texts, ready for JSON."""
        return {**asdict(self), "loss": dict(self.loss), "parameters": dict(self.parameters)}


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

    Parameters
    ----------
    tree
        The tree.
    estimates, lower, upper
        The estimate of each node, and an interval for its true count of what the statement calls `counted`.
    confidence
        A lower bound on the probability that a node's interval contains its true count, for each node separately.
        With 1 all intervals always do.
    statement
        The privacy statement; None if post-processing does not know it.
    cells
        The number of cells at or below each node; None, the default, if the mechanism has no cells.
    nodes
        The nodes of an open tree; None for a public tree.
    fit
        How least squares computed the estimates; None, the default, if it did not.
    shown
        Which nodes are shown; None, the default, if all are. Nodes of an open tree that are not shown belong to levels
        that were not requested: they only connect other nodes, and have no row in a frame.
    hidden
        An upper bound on the count of each node of an open tree that is not shown; None, the default, if unknown.
    values
        Sums and means of each value; by default there are none.
    curve
        If the leaves are the bins of a line, the cumulative counts along it; None by default.
    curves
        For groups, the curve of each shown group, by the group's index in the arrays; None by default.
    adds_up
        Whether the count of a node is the sum of its children's counts and of rows elsewhere below it; True by default.
        Counts of people who may be at several nodes do not add up, and have no rows "(other)".
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

    def __post_init__(self) -> None:
        if not isinstance(self.tree, (Tree, OpenTree)):
            raise TypeError(f"tree ({type(self.tree).__name__}) must be a Tree or an OpenTree")
        if not isinstance(self.nodes, (ShownNodes, type(None))):
            raise TypeError(f"nodes ({type(self.nodes).__name__}) must be ShownNodes or None")
        if isinstance(self.tree, OpenTree) != (self.nodes is not None):
            raise ValueError("nodes must be given for an open tree, and for no other tree")
        size = self.tree.node_count if isinstance(self.tree, Tree) else self.levels.size
        for name in ("estimates", "lower", "upper", "cells", "shown"):
            array = getattr(self, name)
            if array is not None and not isinstance(array, np.ndarray):
                raise TypeError(f"{name} ({type(array).__name__}) must be a NumPy array")
            if array is not None and array.shape != (size,):
                raise ValueError(f"{name} (of shape {array.shape}) must have one entry for each of the {size} nodes")
        if not (isinstance(self.values, tuple) and all(isinstance(value, NodeValues) for value in self.values)):
            raise TypeError(
                f"values ({type(self.values).__name__}) must be a tuple of NodeValues. Hint: leave them out"
            )
        for value in self.values:
            value.check(size)

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

        The columns are `path` (the labels in one text), `estimate`, `lower`, `upper`, `level` (0 for the root), the
        labels in columns of their own (or `prefix` and `bits`, or the id `node`), `cells` if the mechanism has cells,
        and `shown`. Values add `sum`, `mean` and their intervals (`sum_lower`, `mean_upper`, ...) after `upper`;
        several values put their names first (`amount_sum`). The last column, `counted`, repeats in every row what the
        statement says is counted, so that a file contains it.

        Parameters
        ----------
        other
            Whether to add rows "(other)", so that the rows below a node add up to it; True by default. A shown node
            whose shown children have another total than its own estimate gets such a row after them, with the
            difference. It may be negative, because it is a difference of noisy counts, unless estimates are
            non-negative. Its interval is from 0 to the upper end of the node's own, or, if all intervals always hold,
            what they leave. The column `other` is true in these rows. Label columns that are not texts, `prefix`,
            `bits` and `node` are null in them. There are none if counts do not add up (`adds_up`).
        spreadsheet_safe
            Whether to put an apostrophe before texts and column names that a spreadsheet would run as a formula (they
            begin with =, +, -, @, a tab or a line break) and before those that begin with an apostrophe. Use it for
            CSV files that people open; False, the default, keeps labels unchanged for programs.

        >>> import polars as pl
        >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
        >>> noisy = np.array([100.0, 90.0, 70.0, 0.0, 0.0])
        >>> release = TreeRelease(tree, noisy, noisy - 9, noisy + 9, 0.9, None, shown=noisy > 0)
        >>> release.to_frame().filter(pl.col("shown")).select("level", "country", "city", "path", "estimate").rows()
        ... # doctest: +NORMALIZE_WHITESPACE
        [(0, None, None, '', 100.0),
         (1, 'be', None, 'be', 90.0),
         (1, '(other)', None, '(other)', 10.0),
         (2, 'be', 'ghent', 'be / ghent', 70.0),
         (2, 'be', '(other)', 'be / (other)', 20.0)]
        """
        nodes, order = self.nodes or ShownNodes.of_tree(self.tree), self.row_order  # type: ignore[arg-type]
        numbers = {"estimate": self.estimates, "lower": self.lower, "upper": self.upper}
        numbers |= value_columns(self.values)
        columns: dict[str, Any] = {name: array.astype(np.float64, copy=False) for name, array in numbers.items()}
        if self.cells is not None:
            columns["cells"] = self.cells
        columns["shown"] = np.ones(order.size, dtype=np.bool_) if self.shown is None else self.shown
        values = {name: array[order] for name, array in columns.items()}
        frame = release_frame(
            nodes,
            values,
            other=other,
            certain=self.confidence == 1,
            adds_up=self.adds_up,
            counted=None if self.statement is None else self.statement.counted,
            sums=column_bounds(self.values),
        )
        return safe(frame) if spreadsheet_safe else frame

    def quantiles(self, at: Sequence[float]) -> pl.DataFrame:
        """Quantiles of a number: `quantile`, `estimate`, `lower`, `upper`. Costs no further budget.

        They are quantiles of the rows on the line: rows outside of it and rows without a value are not included. Each
        interval contains, with the release's confidence, all values with at most that share of rows strictly below and
        at least that share at or below them. Requires a release over a line, as of `Key.number`; if that is below other
        columns, each row begins with the labels of its group.

        Parameters
        ----------
        at
            Shares from 0 to 1: [0.25, 0.5, 0.75] for the quartiles.
        """
        return self._on_lines("quantiles", lambda curve: curve.quantile_frame(at))

    def cdf(self, at: Any = None) -> pl.DataFrame:
        """The share of rows below each value: `value`, `estimate`, `lower`, `upper`. Costs no further budget.

        Rows outside of the line and rows without a value are not included. At the end of the line the share is 1: the
        last bin contains `high` itself. Each interval holds with the release's confidence. Requires a release over a
        line, as of `Key.number`.

        Parameters
        ----------
        at
            The values; by default (None) all values at which the line was cut, which is all that is known.
        """
        return self._on_lines("cdf", lambda curve: curve.share_frame(at))

    def between(self, low: Any, high: Any) -> pl.DataFrame:
        """The number of rows from one value to another: `low`, `high`, `estimate`, `lower`, `upper`.

        Costs no further budget. Requires a release over a line, as of `Key.number`.

        Parameters
        ----------
        low, high
            The two values, which are moved to the ends of the line if they lie beyond. Rows at `high` itself are
            counted only at the end of the line, whose last bin contains them.
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
        """The frame of `to_frame` as a PyArrow table; 128-bit integers are texts. Requires PyArrow.

        Parameters
        ----------
        other
            Whether to add rows "(other)", as in `to_frame`; True by default.
        """
        return arrow_table(self.to_frame(other=other))

    def to_pandas(self, *, other: bool = True) -> Any:
        """The frame of `to_frame` as a pandas frame with nullable integers and booleans. Requires pandas and PyArrow.

        Parameters
        ----------
        other
            Whether to add rows "(other)", as in `to_frame`; True by default.
        """
        return pandas_frame(self.to_frame(other=other))

    def write(self, path: str | Path, *, other: bool = True, spreadsheet_safe: bool = False) -> None:
        """Write the release to a file. A file that exists is replaced once the new one is complete.

        Parameters
        ----------
        path
            The file. Its ending is the format: `.parquet`, `.csv` and `.ndjson` have the rows of `to_frame`, `.xlsx`
            (Excel, needs XlsxWriter) also a sheet with the privacy statement, and `.json` is the text of `to_json`.
            In Excel, integers beyond 2**53, times, and dates before March 1900 are texts, infinite numbers are empty,
            and a text has at most 16,383 characters.
        other, spreadsheet_safe
            As in `to_frame`. No text in an Excel file is a formula, with `spreadsheet_safe` or without.

        >>> import tempfile
        >>> tree = Tree.from_paths([("be", "ghent"), ("lu",)])
        >>> release = TreeRelease(tree, *np.ones((3, 4)), confidence=0.9, statement=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.write(f"{folder}/counts.csv")
        ...     pl.read_csv(f"{folder}/counts.csv").height
        4
        """
        form = format_of(path)
        if form is None:
            endings = ", ".join(f".{name}" for name in FORMATS)
            raise ValueError(f"path ({str(path)!r}) must end in one of {endings}. Hint: 'counts.csv'")
        if form == "json":
            content = self.to_json().encode()
        else:
            frame = self.to_frame(other=other, spreadsheet_safe=spreadsheet_safe)
            content = frame_bytes(frame, file_format=form, statement=self.statement, words=self.describe())
        with PendingFile(path) as file:
            file.commit(content)

    def to_json(self) -> str:
        """The release as a JSON text for `from_json`, without `fit`. The format: docs/release_format.md."""
        return write_release(self)

    @classmethod
    def from_json(cls, text: str) -> TreeRelease:
        """Read a release that `to_json` wrote, with the same numbers and labels. Raises ValueError for any other text.

        Parameters
        ----------
        text
            The JSON text.

        >>> tree = Tree.from_paths([("be", "ghent"), ("lu",)])
        >>> release = TreeRelease(tree, *np.ones((3, 4)), confidence=0.9, statement=None)
        >>> TreeRelease.from_json(release.to_json()).tree == tree
        True
        """
        fields = read_release(text)
        statement = fields["statement"]
        return cls(**{**fields, "statement": None if statement is None else PrivacyStatement(**statement)})

    def describe(self) -> str:
        """The release in words: what is counted, who is protected, the cost, how sure it is and what is not shown.

        >>> tree = Tree.from_paths([("be", "ghent"), ("lu",)], names=["country", "city"])
        >>> statement = PrivacyStatement("tree_laplace", "max_divergence()", 1, {"epsilon": 1.0}, {})
        >>> noisy = np.array([50.0, 30.0, 30.0, 20.0])
        >>> print(TreeRelease(tree, noisy, noisy - 9, noisy + 9, 0.95, statement).describe())
        Counts of all 4 nodes of a public tree of depth 3 (country / city).
        Privacy: epsilon 1 (max divergence) for adding or removing one row.
        Accuracy: each node's interval contains its true count with probability at least 0.95.
        The median interval extends 9 from its estimate, the widest 9.
        Mechanism: tree_laplace (Laplace noise on every node and least squares).
        """
        first, rest = release_words(self)
        return "\n".join([*first, *rest])
