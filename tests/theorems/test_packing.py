"""Packing, and gamma_2 of complete trees from both sides."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from opendp_tree.theorems.interval import Interval, exp, sqrt_down
from opendp_tree.theorems.packing import (
    accuracy_is_impossible,
    balanced_gamma_squared,
    entropy_needed,
    information_limits,
    least_failure,
    level_entropy,
    level_risk,
    packing_rmse,
    packing_threshold,
    risk_needed,
    two_point_risk,
    unbiased_rmse,
)
from tests.thoroughness import slow

ONE = Fraction(1)
EPSILONS = [Fraction(1, 100), Fraction(1, 2), ONE, Fraction(5)]


def best_risk(heap, *, leaves, epsilon, delta=0.0):
    """The least worst mean squared error, by linear programming, of any private mechanism on a root with some leaves.

    The inputs are 0 to `heap` people, all under one leaf, so that every private mechanism for all inputs is among
    those that are optimised over; but outputs are on a grid, which can only make the best one worse.
    """
    inputs = [(0, 0)] + [(leaf, size) for leaf in range(leaves) for size in range(1, heap + 1)]
    grid = [heap * step / 6 for step in range(7)]
    outputs = list(itertools.product(grid, repeat=leaves if leaves > 1 else 1))
    many, width = len(outputs), len(inputs) * len(outputs)
    pairs = [
        (a, b)
        for a, (leaf, size) in enumerate(inputs)
        for b, (other, more) in enumerate(inputs)
        if abs(size - more) == 1 and (leaf == other or 0 in (size, more))
    ]
    slack = len(pairs) * many if delta else 0
    rows, limits = [], []
    for place, (a, b) in enumerate(pairs):
        for o in range(many):
            row = np.zeros(width + slack + 1)
            row[a * many + o], row[b * many + o] = 1, -math.exp(epsilon)
            if delta:
                row[width + place * many + o] = -1
            rows.append(row)
            limits.append(0)
        if delta:
            row = np.zeros(width + slack + 1)
            row[width + place * many : width + (place + 1) * many] = 1
            rows.append(row)
            limits.append(delta)
    for a, (leaf, size) in enumerate(inputs):
        for node in range(leaves):
            row = np.zeros(width + slack + 1)
            count = size if node == leaf else 0
            row[a * many : (a + 1) * many] = [(output[node] - count) ** 2 for output in outputs]
            row[-1] = -1
            rows.append(row)
            limits.append(0)
    sums = np.zeros((len(inputs), width + slack + 1))
    for a in range(len(inputs)):
        sums[a, a * many : (a + 1) * many] = 1
    goal = np.zeros(width + slack + 1)
    goal[-1] = 1
    found = linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(len(inputs)))
    assert found.success
    return found.fun


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 50)])
def test_randomised_response_reaches_the_two_point_bound(epsilon, steps, delta):
    """With chance `lost` the truth, else a lie with chance c; estimated by the posterior mean."""
    lost = information_limits(steps, epsilon=epsilon, delta=delta)[1]
    lie = 1 / (1 + exp(steps * epsilon))
    squared = (1 - lost) * (lie * (1 - lie) ** 2 + (1 - lie) * lie**2)
    bound = two_point_risk(steps, epsilon=epsilon, delta=delta)
    if lost.hi >= 1:
        assert bound == 0
    else:
        assert bound <= squared.hi
        assert bound >= Fraction(squared.lo) * (1 - Fraction(1, 10**30))
        assert bound * Fraction(1001, 1000) > squared.hi  # so a slightly larger constant is refuted


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_gaussian_noise_stays_above_the_two_point_bound_of_zcdp(rho, steps):
    deviation = 1 / math.sqrt(2 * rho)
    z = np.linspace(-12 * deviation, steps + 12 * deviation, 200_001)
    low, high = (
        np.exp(-(((z - centre) / deviation) ** 2) / 2) / deviation / math.sqrt(2 * math.pi) for centre in (0, steps)
    )
    mean = high / (low + high)
    risk = (z[1] - z[0]) * max((low * mean**2).sum(), (high * (1 - mean) ** 2).sum())
    bound = float(two_point_risk(steps, rho=Fraction(rho)))
    assert bound <= risk
    if steps**2 * rho < 0.1:
        assert bound > 0.9 * risk


@pytest.mark.parametrize(("leaves", "heap"), [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_no_mechanism_for_one_or_two_leaves_beats_it(leaves, heap, epsilon, delta):
    bound = packing_rmse(heap, levels=leaves - 1, epsilon=Fraction(epsilon), delta=Fraction(delta))
    assert bound**2 <= best_risk(heap, leaves=leaves, epsilon=epsilon, delta=delta) * (1 + 1e-9)


def test_mutants_exceed_what_is_achievable():
    """One step as if it were none, delta not grown with the group, twice the error: each is beaten by a mechanism."""
    best = best_risk(2, leaves=1, epsilon=1.0, delta=0.1)
    honest = float(two_point_risk(2, epsilon=ONE, delta=Fraction(1, 10)))
    no_group = (1 - 0.1) * math.e**2 / (1 + math.e**2) ** 2
    one_step = (1 - 0.1 * (1 + math.e)) * math.e / (1 + math.e) ** 2
    assert 4 * honest <= best * (1 + 1e-9)
    for mutant in (no_group, one_step, 4 * honest):
        assert 4 * mutant > best


def entropy(law):
    return -sum(p * math.log(p) for p in law if p > 0)


@pytest.mark.parametrize("branching", [12, *slow([2, 3, 4, 8])])
def test_errors_leave_no_more_entropy_than_claimed(branching):
    """Laws of a child, random and symmetric, alone and mixed: none leaves its entropy at less than the least risk."""
    rng = np.random.default_rng(branching)
    laws = [rng.dirichlet(np.full(branching, spread)) for spread in (0.05, 0.3, 1.0, 5.0) for _ in range(8)]
    sure, uniform = np.eye(branching)[0], np.full(branching, 1 / branching)
    laws += [(1 - w) * sure + w * uniform for w in np.linspace(0.0, 1.0, 15)]
    points = [(1 - float(law @ law), entropy(law)) for law in laws]
    for (risk, left), (other, more) in itertools.product(points[::6], points):
        for share in (0.0, 0.4):
            mean_risk, mean_left = share * risk + (1 - share) * other, share * left + (1 - share) * more
            needed = float(risk_needed(Fraction(mean_left), branching=branching))
            assert needed * branching <= mean_risk * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("branching", [2, 3, 8])
def test_the_level_bound_is_met_by_the_symmetric_law(branching):
    for percent in (1, 5, 10):
        eta = Fraction(percent, 100)
        left = Fraction(level_entropy(eta, branching=branching).lo)
        met = level_risk(eta, branching=branching)
        assert met * (1 - Fraction(1, 10**9)) < risk_needed(left, branching=branching) <= met
    almost = Fraction(Interval.of(branching).ln().lo)
    assert float(risk_needed(almost, branching=branching)) * branching == pytest.approx(1 - 1 / branching, rel=1e-5)


def test_mutant_entropy_of_two_for_many_children_is_rejected():
    """As if a wrong child were always the same one: the law that is wrong with chance 0.05 has less risk than that."""
    eta, branching = Fraction(1, 20), 8
    left = Fraction(level_entropy(eta, branching=branching).lo)
    mutant = least_failure(left, branching=2)
    assert level_risk(mutant, branching=branching) > level_risk(eta, branching=branching)


@pytest.mark.parametrize("levels", [1, 3, 8])
@pytest.mark.parametrize("closeness", [0.5, 2.0, 4.0])
def test_randomised_response_on_leaves_stays_above(levels, closeness):
    """The right leaf with as much chance as closeness to the uniform law allows; each node by its posterior mean."""
    leaves = 2**levels
    right = min(math.exp(closeness) / leaves, 1 - (leaves - 1) / leaves * math.exp(-closeness))
    wrong = (1 - right) / (leaves - 1)
    worst = 0.0
    for level in range(1, levels + 1):
        under = 2 ** (levels - level)
        # The posterior chance that the heap lies under a node, if the release is a leaf under it or not.
        inside, outside = right + (under - 1) * wrong, under * wrong
        squared = inside * (1 - inside) ** 2 + (1 - inside) * (1 - outside) ** 2
        squared_empty = (under * wrong) * inside**2 + (1 - under * wrong) * outside**2
        worst = max(worst, squared, squared_empty)
    nats = Interval.of(Fraction(closeness * math.tanh(closeness / 2)))
    entropy_left = entropy_needed(levels=levels, branching=2, nats=nats, lost=Interval.of(0))
    assert float(risk_needed(entropy_left, branching=2)) <= worst


def test_limits_are_those_of_the_extreme_laws():
    nats, lost = information_limits(3, epsilon=Fraction(1, 2))
    assert float(nats.hi) == pytest.approx(1.5 * math.tanh(0.75))
    assert lost.hi == 0
    nats, lost = information_limits(3, epsilon=Fraction(1, 2), delta=Fraction(1, 100))
    assert float(lost.hi) == pytest.approx(0.01 * (1 + math.exp(0.5) + math.e))
    assert float(information_limits(3, rho=Fraction(1, 4))[0].hi) == 2.25
    with pytest.raises(ValueError, match="epsilon or rho must be given"):
        information_limits(1)


@pytest.mark.parametrize("eta", [Fraction(1, 100), Fraction(1, 4), Fraction(49, 100)])
def test_accuracy_on_one_count_is_what_randomised_response_allows(eta):
    """At the least epsilon for which a lie has chance eta it is possible, and below it is not."""
    enough = math.log((1 - float(eta)) / float(eta))
    for steps in (1, 4):
        assert not accuracy_is_impossible(steps, levels=0, eta=eta, epsilon=Fraction(enough / steps * 1.0001))
        assert accuracy_is_impossible(steps, levels=0, eta=eta, epsilon=Fraction(enough / steps * 0.9999))


def test_accuracy_is_impossible_for_small_heaps_first():
    for budget in ({"epsilon": ONE}, {"epsilon": ONE, "delta": Fraction(1e-6)}, {"rho": ONE / 10}):
        answers = [accuracy_is_impossible(steps, levels=40, eta=ONE / 10, **budget) for steps in range(1, 60)]
        assert answers == sorted(answers, reverse=True)
        assert answers[0]
        assert not answers[-1]
    assert not accuracy_is_impossible(1, levels=40, eta=ONE / 2, epsilon=Fraction(1, 1000))
    assert not accuracy_is_impossible(1, levels=40, eta=Fraction(3, 4), rho=Fraction(1, 1000))
    assert not accuracy_is_impossible(1, levels=0, eta=ONE / 10, epsilon=Fraction(10**6))


def test_heaps_above_the_threshold_are_told_from_nobody():
    """The threshold's algebra, by brute force: the heaps that separate are those whose threshold is above tau."""
    for alpha, tau in itertools.product([ONE / 10, ONE / 2, ONE * 9 / 10], [Fraction(1), Fraction(7), Fraction(100)]):
        for m in range(1, 1200):
            assert (m - alpha * max(m, tau) > alpha * tau) == (packing_threshold(m, alpha=alpha) > tau)
    assert packing_threshold(10, alpha=ONE / 2, d_in=3) == 30


def test_extremes_give_no_bound_instead_of_failing():
    assert packing_rmse(1, levels=5, epsilon=Fraction(10**7)) == 0
    assert packing_rmse(10**15, levels=5, epsilon=ONE, delta=Fraction(1e-6)) == 0
    assert packing_rmse(10**15, levels=5, epsilon=ONE) == 0
    assert packing_rmse(1, levels=10**12, epsilon=Fraction(1e-300)) == pytest.approx(0.5)
    assert risk_needed(Fraction(1, 10**100), branching=2) == 0


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


def test_mutant_shares_with_a_larger_sum_exceed_a_factorization():
    """Shares that sum to 1.01 would claim more than a factorization reaches."""
    shares = [share * Fraction(101, 100) for share in balanced_shares(branching=2, depth=6)]
    claimed = sum(count * sqrt_down(value) for count, value in level_eigenvalues(shares, branching=2))
    assert claimed**2 > balanced_gamma_squared(branching=2, depth=6)


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
