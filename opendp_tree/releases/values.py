"""Sums and means of a value at every node of a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_tree._types import Array, Bools, Floats
from opendp_tree.releases import format as form
from opendp_tree.trees.level_names import FIGURES, figure_names

__all__ = ["NodeValues"]


@dataclass(frozen=True)
class NodeValues:
    """The sum and the mean of one value at each node, with their intervals, in the order of the release's arrays.

    Parameters
    ----------
    name
        The column.
    low, high
        The bounds that each row's number was clipped to: sums, means and intervals are of clipped numbers.
    sum, sum_lower, sum_upper
        For each node the estimated sum and its interval.
    mean, mean_lower, mean_upper
        For each node the estimated mean, within the bounds, and its interval.
    """

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
        """That there is a number for each of so many nodes.

        Parameters
        ----------
        size
            The number of nodes.
        """
        for name in FIGURES:
            array = getattr(self, name)
            if not isinstance(array, np.ndarray):
                raise TypeError(f"values: {name} ({type(array).__name__}) must be a NumPy array")
            if array.shape != (size,):
                raise ValueError(
                    f"values: {name} (of shape {array.shape}) must hold one entry for each of {size} nodes"
                )

    def spread(self, shown: Bools) -> NodeValues:
        """The figures of shown nodes at their places among all; the others have none.

        Parameters
        ----------
        shown
            For each of all nodes whether it is one of these.
        """

        def everywhere(figures: Floats) -> Floats:
            found = np.full(shown.size, np.nan)
            found[shown] = figures
            return found

        return NodeValues(self.name, self.low, self.high, *(everywhere(getattr(self, name)) for name in FIGURES))

    def words(self) -> str:
        """What is summed, in words.

        >>> NodeValues("amount", 0.0, 500.0, *(np.zeros((6, 1)))).words()
        'amount clipped to [0, 500]'
        """
        return f"{self.name} clipped to [{self.low:.10g}, {self.high:.10g}]"


def value_columns(values: Sequence[NodeValues]) -> dict[str, Floats]:
    """The columns of all values: `sum`, `mean` and their ends; with several values each with its name before it.

    Parameters
    ----------
    values
        Those of a release.

    >>> one, two = (NodeValues(name, 0.0, 1.0, *np.zeros((6, 1))) for name in ("amount", "delay"))
    >>> list(value_columns([one]))[:2], list(value_columns([one, two]))[6]
    (['sum', 'sum_lower'], 'delay_sum')
    """
    figures = [getattr(each, name) for each in values for name in FIGURES]
    return dict(zip(figure_names([each.name for each in values]), figures, strict=True))


def column_bounds(values: Sequence[NodeValues]) -> dict[str, tuple[float, float]]:
    """For each of the columns of all values the bounds that its numbers were clipped to.

    Parameters
    ----------
    values
        Those of a release.

    >>> column_bounds([NodeValues("amount", 0.0, 9.0, *np.zeros((6, 1)))])["mean"]
    (0.0, 9.0)
    """
    bounds = [(each.low, each.high) for each in values for _ in FIGURES]
    return dict(zip(figure_names([each.name for each in values]), bounds, strict=True))


def values_of_rest(
    columns: Mapping[str, Array],
    left: Array,
    rest_of: Callable[[Array], Array],
    bounds: Mapping[str, tuple[float, float]],
) -> dict[str, Array]:
    """What shown children leave of sums and means: those of the difference; nothing is said of their ends.

    A mean is clipped to the bounds of its value, within which every row is; where no rows are left, there is none.

    Parameters
    ----------
    columns
        The columns of values, in the order of `value_columns`.
    left
        How many rows are left.
    rest_of
        What is left of a column of sums.
    bounds
        Those of each column.

    >>> values = [NodeValues("amount", 0.0, 9.0, *np.full((6, 1), 8.0))]
    >>> columns, bounds = value_columns(values), column_bounds(values)
    >>> rest = values_of_rest(columns, np.array([2.0]), lambda sums: sums - 2, bounds)
    >>> rest["sum"], rest["mean"], rest["mean_lower"]
    (array([6.]), array([3.]), array([nan]))
    """
    found: dict[str, Array] = {}
    nothing = np.full(left.shape, np.nan)
    for name, array in columns.items():
        if name.endswith("sum"):
            found[name] = rest_of(array)
        elif name.endswith("mean"):
            total = found[name.removesuffix("mean") + "sum"]
            with np.errstate(over="ignore"):  # a sum over almost no rows, whose mean is a bound
                mean = (total / np.where(left > 0, left, 1.0)).clip(*bounds[name])
            found[name] = np.where(left > 0, mean, np.nan)
        else:
            found[name] = nothing
    return found


def write_values(values: Sequence[NodeValues]) -> list[dict[str, Any]]:
    """Values as JSON has room for them.

    Parameters
    ----------
    values
        Those of a release.
    """
    return [
        {
            **{"name": each.name, "low": each.low, "high": each.high},
            **{name: form.write_array(getattr(each, name)) for name in FIGURES},
        }
        for each in values
    ]


def read_values(written: list[Any], size: int) -> tuple[NodeValues, ...]:
    """The values that `write_values` wrote, for so many nodes.

    Parameters
    ----------
    written
        What JSON gives.
    size
        The number of nodes.
    """
    found = []
    for described in written:
        if not isinstance(described, dict):
            raise ValueError('"values" must hold objects')
        low, high = (float(form.part(described, name, int, float)) for name in ("low", "high"))
        arrays = [form.read_array(form.part(described, name, list), name, float, size) for name in FIGURES]
        found.append(NodeValues(form.part(described, "name", str), low, high, *arrays))
    if len({each.name for each in found}) < len(found):
        raise ValueError('"values" must have different names')
    return tuple(found)
