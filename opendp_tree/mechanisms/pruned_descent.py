"""Pruned descent, the baseline for trees whose nodes are not known: from the root down, large nodes are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from opendp.measures import approximate
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import saturate
from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    computable,
    read_distance,
)
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import PrivacyStatement, level_scales
from opendp_tree.mechanisms.tree_noise import LAWS, check_weights, one_or_all
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import least_whole, round_up
from opendp_tree.theorems.noise import gaussian_rho
from opendp_tree.theorems.tails import (
    hides_for_a_shift,
    noise_bound,
    noise_tail,
    pruned_chances,
    pruned_deltas,
    pruned_laplace_epsilon,
)
from opendp_tree.trees.domains import leaf_reader
from opendp_tree.trees.nodes import Occupied, ShownNodes
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree


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
            raise ValueError("exactly one of threshold and delta must be given. Hint: delta=1e-6")
        check_integer(d_in, name="d_in", least=1)
        if threshold is not None:
            lowest, promised = dict.fromkeys(scales, check_integer(threshold, name="threshold", least=1)), Fraction(0)
        else:
            promised = check_probability(delta, name="delta")
            lowest = {scale: lowest_threshold(noise, Fraction(scale), promised, d_in) for scale in set(scales)}
        return cls(noise, tuple(scales), tuple(lowest[scale] for scale in scales), promised)

    def map(self, d_in: int | float) -> tuple[float, float]:
        """The privacy map: epsilon or rho, and delta. Integers that are 1.5 apart are 1 apart."""
        distance = read_distance(d_in)
        if distance == 0:
            return 0.0, 0.0
        if 0 in self.scales:
            return math.inf, 1.0
        pairs = set(zip(self.scales, self.thresholds, strict=True))
        worst = max(level_delta(self.noise, Fraction(scale), at, math.floor(distance)) for scale, at in pairs)
        delta, exact = min(1.0, max(worst, float(self.promised))), [Fraction(scale) for scale in self.scales]
        if self.noise == "gaussian":
            return round_up(gaussian_rho(distance, scales=exact)), delta
        tails = [noise_tail("laplace", s, at - 1) for s, at in zip(exact, self.thresholds, strict=True)]
        if any((1 - part).lo <= 0 for part in tails):  # noise so small that every new node is shown
            return math.inf, delta
        return round_up(pruned_laplace_epsilon(distance, scales=exact, tails=tails)), delta


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
    """The lowest threshold whose delta is at most this, and at which Laplace noise costs no more than its shift."""
    if scale == 0:
        return d_in + 1

    def enough(threshold: int) -> bool:
        if threshold < 1 or level_delta(noise, scale, threshold, d_in) > delta:
            return False
        return noise == "gaussian" or hides_for_a_shift(scale, noise_tail(noise, scale, threshold - 1))

    with computable("scale, delta and d_in"):
        return least_whole(enough)


def interval_reach(pruning: Pruning, confidence: Fraction) -> tuple[Floats, Floats]:
    """For each level how far the noise of a shown node goes, and what a node that is hidden there holds at most."""
    own, above = pruned_chances(1 - confidence, len(pruning.scales))
    exact = [Fraction(scale) for scale in pruning.scales]
    reach = [noise_bound(pruning.noise, scale, own) for scale in exact]
    # A hidden node's noise fails on one side only, which has half of the probability of both.
    most = [t - 1 + noise_bound(pruning.noise, s, 2 * above) for s, t in zip(exact, pruning.thresholds, strict=True)]
    return np.array(list(map(round_up, reach))), np.array(list(map(round_up, most)))


def shown_intervals(noisy: Ints, reach: Floats) -> tuple[Floats, Floats]:
    """The ends for shown nodes. Empty nodes are never shown, so there is at least one person."""
    # Floats do not hold all integers beyond 2**53: outward by more than all roundings.
    reach = reach + np.where(np.abs(noisy) > 2**52, np.abs(noisy) * 2.0**-50, 0.0)
    return np.maximum(noisy - reach, 1.0), noisy + reach


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

    For a public tree the release says which nodes are `shown`, and estimates the others as 0. For an open tree it holds
    the shown nodes only. Intervals hold with `confidence`, node by node, if no leaf count is negative: around the noisy
    count of a shown node; from 0 to a little above the threshold for a hidden one. Positive noise makes a node more
    likely to be shown, so that counts just above the threshold tend to be too high.

    Other parameters: as for `make_tree_laplace`.

    :param input_domain: `leaf_domain` of a `Tree` or an `OpenTree`, or a vector of i64 with the tree as an argument.
    :param threshold: What a noisy count must reach to be shown, on every level. Give this or `delta`.
    :param delta: Instead of `threshold`: chooses the lowest thresholds whose delta at distance `d_in` is at most this,
        which the map then reports up to that distance.
    :param d_in: The distance at which `delta` must hold; 1, one row.
    :param noise: "laplace", which is better for few levels, or "gaussian", for many.
    :param weights: One for each level from the root's down, none of them 0: how the privacy loss is shared. By default
        all weigh 1.

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
    known, read = leaf_reader(input_domain, input_metric, tree)
    check_scale(scale)
    check_choice(noise, name="noise", choices=tuple(LAWS))
    scales = level_scales(noise, float(scale), check_weights(weights, known.depth, check=check_positive))
    pruning = Pruning.of(noise=noise, scales=scales, threshold=threshold, delta=delta, d_in=d_in)
    level, measure = check_probability(confidence, name="confidence"), approximate(LAWS[noise].measure())
    privacy_map = lru_cache(maxsize=8)(pruning.map)  # a budget and a release's statement ask again

    def function(data: Any) -> TreeRelease:
        counts, (loss, lost) = read(data), privacy_map(1)
        spent = {LAWS[noise].loss: loss, "delta": lost}
        parameters: dict[str, Any] = {"noise": noise, "scale": float(scale)}
        parameters["thresholds"] = one_or_all(pruning.thresholds)
        statement = PrivacyStatement(f"pruned_{noise}", measure_name(measure), 1, spent, parameters)
        reach, most = interval_reach(pruning, level)
        occupied = known.occupied(counts) if isinstance(known, Tree) else counts.occupied
        places, noisy, depths = descend(_levels(occupied, known.depth), pruning)
        ends = noisy.astype(np.float64), *shown_intervals(noisy, reach[depths])
        if isinstance(known, Tree):
            assert occupied.ids is not None
            shown, ends = _all_nodes(known, known.ancestors_at(occupied.ids[places], depths), ends, most)
            return TreeRelease(known, *ends, float(level), statement, shown=shown)
        found = ShownNodes.of_places(counts, depths, places)
        return TreeRelease(known, *ends, float(level), statement, nodes=found, hidden=float(most.max()))

    return make_measurement(input_domain, input_metric, measure, function, privacy_map)


then_pruned_descent = to_then(make_pruned_descent)


Level = tuple[Ints, Ints, Ints]
"""For each non-empty node of a level: its first place, its count, and its parent's index in the level above."""


def descend(levels: Iterable[Level], pruning: Pruning) -> Level:
    """For each shown node: its first place, its noisy count, and its level."""
    draw, found = LAWS[pruning.noise].draw, []
    shown = np.ones(1, dtype=np.bool_)  # above the root
    for depth, (nodes, counts, parents) in enumerate(levels):
        scale, threshold = pruning.scales[depth], pruning.thresholds[depth]
        considered = np.flatnonzero(shown[parents])
        noisy = saturate.add(counts[considered], draw(scale, considered.size))
        # Noisy counts are at most LIMIT, and a threshold beyond that is never reached.
        reached = noisy >= threshold if threshold <= saturate.LIMIT else np.zeros(noisy.size, dtype=np.bool_)
        shown = np.zeros(counts.size, dtype=np.bool_)
        shown[considered[reached]] = True
        found.append((nodes[shown], noisy[reached], np.full(int(reached.sum()), depth)))
    nodes, noisy, depths = map(np.concatenate, zip(*found, strict=True))
    return nodes, noisy, depths


def _levels(occupied: Occupied, depth: int) -> Iterator[Level]:
    """The non-empty nodes of each level."""
    above: Ints = np.zeros(1, dtype=np.int64)
    for level in range(depth):
        starts, ends = occupied.nodes_at(level)
        yield starts, saturate.range_sums(occupied.counts, starts, ends), np.searchsorted(above, starts, "right") - 1
        above = starts


Ends = tuple[Floats, Floats, Floats]
"""Estimates and the two ends of their intervals."""


def _all_nodes(tree: Tree, nodes: Ints, ends: Ends, hidden: Floats) -> tuple[Bools, Ends]:
    """Which nodes are shown, and all intervals; below the first hidden node of a path, its bound holds."""
    estimates, lower, upper = np.zeros((3, tree.node_count))
    shown = np.zeros(tree.node_count, dtype=np.bool_)
    shown[nodes] = True
    upper[tree.root] = hidden[0]
    for level, below in enumerate(tree.levels[1:], start=1):
        above = tree.parents[below]
        upper[below] = np.where(shown[above], hidden[level], upper[above])
    estimates[nodes], lower[nodes], upper[nodes] = ends
    return shown, (estimates, lower, upper)
