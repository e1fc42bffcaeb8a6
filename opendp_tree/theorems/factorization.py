"""Factorization: the least worst error of unbiased node counts, by the gamma-2 norm of a tree.

gamma_2 is the worst node's error of the best linear unbiased mechanism, in units of the noise that one count needs.
Proof: docs/proofs/factorization.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, exp, sqrt_down

_LARGEST = 10**6
"""Budgets beyond it cost nothing to compute, and say nothing."""


def balanced_gamma_squared(*, branching: int, depth: int) -> Fraction:
    """gamma_2 squared of a complete tree, exactly.

    >>> balanced_gamma_squared(branching=2, depth=10)
    Fraction(4, 1)
    """
    return Fraction(depth * (branching - 1) + 2, branching + 1)


def balanced_shares(*, branching: int, depth: int) -> tuple[Fraction, ...]:
    """The shares of the levels, from the root down, in the dual solution that proves it.

    >>> [str(share) for share in balanced_shares(branching=2, depth=4)]
    ['4/9', '1/6', '1/6', '2/9']
    """
    k = Fraction(branching)
    if depth == 1:
        return (Fraction(1),)
    whole = k**2 / ((k + 1) * (2 * k + (depth - 2) * (k - 1)))
    return (whole * (k + 2) / k, *[whole * (1 - 1 / k**2)] * (depth - 2), whole)


def level_eigenvalues(shares: Sequence[Fraction], *, branching: int) -> tuple[tuple[int, Fraction], ...]:
    """For each level of a complete tree, how many squared singular values of the weighted matrix are new, and which.

    The dual objective is the sum of their roots: a lower bound on gamma_2 for any shares that sum to at most 1.

    >>> level_eigenvalues(balanced_shares(branching=2, depth=2), branching=2)
    ((1, Fraction(3, 4)), (1, Fraction(1, 12)))
    """
    sizes = [branching**level for level in range(len(shares))]
    out, total = list[tuple[int, Fraction]](), Fraction(0)
    for level in range(len(shares) - 1, -1, -1):
        total += shares[level] / sizes[level] ** 2
        out.append((sizes[level] - (sizes[level - 1] if level else 0), total))
    return tuple(reversed(out))


def unbiased_rmse(
    gamma_squared: Fraction, *, epsilon: Fraction | None = None, rho: Fraction | None = None, d_in: int = 1
) -> float:
    """A lower bound on the worst node's RMSE of every unbiased mechanism within a pure or zCDP budget, rounded down.

    >>> round(unbiased_rmse(Fraction(1), rho=Fraction(1, 200)), 3)  # one count; Gaussian noise has 10
    9.975
    """
    if rho is None and epsilon is None:
        raise ValueError("epsilon or rho must be given")
    if (rho or 0) > _LARGEST or (epsilon or 0) > _LARGEST:
        return 0.0  # what the formula gives is smaller than any float
    spread = exp(2 * rho) - 1 if rho is not None else exp(epsilon or 0) - 2 + exp(-(epsilon or 0))
    # Its upper end alone: the other may be 0, where a budget is too small for so many digits.
    return sqrt_down(Fraction((Interval.of(gamma_squared * d_in**2) / Interval(spread.hi, spread.hi)).lo))
