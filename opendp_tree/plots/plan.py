"""Plans as lines: error against weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._arguments import check_type
from opendp_tree._show import number_text
from opendp_tree._types import Floats
from opendp_tree.planning.plan import Candidate, Plan
from opendp_tree.plots import style

if TYPE_CHECKING:
    import plotly.graph_objects as go

LEAST = 0.1
"""Differences between errors below this do not matter."""
TOO_LARGE = 100.0
"""A mechanism that many times worse than the best would flatten all other lines."""


def plot_plan(plan: Plan, *, title: str | None = None) -> go.Figure:
    """The error of each mechanism of a plan against a node's weight, on log axes.

    The best mechanism has the thick line: its worst error, the highest point of each line, is the smallest. That point
    has a dot and its figure. For nodes of some counts another line may be lower; the footer says for which. It also
    names mechanisms that are not drawn: those that are not possible, with the reason, and those whose error is
    everywhere more than 100 times the best one's.

    :param plan: The plan.
    :param title: By default it says that no data was touched.
    """
    check_type(plan, Plan, name="plan", hint="opendp_tree.plan(...)")
    best, curves = plan.best, plan.curves()
    possible = [each for each in plan.candidates if each.feasible]
    lowest = dict(curves.group_by("mechanism").agg(pl.col("error").min()).rows())
    beyond = [each for each in possible if lowest.get(each.name, math.inf) > TOO_LARGE * best.error]
    drawn = [each for each in possible if each not in beyond]
    reasons: dict[str, list[str]] = {}
    for each in plan.candidates:
        if not each.feasible:
            reasons.setdefault(each.reason, []).append(each.name)
    footer = _elsewhere(plan, drawn)
    footer += [f"Too large to draw: {each.name}, {number_text(each.error)}." for each in beyond]
    footer += [f"Not possible ({reason}): {'; '.join(names)}." for reason, names in reasons.items()]
    traces, points = [], []
    written: list[tuple[int, float]] = []
    for index, each in enumerate(drawn):
        is_best = best.feasible and each.name == best.name
        rows = curves.filter(pl.col("weight") > 0, mechanism=each.name).sort("weight")
        x, y = (rows[column].cast(float).to_numpy() for column in ("weight", "error"))
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan)  # a log axis has no place for these: the line breaks
        points.append(np.array([x, y])[:, y >= LEAST])
        name, bound = style.as_text(each.name), "at most " * each.bound
        traces.append(
            {
                **{"x": x, "y": y, "name": f"{name} (best)" if is_best else name, **_marks(y, each.error, written)},
                "line": style.stroke(index, width=4 if is_best else 2),
                "hovertemplate": f"<b>{name}</b><br>weight %{{x:,.4~g}}<br>error {bound}%{{y:,.3~g}}<extra></extra>",
            }
        )
    at, heights = np.concatenate(points, axis=1) if points else np.ones((2, 1))
    return style.figure(
        traces,
        title=title,
        usual="Error before any data is touched",
        subtitle=_why(plan) if best.feasible else "No mechanism is possible.",
        footer=footer,
        below=48,
        above=22,
        xaxis=style.log_axis("true count of a node", at),
        yaxis=style.log_axis(f"predicted α-RMSE, α = {plan.alpha:g}", heights, spare=0.08),
        # Over the lines, where it takes as many rows as it needs; under them it would leave a gap.
        **style.legend(1, "bottom"),
    )


def _why(plan: Plan) -> str:
    """What makes the first candidate the best."""
    if plan.aim == "keys":
        return f"Best: {plan.best.name}, which shows nodes from {plan.best.shown_from:,.0f} rows on. Dots: worst error."
    return f"Best: {plan.best.name}, because its worst error (its dot) is the smallest."


def _elsewhere(plan: Plan, drawn: Sequence[Candidate]) -> list[str]:
    """For which counts a line is clearly lower than that of the best."""
    said: list[str] = []
    curve = plan.curves().filter(mechanism=plan.best.name)
    at, best = (curve[name].to_numpy() for name in ("weight", "error"))
    for each in drawn:
        if each.name == plan.best.name:
            continue
        lower = (best >= LEAST) & (each.error_at(at) < 0.95 * best)
        if lower.any():
            first, last = at[lower][[0, -1]]
            on = "on" if (best[at > last] < LEAST).all() else f"to {last:,.0f}"
            said.append(f"{each.name} from {first:,.0f} {on}")
    return [f"Lower for nodes of some counts: {'; '.join(said)}."] if said else []


def _marks(heights: Floats, worst: float, written: list[tuple[int, float]]) -> dict[str, Any]:
    """A dot at the highest point, with its figure, unless that would cover another one."""
    sizes, texts = np.zeros(heights.size), np.full(heights.size, "", dtype=object)
    if np.isfinite(heights).any():
        top = int(np.nanargmax(heights))
        sizes[top] = 11
        if not any(place == top and abs(figure - worst) < 0.25 * worst for place, figure in written):
            texts[top] = number_text(worst)
            written.append((top, worst))
    return {
        "mode": "lines+markers+text",
        "marker": {"size": sizes.tolist(), "opacity": 1, "line": {"width": 0}},
        "text": texts.tolist(),
        "textposition": "top left" if sizes.size and not sizes[0] else "top right",
        "cliponaxis": False,
    }
