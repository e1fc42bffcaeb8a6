"""The steps of a lazy frame's plan as plain data, to be looked at before they are run."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from io import StringIO
from typing import Any

import polars as pl

Node = Any
"""An expression as Polars writes it down: nested dictionaries, lists, names and numbers."""

_METHODS = {"Filter": ("filter", "predicate"), "HStack": ("with_columns", "exprs"), "Select": ("select", "expr")}
_NAMES = {"GroupBy": "group_by", "Join": "join", "Sort": "sort", "Slice": "slice", "Distinct": "unique"}


@dataclass(frozen=True)
class PlanStep:
    """One step: a method of lazy frames, and its expressions."""

    method: str
    nodes: tuple[Node, ...]

    def take(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The frame after this step, for its schema. Floats are not exact here: see `read_expression`."""
        taken: pl.LazyFrame = getattr(frame, self.method)([read_expression(node) for node in self.nodes])
        return taken


def plan_steps(plan: pl.LazyFrame) -> tuple[PlanStep, ...]:
    """The steps of a plan, from the first to the last. Any other than filter, select and with_columns is refused."""
    return _steps_of(_written(plan))


def _steps_of(node: Node) -> tuple[PlanStep, ...]:
    steps: list[PlanStep] = []
    while (kind := next(iter(node))) != "DataFrameScan":
        inner = node[kind]
        if kind == "IR":  # a plan whose schema was asked for
            node = inner["dsl"]
            continue
        if kind not in _METHODS:
            name = _NAMES.get(kind, kind)
            raise ValueError(
                f"a step ({name}) must be filter, select, with_columns or OpenDP's truncation. Hint: tree_counts "
                "groups and counts rows; who contributes how many is bounded by unit=Unit(...)"
            )
        method, key = _METHODS[kind]
        nodes = inner[key]
        steps.append(PlanStep(method, tuple(nodes) if isinstance(nodes, list) else (nodes,)))
        node = inner["input"]
    return tuple(reversed(steps))


def read_expression(node: Node) -> pl.Expr:
    """An expression from plain data, for its data type alone: floats may differ in their last bit, or be zero."""
    return pl.Expr.deserialize(StringIO(json.dumps(_with_finite_floats(node))), format="json")


def _written(plan: pl.LazyFrame) -> Node:
    with warnings.catch_warnings():
        # Polars may change this form in another version. The tests read every kind of step that there is.
        warnings.simplefilter("ignore")
        text = plan.serialize(format="json")
    try:
        return json.loads(text)
    except RecursionError:
        pass
    raise ValueError("a step must not be nested so deeply. Hint: name parts of it by with_columns first")


def _with_finite_floats(node: Node) -> Node:
    """JSON has no room for NaN and infinity: Polars writes null, and cannot read that."""
    if isinstance(node, list):
        return [_with_finite_floats(each) for each in node]
    if not isinstance(node, dict):
        return node
    floats = ("Float", "Float32", "Float64")
    return {key: 0.0 if key in floats and each is None else _with_finite_floats(each) for key, each in node.items()}
