"""What a mechanism gives its user: an estimate and an interval for every node, and what it cost."""

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

__all__ = ["Fit", "PrivacyStatement", "TreeRelease"]


@dataclass(frozen=True)
class PrivacyStatement:
    """What a release cost, as plain data.

    Parameters
    ----------
    mechanism
        The name of the mechanism, such as "tree_laplace".
    measure
        OpenDP's privacy measure, as the call that makes it: "approximate(max_divergence())".
    d_in
        The distance between inputs that the loss is for.
    loss
        In the terms of the measure: `epsilon`, or `epsilon` and `delta`, or `rho` (and `delta`).
    parameters
        What the mechanism ran with.
    unit
        In words what that distance protects ("one person with at most 5 rows"); by default None: nobody said.
    counted
        In words what estimates and intervals are counts of ("rows after keeping at most 5 of each user"); by default
        None: nobody said, and they are of whatever the mechanism was given.
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
    """How least squares came to its estimates, for those who ask for more than nodes."""

    estimator: LeastSquares
    multiplier: float
    best: Floats
    nonnegative: bool


@dataclass(frozen=True)
class TreeRelease:
    """An estimate and an interval for each node.

    For a public tree the arrays are by node id; for an open tree they hold the nodes that are shown, in the order of
    `nodes`.

    Parameters
    ----------
    tree
        The tree.
    estimates, lower, upper
        For each node its estimate, and the interval that holds its true count, of what the statement says is
        counted.
    confidence
        The probability, at least, with which a node's interval holds it, node by node; with 1 always.
    statement
        What it cost; None where post-processing cannot know.
    cells
        The number of cells at or below each node; by default None: the mechanism has no cells.
    nodes
        Which nodes are shown, for an open tree, and only there.
    fit
        How least squares came to the estimates; by default None: they come from elsewhere.
    shown
        Which nodes are shown; by default None: all. Nodes of an open tree that are not shown are of levels that nobody
        wants: they say where others are, and have no row in a frame.
    hidden
        For an open tree, what a node that is not shown holds at most; by default None: nothing is said.
    values
        Sums and means of each value that was asked for; by default none was.
    curve
        For a tree whose leaves are the bins of a line, how many lie below each value; by default None: it is no line.
    curves
        For groups, the curve of each that is shown, by its place in the arrays; by default None: there are no groups.
    adds_up
        Whether a node counts what its children count together, and whatever is elsewhere. By default it does; people
        who are counted once at each node where they are do not add up, so that there are no rows "(other)".
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
            raise TypeError(f"nodes ({type(self.nodes).__name__}) must be the ShownNodes that a mechanism shows")
        if isinstance(self.tree, OpenTree) != (self.nodes is not None):
            raise ValueError("nodes must be given for an open tree, and for no other")
        size = self.tree.node_count if isinstance(self.tree, Tree) else self.levels.size
        for name in ("estimates", "lower", "upper", "cells", "shown"):
            array = getattr(self, name)
            if array is not None and not isinstance(array, np.ndarray):
                raise TypeError(f"{name} ({type(array).__name__}) must be a NumPy array")
            if array is not None and array.shape != (size,):
                raise ValueError(f"{name} (of shape {array.shape}) must hold one entry for each of the {size} nodes")
        for value in self.values:
            value.check(size)

    def __repr__(self) -> str:
        """The largest nodes as a short table, and the release in words."""
        return release_text(self)

    def _repr_html_(self) -> str:
        return release_html(self)

    @property
    def levels(self) -> Ints:
        """For each node its level, in the order of the arrays; the root's is 0."""
        return self.tree.node_levels if self.nodes is None else self.nodes.levels  # type: ignore[union-attr]

    @property
    def parents(self) -> Ints:
        """For each node its parent's place in the arrays; -1 for the root."""
        return self.tree.parents if self.nodes is None else self.nodes.parents  # type: ignore[union-attr]

    def to_frame(self, *, other: bool = True, spreadsheet_safe: bool = False) -> pl.DataFrame:
        """One row a node, by level and then in the order of the tree, siblings together.

        `path`, where it is, in one text; `estimate`, `lower`, `upper`; `level` (the root's is 0); the same place in
        columns: labels, `prefix` (and `bits`), or the id `node`; `cells`, if the mechanism has cells; and whether it is
        `shown`. Where a value was asked for, `sum`, `mean` and their intervals (`sum_lower`, `mean_upper`, ...) follow;
        with several values the name of each stands before them. Last, `counted` says in every row what estimates and
        intervals are counts of, as the statement does, so that a file tells it; null where nobody said.

        Parameters
        ----------
        other
            Whether each shown node whose shown children do not explain all of its estimate gets a row "(other)" after
            them, with the difference, so that rows add up to their parent's. By default they do, because a reader
            would else miss what is not shown. The column `other` tells such a row from a label of that name. It may be
            negative: it is a difference of noisy counts, unless non-negative estimates were asked for. Its interval
            reaches from 0 to the upper end of the node above, and so holds whenever that one does; where all intervals
            always hold, from what they leave at least to what they leave at most. Where a label column holds no texts,
            and for `prefix`, `bits` and `node`, it has null. There are none where counts do not add up (`adds_up`).
        spreadsheet_safe
            For CSV that people open: whether texts and names of columns that a spreadsheet would run as a formula
            (they begin with =, +, -, @, a tab or the end of a line), or that begin with an apostrophe, get an
            apostrophe before them. False, the default, keeps labels as they are, for programs.

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
        nodes, order = self.nodes, np.arange(self.estimates.size)
        if isinstance(self.tree, Tree):
            nodes, order = ShownNodes.of_tree(self.tree), self.tree.level_order.nodes
        assert nodes is not None
        numbers = {"estimate": self.estimates, "lower": self.lower, "upper": self.upper}
        numbers |= value_columns(self.values)
        columns: dict[str, Any] = {name: array.astype(np.float64, copy=False) for name, array in numbers.items()}
        if self.cells is not None:
            columns["cells"] = self.cells
        columns["shown"] = np.ones(order.size, dtype=np.bool_) if self.shown is None else self.shown
        values = {name: array[order] for name, array in columns.items()}
        sums = column_bounds(self.values)
        certain = self.confidence == 1
        counted = None if self.statement is None else self.statement.counted
        told: dict[str, Any] = {"certain": certain, "adds_up": self.adds_up, "counted": counted, "sums": sums}
        frame = release_frame(nodes, values, other=other, **told)
        return safe(frame) if spreadsheet_safe else frame

    def quantiles(self, at: Sequence[float]) -> pl.DataFrame:
        """The values that given shares lie below: `quantile`, `estimate`, `lower`, `upper`. Costs nothing more.

        Shares are of the rows on the line: what lies outside of it, and what has no value, is not among them.

        An interval holds every value with at most that share strictly below it and at least that share at or below
        it, with the release's confidence, each for itself. Needs a release over a line, as of `Key.number`; where that
        is below other columns, each row begins with the labels of its group.

        Parameters
        ----------
        at
            Shares from 0 to 1: [0.25, 0.5, 0.75] for the quartiles.
        """
        return self._on_lines("quantiles", lambda curve: curve.quantile_frame(at))

    def cdf(self, at: Any = None) -> pl.DataFrame:
        """The share that lies below each value: `value`, `estimate`, `lower`, `upper`. Costs nothing more.

        Shares are of the rows on the line: what lies outside of it, and what has no value, is not among them. At the
        end of the line the share is 1: the last bin holds what is at `high` itself.

        Each interval holds with the release's confidence, for itself. Needs a release over a line, as of `Key.number`.

        Parameters
        ----------
        at
            The values. By default None: those at which the line was cut, which say all that is known.
        """
        return self._on_lines("cdf", lambda curve: curve.share_frame(at))

    def between(self, low: Any, high: Any) -> pl.DataFrame:
        """How many lie from one value up to another: `low`, `high`, `estimate`, `lower`, `upper`. Costs nothing more.

        Needs a release over a line, as of `Key.number`.

        Parameters
        ----------
        low, high
            The two values; beyond the ends of the line, its ends. What is at `high` itself is not counted, but at the
            end of the line it is: the last bin holds it.
        """
        return self._on_lines("between", lambda curve: curve.count_frame(low, high))

    def _on_lines(self, name: str, frame_of: Callable[[MeasuredCurve], pl.DataFrame]) -> pl.DataFrame:
        """The frame of the line; of groups all frames, each row with its group's labels first."""
        if self.curve is not None:
            return frame_of(self.curve)
        if self.curves is None:
            raise ValueError(
                f"{name} needs a release over the bins of a line. Hint: by=Key.number('age', ...), or, with a unit, "
                "method=Curve() and Key.nested(..., Key.number(...)); another release costs its own budget"
            )
        order = np.arange(self.estimates.size) if self.nodes is not None else self.tree.level_order.nodes  # type: ignore[union-attr]
        rows = np.empty_like(order)
        rows[order] = np.arange(order.size)
        labels = self.to_frame(other=False).select(self.tree.names)
        parts = [labels[int(rows[node])].join(frame_of(curve), how="cross") for node, curve in self.curves.items()]
        return pl.concat(parts) if parts else labels.clear()

    def to_arrow(self, *, other: bool = True) -> Any:
        """The frame of `to_frame` as a PyArrow table; integers of 128 bits are texts. Needs PyArrow.

        Parameters
        ----------
        other
            Whether there are rows "(other)", as in `to_frame`; by default there are.
        """
        return arrow_table(self.to_frame(other=other))

    def to_pandas(self, *, other: bool = True) -> Any:
        """The frame of `to_frame` as one of pandas, integers and truths in nullable columns. Needs pandas and PyArrow.

        Parameters
        ----------
        other
            Whether there are rows "(other)", as in `to_frame`; by default there are.
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
            and a text has at most 32,767 characters.
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
        """The release as a text that `from_json` reads: docs/release_format.md. All but `fit`."""
        return write_release(self)

    @classmethod
    def from_json(cls, text: str) -> TreeRelease:
        """The release of a text that `to_json` wrote, equal in every number and label.

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
