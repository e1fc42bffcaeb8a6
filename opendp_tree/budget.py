"""Privacy budgets and statements of loss: epsilon and delta, or rho and delta, at a distance; OpenDP's conversions."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any, TypeAlias

from opendp.combinators import make_approximate, make_fix_delta, make_pureDP_to_zCDP, make_zCDP_to_approxDP
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Domain, Measure, Measurement, Metric, OpenDPException

from opendp_tree._arguments import check_integer, check_positive, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement
from opendp_tree.theorems.interval import exp, geometric_sum, round_down

Loss: TypeAlias = float | tuple[float, float]
Priced: TypeAlias = tuple[Measurement, Loss]
"""A measurement, and its exact loss at the budget's distance."""

NO_DELTA = (
    "delta must be above 0 where nodes are unknown: without one, none can be found. Hint: delta=1e-6, in a Context "
    "dp.loss_of(epsilon=1.0, delta=1e-6); or a public tree: Key.columns(..., tree=Tree.from_paths(...))"
)
EPSILONS, RHOS, LEAST_DELTA, LARGEST_DISTANCE = (1e-9, 1e3), (1e-15, 1e5), 1e-50, 10**6
"""The range that can be planned for; beyond it, floats over- or underflow."""


@dataclass(frozen=True)
class Budget:
    """A loss that must not be exceeded at distance `d_in`: epsilon and delta, or rho and delta."""

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    d_in: int = 1

    @classmethod
    def of(cls, *, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None, d_in: int = 1) -> Budget:
        """A budget of checked arguments, of a size that can be planned for."""
        budget = cls.declared(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
        (low, high), hint = (EPSILONS, "1.0") if rho is None else (RHOS, "0.1")
        name, amount = ("epsilon", epsilon) if rho is None else ("rho", rho)
        if not low <= check_positive(amount, name=name) <= high:
            raise ValueError(f"{name} ({amount}) must be from {low:g} to {high:g}. Hint: {hint}")
        if 0 < budget.delta < LEAST_DELTA:
            raise ValueError(f"delta ({delta}) must be 0 or at least {LEAST_DELTA:g}")
        if budget.d_in > LARGEST_DISTANCE:
            raise ValueError(f"d_in ({d_in}) must be at most {LARGEST_DISTANCE}")
        return budget

    @classmethod
    def declared(cls, *, epsilon: Any = None, delta: Any = 0.0, rho: Any = None, d_in: int = 1) -> Budget:
        """A budget of any size, of checked arguments, rounded down; an epsilon of 0 (see `make_unfunded`) becomes 1."""
        if (epsilon is None) == (rho is None):
            raise ValueError("exactly one of epsilon and rho must be given. Hint: epsilon=1.0, or rho=0.1")
        name, amount = ("epsilon", 1.0 if is_zero(epsilon) else epsilon) if rho is None else ("rho", rho)
        spent = {name: round_down(check_positive(amount, name=name))}
        lost = 0.0 if is_zero(delta) else round_down(check_probability(delta, name="delta"))
        return cls(**spent, delta=lost, d_in=check_integer(d_in, name="d_in", least=1))

    def at(self, d_in: int) -> Budget:
        """The same loss at another distance."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, d_in=d_in)

    def part(self, share: Fraction, *, of: int) -> Budget:
        """One of several shares, slightly less, so that their sum, which OpenDP rounds up, stays within the whole."""
        parts = {name: Fraction(amount) * share * (1 - Fraction(of, 2**50)) for name, amount in self.amounts.items()}
        return Budget.of(**{name: round_down(amount) for name, amount in parts.items()}, d_in=self.d_in)

    @property
    def amounts(self) -> dict[str, float]:
        """The amounts by name: epsilon or rho, and delta."""
        name = "epsilon" if self.rho is None else "rho"
        return {name: getattr(self, name), "delta": self.delta}

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

    def noise_scale(self, noise: str, depth: int, *, delta: float | None = None) -> float:
        """The scale of noise on every level at weight 1, for weights that sum to the depth."""
        if noise == "laplace":
            return depth * self.d_in / self.pure_epsilon
        rho = zcdp_rho(self.pure_epsilon, self.delta if delta is None else delta) if self.rho is None else self.rho
        return self.d_in * math.sqrt(depth / (2 * rho))

    @property
    def one_person(self) -> tuple[float, float] | None:
        """The epsilon and delta at distance 1 that group privacy turns into this budget; None where none does."""
        if self.epsilon is None or self.delta == 0:
            return None
        one = round_down(Fraction(self.epsilon) / self.d_in)
        return one, round_down(Fraction(self.delta) / Fraction(geometric_sum(exp(one), self.d_in).hi))

    @property
    def measure(self) -> Measure:
        """OpenDP's measure for this budget."""
        pure: Measure = max_divergence() if self.rho is None else zero_concentrated_divergence()
        return approximate(pure) if self.delta else pure

    def covers(self, spent: Loss) -> bool:
        """Whether a loss stays within the budget."""
        parts = spent if isinstance(spent, tuple) else (spent, 0.0)
        return all(part <= amount for part, amount in zip(parts, self.amounts.values(), strict=True))

    def priced(self, measurement: Measurement) -> Priced:
        """The measurement in terms of this budget's measure, by OpenDP's own conversions, and its loss."""
        measure = measurement.output_measure
        if measure == max_divergence() and self.rho is not None:
            measurement = make_pureDP_to_zCDP(measurement)
        elif self.rho is None and measure not in (max_divergence(), self.measure):
            measurement = make_fix_delta(make_zCDP_to_approxDP(measurement), delta=self.delta)
        if measurement.output_measure != self.measure:
            measurement = make_approximate(measurement)
        return measurement, measurement.map(self.d_in)  # type: ignore[no-untyped-call]

    def fit(self, made: Callable[[float], Measurement], scale: float) -> Priced:
        """The measurement of this scale, or of a slightly larger one whose exact loss fits the budget."""
        more = 2.0**-40
        while more < 1:
            try:
                priced = self.priced(made(scale))
            except OpenDPException:  # an overflow on the way from one measure to another
                break
            if self.covers(priced[1]):
                return priced
            scale, more = scale * (1 + more), 2 * more
        raise ValueError(f"no noise of a scale near {scale:g} fits the budget {self.amounts}")


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
        name: Fraction(each) if isinstance(each, Rational) else Fraction(repr(float(each)))
        for name, each in amounts.items()
    }
    return exact, {name: round_down(amount) for name, amount in exact.items()}


def short_above(amount: Fraction, total: Fraction) -> Fraction:
    """A sum of losses, rounded up to a decimal of a few digits if that is only a rounding error, within the total."""
    digits = Context(prec=6, rounding=ROUND_CEILING)
    short = Fraction(digits.divide(Decimal(amount.numerator), Decimal(amount.denominator)))
    if short - amount > amount / 10**12:
        step = Fraction(10) ** (math.floor(math.log10(total)) - 17)  # a ledger keeps 20 digits, also of differences
        short = math.ceil(amount / step) * step
    return max(amount, min(short, total))


@lru_cache(maxsize=1024)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon, as OpenDP converts it at this delta, is at most that, in floats."""
    order = _peak(lambda order: (epsilon - _conversion(order, delta)) / order)
    return max(0.0, (epsilon - _conversion(order, delta)) / order)


def best_order(rho: float, delta: float) -> float:
    """The order of Renyi divergence at which rho has the least epsilon at a delta."""
    return _peak(lambda order: -rho * order - _conversion(order, delta))


def _conversion(order: float, delta: float) -> float:
    """What an order of Renyi divergence adds to order * rho in epsilon (Canonne, Kamath and Steinke 2020)."""
    return (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)


def _peak(value: Callable[[float], float]) -> float:
    """The order above 1 of the largest value of a unimodal function."""
    low, high = -12.0, 40.0  # in the logarithm of order - 1
    for _ in range(90):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, right) if value(1 + math.exp(left)) > value(1 + math.exp(right)) else (left, high)
    return 1 + math.exp((low + high) / 2)


def level_scales(noise: str, scale: float, weights: Sequence[float]) -> tuple[float, ...]:
    """The scale of each level: one of weight w pays w parts of the loss; infinite where the weight is 0."""
    power = 1.0 if noise == "laplace" else 0.5
    return tuple(math.inf if w == 0 else min(scale / w**power, sys.float_info.max) for w in weights)


def make_unfunded(input_domain: Domain, input_metric: Metric, *, delta: float) -> Measurement:
    """What a constructor returns for an epsilon of 0, which OpenDP's searches try: a map, but no release."""

    def refuse(data: Any) -> Any:
        raise ValueError("epsilon (0) must be positive for a release. Hint: 0 is there for OpenDP's searches alone")

    def privacy_map(d_in: int | float) -> float | tuple[float, float]:
        loss = (0.0, float(delta) if read_distance(d_in) else 0.0)
        return 0.0 if is_zero(delta) else loss

    measure = max_divergence() if is_zero(delta) else approximate(max_divergence())
    return make_measurement(input_domain, input_metric, measure, refuse, privacy_map)


def with_promised_delta(loss: tuple[float, float], promised: float) -> tuple[float, float]:
    """The loss with the promised delta, if that is more: OpenDP's searches stop at pairs that they cannot compare."""
    epsilon, delta = loss
    return (epsilon, max(delta, float(promised))) if loss != (0.0, 0.0) else loss


@dataclass(frozen=True)
class PrivacyStatement:
    """What a release cost and what it counts, as plain data.

    :param mechanism: The name of the mechanism, such as "tree_laplace".
    :param measure: OpenDP's privacy measure, as the call that makes it: "approximate(max_divergence())".
    :param d_in: The distance between neighboring inputs.
    :param loss: The privacy loss at that distance: `epsilon`, `epsilon` and `delta`, or `rho` (and `delta`).
    :param parameters: The parameters of the mechanism.
    :param unit: What that distance protects, in words ("one person with at most 5 rows"); None by default: unknown.
    :param counted: What is counted, in words ("people"); None by default: whatever the mechanism received.
    """

    mechanism: str
    measure: str
    d_in: int
    loss: Mapping[str, float]
    parameters: Mapping[str, int | float | str | None]
    unit: str | None = None
    counted: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The statement as nested dictionaries of numbers and texts, ready for JSON."""
        return {**asdict(self), "loss": dict(self.loss), "parameters": dict(self.parameters)}


def loss_words(statement: PrivacyStatement) -> str:
    """The privacy loss: "epsilon 1, delta 1e-06"."""
    return ", ".join(f"{name} {value:.10g}" for name, value in statement.loss.items())


def cost_words(statement: PrivacyStatement | None) -> str:
    """Who is protected, and what it cost."""
    if statement is None:
        return "Privacy: not known here. The cost is that of the noisy counts from which this release was made."
    rows = "one row" if statement.d_in == 1 else f"up to {statement.d_in} rows"
    return f"Privacy: {loss_words(statement)} for adding or removing {person_words(statement.unit or rows)}."


def person_words(unit: str) -> str:
    """A statement's unit for readers: "one value of 'user'" is "one user with all rows of that user"."""
    match = re.match(r"one value of (['\"])(.+)\1(?=$|,)", unit)
    if match is None:
        return unit
    who = match[2] if match[2].replace(" ", "_").isidentifier() else match[0].removeprefix("one value of ")
    return f"one {who} with all rows of that {who}{unit[match.end() :]}"


def counted_words(statement: PrivacyStatement | None) -> list[str]:
    """What the numbers are counts of; nothing if the statement does not say."""
    return [f"Counted: {statement.counted}."] if statement is not None and statement.counted else []
