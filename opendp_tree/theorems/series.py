"""Releases over time: what periods cost together, where each release knows what earlier ones have shown.

Proof: docs/proofs/series.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

Loss = tuple[Fraction, Fraction]
"""Epsilon and delta."""


def disjoint_amount(amounts: Iterable[Fraction]) -> Fraction:
    """Epsilon, delta or rho of one row that lies in one of several releases: the largest of theirs."""
    return max(amounts, default=Fraction(0))


def families_amount(families: Iterable[Iterable[Fraction]]) -> Fraction:
    """Epsilon, delta or rho of one row that lies in at most one release of each family: the sum of the largest."""
    return sum(map(disjoint_amount, families), Fraction(0))


def families_loss(families: Iterable[Sequence[Loss]]) -> Loss:
    """What one row costs that lies in at most one release of each family, such as its week and its quarter."""
    return overlapping_loss(map(disjoint_loss, families))


def disjoint_loss(losses: Iterable[Loss]) -> Loss:
    """What one row costs that lies in one of several releases, whichever: the largest epsilon, the largest delta."""
    epsilons, deltas = zip(*losses, strict=True)
    return disjoint_amount(epsilons), disjoint_amount(deltas)


def overlapping_loss(losses: Iterable[Loss]) -> Loss:
    """What a row, or a user, costs that lies in all of several releases: the sum, and delta as if they were chances."""
    epsilon, kept = Fraction(0), Fraction(1)
    for each, delta in losses:
        epsilon, kept = epsilon + each, kept * (1 - delta)
    return epsilon, 1 - kept


def user_loss(losses: Sequence[Loss], *, periods: int) -> Loss:
    """What a user costs whose rows lie in at most so many periods: the dearest ones by epsilon, and those by delta."""
    epsilons, deltas = (sorted(parts, reverse=True)[:periods] for parts in zip(*losses, strict=True))
    return overlapping_loss(zip(epsilons, deltas, strict=True))


def moved_row_epsilon(removed: Sequence[Fraction], added: Sequence[Fraction]) -> Fraction:
    """The epsilon of a changed row: it leaves one period and enters one, the same or another."""
    return max(removed) + max(added)
