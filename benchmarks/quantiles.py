"""Quantiles: rank errors of curves and choices against OpenDP's and a plain tree's, and how often intervals hold.

A rank error is the number of people by which a quantile's bin misses it: max(0, below - wanted, wanted - upto).
Nineteen quantiles, 5 % to 95 %, of log-normal values, of two normal heaps and of even ones, in one run. OpenDP's tree:
`make_b_ary_tree` with the branching that OpenDP chooses, Laplace noise, `make_consistent_b_ary_tree` and
`make_quantiles_from_counts`. Half-width: of the intervals, in people. Held: the share of intervals that hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import opendp.prelude as dp

from benchmarks.timing import print_table
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.curve import MeasuredLine
from opendp_tree.planning.laws import curve_rank_error
from opendp_tree.releases.curve import MeasuredCurve

BINS, PEOPLE, EPSILONS = (2**10, 2**16), (10**4, 10**5), (1.0, 0.1)
AT = np.arange(1, 20) / 20
RUNS, OPENDP_RUNS = 8, 2
KINDS = ("log-normal", "two heaps", "even")


def run() -> None:
    dp.enable_features("contrib")
    curves()
    choices()
    lines()


def values(kind: str, people: int, rng: np.random.Generator) -> Floats:
    """Values from 0 to 1."""
    if kind == "log-normal":
        return rng.lognormal(0, 1, people) / 20
    if kind == "even":
        return rng.random(people)
    heaps: Floats = np.where(rng.random(people) < 0.5, rng.normal(0.3, 0.02, people), rng.normal(0.7, 0.1, people))
    return heaps


def counted(kind: str, bins: int, people: int, rng: np.random.Generator) -> Ints:
    places = np.clip(values(kind, people, rng) * bins, 0, bins - 1).astype(np.int64)
    return np.bincount(places, minlength=bins).astype(np.int64)


def rank_errors(counts: Ints, places: Floats, at: Floats) -> Floats:
    totals = np.concatenate(([0], np.cumsum(counts)))
    found = np.clip(np.floor(places), 0, counts.size - 1).astype(np.int64)
    wanted = at * totals[-1]
    errors: Floats = np.maximum(0.0, np.maximum(totals[found] - wanted, wanted - totals[found + 1]))
    return errors


def opendp_tree_quantiles(bins: int, epsilon: float) -> Callable[[Ints], Floats]:
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=bins), dp.l1_distance(T="i64")
    branching = dp.t.choose_branching_factor(bins)
    tree = dp.t.make_b_ary_tree(*space, leaf_count=bins, branching_factor=branching)
    noisy = tree >> dp.m.then_laplace(float(tree.map(1)) / epsilon)
    assert noisy.map(1) <= epsilon * (1 + 1e-9)
    consistent = dp.t.make_consistent_b_ary_tree(branching, TIA="i64")
    quantiles = dp.t.make_quantiles_from_counts(np.arange(bins + 1.0).tolist(), AT.tolist(), TA="f64")

    def estimate(counts: Ints) -> Floats:
        return np.array(quantiles(consistent(np.array(noisy(counts), dtype=np.int64))))

    return estimate


def held(counts: Ints, curve: MeasuredCurve) -> tuple[float, float]:
    """The mean half-width in people, and the share of intervals that hold all values that are the quantile."""
    totals = np.concatenate(([0], np.cumsum(counts)))
    found, wanted = curve.quantiles(AT), AT * totals[-1]
    low, high = found.lower.astype(np.int64), found.upper.astype(np.int64)
    least = np.searchsorted(totals[1:], wanted - 1e-9)
    most = np.searchsorted(totals[:-1], wanted + 1e-9, side="right") - 1
    holds = (low <= least) & (most < high)
    return float((totals[high] - totals[low]).mean() / 2), float(holds.mean())


def curves() -> None:
    rows = []
    for bins in BINS:
        for people in PEOPLE:
            for epsilon in EPSILONS:
                rows.append((f"2^{bins.bit_length() - 1}", f"{people:,}", f"{epsilon:g}", *one(bins, people, epsilon)))
    head = ("bins", "people", "epsilon", "predicted", "segments", "tree of 16", "OpenDP's tree")
    print_table((*head, "segments / tree of 16", "segments / OpenDP's", "half-width", "held"), rows)


def one(bins: int, people: int, epsilon: float) -> tuple[str, ...]:
    rng = np.random.default_rng([bins, people, int(10 * epsilon)])
    made = {
        name: MeasuredLine.of(bins, 1 / epsilon, finding=finding, branching=16, confidence=0.95)
        for name, finding in (("segments", 0.2), ("tree", 0.0))
    }
    opendp, edges = opendp_tree_quantiles(bins, epsilon), np.arange(bins + 1.0)
    errors: dict[str, list[float]] = {"segments": [], "tree": [], "opendp": []}
    widths = []
    for kind in KINDS:
        for place in range(RUNS):
            counts = counted(kind, bins, people, rng)
            for name, line in made.items():
                curve = line.curve(edges, counts)
                errors[name].append(float(rank_errors(counts, curve.quantiles(AT).estimate, AT).mean()))
                if name == "segments":
                    widths.append(held(counts, curve))
            if place < OPENDP_RUNS:
                errors["opendp"].append(float(rank_errors(counts, opendp(counts), AT).mean()))
    segments, tree, theirs = (float(np.mean(found)) for found in errors.values())
    predicted = curve_rank_error(bins, Budget.of(epsilon=epsilon), finding=0.2, people=people)
    half, holds = np.mean(widths, axis=0)
    assert holds > 0.95 - 0.04, "intervals miss too often"
    figures = (f"{value:.1f}" for value in (predicted, segments, tree, theirs))
    return (*figures, f"{segments / tree:.2f}", f"{segments / theirs:.2f}", f"{half:.0f}", f"{holds:.3f}")


def choices() -> None:
    """Up to three quantiles: a curve against OpenDP's choice among candidates, also with ties."""
    print("\nUp to three quantiles, epsilon 1, 10,000 people, mean rank error\n")
    rows = []
    for bins, name in ((2**10, "even"), (2**10, "ties"), (2**13, "log-normal")):
        rng = np.random.default_rng(bins)
        counts = counted("even" if name == "ties" else name, bins, 10_000, rng)
        if name == "ties":
            counts = np.zeros(bins, dtype=np.int64)
            counts[rng.integers(0, bins, 12)] = 10_000 // 12
        for at in (np.array([0.5]), np.array([0.1, 0.5, 0.9])):
            line = MeasuredLine.of(bins, 1.0, finding=0.2, branching=16, confidence=0.95)
            curve = [
                rank_errors(counts, line.curve(np.arange(bins + 1.0), counts).quantiles(at).estimate, at).mean()
                for _ in range(2 * RUNS)
            ]
            theirs = [rank_errors(counts, candidates(counts, at), at).mean() for _ in range(OPENDP_RUNS + 1)]
            figures = (f"{np.mean(curve):.2f}", f"{np.mean(theirs):.2f}")
            rows.append((f"2^{bins.bit_length() - 1}", name, at.size, *figures))
    print_table(("bins", "data", "quantiles", "segments", "OpenDP's candidates"), rows)


def candidates(counts: Ints, at: Floats) -> Floats:
    """OpenDP's `make_private_quantile`, with the same part of epsilon for each quantile."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    rows, found = np.repeat(np.arange(counts.size), counts), []
    for share in at.tolist():
        make = partial(dp.m.make_private_quantile, *space, dp.max_divergence(), list(range(counts.size)), share)
        chosen = dp.binary_search_chain(make, 1, 1.0 / at.size, T=float)
        found.append(float(chosen(rows)))
    return np.array(found)


def lines() -> None:
    """Intervals on lines that are hard: ties, point masses, nobody, everybody at an end."""
    print("\nIntervals of 19 quantiles on hard lines of 4,096 bins, epsilon 1, confidence 0.95\n")
    bins, rng, rows = 4096, np.random.default_rng(5), []
    ties, point, end = (np.zeros(bins, dtype=np.int64) for _ in range(3))
    ties[rng.integers(0, bins, 20)] = rng.integers(1, 500, 20)
    point[:] = 1
    point[bins // 3] = 5000
    end[-1] = 5000
    for name, counts in (("ties", ties), ("a point mass", point), ("nobody", np.zeros_like(end)), ("at the end", end)):
        figures = []
        for finding in (0.2, 0.0):
            line = MeasuredLine.of(bins, 1.0, finding=finding, branching=16, confidence=0.95)
            found = [held(counts, line.curve(np.arange(bins + 1.0), counts))[1] for _ in range(3 * RUNS)]
            assert np.mean(found) > 0.91, "intervals miss too often"
            figures.append(f"{np.mean(found):.3f}")
        rows.append((name, *figures))
    print_table(("line", "held, segments", "held, tree of 16"), rows)
