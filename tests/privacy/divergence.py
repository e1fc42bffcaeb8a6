"""Exact divergences between finite laws, in rational numbers."""

import math
from fractions import Fraction
from itertools import product


def hockey_stick(p, q, ratio):
    """The largest excess of p over ratio * q on any set of outcomes."""
    return sum((max(Fraction(0), mass - ratio * q.get(outcome, 0)) for outcome, mass in p.items()), Fraction(0))


def largest_ratio(p, q):
    """The largest likelihood ratio, or None if p has an outcome that q has not."""
    if any(mass > 0 and q.get(outcome, 0) == 0 for outcome, mass in p.items()):
        return None
    return max(mass / q[outcome] for outcome, mass in p.items() if mass > 0)


def joint(laws):
    """The law of independent draws."""
    out = {}
    for outcome in product(*(law.items() for law in laws)):
        mass = Fraction(1)
        for _, part in outcome:
            mass *= part
        out[tuple(value for value, _ in outcome)] = mass
    return out


def splits(total, parts):
    """All vectors of naturals with a given sum."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in splits(total - first, parts - 1):
            yield (first, *rest)


def families_delta(families):
    """Delta of such a row, treating the largest delta of each family as a probability: at most their sum."""
    return 1 - math.prod((1 - max(deltas, default=Fraction(0)) for deltas in families), start=Fraction(1))
