"""Each measurement goes through every combinator of OpenDP that can take its measure: docs/reference.md."""

import inspect
from importlib import import_module
from itertools import product
from pkgutil import walk_packages

import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_tree as ot
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_partition import make_tree_partition
from tests.mechanisms import combinators
from tests.mechanisms.combinators import COMBINATORS, MEASUREMENTS, SIZED, TAKES, takes, use, works

TREE = ot.Tree.balanced(branching=2, depth=3)
LEAVES = ot.leaf_domain(TREE), dp.l1_distance(T="i64")

pytestmark = pytest.mark.filterwarnings("ignore:rho should be less")


@pytest.fixture(autouse=True)
def _some_combinators_need_the_feature():
    dp.enable_features("honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


def test_a_measurement_goes_through_what_takes_its_measure_and_nothing_else_and_the_page_says_so():
    """`python -m tests.mechanisms.combinators` writes it anew."""
    assert [cell for cell in product(MEASUREMENTS, COMBINATORS) if works(*cell) != takes(*cell)] == []
    assert combinators.PAGE.read_text() == combinators.page()


MODULES = [ot, *(import_module(found.name) for found in walk_packages(ot.__path__, "opendp_tree."))]
EXPORTED = {name: getattr(module, name) for module in MODULES for name in getattr(module, "__all__", ())}


def public_makers(kind):
    """The names of all constructors with a `then_` that modules of the package export, and that give a `kind`."""
    makers = {f"make_{name.removeprefix('then_')}" for name in EXPORTED if name.startswith("then_")}
    return {name for name in makers if EXPORTED[name].__annotations__["return"] == kind}


def test_every_public_measurement_is_in_the_table():
    makers = public_makers("Measurement")
    assert {"make_tree_laplace", "make_tree_means", "make_tree_counts", "make_clipped_estimator"} <= makers
    assert {name.split(",")[0] for name in MEASUREMENTS} == makers


MAKERS = sorted(public_makers("Measurement") | public_makers("Transformation") | public_makers("Function"))


@pytest.mark.parametrize("name", MAKERS)
def test_every_constructor_asks_for_contrib(name):
    dp.disable_features("contrib")
    parameters = inspect.signature(EXPORTED[name]).parameters.values()
    required = {each.name: None for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD}
    with pytest.raises(OpenDPException, match="contrib"):
        EXPORTED[name](**required)


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


@pytest.mark.parametrize("name", ON_VECTORS)
@pytest.mark.parametrize("metric", [dp.l2_distance(T="f64"), dp.linf_distance(T="i64"), dp.l1_distance(T="f32")])
def test_other_metrics_are_refused(name, metric):
    """Their maps are those of another distance."""
    with pytest.raises(ValueError, match=r"input_metric \(.*\) must be l1_distance"):
        ON_VECTORS[name]((LEAVES[0], metric))
