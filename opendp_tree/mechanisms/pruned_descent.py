"""Pruned descent, the baseline for trees whose nodes are not known: from the root down, what is large is shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, ExtrinsicDomain, Measure, Measurement, Metric, assert_features

from opendp_tree import noise as noises
from opendp_tree import saturate
from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_probability,
    check_scale,
    computable,
    read_distance,
)
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Floats, Ints
from opendp_tree.mechanisms.level_noise import WIDEST_SUM, gaussian_above, gaussian_sums, laplace_above, normal_tail
from opendp_tree.mechanisms.tree_noise import check_weights, level_scales, one_or_all
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.gaussian import gaussian_rho
from opendp_tree.theorems.interval import least_whole, round_up
from opendp_tree.theorems.pruned_descent import (
    hides_for_a_shift,
    noise_bound,
    noise_tail,
    pruned_chances,
    pruned_deltas,
    pruned_laplace_epsilon,
)
from opendp_tree.trees.domains import CountSpace, SparseLeafCounts, check_metric, sparse_reader
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownNodes
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_pruned_descent", "then_pruned_descent"]


@dataclass(frozen=True)
class PrunedIntervals:
    """For each level how far the noise of a shown node goes, and what a node holds at most if hidden at that level."""

    reach: Floats
    hidden: Floats

    @classmethod
    def of(
        cls, *, noise: str, scales: Sequence[float], thresholds: Sequence[int], confidence: Fraction
    ) -> PrunedIntervals:
        """The bounds for noise of these scales."""
        own, above = pruned_chances(1 - confidence, len(scales))
        exact = [Fraction(scale) for scale in scales]
        # A hidden node's noise fails on one side only, which is half of what both sides do.
        hidden = [t - 1 + noise_bound(noise, s, 2 * above) for s, t in zip(exact, thresholds, strict=True)]
        return cls(
            np.array([round_up(noise_bound(noise, scale, own)) for scale in exact]),
            np.array([round_up(bound) for bound in hidden]),
        )

    def around(self, noisy: Ints, levels: Ints) -> tuple[Floats, Floats]:
        """The ends for shown nodes. Empty nodes are never shown, so there is at least one person."""
        # Floats do not hold all integers beyond 2**53: outward by more than all roundings.
        slack = np.where(np.abs(noisy) > 2**52, np.abs(noisy) * 2.0**-50, 0.0)
        reach = self.reach[levels] + slack
        return np.maximum(noisy - reach, 1.0), noisy + reach


@dataclass(frozen=True)
class LevelCounts:
    """The nodes of one level that are there: positive counts, and each one's parent as a place in the level above."""

    counts: Ints
    parents: Ints


def descend(
    levels: Iterable[LevelCounts], *, scales: Sequence[float], thresholds: Sequence[int], draw: Callable[..., Ints]
) -> Iterator[tuple[Ints, Ints]]:
    """For each level, the places that are shown and their noisy counts."""
    shown = np.ones(1, dtype=np.bool_)  # above the root
    for level, scale, threshold in zip(levels, scales, thresholds, strict=True):
        considered = np.flatnonzero(shown[level.parents])
        noisy = saturate.add(level.counts[considered], draw(scale, considered.size))
        # Noisy counts are at most LIMIT, and a threshold beyond that is never reached.
        reached = noisy >= threshold if threshold <= saturate.LIMIT else np.zeros(noisy.size, dtype=np.bool_)
        shown = np.zeros(level.counts.size, dtype=np.bool_)
        shown[considered[reached]] = True
        yield considered[reached], noisy[reached]


@dataclass(frozen=True)
class Pruning:
    """Scales and thresholds of the levels, checked, and what they cost."""

    noise: str
    scales: tuple[float, ...]
    thresholds: tuple[int, ...]
    promised: Fraction
    """The delta that was asked for, if thresholds come from one."""

    @classmethod
    def of(
        cls, *, noise: str, scales: Sequence[float], threshold: int | None, delta: float | None, d_in: int
    ) -> Pruning:
        """Checks `threshold`, or finds the lowest ones for a `delta` at distance `d_in`."""
        if (threshold is None) == (delta is None):
            raise ValueError("exactly one of threshold and delta must be given")
        check_integer(d_in, name="d_in", least=1)
        if threshold is not None:
            check_integer(threshold, name="threshold", least=1)
            return cls(noise, tuple(scales), (int(threshold),) * len(scales), Fraction(0))
        assert delta is not None
        promised = check_probability(delta, name="delta")
        found = {scale: lowest_threshold(noise, Fraction(scale), promised, d_in) for scale in set(scales)}
        return cls(noise, tuple(scales), tuple(found[scale] for scale in scales), promised)

    @property
    def measure(self) -> Measure:
        """What the losses are in."""
        return approximate(max_divergence() if self.noise == "laplace" else zero_concentrated_divergence())

    def delta(self, d_in: int) -> float:
        """Delta at an integer distance, rounded up; no less than what was promised."""
        pairs = set(zip(self.scales, self.thresholds, strict=True))
        worst = max(level_delta(self.noise, Fraction(scale), at, d_in) for scale, at in pairs)
        return min(1.0, max(worst, float(self.promised)))

    def loss(self, distance: Fraction) -> float:
        """Epsilon for Laplace noise, rho for Gaussian noise, rounded up."""
        exact = [Fraction(scale) for scale in self.scales]
        if 0 in exact:
            return math.inf
        if self.noise == "gaussian":
            return round_up(gaussian_rho(distance, scales=exact))
        tails = [noise_tail("laplace", s, at - 1) for s, at in zip(exact, self.thresholds, strict=True)]
        if any((1 - part).lo <= 0 for part in tails):  # noise so small that every new node is shown
            return math.inf
        return round_up(pruned_laplace_epsilon(distance, scales=exact, tails=tails))

    def map(self, d_in: int | float) -> tuple[float, float]:
        """The privacy map. Integers that are 1.5 apart are 1 apart."""
        distance = read_distance(d_in)
        if distance == 0:
            return 0.0, 0.0
        if 0 in self.scales:
            return math.inf, 1.0
        if distance == 1:
            return self.one
        return self.loss(distance), self.delta(math.floor(distance))

    @cached_property
    def one(self) -> tuple[float, float]:
        """The loss at distance 1, computed once: the map, a budget and a release's statement ask for it."""
        return self.loss(Fraction(1)), self.delta(1)


def level_delta(noise: str, scale: Fraction, threshold: int, d_in: int) -> float:
    """One level's delta, rounded up."""
    if d_in == 0:
        return 0.0
    one, together = noise_tail(noise, scale, threshold - 1), noise_tail(noise, scale, threshold - d_in)
    at_once, apart = pruned_deltas(one, together, d_in)
    # The union bound is no smaller, but does not lose its digits where the tail is tiny.
    return max(round_up(at_once), min(round_up(apart), round_up(one * d_in)))


@lru_cache(maxsize=256)
def lowest_threshold(noise: str, scale: Fraction, delta: Fraction, d_in: int) -> int:
    """The lowest threshold whose delta is at most that, and at which Laplace noise costs its shift and no more."""
    if scale == 0:
        return d_in + 1

    def enough(threshold: int) -> bool:
        if threshold < 1 or level_delta(noise, scale, threshold, d_in) > delta:
            return False
        return noise == "gaussian" or hides_for_a_shift(scale, noise_tail(noise, scale, threshold - 1))

    with computable("scale, delta and d_in"):
        return least_whole(enough)


def make_pruned_descent(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | OpenTree | None = None,
    threshold: int | None = None,
    delta: float | None = None,
    d_in: int = 1,
    noise: str = "laplace",
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> Measurement:
    """The nodes whose noisy counts reach a threshold, found from the root down, with these counts: a `TreeRelease`.

    Empty nodes are never considered, so the release does not depend on which empty nodes the tree has. Delta is paid
    once, whatever the depth. "laplace" noise is `approximate(max_divergence())`: at distance k, epsilon is k times the
    sum over the levels of 1/scale. "gaussian" noise is `approximate(zero_concentrated_divergence())`: rho is k**2 / 2
    times the sum of 1/scale**2. Proof: docs/proofs/pruned_descent.md.

    Of a public tree the release says which nodes are `shown`; the others are estimated as 0. Of an open tree it holds
    none but those. Intervals hold with `confidence`, node by node, if no leaf count is negative: around the noisy count
    of a shown node; from 0 to a little above the threshold for a hidden one. Being shown favours high noise, so that
    counts just above the threshold tend to be too high.

    Parameters
    ----------
    input_domain
        `leaf_domain` of a `Tree` or an `OpenTree`, or a vector of i64 with the tree as an argument.
    input_metric
        `l1_distance`, of an integer type or f64.
    scale
        Of the noise of a level of weight 1. A scale of 0 adds no noise and promises nothing.
    tree
        The tree, where `input_domain` does not carry it.
    threshold
        What a noisy count must reach to be shown, on every level. Give this or `delta`.
    delta
        Takes the lowest thresholds whose delta at distance `d_in` is at most this; the map then reports exactly
        `delta` up to that distance.
    d_in
        The distance at which `delta` is to hold; 1, one row.
    noise
        "laplace", which is better for few levels, or "gaussian", for many.
    weights
        One for each level from the root's down, none of them 0: how the privacy loss is shared. By default all
        weigh 1.
    confidence
        The probability with which a node's interval holds its count, node by node; 0.95, as people expect.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> large = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_pruned_descent(3.0, delta=1e-6)
    >>> large.map(1)
    (1.0, 1e-06)
    >>> release = large(tree.count(["ghent"] * 7000 + ["lu"]))
    >>> [tree.path(node) for node in np.flatnonzero(release.shown)]
    [(), ('be',), ('be', 'ghent')]
    """
    assert_features("contrib")
    found, read = _reader(input_domain, tree)
    check_metric(input_metric, l1_distance)
    check_scale(scale)
    check_choice(noise, name="noise", choices=("laplace", "gaussian"))
    shares = check_weights(weights, found.depth)
    if 0 in shares:
        raise ValueError("weights must be positive: a level that is not measured cannot be descended through")
    scales = level_scales(noise, float(scale), shares)
    pruning = Pruning.of(noise=noise, scales=scales, threshold=threshold, delta=delta, d_in=d_in)
    level = check_probability(confidence, name="confidence")

    def function(data: Any) -> TreeRelease:
        counts, statement = read(data), _statement(pruning, float(scale))
        intervals = PrunedIntervals.of(noise=noise, scales=scales, thresholds=pruning.thresholds, confidence=level)
        if isinstance(counts, SparseCounts):
            return _open_release(counts, pruning, intervals, float(level), statement)
        assert isinstance(found, Tree)
        return _public_release(found, counts, pruning, intervals, float(level), statement)

    return make_measurement(input_domain, input_metric, pruning.measure, function, pruning.map)


then_pruned_descent = to_then(make_pruned_descent)


def _reader(
    input_domain: Domain, tree: Tree | OpenTree | None
) -> tuple[Tree | OpenTree, Callable[[Any], SparseCounts | Ints]]:
    """The tree of a domain of leaf counts, and how to read its sparse counts or its node counts."""
    if isinstance(input_domain, ExtrinsicDomain) and isinstance(input_domain.descriptor, SparseLeafCounts):
        return sparse_reader(input_domain.descriptor, tree)
    space, found = CountSpace.of_leaves(input_domain, tree)
    return found, lambda data: found.sum(space.read(data))


def _open_release(
    counts: SparseCounts,
    pruning: Pruning,
    intervals: PrunedIntervals,
    confidence: float,
    statement: PrivacyStatement,
) -> TreeRelease:
    """A descent over the non-empty nodes of an open tree: each is known by its level and its first place."""
    firsts: list[Ints] = []
    levels: list[LevelCounts] = []
    occupied = counts.occupied
    above: Ints = np.zeros(1, dtype=np.int64)
    for level in range(counts.tree.depth):
        starts, ends = occupied.nodes_at(level)
        levels.append(
            LevelCounts(
                saturate.range_sums(occupied.counts, starts, ends), np.searchsorted(above, starts, side="right") - 1
            )
        )
        firsts.append(starts)
        above = starts
    draw = noises.laplace if pruning.noise == "laplace" else noises.gaussian
    shown = list(descend(levels, scales=pruning.scales, thresholds=pruning.thresholds, draw=draw))
    places = np.concatenate([starts[at] for starts, (at, _) in zip(firsts, shown, strict=True)])
    depths = np.repeat(np.arange(len(shown)), [at.size for at, _ in shown])
    noisy = np.concatenate([part for _, part in shown])
    nodes = ShownNodes.of_places(counts, depths, places)
    lower, upper = intervals.around(noisy, depths)
    hidden = float(intervals.hidden.max())
    return TreeRelease(
        counts.tree, noisy.astype(np.float64), lower, upper, confidence, statement, nodes=nodes, hidden=hidden
    )


def _public_release(
    tree: Tree,
    counts: Ints,
    pruning: Pruning,
    intervals: PrunedIntervals,
    confidence: float,
    statement: PrivacyStatement,
) -> TreeRelease:
    """All nodes by id; those that are not shown may hold as much as the first hidden one on their path may."""
    nodes, noisy = _shown(tree, counts, pruning)
    estimates, lower, upper = np.zeros((3, tree.node_count))
    shown = np.zeros(tree.node_count, dtype=np.bool_)
    shown[nodes], estimates[nodes] = True, noisy
    upper[tree.root] = intervals.hidden[0]
    for level, below in enumerate(tree.levels[1:], start=1):
        above = tree.parents[below]
        upper[below] = np.where(shown[above], intervals.hidden[level], upper[above])
    lower[nodes], upper[nodes] = intervals.around(noisy, tree.node_levels[nodes])
    return TreeRelease(tree, estimates, lower, upper, confidence, statement, shown=shown)


def _shown(tree: Tree, counts: Ints, pruning: Pruning) -> tuple[Ints, Ints]:
    ids: list[Ints] = []
    levels: list[LevelCounts] = []
    place = np.full(tree.node_count + 1, -1)
    place[-1] = 0  # the root's parent has the id -1
    for nodes in tree.levels:
        there = nodes[(counts[nodes] > 0) & (place[tree.parents[nodes]] >= 0)]
        ids.append(there)
        levels.append(LevelCounts(counts[there], place[tree.parents[there]]))
        place[there] = np.arange(there.size)
    draw = noises.laplace if pruning.noise == "laplace" else noises.gaussian
    found = list(descend(levels, scales=pruning.scales, thresholds=pruning.thresholds, draw=draw))
    shown = [nodes[places] for nodes, (places, _) in zip(ids, found, strict=True)]
    return np.concatenate(shown), np.concatenate([noisy for _, noisy in found])


def _statement(pruning: Pruning, scale: float) -> PrivacyStatement:
    loss, delta = pruning.map(1)
    name = "epsilon" if pruning.noise == "laplace" else "rho"
    parameters: dict[str, int | float | str | None] = {
        "noise": pruning.noise,
        "scale": scale,
        "thresholds": one_or_all(pruning.thresholds),
    }
    measure = measure_name(pruning.measure)
    return PrivacyStatement(f"pruned_{pruning.noise}", measure, 1, {name: loss, "delta": delta}, parameters)


# What a planner predicts.


def pruned_rmse(
    weights: npt.ArrayLike, *, noise: str, scales: Sequence[float], thresholds: Sequence[int], alpha: float
) -> Floats:
    """The alpha-RMSE, at each whole weight, of the deepest node of a chain all of whose nodes weigh that."""
    at: Floats = np.asarray(weights, dtype=np.float64)
    levels = Counter(zip(scales[:-1], thresholds[:-1], strict=True))
    above = np.ones_like(at)
    for (scale, threshold), times in levels.items():
        above *= shown_chance(threshold - at, noise, scale) ** times
    last, threshold = scales[-1], thresholds[-1]
    shown = above * shown_chance(threshold - at, noise, last)
    slack = alpha * at
    square = (1 - shown) * ((1 - alpha) * at) ** 2 + above * _excess_if_shown(threshold - at, slack, noise, last)
    root: Floats = np.sqrt(square.clip(0, None))
    return root


def worst_pruned_rmse(*, noise: str, scales: Sequence[float], thresholds: Sequence[int], alpha: float) -> float:
    """The largest `pruned_rmse` of any weight: the descent's alpha-mRMSE on trees of this depth."""

    def found(weights: Floats) -> Floats:
        return pruned_rmse(weights, noise=noise, scales=scales, thresholds=thresholds, alpha=alpha)

    low, high = 1.0, max(thresholds) + (12 + math.log(len(scales))) * max(scales)
    while True:  # a coarse look at all weights, then finer ones at the best
        weights: Floats = np.unique(np.rint(np.linspace(low, high, 200, dtype=np.float64)))
        errors = found(weights)
        best = int(np.argmax(errors))
        if weights.size < 200:
            return float(errors[best])
        low, high = weights[max(best - 2, 0)], weights[min(best + 2, weights.size - 1)]


def shown_chance(needed: Floats, noise: str, scale: float) -> Floats:
    """P(Z >= needed) for whole numbers."""
    size = np.where(needed > 0, needed, 1 - needed)  # the lighter side begins so far from 0
    if noise == "laplace":
        tail = np.exp(-size / scale) / (1 + math.exp(-1 / scale))
    elif scale > WIDEST_SUM:
        tail = normal_tail((size - 0.5) / scale)
    else:
        sums = gaussian_sums(scale)[0]
        tail = sums[np.minimum(size, sums.size - 1).astype(np.int64)]
    return np.where(needed > 0, tail, 1 - tail)


def _excess_if_shown(needed: Floats, slack: Floats, noise: str, scale: float) -> Floats:
    """E[max(|Z| - slack, 0)**2; Z >= needed]."""
    above = laplace_above if noise == "laplace" else gaussian_above
    start = np.ceil(slack)
    upper = above(np.maximum(start, needed), slack, scale)
    # Below, |Z| runs from the slack to -needed.
    lower = above(start, slack, scale) - above(np.maximum(start, 1 - needed), slack, scale)
    found: Floats = upper + lower.clip(0, None)
    return found
