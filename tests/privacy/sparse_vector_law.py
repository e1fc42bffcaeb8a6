"""The exact law of sparse vector's answers with integer Laplace noise, in rational numbers.

Both noises are untruncated, so the sum over the threshold's noise is infinite. Beyond the last value at which any
factor changes its form, every factor is linear in y = q**|r|, the product is a polynomial in y, and each power sums
as a geometric series. So the infinite sum is exact too.

An answer is False, True, or the `Gap` of an answer "above", which says by how much.

The queries behind an answer pattern may be chosen adaptively: given the pattern they are fixed, so checking every
pattern for every vector of values covers adaptive choice.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product


@dataclass(frozen=True)
class Gap:
    """By how much an answer is above. A plain number would be equal to True or False, where results are kept."""

    by: int


@dataclass(frozen=True)
class Mechanism:
    """The mechanism, and what the mutants change in it."""

    threshold_ratio: Fraction  # exp(-1/scale)
    query_ratio: Fraction  # exp(-1/query_scale)
    cutoff: int
    refreshed: bool
    threshold_noise: bool = True
    query_noise: bool = True
    stops: bool = True


def patterns(length, cutoff, stops):
    """All answer patterns; after the cutoff, nothing but False."""
    for answers in product((False, True), repeat=length):
        tops = [place for place, answer in enumerate(answers) if answer]
        if not stops or len(tops) <= cutoff:
            yield answers


def law(mechanism, values):
    """Every answer pattern with its probability, for a threshold of 0."""
    return {
        answers: probability(mechanism, values, answers)
        for answers in patterns(len(values), mechanism.cutoff, mechanism.stops)
    }


def probability(mechanism, values, answers):
    """The probability of one pattern: one factor for each draw of the threshold's noise."""
    chance, epoch, tops = Fraction(1), [], 0
    for value, answer in zip(values, answers, strict=True):
        if mechanism.stops and tops == mechanism.cutoff:
            break
        epoch.append((value, answer))
        tops += answer is not False
        if answer is not False and mechanism.refreshed:
            chance *= epoch_chance(mechanism, tuple(epoch))
            epoch = []
    return chance * epoch_chance(mechanism, tuple(epoch))


@cache
def epoch_chance(mechanism, epoch):
    """The probability of answers that share one draw of the threshold's noise."""
    if not mechanism.threshold_noise:
        return answers_chance(mechanism, epoch, 0)
    q = mechanism.threshold_ratio
    reach = 1 + max((abs(value) + abs(getattr(answer, "by", 0)) for value, answer in epoch), default=0)
    total = sum(
        (q ** abs(r) * answers_chance(mechanism, epoch, r) for r in range(-reach + 1, reach)),
        Fraction(0),
    )
    total += tail(mechanism, epoch, reach, 1) + tail(mechanism, epoch, reach, -1)
    return total * (1 - q) / (1 + q)


def answers_chance(mechanism, epoch, r):
    """The probability of the answers given the threshold's noise."""
    chance = Fraction(1)
    for value, answer in epoch:
        if isinstance(answer, Gap):
            chance *= exactly(mechanism, r - value + answer.by)
        else:
            above = at_least(mechanism, r - value)
            chance *= above if answer else 1 - above
    return chance


def exactly(mechanism, noise):
    """The probability that a query's noise is exactly this."""
    q = mechanism.query_ratio
    return (1 - q) / (1 + q) * q ** abs(noise) if mechanism.query_noise else Fraction(noise == 0)


def at_least(mechanism, least):
    """The probability that a query's noise is at least `least`."""
    if not mechanism.query_noise:
        return Fraction(least <= 0)
    q = mechanism.query_ratio
    return q**least / (1 + q) if least >= 1 else 1 - q ** (1 - least) / (1 + q)


def tail(mechanism, epoch, reach, side):
    """The sum over all threshold noise of at least `reach` on one side, by polynomials in y = query_ratio**|r|."""
    q, p = mechanism.threshold_ratio, mechanism.query_ratio
    polynomial = [Fraction(1)]
    for value, answer in epoch:
        if not mechanism.query_noise:
            above = [Fraction(side < 0)]
        elif side > 0:  # p**(r - value) / (1 + p)
            above = [Fraction(0), p**-value / (1 + p)]
        else:  # 1 - p**(1 + |r| + value) / (1 + p)
            above = [Fraction(1), -(p ** (1 + value)) / (1 + p)]
        factor = above if answer is True else [(i == 0) - a for i, a in enumerate(above)]
        if isinstance(answer, Gap):  # p**|r - value + gap|, on either side without the bars
            assert mechanism.query_noise
            factor = [Fraction(0), (1 - p) / (1 + p) * p ** (side * (answer.by - value))]
        product_ = [Fraction(0)] * (len(polynomial) + len(factor) - 1)
        for i, a in enumerate(polynomial):
            for j, b in enumerate(factor):
                product_[i + j] += a * b
        polynomial = product_
    return sum((a * (q * p**power) ** reach / (1 - q * p**power) for power, a in enumerate(polynomial)), Fraction(0))
