"""Each measurement goes through every combinator of OpenDP that can take its measure: docs/reference.md."""

import inspect
from functools import partial
from importlib import import_module
from itertools import product
from pkgutil import walk_packages

import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_tree as ot
from tests.mechanisms import combinators
from tests.mechanisms.combinators import COMBINATORS, MEASUREMENTS, takes, use, works

TREE = ot.Tree.balanced(branching=2, depth=3)

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


ON_VECTORS = {
    "make_tree_sum": lambda space: ot.make_tree_sum(*space, tree=TREE),
    **{
        name: partial(lambda made, space: made.func(*space, **made.keywords, tree=TREE), made)
        for name, made in MEASUREMENTS.items()
        if isinstance(made, partial) and "tree" in inspect.signature(made.func).parameters and "curve" not in name
    },
}


@pytest.mark.parametrize("name", ON_VECTORS)
def test_counts_by_categories_lead_into_every_part_whatever_their_length(name):
    """OpenDP's `count_by_categories` declares no size and has `L1Distance(i32)`; no length of data is an error."""
    records = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    for categories in (["a"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e", "f"]):
        counts = records >> dp.t.then_count_by_categories(categories, null_category=True)
        part = ON_VECTORS[name]((counts.output_domain, counts.output_metric))
        chain = counts >> part
        exact = ON_VECTORS[name](combinators.LEAVES)
        assert chain.map(1) == exact.map(1)
        use(chain(["a"] * 9 + ["f", "x"]))
    for length in (0, 1, 4, 9):
        use(part([5] * length))
