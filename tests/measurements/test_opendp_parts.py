"""Each measurement goes through every combinator of OpenDP that can take it; where OpenDP cannot, so do its errors."""

import numpy as np
import opendp.prelude as dp
import pytest
from opendp._internal import _make_transformation, _new_pure_function
from opendp.mod import OpenDPException

import opendp_tree as ot

TREE = ot.Tree.balanced(branching=2, depth=3)
LEAVES = ot.leaf_domain(TREE), dp.l1_distance(T="i64")
VECTOR = dp.vector_domain(dp.atom_domain(T="i64"), size=4), dp.l1_distance(T="i64")
LINF = dp.linf_distance(T="i64")
APPROXIMATE, PURE = dp.approximate(dp.max_divergence()), dp.max_divergence()


def truncated_laplace(space, scale):
    return space >> ot.then_truncated_laplace(scale, delta=1e-7)


def noisy_tree(space, scale):
    return space >> ot.then_tree_sum(tree=TREE) >> ot.then_truncated_laplace(scale, delta=1e-7, d_in=3)


def sparse_vector(space, scale):
    return space >> ot.then_sparse_vector(scale, threshold=20, tree=TREE)


def above_threshold(space, scale):
    return (
        space
        >> ot.then_tree_sum(tree=TREE, output_metric=LINF)
        >> ot.measurements.then_above_threshold(scale, threshold=20)
    )


def tree_partition(space, scale):
    return space >> ot.then_tree_partition(
        scale / 4, token_scale=scale / 4, threshold=300, radius=200, margin=40, tree=TREE
    )


def partition_estimator(space, scale):
    return space >> ot.then_partition_estimator(epsilon=1 / max(scale, 1e-9), delta=1e-7, tree=TREE)


SEARCHABLE = [truncated_laplace, noisy_tree, sparse_vector, above_threshold]
MEASUREMENTS = [*SEARCHABLE, tree_partition, partition_estimator]
SPACES = {"vector": (VECTOR, [40, 2, 1, 0]), "array": (LEAVES, np.array([40, 2, 1, 0]))}

each = pytest.mark.parametrize("make", MEASUREMENTS)
both = pytest.mark.parametrize("carrier", SPACES)


def use(release):
    """Look at a release; a queryable is asked."""
    if isinstance(release, dp.Queryable):
        assert release(0) in (True, False)
    elif isinstance(release, ot.TreeRelease):
        assert release.estimates.size == 7
    elif hasattr(release, "gaps"):
        assert len(release.nodes) == len(release.gaps) <= 7
    else:
        assert len(release) <= 7


def total(losses):
    """Losses of one measure, added up."""
    if isinstance(losses[0], tuple):
        return tuple(map(sum, zip(*losses, strict=True)))
    return sum(losses)


@each
@both
def test_chain(make, carrier):
    space, data = SPACES[carrier]
    measurement = make(space, 4.0)
    assert measurement.output_measure in (APPROXIMATE, PURE)
    use(measurement(data))
    if not isinstance(measurement(data), dp.Queryable):
        assert (measurement >> _new_pure_function(lambda release: 7, "i32"))(data) == 7


@each
@both
def test_composition(make, carrier):
    space, data = SPACES[carrier]
    parts = [make(space, 4.0), make(space, 8.0)]
    composed = dp.c.make_composition(parts)
    assert composed.map(1) == pytest.approx(total([part.map(1) for part in parts]), rel=1e-14)
    for release in composed(data):
        use(release)


@each
@both
def test_adaptive_composition(make, carrier):
    space, data = SPACES[carrier]
    measurement = make(space, 4.0)
    loss = measurement.map(1)
    asked = dp.c.make_adaptive_composition(*space, measurement.output_measure, d_in=1, d_mids=[loss, loss])(data)
    use(asked(measurement))
    use(asked(measurement))
    with pytest.raises(OpenDPException):
        asked(measurement)


@each
@both
def test_odometer(make, carrier):
    space, data = SPACES[carrier]
    measurement = make(space, 4.0)
    odometer = dp.c.make_fully_adaptive_composition(*space, measurement.output_measure)(data)
    use(odometer(measurement))
    use(odometer(measurement))
    assert odometer.privacy_loss(1) == pytest.approx(total([measurement.map(1)] * 2), rel=1e-14)


@each
@both
def test_privacy_filter(make, carrier):
    space, data = SPACES[carrier]
    measurement = make(space, 4.0)
    loss = measurement.map(1)
    budget = tuple(2.5 * part for part in loss) if isinstance(loss, tuple) else 2.5 * loss
    odometer = dp.c.make_fully_adaptive_composition(*space, measurement.output_measure)
    guarded = dp.c.make_privacy_filter(odometer, d_in=1, d_out=budget)(data)
    use(guarded(measurement))
    use(guarded(measurement))
    with pytest.raises(OpenDPException):
        guarded(measurement)


@pytest.mark.parametrize("make", SEARCHABLE)
@both
def test_searches_for_the_scale(make, carrier):
    """`delta=` lets OpenDP compare pairs, so that its searches for a scale work as for its own noise."""
    space, data = SPACES[carrier]
    approximate = make(space, 1.0).output_measure == APPROXIMATE
    target = (0.5, 1e-7) if approximate else 0.5
    scale = dp.binary_search_param(lambda scale: make(space, scale), d_in=1, d_out=target)
    found = dp.binary_search_chain(lambda scale: make(space, scale), d_in=1, d_out=target)
    assert found.map(1) == make(space, scale).map(1)
    loss = found.map(1)[0] if approximate else found.map(1)
    assert 0.5 * (1 - 1e-9) <= loss <= 0.5
    assert found.check(1, target)
    use(found(data))


def test_a_fixed_radius_cannot_be_searched_for_as_a_pair():
    """OpenDP orders (epsilon, delta) as a product and stops at pairs that it cannot compare. Hint: `delta=`."""
    with pytest.raises(OpenDPException, match="unknown ordering"):
        dp.binary_search_param(
            lambda scale: ot.make_truncated_laplace(*VECTOR, scale, radius=40),
            d_in=1,
            d_out=(0.5, 1e-7),
            bounds=(0.1, 10.0),
        )


def records():
    """Eight records, each a leaf's place: sized and at row level, as amplification needs them."""
    space = dp.vector_domain(dp.atom_domain(T="i64", bounds=(0, 3)), size=8), dp.symmetric_distance()
    return _make_transformation(
        *space, *LEAVES, lambda rows: np.bincount(np.array(rows, dtype=np.int64), minlength=4), lambda d_in: d_in
    )


@each
def test_amplification_of_a_record_level_chain(make):
    measurement = records() >> make(LEAVES, 4.0)
    amplified = dp.c.make_population_amplification(measurement, 800)
    plain, less = measurement.map(2), amplified.map(2)
    if isinstance(plain, tuple):
        assert less[0] < plain[0]
        assert less[1] < plain[1]
    else:
        assert less < plain
    use(amplified([0, 1, 2, 3, 0, 1, 2, 3]))


@pytest.fixture(autouse=True)
def _amplification_needs_the_feature():
    dp.enable_features("honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


@each
@both
def test_context_takes_a_measurement(make, carrier):
    space, data = SPACES[carrier]
    context = dp.Context.compositor(
        data=data,
        domain=space[0],
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=2,
    )
    measurement = make(space, 40.0)
    if measurement.output_measure == PURE:
        measurement = dp.c.make_approximate(measurement)
    use(context(measurement))
    use(context(measurement))


def profile(scale=4.0):
    return ot.measurements.make_truncated_laplace_profile(*VECTOR, scale, radius=40)


def test_a_profile_becomes_a_pair_by_fixing_delta():
    fixed = dp.c.make_fix_delta(profile(), 1e-3)
    assert fixed.output_measure == APPROXIMATE
    assert fixed.map(1)[1] == 1e-3
    assert fixed.map(1)[0] < 0.25
    use(fixed([40, 2, 1, 0]))
    composed = dp.c.make_composition([fixed, ot.make_truncated_laplace(*VECTOR, 4.0, radius=40)])
    assert composed.map(1)[0] == pytest.approx(fixed.map(1)[0] + 0.25, rel=1e-14)


@pytest.mark.parametrize(
    "combine",
    [
        lambda m: dp.c.make_composition([m, m]),
        lambda m: dp.c.make_adaptive_composition(*VECTOR, m.output_measure, d_in=1, d_mids=[m.map(1)]),
        lambda m: dp.c.make_fully_adaptive_composition(*VECTOR, m.output_measure),
        lambda m: dp.c.make_population_amplification(m, 100).map(1),
    ],
)
def test_opendp_cannot_combine_profiles(combine):
    """OpenDP 0.16 composes and amplifies no `smoothed_max_divergence`, its own included: fix delta first."""
    with pytest.raises((OpenDPException, dp.UnknownTypeException, AttributeError, TypeError)):
        combine(profile())


def test_measures_do_not_mix_without_a_cast():
    pair, pure = truncated_laplace(VECTOR, 4.0), sparse_vector(VECTOR, 4.0)
    with pytest.raises(OpenDPException, match="All output measures must be the same"):
        dp.c.make_composition([pair, pure])
    composed = dp.c.make_composition([pair, dp.c.make_approximate(pure)])
    assert composed.map(1)[0] == pytest.approx(pair.map(1)[0] + pure.map(1), rel=1e-14)


def test_pure_parts_compose_with_opendps_own():
    both_pure = dp.c.make_composition([sparse_vector(VECTOR, 4.0), dp.m.make_laplace(*VECTOR, 4.0)])
    asked, noisy = both_pure([40, 2, 1, 0])
    use(asked)
    use(noisy)
    concentrated = dp.c.make_pureDP_to_zCDP(sparse_vector(VECTOR, 4.0))
    assert concentrated.map(1) == pytest.approx(sparse_vector(VECTOR, 4.0).map(1) ** 2 / 2, rel=1e-12)
