"""Curves and quantiles of a line: what each is expected to err by, in ranks, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import l1_distance
from opendp.mod import Measurement

from opendp_tree._arguments import check_integer
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.chosen_quantiles import SCALES as CHOICE_SCALES
from opendp_tree.mechanisms.chosen_quantiles import Choices, make_chosen_quantiles
from opendp_tree.mechanisms.curve import BRANCHING, SCALES, MeasuredLine, make_bin_curve, make_segment_curve
from opendp_tree.mechanisms.grouped_curves import make_grouped_curves
from opendp_tree.planning.candidate import Candidate, Space
from opendp_tree.planning.methods import Curve, Line, Quantiles
from opendp_tree.theorems.interval import round_down
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["line_candidate", "plan_line"]

_FEW_BINS = 1024
_PEOPLE = 100_000
_CROWDS = 1.25
"""A segment holds about this many thresholds of people."""
_NEEDS = "a line of bins, such as Key.number"
Group = Callable[[Tree | OpenTree, Budget], Candidate]


def plan_line(
    bins: int,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    d_in: int = 1,
    quantiles: Sequence[float] = (0.5,),
    people: int = _PEOPLE,
) -> pl.DataFrame:
    """What curves and chosen quantiles are expected to err by, in people, the best first: `mechanism`, `rank_error`,
    `method`, `reason`.

    The rank error of a quantile is the number of people by which its estimate misses it. It is predicted from the law
    of the noise for people who are spread evenly over the bins; where many share a value it is smaller.

    Parameters
    ----------
    bins
        How many bins the line has.
    epsilon
        The privacy loss. Give either this or `rho`.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    d_in
        The distance at which the budget is spent: how many rows one person may have. By default 1.
    quantiles
        Those that are wanted. By default the median. A curve has all of them.
    people
        About how many rows there are, for the prediction alone; 100,000 by default.

    Examples
    --------
    >>> plan_line(2**16, epsilon=0.1)["mechanism"].to_list()
    ['chosen_quantiles', 'segment_curve', 'bin_curve']
    >>> plan_line(2**16, epsilon=0.1, quantiles=[i / 20 for i in range(1, 20)])["mechanism"][0]
    'segment_curve'

    """
    from opendp_tree.trees.label_keys import record_frame

    size = check_integer(bins, name="bins", least=1)
    budget = Budget.of(epsilon=epsilon, delta=0.0, rho=rho, d_in=d_in)
    rows = []
    for method in (Curve(segments=True), Curve(segments=False), Quantiles(quantiles)):
        error = expected_rank_error(method, size, budget, people=check_integer(people, name="people", least=1))
        rows.append((method.name, error, repr(method), _reason(method)))
    columns = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    names = ("mechanism", "rank_error", "method", "reason")
    return record_frame({name: list(column) for name, column in zip(names, columns, strict=True)})


def expected_rank_error(method: Line, bins: int, budget: Budget, *, people: int = _PEOPLE) -> float:
    """By how many people a quantile is missed, in the mean, where people are spread evenly."""
    if isinstance(method, Quantiles):
        choices = Choices.of(_choice_scale(method, budget), method.at, confidence=0.5)
        scales = [scale / share.denominator for share, scale in zip(choices.shares, choices.scales, strict=True)]
        return _beyond(float(np.mean(scales)), people / bins / 4, laplace=True)
    line = MeasuredLine.of(
        bins,
        budget.d_in / budget.pure_epsilon,
        finding=method.finding if _segments(method, bins) else 0.0,
        branching=BRANCHING,
        confidence=0.5,
    )
    count = bins
    if line.parameters is not None:
        count = max(1, min(bins, round(people / (_CROWDS * line.parameters.shape.thresholds[0]))))
    tree = line.segment_tree(count)
    ends = np.unique(np.linspace(0, count, 129).astype(np.int64))
    spread = float(np.sqrt(tree.variances(np.zeros_like(ends), ends, ends / count)).mean())
    noise = _beyond(spread, people / bins / 4)
    inside = 0.32 * math.sqrt(people / count) if count < bins else 0.0  # a bridge between two cuts, in the mean
    return math.hypot(noise, inside)


def _beyond(spread: float, bin_: float, *, laplace: bool = False) -> float:
    """How far noise goes, in the mean, beyond what a bin hides."""
    if laplace:
        return spread * math.exp(-bin_ / spread)
    normal, z = NormalDist(), bin_ / spread
    return 2 * spread * (normal.pdf(z) - z * normal.cdf(-z))


def _segments(method: Curve, bins: int) -> bool:
    return bins > _FEW_BINS if method.segments is None else method.segments


def _choice_scale(method: Quantiles, budget: Budget) -> float:
    """The scale of a choice; in rho each quantile costs an eighth of the square of its epsilon."""
    if budget.rho is None:
        return budget.d_in / budget.pure_epsilon
    return budget.d_in / math.sqrt(8 * len(method.at) * budget.rho)


def _reason(method: Line) -> str:
    if isinstance(method, Quantiles):
        return "chosen by the exponential mechanism, without counts or intervals of values"
    if method.segments:
        return "segments where people are, all quantiles with intervals"
    return "a tree over all bins, all quantiles with intervals"


def line_candidate(method: Line, tree: Tree | OpenTree, budget: Budget, *, group: Group) -> Candidate:
    """A curve or quantiles, as one of the ways to make a release; its error is in ranks."""
    if isinstance(method, Curve) and method.groups is not None:
        return _grouped(method, tree, budget, group)
    if not isinstance(tree, Tree):
        raise ValueError(
            f"method ({method.name}) is not possible: nodes of an open tree have no order. It needs {_NEEDS}. Hint: "
            "for curves by group, release_tree or tree_counts with by=Key.nested(Key.columns(...), Key.number(...))"
        )
    bins = tree.leaf_count if tree.ranges is None else tree.ranges.bins
    scale = _choice_scale(method, budget) if isinstance(method, Quantiles) else budget.d_in / budget.pure_epsilon
    low, high = CHOICE_SCALES if isinstance(method, Quantiles) else SCALES
    if not low <= scale <= high / 2:
        raise ValueError(f"method ({method.name}) is not possible: the budget is beyond what noise can be drawn for")

    def build(space: Space) -> Priced:
        def made(at: float) -> Measurement:
            common: dict[str, Any] = {"tree": space.tree, "confidence": space.confidence}
            if isinstance(method, Quantiles):
                measure = None if budget.rho is None else zero_concentrated_divergence()
                return make_chosen_quantiles(
                    space.domain, space.metric, at, quantiles=method.at, output_measure=measure, **common
                )
            if _segments(method, bins):
                return make_segment_curve(space.domain, space.metric, at, finding=method.finding, **common)
            return make_bin_curve(space.domain, space.metric, at, **common)

        return budget.fit(made, scale)

    return _candidate(method, bins, budget, build)


def _candidate(method: Line, bins: int, budget: Budget, build: Callable[[Space], Priced]) -> Candidate:
    return Candidate(
        method.name,
        feasible=True,
        reason=_reason(method),
        needs=_NEEDS,
        error=expected_rank_error(method, bins, budget),
        guarantee="pure epsilon",
        shown_from=0.0,
        nonnegative=True,
        builder=build,
        budget=budget,
    )


def _grouped(method: Curve, tree: Tree | OpenTree, budget: Budget, group: Group) -> Candidate:
    """Groups by whatever counts them best, with a share of epsilon, and a curve for each with the rest."""
    assert method.groups is not None
    assert method.ranges is not None
    if not isinstance(tree, OpenTree):
        raise ValueError("method: groups must be levels of an open tree. Hint: public_groups, where all are known")
    if budget.rho is not None and method.public_groups is None:
        raise ValueError(
            "rho must not be given where groups are found. Hint: epsilon and delta, or Curve(public_groups=...)"
        )
    whole = budget.pure_epsilon
    part = Budget.of(
        epsilon=round_down(Fraction(method.grouping) * Fraction(whole)),
        delta=0.0 if method.public_groups is not None else budget.delta,
        rho=None,
        d_in=budget.d_in,
    )
    groups = OpenTree.columns(tree.names[: method.groups]) if method.public_groups is None else method.public_groups
    found = group(groups, part)
    bins, ranges, levels = method.ranges.bins, method.ranges, method.groups

    def build(space: Space) -> Priced:
        first = found.make(leaf_domain(groups), l1_distance(T="i64"), confidence=space.confidence)
        spent = first.map(budget.d_in)  # type: ignore[no-untyped-call]
        left = Fraction(whole) - Fraction(spent[0] if isinstance(spent, tuple) else spent)

        def made(at: float) -> Measurement:
            return make_grouped_curves(
                space.domain,
                space.metric,
                at,
                groups=first,
                levels=levels,
                ranges=ranges,
                finding=method.finding if _segments(method, bins) else 0.0,
                confidence=space.confidence,
            )

        return budget.fit(made, float(budget.d_in / left))

    return _candidate(method, bins, budget, build)
