"""What the partition is told: scales and a shape. What they cost, and good ones for a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_positive, check_probability, check_scale
from opendp_tree.theorems.interval import Interval, exp, round_up
from opendp_tree.theorems.partition import stay_ratio
from opendp_tree.theorems.tree_partition import GapShape, gap_delta, gap_epsilon

__all__ = ["GapParameters", "choose_parameters"]

_EXACT_SHARE = 0.1
_FALSE_CELLS = 0.05
_PUBLIC_MARGIN = 3.0


@dataclass(frozen=True)
class GapParameters:
    """All that a run of the partition needs to know."""

    scale: float
    token_scale: float
    shape: GapShape

    def __post_init__(self) -> None:
        for name in ("scale", "token_scale"):
            if check_scale(getattr(self, name), name=name) > noise.LARGEST_SCALE:
                raise ValueError(f"{name} ({getattr(self, name)}) must be at most 2**50, or noise would not fit")
        if not isinstance(self.shape, GapShape):
            raise TypeError(f"shape ({type(self.shape).__name__}) must be a GapShape. Hint: GapShape.uniform")

    @property
    def is_pure(self) -> bool:
        """Whether no noise ends, so that delta is 0."""
        return all(radius is None for radius in self.shape.radii)

    def loss(self, d_in: int) -> tuple[float, float]:
        """Epsilon and delta of cells and gaps together at an L1 distance of counts, rounded up."""
        if d_in == 0:
            return 0.0, 0.0
        if self.scale == 0 or self.token_scale == 0:
            return math.inf, 1.0
        scale, token_scale = Fraction(self.scale), Fraction(self.token_scale)
        epsilon = gap_epsilon(scale, token_scale, self.shape) * d_in
        return round_up(epsilon), min(1.0, round_up(gap_delta(exp(-1 / scale), self.shape, k=d_in)))


def shown_levels(parameters: GapParameters) -> tuple[int, ...]:
    """The levels of a tree that an estimator shows: those that are tested, and the root's, whose total is measured."""
    return tuple(sorted({0, *parameters.shape.levels}))


def choose_parameters(
    depth: int,
    epsilon: float,
    delta: float,
    *,
    d_in: int = 1,
    public_nodes: int | None = None,
    exact_share: float = _EXACT_SHARE,
    false_cells: float = _FALSE_CELLS,
) -> GapParameters:
    """Parameters whose map at `d_in` is at most (epsilon, delta), close to both."""
    check_integer(depth, name="depth", least=1)
    check_probability(exact_share, name="exact_share")
    people = check_integer(d_in, name="d_in", least=1)
    each = check_positive(epsilon, name="epsilon") / people
    scale = round_up(1 / each)
    if scale > noise.LARGEST_SCALE / 2:
        raise ValueError(f"epsilon ({epsilon}) must be at least 2**-49 for each of {d_in}, or noise would not fit")
    radius = _least_radius(scale, depth, delta, people)
    threshold, every_node = math.inf if radius is None else radius + 1, False
    if public_nodes is not None:
        lowest = max(1, math.ceil(math.log(public_nodes / false_cells) * scale))
        if lowest <= threshold:
            threshold, radius, every_node = lowest, None, True
    if not math.isfinite(threshold):
        raise ValueError(f"delta ({delta}) must be above 0 where nodes are unknown. Hint: delta=1e-6, or a public tree")
    least = math.ceil(_PUBLIC_MARGIN * scale) if every_node else 0
    margin = min(int(threshold) - 1, max(least, _least_margin(scale, depth, exact_share)))
    shape = GapShape.uniform(depth, threshold=int(threshold), radius=radius, margin=margin, every_node=every_node)
    return _fitted(GapParameters(scale, scale, shape), epsilon, each, people)


def _least_radius(scale: float, depth: int, delta: float, people: int) -> int | None:
    """The least radius that keeps delta; None if there is none."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 <= delta < 1:
        raise ValueError(f"delta ({delta!r}) must be a number from 0 to below 1")
    if delta == 0:
        return None
    q = exp(-1 / Fraction(scale))

    def fits(radius: int) -> bool:
        shape = GapShape.uniform(depth, threshold=radius + 1, radius=radius, margin=0)
        return round_up(gap_delta(q, shape, k=people)) <= delta

    # Floats say where it is, to within one; the theorem's function decides.
    share = -math.expm1(math.log1p(-delta) / depth)
    spread = -math.expm1(-people / scale)
    guess = people - 1 + scale * math.log(spread / share + math.exp(-people / scale))
    radius = max(1, math.ceil(guess) - 1)
    step = 1
    while not fits(radius):
        radius, step = radius + step, 2 * step
    while radius > 1 and fits(radius - 1):
        radius -= 1
    return radius


def _least_margin(scale: float, depth: int, share: float) -> int:
    """The least margin at which the exact levels cost that share of epsilon, and a single one no more than a token."""
    rate = 1 / scale
    most = rate / 2 if depth == 1 else min(rate / 2, share * rate / (depth - 1))
    growth = math.expm1(min(most, 50.0))
    return max(0, math.ceil(scale * math.log1p(-math.expm1(-rate) / growth)) - 1)


def _fitted(found: GapParameters, epsilon: float, each: Fraction, people: int) -> GapParameters:
    """With the least token scale, to the last bits, that keeps epsilon."""
    shape = found.shape
    stay = stay_ratio(
        exp(-1 / Fraction(found.scale)),
        threshold=shape.thresholds[0],
        radius=shape.radii[0],
        margin=shape.margins[0],
    )
    left = Fraction((Interval.of(each) - stay.ln() * (shape.depth - 1)).lo)
    if left <= 0:
        raise ValueError("exact_share must leave something of epsilon to tokens. Hint: 0.1")
    found = replace(found, token_scale=round_up(1 / left))
    while found.loss(people)[0] > epsilon:  # by the last digit of an enclosure
        found = replace(
            found, scale=math.nextafter(found.scale, math.inf), token_scale=math.nextafter(found.token_scale, math.inf)
        )
    return found
