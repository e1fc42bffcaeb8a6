"""The measurement: its map, its budget, and what it refuses."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, Tree, Value
from opendp_tree.mechanisms import LeafValues, leaf_values_domain, make_tree_means
from opendp_tree.mechanisms.find import even_parameters
from opendp_tree.mechanisms.means import _check_scales, choose_shares
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.theorems.partition import removal_delta
from opendp_tree.theorems.tree_means import STEPS

dp.enable_features("contrib")
AMOUNT = Value("amount", bounds=(0, 500))
PUBLIC = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")])
OPEN = OpenTree.columns(["country", "city"])
ROWS = dp.symmetric_distance()


def open_means(values=AMOUNT, **options):
    return make_tree_means(leaf_values_domain(OPEN, values), ROWS, **{"epsilon": 1.0, "delta": 1e-6, **options})


def public_means(values=AMOUNT, **options):
    return make_tree_means(leaf_values_domain(PUBLIC, values), ROWS, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("d_in", [1, 4])
@pytest.mark.parametrize("number", [1, 3])
def test_the_map_stays_within_the_budget_and_is_near_it(epsilon, d_in, number):
    values = [Value(str(place), bounds=(0, 1), weight=1.0 + place) for place in range(number)]
    pure = public_means(values, epsilon=epsilon, d_in=d_in)
    assert pure.output_measure == dp.max_divergence()
    assert epsilon * (1 - 1e-5) < pure.map(d_in) <= epsilon
    made = open_means(values, epsilon=epsilon, d_in=d_in)
    spent, lost = made.map(d_in)
    assert epsilon * (1 - 1e-9) < spent <= epsilon
    assert lost == 1e-6


@pytest.mark.parametrize("make", [open_means, public_means])
def test_the_map_is_nothing_at_0_and_proportional_in_epsilon(make):
    made = make()
    losses = [made.map(k) if make is public_means else made.map(k)[0] for k in range(6)]
    assert losses[0] == 0
    for k, loss in enumerate(losses):
        assert loss == pytest.approx(k * losses[1], rel=1e-12)


def test_delta_is_that_of_cells_at_the_distance():
    made = open_means()
    leaves = LeafValues(OPEN.count([("be", "ghent")] * 100), (np.array([50 * STEPS]),))
    statement = made(leaves).statement
    finding = Fraction(choose_shares(3, 1.0, 1e-6).finding)
    fringe = even_parameters(3, Fraction(1), Fraction(1e-6), finding=finding).fringes[0]
    assert (float(fringe.test_scale), fringe.thresholds[-1]) == tuple(
        statement.parameters[name] for name in ("scale", "threshold")
    )
    for k in (2, 5):
        lost = made.map(k)[1]
        exact = removal_delta(fringe, k=k)
        assert exact.lo <= Fraction(lost) <= Fraction(exact.hi) * (1 + Fraction(1, 2**50))


def test_the_statement_is_what_the_map_says():
    leaves = LeafValues(np.array([5, 6, 7]), (np.array([1, 2, 3]) * STEPS,))
    made = public_means(d_in=2)
    statement = made(leaves).statement
    assert statement.loss == {"epsilon": made.map(2)}
    assert (statement.mechanism, statement.d_in) == ("tree_means", 2)


def test_opendps_search_finds_the_epsilon_for_a_budget():
    found = dp.binary_search_chain(lambda epsilon: open_means(epsilon=epsilon), d_in=1, d_out=(0.5, 1e-6))
    assert 0.499 < found.map(1)[0] <= 0.5


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (open_means, {"delta": 0.0}, "delta .* must be above 0 where nodes are unknown"),
        (public_means, {"delta": 1e-6}, "delta must be 0 for a public tree"),
        (public_means, {"shares": (0.4, 0.3, 0.3)}, "shares, levels and known must be left out"),
        (public_means, {"levels": [0, 1]}, "shares, levels and known must be left out"),
        (open_means, {"shares": (0.4, 0.3, 0)}, "shares"),
        (open_means, {"levels": [7]}, "levels"),
        (open_means, {"epsilon": -1.0}, "epsilon"),
        (open_means, {"epsilon": 1e-4}, "epsilon must be larger"),
        (open_means, {"confidence": 1.0}, "confidence"),
        (open_means, {"d_in": 0}, "d_in"),
    ],
)
def test_nonsense_is_refused_before_a_row_is_read(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_scales_that_rounding_may_carry_beyond_the_largest_are_refused():
    _check_scales([1.0, LARGEST_SCALE * (1 - 2.0**-39)])
    for scale in (LARGEST_SCALE, LARGEST_SCALE * (1 - 2.0**-45), Fraction(LARGEST_SCALE) * (1 - Fraction(1, 2**50))):
        with pytest.raises(ValueError, match="noise of such a scale cannot be drawn"):
            _check_scales([1.0, scale])


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match="must be symmetric_distance"):
        make_tree_means(leaf_values_domain(OPEN, AMOUNT), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="must hold leaf values"):
        make_tree_means(dp.atom_domain(T=float), ROWS, epsilon=1.0)
    with pytest.raises(TypeError, match="three numbers"):
        open_means(shares=0.5)


def test_shares_that_are_given_are_taken():
    leaves = LeafValues(OPEN.count([("be", "ghent")] * 100), (np.array([50 * STEPS]),))
    told = open_means(shares=(0.5, 0.3, 0.2))(leaves).statement.parameters
    assert told["pairs_epsilon"] == pytest.approx(0.3, rel=0.05)
    assert told["cells_epsilon"] == pytest.approx(0.2, rel=0.05)
