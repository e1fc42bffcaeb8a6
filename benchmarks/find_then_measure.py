"""Find, then measure: errors by level, keys found and intervals, against releases of every level alone, in one run.

The per-level release has Laplace noise and OpenDP's threshold at every level, epsilon and delta split evenly, drawn by
its law; its root is the sum of its first level. What is left out counts as 0; errors are over all nodes with people.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import polars as pl

from benchmarks.cascade import cascade, counted, gaussian_deviation
from benchmarks.open_categories import opendp_threshold
from benchmarks.timing import print_table
from opendp_tree import OpenTree, TreeRelease, leaf_domain, make_tree_estimator, noise
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.mechanisms.find import choose_parameters, find_in_fringe, mean
from opendp_tree.mechanisms.tree_estimator import people_at
from opendp_tree.planning.laws import worst_alpha_rmse, worst_caterpillar
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.nodes import Occupied, SparseCounts

EPSILON, DELTA, ALPHA, ROWS, RUNS = 1.0, 1e-6, 0.1, 10**6, 10
CLASSES = (20, 100, 1_000, 10_000, 100_000, math.inf)
COLUMNS = {2: (200, 50), 4: (20, 15, 10, 8), 6: (10, 5, 5, 4, 4, 4)}
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def run() -> None:
    dp.enable_features("contrib")
    named_trees()
    print()
    deep_trees()
    print()
    worst_cases()
    print()
    intervals()


def weights_of(sizes: tuple[int, ...], kind: str) -> Floats:
    """How likely each leaf is: skewed at every level, or nearly alike."""
    rng = np.random.default_rng(20)
    weights = np.ones(sizes)
    for depth in range(1, len(sizes) + 1):
        shape = (*sizes[:depth], *(1,) * (len(sizes) - depth))
        if kind == "log-normal":
            weights = weights * np.exp(rng.normal(0, 1.1, shape))
        elif kind == "Pareto":
            weights = weights * (rng.pareto(1.2, shape) + 0.1)
        elif depth == len(sizes):
            weights = weights * np.exp(rng.normal(0, 0.3, shape))
    return (weights / weights.sum()).ravel()


@dataclass(frozen=True)
class Job:
    """Leaf counts of a tree of columns, as a mechanism sees them and in the order of all possible leaves."""

    sizes: tuple[int, ...]
    leaves: Ints
    sparse: SparseCounts

    @classmethod
    def of(cls, sizes: tuple[int, ...], kind: str) -> Job:
        """A million rows."""
        leaves = np.random.default_rng(21).multinomial(ROWS, weights_of(sizes, kind))
        places = np.flatnonzero(leaves)
        names = [pl.Series([f"{number:04d}" for number in range(size)]) for size in sizes]
        codes = np.unravel_index(places, sizes)
        columns = [labels.gather(own) for labels, own in zip(names, codes, strict=True)]
        lengths = np.full(places.size, len(sizes))
        counts = SparseCounts.of_labels(OpenTree.columns(len(sizes)), columns, lengths, people=leaves[places])
        return cls(sizes, leaves, counts)

    def truth(self) -> list[Ints]:
        """The counts of all possible nodes, by level."""
        return [
            self.leaves.reshape(math.prod(self.sizes[:level]), -1).sum(axis=1) for level in range(len(self.sizes) + 1)
        ]

    def values(self, release: TreeRelease) -> list[Floats]:
        """A release's estimates of all possible nodes, by level; NaN where a node is not shown."""
        assert release.nodes is not None
        codes = np.zeros(release.levels.size, dtype=np.int64)
        found = []
        for level in range(len(self.sizes) + 1):
            here = np.flatnonzero(release.levels == level)
            if level:
                own = release.nodes.labels[level - 1].cast(pl.Int64).to_numpy()
                codes[here] = codes[release.parents[here]] * self.sizes[level - 1] + own
            values = np.full(math.prod(self.sizes[:level]), np.nan)
            values[codes[here]] = release.estimates[here]
            found.append(values)
        return found


Draw = Callable[[], list[Floats]]


def errors(truth: list[Ints], draw: Draw, runs: int = RUNS) -> tuple[Floats, Floats]:
    """The RMSE of each level over several releases, and how many of its nodes are shown."""
    squares, shown = np.zeros(len(truth)), np.zeros(len(truth))
    for _ in range(runs):
        for level, (values, true) in enumerate(zip(draw(), truth, strict=True)):
            real = true > 0
            squares[level] += np.mean((np.nan_to_num(values[real]) - true[real]) ** 2) / runs
            shown[level] += np.count_nonzero(~np.isnan(values)) / runs
    return np.sqrt(squares), shown


def per_level(truth: list[Ints]) -> Draw:
    """Every level alone, with a threshold."""
    scale = (len(truth) - 1) / EPSILON
    threshold = opendp_threshold(scale, DELTA / (len(truth) - 1))

    def draw() -> list[Floats]:
        levels = []
        for true in truth[1:]:
            noisy = (true + noise.laplace(scale, true.size)).astype(float)
            levels.append(np.where((true > 0) & (noisy >= threshold), noisy, np.nan))
        return [np.array([np.nansum(levels[0])]), *levels]

    return draw


def named_trees() -> None:
    """Must show 1: plain RMSE by level, as a ratio to the per-level release's, and leaves shown."""
    rows = []
    jobs = [((50, 20, 10), kind) for kind in ("log-normal", "Pareto", "dense")]
    jobs += [(sizes, "log-normal") for sizes in COLUMNS.values()]
    for sizes, kind in jobs:
        job = Job.of(sizes, kind)
        truth, space = job.truth(), (leaf_domain(job.sparse.tree), dp.l1_distance(T="i64"))
        alone, there = errors(truth, per_level(truth), 5 * RUNS)
        case = f"{' x '.join(map(str, sizes))}, {kind}"
        rows.append((case, "per level", *_words(alone), f"{there[-1]:,.0f}", ""))
        even = [0.01, *[0.99 / len(sizes)] * len(sizes)]
        pruned = make_pruned_descent(*space, 1 / EPSILON, delta=DELTA, weights=even)
        makers = {"pruned descent": pruned}
        for name, dial in (("keys, 30 %", 0.3), ("default", None), ("totals, 60 %", 0.6)):
            makers[name] = make_tree_estimator(*space, epsilon=EPSILON, delta=DELTA, measuring=dial)
        for name, maker in makers.items():
            found, shown = errors(truth, lambda maker=maker, job=job: job.values(maker(job.sparse)))
            ratio = " / ".join(f"{value:.2f}" for value in found / alone)
            rows.append((case, name, *_words(found), f"{shown[-1]:,.0f}", f"{ratio}; {shown[-1] / there[-1]:.2f}"))
    print_table(("data", "release", "RMSE from the root down", "leaves shown", "ratios; leaves"), rows)


def _words(values: Floats) -> tuple[str]:
    return (" / ".join(f"{value:.1f}" for value in values),)


def deep_trees() -> None:
    """Must show 2: the largest alpha-error and the plain RMSE by weight class of cascades."""
    rows = []
    for width in (8, 32, 128):
        counts = counted(cascade(ROWS, width, np.random.default_rng(7)), width)
        space = leaf_domain(counts.tree), dp.l1_distance(T="i64")
        makers = {
            "pruned Gaussian": make_pruned_descent(
                *space, _gaussian_scale(width + 1), delta=DELTA / 2, noise="gaussian"
            ),
            "find, then measure": make_tree_estimator(*space, epsilon=EPSILON, delta=DELTA),
        }
        for name, maker in makers.items():
            largest, squares, numbers = [], np.zeros(len(CLASSES)), np.zeros(len(CLASSES))
            for _ in range(RUNS):
                error, truth = _deep_errors(counts, maker(counts))
                largest.append(float(np.maximum(error - ALPHA * truth, 0).max()))
                classes = np.digitize(truth, CLASSES[:-1])
                squares += np.bincount(classes, error**2, minlength=len(CLASSES))
                numbers += np.bincount(classes, minlength=len(CLASSES))
            rmse = np.sqrt(squares / np.maximum(numbers, 1))[1:]
            rows.append((width + 1, name, f"{np.mean(largest):.0f}", *_words(rmse)))
    print(f"Cascades of a million people, {RUNS} releases each:\n")
    print_table(("levels", "release", "largest alpha-error", "RMSE above 20 / 100 / 1,000 / 10,000 / 100,000"), rows)


def _gaussian_scale(depth: int) -> float:
    return gaussian_deviation(EPSILON, DELTA / 2, math.sqrt(depth))


def _deep_errors(counts: SparseCounts, release: TreeRelease) -> tuple[Floats, Floats]:
    """The errors and the counts of all nodes with people, level by level."""
    assert release.nodes is not None
    assert release.nodes.words is not None
    occupied, tree = counts.occupied, counts.tree
    running = np.append(0, np.cumsum(occupied.counts))
    errors, truths = [], []
    for level in range(tree.depth):
        starts, ends = occupied.nodes_at(level)
        true = running[ends] - running[starts]
        here = release.levels == level
        words, keys = release.nodes.words[np.flatnonzero(here)], counts.keys
        first = keys[starts].first(tree.bits_at(np.full(starts.size, level)))  # type: ignore[union-attr]
        both = np.rec.fromarrays([first.high, first.low])
        values = np.zeros(true.size)
        values[np.searchsorted(both, np.rec.fromarrays([words.high, words.low]))] = release.estimates[here]
        errors.append(np.abs(values - true))
        truths.append(true.astype(float))
    return np.concatenate(errors), np.concatenate(truths)


def worst_cases() -> None:
    """Must show 3: the worst alpha-mRMSE as predicted, and as measured on leaves and on caterpillars."""
    rows = []
    for depth in (3, 6, 33, 129):
        tests = choose_parameters(depth, Fraction(EPSILON), Fraction(DELTA)).fringes[0]
        threshold = tests.thresholds[-1]
        predicted = worst_alpha_rmse(tests, ALPHA)
        leaves = max(_measured_leaves(tests, people) for people in range(threshold - 8, threshold + 4))
        longest = _measured_caterpillars(tests, worst_caterpillar(tests, ALPHA)[1])
        rows.append(
            (depth, threshold, f"{predicted:.1f}", f"{max(leaves, longest):.1f}", f"{leaves:.1f} / {longest:.1f}")
        )
    header = ("levels", "threshold", "worst alpha-mRMSE, predicted", "measured", "leaves / caterpillars not shown")
    print_table(header, rows)


def _measured_leaves(tests: Fringe, people: int, copies: int = 20_000) -> float:
    """The alpha-RMSE of many leaves of one count, whose tests are independent."""
    depth = len(tests.levels)
    alone = np.zeros(copies - 1, dtype=np.int64)
    occupied = Occupied(np.full(copies, depth), alone, np.full(copies, people), np.arange(copies))
    places, levels, gaps = find_in_fringe(occupied, tuple(range(1, depth + 1)), tests)
    values, found = np.zeros(copies), levels == depth
    values[places[found]] = gaps[found] + mean(float(tests.token_scale)) - mean(float(tests.test_scale))
    return float(np.sqrt(np.mean(np.maximum(np.abs(values - people) - ALPHA * people, 0) ** 2)))


def _measured_caterpillars(tests: Fringe, arrivals: tuple[int, ...], copies: int = 20_000) -> float:
    """The alpha-RMSE of not being shown of the tops, children of the root, of paths that people join, deepest first."""
    length = len(arrivals)
    numbers = ((number,) * length for number in tests.levels[0])
    alike = Fringe(*numbers, tests.test_scale, tests.token_scale, None)  # type: ignore[arg-type]
    levels = np.tile(np.arange(length, 0, -1), copies)
    meets = np.tile(np.arange(length - 1, -1, -1), copies)[:-1]
    occupied = Occupied(levels, meets, np.tile(arrivals, copies), np.arange(levels.size))
    places = find_in_fringe(occupied, tuple(range(1, length + 1)), alike)[0]
    hidden = 1 - np.unique(places // length).size / copies
    return math.sqrt(hidden) * (1 - ALPHA) * sum(arrivals)


def intervals() -> None:
    """Must show 4: how often shown nodes of a deep tree are missed, and half-widths against 1.96 RMSE, by level."""
    width = 32
    counts = counted(cascade(ROWS, width, np.random.default_rng(7)), width)
    maker = make_tree_estimator(leaf_domain(counts.tree), dp.l1_distance(T="i64"), epsilon=EPSILON, delta=DELTA)
    rows = [(f"cascade of {width} bits, every fourth level", *_deep_intervals(counts, maker))]
    print_table(("data", "missed of shown, %", "half-width", "over 1.96 RMSE"), rows)


def _deep_intervals(counts: SparseCounts, maker: dp.Measurement) -> tuple[str, ...]:
    tree, keys = counts.tree, counts.keys
    sums = np.zeros((4, tree.depth))
    for _ in range(RUNS):
        release = maker(counts)
        assert release.nodes is not None
        assert release.nodes.words is not None
        words = release.nodes.words
        both = np.rec.fromarrays([keys.high, keys.low])  # type: ignore[union-attr]
        places = np.searchsorted(both, np.rec.fromarrays([words.high, words.low]))
        wanted = np.ones(places.size, dtype=np.bool_)
        true = people_at(counts.occupied, release.levels, places, wanted)[1]
        missed = (true < release.lower) | (true > release.upper)
        half, square = (release.upper - release.lower) / 2, (release.estimates - true) ** 2
        for row, values in enumerate((np.ones(places.size), missed, square, half)):
            sums[row] += np.bincount(release.levels, values, minlength=tree.depth)
    chosen = sums[:, 4::4]
    ratio = chosen[3] / chosen[0] / (1.96 * np.sqrt(chosen[2] / chosen[0]))
    return (*_words(100 * chosen[1] / chosen[0]), *_words(chosen[3] / chosen[0]), *_words(ratio))
