"""OpenDP's own queries, such as `select(dp.len())`, of frames that are passed by reference.

OpenDP makes the measurement, proves its map and runs it. What is added here: everything row by row in such a query,
before the aggregate and inside it, must be on our own list (`allowed.py`), so that no row can make the query fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from opendp.extras.polars import OnceFrame

from opendp_tree.noise import uniform_words
from opendp_tree.rows.allowed import check_expression, check_growth, check_steps, shuffles
from opendp_tree.rows.groups import guarded
from opendp_tree.rows.plans import Node, PlanStep, aggregate_of, is_private


def check_query(plan: pl.LazyFrame, empty: pl.LazyFrame) -> tuple[PlanStep, ...]:
    """The row-wise steps of a private query, once all that it does row by row is on the list."""
    steps, keys, expressions = aggregate_of(plan)
    check_growth([*(step.nodes for step in steps), keys, expressions])
    check_steps(steps, empty)
    for step in steps:
        empty = step.take(empty)
    for key in keys:
        check_expression(key, empty)
    for expression in expressions:
        if not is_private(expression):
            raise ValueError(
                "a query must end in OpenDP's private expressions alone. Hint: select(dp.len()), or "
                'pl.col("x").fill_null(0).dp.sum((0, 10)); or go on with tree_counts(by=...)'
            )
        _check_inside(expression, empty)
    return steps


def _check_inside(node: Node, frame: pl.LazyFrame) -> None:
    """Go down through private expressions and the aggregates in them; what is below is of rows, and must be listed."""
    kind, inner = next(iter(node.items())) if isinstance(node, dict) else (node, None)
    if kind in ("Len", "Literal"):
        return
    below = _below(kind, inner, node)
    if below is None:
        check_expression(node, frame)
    else:
        for each in below:
            _check_inside(each, frame)


def _below(kind: str, inner: Node, node: Node) -> list[Node] | None:
    """What an expression that is not of single rows is made of; None for one that is."""
    if kind == "Agg":
        operand = next(iter(inner.values()))
        return [operand.get("input", operand.get("expr", operand))] if isinstance(operand, dict) else []
    if kind == "Function" and inner["function"] == "NullCount":
        return list(inner["input"])
    if not is_private(node):
        return None
    if kind == "Alias":
        return list(inner[:1])
    if kind == "BinaryExpr":
        return [inner["left"], inner["right"]]
    return list(inner["input"]) if kind == "Function" else None


class PrivateFrame(OnceFrame):
    """What OpenDP releases of a query: a frame that may be collected once."""

    def __init__(self, queryable: Any, *, draws: bool) -> None:
        super().__init__(queryable)  # type: ignore[no-untyped-call]
        self._draws = draws
        self._left = True

    def collect(self) -> pl.DataFrame:
        """The frame. A failure withholds its details, because they may hold data."""
        if not self._left:
            raise ValueError("a release can be collected once only. Hint: keep the frame that collect() gave")
        self._left = False
        if self._draws:  # which rows are kept, by Polars' generator, which anyone may have seeded
            pl.set_random_seed(int(uniform_words(1)[0]))
        frame: pl.DataFrame = guarded(super().collect)
        return frame


def released_by(measurement: Callable[[Any], Any], steps: tuple[PlanStep, ...]) -> Callable[[Any], PrivateFrame]:
    """The function of a measurement of OpenDP's on lazy frames, as it is run here."""
    draws = shuffles(steps)

    def release(frame: pl.LazyFrame) -> PrivateFrame:
        return PrivateFrame(guarded(lambda: measurement(frame)).queryable, draws=draws)

    return release
