"""More keys, or better totals? What each share of epsilon that measures would give, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_integer, check_positive, check_probability
from opendp_tree._types import Ints
from opendp_tree.mechanisms.partition.parameters import choose_parameters
from opendp_tree.mechanisms.partition.prediction import predict_levels

if TYPE_CHECKING:
    import polars as pl

__all__ = ["plan_dial"]

_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_SPREAD = 1.5
"""Of the logarithm of leaf counts: that of places and categories, as a rule."""
_MOST_LEAVES = 2**20


def plan_dial(
    children: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    rows: int | None = None,
    leaf_counts: Any = None,
    shares: Sequence[float] = _SHARES,
    d_in: int = 1,
) -> pl.DataFrame:
    """Errors and shown nodes by level, for each share of epsilon that `Partition(measuring=...)` may take.

    The rest of epsilon finds nodes: a small share shows more of them, a large one measures totals better. Predicted for
    a shape that is stated, not from data. Nodes that are not shown count as 0. At leaves the law is exact, above them
    it is that of layers and least squares.

    Parameters
    ----------
    children
        How many children each node has, from the root down: `[50, 20, 10]` for states, counties and cities.
    epsilon
        The privacy loss.
    delta
        The chance of a larger loss, which unknown nodes need.
    rows
        About how many rows there are. By default None: `leaf_counts` say it. Their sizes are then taken to be
        log-normal, as those of places and categories often are, spread evenly over the tree.
    leaf_counts
        Instead of `rows`: a typical count of each leaf, children of one node together. By default None.
    shares
        The shares of epsilon to compare. By default a tenth to seven tenths.
    d_in
        How many rows one person may have. By default 1.

    Examples
    --------
    >>> found = plan_dial([50, 20, 10], rows=1_000_000, epsilon=1.0, delta=1e-6, shares=[0.2, 0.6])
    >>> found.columns
    ['measuring', 'level', 'rmse', 'shown', 'nodes']
    >>> keys, totals = found.filter(level=3)["shown"]
    >>> keys > totals  # more cities are found if less measures
    True
    >>> keys, totals = found.filter(level=1)["rmse"]
    >>> keys > totals  # and states are better if more does
    True

    """
    sizes = [check_integer(each, name="children", least=1) for each in children]
    if not sizes or math.prod(sizes) > _MOST_LEAVES:
        raise ValueError(f"children must be one number or more, with at most {_MOST_LEAVES:,} leaves in all")
    spent = check_positive(epsilon, name="epsilon")
    people = check_integer(d_in, name="d_in", least=1)
    counts = _leaf_counts(sizes, rows, leaf_counts)
    found: dict[str, list[float]] = {name: [] for name in ("measuring", "level", "rmse", "shown", "nodes")}
    for share in shares:
        part = check_probability(share, name="shares")
        parameters = choose_parameters(len(sizes) + 1, float(spent * (1 - part)), delta, d_in=people)
        expected = predict_levels(parameters, float(spent * part / people), counts, sizes)
        for level, (rmse, shown) in enumerate(zip(expected.rmse.tolist(), expected.shown.tolist(), strict=True)):
            row = (float(part), level, rmse, shown, math.prod(sizes[:level]))
            for name, value in zip(found, row, strict=True):
                found[name].append(value)

    from opendp_tree.trees.label_keys import record_frame

    return record_frame(found)


def _leaf_counts(sizes: Sequence[int], rows: int | None, stated: Any) -> Ints:
    """Those that are stated, or log-normal ones that sum to about `rows`, large and small ones mixed."""
    leaves = math.prod(sizes)
    if (rows is None) == (stated is None):
        raise ValueError("give either rows or leaf_counts. Hint: rows=1_000_000")
    if stated is not None:
        counts = np.asarray(stated)
        if counts.shape != (leaves,) or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
            raise ValueError(f"leaf_counts must be {leaves:,} whole numbers, none negative: one for each leaf")
        return counts.astype(np.int64)
    assert rows is not None
    total = check_integer(rows, name="rows", least=1)
    normal = NormalDist()
    ranks = (np.arange(leaves) * _coprime(leaves)) % leaves  # every part of the tree gets small and large ones
    weights = np.exp(_SPREAD * np.array([normal.inv_cdf((rank + 0.5) / leaves) for rank in ranks.tolist()]))
    typical: Ints = np.rint(weights * (total / weights.sum())).astype(np.int64)
    return typical


def _coprime(number: int) -> int:
    """A step that visits every place once, far from its neighbours."""
    step = max(1, round(number * 0.618))
    while math.gcd(step, number) != 1:
        step += 1
    return step
