"""Sums and means of a value at every node of a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendp_tree._types import Array, Bools, Floats
from opendp_tree.trees.labels import FIGURES, figure_names


@dataclass(frozen=True)
class NodeValues:
    """The sum and the mean of one value at each node, with their intervals, in the order of the release's arrays."""

    name: str
    low: float
    high: float
    sum: Floats
    sum_lower: Floats
    sum_upper: Floats
    mean: Floats
    mean_lower: Floats
    mean_upper: Floats

    def check(self, size: int) -> None:
        """Check that there is one number per node."""
        for name in FIGURES:
            array = getattr(self, name)
            if not isinstance(array, np.ndarray):
                raise TypeError(f"values: {name} ({type(array).__name__}) must be a NumPy array")
            if array.shape != (size,):
                raise ValueError(
                    f"values: {name} (of shape {array.shape}) must have one entry for each of the {size} nodes"
                )

    def spread(self, shown: Bools) -> NodeValues:
        """The figures of shown nodes among all nodes; NaN for the others."""
        spread = np.full((len(FIGURES), shown.size), np.nan)
        spread[:, shown] = [getattr(self, name) for name in FIGURES]
        return NodeValues(self.name, self.low, self.high, *spread)

    def words(self) -> str:
        """What is summed, in words."""
        return f"{self.name} clipped to [{self.low:.10g}, {self.high:.10g}]"


def value_columns(values: Sequence[NodeValues]) -> dict[str, Floats]:
    """The columns of all values: `sum`, `mean` and their intervals; of several values with their names first."""
    figures = [getattr(each, name) for each in values for name in FIGURES]
    return dict(zip(figure_names([each.name for each in values]), figures, strict=True))


def column_bounds(values: Sequence[NodeValues]) -> dict[str, tuple[float, float]]:
    """The bounds to which the numbers of each column of all values were clipped."""
    bounds = [(each.low, each.high) for each in values for _ in FIGURES]
    return dict(zip(figure_names([each.name for each in values]), bounds, strict=True))


def values_of_rest(
    columns: Mapping[str, Array],
    left: Array,
    rest_of: Callable[[Array], Array],
    bounds: Mapping[str, tuple[float, float]],
) -> dict[str, Array]:
    """Sums and means of what shown children leave of a node; their intervals are unknown."""
    found: dict[str, Array] = {}
    nothing = np.full(left.shape, np.nan)
    for name, array in columns.items():
        if name.endswith("sum"):
            found[name] = rest_of(array)
        elif name.endswith("mean"):
            total = found[name.removesuffix("mean") + "sum"]
            with np.errstate(over="ignore"):  # over almost no rows: the mean is clipped to a bound
                mean = (total / np.where(left > 0, left, 1.0)).clip(*bounds[name])
            found[name] = np.where(left > 0, mean, np.nan)
        else:
            found[name] = nothing
    return found
