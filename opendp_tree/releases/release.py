"""What a mechanism gives its user: an estimate and an interval for every node, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opendp_tree.releases import format as form
from opendp_tree.releases.words import cost_words, error_words, tree_words
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.open_nodes import OpenNodes
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Fit", "PrivacyStatement", "TreeRelease"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyStatement:
    """What a release cost, as plain data.

    `loss` is in the terms of `measure`: epsilon, or epsilon and delta, or rho; for inputs at distance `d_in`. `unit`
    says in words what that distance protects ("one person with at most 5 rows"), where somebody knows.
    """

    mechanism: str
    measure: str
    d_in: int
    loss: Mapping[str, float]
    parameters: Mapping[str, int | float | str | None]
    unit: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The statement as nested dictionaries of numbers and texts, ready for JSON."""
        return {**asdict(self), "loss": dict(self.loss), "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class Fit:
    """How least squares came to its estimates, for those who ask for more than nodes.

    `best` are the unconstrained estimates by node id; their errors stay within `multiplier` standard deviations with
    the release's confidence. `nonnegative` says that true counts are taken not to be negative.
    """

    estimator: LeastSquares
    multiplier: float
    best: Floats
    nonnegative: bool


@dataclass(frozen=True)
class TreeRelease:
    """An estimate and an interval for each node.

    For a public tree the arrays are by node id; for an open tree they hold the nodes that are shown, in the order of
    `nodes`. `lower` and `upper` hold a node's true count with probability at least `confidence`, node by node; with
    `confidence` 1 always. `statement` is None where post-processing cannot know the cost.
    """

    tree: Tree | OpenTree
    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: float
    statement: PrivacyStatement | None
    cells: Ints | None = None
    """The number of cells at or below a node, if the mechanism has cells."""
    nodes: OpenNodes | None = None
    """For an open tree: which nodes are shown."""
    fit: Fit | None = None
    """If estimates come from least squares."""
    shown: Bools | None = None
    """For a public tree of which a mechanism shows some nodes and hides others; None if it shows all."""
    hidden: float | None = None
    """For an open tree: what a node that is not shown holds at most, with the same confidence."""

    def __post_init__(self) -> None:
        if not isinstance(self.tree, (Tree, OpenTree)):
            raise TypeError(f"tree ({type(self.tree).__name__}) must be a Tree or an OpenTree")
        if not isinstance(self.nodes, (OpenNodes, type(None))):
            raise TypeError(f"nodes ({type(self.nodes).__name__}) must be the OpenNodes that a mechanism shows")
        if isinstance(self.tree, OpenTree) != (self.nodes is not None):
            raise ValueError("nodes must be given for an open tree, and for no other")
        size = self.tree.node_count if isinstance(self.tree, Tree) else self.levels.size
        for name in ("estimates", "lower", "upper", "cells", "shown"):
            array = getattr(self, name)
            if array is not None and not isinstance(array, np.ndarray):
                raise TypeError(f"{name} ({type(array).__name__}) must be a NumPy array")
            if array is not None and array.shape != (size,):
                raise ValueError(f"{name} (of shape {array.shape}) must hold one entry for each of the {size} nodes")

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

        `level` (the root's is 0); where it is: label columns, `prefix` (and `bits`), or the id `node`; `path`, that in
        one text; `estimate`, `lower`, `upper`; `cells`, if the mechanism has cells; and whether it is `shown`.

        With `other`, each shown node whose shown children do not explain all of its estimate has a row "(other)" after
        them for the difference, so that rows add up to their parent's; the column `other` tells it from a label of that
        name. It may be negative: it is a difference of noisy counts. Its `lower` and `upper` are null unless all
        intervals hold always. Where a label column holds no texts, and for `prefix`, `bits` and `node`, it has null.

        With `spreadsheet_safe`, for CSV that people open, texts and names of columns that a spreadsheet would run as a
        formula (they begin with =, +, -, @, a tab or the end of a line) or that begin with an apostrophe have an
        apostrophe before them. The default, False, keeps labels as they are, for programs.

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
        from opendp_tree.releases.frame import open_rows, public_rows, release_frame
        from opendp_tree.rows.files import spreadsheet_safe as safe

        if isinstance(self.tree, Tree):
            rows, order = public_rows(self.tree)
        else:
            assert self.nodes is not None
            rows, order = open_rows(self.tree, self.nodes), np.arange(self.nodes.size)
        numbers = {"estimate": self.estimates, "lower": self.lower, "upper": self.upper}
        columns: dict[str, Any] = {name: array.astype(np.float64, copy=False) for name, array in numbers.items()}
        if self.cells is not None:
            columns["cells"] = self.cells
        columns["shown"] = np.ones(order.size, dtype=np.bool_) if self.shown is None else self.shown
        values = {name: array[order] for name, array in columns.items()}
        frame = release_frame(rows, values, public=self.nodes is None, certain=self.confidence == 1, other=other)
        return safe(frame) if spreadsheet_safe else frame

    def to_json(self) -> str:
        """The release as a text that `from_json` reads: docs/release_format.md. All but `fit`."""
        statement = None if self.statement is None else self.statement.to_dict()
        if statement is not None:
            for name in ("loss", "parameters"):
                statement[name] = {key: _write_value(value) for key, value in statement[name].items()}
        arrays = {name: form.write_array(getattr(self, name)) for name in ("estimates", "lower", "upper")}
        nodes = None
        if isinstance(self.tree, OpenTree) and self.nodes is not None:
            nodes = form.write_nodes(self.tree, self.nodes)
        return form.write_text(
            {
                "statement": statement,
                "confidence": float(self.confidence),
                "tree": form.write_tree(self.tree),
                "nodes": nodes,
                **arrays,
                "cells": form.write_array(self.cells),
                "shown": form.write_array(self.shown),
                "hidden": None if self.hidden is None else form.write_number(float(self.hidden)),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TreeRelease:
        """The release of a text that `to_json` wrote, equal in every number and label.

        >>> tree = Tree.from_paths([("be", "ghent"), ("lu",)])
        >>> release = TreeRelease(tree, *np.ones((3, 4)), confidence=0.9, statement=None)
        >>> TreeRelease.from_json(release.to_json()).tree == tree
        True
        """
        parts = form.read_text(text)
        tree = form.read_tree(form.part(parts, "tree", dict))
        described = form.part(parts, "nodes", *((dict,) if isinstance(tree, OpenTree) else (type(None),)))
        nodes = form.read_nodes(tree, described) if isinstance(tree, OpenTree) else None
        size = tree.node_count if isinstance(tree, Tree) else nodes.size if nodes else 0
        arrays: dict[str, Any] = {}
        for name, kind in (("estimates", float), ("lower", float), ("upper", float), ("cells", int), ("shown", bool)):
            optional = (type(None),) if kind is not float else ()
            values = form.part(parts, name, list, *optional)
            arrays[name] = None if values is None else form.read_array(values, name, kind, size)
        confidence = form.part(parts, "confidence", int, float)
        if not 0 < confidence <= 1:
            raise ValueError('"confidence" must be above 0 and at most 1')
        hidden = form.part(parts, "hidden", int, float, str, type(None))
        return cls(
            tree=tree,
            confidence=float(confidence),
            statement=_read_statement(form.part(parts, "statement", dict, type(None))),
            nodes=nodes,
            hidden=None if hidden is None else float(form.read_number(hidden, "hidden")),
            **arrays,
        )

    def describe(self) -> str:
        """The release in words: what was released, at what cost, and how wrong it can be.

        >>> tree = Tree.from_paths([("be", "ghent"), ("lu",)], names=["country", "city"])
        >>> statement = PrivacyStatement("tree_laplace", "max_divergence", 1, {"epsilon": 1.0}, {})
        >>> noisy = np.array([50.0, 30.0, 30.0, 20.0])
        >>> print(TreeRelease(tree, noisy, noisy - 9, noisy + 9, 0.95, statement).describe())
        Counts of all 4 nodes of a public tree of depth 3 (country / city).
        Mechanism: Laplace noise on every node and least squares.
        Privacy: epsilon 1 (max divergence) for adding or removing one row.
        Error: a node's true count is in its interval, with probability at least 0.95.
        Intervals reach 9 from the estimate at the median node, 9 at the widest.
        """
        shown = self.estimates.size if self.shown is None else int(self.shown.sum())
        mask = slice(None) if self.shown is None else self.shown
        reach = np.maximum(self.upper - self.estimates, self.estimates - self.lower)[mask]
        hidden = self.hidden
        if self.shown is not None and not self.shown.all():
            hidden = float(self.upper[~self.shown].max())
        mechanism, cost = None, None
        if self.statement is not None:
            mechanism, cost = self.statement.mechanism, self.statement.to_dict()
        error = error_words(self.confidence, reach, hidden)
        return "\n".join([*tree_words(self.tree, shown, mechanism), cost_words(cost), *error])


def _write_value(value: Any) -> Any:
    """A number, a text or null; what is no finite number is told from a text of that name."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not np.isfinite(plain):
        return {"number": str(plain)}
    return plain


def _read_statement(described: Mapping[str, Any] | None) -> PrivacyStatement | None:
    if described is None:
        return None
    mechanism, measure = (form.part(described, name, str) for name in ("mechanism", "measure"))
    d_in, unit = form.part(described, "d_in", int), form.part(described, "unit", str, type(None))
    loss, parameters = (
        {key: _read_value(value, name) for key, value in form.part(described, name, dict).items()}
        for name in ("loss", "parameters")
    )
    if not all(type(value) in (int, float) and value >= 0 for value in loss.values()):
        raise ValueError('"loss" must hold numbers that are not negative')
    if d_in < 0:
        raise ValueError('"d_in" must not be negative')
    return PrivacyStatement(mechanism, measure, d_in, loss, parameters, unit)


def _read_value(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return form.read_number(value.get("number"), name)
    if type(value) not in (int, float, str, type(None)):
        raise ValueError(f'"{name}" must hold numbers, texts and nulls')
    return form.read_number(value, name) if type(value) is int else value
