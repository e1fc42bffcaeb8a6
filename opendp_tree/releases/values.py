"""Sums and means of a value at every node of a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendp_tree._types import Array, Floats
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

    def words(self) -> str:
        """What is summed, in words."""
        return f"{self.name} clipped to [{self.low:.10g}, {self.high:.10g}]"


def value_columns(values: Sequence[NodeValues]) -> dict[str, Floats]:
    """The columns of all values: `sum`, `mean` and their intervals; of several values with their names first."""
    figures = [getattr(each, name) for each in values for name in FIGURES]
    return dict(zip(figure_names([each.name for each in values]), figures, strict=True))


def values_of_rest(
    values: Sequence[NodeValues], columns: Mapping[str, Array], left: Array, rest_of: Callable[[Array], Array]
) -> dict[str, Array]:
    """Sums and means of what shown children leave of each node, `left` rows; their intervals are unknown."""
    names = figure_names([each.name for each in values])
    found: dict[str, Array] = dict.fromkeys(names, np.full(left.shape, np.nan))
    for each, total, mean in zip(values, names[:: len(FIGURES)], names[3 :: len(FIGURES)], strict=True):
        found[total] = rest_of(columns[total])
        with np.errstate(over="ignore"):  # over almost no rows: the mean is clipped to a bound
            means = (found[total] / np.where(left > 0, left, 1.0)).clip(each.low, each.high)
        found[mean] = np.where(left > 0, means, np.nan)
    return found
