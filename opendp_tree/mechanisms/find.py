"""The partition with known nodes: its parameters, and the walk that finds cells.

Known nodes are public, the root among them. Each of them with the unknown nodes directly below it is a fringe, and the
fringes are independent. In a fringe, level by level from the leaves up, a node's count x is what its children pass up
and the people at the node itself; from L = T - A people on a token is taken off, then test noise is added; from T on it
is a *cell*, is released with the sum, its *gap*, and passes up nothing, and otherwise it passes up its blurred count.
What arrives at a known node is its *rest*, released with skewed noise. Proof: docs/proofs/partition.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Bools, Ints, Levels
from opendp_tree.theorems.interval import round_down, round_up
from opendp_tree.theorems.partition import Fringe, addition_epsilon, removal_delta, removal_epsilon
from opendp_tree.trees.occupied import Occupied, meets_between

NAMED = 9
"""Trees of at most so many levels, the root's with them, are measured level by level."""
_MARGIN = 0.011
"""What an exact count may cost per tested level, as a part of epsilon (of 1, if that is more)."""
_PURE_MARGIN = 3.0
"""The least margin of tests whose noise has no end, in scales."""
_LARGEST_RATE = 30.0
"""At a larger epsilon per level noise is 0, as good as surely, and nothing is left to balance."""


@dataclass(frozen=True)
class PartitionParameters:
    """The fringe of a known node of each level, the root's first, and what the layers may cost per direction."""

    fringes: tuple[Fringe, ...]
    alphas: Fraction
    betas: Fraction


def variance(scale: float) -> float:
    """Of a geometric number."""
    q = math.exp(-1 / scale) if scale > 0 else 0.0
    return q / (1 - q) ** 2


def mean(scale: float) -> float:
    """Of a geometric number."""
    return 1 / math.expm1(1 / scale) if scale > 1 / 700 else 0.0


def three_digits(value: Fraction) -> float:
    """The least number of three significant digits that is no less, so that noise of it is drawn from known tables."""
    power = math.floor(math.log10(value)) - 2
    unit = Fraction(10) ** power
    near = float(math.ceil(value / unit) * unit)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
def choose_parameters(
    depth: int, epsilon: Fraction, delta: Fraction, *, d_in: int = 1, measuring: float | None = None
) -> PartitionParameters:
    """Parameters for a tree of so many levels whose map at `d_in` is at most (epsilon, delta)."""
    levels, each = depth - 1, epsilon / d_in
    share = float(delta)
    test, added = _deep_slopes(depth) if depth > NAMED else _named_slopes(levels, float(each), share, d_in)
    if measuring is not None:  # in the same ratio, but for what each direction must keep for its layers
        both, most = 2 * (1 - measuring), 1 - 0.7 * measuring
        test = min(both * test / (test + added), most)
        added = both - test
    removal, addition = each * Fraction(round(test * 2**20), 2**20), each * Fraction(round(added * 2**20), 2**20)
    fringes = tuple(make_fringe(levels - known, removal, addition, each, delta, d_in) for known in range(depth))
    used = [max(Fraction(cost(fringe).hi) for fringe in fringes) for cost in (removal_epsilon, addition_epsilon)]
    # Floats, and a little less than is left, so that the sum is within epsilon however it is rounded.
    left = [Fraction(round_down((each - cost) * (1 - Fraction(1, 2**48)))) for cost in used]
    if min(left) <= 0:
        raise ValueError(
            f"epsilon ({float(epsilon)}) and measuring ({measuring}) leave too little for {depth} levels. "
            "Hint: a larger epsilon, or measuring=None"
        )
    return PartitionParameters(fringes, *left)


def even_parameters(
    depth: int, epsilon: Fraction, delta: Fraction, *, finding: Fraction, d_in: int = 1, silent: bool = False
) -> PartitionParameters:
    """Parameters with which finding takes one share of epsilon in both directions; silent: nothing counts rests."""
    each, levels = epsilon / d_in, depth - 1
    slope = each * finding
    fringes = tuple(make_fringe(levels - known, slope, slope, each, delta, d_in) for known in range(depth))
    if silent:
        fringes = tuple(replace(fringe, rest_scales=None) for fringe in fringes)
    used = max(Fraction(cost(fringe).hi) for fringe in fringes for cost in (removal_epsilon, addition_epsilon))
    left = Fraction(round_down((each - used) * (1 - Fraction(1, 2**48))))
    if left <= 0:
        raise ValueError(f"epsilon ({float(epsilon)}) is too small for {depth} levels. Hint: a larger epsilon")
    return PartitionParameters(fringes, left, left)


def closed_parameters(depth: int, epsilon: Fraction, *, d_in: int = 1) -> PartitionParameters:
    """Parameters where all nodes are known and closed: nothing is found, and delta is 0."""
    each = epsilon / d_in
    scale = Fraction(three_digits(max(depth - 1, 1) / each * (1 if depth > 2 else Fraction(21, 20))))
    fringe = Fringe((), (), (), scale, scale, (scale, scale))
    left = Fraction(round_down((each - 1 / scale) * (1 - Fraction(1, 2**48))))
    return PartitionParameters((fringe,) * depth, left, left)


def _deep_slopes(depth: int) -> tuple[float, float]:
    """What finding may cost per direction in a tree of many levels, as parts of epsilon."""
    return (0.6, 0.6) if depth <= 64 else (0.68, 0.68)


def _named_slopes(levels: int, epsilon: float, delta: float, people: int) -> tuple[float, float]:
    """The slopes of tests, and of tokens with exact counts, as parts of epsilon: the rule for trees of few levels.

    The least leaf threshold with which layers, each alone, are within kappa of a release of every level alone.
    """
    if levels <= 1:
        return 0.9, 0.9
    if epsilon / levels > _LARGEST_RATE or delta == 0:
        return 1 / levels, 1 / levels
    alone, share = 2 * variance(levels / epsilon), _leaf_share(levels)
    kappa = 1.015 if levels == 2 else min(1.01 + 0.04 * (levels - 2), 1.17)
    threshold = max(3, int(math.log(max(0.3 * epsilon / delta, 3.0)) / (0.75 * epsilon)))
    while True:
        threshold += max(1, threshold // 200)
        slope = max(_least_slope(threshold - 1, delta * share, people), epsilon / levels)
        left = alone - variance(1 / slope)
        if slope < 0.9 * epsilon and left > 0:
            token = max(_slope_of_variance(left), epsilon * (0.1 + 0.55 / levels) if levels > 2 else 0.0)
            exact = _MARGIN * min(epsilon, 1.0)
            each = (levels - 1) / (epsilon - slope), (levels - 1) / max(epsilon - exact - token, 1e-3 * epsilon)
            if sum(map(variance, each)) <= kappa**2 * alone:
                return slope / epsilon, (token + exact) / epsilon
        if slope == epsilon / levels:  # no larger threshold changes anything
            return 1 / levels, 1 / levels


def _leaf_share(levels: int) -> float:
    """The share of delta for the deepest test."""
    return {1: 1.0, 2: 0.95, 3: 0.93}.get(levels, 0.9) if levels < NAMED else 1 / levels


def _tail(slope: float, radius: int, people: int) -> float:
    """P(noise > radius - people) for geometric noise on 0..radius."""
    if people > radius:
        return 1.0
    power = math.exp(-slope * (radius - people + 1))
    return power * math.expm1(-slope * people) / math.expm1(-slope * (radius + 1))


def _least_slope(radius: int, delta: float, people: int) -> float:
    """The least slope with which a test of this radius loses at most delta."""
    low, high = 1e-12, 700.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _tail(middle, radius, people) > delta else (low, middle)
    return high


def _slope_of_variance(wanted: float) -> float:
    low, high = 1e-12, 700.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if variance(1 / middle) > wanted else (low, middle)
    return high


def make_fringe(
    levels: int, removal: Fraction, addition: Fraction, epsilon: Fraction, delta: Fraction, people: int
) -> Fringe:
    """A fringe of so many levels with at most these prices per person, and delta at `people`."""
    if min(removal, addition) * Fraction(noise.LARGEST_SCALE) < 2:
        raise ValueError(f"epsilon ({float(epsilon)}) is too small: noise of its scale cannot be drawn")
    scale = Fraction(three_digits(1 / removal))
    if levels == 0:
        return Fringe((), (), (), scale, scale, (scale, Fraction(three_digits(1 / addition))))
    slope, lost, share = 1 / float(scale), float(delta) * (1 - 1e-9), _leaf_share(levels)
    leaf = _least_radius(slope, lost * share, people)
    inner = leaf
    if levels > 1:
        left = (lost - _tail(slope, leaf, people)) / (levels - 1)
        inner = max(leaf, _least_radius(slope, left, people))
    while True:
        radii = (inner,) * (levels - 1) + (leaf,)
        margin = _least_margin(slope, leaf + 1, levels, float(epsilon))
        margins = tuple(radius - leaf + margin for radius in radii)
        thresholds = tuple(radius + 1 for radius in radii)
        free = Fringe(thresholds, radii, margins, scale, Fraction(1, 2**20), None)
        if Fraction(removal_delta(free, k=people).hi) <= delta:
            break
        leaf, inner = leaf + 1, inner + 1
    exact = Fraction(addition_epsilon(free).hi) - 2**20  # of all levels but the top one
    top = Fraction(addition_epsilon(Fringe(thresholds[:1], radii[:1], margins[:1], scale, scale, (scale, scale))).hi)
    token, rest = addition - exact, addition - exact - max(top - 1 / scale, Fraction(0))
    if rest <= 0:
        raise ValueError(f"epsilon ({float(epsilon)}) is too small for {levels + 1} levels. Hint: a larger epsilon")
    scales = [Fraction(three_digits(1 / each)) for each in (token, rest)]
    return Fringe(thresholds, radii, margins, scale, scales[0], (scale, scales[1]))


def _least_radius(slope: float, delta: float, people: int) -> int:
    """The least radius at which a test of this slope loses at most delta."""
    if delta <= 0:
        raise ValueError("delta must be above 0 where nodes are unknown. Hint: delta=1e-6, or a public tree")
    low, high = people - 1, max(people, 1)
    while _tail(slope, high, people) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _tail(slope, middle, people) <= delta else (middle, high)
    return max(high, 1)


def _least_margin(slope: float, threshold: int, levels: int, epsilon: float) -> int:
    """The least margin at which an exact count costs little per level."""
    most = _MARGIN * min(epsilon, 1.0) if levels < NAMED else min(slope / 2, 0.1 * slope / levels)
    growth = math.expm1(min(most, 50.0))
    margin = max(0, math.ceil(math.log1p(-math.expm1(-slope) / growth) / slope) - 1)
    return min(margin, threshold - 1)


@dataclass(frozen=True)
class Cells:
    """What finding releases: cells, each a node at a level at or above a place, with gaps; and known nodes' rests."""

    places: Ints
    levels: Ints
    gaps: Ints
    rests: Ints
    """For each known node, in the order of its place; none where known nodes are silent."""


def deepest_known(occupied: Occupied, known: Bools) -> Ints:
    """For each place the place of the deepest known node at or above it. Known nodes have places of their own."""
    owner = np.zeros(occupied.levels.size, dtype=np.int64)
    joins = np.concatenate(([-1], occupied.meets))
    for level in np.unique(occupied.levels[known]).tolist():
        if level == 0:
            continue
        begins = joins < level
        starts = np.flatnonzero(begins)
        here = known[starts] & (occupied.levels[starts] == level)
        group = np.cumsum(begins) - 1
        inside = here[group] & (occupied.levels >= level)
        owner[inside] = starts[group[inside]]
    return owner


def find_cells(occupied: Occupied, known: Bools, closed: Bools, parameters: PartitionParameters) -> Cells:
    """One run of the mechanism. The first place is the root's.

    Whoever is below a closed node and below none of its known children counts at the node itself.
    """
    depth = len(parameters.fringes)
    levels, counts = _compact(occupied.levels, depth), occupied.counts.clip(0, saturate.LIMIT)
    owner = deepest_known(occupied, known)
    tops = levels[owner]
    below = (levels > tops) & ~closed[owner]
    here = np.flatnonzero(~below)
    arrivals = [np.zeros(counts.size, dtype=np.int64) for _ in range(2)]
    _add(arrivals, owner[here], counts[here])
    found: list[tuple[Ints, Ints, Ints]] = []
    for top in np.flatnonzero(np.bincount(tops[below])).tolist():
        places = np.flatnonzero(below & (tops == top))
        walk = _Walk(
            levels[places] - (top + 1),
            _compact(_meets_of(occupied, places), depth) - (top + 1),
            counts[places],
            parameters.fringes[top],
        )
        heads, passed = walk.run()
        _add(arrivals, owner[places[heads]], passed)
        found += [(places[at], level + (top + 1), gaps) for at, level, gaps in walk.found]
    found.append((counts[:0], counts[:0], counts[:0]))
    at, level, gaps = (np.concatenate(parts) for parts in zip(*found, strict=True))
    arrived = saturate.join(*(part[known] for part in arrivals))
    rests = _noisy_rests(np.flatnonzero(known), levels, closed, arrived, parameters)
    return Cells(at, level, gaps, rests)


def _compact(levels: Levels, depth: int) -> Levels:
    """The same levels in few bytes, with room for sums of two: by the public depth, so that no row decides."""
    return levels.astype(np.int16 if depth < 2**14 else np.int64)


def _meets_of(occupied: Occupied, places: Ints) -> Levels:
    """The level of the deepest node that holds each of some distinct places and the next of them."""
    first, last = int(places[0]), int(places[-1])
    without_gaps = last - first + 1 == places.size
    return occupied.meets[first:last] if without_gaps else meets_between(occupied.meets, places)


def find_in_fringe(occupied: Occupied, tested: tuple[int, ...], fringe: Fringe) -> tuple[Ints, Ints, Ints]:
    """Places, levels and gaps of cells where no node is known and these levels of the tree are the fringe's.

    Where a radius is None every node must be at or above a place, whether anybody is there or not.
    """
    if occupied.counts.size == 0:
        return (occupied.counts,) * 3
    # What is at or meets at a level that is not tested does so at the next tested one above.
    rows = np.searchsorted(tested, np.arange(int(occupied.levels.max()) + 1), side="right") - 1
    rows = _compact(rows, len(tested))
    walk = _Walk(rows[occupied.levels], rows[occupied.meets], occupied.counts.clip(0, saturate.LIMIT), fringe)
    walk.run()
    found = [*walk.found, (occupied.counts[:0],) * 3]
    places, levels, gaps = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return places, np.array(tested)[levels], gaps


def pure_fringe(levels: int, epsilon: Fraction, *, nodes: int, false_cells: float) -> Fringe:
    """A silent fringe of noise without end, for `nodes` public nodes; expects at most so many cells of nobody."""
    scale = Fraction(round_up(1 / epsilon))
    threshold = max(1, math.ceil(math.log(nodes / false_cells) * scale))
    margin = max(math.ceil(_PURE_MARGIN * scale), _least_margin(1 / float(scale), threshold, levels, float(epsilon)))
    numbers = (threshold,) * levels, (None,) * levels, (min(margin, threshold - 1),) * levels
    free = Fringe(*numbers, scale, Fraction(1, 2**20), None)
    exact = Fraction(addition_epsilon(free).hi) - 2**20  # of all levels but the top one
    return replace(free, token_scale=Fraction(round_up(1 / (epsilon - exact))))


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
    """Places of one kind of fringe form groups, which merge where their branches meet.

    Levels are those of the fringe, its top one 0. A chain of nodes on which nothing branches is tested at once: the
    number of tests until the first cell is drawn, and then the cell's noise given that it sufficed.
    """

    def __init__(self, levels: Ints, meets: Levels, counts: Ints, fringe: Fringe) -> None:
        self._fringe, self._meets, self._base, self._held = fringe, meets, levels.copy(), counts
        self._largest = np.zeros_like(counts)  # that one child passed up
        self._end, self._start = np.arange(counts.size), np.arange(counts.size)
        self._blur = np.array([threshold - margin for threshold, _, margin in fringe.levels])
        self._bands = _bands(fringe)
        self._scale, self._token_scale = float(fringe.test_scale), float(fringe.token_scale)
        self.found: list[tuple[Ints, Ints, Ints]] = []

    def run(self) -> tuple[Ints, Ints]:
        """The first places of the fringes' topmost nodes, and what these pass up."""
        for level, boundaries in _deepest_first(self._meets):
            self._merge(level, boundaries)
        heads = np.append(0, np.flatnonzero(self._meets < 0) + 1)
        return heads, self._climb(heads, -1)[0]

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
        """Test each group's chain of nodes below `top`: what it passes up, and what of that comes from a child."""
        has_chain = self._base[groups] > top
        if has_chain.all():
            passed = self._test(groups, top)
            return passed, passed
        passed, by_child = self._held[groups], self._largest[groups]
        chains = np.flatnonzero(has_chain)
        if chains.size:
            by_child[chains] = passed[chains] = self._test(groups[chains], top)
        return passed, by_child

    def _test(self, groups: Ints, top: int) -> Ints:
        """What each chain passes up: nothing from its first cell on, and else its blurred count."""
        base = self._base[groups]
        blurred, level = self._held[groups], self._blur[base]
        large = np.flatnonzero(blurred >= level)
        if large.size:
            token = np.minimum(noise.geometric(self._token_scale, large.size), saturate.LIMIT)
            least = np.maximum(level[large] - 1, self._largest[groups[large]])
            blurred[large] = np.maximum(blurred[large] - token, least)
        for low, high, threshold, radius in self._bands:
            if high <= top:
                break
            start = np.minimum(base, high)
            room = start - max(top, low - 1)
            # Below threshold - radius nobody is shown and no noise is drawn; a group of none, once a cell, is there.
            least = 0 if radius is None else threshold - radius
            tested = np.flatnonzero((room > 0) & (blurred >= least))
            if tested.size:
                cells, wait, gap = self._first_cells(blurred[tested], room[tested], threshold, radius)
                cells = tested[cells]
                self.found.append((groups[cells], start[cells] - wait + 1, gap))
                blurred[cells] = 0
        return blurred

    def _first_cells(self, blurred: Ints, room: Ints, threshold: int, radius: int | None) -> tuple[Ints, Ints, Ints]:
        """Which chains have a cell, after how many tests, and its gap."""
        limit = int(room.max())
        if radius is None or limit == 1:
            gap = saturate.add(blurred, _test_noise(self._scale, radius, blurred.size))
            cells = np.flatnonzero(gap >= threshold)
            return cells, room[cells], gap[cells]
        missing = np.maximum(threshold - blurred, 0)
        wait = np.ones(blurred.size, dtype=np.int64)
        lacking = np.flatnonzero(missing > 0)
        if lacking.size:
            wait[lacking] = noise.first_reach(self._scale, radius, missing[lacking], limit=limit)
        cells = np.flatnonzero(wait <= room)
        gap = saturate.add(blurred[cells], noise.truncated_geometric_from(self._scale, radius, missing[cells]))
        return cells, wait[cells], gap


def _test_noise(scale: float, radius: int | None, size: int) -> Ints:
    return noise.geometric(scale, size) if radius is None else noise.truncated_geometric(scale, radius, size)


def _bands(fringe: Fringe) -> list[tuple[int, int, int, int | None]]:
    """Levels in a row that share a threshold and a radius, the deepest first: low, high, threshold, radius.

    Each level is alone where noise may have no end: above a cell it may show a node that nobody is left at.
    """
    bands, low, alone = [], 0, None in fringe.radii
    for (threshold, radius, _), run in groupby(
        (threshold, radius, alone and level) for level, (threshold, radius, _) in enumerate(fringe.levels)
    ):
        high = low + len(list(run)) - 1
        bands.append((low, high, threshold, radius))
        low = high + 1
    return bands[::-1]


def _deepest_first(meets: Levels) -> Iterator[tuple[int, Ints]]:
    """The levels at which groups meet, from the deepest up, each with the boundaries that do."""
    boundaries = np.flatnonzero(meets >= 0)
    if boundaries.size == 0:
        return
    levels = meets[boundaries]
    small = levels.astype(np.uint16) if levels.max() < 2**16 else levels  # sorted by radix
    ordered = boundaries[np.argsort(small, kind="stable")]
    ends = np.cumsum(np.bincount(small)).tolist()
    for level, (start, end) in reversed(list(enumerate(pairwise([0, *ends])))):
        if start < end:
            yield level, ordered[start:end]
