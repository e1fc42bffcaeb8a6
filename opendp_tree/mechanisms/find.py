"""The partition with known nodes: its parameters, and the walk that finds cells.

Known nodes, the root among them, are public. A known node and the unknown nodes whose lowest known ancestor it is form
a *fringe*; fringes are independent. In a fringe, from the leaves up, a node's count x is what its children pass up plus
the people at the node itself. If x is at least L = T - A, a token is subtracted. If the result plus test noise reaches
T, the node is a *cell*: it is released with that sum, its *gap*, and passes up 0. Otherwise it passes up the result.
What arrives at a known node is its *rest*, released with skewed noise. Proof: docs/proofs/partition.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Bools, Ints, Levels
from opendp_tree.budget import NO_DELTA
from opendp_tree.theorems.interval import bisect, least_whole, round_down, round_up
from opendp_tree.theorems.partition import Fringe, addition_epsilon, estimator_loss, removal_delta, removal_epsilon
from opendp_tree.trees.nodes import Occupied, meets_between

NAMED = 9
"""Trees of at most this many levels, including the root's, are measured level by level."""
_MARGIN = 0.011
"""What an exact count may cost per tested level, as a share of min(epsilon, 1)."""
_PURE_MARGIN = 3.0
"""The smallest margin of tests with unbounded noise, in scales."""
_LARGEST_RATE = 30.0
"""At a larger epsilon per level noise is almost surely 0, and there is nothing to balance."""
_FREE = Fraction(1, 2**20)
"""A token scale whose slope dominates `addition_epsilon`, so that the other terms are the difference."""


@dataclass(frozen=True)
class PartitionParameters:
    """The fringe of a known node of each level, the root's first, and the layers' budget per direction."""

    fringes: tuple[Fringe, ...]
    alphas: Fraction
    betas: Fraction

    @classmethod
    def of(cls, fringes: Sequence[Fringe], epsilon: Fraction, d_in: int, *, even: bool = False) -> PartitionParameters:
        """Layers get what the fringes leave of epsilon; with `even`, the same amount in both directions."""
        each = epsilon / d_in
        used = [max(Fraction(cost(fringe).hi) for fringe in fringes) for cost in (removal_epsilon, addition_epsilon)]
        if even:
            used = [max(used)] * 2
        # Floats, and a little less than is left, so that the sum is within epsilon however it is rounded.
        left = [Fraction(round_down((each - cost) * (1 - Fraction(1, 2**48)))) for cost in used]
        if min(left) <= 0:
            raise ValueError(
                f"epsilon ({float(epsilon)}) is too small to measure {len(fringes)} levels after finding nodes. "
                "Hint: a larger epsilon, or a larger measuring"
            )
        return cls(tuple(fringes), *left)

    @lru_cache(maxsize=256)  # noqa: B019 - parameters are few, and small
    def loss(self, people: int) -> tuple[float, float]:
        """Epsilon and delta at a distance, rounded up."""
        epsilon, delta = estimator_loss(self.fringes, alphas=self.alphas, betas=self.betas, k=people)
        return round_up(epsilon), min(1.0, round_up(delta))


def variance(scale: float) -> float:
    """Of a geometric number."""
    return math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2 if scale > 0 else 0.0


def mean(scale: float) -> float:
    """Of a geometric number."""
    return 1 / math.expm1(1 / scale) if scale > 1 / 700 else 0.0


def three_digits(value: Fraction, *, more: int = 0) -> float:
    """The value rounded up to three significant digits, or some more, so that tables of noise are reused."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 2 - more)
    near = float(math.ceil(value / unit) * unit)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
def choose_parameters(
    depth: int, epsilon: Fraction, delta: Fraction, *, d_in: int = 1, measuring: float | None = None
) -> PartitionParameters:
    """Parameters for a tree of this depth whose map at `d_in` is at most (epsilon, delta)."""
    each = epsilon / d_in
    test, added = _slopes(depth - 1, float(each), float(delta), d_in)
    if measuring is not None:  # in the same ratio, but each direction keeps something for its layers
        both, limit = 2 * (1 - measuring), 1 - 0.7 * measuring
        test = min(both * test / (test + added), limit)
        added = both - test
    removal, addition = (each * Fraction(round(slope * 2**20), 2**20) for slope in (test, added))
    fringes = [make_fringe(levels, removal, addition, each, delta, d_in) for levels in reversed(range(depth))]
    return PartitionParameters.of(fringes, epsilon, d_in)


def even_parameters(
    depth: int, epsilon: Fraction, delta: Fraction, *, finding: Fraction, d_in: int = 1, silent: bool = False
) -> PartitionParameters:
    """Parameters whose fringes take the same share of epsilon in both directions; silent: rests are not released."""
    each, slope = epsilon / d_in, epsilon / d_in * finding
    fringes = [make_fringe(levels, slope, slope, each, delta, d_in) for levels in reversed(range(depth))]
    if silent:
        fringes = [replace(fringe, rest_scales=None) for fringe in fringes]
    return PartitionParameters.of(fringes, epsilon, d_in, even=True)


def closed_parameters(depth: int, epsilon: Fraction, *, d_in: int = 1) -> PartitionParameters:
    """Parameters where all nodes are known and closed: nothing is found, and delta is 0."""
    scale = Fraction(three_digits(max(depth - 1, 1) * d_in / epsilon * (1 if depth > 2 else Fraction(21, 20))))
    return PartitionParameters.of([Fringe((), (), (), scale, scale, (scale, scale))] * depth, epsilon, d_in)


def public_parameters(depth: int, epsilon: Fraction, *, d_in: int = 1) -> PartitionParameters:
    """Parameters of a public tree: nothing is found, no rest is counted, and layers take all of epsilon."""
    silent = Fringe((), (), (), Fraction(1), Fraction(1), None)
    return PartitionParameters.of([silent] * depth, epsilon, d_in)


def _slopes(levels: int, epsilon: float, delta: float, people: int) -> tuple[float, float]:
    """Slopes of tests and of tokens, as shares of epsilon: the least threshold with which layers are within kappa."""
    if levels >= NAMED - 1:  # no release of every level alone is near, so small nodes and large cells decide
        slope = 0.5 if levels < NAMED else 0.65 if levels < 64 else 0.68
        return slope, slope
    if levels <= 1:
        return 0.9, 0.9
    if epsilon / levels > _LARGEST_RATE or delta == 0:
        return 1 / levels, 1 / levels
    alone, share = 2 * variance(levels / epsilon), _leaf_share(levels)
    kappa = 1.015 if levels == 2 else min(1.01 + 0.04 * (levels - 2), 1.17)
    threshold = max(3, int(math.log(max(0.3 * epsilon / delta, 3.0)) / (0.75 * epsilon)))
    while True:
        threshold += max(1, threshold // 200)
        tail = partial(_tail, radius=threshold - 1, people=people)
        slope = max(_least_slope(tail, delta * share), epsilon / levels)
        left = alone - variance(1 / slope)
        if slope < 0.9 * epsilon and left > 0:
            token = _least_slope(lambda at: variance(1 / at), left)
            token = max(token, epsilon * (0.1 + 0.55 / levels) if levels > 2 else 0.0)
            exact = _MARGIN * min(epsilon, 1.0)
            each = (levels - 1) / (epsilon - slope), (levels - 1) / max(epsilon - exact - token, 1e-3 * epsilon)
            if sum(map(variance, each)) <= kappa**2 * alone:
                return slope / epsilon, (token + exact) / epsilon
        if slope == epsilon / levels:  # no larger threshold changes anything
            return 1 / levels, 1 / levels


def _least_slope(falling: Callable[[float], float], limit: float) -> float:
    """The smallest slope at which a decreasing function is at most a limit."""
    return bisect(lambda at: falling(at) <= limit, 1e-20, 700.0, middle=lambda low, high: math.sqrt(low * high))


def _leaf_share(levels: int) -> float:
    """The share of delta for the deepest test."""
    return {1: 1.0, 2: 0.95, 3: 0.93}.get(levels, 0.9) if levels < NAMED else 1 / levels


def _tail(slope: float, radius: int, people: int) -> float:
    """P(noise > radius - people) for geometric noise on 0..radius."""
    if people > radius:
        return 1.0
    power = math.exp(-slope * (radius - people + 1))
    return power * math.expm1(-slope * people) / math.expm1(-slope * (radius + 1))


def make_fringe(
    levels: int, removal: Fraction, addition: Fraction, epsilon: Fraction, delta: Fraction, people: int
) -> Fringe:
    """A fringe with this many levels that costs a person at most these slopes, and at most delta at `people`."""
    if min(removal, addition) * Fraction(noise.LARGEST_SCALE) < 2:
        raise ValueError(f"epsilon ({float(epsilon)}) is too small: noise of its scale cannot be drawn")
    scale = Fraction(three_digits(1 / removal))
    if levels == 0:
        return Fringe((), (), (), scale, scale, (scale, Fraction(three_digits(1 / addition))))
    slope, lost = 1 / float(scale), float(delta) * (1 - 1e-9)
    inner = leaf = _least_radius(slope, lost * _leaf_share(levels), people)
    if levels > 1:
        left = (lost - _tail(slope, leaf, people)) / (levels - 1)
        inner = max(leaf, _least_radius(slope, left, people))
    while True:
        radii = (inner,) * (levels - 1) + (leaf,)
        margin = _least_margin(slope, leaf + 1, levels, float(epsilon))
        thresholds, margins = tuple(radius + 1 for radius in radii), tuple(radius - leaf + margin for radius in radii)
        free = Fringe(thresholds, radii, margins, scale, _FREE, None)
        if removal_delta(free, k=people).hi <= delta:  # as a fraction, a tiny one would have billions of digits
            break
        leaf, inner = leaf + 1, inner + 1
    exact = Fraction(addition_epsilon(free).hi) - 1 / _FREE  # of all levels but the top one
    top = Fraction(addition_epsilon(Fringe(thresholds[:1], radii[:1], margins[:1], scale, scale, (scale, scale))).hi)
    token, rest = addition - exact, addition - exact - max(top - 1 / scale, Fraction(0))
    if rest <= 0:
        raise ValueError(f"epsilon ({float(epsilon)}) is too small for {levels + 1} levels. Hint: a larger epsilon")
    token_scale, rest_scale = (Fraction(three_digits(1 / each)) for each in (token, rest))
    return replace(free, token_scale=token_scale, rest_scales=(scale, rest_scale))


def pure_fringe(levels: int, epsilon: Fraction, *, nodes: int, false_cells: float) -> Fringe:
    """A silent fringe of unbounded noise for `nodes` public nodes, with at most `false_cells` empty cells expected."""
    scale = Fraction(round_up(1 / epsilon))
    threshold = max(1, math.ceil(math.log(nodes / false_cells) * scale))
    margin = max(math.ceil(_PURE_MARGIN * scale), _least_margin(1 / float(scale), threshold, levels, float(epsilon)))
    numbers = (threshold,) * levels, (None,) * levels, (min(margin, threshold - 1),) * levels
    free = Fringe(*numbers, scale, _FREE, None)
    exact = Fraction(addition_epsilon(free).hi) - 1 / _FREE
    return replace(free, token_scale=Fraction(round_up(1 / (epsilon - exact))))


def _least_radius(slope: float, delta: float, people: int) -> int:
    """The smallest radius at which a test of this slope loses at most delta."""
    if delta <= 0:
        raise ValueError(NO_DELTA)
    return least_whole(lambda radius: _tail(slope, radius, people) <= delta)


def _least_margin(slope: float, threshold: int, levels: int, epsilon: float) -> int:
    """The smallest margin at which an exact count costs little per level."""
    limit = _MARGIN * min(epsilon, 1.0) if levels < NAMED else min(slope / 2, 0.1 * slope / levels)
    growth = math.expm1(min(limit, 50.0))
    margin = max(0, math.ceil(math.log1p(-math.expm1(-slope) / growth) / slope) - 1)
    return min(margin, threshold - 1)


def deepest_known(occupied: Occupied, known: Bools) -> Ints:
    """For each place the place of the deepest known node at or above it; each known node has its own place."""
    owner = np.zeros(occupied.levels.size, dtype=np.int64)
    joins = np.concatenate(([-1], occupied.meets))
    for level in np.unique(occupied.levels[known]).tolist()[1:]:  # the first is the root's
        begins = joins < level
        starts = np.flatnonzero(begins)
        here = known[starts] & (occupied.levels[starts] == level)
        group = np.cumsum(begins) - 1
        inside = here[group] & (occupied.levels >= level)
        owner[inside] = starts[group[inside]]
    return owner


def find_cells(
    occupied: Occupied, known: Bools, closed: Bools, parameters: PartitionParameters
) -> tuple[Ints, Ints, Ints, Ints]:
    """One run of the mechanism: places, levels and gaps of cells, and the noisy rests of known nodes unless silent.

    The first place is the root's. People below a closed node but below none of its known children count at that node.
    """
    depth = len(parameters.fringes)
    levels, counts = _compact(occupied.levels, depth), occupied.counts.clip(0, saturate.LIMIT)
    owner = deepest_known(occupied, known)
    tops = levels[owner]
    below = (levels > tops) & ~closed[owner]
    here, arrivals = np.flatnonzero(~below), [np.zeros(counts.size, dtype=np.int64) for _ in range(2)]
    _add(arrivals, owner[here], counts[here])
    found: list[tuple[Ints, Ints, Ints]] = [(counts[:0],) * 3]
    for top in np.flatnonzero(np.bincount(tops[below])).tolist():
        places = np.flatnonzero(below & (tops == top))
        first, last = int(places[0]), int(places[-1])
        is_range = last - first + 1 == places.size
        meets = _compact(occupied.meets[first:last] if is_range else meets_between(occupied.meets, places), depth)
        walk = _Walk(levels[places] - (top + 1), meets - (top + 1), counts[places], parameters.fringes[top])
        heads, passed, (at, level, gaps) = walk.run()
        _add(arrivals, owner[places[heads]], passed)
        found.append((places[at], level + (top + 1), gaps))
    arrived = saturate.join(*(half[known] for half in arrivals))
    return *_joined(found), _noisy_rests(np.flatnonzero(known), levels, closed, arrived, parameters)


def _joined(found: list[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
    places, levels, gaps = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return places, levels, gaps


def _compact(levels: Levels, depth: int) -> Levels:
    """The same levels in few bytes; the public depth decides on the type, not the data."""
    return levels.astype(np.int16 if depth < 2**14 else np.int64)


def find_in_fringe(occupied: Occupied, tested: tuple[int, ...], fringe: Fringe) -> tuple[Ints, Ints, Ints]:
    """Places, levels and gaps of cells where no node is known and the `tested` levels of the tree are the fringe's.

    Where a radius is None, every node must be at or above a place, even if it is empty.
    """
    if occupied.counts.size == 0:
        return (occupied.counts,) * 3
    # A level that is not tested is merged into the next tested level above it.
    rows = np.searchsorted(tested, np.arange(int(occupied.levels.max()) + 1), side="right") - 1
    rows = _compact(rows, len(tested))
    counts = occupied.counts.clip(0, saturate.LIMIT)
    places, levels, gaps = _Walk(rows[occupied.levels], rows[occupied.meets], counts, fringe).run()[2]
    return places, np.array(tested)[levels], gaps


def _add(sums: list[Ints], at: Ints, values: Ints) -> None:
    for part, half in zip(sums, saturate.split(values), strict=True):
        np.add.at(part, at, half)


def _noisy_rests(places: Ints, levels: Ints, closed: Bools, arrivals: Ints, parameters: PartitionParameters) -> Ints:
    """The rests of known nodes with their fringes' noise."""
    if parameters.fringes[0].rest_scales is None:
        return places[:0]
    kinds = np.where(closed[places], len(parameters.fringes) - 1, levels[places])
    rests = np.zeros(places.size, dtype=np.int64)
    for kind in np.unique(kinds).tolist():
        here, scales = np.flatnonzero(kinds == kind), parameters.fringes[kind].rest_scales
        assert scales is not None
        drawn = noise.skewed_geometric(float(scales[0]), float(scales[1]), here.size)
        rests[here] = saturate.add(arrivals[here], drawn)
    return rests


class _Walk:
    """Groups of places in one kind of fringe, which merge where their branches meet; the fringe's top level is 0.

    A chain of nodes on which nothing branches is tested at once: the number of tests until the first cell is drawn,
    and then the cell's noise given that it sufficed.
    """

    def __init__(self, levels: Ints, meets: Levels, counts: Ints, fringe: Fringe) -> None:
        self._meets, self._base, self._held = meets, levels.copy(), counts
        self._largest = np.zeros_like(counts)  # that one child passed up
        self._end, self._start = np.arange(counts.size), np.arange(counts.size)
        self._blur = np.array([threshold - margin for threshold, _, margin in fringe.levels])
        self._bands = _bands(fringe)
        self._scale, self._token_scale = float(fringe.test_scale), float(fringe.token_scale)
        self._cells: list[tuple[Ints, Ints, Ints]] = [(counts[:0],) * 3]

    def run(self) -> tuple[Ints, Ints, tuple[Ints, Ints, Ints]]:
        """The first places of the fringes' topmost nodes, what these pass up, and cells: places, levels, gaps."""
        boundaries = np.flatnonzero(self._meets >= 0)
        levels = self._meets[boundaries]
        boundaries, numbers = boundaries[np.argsort(levels, kind="stable")], np.bincount(levels)
        ends = np.cumsum(numbers)
        for level in np.flatnonzero(numbers)[::-1].tolist():
            self._merge(level, boundaries[ends[level] - numbers[level] : ends[level]])
        heads = np.append(0, np.flatnonzero(self._meets < 0) + 1)
        return heads, self._climb(heads, -1)[0], _joined(self._cells)

    def _merge(self, level: int, boundaries: Ints) -> None:
        """Form the nodes of one level at which groups meet, at the given boundaries between places."""
        left, right = self._start[boundaries], boundaries + 1
        is_head = np.append(True, left[1:] != right[:-1])
        slots = np.arange(boundaries.size) + np.cumsum(is_head)
        firsts = slots[is_head] - 1
        members = np.empty(boundaries.size + firsts.size, dtype=np.int64)
        members[slots], members[firsts] = right, left[is_head]
        lasts = np.append(firsts[1:], members.size)
        passed, by_child = self._climb(members, level)
        heads, ends = members[firsts], self._end[members[lasts - 1]]
        self._held[heads] = saturate.range_sums(passed, firsts, lasts)
        self._largest[heads] = np.maximum.reduceat(by_child, firsts)
        self._base[heads] = level
        self._end[heads], self._start[ends] = ends, heads

    def _climb(self, groups: Ints, top: int) -> tuple[Ints, Ints]:
        """Test each group's nodes below `top`: what the group passes up, and the most of it that is one child's.

        A group that begins at `top` is not a node yet: its people are at the node that is formed there.
        """
        base, passed, largest = self._base[groups], self._held[groups], self._largest[groups]
        blur, is_node = self._blur[base], base > top
        large = np.flatnonzero(is_node & (passed >= blur))
        if large.size:
            token = np.minimum(noise.geometric(self._token_scale, large.size), saturate.LIMIT)
            passed[large] = np.maximum(passed[large] - token, np.maximum(blur[large] - 1, largest[large]))
        for low, high, threshold, radius in self._bands:
            if high <= top:
                break
            start = np.minimum(base, high)
            tests = start - max(top, low - 1)
            # Below threshold - radius nothing can become a cell, so no noise is drawn: cells passed up 0.
            least = 0 if radius is None else threshold - radius
            tested = np.flatnonzero((tests > 0) & (passed >= least))
            if tested.size:
                cells, wait, gap = self._first_cells(passed[tested], tests[tested], threshold, radius)
                cells = tested[cells]
                self._cells.append((groups[cells], start[cells] - wait + 1, gap))
                passed[cells] = 0
        return passed, np.where(is_node, passed, largest)

    def _first_cells(self, counts: Ints, tests: Ints, threshold: int, radius: int | None) -> tuple[Ints, Ints, Ints]:
        """Which chains have a cell, after how many tests, and its gap."""
        limit = int(tests.max())
        if radius is None or limit == 1:
            size, scale = counts.size, self._scale
            drawn = noise.geometric(scale, size) if radius is None else noise.truncated_geometric(scale, radius, size)
            gap = saturate.add(counts, drawn)
            cells = np.flatnonzero(gap >= threshold)
            return cells, tests[cells], gap[cells]
        missing = np.maximum(threshold - counts, 0)
        wait = np.ones(counts.size, dtype=np.int64)
        lacking = np.flatnonzero(missing > 0)
        wait[lacking] = noise.first_reach(self._scale, radius, missing[lacking], limit=limit)
        cells = np.flatnonzero(wait <= tests)
        gap = saturate.add(counts[cells], noise.truncated_geometric_from(self._scale, radius, missing[cells]))
        return cells, wait[cells], gap


def _bands(fringe: Fringe) -> list[tuple[int, int, int, int | None]]:
    """Levels in a row that share a threshold and a radius, the deepest first: low, high, threshold, radius.

    Each level is a band of its own where noise is unbounded, which may show a node above a cell with nobody left.
    """
    tests = [(threshold, radius) for threshold, radius, _ in fringe.levels]
    alone = None in fringe.radii
    lows = [level for level, test in enumerate(tests) if alone or level == 0 or test != tests[level - 1]]
    return [(low, end - 1, *tests[low]) for low, end in pairwise([*lows, len(tests)])][::-1]
