"""Errors by level against a release of every level alone.

`python -m benchmarks.levels --releases 100 --epsilon 3` measures one setting.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import print_table
from opendp_tree import OpenTree, Tree, leaf_domain, make_tree_estimator

SIZES = ((50, 20, 10), (20, 15, 10, 8), (200, 50), (6, 6, 6, 6, 6, 6))
WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "log-normal": lambda rng, n: rng.lognormal(0, 1.8, n),
    "pareto": lambda rng, n: rng.pareto(1.1, n) + 0.1,
    "zipf": lambda rng, n: rng.permutation(1 / np.arange(1, n + 1)),
    "mild": lambda rng, n: rng.lognormal(0, 0.7, n),
    "dense": lambda rng, n: np.ones(n),
}
ROWS = {"dense": 10**7}
SETTINGS = ((1.0, False), (0.1, False), (3.0, False), (10.0, False), (1.0, True))
"""Epsilon, and whether the names are public."""
RELEASES, DELTA, FEW = 100, 1e-6, 2


def leaf_counts(sizes: tuple[int, ...], kind: str, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = WEIGHTS[kind](rng, math.prod(sizes))
    return rng.multinomial(ROWS.get(kind, 10**6), weights / weights.sum()).reshape(sizes)


def level_counts(counts: np.ndarray) -> list[np.ndarray]:
    return [counts.sum(axis=tuple(range(level, counts.ndim))).ravel() for level in range(counts.ndim + 1)]


@dataclass(frozen=True)
class Alone:
    """What Laplace noise with a threshold does to the counts of one level: its exact law, summed."""

    square: float
    large: float
    """The mean square over nodes of 100 or more."""
    shown: float
    total: float
    """The mean square error of the sum of all nodes."""


def threshold_noise(truth: np.ndarray, levels: int, epsilon: float, delta: float, *, public: bool = False) -> Alone:
    """One level of `levels` that share epsilon and delta evenly, released alone."""
    scale, q = levels / epsilon, math.exp(-epsilon / levels)
    threshold = -math.inf if public else 1 + math.ceil(-scale * math.log(delta / levels * (1 + q)))
    reach = int(40 * scale) + 1
    noise = np.arange(-reach, reach + 1)
    chance = (1 - q) / (1 + q) * q ** np.abs(noise)
    most = 0 if public else threshold + reach
    real = truth[truth > 0] if not public else truth
    distinct, inverse = np.unique(np.minimum(real, most), return_inverse=True)
    seen = distinct[:, None] + noise
    kept = np.where(seen >= threshold, seen, 0)
    square = ((kept - distinct[:, None]) ** 2 * chance).sum(axis=1)[inverse]
    bias = ((kept - distinct[:, None]) * chance).sum(axis=1)[inverse]
    large = square[real >= 100]
    return Alone(
        float(square.mean()),
        float(large.mean()) if large.size else math.nan,
        float(((seen >= threshold) * chance).sum(axis=1)[inverse].sum()),
        float((square - bias**2).sum() + bias.sum() ** 2),
    )


def per_level(counts: np.ndarray, epsilon: float, delta: float, *, public: bool = False) -> np.ndarray:
    """The RMSE of each level when it is released alone with its share; the root is the sum of the first level."""
    each = [threshold_noise(truth, counts.ndim, epsilon, delta, public=public) for truth in level_counts(counts)[1:]]
    return np.sqrt([each[0].total, *(one.square for one in each)])


@dataclass
class Errors:
    """Of one release, by level: what is summed over nodes and, for intervals, over shown nodes alone."""

    square: np.ndarray
    """The mean squared error of all nodes with rows."""
    shown: np.ndarray
    shown_square: np.ndarray
    half_width: np.ndarray

    @classmethod
    def empty(cls, depth: int) -> Errors:
        """Of no node."""
        return cls(*(np.zeros(depth) for _ in range(4)))

    def add(self, level: int, estimates: np.ndarray, truth: np.ndarray, widths: np.ndarray) -> None:
        """Nodes that are not shown have an estimate and a width of NaN."""
        shown = ~np.isnan(estimates)
        squares = (np.nan_to_num(estimates) - truth) ** 2
        self.square[level] = squares.mean()
        self.shown[level], self.shown_square[level] = shown.sum(), squares[shown].sum()
        self.half_width[level] = widths[shown].sum() / 2


def widths(errors: list[Errors]) -> str:
    """By level the half-width over 1.96 RMSE of shown nodes, in parentheses if these have few shown children."""
    shown, square, half = (
        np.sum([getattr(each, name) for each in errors], axis=0) for name in ("shown", "shown_square", "half_width")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios, children = half / shown / (1.96 * np.sqrt(square / shown)), np.append(shown[1:] / shown[:-1], np.inf)
    parts = zip(ratios, children >= FEW, strict=True)
    return " / ".join("–" if np.isnan(ratio) else f"{ratio:.2f}" if many else f"({ratio:.2f})" for ratio, many in parts)


def errors_of(release: Any, tree: OpenTree | Tree, truth: list[np.ndarray], sizes: tuple[int, ...]) -> Errors:
    """The errors of one release."""
    errors = Errors.empty(tree.depth)
    if isinstance(tree, Tree):
        for level, counts in enumerate(truth):
            here = tree.levels[level]
            errors.add(level, release.estimates[here], counts, release.upper[here] - release.lower[here])
        return errors
    frame = release.to_frame(other=False)
    for level, counts in enumerate(truth):
        here = frame.filter(pl.col("level") == level)
        at = np.zeros(here.height, dtype=np.int64)
        for number, size in enumerate(sizes[:level]):
            at = at * size + here[tree.names[number]].to_numpy().astype(np.int64)
        values = np.full((2, counts.size), np.nan)
        values[:, at] = here["estimate"].to_numpy(), (here["upper"] - here["lower"]).to_numpy()
        errors.add(level, values[0, counts > 0], counts[counts > 0], values[1, counts > 0])
    return errors


def ratios(
    counts: np.ndarray, releases: int, epsilon: float, delta: float, *, public: bool = False
) -> tuple[np.ndarray, np.ndarray, str]:
    """By level the ratio of RMSEs, its standard error, and widths of intervals."""
    sizes, truth = counts.shape, level_counts(counts)
    if public:
        parents, start = [np.array([-1])], 0
        for level, size in enumerate(sizes):
            above = np.repeat(np.arange(math.prod(sizes[:level])), size)
            parents.append(above + start)
            start += math.prod(sizes[:level])
        tree: OpenTree | Tree = Tree.from_parents(np.concatenate(parents))
        data: object = counts.ravel().astype(np.int64)
    else:
        tree = OpenTree.columns(counts.ndim)
        at, people = np.indices(sizes).reshape(counts.ndim, -1), counts.ravel()
        data = tree.count(pl.DataFrame({name: np.repeat(at[i], people) for i, name in enumerate(tree.names)}))
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    mechanism = make_tree_estimator(*space, epsilon=epsilon, delta=0.0 if public else delta)
    errors = [errors_of(mechanism(data), tree, truth, sizes) for _ in range(releases)]
    squares = np.array([each.square for each in errors])
    base = per_level(counts, epsilon, delta, public=public)
    mean = squares.mean(axis=0)
    error = squares.std(axis=0, ddof=1) / math.sqrt(releases) / (2 * np.sqrt(mean))
    return np.sqrt(mean) / base, error / base, widths(errors)


def title(epsilon: float, *, public: bool) -> str:
    return f"\nEpsilon {epsilon:g}, {'public' if public else 'unknown'} names:\n"


def words(ratio: float, error: float) -> str:
    return "–" if math.isnan(ratio) else f"{ratio:.2f} ± {error:.2f}"


def show(releases: int, epsilon: float, *, public: bool) -> None:
    """The table of one setting."""
    rows = []
    for sizes in SIZES:
        for kind in WEIGHTS:
            *found, wide = ratios(leaf_counts(sizes, kind), releases, epsilon, DELTA, public=public)
            rows.append((" × ".join(map(str, sizes)), kind, " / ".join(map(words, *found)), wide))
    print_table(("tree", "leaves", "RMSE over that of a level alone, root first", "half-width over 1.96 RMSE"), rows)


def run() -> None:
    dp.enable_features("contrib")
    print(
        "RMSE of all non-empty nodes, those that are not shown counted as 0, over that of Laplace noise on every level "
        "with a threshold (none if names are public), epsilon and delta shared out evenly, by its exact law; there the "
        "root is the sum of the first level. Below 1 is better than each level alone. A million rows (dense: ten), "
        f"delta {DELTA:g}, {RELEASES} releases each, ± a standard error. Half-widths are of 95 % intervals, over 1.96 "
        f"RMSE of the nodes shown; in parentheses where these have fewer than {FEW} shown children on average. "
        "Intervals have whole ends: where noise is mostly 0, as at epsilon 10, they may be wide or have no width."
    )
    for epsilon, public in SETTINGS:
        print(title(epsilon, public=public))
        show(RELEASES, epsilon, public=public)


def main(show: Callable[..., None]) -> None:
    """One setting from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--public", action="store_true")
    options = parser.parse_args()
    dp.enable_features("contrib")
    show(options.releases, options.epsilon, public=options.public)


if __name__ == "__main__":
    main(show)
