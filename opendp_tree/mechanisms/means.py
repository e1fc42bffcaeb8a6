"""Counts, sums and means at every node: pairs above the leaves, centred sums below, counts of leaves from gaps.

A row of step y adds y to P and M - y to Q of its set, M together. P + Q is M times the set's rows, P - Q its centred
sum, twice. A centred sum alone moves by at most M, too. Everything is an integer until noise is in it.

Intervals are about values clipped to their bounds. Where a pair was measured: all means m that (1 - m)*P - m*Q does not
contradict (Fieller), and the sum's own noise. Elsewhere: a box, the counts' interval and that of the centred sum, each
with half of the chance. Proof: docs/proofs/tree_means.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_integer, check_positive, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.find import (
    NAMED,
    PartitionParameters,
    closed_parameters,
    even_parameters,
    make_fringe,
    variance,
)
from opendp_tree.mechanisms.layers import Layers, NoisySums, ShownTree, choose_layers
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tails import SAFE, Bounds, narrowest, node_bounds, sum_reach
from opendp_tree.mechanisms.tree_estimator import (
    Found,
    GapNoise,
    KnownPlaces,
    check_levels,
    estimate_nodes,
    fill_levels,
    hidden_weight,
)
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.releases.values import NodeValues
from opendp_tree.rows.leaf_values import LeafValues, LeafValueSpace, read_space
from opendp_tree.rows.value import Value, value_shares
from opendp_tree.theorems.interval import round_down, round_up
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta
from opendp_tree.theorems.tree_means import STEPS, sums_epsilon, tree_means_epsilon
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.level_weights import regular_level_weights
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_means", "then_tree_means"]

TYPICAL = 20.0
"""The children of a shown node, where nothing is known: what is chosen for them is near the best for 5 and for 100."""
_MOST = 1e6
_LADDER = 6
"""Deep trees are measured by a ladder of about so many layers, whatever their depth."""
_SHARES = tuple(part / 20 for part in range(3, 15))
_ROOT = 0.45
"""How much the root's error weighs against those of other levels, where layers share what pairs may cost."""
_LEAST_SHARE = 2**17
"""No layer that is chosen by what was found has less than one over this of what all of them may cost."""
_CELLS = 128
"""Into so many cells the means from bound to bound are divided, to be rejected cell by cell."""
_BLOCK = 2**14
_ROWS = 0.01
"""The part of a sum's chance that goes into how many rows were rounded."""
_EXACT = 64
"""Up to so many sets each number of them has a bound of its own."""
_RATES = np.linspace(0.002, 0.998, 499)
_OUTWARD = 2.0**-45
"""Ends are moved outward by this part of what they are made of: more than all roundings of floats."""


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

    Of an open tree, cells with their gaps, and rests of known nodes, come first. Above the leaves a pair is measured
    for each set of a layer: the sum of the values' distances from the lower bound, and from the upper one. A row moves
    both by the width of the bounds together, so that the pair costs what one number would. In the cells the sum of
    distances from the middle is enough, because gaps tell the counts. Of a public tree, pairs are measured at every
    node, level by level. Proof: docs/proofs/tree_means.md.

    Parameters
    ----------
    input_domain
        Counts and sums of values by leaf: `leaf_values_domain(tree, values)`, what `make_leaf_values` gives.
    input_metric
        `symmetric_distance`: by how many rows inputs differ.
    epsilon, delta
        What may be lost at distance `d_in`. For a public tree delta is 0, the default, and the measure is
        `max_divergence()`; an open tree needs one, unless all known nodes are closed, and the measure is
        `approximate(max_divergence())`. The map reports `delta` itself where a little less is lost, so that OpenDP's
        searches for `epsilon` can compare.
    confidence
        The interval of a node's count, of its sum and of its mean each miss with a chance of at most one less this, for
        a node that was fixed beforehand. 0.95 by default.
    shares
        How epsilon is divided, for an open tree: finding cells, pairs, sums in the cells. None, the default, for the
        shares of least predicted error.
    known
        For an open tree, the nodes that are public: they are shown, empty ones too. None, the default, is the root
        alone.
    levels
        Which levels of an open tree are shown, the root's being 0; the root always is. None, the default, shows all.
    d_in
        How many rows of one person `epsilon` and `delta` are for. 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, Value
    >>> from opendp_tree.mechanisms import LeafValues, leaf_values_domain, then_tree_means
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be",), ("lu",)])
    >>> space = leaf_values_domain(tree, Value("amount", bounds=(0, 500))), dp.symmetric_distance()
    >>> means = space >> then_tree_means(epsilon=1.0)
    >>> 1 - 1e-9 < means.map(1) <= 1.0
    True
    >>> release = means(LeafValues(np.array([9_000, 4_000]), (np.array([9_000, 2_000]) * 2**20,)))
    >>> release.values[0].mean.round(-1)
    array([420., 500., 250.])
    """
    assert_features("contrib")
    if input_metric != symmetric_distance():
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance: how many rows differ")
    space = read_space(input_domain)
    unfunded = is_zero(epsilon)
    budget = Budget(
        float(check_positive(1.0 if unfunded else epsilon, name="epsilon")),
        0.0 if is_zero(delta) else float(check_probability(delta, name="delta")),
        d_in=check_integer(d_in, name="d_in", least=1),
    )
    sure = float(check_probability(confidence, name="confidence"))
    if isinstance(space.tree, Tree):
        setting = _of_public(space, space.tree, budget, sure)
        if shares is not None or levels is not None or known is not None:
            raise ValueError("shares, levels and known must be left out for a public tree, measured at every node")
    else:
        names = KnownNodes.of(space.tree, ()) if known is None else known
        if not isinstance(names, KnownNodes) or names.tree != space.tree:
            raise ValueError("known must be KnownNodes of the tree of input_domain. Hint: KnownNodes.of(tree, paths)")
        setting = _of_open(space, names, budget, sure, shares, levels)
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)
    measure = max_divergence() if setting.pure else approximate(max_divergence())

    def function(data: Any) -> TreeRelease:
        return setting.mechanism.release(space.read(data), setting.statement())

    return make_measurement(input_domain, input_metric, measure, function, setting.privacy_map)


then_tree_means = to_then(make_tree_means)


@dataclass(frozen=True)
class _Setting:
    """All that is decided before data: what is run is what the map is computed from."""

    space: LeafValueSpace
    mechanism: OpenMeans | PublicMeans
    layers: Fraction
    """What pairs and centred sums cost one row at most."""
    budget: Budget

    @property
    def pure(self) -> bool:
        """Whether delta is 0."""
        return self.budget.delta == 0

    def privacy_map(self, d_in: int | float) -> Any:
        """What cells and sums lose together."""
        rows = math.floor(read_distance(d_in))
        spent = self._spent(rows) if rows else (0.0, 0.0)
        return spent[0] if self.pure else spent

    def _spent(self, rows: int) -> tuple[float, float]:
        if isinstance(self.mechanism, PublicMeans):
            return round_up(tree_means_epsilon(rows, found=Fraction(0), layers=self.layers)), 0.0
        fringes = self.mechanism.parameters.fringes
        used = Fraction(find_epsilon_delta(fringes, k=1)[0].hi)
        epsilon = tree_means_epsilon(rows, found=used, layers=self.layers)
        lost = min(1.0, round_up(find_epsilon_delta(fringes, k=rows)[1]))
        promised = float(self.budget.delta) if rows <= self.budget.d_in else 0.0
        return with_promised_delta((round_up(epsilon), lost), promised)

    def statement(self) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        epsilon, delta = self._spent(self.budget.d_in)
        parameters: dict[str, int | float | str | None] = {"depth": self.space.tree.depth, "steps": STEPS}
        if isinstance(self.mechanism, OpenMeans):
            made, top = self.mechanism, self.mechanism.parameters.fringes[0]
            parameters |= {
                "scale": float(top.test_scale),
                "token_scale": float(top.token_scale),
                "threshold": top.thresholds[-1] if top.thresholds else None,
                "margin": top.margins[-1] if top.margins else None,
                "levels": "all" if len(made.levels) == self.space.tree.depth else ", ".join(map(str, made.levels)),
                "known": len(made.known.paths),
                "pairs_epsilon": round_up(made.pairs),
                "cells_epsilon": round_up(made.cells),
            }
        return PrivacyStatement(
            mechanism="tree_means",
            measure="max_divergence()" if self.pure else "approximate(max_divergence())",
            d_in=self.budget.d_in,
            loss={"epsilon": epsilon} if self.pure else {"epsilon": epsilon, "delta": delta},
            parameters=parameters,
        )


def _of_public(space: LeafValueSpace, tree: Tree, budget: Budget, confidence: float) -> _Setting:
    if budget.delta:
        raise ValueError("delta must be 0 for a public tree: nothing needs to be found. Hint: leave it out")
    # A little less than is left, so that what is spent is within epsilon however it is rounded.
    each = Fraction(round_down(budget.exact[0] / budget.d_in * (1 - Fraction(1, 2**48))))
    weights = regular_level_weights(tree, noise="laplace")
    mechanism = PublicMeans.of(tree, each, weights, space.values, value_shares(space.values), confidence)
    _check_scales(scale for level in mechanism.scales for scale in level)
    return _Setting(space, mechanism, mechanism.spent(), budget)


def _of_open(
    space: LeafValueSpace,
    known: KnownNodes,
    budget: Budget,
    confidence: float,
    shares: tuple[float, float, float] | None,
    levels: Sequence[int] | None,
) -> _Setting:
    kept, closed = check_levels(space.tree.depth, levels), all(known.closed)
    epsilon, delta = budget.exact
    if delta == 0 and not closed:
        raise ValueError("delta (0) must be above 0 where nodes are unknown. Hint: delta=1e-6, or a public tree")
    if shares is not None:
        divided = _check_shares(shares)
    elif closed:
        divided = MeansShares(1 / len(kept), (1 - 1 / len(kept)) / 2, (1 - 1 / len(kept)) / 2)
    else:
        divided = choose_shares(len(kept), epsilon, delta, budget.d_in)
    if closed:
        parameters = closed_parameters(len(kept), epsilon, d_in=budget.d_in)
    else:
        finding = Fraction(divided.finding)
        parameters = even_parameters(len(kept), epsilon, delta, finding=finding, d_in=budget.d_in)
    part = Fraction(divided.cells) / (Fraction(divided.cells) + Fraction(divided.pairs))
    cells, pairs = (Fraction(round_down(parameters.alphas * each)) for each in (part, 1 - part))
    parts = value_shares(space.values)
    _check_scales([_LEAST_SHARE * STEPS / pairs / min(parts), STEPS / cells / min(parts)])
    mechanism = OpenMeans(known, kept, parameters, pairs, cells, space.values, parts, confidence)
    return _Setting(space, mechanism, cells + pairs, budget)


def _check_scales(scales: Iterable[Fraction | float]) -> None:
    # A little below the largest, so that what is drawn can be, however its scale is rounded up later.
    if any(scale > LARGEST_SCALE * (1 - 2.0**-40) for scale in scales):
        raise ValueError(
            "epsilon must be larger for so many levels and values: noise of such a scale cannot be drawn. "
            "Hint: fewer values, or a larger epsilon"
        )


def _check_shares(shares: tuple[float, float, float]) -> MeansShares:
    if not isinstance(shares, (tuple, list)) or len(shares) != 3:
        raise TypeError("shares must be three numbers: for finding cells, for pairs, for sums in the cells")
    parts = [check_probability(share, name="shares") for share in shares]
    total = sum(parts, Fraction(0))
    return MeansShares(*(float(part / total) for part in parts))


@dataclass(frozen=True)
class LevelError:
    """What to expect of the nodes of one level."""

    level: int
    nodes: float
    count_sd: float
    """The standard deviation of a count."""
    sum_sd: float
    """That of a sum's distance from the middle of the bounds, times the count: in widths of the bounds."""

    @property
    def mean_sd(self) -> float:
        """That of a mean halfway from the middle to a bound, times the count: what the count lacks is felt there."""
        return math.hypot(self.sum_sd, self.count_sd / 4)


@dataclass(frozen=True)
class MeansShares:
    """How epsilon is divided: for finding cells, for pairs above the leaves, for centred sums. They sum to 1."""

    finding: float
    pairs: float
    cells: float


def predict_levels(
    sizes: Sequence[float], shares: MeansShares, *, epsilon: float | Fraction, delta: float | Fraction, d_in: int = 1
) -> tuple[LevelError, ...]:
    """The errors by level of an open tree whose shown nodes number so many, with even shares among measured levels."""
    depth, each = len(sizes), float(epsilon / d_in)
    found = _root_fringe(depth, Fraction(shares.finding), Fraction(epsilon), Fraction(delta), d_in)
    measured = max(depth - 1, 1) if depth <= NAMED else _LADDER
    pair = 4 / (shares.pairs * each / measured) ** 2
    counts = [variance(float(found.test_scale)) + variance(float(found.token_scale))]
    sums = [2 / (shares.cells * each) ** 2]
    for level in reversed(range(depth - 1)):
        fan = sizes[level + 1] / sizes[level]
        # What no cell holds adds to a count; the sum of what a node holds alone is measured like a leaf's.
        below = fan * counts[0] + (found.thresholds[-1] / 4) ** 2
        counts.insert(0, 1 / (1 / below + 1 / pair))
        below = (fan + 1) * sums[0] if level == depth - 2 else fan * sums[0] + 2 / (shares.cells * each) ** 2
        sums.insert(0, 1 / (1 / below + 1 / pair))
    return tuple(
        LevelError(level, size, math.sqrt(count), math.sqrt(total) / 2)
        for level, (size, count, total) in enumerate(zip(sizes, counts, sums, strict=True))
    )


@lru_cache(maxsize=256)
def _root_fringe(depth: int, finding: Fraction, epsilon: Fraction, delta: Fraction, d_in: int) -> Fringe:
    """How unknown nodes below the root are found: many shares of pairs and centred sums go with one of finding."""
    slope = epsilon / d_in * finding
    return make_fringe(max(depth - 1, 1), slope, slope, epsilon / d_in, delta, d_in)


@lru_cache(maxsize=256)
def choose_shares(depth: int, epsilon: float | Fraction, delta: float | Fraction, d_in: int = 1) -> MeansShares:
    """The shares of least predicted error: of the smallest leaf that is found, and of counts and means by level."""
    sizes = [min(TYPICAL**level, _MOST) for level in range(depth)]
    best, least = None, math.inf
    for finding, pairs in product(_SHARES, repeat=2):
        cells = 1 - finding - pairs
        if cells < _SHARES[0] - 1e-9:
            continue
        shares = MeansShares(finding, pairs, cells)
        try:
            errors = predict_levels(sizes, shares, epsilon=epsilon, delta=delta, d_in=d_in)
            threshold = _root_fringe(depth, Fraction(finding), Fraction(epsilon), Fraction(delta), d_in).thresholds[-1]
        except ValueError:
            continue
        merit = math.log(threshold) + math.log(errors[-1].mean_sd)
        merit += sum(math.log(each.count_sd) + math.log(each.mean_sd) for each in errors) / depth
        if merit < least:
            best, least = shares, merit
    if best is None:
        raise ValueError(
            f"epsilon ({float(epsilon)}) and delta ({float(delta)}) must be larger for {depth} levels with sums"
        )
    return best


@dataclass(frozen=True)
class NodeSums:
    """For each shown node its rows and the sums of their steps, exactly."""

    rows: Ints
    steps: Ints

    def take(self, places: Ints) -> NodeSums:
        """Those of some nodes."""
        return NodeSums(self.rows[places], self.steps[places])

    def without(self, nodes: Ints, above: Ints) -> NodeSums:
        """What is left at each node `above` once the nodes directly below it are taken out."""
        rows, steps = self.rows.copy(), self.steps.copy()
        np.subtract.at(rows, above, self.rows[nodes])
        np.subtract.at(steps, above, self.steps[nodes])
        return NodeSums(rows, steps)


@dataclass(frozen=True)
class Pairs:
    """The noisy pairs of one layer and one value: those of its nodes, then those of its rests."""

    nodes: Ints
    rests: Ints
    scale: float
    """Of the noise of P and of Q, in steps."""
    high: Ints
    """The noisy sums of steps."""
    low: Ints
    """The noisy sums of what steps leave of 2**20."""

    def noisy(self, sums: Ints | Floats) -> NoisySums:
        """One number for each set, with noise of this scale."""
        return NoisySums(self.nodes, self.rests, sums, self.scale, self.scale)


@dataclass(frozen=True)
class Centred:
    """For one value the noisy centred sums of what each shown node holds outside the shown nodes below it."""

    scale: float
    sums: Ints


@dataclass(frozen=True)
class SumScales:
    """The scales of all that is measured: for each layer and each value that of a pair, and of centred sums."""

    pairs: tuple[tuple[float, ...], ...]
    centred: tuple[float, ...]

    @classmethod
    def of(cls, layers: Layers, shares: tuple[Fraction, ...], cells: Fraction) -> SumScales:
        """Scales at which a layer costs no more than 1 over its own scale, and centred sums no more than `cells`."""
        pairs = tuple(
            tuple(round_up(STEPS * Fraction(layer.right_scale) / share) for share in shares) for layer in layers.layers
        )
        return cls(pairs, tuple(round_up(STEPS / (cells * share)) for share in shares))

    def spent(self) -> Fraction:
        """What all of it costs one row, exactly."""
        pairs = [Fraction(scale) for layer in self.pairs for scale in layer]
        return sums_epsilon(1, pairs=pairs, centred=[Fraction(scale) for scale in self.centred])


def measure_pairs(layers: Layers, scales: SumScales, sums: tuple[NodeSums, ...]) -> list[list[Pairs]]:
    """The pairs of each value, layer by layer."""
    below = np.flatnonzero(layers.marked & (layers.above >= 0))
    found: list[list[Pairs]] = []
    for number, whole in enumerate(sums):
        rest = whole.without(below, layers.above[below])
        found.append([])
        for layer, scale in zip(layers.layers, scales.pairs, strict=True):
            parts = whole.take(layer.nodes), rest.take(layer.rests)
            found[-1].append(noisy_pairs(layer.nodes, layer.rests, scale[number], *parts))
    return found


def noisy_pairs(nodes: Ints, rests: Ints, scale: float, *parts: NodeSums) -> Pairs:
    """The pairs of some sets."""
    steps = np.concatenate([part.steps for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    exact = np.concatenate((steps, STEPS * rows - steps))
    noisy = saturate.add(exact, noise.laplace(scale, exact.size))
    return Pairs(nodes, rests, scale, noisy[: steps.size], noisy[steps.size :])


def measure_centred(shown: ShownTree, scales: SumScales, sums: tuple[NodeSums, ...]) -> list[Centred]:
    """The centred sums of each value, of each row at the deepest shown node at or above it and nowhere else."""
    below = np.flatnonzero(shown.parents >= 0)
    found = []
    for scale, whole in zip(scales.centred, sums, strict=True):
        alone = whole.without(below, shown.parents[below])
        exact = 2 * alone.steps - STEPS * alone.rows
        found.append(Centred(scale, saturate.add(exact, noise.laplace(scale, exact.size))))
    return found


def counts_of_pairs(pairs: list[list[Pairs]]) -> tuple[NoisySums, ...]:
    """The counts that pairs tell of, layer by layer: those of all values, weighted by what was spent on them.

    Noise of scale b_v has weight w_v, as 1/b_v**2; all of it is taken to be as wide as the widest w_v*b_v, that of the
    least scale.
    """
    found = []
    for layer in zip(*pairs, strict=True):
        weights = np.array([1 / part.scale**2 for part in layer])
        weights /= weights.sum()
        counts = sum(
            weight * (part.high.astype(np.float64) + part.low) / STEPS
            for weight, part in zip(weights, layer, strict=True)
        )
        least, unit = min(part.scale for part in layer), float(weights.max()) / STEPS
        found.append(NoisySums(layer[0].nodes, layer[0].rests, counts, least, least, terms=2 * len(layer), unit=unit))
    return tuple(found)


def estimate_centred(shown: ShownTree, pairs: list[Pairs], centred: Centred) -> Floats:
    """For each shown node the estimate of its rows' centred sum, in half ranges: a row adds from -1 to 1."""
    size = shown.levels.size
    own, precision = np.zeros(size), np.zeros(size)
    trust = 1 / (2 * (centred.scale / STEPS) ** 2)
    rest, rest_precision = centred.sums / STEPS * trust, np.full(size, trust)
    # What a layer leaves of a node with one shown child is left of a node further below, too.
    is_local = np.full(size, True) if shown.depth <= NAMED else shown.child_counts > 1
    for part in pairs:
        values, trust = (part.high - part.low) / STEPS, 1 / (4 * (part.scale / STEPS) ** 2)
        own[part.nodes] += trust * values[: part.nodes.size]
        precision[part.nodes] += trust
        local = is_local[part.rests]
        rest[part.rests[local]] += trust * values[part.nodes.size :][local]
        rest_precision[part.rests[local]] += trust
    return _two_passes(shown, own, precision, rest / rest_precision, 1 / rest_precision)


def _two_passes(shown: ShownTree, known: Floats, precision: Floats, rest: Floats, variance: Floats) -> Floats:
    """Up: what lies at and below a node says of it, `before` and `after` its own measurements. Down: what is above."""
    before, spread = rest.copy(), variance.copy()
    after, left = rest.copy(), variance.copy()
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        before[here] += shown.sum_children(after, level)
        spread[here] += shown.sum_children(left, level)
        left[here] = 1 / (1 / spread[here] + precision[here])
        after[here] = (before[here] / spread[here] + known[here]) * left[here]
    for level in range(shown.depth - 1):
        here = shown.at(level + 1)
        above = shown.parents[here]
        after[here] += left[here] / spread[above] * (after[above] - before[above])
    return after


def few_numbers(terms: Ints) -> Ints:
    """Numbers of terms, no smaller, of which there are few: beyond 64 rounded up by at most 2 %."""
    rounded = terms.copy()
    many = terms > _EXACT
    steps = np.ceil(np.log(terms[many] / _EXACT) / math.log(1.02) - 1e-9)
    rounded[many] = np.maximum(np.ceil(_EXACT * 1.02**steps), terms[many])
    return rounded


@dataclass(frozen=True)
class ValueBounds:
    """Intervals of sums and of means."""

    sums: Bounds
    means: Bounds


@dataclass(frozen=True)
class Union:
    """For each node a union of pairs: their noisy sums, how many pairs, and the scale of their noise."""

    known: Bools
    high: Floats
    low: Floats
    sets: Ints
    scale: Floats

    @classmethod
    def of(cls, shown: ShownTree, pairs: list[Pairs]) -> Union:
        """The narrowest of each node, judged by sets and scales."""
        high = narrowest(shown, tuple(part.noisy(part.high) for part in pairs))[0]
        low = narrowest(shown, tuple(part.noisy(part.low) for part in pairs))[0]
        scale = np.array([part.scale for part in pairs])[high.layer]
        return cls(high.layer >= 0, high.value, low.value, high.sets, scale)


def value_bounds(
    shown: ShownTree, value: Value, pairs: list[Pairs], centred: Centred, counts: Bounds, miss: float
) -> ValueBounds:
    """Intervals for the sum and for the mean of each shown node, each missed with a chance of at most `miss`."""
    boxes = box_bounds(shown, value, centred, counts, miss / 2)
    return pair_bounds(value, Union.of(shown, pairs), miss, boxes)


def pair_bounds(value: Value, union: Union, miss: float, others: ValueBounds) -> ValueBounds:
    """Intervals where there is a union of pairs, and the others elsewhere."""
    sums = Bounds(others.sums.lower.copy(), others.sums.upper.copy())
    means = Bounds(others.means.lower.copy(), others.means.upper.copy())
    chance = miss * SAFE
    numbers = few_numbers(union.sets)
    for scale in np.unique(union.scale[union.known]).tolist():
        for sets in np.unique(numbers[union.known & (union.scale == scale)]).tolist():
            at = np.flatnonzero(union.known & (union.scale == scale) & (numbers == sets))
            high, low = union.high[at], union.low[at]
            first = lowest_part(high / scale, low / scale, sets, scale, chance)
            last = 1 - lowest_part(low / scale, high / scale, sets, scale, chance)
            means.lower[at], means.upper[at] = mean_ends(value, first, last)
            # In rows before anything is multiplied by a bound, so that no product is infinite.
            high, low, wide, grain = high / STEPS, low / STEPS, scale / STEPS, sets / STEPS
            reach = wide * two_reach(abs(value.high), abs(value.low), sets, chance * (1 - _ROWS))
            reach += grain * (abs(value.high) + abs(value.low))
            rows = high + low + wide * two_reach(1.0, 1.0, sets, chance * _ROWS) + 2 * grain
            middle = value.high * high + value.low * low
            far = abs(value.high) * np.abs(high) + abs(value.low) * np.abs(low)
            slack = value.step * np.maximum(rows, 0) * (0.5 + 2.0**-20) + far * _OUTWARD
            sums.lower[at], sums.upper[at] = middle - reach - slack, middle + reach + slack
    return ValueBounds(sums, means)


def box_bounds(shown: ShownTree, value: Value, centred: Centred, counts: Bounds, miss: float) -> ValueBounds:
    """Intervals from the counts' and from that of the centred sums of all nodes at or below each."""
    sums = shown.totals(centred.sums / STEPS)
    numbers = few_numbers(np.rint(shown.totals(np.ones(shown.levels.size))).astype(np.int64))
    reach = np.zeros(sums.size)
    for sets in np.unique(numbers).tolist():
        far = centred.scale * two_reach(1.0, 0.0, sets, miss * SAFE) + sets
        reach[numbers == sets] = far / STEPS
    reach += np.abs(sums) * shown.levels.size * 2.0**-52
    least, most = np.maximum(counts.lower, 0.0), np.maximum(counts.upper, 0.0)
    lower, upper = sums - reach, sums + reach
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(lower < 0, lower / least, lower / most)
        last = np.where(upper > 0, upper / least, upper / most)
    first, last = (np.nan_to_num(end, nan=side).clip(-1, 1) for end, side in ((first, -1.0), (last, 1.0)))
    means = mean_ends(value, (1 + first) / 2, (1 + last) / 2)
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2

    def furthest(end: Floats, sign: float) -> Floats:
        """The least or the largest sum: no centred sum is further from 0 than the number of rows."""
        rows = np.stack((least, most, np.clip(-sign * end, least, most), np.clip(sign * end, least, most)))
        inside = sign * np.minimum(sign * end, rows)
        totals: Floats = sign * (sign * (middle * rows + half * inside)).max(axis=0)
        return totals

    slack = value.step * most * (0.5 + 2.0**-20) + (abs(middle) + half) * most * _OUTWARD
    return ValueBounds(Bounds(furthest(lower, -1.0) - slack, furthest(upper, 1.0) + slack), Bounds(*means))


def mean_ends(value: Value, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Means from parts of the way between the bounds, outward by half a step and by roundings."""
    width = value.high - value.low
    slack = value.step * (0.5 + 2.0**-20) + (abs(value.low) + abs(value.high)) * _OUTWARD
    return (
        np.maximum(value.low + width * first - slack, value.low),
        np.minimum(value.low + width * last + slack, value.high),
    )


def lowest_part(high: Floats, low: Floats, sets: int, scale: float, chance: float) -> Floats:
    """The least m of 0 to 1 that (1 - m)*high - m*low, too large by chance, does not contradict."""
    if high.size > _BLOCK:  # all cells of so many nodes are in memory at once
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
    found = np.where(first == 0, 0.0, (before + crossing) / _CELLS)
    return found * (1 - _OUTWARD)


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
    """What |first*X + second*Y| exceeds with at most this chance; X and Y are sums of so many unit Laplace numbers."""
    large, small = max(first, second), min(first, second)
    if large == 0:
        return 0.0
    ratio = small / large
    if sets > 1:
        moments = -sets * (np.log1p(-(_RATES**2)) + np.log1p(-((_RATES * ratio) ** 2)))
        return large * float(((math.log(2 / chance) + moments) / _RATES).min())

    def tail(reach: float) -> float:
        if ratio > 1 - 1e-4:  # as if they were equal, which is wider
            return (1 + reach / 2) * math.exp(-reach)
        faster = ratio**2 * math.exp(-reach / ratio) if ratio > 0 else 0.0
        return (math.exp(-reach) - faster) / (1 - ratio**2)

    below, above = 0.0, 4.0 + 2 * math.log(1 / chance)
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (below, middle) if tail(middle) <= chance else (middle, above)
    return large * above


@dataclass(frozen=True)
class OpenMeans:
    """Find cells, then measure pairs in the layers above them and centred sums of what each shown node holds alone."""

    known: KnownNodes
    levels: tuple[int, ...]
    parameters: PartitionParameters
    pairs: Fraction
    """What the layers of pairs may cost."""
    cells: Fraction
    """What the centred sums may cost."""
    values: tuple[Value, ...]
    shares: tuple[Fraction, ...]
    confidence: float

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """Known nodes, and nodes with a cell at or below them."""
        assert isinstance(data.counts, SparseCounts)
        found = Found.of(KnownPlaces.of(self.known, self.levels, data.counts), self.parameters)
        shown, nodes, wanted = found.shown, found.nodes, found.wanted
        everywhere = np.ones(shown.levels.size, dtype=np.bool_)
        rows = saturate.join(*found.people(everywhere, data.people))
        steps = [saturate.join(*found.people(everywhere, each)) for each in data.sums]
        sums = tuple(NodeSums(rows, each) for each in steps)
        estimates, bounds, values = self.describe(found, sums)
        cells = np.zeros(wanted.size, dtype=np.int64)
        cells[wanted] = np.rint(shown.totals(shown.is_cell.astype(np.float64)))
        if not wanted.all():
            estimates, bounds = fill_levels(nodes.levels, nodes.parents, wanted, estimates, bounds)
            values = tuple(each.spread(wanted) for each in values)
        return TreeRelease(
            data.counts.tree,
            estimates,
            bounds.lower,
            bounds.upper,
            self.confidence,
            statement,
            cells=cells,
            nodes=nodes,
            shown=None if wanted.all() else wanted,
            hidden=hidden_weight(self.parameters, self.levels, data.counts.tree.depth, 1 - self.confidence),
            values=values,
        )

    def describe(self, found: Found, sums: tuple[NodeSums, ...]) -> tuple[Floats, Bounds, tuple[NodeValues, ...]]:
        """Measures, and says what comes of it: counts with their intervals, then sums and means."""
        shown, miss = found.shown, 1 - self.confidence
        model = GapNoise.of(self.parameters, found.tops, shown)
        weights = (_ROOT, *(None,) * max(shown.depth - 2, 0))
        layers = choose_layers(shown, model.rest_variance(shown), self.pairs, self.pairs, weights=weights)
        scales = SumScales.of(layers, self.shares, self.cells)
        if scales.spent() > self.pairs + self.cells:
            raise AssertionError("layers must not cost more than was set aside for them")
        pairs, centred = measure_pairs(layers, scales, sums), measure_centred(shown, scales, sums)
        measured = counts_of_pairs(pairs)
        least = shown.totals(shown.is_cell.astype(np.float64))
        estimates = np.maximum(estimate_nodes(shown, measured, model), least)
        bounds = node_bounds(shown, layers, measured, self.parameters, found.tops, miss=miss)
        bounds = Bounds(np.minimum(bounds.lower, estimates), np.maximum(bounds.upper, estimates))
        rarely = node_bounds(shown, layers, measured, self.parameters, found.tops, miss=miss / 2)
        values = tuple(
            _told(
                value,
                estimates,
                estimate_centred(shown, part, alone),
                value_bounds(shown, value, part, alone, rarely, miss),
            )
            for value, part, alone in zip(self.values, pairs, centred, strict=True)
        )
        return estimates, bounds, values


@dataclass(frozen=True)
class PublicMeans:
    """Pairs at every node of a public tree, level by level, and least squares."""

    tree: Tree
    scales: tuple[tuple[float, ...], ...]
    """For each level and each value that of a pair's noise."""
    values: tuple[Value, ...]
    confidence: float

    @classmethod
    def of(
        cls,
        tree: Tree,
        epsilon: Fraction,
        weights: tuple[float, ...],
        values: tuple[Value, ...],
        shares: tuple[Fraction, ...],
        confidence: float,
    ) -> PublicMeans:
        """Scales at which all levels together cost at most epsilon, in proportion to their weights."""
        total = sum((Fraction(weight) for weight in weights), Fraction(0))
        scales = tuple(
            tuple(round_up(STEPS * total / (epsilon * Fraction(weight) * share)) for share in shares)
            for weight in weights
        )
        return cls(tree, scales, values, confidence)

    def spent(self) -> Fraction:
        """What all levels cost one row, exactly."""
        return sums_epsilon(1, pairs=[Fraction(scale) for level in self.scales for scale in level])

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """All nodes."""
        assert isinstance(data.counts, np.ndarray)
        rows = self._totals(data.people)
        pairs: list[list[Pairs]] = [[] for _ in self.values]
        for number, nodes in enumerate(self.tree.levels):
            for place, steps in enumerate(data.sums):
                part = NodeSums(rows[nodes], self._totals(steps)[nodes])
                pairs[place].append(noisy_pairs(nodes, nodes[:0], self.scales[number][place], part))
        estimates, bounds = self._counts(counts_of_pairs(pairs))
        values = tuple(
            _told(value, estimates, self._centred(part), self._bounds(value, part))
            for value, part in zip(self.values, pairs, strict=True)
        )
        return TreeRelease(self.tree, estimates, bounds.lower, bounds.upper, self.confidence, statement, values=values)

    def _totals(self, leaves: Ints) -> Ints:
        at = np.zeros(self.tree.node_count, dtype=np.int64)
        at[self.tree.leaves] = leaves
        return self.tree.sum_nodes(at)

    def _by_node(self, parts: list[Floats]) -> Floats:
        found = np.empty(self.tree.node_count)
        for nodes, part in zip(self.tree.levels, parts, strict=True):
            found[nodes] = part
        return found

    def _counts(self, measured: tuple[NoisySums, ...]) -> tuple[Floats, Bounds]:
        """Counts and their intervals, each from the node's own pairs."""
        noisy = self._by_node([np.asarray(part.sums) for part in measured])
        variances = self._by_node([np.full(part.nodes.size, part.variance) for part in measured])
        estimates = LeastSquares.of(self.tree, variances).solve(noisy)
        reach = self._by_node([np.full(part.nodes.size, self._reach(part)) for part in measured])
        lower, upper = np.maximum(noisy - reach, 0.0), np.maximum(noisy + reach, 0.0)
        return estimates, Bounds(np.minimum(lower, estimates), np.maximum(upper, estimates))

    def _reach(self, part: NoisySums) -> float:
        chance = (1 - self.confidence) / 2
        return float(sum_reach(np.array([part.terms]), part.right_scale, part.left_scale, chance)[0]) * part.unit

    def _centred(self, pairs: list[Pairs]) -> Floats:
        """Least squares of the centred sums, in half ranges."""
        variances = self._by_node([np.full(part.high.size, 4 * (part.scale / STEPS) ** 2) for part in pairs])
        noisy = self._by_node([(part.high - part.low) / STEPS for part in pairs])
        return LeastSquares.of(self.tree, variances).solve(noisy)

    def _bounds(self, value: Value, pairs: list[Pairs]) -> ValueBounds:
        size = self.tree.node_count
        union = Union(
            np.full(size, True),
            self._by_node([part.high.astype(np.float64) for part in pairs]),
            self._by_node([part.low.astype(np.float64) for part in pairs]),
            np.ones(size, dtype=np.int64),
            self._by_node([np.full(part.high.size, part.scale) for part in pairs]),
        )
        empty = Bounds(np.zeros(size), np.zeros(size))
        return pair_bounds(value, union, 1 - self.confidence, ValueBounds(empty, empty))


def _told(value: Value, counts: Floats, centred: Floats, bounds: ValueBounds) -> NodeValues:
    """Sums and means from counts and centred sums, with intervals that hold them."""
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2
    sums = middle * counts + half * centred
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of no rows at all, nothing is known but the bounds.
        ratio = np.where(counts > 0, centred / np.where(counts > 0, counts, 1.0), 0.0).clip(-1, 1)
    means = (middle + half * ratio).clip(value.low, value.high)
    return NodeValues(
        value.column,
        value.low,
        value.high,
        sums,
        np.minimum(bounds.sums.lower, sums),
        np.maximum(bounds.sums.upper, sums),
        means,
        np.minimum(bounds.means.lower, means),
        np.maximum(bounds.means.upper, means),
    )
