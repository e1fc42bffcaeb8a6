"""Exact: all trees of up to five nodes, all small changes of their leaf counts, in rational numbers.

A noise law is a table of masses q**|z| or q**(z*z), with a rational q for each level. Laplace: every outcome of a
window is enumerated, and the largest likelihood ratio is the claimed one. Gaussian: at integer orders the Rényi sum
over a window is the claimed factor times the total mass over the shifted window.
"""

from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.noise import gaussian_rho, laplace_epsilon
from tests.privacy.test_tree_sum import TREES, changes

HALF = Fraction(1, 2)
SMALL = [tree for tree in TREES if tree.node_count <= 4]
LEVEL_POWERS = [(1, 1, 1, 1, 1), (1, 2, 3, 1, 2), (3, 1, 2, 2, 1)]
"""1/scale at level l is this many times ln 2 (Laplace), 1/(2 scale**2) this many times ln 2 (Gaussian)."""


def moves(tree, k):
    return [tree.sum(change).tolist() for change in changes(tree.leaf_count, k)]


def worst_laplace(tree, k, powers):
    """The largest log2 likelihood ratio over all outcomes of a window, and over all changes."""
    levels = tree.node_levels.tolist()
    window = range(-k - 1, k + 2)
    return max(
        max(
            sum(
                powers[level] * (abs(z - shift) - abs(z))
                for z, shift, level in zip(outcome, moved, levels, strict=True)
            )
            for outcome in product(window, repeat=tree.node_count)
        )
        for moved in moves(tree, k)
    )


def claimed_laplace(tree, k, powers):
    """Epsilon over ln 2."""
    return laplace_epsilon(k, scales=[Fraction(1, power) for power in powers[: tree.depth]])


@pytest.mark.parametrize("powers", LEVEL_POWERS)
@pytest.mark.parametrize("k", [1, 2])
def test_laplace_epsilon_is_tight_on_every_small_tree(powers, k):
    for tree in SMALL:
        assert worst_laplace(tree, k, powers) == claimed_laplace(tree, k, powers)


def renyi_factor(order, shift, power, reach=12):
    """The sum of P**order * Q**(1 - order) over a window, divided by the mass of the shifted window: for the discrete
    Gaussian with masses q**(power * z * z), q = 1/2, and Q moved by `shift`."""
    centre = (1 - order) * shift
    top = sum(
        HALF ** (power * (order * z * z + (1 - order) * (z - shift) ** 2))
        for z in range(centre - reach, centre + reach + 1)
    )
    bottom = sum(HALF ** (power * z * z) for z in range(-reach, reach + 1))
    return top / bottom


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("power", [1, 2])
def test_the_renyi_divergence_of_one_count_is_exact_at_integer_orders(order, shift, power):
    """exp((order - 1) * order * rho), with rho = shift**2 / (2 scale**2) = power * shift**2 * ln 2."""
    assert renyi_factor(order, shift, power) == 1 / HALF ** (order * (order - 1) * power * shift * shift)


def worst_gaussian(tree, k, powers):
    """Rho over ln 2: the largest sum of the divergences of single counts, each divided by its order."""
    levels = tree.node_levels.tolist()
    return max(
        sum(powers[level] * shift * shift for shift, level in zip(moved, levels, strict=True))
        for moved in moves(tree, k)
    )


def claimed_gaussian(tree, k, powers):
    """Rho over ln 2; 1/(2 scale**2) = power * ln 2, so 1/scale**2 is 2 * power in the same unit."""
    return 2 * sum(gaussian_rho(k, scales=[Fraction(1)]) * power for power in powers[: tree.depth])


@pytest.mark.parametrize("powers", LEVEL_POWERS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_gaussian_rho_is_tight_on_every_small_tree(powers, k):
    for tree in TREES:
        assert worst_gaussian(tree, k, powers) == claimed_gaussian(tree, k, powers)


def test_losses_add_up_over_levels():
    scales = [Fraction(2), Fraction(3), Fraction(7, 2)]
    for k in range(5):
        assert gaussian_rho(k, scales=scales) == sum(gaussian_rho(k, scales=[scale]) for scale in scales)
        assert laplace_epsilon(k, scales=scales) == sum(laplace_epsilon(k, scales=[s]) for s in scales)


# Mutants: each is a plausible mistake that the exact comparison above must reject.


def test_mutant_root_left_out_of_the_levels_is_rejected():
    powers = LEVEL_POWERS[1]
    assert any(worst_laplace(tree, 1, powers) > claimed_laplace(tree, 1, powers) - powers[0] for tree in SMALL)
    assert any(worst_gaussian(tree, 1, powers) > claimed_gaussian(tree, 1, powers) - powers[0] for tree in TREES)


def test_mutant_largest_level_instead_of_the_sum_is_rejected():
    powers = LEVEL_POWERS[1]
    assert any(worst_laplace(tree, 1, powers) > max(powers[: tree.depth]) for tree in SMALL)


def test_mutant_rho_linear_in_the_group_is_rejected():
    """The cost of k people is k**2 times that of one, not k times."""
    powers = LEVEL_POWERS[0]
    assert any(worst_gaussian(tree, 2, powers) > 2 * claimed_gaussian(tree, 1, powers) for tree in TREES)


def test_mutant_weights_of_the_reversed_levels_is_rejected():
    powers = LEVEL_POWERS[2]
    assert any(worst_laplace(tree, 1, powers) > claimed_laplace(tree, 1, tuple(reversed(powers[:5]))) for tree in SMALL)


def test_mutant_half_of_rho_is_rejected():
    """Rho = d**2 / scale**2 / 4: a slip in "over two sigma squared"."""
    assert renyi_factor(2, 1, 1) > 1 / HALF ** (2 * 1 * Fraction(1, 2))
