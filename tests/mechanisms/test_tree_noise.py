"""Noise on every node: its releases, how levels share a loss, and second moments of noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

import opendp_tree as ot
from opendp_tree import Tree, leaf_domain, make_tree_gaussian, make_tree_laplace, noise
from opendp_tree.mechanisms import tree_noise
from opendp_tree.mechanisms.pruned_descent import Pruning
from opendp_tree.mechanisms.tails import (
    WIDEST_SUM,
    gaussian_above,
    normal_excess,
    normal_tail,
)
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance
from opendp_tree.planning.laws import pruned_rmse, shown_chance, worst_pruned_rmse
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

L1 = dp.l1_distance(T="i64")
TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b",), ("c", "z")])
COUNTS = np.array([50, 0, 7, 300])
MAKERS = [make_tree_laplace, make_tree_gaussian]


def pruning(noise, scales, thresholds):
    return Pruning(noise, tuple(scales), tuple(thresholds), Fraction(0))


def vector(size):
    return dp.vector_domain(dp.atom_domain(T="i64"), size=size)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0, 7.7, 1e6])
@pytest.mark.parametrize("k", [0, 1, 2, 9])
def test_maps_are_the_theorems_rounded_up_and_opendps_own(scale, k):
    space = leaf_domain(TREE), L1
    laplace = make_tree_laplace(*space, scale).map(k)
    assert Fraction(laplace) >= 3 * k / Fraction(scale) > Fraction(math.nextafter(laplace, -1))
    theirs = (space >> ot.then_tree_sum(carrier="vector") >> dp.m.then_laplace(scale)).map(k)
    assert laplace == pytest.approx(theirs, rel=1e-14)
    gaussian = make_tree_gaussian(*space, scale).map(k)
    assert Fraction(gaussian) >= Fraction(3 * k * k, 2) / Fraction(scale) ** 2 > Fraction(math.nextafter(gaussian, -1))
    sums = space >> ot.then_tree_sum(output_metric=dp.l2_distance(T="f64"), carrier="vector")
    theirs = (sums >> dp.m.then_gaussian(scale)).map(k)
    assert gaussian == pytest.approx(theirs, rel=1e-14)


def test_weights_share_the_loss():
    space = leaf_domain(TREE), L1
    assert make_tree_laplace(*space, 6.0, weights=[1, 2, 3]).map(1) == 1.0
    assert make_tree_laplace(*space, 6.0, weights=[0, 2, 3]).map(1) == 5 / 6
    rho = make_tree_gaussian(*space, 6.0, weights=[1, 4, 9]).map(1)
    assert rho == pytest.approx(14 / 72)
    odd = make_tree_laplace(*space, 1.0, weights=[0.1, 0.3, 0.7]).map(1)
    assert Fraction(odd) >= sum(1 / Fraction(1.0 / w) for w in (0.1, 0.3, 0.7))


@pytest.mark.parametrize("make", MAKERS)
def test_releases_add_up_in_every_carrier(make):
    for release in (make(leaf_domain(TREE), L1, 2.0)(COUNTS), make(vector(4), L1, 2.0, tree=TREE)(COUNTS.tolist())):
        assert isinstance(release, ot.TreeRelease)
        assert release.estimates[TREE.root] == pytest.approx(release.estimates[TREE.leaves].sum())
        assert release.statement.to_dict()["parameters"]["scale"] == 2.0
        assert release.to_frame().height == TREE.node_count


@pytest.mark.parametrize(("make", "kind"), [(make_tree_laplace, "laplace"), (make_tree_gaussian, "gaussian")])
def test_each_level_gets_its_own_noise(make, kind):
    """Stars, whose root is left out, so that the leaves' estimates are their noisy counts: a chi-square test that a
    right law fails with probability 1e-9, and that rejects the scale before weighting."""
    star = Tree.from_parents(np.concatenate(([-1], np.zeros(100_000, dtype=int))))
    drawn = make(leaf_domain(star), L1, 8.0, weights=[0, 4])(np.zeros(100_000, dtype=np.int64)).estimates[1:]
    support = np.arange(-100, 101)

    def masses(scale):
        return laplace_masses(scale, support) if kind == "laplace" else np.exp(-(support**2) / (2 * scale**2))

    found = np.rint(drawn).astype(np.int64)
    assert (found == drawn).all()
    assert p_value(found, support, masses(2.0 if kind == "laplace" else 4.0)) > FALSE_ALARM
    assert p_value(found, support, masses(8.0)) < FALSE_ALARM


@pytest.mark.parametrize("make", MAKERS)
def test_levels_that_are_left_out_are_not_looked_at(make, monkeypatch):
    """Without noise the estimates of a tree whose top is left out are the leaves' sums; were the top read, a wrong top
    would show."""
    tree = Tree.balanced(branching=3, depth=3)
    counts = np.arange(9)
    monkeypatch.setattr(Tree, "sum", lambda self, leaves: np.concatenate(([10**9, 1, 1, 1], leaves)))
    found = make(leaf_domain(tree), L1, 1e-9, weights=[0, 0, 1])(counts).estimates
    assert found.tolist() == [36.0, 3.0, 12.0, 21.0, *range(9)]


@pytest.mark.parametrize(
    ("make", "variance"), [(make_tree_laplace, laplace_variance), (make_tree_gaussian, gaussian_variance)]
)
def test_intervals_cover_and_errors_are_as_promised(make, variance):
    """Pooled over releases of one node each: binomial, false alarm 1e-9."""
    tree = Tree.balanced(branching=3, depth=3)
    leaves = np.arange(9) * 10
    truth = tree.sum(leaves)
    measurement = make(leaf_domain(tree), L1, 3.0, weights=[1, 2, 1], confidence=0.9)
    rounds = 1500
    hits, squares = np.zeros(13), np.zeros(13)
    for _ in range(rounds):
        release = measurement(leaves)
        hits += (release.lower <= truth) & (truth <= release.upper)
        squares += (release.estimates - truth) ** 2
    assert (stats.binom.cdf(hits, rounds, 0.9) > FALSE_ALARM).all()
    promised = release.fit.estimator.variances
    assert (np.abs(squares / rounds / promised - 1) < 8 * math.sqrt(6 / rounds)).all()
    assert promised[0] < variance(3.0)


def test_variances_are_those_of_the_noise():
    z = np.arange(-4000, 4001)
    for scale in (0.05, 0.3, 1.0, 3.0, 40.0):
        masses = laplace_masses(scale, z)
        assert laplace_variance(scale) == pytest.approx((masses * z**2).sum() / masses.sum(), rel=1e-9)
        masses = np.exp(-(z.astype(float) ** 2) / (2 * scale**2))
        assert gaussian_variance(scale) >= (masses * z**2).sum() / masses.sum() * (1 - 1e-12)
    assert laplace_variance(5e-324) == 0.0


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1e6])
def test_one_laplace_noise_stays_within_its_bound_and_one_less_would_not_do(scale, confidence):
    q = math.exp(-1 / scale)

    def beyond(bound):
        return 2 * q ** (bound + 1) / (1 + q)

    bound = tree_noise.single_bound("laplace", scale, confidence)
    assert beyond(bound) <= (1 - confidence) * (1 + 1e-6)
    assert bound == 0 or beyond(bound - 2) > 1 - confidence


def law(weights):
    return weights / weights.sum()


def excess(values, chances, edge):
    return float((chances * np.maximum(values - edge, 0) ** 2).sum())


def test_wide_gaussian_laws_are_normal_ones():
    starts = np.array([0.0, 1e3, 1e4])
    edges = np.array([0.0, 900.0, 5e3])
    below, above = (gaussian_above(starts, edges, WIDEST_SUM * step) for step in (1.0, 1 + 1e-9))
    np.testing.assert_allclose(below, above, rtol=1e-5)


def test_normal_tail():
    at = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(normal_tail(at), [0.5 * math.erfc(x / math.sqrt(2)) for x in at], atol=2e-7)


def test_the_excess_of_normal_noise_is_its_integral():
    """Against a sum over a fine grid; normal noise is discrete Gaussian noise of a large scale."""
    values, deviation = np.arange(-4000.0, 4001.0), 400.0
    normal = law(np.exp(-0.5 * (values / deviation) ** 2))
    for edge in np.array([-1.0, 0.0, 0.7, 1.5, 3.0]) * deviation:
        assert normal_excess(edge, deviation) == pytest.approx(excess(values, normal, edge), rel=1e-3)


DRAWS = {"laplace": noise.laplace, "gaussian": noise.gaussian}


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.4, 3.0, 25.0])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_errors_are_sums_over_the_laws(law, scale, alpha):
    """Against the definition, summed over all noise that matters; below 1e-5 that sum is rounding."""
    values = np.arange(-2000.0, 2001.0)
    chances = np.exp(-np.abs(values) / scale) if law == "laplace" else np.exp(-((values / scale) ** 2) / 2)
    chances /= chances.sum()
    threshold, levels = int(9 * scale) + 3, 4
    for weight in (1, threshold // 2, threshold, threshold + int(2 * scale), 3 * threshold):
        reached = values + weight >= threshold
        chance = chances[reached].sum()
        error = np.maximum(np.abs(np.where(reached, values, -weight)) - alpha * weight, 0) ** 2
        hidden = max(weight - alpha * weight, 0) ** 2
        above = chance ** (levels - 1)
        exact = above * (chances * error).sum() + (1 - above) * hidden
        found = pruned_rmse(pruning(law, [scale] * levels, [threshold] * levels), [weight], alpha)
        assert found[0] == pytest.approx(exact**0.5, rel=1e-6, abs=1e-5)
        assert shown_chance(np.array([threshold - weight]), law, scale)[0] == pytest.approx(chance, rel=1e-9)


def test_levels_may_differ():
    """A level that shows everything changes nothing; one that shows nothing leaves the weight."""
    one = pruned_rmse(pruning("laplace", [3.0], [30]), [20, 40], 0.1)
    free = pruned_rmse(pruning("laplace", [1.0, 3.0], [-500, 30]), [20, 40], 0.1)
    np.testing.assert_allclose(one, free)
    shut = pruned_rmse(pruning("laplace", [1.0, 3.0], [500, 30]), [20, 40], 0.1)
    np.testing.assert_allclose(shut, [18, 36])


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.5, 6.0, 300.0, 1e5])
def test_the_worst_weight_is_found(law, scale):
    levels = pruning(law, [scale] * 9, [int(14 * scale) + 2] * 9)
    weights = np.unique(np.rint(np.linspace(1, 40 * scale + 10, 20_000)))
    worst = worst_pruned_rmse(levels, 0.1)
    assert worst >= pruned_rmse(levels, weights, 0.1).max() * (1 - 1e-9)
    assert worst <= pruned_rmse(levels, weights, 0.1).max() * (1 + 1e-3)
