"""Plans as lines: error against weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_type
from opendp_tree._types import Floats
from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.plan import Plan
from opendp_tree.plots import style

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

LEAST = 0.1
"""Errors below a tenth of a person are all alike."""
TOO_LARGE = 100.0
"""A mechanism that many times worse than the best would flatten all other lines."""


def plot_plan(plan: Plan, *, title: str | None = None) -> go.Figure:
    """The error of each mechanism of a plan against a node's weight, on log axes.

    The best mechanism has the thick line. Best is whose worst error is least: the highest point of each line, which has
    a dot and its figure. So for nodes of some counts another line may be lower; the footer says for which. Named below
    instead of drawn: mechanisms that are not possible, with the reason, and those whose error is everywhere more than
    100 times the best one's.

    Parameters
    ----------
    plan
        The plan.
    title
        By default it says that no data was touched.

    >>> from opendp_tree import plan, plot_plan
    >>> figure = plot_plan(plan(6, epsilon=1.0, delta=1e-6, nodes="open"))
    >>> [line.name for line in figure.data]
    ['tree_estimator (best)', 'pruned_gaussian', 'pruned_laplace']
    """
    check_type(plan, Plan, name="plan", hint="opendp_tree.plan(...)")
    best, curves = plan.best, plan.curves()
    possible = [each for each in plan.candidates if each.feasible]
    beyond = [each for each in possible if _least(curves, each.name) > TOO_LARGE * best.error]
    drawn = [each for each in possible if each not in beyond]
    reasons: dict[str, list[str]] = {}
    for each in plan.candidates:
        if not each.feasible:
            reasons.setdefault(each.reason, []).append(each.name)
    footer = _elsewhere(plan, drawn)
    footer += [f"Too large to draw: {each.name}, {each.error:.3g}." for each in beyond]
    footer += [f"Not possible ({reason}): {'; '.join(names)}." for reason, names in reasons.items()]
    go, chosen = style.graph_objects(), best.name if best.feasible else None
    traces = []
    at: list[float] = []
    height: list[float] = []
    told: list[tuple[int, float]] = []
    for place, each in enumerate(drawn):
        name = each.name
        rows = curves.filter(mechanism=name).sort("weight")
        x, y = (rows[column].cast(float).to_numpy().copy() for column in ("weight", "error"))
        y[~(np.isfinite(y) & (y > 0))] = np.nan  # a log axis has no place for these: the line breaks
        x, y = x[x > 0], y[x > 0]
        seen = y >= LEAST
        at += x[seen].tolist()
        height += y[seen].tolist()
        says = f"<b>{style.as_text(name)}</b><br>weight %{{x:,.4~g}}<br>error {'at most ' * each.bound}%{{y:,.3~g}}"
        traces.append(
            go.Scatter(
                x=x,
                y=y,
                name=style.as_text(f"{name} (best)" if name == chosen else name),
                **_marks(y, each.error, told),
                line={
                    **{"color": style.LINES[place % len(style.LINES)], "dash": style.DASHES[place % len(style.DASHES)]},
                    "width": 4 if name == chosen else 2,
                },
                hovertemplate=f"{says}<extra></extra>",
            )
        )
    # The legend is over the lines, where it takes as many rows as it needs; under them it would leave a gap.
    look = style.layout(
        title=style.text_or(title, default="Error before any data is touched"),
        subtitle=_why(plan) if best.feasible else "No mechanism is possible.",
        footer=footer,
        below=48,
        above=22,
    )
    look["xaxis"] = _log_axis("true count of a node", at, spare=0)
    look["yaxis"] = _log_axis(f"predicted α-RMSE, α = {plan.alpha:g}", height, spare=0.08)
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    look["showlegend"] = True
    return go.Figure(traces, look)


def _why(plan: Plan) -> str:
    """What makes the first candidate the best."""
    if plan.aim == "keys":
        return f"Best: {plan.best.name}, which shows nodes from {plan.best.shown_from:,.0f} rows on. Dots: worst error."
    return f"Best: {plan.best.name}, because its worst error (its dot) is the least."


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


def _least(frame: pl.DataFrame, name: str) -> float:
    return float(frame.filter(mechanism=name)["error"].to_numpy().min(initial=np.inf))


def _marks(heights: Floats, worst: float, told: list[tuple[int, float]]) -> dict[str, Any]:
    """A dot at the highest point, with its figure."""
    sizes, texts = np.zeros(heights.size), np.full(heights.size, "", dtype=object)
    if np.isfinite(heights).any():
        top = int(np.nanargmax(heights))
        sizes[top] = 11
        if not any(place == top and abs(figure - worst) < 0.25 * worst for place, figure in told):
            texts[top] = f"{worst:.3g}"
            told.append((top, worst))
    return {
        "mode": "lines+markers+text",
        "marker": {"size": sizes.tolist(), "opacity": 1, "line": {"width": 0}},
        **{
            "text": texts.tolist(),
            "textposition": "top left" if sizes.size and not sizes[0] else "top right",
            "cliponaxis": False,
        },
    }


def _log_axis(title: str, values: Sequence[float], *, spare: float) -> dict[str, Any]:
    """A log axis with a tick at each power of ten, and at twice and five times it if there are few of those."""
    low, high = (math.log10(end(values, default=1.0)) for end in (min, max))
    edge = max(spare * (high - low), 0.02)
    steps = (1, 2, 5) if high - low <= 2.5 else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    texts = [_short(tick) for tick in ticks]
    return style.axis(title, type="log", range=[low - edge, high + edge], tickvals=ticks, ticktext=texts)


def _short(value: float) -> str:
    """A tick's figure."""
    if 1e4 <= value < 1e9:
        return f"{value / 1e3:g}k" if value < 1e6 else f"{value / 1e6:g}M"
    return f"{value:,.10g}" if value < 1e9 else f"{value:.0e}"
