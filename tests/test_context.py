import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.context import constructors

import opendp_tree as ot
from opendp_tree import (
    Key,
    Tree,
    Unit,
    Value,
    frame_context,
    frame_domain,
    leaf_domain,
    make_leaf_counts,
    register,
    then_leaf_counts,
    then_tree_counts,
    tree_counts,
)
from opendp_tree._opendp import make_measurement

TREE = ot.Tree.balanced(branching=2, depth=3)


@pytest.fixture
def context():
    ot.register()
    return dp.Context.compositor(
        data=TREE.count([3] * 1000),
        domain=ot.leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=2,
    )


def test_registering_twice_changes_nothing():
    ot.register()
    before = dict(constructors)
    ot.register()
    assert dict(constructors) == before
    assert {"tree_sum", "truncated_laplace", "sparse_vector", "above_threshold"} <= set(before)


def test_the_context_solves_for_the_scale(context):
    query = context.query().tree_sum().truncated_laplace(delta=4e-7, d_in=3)
    assert query.param() == pytest.approx(3 / 0.5, rel=1e-9)
    assert len(query.release()) == 7


def test_queryables_live_in_a_context(context):
    asked = context.query().sparse_vector(threshold=500, monotonic=True).release()
    assert asked(0) is True
    assert len(context.query().tree_sum(carrier="vector").laplace().release()) == 7
    with pytest.raises(ValueError, match=r"exhausted|consumed|budget|allocated"):
        context.query().tree_sum(carrier="vector").laplace().release()


def test_filters_and_odometers_account(context):
    filtered = dp.Context.compositor(
        data=TREE.count([3] * 1000),
        domain=ot.leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    )
    filtered.query(epsilon=0.5, delta=1e-7).truncated_laplace(delta=1e-7).release()
    epsilon, delta = filtered.current_privacy_loss()
    assert epsilon == pytest.approx(0.5, rel=1e-9)
    assert delta == 1e-7


VISITS = pl.DataFrame(
    {
        "user": [row % 300 for row in range(1300)],
        "country": ["be"] * 900 + ["lu"] * 400,
        "city": ["ghent"] * 800 + ["liege"] * 100 + ["lux"] * 400,
    }
)
ROW = dp.unit_of(contributions=1)
PERSON = dp.unit_of(contributions=1, identifier="user")
PAIR = dp.loss_of(epsilon=1.0, delta=1e-6)
SURE = 1 - 1e-9


def contexts(unit, loss, **split):
    """The same budget over the same frame, by OpenDP's own road and by reference."""
    through = dp.Context.compositor(data=VISITS.lazy(), privacy_unit=unit, privacy_loss=loss, **split)
    return through, frame_context(VISITS, privacy_unit=unit, privacy_loss=loss, **split)


def test_a_budget_is_split_and_kept_on_both_roads():
    for context in contexts(ROW, PAIR, split_by_weights=[1, 3]):
        steps = context.query().filter(pl.col("country") != "fr")
        first = tree_counts(steps, by=["country", "city"]).release()
        assert first.statement.loss["epsilon"] <= 0.25
        second = tree_counts(context.query(), by="country", confidence=SURE).release()
        assert 0.7 <= second.statement.loss["epsilon"] <= 0.75
        assert second.lower[0] <= 1300 <= second.upper[0]  # a false alarm has a chance of at most 1e-9
        assert second.upper[0] - second.lower[0] < 1300
        with pytest.raises(Exception, match=r"exhausted|allowance"):
            tree_counts(context.query(), by="country").release()


def test_identifiers_are_bounded_here_or_by_opendp():
    for context in contexts(PERSON, PAIR, split_evenly_over=2):
        sure = {"by": "country", "confidence": SURE}
        ours = tree_counts(context.query(), unit=Unit("user", rows=2), **sure).release()
        theirs = tree_counts(context.query().truncate_per_group(2), **sure).release()
        for release in (ours, theirs):
            assert release.statement.d_in == 2
            assert release.statement.unit == "one value of 'user', with at most 2 rows"
            assert release.lower[0] <= 600 <= release.upper[0]


def test_an_unbounded_identifier_is_refused_and_costs_nothing():
    for context in contexts(PERSON, PAIR, split_evenly_over=1):
        with pytest.raises(Exception, match=r"Hint: unit=Unit\('user'|not recognized"):
            tree_counts(context.query(), by="country")
        assert tree_counts(context.query(), by="country", unit=Unit("user", rows=1)).release() is not None


def test_filters_and_other_measures_work():
    for context in contexts(ROW, PAIR):
        release = tree_counts(context.query(epsilon=0.3, delta=1e-7), by="country").release()
        assert release.statement.loss["epsilon"] <= 0.3
    tree = Tree.from_paths([("be",), ("lu",)])
    for context in contexts(ROW, dp.loss_of(rho=0.1), split_evenly_over=1):
        release = tree_counts(context.query(), by=Key.columns("country", tree=tree)).release()
        assert set(release.statement.loss) == {"rho"}
        assert release.estimates.size == 3
    for context in contexts(ROW, dp.loss_of(epsilon=1.0), split_evenly_over=1):
        spent = tree_counts(context.query(), by=Key.columns("country", tree=tree)).release().statement.loss["epsilon"]
        assert 1 - 1e-9 < spent <= 1


def test_a_release_is_a_measurement_like_any_other():
    space = frame_domain(VISITS), dp.symmetric_distance()
    counts = space >> then_leaf_counts(by="country") >> then_tree_counts(epsilon=0.2, delta=1e-7)
    odometer = dp.c.make_fully_adaptive_composition(*space, dp.approximate(dp.max_divergence()))
    queryable = odometer(VISITS)
    assert queryable(counts).estimates.size == 3
    assert queryable.privacy_loss(1) == counts.map(1)


def test_steps_that_see_other_rows_or_fail_are_refused_by_both_contexts_and_cost_nothing():
    codes = pl.col("user").cut([1.0]).to_physical().alias("country")
    for context in contexts(PERSON, PAIR, split_evenly_over=1):
        refused = [
            context.query().filter((pl.col("country") == "be").replace_strict({False: True})),
            context.query().with_columns(codes),
            context.query().truncate_per_group(1, None, "first"),
            context.query().filter(pl.int_range(pl.len()).over("user") < 1),
        ]
        for query in refused:
            with pytest.raises(ValueError, match="must be row-wise and never fail"):
                tree_counts(query, by="country")
        assert tree_counts(context.query().truncate_per_group(1), by="country").release() is not None


def test_tree_counts_becomes_a_method_of_all_queries():
    register()
    register()
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        assert context.query().filter(pl.col("user") > 9).tree_counts(by="country").release().estimates.size == 3
    counts = dp.Context.compositor(
        data=np.array([40, 500]),
        domain=leaf_domain(Tree.from_paths([("be",), ("lu",)])),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    assert counts.query().tree_counts().release().estimates.size == 3


def test_wrong_queries_are_refused():
    (context,) = contexts(ROW, PAIR, split_evenly_over=1)[:1]
    with pytest.raises(ValueError, match="by"):
        tree_counts(context.query())
    with pytest.raises(TypeError, match="query"):
        tree_counts(VISITS, by="country")
    by_reference = contexts(ROW, PAIR, split_evenly_over=1)[1]
    with pytest.raises(AttributeError, match="fly"):
        by_reference.query().fly()
    assert by_reference.current_privacy_loss() is not None


def test_frames_by_reference_are_not_copied():
    frame = VISITS.lazy()
    seen = []
    space = frame_domain(VISITS), dp.symmetric_distance()
    counts = make_leaf_counts(*space, by="country")
    context = frame_context(frame, privacy_unit=ROW, privacy_loss=PAIR, split_evenly_over=1)
    spy = make_measurement(*space, dp.approximate(dp.max_divergence()), seen.append, lambda d_in: (0.5, 1e-7))
    context.context(spy)
    assert seen[0] is frame
    assert counts.map(1) == 1


PUBLIC = Tree.from_paths([("be",), ("lu",)])
SHARED = {
    "multiplicative_estimator": {"alpha": 0.5, "eta": 0.01, "mass_bound": 10**8},
    "tree_classifier": {"alpha": 0.5, "eta": 0.01, "threshold": 500, "mass": 10_000},
    "partition_estimator": {},
}


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
def test_what_takes_epsilon_and_delta_takes_the_share_of_its_query(name, people):
    """A third of a budget is no float: what is typed in its place is too much or too little."""
    register()
    context = dp.Context.compositor(
        data=np.array([900, 400]),
        domain=leaf_domain(PUBLIC),
        privacy_unit=dp.unit_of(l1=people, U="i64"),
        privacy_loss=PAIR,
        split_evenly_over=3,
    )
    query = getattr(context.query(), name)(**SHARED[name])
    epsilon, delta = query.resolve().map(people)
    share = context.query()._d_out
    assert 0.33 < epsilon <= share[0]
    assert 0 < delta <= share[1]
    assert query.release() is not None
    typed = getattr(context.query(), name)(epsilon=0.01, delta=1e-9, **SHARED[name])
    assert typed.resolve().map(1)[0] <= 0.01
    assert typed.release() is not None


def test_a_share_without_delta_is_refused_by_name():
    register()
    for loss in (dp.loss_of(epsilon=1.0), dp.loss_of(rho=0.5)):
        context = dp.Context.compositor(
            data=np.array([900, 400]),
            domain=leaf_domain(PUBLIC),
            privacy_unit=dp.unit_of(l1=1, U="i64"),
            privacy_loss=loss,
            split_evenly_over=1,
        )
        with pytest.raises(ValueError, match=r"partition_estimator must have a share of epsilon and delta. Hint"):
            context.query().partition_estimator()


LINF = dp.linf_distance(T="i64")
CHAINS = {
    "tree_counts": lambda query: query.tree_counts(),
    "partition_estimator": lambda query: query.partition_estimator(),
    "multiplicative_estimator": lambda query: query.multiplicative_estimator(**SHARED["multiplicative_estimator"]),
    "truncated_laplace": lambda query: query.tree_sum().truncated_laplace(delta=1e-7, d_in=3),
    "tree_partition": lambda query: query.tree_partition(token_scale=20.0, threshold=400, radius=300, margin=40),
    "pruned_descent": lambda query: query.pruned_descent(delta=1e-7),
    "sparse_vector": lambda query: query.sparse_vector(threshold=500, monotonic=True),
    "above_threshold": lambda query: query.tree_sum(output_metric=dp.linf_distance(T="i64")).above_threshold(
        threshold=9
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
def test_every_part_follows_polars_steps_and_leaf_counts_on_both_roads(name):
    register()
    key = Key.columns("country", tree=PUBLIC)
    for context in contexts(PERSON, PAIR, split_evenly_over=1):
        counts = context.query().filter(pl.col("city") != "liege").leaf_counts(by=key, unit=Unit("user", rows=1))
        query = CHAINS[name](counts)
        epsilon, delta = query.resolve().map(1)
        assert 0 < epsilon <= 1.0
        assert delta <= 1e-6
        assert query.release() is not None


def test_leaf_counts_of_a_query_are_those_of_the_frame():
    register()
    for context in contexts(dp.unit_of(contributions=2), PAIR, split_evenly_over=1):
        query = context.query().filter(pl.col("city") != "liege").leaf_counts(by=Key.columns("country", tree=PUBLIC))
        assert query._chain.map(2) == 2
        assert query.tree_counts().release().statement.unit == "2 rows"


def test_vectors_take_their_tree_where_frames_take_a_key():
    register()
    context = dp.Context.compositor(
        data=[900, 400],
        domain=dp.vector_domain(dp.atom_domain(T="i64"), size=2),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=PAIR,
        split_evenly_over=1,
    )
    with pytest.raises(ValueError, match="by, unit and value must not be given"):
        context.query().tree_counts(by="country")
    assert context.query().tree_counts(by=PUBLIC).release().estimates.size == 3


def test_levels_that_are_not_shown_get_no_budget_where_that_can_be_honoured():
    tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")])
    key = Key.columns("country", "city", tree=tree, show=["city"])
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        assert tree_counts(context.query(), by=key).release().estimates.size == tree.node_count
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        query = tree_counts(context.query(), by=Key.columns("country", "city", show=["city"]))
        assert set(query.release().to_frame(other=False)["level"].to_list()) == {0, 2}


def test_a_frame_context_prints_what_is_spent_and_left():
    rows = pl.DataFrame({"country": ["be"] * 900})
    settings = {"privacy_unit": dp.unit_of(contributions=1), "privacy_loss": dp.loss_of(epsilon=1.0, delta=1e-6)}
    context = frame_context(rows, **settings, split_evenly_over=2)
    context.query().tree_counts(by="country").release()
    states = [line.split()[-1] for line in repr(context).splitlines()[2:]]
    assert states == ["state", "spent", "left"]
    assert "epsilon 0.5" in repr(context)
    assert "epsilon 0.5" in context._repr_html_()
    open_ended = frame_context(rows, **settings)
    assert "spent" in repr(open_ended)
    assert "left" in open_ended._repr_html_()


def test_a_query_says_what_it_counts():
    rows = pl.DataFrame({"country": ["be"] * 900, "user": list(range(300)) * 3})
    loss = dp.loss_of(epsilon=1.0, delta=1e-6)
    plain = frame_context(rows, privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, split_evenly_over=1)
    assert plain.query().tree_counts(by="country").release().statement.counted == "rows of the query"
    people = dp.unit_of(contributions=1, identifier="user")
    context = frame_context(rows, privacy_unit=people, privacy_loss=loss, split_evenly_over=1)
    release = context.query().tree_counts(by="country", unit=Unit("user", rows=2)).release()
    assert release.statement.counted == (
        "rows of the query after keeping at most 2 of each user, and none without a user"
    )


@pytest.mark.parametrize("by_reference", [False, True])
def test_sums_and_means_follow_the_steps_of_a_query(by_reference):
    visits = pl.LazyFrame({"city": ["ghent"] * 900 + ["liege"] * 500, "amount": [40.0] * 900 + [90.0] * 500})
    make = frame_context if by_reference else dp.Context.compositor
    context = make(
        data=visits,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=6.0, delta=1e-6),
        split_evenly_over=2,
    )
    wanted = Value("amount", bounds=(0, 100))
    release = tree_counts(context.query().filter(pl.col("amount") > 50), by="city", value=wanted).release()
    assert release.statement.counted == "rows of the query with a number in amount"
    assert [round(mean, -1) for mean in release.to_frame(other=False)["mean"]] == [90, 90]
    with pytest.raises(ValueError, match="value"):
        tree_counts(context.query(), by="city", value=Value("city", bounds=(0, 1)))
