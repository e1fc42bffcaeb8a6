"""Exact divergences between finite laws, in rational numbers."""

import math
from fractions import Fraction
from functools import cache
from itertools import product


def hockey_stick(p, q, ratio):
    """The largest excess of p over ratio * q on any set of outcomes."""
    return sum((max(Fraction(0), mass - ratio * q.get(outcome, 0)) for outcome, mass in p.items()), Fraction(0))


def largest_ratio(p, q):
    """The largest likelihood ratio, or None if p has an outcome that q has not."""
    if any(mass > 0 and q.get(outcome, 0) == 0 for outcome, mass in p.items()):
        return None
    return max(mass / q[outcome] for outcome, mass in p.items() if mass > 0)


def worst(law, pairs, ratio):
    """The largest hockey-stick divergence of the laws of any pair of inputs, both directions."""
    law, found = cache(law), Fraction(0)
    for one, other in pairs:
        here, there = law(one), law(other)
        assert sum(here.values()) == sum(there.values()) == 1
        found = max(found, hockey_stick(here, there, ratio), hockey_stick(there, here, ratio))
    return found


def worst_ratio(law, pairs):
    """The largest likelihood ratio of any pair, both directions; None if an outcome is possible on one side alone."""
    law, found = cache(law), Fraction(1)
    for one, other in pairs:
        for ratio in (largest_ratio(law(one), law(other)), largest_ratio(law(other), law(one))):
            if ratio is None:
                return None
            found = max(found, ratio)
    return found


def one_more(reach, length):
    """Pairs of vectors, the second of which has one more at one place."""
    for vector in product(reach, repeat=length):
        for place in range(length):
            if vector[place] + 1 in reach:
                yield vector, (*vector[:place], vector[place] + 1, *vector[place + 1 :])


def laplace(q, radius):
    """Noise with masses q**|z| on -radius..radius."""
    masses = {z: q ** abs(z) for z in range(-radius, radius + 1)}
    return {z: mass / sum(masses.values()) for z, mass in masses.items()}


def on_window(numbers, window, ratio=Fraction(1, 2)):
    """The masses, up to a factor, of the outcomes of a window: numbers with noise of masses ratio**|z|."""
    outcomes = product(window, repeat=len(numbers))
    return {outcome: ratio ** sum(abs(z - c) for z, c in zip(outcome, numbers, strict=True)) for outcome in outcomes}


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
