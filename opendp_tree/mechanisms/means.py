"""Counts, sums and means at every node: pairs above the leaves, centred sums below, counts of leaves from gaps.

A row of step y adds y to P and M - y to Q of its set, so P + Q is M times the set's rows, and P - Q is twice its
centred sum. Intervals are for values clipped to their bounds. Where a pair was measured, the interval holds all means m
that (1 - m)*P - m*Q does not contradict (Fieller). Elsewhere it is a box of the intervals of the count and of the
centred sum. Proof: docs/proofs/people_and_means.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import NO_DELTA, Budget, PrivacyStatement, amounts_of_loss, make_unfunded, with_promised_delta
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, even_parameters, make_fringe, variance
from opendp_tree.mechanisms.layers import (
    LADDER,
    LEAST_SHARE,
    Layer,
    Layers,
    NoisySums,
    ShownTree,
    choose_layers,
    cut_by_level,
    final_variances,
    two_passes,
    whole_tree,
)
from opendp_tree.mechanisms.tails import SAFE, Bounds, layer_bounds, narrowest, node_bounds
from opendp_tree.mechanisms.tree_estimator import (
    Found,
    GapNoise,
    KnownPlaces,
    check_known,
    check_levels,
    describe,
    estimate_nodes,
    gather,
    hidden_weight,
)
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.values import NodeValues
from opendp_tree.rows.counting import LeafValues, read_space
from opendp_tree.rows.unit import Value, value_shares
from opendp_tree.theorems.interval import between, bisect, round_down, round_up
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta
from opendp_tree.theorems.sums import STEPS, found_epsilon, sums_epsilon
from opendp_tree.trees.level_weights import regular_level_weights
from opendp_tree.trees.nodes import KnownNodes, SparseCounts
from opendp_tree.trees.tree import Tree

TYPICAL = 20.0
"""The assumed number of children of a shown node; shares chosen for it are nearly the best for 5 and for 100."""
_MOST = 1e6
_SHARES = tuple(part / 20 for part in range(3, 15))
_CLOSED = 0.25, 0.5, 0.25
"""Shares of rests, pairs and centred sums where nothing is found: nearly the best for 2 to 9 levels."""
_ROOT = 0.45
"""The weight of the root's error against those of other levels."""
_CELLS = 128
"""The range of means is divided into this many cells, which are rejected one by one."""
_BLOCK = 2**14
_ROWS = 0.01
"""The share of a sum's miss probability for the number of rounded rows."""
_EXACT = 64
"""Up to this many sets, bounds are computed for the exact number."""
_RATES = np.linspace(0.002, 0.998, 499)
_OUTWARD = 2.0**-45
"""Ends are moved outward by this share of their terms, which is more than all rounding errors."""


def make_tree_means(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    shares: tuple[float, float, float] | None = None,
    known: KnownNodes | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
) -> Measurement:
    """Counts, sums and means of every node, with intervals, from leaf values: a `TreeRelease` with `values`.

    In an open tree, cells with their gaps and rests of known nodes come first. Above the leaves, a pair is measured for
    each set of a layer: the sums of the values' distances from the lower and from the upper bound, which together cost
    as much as one number. In cells, the sum of distances from the middle is enough, because gaps estimate the counts.
    In a public tree, pairs are measured at every node. Proof: docs/proofs/people_and_means.md.

    :param input_domain: `leaf_values_domain(tree, values)`: what `make_leaf_values` gives.
    :param input_metric: `symmetric_distance`: by how many rows inputs differ.
    :param epsilon: The privacy loss at distance `d_in`.
    :param delta: The probability of a larger loss. For a public tree it is 0, the default, and the measure is
        `max_divergence()`; an open tree needs one, unless all known nodes are closed.
    :param confidence: For a node that was fixed beforehand, the intervals of its count, sum and mean each hold with
        this probability.
    :param shares: How epsilon is divided in an open tree: for cells and rests, for pairs, for sums in the cells. By
        default None: the shares of least predicted error; a quarter, a half and a quarter if all nodes are closed.

    Other parameters: as for `make_tree_estimator`.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, Value
    >>> from opendp_tree.mechanisms import leaf_values_domain, then_tree_means
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be",), ("lu",)])
    >>> space = leaf_values_domain(tree, Value("amount", bounds=(0, 500))), dp.symmetric_distance()
    >>> means = space >> then_tree_means(epsilon=1.0)
    >>> 1 - 1e-9 < means.map(1) <= 1.0
    True
    """
    assert_features("contrib")
    if input_metric != symmetric_distance():
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance: how many rows differ")
    space = read_space(input_domain)
    budget = Budget.declared(epsilon=epsilon, delta=delta, d_in=d_in)
    sure = float(check_probability(confidence, name="confidence"))
    means: OpenMeans | PublicMeans
    if isinstance(space.tree, Tree):
        if shares is not None or levels is not None or known is not None:
            raise ValueError("shares, levels and known must be left out for a public tree, measured at every node")
        means = PublicMeans.of(space.tree, space.values, budget, sure)
    else:
        names, kept = check_known(space.tree, known), check_levels(space.tree.depth, levels)
        means = OpenMeans.of(names, kept, space.values, budget, shares, sure)
    if is_zero(epsilon):
        return make_unfunded(input_domain, input_metric, delta=delta)
    measure = approximate(max_divergence()) if budget.delta else max_divergence()

    def privacy_map(distance: int | float) -> float | tuple[float, float]:
        rows = math.floor(read_distance(distance))
        loss = means.loss(rows)
        return with_promised_delta(loss, budget.delta if rows <= budget.d_in else 0.0) if budget.delta else loss[0]

    def function(data: Any) -> TreeRelease:
        spent = amounts_of_loss(measure, privacy_map(budget.d_in))
        parameters: dict[str, int | float | str | None] = {"depth": space.tree.depth, "steps": STEPS}
        if isinstance(means, OpenMeans):
            parameters |= describe(means.parameters, means.levels, space.tree.depth, len(means.known.paths))
            parameters |= {"pairs_epsilon": round_up(means.pairs), "cells_epsilon": round_up(means.cells)}
        statement = PrivacyStatement("tree_means", measure_name(measure), budget.d_in, spent, parameters)
        return means.release(space.read(data), statement)

    return make_measurement(input_domain, input_metric, measure, function, privacy_map)


then_tree_means = to_then(make_tree_means)


class MeansShares(NamedTuple):
    """Shares of epsilon for finding cells, for pairs above the leaves and for centred sums; their sum is 1."""

    finding: float
    pairs: float
    cells: float


def _check_scales(scales: Iterable[Fraction | float]) -> None:
    # Slightly below the largest scale, since scales are rounded up later.
    if any(scale > LARGEST_SCALE * (1 - 2.0**-40) for scale in scales):
        raise ValueError(
            "epsilon must be larger for this many levels and values: noise of such a scale cannot be drawn. "
            "Hint: fewer values, or a larger epsilon"
        )


def predict_levels(sizes: Sequence[float], shares: MeansShares, budget: Budget, whole: float = 1.0) -> Floats:
    """Standard deviations by level, from numbers of shown nodes: of counts, and of centred sums in widths of bounds."""
    depth, each = len(sizes), budget.pure_epsilon / budget.d_in
    fringe = root_fringe(depth, shares.finding, budget)
    measured = max(depth - 1, 1) if depth <= NAMED else LADDER
    pair, cell = 4 / (shares.pairs * each / measured) ** 2, 2 / (shares.cells * each) ** 2
    counts, sums = np.zeros(depth), np.full(depth, cell)
    counts[-1] = variance(float(fringe.test_scale)) + variance(float(fringe.token_scale))
    for level in reversed(range(depth - 1)):
        fan = sizes[level + 1] / sizes[level]
        # People in no cell add to a count; the centred sum of a node's rest is measured like a leaf's.
        below = fan * counts[level + 1] + (fringe.thresholds[-1] / 4) ** 2
        counts[level] = 1 / (1 / below + whole**2 / pair)  # pairs of several values count like one of this share
        sums[level] = 1 / (1 / (fan * sums[level + 1] + cell) + 1 / pair)
    return np.stack((np.sqrt(counts), np.sqrt(sums) / 2))


@lru_cache(maxsize=256)
def root_fringe(depth: int, finding: float, budget: Budget) -> Fringe:
    """The root's fringe; cached, since many shares of pairs and centred sums go with one share of finding."""
    (epsilon, delta), d_in = budget.exact, budget.d_in
    slope = epsilon / d_in * Fraction(finding)
    return make_fringe(max(depth - 1, 1), slope, slope, epsilon / d_in, delta, d_in)


@lru_cache(maxsize=256)
def choose_shares(depth: int, budget: Budget) -> MeansShares:
    """The shares of least predicted error of the smallest leaf that is found and of counts and means by level."""
    sizes = [min(TYPICAL**level, _MOST) for level in range(depth)]
    merits: dict[MeansShares, float] = {}
    for finding, pairs in product(_SHARES, repeat=2):
        shares = MeansShares(finding, pairs, 1 - finding - pairs)
        if shares.cells < _SHARES[0] - 1e-9:
            continue
        try:
            counts, sums = predict_levels(sizes, shares, budget)
            threshold = root_fringe(depth, finding, budget).thresholds[-1]
        except ValueError:
            continue
        # The error of a mean halfway from the middle to a bound, times the count: it depends on the count's error too.
        means = np.hypot(sums, counts / 4)
        merits[shares] = math.log(threshold * means[-1]) + float((np.log(counts) + np.log(means)).mean())
    if not merits:
        raise ValueError(
            f"epsilon ({budget.epsilon}) and delta ({budget.delta}) must be larger for {depth} levels with sums"
        )
    return min(merits, key=merits.__getitem__)


class ValueScales(NamedTuple):
    """The scales of one value's noise, in steps: of each layer's pairs, and of centred sums if there are any."""

    pairs: tuple[float, ...]
    centred: float | None


def value_scales(layers: Layers, shares: Sequence[Fraction], cells: Fraction | None) -> tuple[ValueScales, ...]:
    """Scales at which each value costs its share of each layer's slope, and of `cells` for centred sums."""
    return tuple(
        ValueScales(
            tuple(round_up(STEPS * Fraction(layer.right_scale) / share) for layer in layers.layers),
            None if cells is None else round_up(STEPS / (cells * share)),
        )
        for share in shares
    )


def scales_epsilon(scales: Sequence[ValueScales]) -> Fraction:
    """The exact cost for one row of everything that is measured with these scales."""
    centred = [Fraction(each.centred) for each in scales if each.centred is not None]
    return sums_epsilon(1, pairs=[Fraction(pair) for each in scales for pair in each.pairs], centred=centred)


class Pairs(NamedTuple):
    """The noisy P (`high`) and Q (`low`) of one layer and one value, in steps."""

    high: NoisySums
    low: NoisySums

    @property
    def centred(self) -> NoisySums:
        """The centred sums, in half ranges: a row adds from -1 to 1."""
        return replace(self.high, sums=(self.high.sums - self.low.sums) / STEPS, terms=2, unit=1 / STEPS)


@dataclass(frozen=True)
class MeasuredValue:
    """All measurements of one value: pairs, and centred sums of each node's rest with their scale."""

    pairs: tuple[Pairs, ...]
    centred: Ints
    scale: float | None
    """None in a public tree, where rests are empty."""


def measure_value(shown: ShownTree, layers: Layers, scales: ValueScales, steps: Ints, rows: Ints) -> MeasuredValue:
    """Noisy pairs and centred sums, from the sum of steps and the number of rows of each shown node."""
    sums = np.stack((steps, STEPS * rows - steps))
    rest, pairs = _left_over(sums, layers.marked, layers.above), []
    for layer, scale in zip(layers.layers, scales.pairs, strict=True):
        exact = np.concatenate((sums[:, layer.nodes], rest[:, layer.rests]), axis=1)
        noisy = saturate.add(exact, noise.laplace(scale, exact.size).reshape(exact.shape))
        pairs.append(Pairs(*(NoisySums(layer.nodes, layer.rests, scale, scale, part) for part in noisy)))
    if scales.centred is None:
        return MeasuredValue(tuple(pairs), rows[:0], None)
    high, low = _left_over(sums, np.ones(rows.size, dtype=np.bool_), shown.parents)
    centred = saturate.add(high - low, noise.laplace(scales.centred, rows.size))
    return MeasuredValue(tuple(pairs), centred, scales.centred)


def _left_over(sums: Ints, which: Bools, above: Ints) -> Ints:
    """The rest of each node without the nodes `which` directly below it."""
    below, left = np.flatnonzero(which & (above >= 0)), sums.copy()
    for part, whole in zip(left, sums, strict=True):
        np.subtract.at(part, above[below], whole[below])
    return left


def counts_of_pairs(values: Sequence[MeasuredValue]) -> tuple[NoisySums, ...]:
    """Counts from the pairs of all values, layer by layer, weighted by the inverse squares of their scales."""
    layers = []
    for parts in zip(*(each.pairs for each in values), strict=True):
        scales = np.array([high.right_scale for high, _ in parts])
        weights = 1 / scales**2
        weights /= weights.sum()
        counts = weights @ np.array([high.sums.astype(np.float64) + low.sums for high, low in parts]) / STEPS
        # All noise is treated as if it were as wide as the widest weighted one, which has the smallest scale.
        noise_of_all: dict[str, Any] = {"terms": 2 * len(parts), "unit": float(weights.max()) / STEPS}
        least, first = float(scales.min()), parts[0].high
        layers.append(NoisySums(first.nodes, first.rests, least, least, counts, **noise_of_all))
    return tuple(layers)


def estimate_centred(shown: ShownTree, measured: MeasuredValue) -> Floats:
    """Estimates of the centred sums of shown nodes, in half ranges."""
    own, precision, rest, rest_precision = gather(shown, tuple(part.centred for part in measured.pairs))
    if measured.scale is None:
        return two_passes(shown, own, precision)
    trust = 1 / (2 * (measured.scale / STEPS) ** 2)
    total = rest_precision + trust
    rest = (rest * rest_precision + measured.centred / STEPS * trust) / total
    return two_passes(shown, own, precision, rest, 1 / total)


@dataclass(frozen=True)
class Union:
    """For each node a union of pairs: their noisy sums, how many pairs, and the scale of their noise."""

    known: Bools
    high: Floats
    low: Floats
    sets: Ints
    scale: Floats

    @classmethod
    def of(cls, shown: ShownTree, pairs: tuple[Pairs, ...]) -> Union:
        """The narrowest of each node, judged by sets and scales."""
        high, low = (narrowest(shown, parts)[0] for parts in zip(*pairs, strict=True))
        scale = np.array([part.high.right_scale for part in pairs])[high.layer]
        return cls(high.layer >= 0, high.value, low.value, high.sets, scale)


def pair_bounds(value: Value, union: Union, miss: float) -> Floats:
    """Lower and upper ends of sums, then of means, of nodes with a union of pairs, each missed with at most `miss`."""
    ends, chance, numbers = np.zeros((4, union.high.size)), miss * SAFE, few_numbers(union.sets)
    for scale in np.unique(union.scale[union.known]).tolist():
        for sets in np.unique(numbers[union.known & (union.scale == scale)]).tolist():
            at = np.flatnonzero(union.known & (union.scale == scale) & (numbers == sets))
            high, low = union.high[at], union.low[at]
            first = lowest_part(high / scale, low / scale, sets, scale, chance)
            last = 1 - lowest_part(low / scale, high / scale, sets, scale, chance)
            ends[2:, at] = mean_ends(value, first, last)
            # In rows first, so that products with bounds stay finite.
            high, low, wide, grain = high / STEPS, low / STEPS, scale / STEPS, sets / STEPS
            reach = wide * two_reach(abs(value.high), abs(value.low), sets, chance * (1 - _ROWS))
            reach += grain * (abs(value.high) + abs(value.low))
            rows = high + low + wide * two_reach(1.0, 1.0, sets, chance * _ROWS) + 2 * grain
            middle = value.high * high + value.low * low
            far = abs(value.high) * np.abs(high) + abs(value.low) * np.abs(low)
            reach = reach + value.step * np.maximum(rows, 0) * (0.5 + 2.0**-20) + far * _OUTWARD
            ends[:2, at] = middle - reach, middle + reach
    return ends


def box_bounds(shown: ShownTree, value: Value, measured: MeasuredValue, counts: Bounds, miss: float) -> Floats:
    """The same ends from the counts' interval and from that of the centred sums of all nodes at or below each."""
    assert measured.scale is not None
    sums = shown.totals(measured.centred / STEPS)
    numbers = few_numbers(np.rint(shown.totals(np.ones(sums.size))).astype(np.int64))
    distinct, which = np.unique(numbers, return_inverse=True)
    reaches = [measured.scale * two_reach(1.0, 0.0, sets, miss * SAFE) + sets for sets in distinct.tolist()]
    reach = np.array(reaches)[which] / STEPS + np.abs(sums) * sums.size * 2.0**-52
    least, most = np.maximum(counts.lower, 0.0), np.maximum(counts.upper, 0.0)
    lower, upper = sums - reach, sums + reach
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(lower < 0, lower / least, lower / most)
        last = np.where(upper > 0, upper / least, upper / most)
    first, last = (np.nan_to_num(end, nan=side).clip(-1, 1) for end, side in ((first, -1.0), (last, 1.0)))
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2

    def furthest(end: Floats, sign: float) -> Floats:
        """The smallest or largest sum: no centred sum is further from 0 than the number of rows."""
        rows = np.stack((least, most, np.clip(-sign * end, least, most), np.clip(sign * end, least, most)))
        inside = sign * np.minimum(sign * end, rows)
        totals: Floats = sign * (sign * (middle * rows + half * inside)).max(axis=0)
        return totals

    slack = value.step * most * (0.5 + 2.0**-20) + (abs(middle) + half) * most * _OUTWARD
    means = mean_ends(value, (1 + first) / 2, (1 + last) / 2)
    return np.stack((furthest(lower, -1.0) - slack, furthest(upper, 1.0) + slack, *means))


def mean_ends(value: Value, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Ends of means from fractions of the range, moved outward by half a step and by rounding errors."""
    width = value.high - value.low
    slack = value.step * (0.5 + 2.0**-20) + (abs(value.low) + abs(value.high)) * _OUTWARD
    lower, upper = value.low + width * first - slack, value.low + width * last + slack
    return np.maximum(lower, value.low), np.minimum(upper, value.high)


def few_numbers(terms: Ints) -> Ints:
    """Numbers of terms, rounded up by at most 2 % beyond 64, so that few of them are distinct."""
    rounded, many = terms.copy(), terms > _EXACT
    steps = np.ceil(np.log(terms[many] / _EXACT) / math.log(1.02) - 1e-9)
    rounded[many] = np.maximum(np.ceil(_EXACT * 1.02**steps), terms[many])
    return rounded


def lowest_part(high: Floats, low: Floats, sets: int, scale: float, chance: float) -> Floats:
    """The smallest m from 0 to 1 with (1 - m)*high - m*low within its reach, except with this chance."""
    if high.size > _BLOCK:  # bounds the memory for all cells of all nodes
        blocks = [slice(start, start + _BLOCK) for start in range(0, high.size, _BLOCK)]
        return np.concatenate([lowest_part(high[block], low[block], sets, scale, chance) for block in blocks])
    parts = np.linspace(0.0, 1.0, _CELLS + 1)
    reach = _reach_from_cell_before(sets, chance) + sets / scale
    excess = high[:, None] - parts * (high + low)[:, None] - reach
    within = excess <= 0
    first = np.where(within.any(axis=1), within.argmax(axis=1), _CELLS)
    before = np.maximum(first - 1, 0)
    over, under = (np.take_along_axis(excess, place[:, None], axis=1)[:, 0] for place in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(over > under, over / (over - under), 0.0).clip(0, 1)
    return np.where(first == 0, 0.0, (before + crossing) / _CELLS) * (1 - _OUTWARD)


@lru_cache(maxsize=1024)
def _reach_from_cell_before(sets: int, chance: float) -> Floats:
    parts = np.linspace(0.0, 1.0, _CELLS + 1)
    reach = np.array([two_reach(1 - part, part, sets, chance) for part in parts])
    half = _CELLS // 2
    reach[1 : half + 1] = reach[:half].copy()
    reach[half + 1 :] = reach[half - 1 :: -1]
    reach.flags.writeable = False
    return reach


@lru_cache(maxsize=1 << 16)
def two_reach(first: float, second: float, sets: int, chance: float) -> float:
    """What |first*X + second*Y| exceeds with at most this chance; X and Y are sums of `sets` unit Laplace numbers."""
    large, small = max(first, second), min(first, second)
    if large == 0:
        return 0.0
    ratio = small / large
    if sets > 1:
        moments = -sets * (np.log1p(-(_RATES**2)) + np.log1p(-((_RATES * ratio) ** 2)))
        return large * float(((math.log(2 / chance) + moments) / _RATES).min())

    def tail(reach: float) -> float:
        if ratio > 1 - 1e-4:  # as if both were equal, which is wider
            return (1 + reach / 2) * math.exp(-reach)
        faster = ratio**2 * math.exp(-reach / ratio) if ratio > 0 else 0.0
        return (math.exp(-reach) - faster) / (1 - ratio**2)

    return large * bisect(lambda at: tail(at) <= chance, 0.0, 4.0 + 2 * math.log(1 / chance), middle=between)


def node_figures(value: Value, counts: Floats, centred: Floats, ends: Floats) -> Floats:
    """Sums and means from counts and centred sums, each with an interval that holds it, as `NodeValues` takes them."""
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2
    sums = middle * counts + half * centred
    # Without rows, the mean is the middle of the bounds.
    ratio = np.where(counts > 0, centred / np.where(counts > 0, counts, 1.0), 0.0).clip(-1, 1)
    means = (middle + half * ratio).clip(value.low, value.high)
    columns = ((sums, *ends[:2]), (means, *ends[2:]))
    return np.concatenate([(each, np.minimum(low, each), np.maximum(high, each)) for each, low, high in columns])


@dataclass(frozen=True)
class OpenMeans:
    """Find cells, then measure pairs in layers and centred sums of the rests of all shown nodes."""

    known: KnownNodes
    levels: tuple[int, ...]
    values: tuple[Value, ...]
    parameters: PartitionParameters
    pairs: Fraction
    cells: Fraction
    """The budgets of pairs and of centred sums."""
    confidence: float

    @classmethod
    def of(
        cls,
        known: KnownNodes,
        levels: tuple[int, ...],
        values: tuple[Value, ...],
        budget: Budget,
        shares: tuple[float, float, float] | None,
        confidence: float,
    ) -> OpenMeans:
        """All that is decided before data is seen, within the budget."""
        (epsilon, delta), d_in, depth, closed = budget.exact, budget.d_in, len(levels), all(known.closed)
        if delta == 0 and not closed:
            raise ValueError(NO_DELTA)
        if shares is None:
            divided = MeansShares(*_CLOSED) if closed else choose_shares(depth, budget)
        elif isinstance(shares, (tuple, list)) and len(shares) == 3:
            parts = [check_probability(share, name="shares") for share in shares]
            divided = MeansShares(*(float(part / sum(parts)) for part in parts))
        else:
            raise TypeError("shares must be three numbers: for finding cells, for pairs, for sums in the cells")
        tested = 1 if closed else depth  # where nothing is found, every rest has the noise of a leaf's
        parameters = even_parameters(tested, epsilon, delta, finding=Fraction(divided.finding), d_in=d_in)
        parameters = replace(parameters, fringes=parameters.fringes * (depth // tested))
        part = Fraction(divided.cells) / (Fraction(divided.cells) + Fraction(divided.pairs))
        cells, pairs = (Fraction(round_down(parameters.alphas * each)) for each in (part, 1 - part))
        least = min(value_shares(values))
        _check_scales([LEAST_SHARE * STEPS / pairs / least, STEPS / cells / least])
        return cls(known, levels, values, parameters, pairs, cells, confidence)

    def loss(self, rows: int) -> tuple[float, float]:
        """Epsilon and delta of cells and sums together, rounded up."""
        fringes = self.parameters.fringes
        used = Fraction(find_epsilon_delta(fringes, k=1)[0].hi)
        epsilon = found_epsilon(rows, finding=used, measuring=[self.cells + self.pairs])
        return round_up(epsilon), min(1.0, round_up(find_epsilon_delta(fringes, k=rows)[1]))

    def _layers(self, shown: ShownTree, model: GapNoise) -> Layers:
        weights = (_ROOT, *(None,) * max(shown.depth - 2, 0))
        return choose_layers(shown, model.rest_variance(shown), self.pairs, self.pairs, weights=weights)

    def predict(self, whole: float) -> tuple[Ints, Floats, Floats]:
        """The level of each known node, and by node what `predict_levels` has by level, if no others are found."""
        found = Found.of(KnownPlaces.of(self.known, self.levels, self.known.tree.count([])), None)
        shown, model = found.shown, GapNoise.of(self.parameters, found.tops, found.shown)
        pairs = []
        for layer in self._layers(shown, model).layers:
            scale, zeros = STEPS * layer.right_scale, np.zeros(layer.nodes.size + layer.rests.size)
            pairs.append(NoisySums(layer.nodes, layer.rests, scale, scale, zeros, terms=2, unit=1 / STEPS))
        _, own, _, more = gather(shown, tuple(pairs))
        precision, square = 1 / model.rest_variance(shown), whole**2  # counts are those of the pairs of all values
        counts = final_variances(shown, 1 / (precision + square * more), square * own)
        sums = final_variances(shown, 1 / (float(self.cells) ** 2 / 2 + more), own)
        return np.array(self.levels)[shown.levels], np.sqrt(counts), np.sqrt(sums) / 2

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """Known nodes, and nodes with a cell at or below them."""
        assert isinstance(data.counts, SparseCounts)
        found = Found.of(KnownPlaces.of(self.known, self.levels, data.counts), self.parameters)
        shown, miss = found.shown, 1 - self.confidence
        model = GapNoise.of(self.parameters, found.tops, shown)
        layers = self._layers(shown, model)
        scales = value_scales(layers, value_shares(self.values), self.cells)
        if scales_epsilon(scales) > self.pairs + self.cells:
            raise AssertionError("layers must not cost more than was set aside for them")
        rows, *steps = (saturate.join(*found.people(shown.levels >= 0, each)) for each in (data.people, *data.sums))
        measured = [measure_value(shown, layers, *each, rows) for each in zip(scales, steps, strict=True)]
        pairs = counts_of_pairs(measured)
        estimates = np.maximum(estimate_nodes(shown, pairs, model), found.cells)
        bounds, wider = (
            node_bounds(shown, layers, pairs, self.parameters, found.tops, miss=part) for part in (miss, miss / 2)
        )
        values = []
        for value, each in zip(self.values, measured, strict=True):
            union = Union.of(shown, each.pairs)
            box = box_bounds(shown, value, each, wider, miss / 2)
            ends = np.where(union.known, pair_bounds(value, union, miss), box)
            figures = np.full((6, found.wanted.size), np.nan)  # nodes of levels that are not shown have none
            figures[:, found.wanted] = node_figures(value, estimates, estimate_centred(shown, each), ends)
            values.append(NodeValues(value.column, value.low, value.high, *figures))
        hidden = hidden_weight(self.parameters, self.levels, data.counts.tree.depth, miss)
        bounds = bounds.around(estimates)
        return found.release(estimates, bounds, self.confidence, statement, hidden=hidden, values=tuple(values))


@dataclass(frozen=True)
class PublicMeans:
    """Pairs at every node of a public tree, level by level, and least squares."""

    tree: Tree
    values: tuple[Value, ...]
    layers: Layers
    """One per level, with the leaves above it, so that it holds everybody."""
    scales: tuple[ValueScales, ...]
    confidence: float

    @classmethod
    def of(cls, tree: Tree, values: tuple[Value, ...], budget: Budget, confidence: float) -> PublicMeans:
        """Levels that share the budget in proportion to their weights."""
        if budget.delta:
            raise ValueError("delta must be 0 for a public tree: nothing needs to be found. Hint: leave it out")
        # Slightly less than epsilon, so that the sum stays within it after rounding.
        each = Fraction(round_down(budget.exact[0] / budget.d_in * (1 - Fraction(1, 2**48))))
        weights = [Fraction(weight) for weight in regular_level_weights(tree, noise="laplace")]
        shown, nobody, levels = whole_tree(tree), np.zeros(0, dtype=np.int64), []
        marked, cuts = cut_by_level(shown, list(range(tree.depth)))
        for cut, weight in zip(cuts, weights, strict=True):
            scale = round_up(sum(weights) / (each * weight))
            levels.append(Layer(np.flatnonzero(cut), nobody, scale, scale))
        layers = Layers(marked, shown.parents, tuple(levels))
        scales = value_scales(layers, value_shares(values), None)
        _check_scales(scale for value in scales for scale in value.pairs)
        return cls(tree, values, layers, scales, confidence)

    def loss(self, rows: int) -> tuple[float, float]:
        """The epsilon of all levels, rounded up, and 0."""
        epsilon = found_epsilon(rows, finding=Fraction(0), measuring=[scales_epsilon(self.scales)])
        return round_up(epsilon), 0.0

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """All nodes."""
        shown, order, miss = whole_tree(self.tree), self.tree.level_order, 1 - self.confidence
        rows, *steps = (self.tree.sum(leaves)[order.nodes] for leaves in (data.people, *data.sums))
        measured = [measure_value(shown, self.layers, *each, rows) for each in zip(self.scales, steps, strict=True)]
        pairs = counts_of_pairs(measured)
        own, precision, _, _ = gather(shown, pairs)
        estimates = two_passes(shown, own, precision)
        nobody = np.zeros(estimates.size)
        lower, upper = layer_bounds(shown, self.layers, pairs, least=nobody, miss=miss)
        bounds = Bounds(lower, np.maximum(upper, nobody)).around(estimates)
        values = []
        for value, each in zip(self.values, measured, strict=True):
            ends = pair_bounds(value, Union.of(shown, each.pairs), miss)
            figures = node_figures(value, estimates, estimate_centred(shown, each), ends)
            values.append(NodeValues(value.column, value.low, value.high, *map(order.by_node, figures)))
        estimates, lower, upper = map(order.by_node, (estimates, bounds.lower, bounds.upper))
        return TreeRelease(self.tree, estimates, lower, upper, self.confidence, statement, values=tuple(values))
