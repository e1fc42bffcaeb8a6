"""How a budget is spent on people with many rows: what finds nodes, and the noise of each layer.

Nothing here sees data. What is chosen, is chosen by the predicted noise; what it costs, the theorems say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from opendp_tree.budget import Budget
from opendp_tree.mechanisms.partition.layers import SHARES, default_measuring
from opendp_tree.mechanisms.partition.parameters import GapParameters, choose_parameters
from opendp_tree.mechanisms.people.weights import UNITS
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.theorems.interval import Interval, exp, round_down, round_up
from opendp_tree.theorems.people_layers import (
    layer_l1,
    layer_l2_squared,
    layers_epsilon,
    layers_rho,
    zcdp_epsilon_at,
)
from opendp_tree.theorems.tree_partition import gap_delta, gap_epsilon

MEASURING = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Shares of epsilon that may measure, from which the one of least predicted error is taken."""
GAUSSIAN_DELTA = Fraction(1, 2)
"""Of delta, what Gaussian layers take where nodes must be found as well."""
_LESS = 1 - Fraction(1, 2**40)
"""Scales are made for a little less than the budget, so that rounding them up keeps it."""


@dataclass(frozen=True)
class PeopleDesign:
    """All that is decided before data."""

    count: str
    most: tuple[int, ...]
    noise: str
    scales: tuple[float, ...] | None
    cells: GapParameters | None
    measuring: Fraction = Fraction(0)
    layer_delta: Fraction = Fraction(0)
    units: int = UNITS

    @property
    def adds_up(self) -> bool:
        """Whether a node counts what its children count, and no more."""
        return self.count != "people" and len(set(self.most)) == 1

    def epsilon(self, people: int) -> Fraction | Interval:
        """The epsilon of all layers for so many people, where they have one of their own."""
        if self.scales is None:
            return people * self.measuring
        distances = [layer_l1(people, most=most, units=self.units) for most in self.most]
        return layers_epsilon(distances, scales=[Fraction(scale) for scale in self.scales])

    def rho(self, people: int) -> Fraction:
        """The rho of Gaussian layers for so many people."""
        assert self.scales is not None
        squares = [layer_l2_squared(people, most=most, units=self.units) for most in squared_bounds(self)]
        return layers_rho(squares, scales=[Fraction(scale) for scale in self.scales])

    def loss(self, people: int) -> tuple[float, float]:
        """What everything costs so many people: epsilon and delta; or rho and 0 for Gaussian noise on public nodes."""
        if people == 0:
            return 0.0, 0.0
        if self.cells is None:
            return round_up(self.rho(people) if self.noise == "gaussian" else self.epsilon(people)), 0.0
        scale, token_scale = Fraction(self.cells.scale), Fraction(self.cells.token_scale)
        found = gap_epsilon(scale, token_scale, self.cells.shape) * people
        lost = gap_delta(exp(-1 / scale), self.cells.shape, k=people)
        if self.noise == "laplace":
            return round_up(found + Interval.of(self.epsilon(people))), min(1.0, round_up(lost))
        rho = self.rho(people)
        measured = zcdp_epsilon_at(rho, self.layer_delta, order=best_order(float(rho), float(self.layer_delta)))
        return round_up(found + measured), min(1.0, round_up(lost + Interval.of(self.layer_delta)))

    def deviations(self) -> tuple[float, ...]:
        """The predicted standard deviation of each shown level's noise, in what is counted."""
        if self.scales is None:
            even = len(self.most) / float(self.measuring)
            return (math.sqrt(2) * even,) * len(self.most)
        variance = laplace_variance if self.noise == "laplace" else gaussian_variance
        return tuple(math.sqrt(variance(scale)) / self.units for scale in self.scales)


def squared_bounds(design: PeopleDesign) -> tuple[int, ...]:
    """The squares of what one person weighs at most: people are bounded by these, rows and shares by their sum."""
    return design.most if design.count == "people" else tuple(most**2 for most in design.most)


def choose_design(
    count: str,
    most: Sequence[int],
    budget: Budget,
    *,
    levels: Sequence[int] | None,
    noise: str | None = None,
    measuring: float | None = None,
) -> PeopleDesign:
    """The design of least predicted noise for a budget; a ValueError where none fits."""
    found, reason = [], "epsilon must be larger"
    for each in ("laplace", "gaussian") if noise is None else (noise,):
        try:
            found += _designs(count, tuple(most), budget, levels, each, measuring)
        except ValueError as error:
            reason = str(error)
    if not found:
        raise ValueError(reason)
    return min(found, key=predicted_error)


def predicted_error(design: PeopleDesign) -> float:
    """What designs are chosen by: noise over the levels, and what of a node is missed that is not found."""
    noise = sum(deviation**2 for deviation in design.deviations()) / len(design.most)
    if design.cells is None:
        return math.sqrt(noise)
    # A node of which half a threshold was put there is not found; with it goes what these people weigh.
    missed = max(design.cells.shape.thresholds) / 2 * math.sqrt(design.most[-1] if design.count == "rows" else 1)
    return math.sqrt(noise + missed**2)


def _designs(
    count: str,
    most: tuple[int, ...],
    budget: Budget,
    levels: Sequence[int] | None,
    noise: str,
    measuring: float | None,
) -> list[PeopleDesign]:
    """The designs with one noise."""
    if levels is None:
        return [_public(count, most, budget, noise)]
    if budget.epsilon is None or budget.delta == 0:
        raise ValueError("epsilon and delta must be given: which nodes there are cannot be found without them")
    if count == "shares":
        if noise == "gaussian":
            raise ValueError("noise must be 'laplace' for shares, whose layers are chosen by what was found")
        return [_open_shares(most, budget, levels, measuring)]
    designs = []
    for share in MEASURING if measuring is None else (measuring,):
        try:
            designs.append(_open(count, most, budget, levels, noise, Fraction(share)))
        except ValueError:
            if measuring is not None:
                raise
    if not designs:
        raise ValueError("epsilon and delta must be larger for what is to be found and measured")
    return designs


def _public(count: str, most: tuple[int, ...], budget: Budget, noise: str) -> PeopleDesign:
    empty = PeopleDesign(count, most, noise, (), None)
    if noise == "gaussian":
        if budget.rho is None and budget.delta == 0:
            raise ValueError("delta must be above 0 for Gaussian noise. Hint: delta=1e-6, or noise='laplace'")
        rho = rho_within(*budget.exact) if budget.rho is None else Fraction(budget.rho)
        return _gaussian(empty, rho, budget.d_in)
    if budget.rho is None:
        return _laplace(empty, budget.exact[0], budget.d_in)
    return _laplace(empty, Fraction(round_down(Fraction(math.sqrt(2 * budget.rho)) * _LESS)), budget.d_in)


def _cells(budget: Budget, levels: Sequence[int], share: Fraction, delta: Fraction) -> tuple[GapParameters, Fraction]:
    """How nodes are found with what measuring leaves, and the epsilon of one person that is left then."""
    epsilon = budget.exact[0]
    cells = choose_parameters(len(levels), round_down(epsilon * (1 - share)), round_down(delta), d_in=budget.d_in)
    cells = replace(cells, shape=replace(cells.shape, levels=tuple(levels)))
    used = gap_epsilon(Fraction(cells.scale), Fraction(cells.token_scale), cells.shape)
    left = (epsilon / budget.d_in - Fraction(used.hi)) * _LESS
    if left <= 0:
        raise ValueError("measuring must leave some of epsilon to the layers. Hint: measuring=0.5")
    return cells, left


def _open(
    count: str, most: tuple[int, ...], budget: Budget, levels: Sequence[int], noise: str, share: Fraction
) -> PeopleDesign:
    delta = budget.exact[1]
    taken = Fraction(round_down(delta * GAUSSIAN_DELTA)) if noise == "gaussian" else Fraction(0)
    cells, left = _cells(budget, levels, share, delta - taken)
    empty = PeopleDesign(count, most, noise, (), cells, layer_delta=taken)
    if noise == "laplace":
        return _laplace(empty, left * budget.d_in, budget.d_in)
    return _gaussian(empty, rho_within(left * budget.d_in, taken), budget.d_in)


def _open_shares(most: tuple[int, ...], budget: Budget, levels: Sequence[int], measuring: float | None) -> PeopleDesign:
    """Shares add up with the gaps of cells, so layers are those of the partition's estimator, chosen by its rules."""
    share = Fraction(default_measuring(len(levels)) if measuring is None else measuring)
    cells, left = _cells(budget, levels, share, budget.exact[1])
    left = Fraction(round_down(left))
    if left * Fraction(LARGEST_SCALE) < SHARES * UNITS:
        raise ValueError(f"epsilon must leave more to the layers than {float(left):.3g}: such noise cannot be drawn")
    return PeopleDesign("shares", most, "laplace", None, cells, measuring=left)


def _laplace(empty: PeopleDesign, epsilon: Fraction, people: int) -> PeopleDesign:
    """Scales of which the sum of standard deviations is least: a level's share is as the root of its bound."""
    roots = [Fraction(math.sqrt(most)) for most in empty.most]
    each = [epsilon * _LESS * root / sum(roots) for root in roots]
    distances = [layer_l1(people, most=most, units=empty.units) for most in empty.most]
    return _checked(empty, [round_up(distance / share) for distance, share in zip(distances, each, strict=True)])


def _gaussian(empty: PeopleDesign, rho: Fraction, people: int) -> PeopleDesign:
    """The same for Gaussian noise, whose shares of rho are as the cube root of the bounds' squares."""
    squares = [layer_l2_squared(people, most=most, units=empty.units) for most in squared_bounds(empty)]
    roots = [Fraction((square / squares[0]) ** (1 / 3)) for square in squares]
    each = [rho * _LESS * root / sum(roots) for root in roots]
    needed = [round_up(square / (2 * share)) for square, share in zip(squares, each, strict=True)]
    return _checked(empty, [math.sqrt(square) * (1 + 2.0**-45) for square in needed])


def _checked(empty: PeopleDesign, scales: Sequence[float]) -> PeopleDesign:
    largest = LARGEST_SCALE / 2 if empty.noise == "gaussian" else LARGEST_SCALE
    if max(scales) > largest:
        raise ValueError("epsilon must be larger, or bounds smaller: noise of such a scale cannot be drawn")
    return replace(empty, scales=tuple(scales))


def best_order(rho: float, delta: float) -> Fraction:
    """About the order of Renyi divergence at which rho has the least epsilon; any order is sound."""

    def epsilon(log: float) -> float:
        order = 1 + math.exp(log)
        return rho * order + (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)

    low, high = -12.0, 40.0
    for _ in range(90):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, right) if epsilon(left) < epsilon(right) else (left, high)
    return Fraction(1 + math.exp((low + high) / 2))


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, nearly, that has at most this epsilon at a delta."""
    low, high = Fraction(0), Fraction(epsilon)
    for _ in range(50):
        middle = (low + high) / 2
        order = best_order(float(middle), float(delta))
        fits = Fraction(zcdp_epsilon_at(middle, delta, order=order).hi) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    found = Fraction(round_down(low))
    if found == 0:
        raise ValueError("epsilon and delta must be larger for Gaussian noise. Hint: noise='laplace'")
    return found
