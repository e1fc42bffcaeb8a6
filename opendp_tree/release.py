"""What a mechanism gives its user: an estimate and an interval for every node, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opendp_tree.least_squares import LeastSquares
from opendp_tree.open_tree import OpenTree
from opendp_tree.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Fit", "PrivacyStatement", "TreeRelease"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyStatement:
    """What a release cost, as plain data.

    `loss` is in the terms of `measure`: epsilon, or epsilon and delta, or rho.
    """

    mechanism: str
    measure: str
    d_in: int
    loss: Mapping[str, float]
    parameters: Mapping[str, int | float | str | None]

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

    For a public tree the arrays are by node id. For an open tree they hold the nodes with a cell at or below them, in
    the order of `to_frame()`. `lower` and `upper` hold a node's true count with probability at least `confidence`, node
    by node; with `confidence` 1 always. `cells` is the number of cells at or below a node, if the mechanism has cells.
    `statement` is None where post-processing cannot know the cost; `fit` is there if estimates come from least squares.
    """

    tree: Tree | OpenTree
    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: float
    statement: PrivacyStatement | None
    cells: Ints | None = None
    frame: Callable[[], pl.DataFrame] | None = None
    """For an open tree: what `to_frame` shows of the nodes themselves."""
    fit: Fit | None = None

    def to_frame(self) -> pl.DataFrame:
        """One row a node: `level` (the root's is 0), where it is, `estimate`, `lower`, `upper` and `cells`.

        Where it is: label columns, a node id, or a `prefix`, as the tree has it.
        """
        from opendp_tree.frames import node_frame, with_columns

        columns: dict[str, Any] = {"estimate": self.estimates, "lower": self.lower, "upper": self.upper}
        if self.cells is not None:
            columns["cells"] = self.cells
        if isinstance(self.tree, Tree):
            return node_frame(self.tree, columns)
        assert self.frame is not None
        return with_columns(self.frame(), columns)
