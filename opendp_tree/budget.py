"""The privacy budget: epsilon and delta, or rho and delta, at a distance; exact amounts, and OpenDP's conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from opendp.combinators import make_approximate, make_fix_delta, make_pureDP_to_zCDP, make_zCDP_to_approxDP
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Measure, Measurement, OpenDPException

from opendp_tree._arguments import check_integer, check_positive, check_probability, float_below, is_zero
from opendp_tree.theorems.interval import exp, geometric_sum, round_up

__all__ = ["Budget"]

Loss: TypeAlias = float | tuple[float, float]

EPSILONS, RHOS, LEAST_DELTA, LARGEST_DISTANCE = (1e-9, 1e3), (1e-15, 1e5), 1e-50, 10**6
"""What can be planned for. Beyond, floats give out, and nothing is gained."""


@dataclass(frozen=True)
class Budget:
    """A loss that must not be exceeded at distance `d_in`: epsilon and delta, or rho and delta."""

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    d_in: int = 1

    @classmethod
    def of(cls, *, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None, d_in: int = 1) -> Budget:
        """A budget of checked arguments."""
        if (epsilon is None) == (rho is None):
            raise ValueError("exactly one of epsilon and rho must be given. Hint: epsilon=1.0, or rho=0.1")
        for name, value, (low, high) in (("epsilon", epsilon, EPSILONS), ("rho", rho, RHOS)):
            if value is not None and not low <= check_positive(value, name=name) <= high:
                raise ValueError(f"{name} ({value}) must be from {low:g} to {high:g}")
        if not is_zero(delta) and check_probability(delta, name="delta") < LEAST_DELTA:
            raise ValueError(f"delta ({delta}) must be 0 or at least {LEAST_DELTA:g}")
        if check_integer(d_in, name="d_in", least=1) > LARGEST_DISTANCE:
            raise ValueError(f"d_in ({d_in}) must be at most {LARGEST_DISTANCE}")
        return cls(None if epsilon is None else float(epsilon), float(delta), None if rho is None else float(rho), d_in)

    def at(self, d_in: int) -> Budget:
        """The same loss at another distance."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, d_in=d_in)

    def part(self, share: Fraction, *, of: int) -> Budget:
        """One of several shares, so little less that the sum of all, which OpenDP rounds up, stays within the whole."""
        parts = {name: Fraction(amount) * share * (1 - Fraction(of, 2**50)) for name, amount in self.amounts.items()}
        return Budget.of(**{name: float_below(amount) for name, amount in parts.items()}, d_in=self.d_in)

    @property
    def amounts(self) -> dict[str, float]:
        """The amounts by name: epsilon or rho, and delta."""
        main = {"epsilon": self.epsilon} if self.rho is None else {"rho": self.rho}
        return {name: amount or 0.0 for name, amount in main.items()} | {"delta": self.delta}

    def written(self) -> tuple[dict[str, Fraction], Budget]:
        """The amounts as people write them, for a ledger, and the budget of the nearest floats below, to spend."""
        exact, below = as_written(self.amounts)
        return exact, replace(self, **below)  # type: ignore[arg-type]

    @property
    def exact(self) -> tuple[Fraction, Fraction]:
        """Epsilon, 0 if there is none, and delta, as the exact numbers that the floats are."""
        return Fraction(self.epsilon or 0), Fraction(self.delta)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon that pure noise may spend: a pure loss of epsilon is a rho of epsilon**2 / 2."""
        return self.epsilon if self.epsilon is not None else math.sqrt(2 * (self.rho or 0.0)) * (1 - 2.0**-50)

    def gaussian_rho(self, delta: float) -> float:
        """The rho that Gaussian noise may spend."""
        return self.rho if self.rho is not None else zcdp_rho(self.pure_epsilon, delta)

    def noise_scale(self, noise: str, depth: int, *, delta: float | None = None) -> float:
        """The scale of noise on every level at weight 1, for weights that sum to the depth."""
        if noise == "laplace":
            return depth * self.d_in / self.pure_epsilon
        return self.d_in * math.sqrt(depth / (2 * self.gaussian_rho(self.delta if delta is None else delta)))

    @property
    def one_person(self) -> tuple[float, float] | None:
        """The epsilon and delta at distance 1 that group privacy turns into this budget; None where none does."""
        if self.epsilon is None or self.delta == 0:
            return None
        one = -round_up(-Fraction(self.epsilon) / self.d_in)  # rounded down
        return one, -round_up(-Fraction(self.delta) / Fraction(geometric_sum(exp(one), self.d_in).hi))

    @property
    def measure(self) -> Measure:
        """OpenDP's measure for this budget."""
        pure: Measure = max_divergence() if self.rho is None else zero_concentrated_divergence()
        return approximate(pure) if self.delta else pure

    @property
    def loss(self) -> Loss:
        """The budget as OpenDP writes a loss of this measure."""
        spent = self.epsilon if self.rho is None else self.rho
        assert spent is not None
        return (spent, self.delta) if self.delta else spent

    def covers(self, spent: Loss) -> bool:
        """Whether a loss stays within the budget."""
        if isinstance(self.loss, tuple):
            assert isinstance(spent, tuple)
            return bool(spent[0] <= self.loss[0] and spent[1] <= self.loss[1])
        assert not isinstance(spent, tuple)
        return bool(spent <= self.loss)

    def convert(self, measurement: Measurement) -> Measurement:
        """The measurement in terms of this budget's measure, by OpenDP's own conversions."""
        measure = measurement.output_measure
        if measure == self.measure:
            return measurement
        if measure == max_divergence():
            made = measurement if self.rho is None else make_pureDP_to_zCDP(measurement)
            return make_approximate(made) if self.delta else made
        if self.rho is None:
            return make_fix_delta(make_zCDP_to_approxDP(measurement), delta=self.delta)
        return make_approximate(measurement)

    def priced(self, measurement: Measurement) -> Priced:
        """The measurement in terms of this budget's measure, and what it loses: its exact map, computed once."""
        converted = self.convert(measurement)
        return Priced(converted, converted.map(self.d_in))  # type: ignore[no-untyped-call]

    def fit(self, made: Callable[[float], Measurement], scale: float) -> Priced:
        """The measurement of this scale, or of one larger by as little as makes its exact loss fit the budget."""
        more = 2.0**-40
        while more < 1:
            try:
                priced = self.priced(made(scale))
            except OpenDPException:  # an overflow on the way from one measure to another
                break
            if self.covers(priced.loss):
                return priced
            scale, more = scale * (1 + more), 2 * more
        raise ValueError(f"no noise of a scale near {scale:g} fits the budget {self.loss}")

    def statement(self, spent: Loss) -> tuple[str, dict[str, float]]:
        """The measure's name, and a loss in words."""
        name, kind = ("max_divergence()", "epsilon") if self.rho is None else ("zero_concentrated_divergence()", "rho")
        if isinstance(spent, tuple):
            return f"approximate({name})", {kind: spent[0], "delta": spent[1]}
        return name, {kind: spent}


@dataclass(frozen=True)
class Priced:
    """A measurement, and its exact loss at the budget's distance."""

    measurement: Measurement
    loss: Loss


def amounts_of_loss(measure: Measure, loss: Any) -> dict[str, Any]:
    """A loss of one of OpenDP's measures by the names of its parts."""
    for kind, name in ((max_divergence(), "epsilon"), (zero_concentrated_divergence(), "rho")):
        if measure == kind:
            return {name: loss}
        if measure == approximate(kind):
            return {name: loss[0], "delta": loss[1]}
    raise ValueError(f"the Context's measure ({measure}) must be of epsilon, of epsilon and delta, or of rho")


def as_written(amounts: Mapping[str, float | Fraction]) -> tuple[dict[str, Fraction], dict[str, float]]:
    """Amounts as exact as people write them, for a ledger, and the nearest floats below, for mechanisms."""
    exact = {
        name: Fraction(repr(each)) if isinstance(each, float) else Fraction(each) for name, each in amounts.items()
    }
    return exact, {name: float_below(amount) for name, amount in exact.items()}


def short_above(amount: float) -> Fraction:
    """A loss exactly, or the decimal of a few digits that it is only a rounding error below."""
    exact = Fraction(amount)
    few = Fraction(Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(amount)))
    return few if few - exact <= exact / 10**12 else exact


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at a delta, as OpenDP converts it (Canonne, Kamath and Steinke 2020), in floats."""
    return max(0.0, -_largest(lambda order: -rho * order - _conversion(order, delta)))


@lru_cache(maxsize=1024)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at this delta is at most that, in floats."""
    return max(0.0, _largest(lambda order: (epsilon - _conversion(order, delta)) / order))


def _conversion(order: float, delta: float) -> float:
    """What an order of Renyi divergence adds to its own loss, order * rho, in epsilon."""
    return (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)


def _largest(value: Callable[[float], float]) -> float:
    """The largest value over all orders above 1, for what rises and then falls."""
    low, high = -12.0, 40.0  # in the logarithm of order - 1
    for _ in range(90):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, right) if value(1 + math.exp(left)) > value(1 + math.exp(right)) else (left, high)
    return value(1 + math.exp((low + high) / 2))


def report_scale(epsilon: float) -> float:
    """The least scale, as a float, whose noise costs no more than this for one person, in a report on bounds."""
    exact, (low, high) = check_positive(epsilon, name="epsilon"), EPSILONS
    if not low <= exact <= high:
        raise ValueError(f"epsilon ({epsilon}) must be from {low:g} to {high:g}. Hint: 0.05")
    return round_up(1 / exact)
