"""gamma_2 of complete trees from both sides: the dual solution's value and a factorization, in rational numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.theorems.interval import sqrt_down
from opendp_tree.theorems.packing import balanced_gamma_squared, unbiased_rmse

COMPLETE = [(k, d) for k in (2, 3, 5, 10) for d in (1, 2, 3, 6, 12)]


def balanced_shares(*, branching, depth):
    """The shares of the levels, from the root down, in the dual solution that proves it."""
    k = Fraction(branching)
    if depth == 1:
        return (Fraction(1),)
    whole = k**2 / ((k + 1) * (2 * k + (depth - 2) * (k - 1)))
    return (whole * (k + 2) / k, *[whole * (1 - 1 / k**2)] * (depth - 2), whole)


def level_eigenvalues(shares, *, branching):
    """For each level of a complete tree, how many squared singular values of the weighted matrix are new, and which.

    The dual objective is the sum of their roots: a lower bound on gamma_2 for any shares that sum to at most 1.
    """
    sizes = [branching**level for level in range(len(shares))]
    out, total = [], Fraction(0)
    for level in range(len(shares) - 1, -1, -1):
        total += shares[level] / sizes[level] ** 2
        out.append((sizes[level] - (sizes[level - 1] if level else 0), total))
    return tuple(reversed(out))


def exact_root(value):
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    assert root**2 == value
    return root


def roots(branching, depth):
    """The roots of the eigenvalues, divided by that of the last level's share; rational for our shares."""
    shares = balanced_shares(branching=branching, depth=depth)
    return [(count, exact_root(value / shares[-1])) for count, value in level_eigenvalues(shares, branching=branching)]


@pytest.mark.parametrize(("branching", "depth"), COMPLETE)
def test_the_dual_solution_has_this_value(branching, depth):
    shares = balanced_shares(branching=branching, depth=depth)
    assert sum(shares) == 1
    assert all(share > 0 for share in shares)
    value = sum(count * root for count, root in roots(branching, depth))
    assert value**2 * shares[-1] == balanced_gamma_squared(branching=branching, depth=depth)


@pytest.mark.parametrize(("branching", "depth"), COMPLETE)
def test_a_factorization_reaches_it(branching, depth):
    """Square norms of the two factors' columns: the leaves' are all equal, and so are the nodes' at every level."""
    shares, found = balanced_shares(branching=branching, depth=depth), roots(branching, depth)
    leaf = sum(count * root for count, root in found)  # times the root of shares[-1]
    nodes, total = [], Fraction(0)
    for level, (count, root) in enumerate(found):
        total += count / root
        nodes.append(total / branching ** (2 * level))  # divided by that root
    assert len(set(nodes)) == 1
    assert leaf * nodes[0] == balanced_gamma_squared(branching=branching, depth=depth)
    assert (leaf**2 * shares[-1]) == balanced_gamma_squared(branching=branching, depth=depth)


def test_eigenvalues_are_those_of_the_matrix():
    branching, depth = 3, 3
    shares = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    leaves = branching ** (depth - 1)
    rows = []
    for level, share in enumerate(shares):
        size = branching**level
        for node in range(size):
            row = np.zeros(leaves)
            row[node * leaves // size : (node + 1) * leaves // size] = math.sqrt(share / size / leaves)
            rows.append(row)
    found = np.sort(np.linalg.svd(np.array(rows), compute_uv=False) ** 2)
    claimed = [[float(value)] * count for count, value in level_eigenvalues(shares, branching=branching)]
    assert found == pytest.approx(np.sort(np.concatenate(claimed)))


@pytest.mark.parametrize("depth", [2, 6, 20])
def test_the_papers_dual_solution_is_a_little_below(depth):
    """Equal shares: a valid bound that grows as the root of the depth, with a constant of 0.57 and more."""
    eigenvalues = level_eigenvalues([Fraction(1, depth)] * depth, branching=2)
    printed = sum(count * sqrt_down(value) for count, value in eigenvalues)
    gamma = math.sqrt(balanced_gamma_squared(branching=2, depth=depth))
    assert 0.9 * gamma < printed < gamma
    assert printed > 0.57 * math.sqrt(depth)


def test_mutant_shares_with_a_larger_sum_exceed_a_factorization():
    """Shares that sum to 1.01 would claim more than a factorization reaches."""
    shares = [share * Fraction(101, 100) for share in balanced_shares(branching=2, depth=6)]
    claimed = sum(count * sqrt_down(value) for count, value in level_eigenvalues(shares, branching=2))
    assert claimed**2 > balanced_gamma_squared(branching=2, depth=6)


def test_single_counts_and_wide_trees():
    assert balanced_gamma_squared(branching=7, depth=1) == balanced_gamma_squared(branching=1, depth=9) == 1
    wide = balanced_gamma_squared(branching=10**9, depth=12)
    assert Fraction(119999, 10000) < wide < 12


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 20.0])
def test_unbiased_pure_noise_on_one_count_is_above(epsilon):
    """Discrete Laplace noise is unbiased, and the root of two from the bound at every epsilon."""
    error = 1 / (math.sqrt(2) * math.sinh(epsilon / 2))
    assert error == pytest.approx(math.sqrt(2) * unbiased_rmse(Fraction(1), epsilon=Fraction(epsilon)))


@pytest.mark.parametrize("deviation", [0.4, 0.7, 1.0, 3.0, 30.0])
def test_unbiased_gaussian_noise_on_one_count_is_above_and_near(deviation):
    z = np.arange(-int(12 * deviation) - 12, int(12 * deviation) + 13)
    masses = np.exp(-((z / deviation) ** 2) / 2)
    error = math.sqrt((masses * z**2).sum() / masses.sum())
    bound = unbiased_rmse(Fraction(1), rho=Fraction(1 / (2 * deviation**2)))
    assert bound <= error
    if deviation >= 3:
        assert error < 1.03 * bound


def test_mutant_constants_are_refuted_by_gaussian_and_by_randomised_noise():
    """1/sqrt(2 rho), as for real noise, is too much for integers; and tanh in place of sinh for pure privacy."""
    deviation = 0.5
    masses = [math.exp(-((z / deviation) ** 2) / 2) for z in range(-9, 10)]
    error = math.sqrt(sum(m * z * z for z, m in zip(range(-9, 10), masses, strict=True)) / sum(masses))
    assert error < deviation
    assert unbiased_rmse(Fraction(1), rho=Fraction(2)) <= error
    assert 1 / (2 * math.tanh(2.0)) > 1 / (math.sqrt(2) * math.sinh(2.0))


def test_a_budget_must_be_given_and_distance_scales():
    with pytest.raises(ValueError, match="epsilon or rho must be given"):
        unbiased_rmse(Fraction(1))
    one, five = (unbiased_rmse(Fraction(3), epsilon=Fraction(1), d_in=k) for k in (1, 5))
    assert five == pytest.approx(5 * one)
