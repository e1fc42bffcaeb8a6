"""Each measurement goes through every combinator of OpenDP that can take its measure: docs/combinators.md."""

from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_tree as ot
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_partition import make_tree_partition
from tests.mechanisms import combinators
from tests.mechanisms.combinators import COMBINATORS, MEASUREMENTS, SIZED, TAKES, takes, use, works
from tests.thoroughness import thinned

TREE = ot.Tree.balanced(branching=2, depth=3)
LEAVES = ot.leaf_domain(TREE), dp.l1_distance(T="i64")
VECTOR = dp.vector_domain(dp.atom_domain(T="i64"), size=4), dp.l1_distance(T="i64")
LINF = dp.linf_distance(T="i64")
APPROXIMATE = dp.approximate(dp.max_divergence())

pytestmark = pytest.mark.filterwarnings("ignore:rho should be less")


@pytest.fixture(autouse=True)
def _some_combinators_need_the_feature():
    dp.enable_features("honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


@pytest.mark.parametrize("combinator", thinned(COMBINATORS, 4))
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_goes_through_what_takes_its_measure_and_nothing_else(name, combinator):
    assert works(name, combinator) == takes(name, combinator)


def test_the_page_is_what_was_run():
    """`python -m tests.mechanisms.combinators` writes it anew."""
    assert combinators.PAGE.read_text() == combinators.page()


def public_makers(kind):
    """The names of all constructors with a `then_` that modules of the package export, and that give a `kind`."""
    modules = [import_module(found.name) for found in walk_packages(ot.__path__, "opendp_tree.")]
    exported = {name: getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    makers = {f"make_{name.removeprefix('then_')}" for name in exported if name.startswith("then_")}
    return {name for name in makers if exported[name].__annotations__["return"] == kind}


def test_every_public_measurement_is_in_the_table():
    makers = public_makers("Measurement")
    assert {"make_tree_laplace", "make_tree_means", "make_tree_counts", "make_clipped_estimator"} <= makers
    assert {name.split(",")[0] for name in MEASUREMENTS} == makers


def test_frames_of_opendps_own_cannot_be_amplified_either():
    frame = dp.lazyframe_domain([dp.series_domain("user", dp.atom_domain(T="i64"))])
    counted = dp.m.make_private_lazyframe(
        dp.with_margin(frame, dp.polars.Margin(by=[], max_length=400)),
        dp.symmetric_distance(),
        dp.max_divergence(),
        combinators.FRAME.lazy().select("user").select(dp.len(signed=True)),
        global_scale=4.0,
    )
    for combinator in SIZED:
        with pytest.raises((OpenDPException, dp.UnknownTypeException, AttributeError, TypeError)):
            COMBINATORS[combinator](counted)


def test_what_opendp_takes_does_not_depend_on_whose_measurement_it_is():
    """The dashes of the table are OpenDP's own: its noise of the same measures is refused by the same combinators."""
    space = combinators.RECORDS[0], combinators.RECORDS[1]
    counts = space >> dp.t.then_count_by_categories([1, 3, 4], null_category=False, TOA="i64")
    laplace, gaussian = counts >> dp.m.then_laplace(4.0), None
    for combinator, run in COMBINATORS.items():
        if "pure" in TAKES[combinator]:
            run(laplace)
    squares = dp.t.make_count_by_categories(*space, [1, 3], False, MO="L2Distance<f64>", TOA="i64")
    gaussian = squares >> dp.m.then_gaussian(4.0)
    for combinator, run in COMBINATORS.items():
        if "zCDP" in TAKES[combinator]:
            run(gaussian)
        else:
            with pytest.raises((OpenDPException, dp.UnknownTypeException, TypeError)):
                run(gaussian)


ON_VECTORS = {
    "tree_sum": lambda space: ot.make_tree_sum(*space, tree=TREE),
    "tree_laplace": lambda space: ot.make_tree_laplace(*space, 4.0, tree=TREE),
    "tree_gaussian": lambda space: ot.make_tree_gaussian(*space, 4.0, tree=TREE),
    "pruned_descent": lambda space: ot.mechanisms.make_pruned_descent(*space, 4.0, delta=1e-7, tree=TREE),
    "tree_partition": lambda space: make_tree_partition(*space, 4.0, delta=1e-7, tree=TREE),
    "tree_estimator": lambda space: make_tree_estimator(*space, epsilon=1.0, delta=1e-7, tree=TREE),
    "tree_counts": lambda space: ot.planning.make_tree_counts(*space, epsilon=1.0, delta=1e-7, tree=TREE),
    "sparse_vector": lambda space: ot.make_sparse_vector(*space, 4.0, threshold=20, tree=TREE),
    "tree_classifier": lambda space: ot.paper.make_tree_classifier(
        *space, **combinators.BUDGET, threshold=10**5, mass=2 * 10**5, tree=TREE
    ),
    "ladder_estimator": lambda space: ot.paper.make_ladder_estimator(
        *space, ladder=ot.paper.Ladder(2900, (combinators.STEP,)), tree=TREE
    ),
    "multiplicative_estimator": lambda space: ot.make_multiplicative_estimator(
        *space, **combinators.BUDGET, mass_bound=10**8, tree=TREE
    ),
}


@pytest.mark.parametrize("name", ON_VECTORS)
def test_counts_by_categories_lead_into_every_part_whatever_their_length(name):
    """OpenDP's `count_by_categories` declares no size and has `L1Distance(i32)`; no length of data is an error."""
    records = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    for categories in (["a"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e", "f"]):
        counts = records >> dp.t.then_count_by_categories(categories, null_category=True)
        part = ON_VECTORS[name]((counts.output_domain, counts.output_metric))
        chain = counts >> part
        exact = ON_VECTORS[name](LEAVES)
        assert chain.map(1) == exact.map(1)
        use(chain(["a"] * 9 + ["f", "x"]))
    for length in (0, 1, 4, 9):
        use(part([5] * length))


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
        >> ot.mechanisms.then_above_threshold(scale, threshold=20)
    )


SPACES = {"vector": (VECTOR, [40, 2, 1, 0]), "array": (LEAVES, np.array([40, 2, 1, 0]))}


@pytest.mark.parametrize("make", [truncated_laplace, noisy_tree, sparse_vector, above_threshold])
@pytest.mark.parametrize("carrier", SPACES)
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


def test_a_profile_becomes_a_pair_by_fixing_delta():
    fixed = dp.c.make_fix_delta(ot.mechanisms.make_truncated_laplace_profile(*VECTOR, 4.0, radius=40), 1e-3)
    assert fixed.output_measure == APPROXIMATE
    assert fixed.map(1)[1] == 1e-3
    assert fixed.map(1)[0] < 0.25
    use(fixed([40, 2, 1, 0]))
    composed = dp.c.make_composition([fixed, ot.make_truncated_laplace(*VECTOR, 4.0, radius=40)])
    assert composed.map(1)[0] == pytest.approx(fixed.map(1)[0] + 0.25, rel=1e-14)


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
