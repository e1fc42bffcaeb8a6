"""Laplace and Gaussian releases of whole trees."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException
from scipy import stats

import opendp_tree as ot
from opendp_tree import Tree, leaf_domain, make_tree_gaussian, make_tree_laplace
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance
from opendp_tree.trees import node_domain
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

L1 = dp.l1_distance(T="i64")
TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b",), ("c", "z")])
COUNTS = np.array([50, 0, 7, 300])
MAKERS = [make_tree_laplace, make_tree_gaussian]


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
def test_maps_are_monotone(make):
    release = make(leaf_domain(TREE), L1, 2.0)
    values = [release.map(k) for k in range(6)]
    assert values[0] == 0.0
    assert values == sorted(values)
    assert make(leaf_domain(TREE), L1, 4.0).map(1) < values[1]
    assert make(leaf_domain(TREE), L1, 0.0).map(1) == math.inf
    assert make(leaf_domain(TREE), L1, 0.0).map(0) == 0.0


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


def test_gaussian_composes_in_zcdp_and_casts():
    space = leaf_domain(TREE), L1
    gaussian = make_tree_gaussian(*space, 4.0)
    both = dp.c.make_composition([gaussian, make_tree_gaussian(*space, 8.0, weights=[1, 1, 2])])
    assert both.map(1) == pytest.approx(3 / 32 + 4 / 128)
    assert len(both(COUNTS)) == 2
    epsilon, delta = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), 1e-6).map(1)
    assert delta == 1e-6
    assert 1 < epsilon < 3


def test_contexts_solve_for_the_scale():
    ot.register()
    context = dp.Context.compositor(
        data=COUNTS,
        domain=leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    query = context.query().tree_laplace(nonnegative=True)
    assert query.param() == pytest.approx(3.0, rel=1e-9)
    assert query.release().estimates.min() >= 0
    context = dp.Context.compositor(
        data=COUNTS,
        domain=leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(rho=0.5),
        split_evenly_over=1,
    )
    query = context.query().tree_gaussian()
    assert query.param() == pytest.approx(math.sqrt(3), rel=1e-9)
    assert query.release().statement.measure == "zero_concentrated_divergence()"


@pytest.mark.parametrize("make", MAKERS)
def test_no_scale_no_promise_and_extremes(make):
    exact = make(leaf_domain(TREE), L1, 0.0)(COUNTS)
    assert exact.estimates.tolist() == TREE.sum(COUNTS).tolist()
    for scale in (5e-324, 1e-300, 1e300, 1.7e308):
        assert make(leaf_domain(TREE), L1, scale, weights=[1, 1e-5, 1e5]).map(1) >= 0
    assert make(leaf_domain(TREE), L1, 1e-300)(COUNTS).estimates.tolist() == TREE.sum(COUNTS).tolist()
    one = make(leaf_domain(Tree.from_parents([-1])), L1, 2.0)
    assert one(np.array([5])).estimates.size == 1


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scale": -1.0}, ValueError, r"scale \(-1.0\) must be finite and non-negative"),
        ({"weights": [1, 1]}, ValueError, "weights must hold one number for each of the 3 levels"),
        ({"weights": [1, -1, 1]}, ValueError, r"weights\[1\] \(-1\) must be finite and non-negative"),
        ({"weights": [1, math.nan, 1]}, ValueError, r"weights\[1\] \(nan\) must be finite and non-negative"),
        ({"weights": ["a", 1, 1]}, TypeError, r"weights\[0\] \('a'\) must be a number"),
        ({"weights": [0, 0, 0]}, ValueError, "weights must not all be 0"),
        ({"weights": [1, 1, 0]}, ValueError, r"variances leave node \d undetermined"),
        ({"confidence": 0.0}, ValueError, r"confidence \(0.0\) must be above 0 and below 1"),
        ({"nonnegative": "yes"}, TypeError, r"nonnegative \('yes'\) must be True or False"),
        ({"tree": Tree.from_parents([-1])}, ValueError, r"tree \(.*\) must be the tree of input_domain"),
    ],
)
def test_wrong_arguments_are_named(make, options, error, message):
    with pytest.raises(error, match=message):
        make(leaf_domain(TREE), L1, **{"scale": 1.0, **options})


@pytest.mark.parametrize("make", MAKERS)
def test_wrong_spaces_are_named(make):
    with pytest.raises(ValueError, match=r"input_metric \(.*\) must be l1_distance"):
        make(leaf_domain(TREE), dp.l2_distance(T="f64"), 1.0)
    with pytest.raises(ValueError, match=r"input_domain \(.*\) must be leaf_domain"):
        make(node_domain(TREE), L1, 1.0)
    with pytest.raises(ValueError, match="tree must be given"):
        make(vector(4), L1, 1.0)
    with pytest.raises(OpenDPException, match="must be a plain int64 array"):
        make(leaf_domain(TREE), L1, 1.0)(np.ma.array([1, 2, 3, 4], mask=[True, False, False, False]))
