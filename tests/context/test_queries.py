from functools import partial

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, Unit, Value, frame_context, frame_domain, register, then_leaf_counts, tree_counts
from opendp_tree.planning import Curve, Quantiles, then_tree_counts
from tests.context.shared import PAIR, PERSON, PUBLIC, ROW, SURE, VISITS, contexts


def test_a_budget_is_split_and_kept_on_both_roads():
    for context in contexts(ROW, PAIR, split_by_weights=[1, 3]):
        steps = context.query().filter(pl.col("country") != "fr")
        first = tree_counts(steps, by=["country", "city"]).release()
        assert first.statement.loss["epsilon"] <= 0.25
        second = tree_counts(context.query(), by="country", confidence=SURE).release()
        assert 0.7 <= second.statement.loss["epsilon"] <= 0.75
        assert second.lower[0] <= 1300 <= second.upper[0]  # a false alarm has a chance of at most 1e-9
        assert second.upper[0] - second.lower[0] < 1300
        with pytest.raises(Exception, match=r"exhausted|allowance|budget is spent"):
            tree_counts(context.query(), by="country").release()


def test_identifiers_are_bounded_here_or_by_opendp():
    for context in contexts(PERSON, PAIR, split_evenly_over=2):
        sure = {"by": "country", "confidence": SURE}
        ours = tree_counts(context.query(), unit=Unit("user", rows=2), **sure).release()
        theirs = tree_counts(context.query().truncate_per_group(2), **sure).release()
        for release, rows in ((ours, 1), (theirs, 2)):
            assert release.statement.d_in == rows
            assert release.statement.unit == "one value of 'user'"
            assert release.lower[0] <= 600 <= release.upper[0]
            assert release.upper[0] - release.lower[0] < 3000


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
        assert release.estimates.size == 4
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
    with pytest.raises(ValueError, match="by, unit, value and memory must not be given"):
        context.query().tree_counts(by="country")
    assert context.query().tree_counts(by=PUBLIC).release().estimates.size == 3


def test_levels_that_are_not_shown_get_no_budget_where_that_can_be_honoured():
    tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")])
    key = Key.columns("country", "city", tree=tree, show=["city"], outside="drop")
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        assert tree_counts(context.query(), by=key).release().estimates.size == tree.node_count
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        query = tree_counts(context.query(), by=Key.columns("country", "city", show=["city"]))
        assert set(query.release().to_frame(other=False)["level"].to_list()) == {0, 2}


def test_a_query_says_what_it_counts():
    rows = pl.DataFrame({"country": ["be"] * 900, "user": list(range(300)) * 3})
    loss = dp.loss_of(epsilon=1.0, delta=1e-6)
    plain = frame_context(rows, privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, split_evenly_over=1)
    assert plain.query().tree_counts(by="country").release().statement.counted == "rows of the query"
    people = dp.unit_of(contributions=1, identifier="user")
    context = frame_context(rows, privacy_unit=people, privacy_loss=loss, split_evenly_over=1)
    release = context.query().tree_counts(by="country", unit=Unit("user", rows=2)).release()
    assert release.statement.counted == (
        "rows of the query, those of each user weighed down to 2 in all, and none without a user"
    )


def test_numbers_and_what_is_outside_are_counted_in_both_contexts():
    people = pl.DataFrame(
        {"age": [34.0] * 900 + [float("nan"), None, -1.0] * 100, "ip": ["10.0.0.1"] * 700 + ["::1"] * 500}
    )
    loss = dp.loss_of(epsilon=4.0, delta=1e-6)
    for make in (frame_context, partial(dp.Context.compositor, margins=[])):
        context = make(people.lazy(), privacy_unit=ROW, privacy_loss=loss, split_evenly_over=2)
        ages = tree_counts(
            context.query(), by=Key.number("age", low=0, high=120, width=40), confidence=1 - 1e-9
        ).release()
        assert ages.to_frame()["path"].to_list() == ["", "[0, 40)", "[40, 80)", "[80, 120]", "(outside)"]
        assert ((ages.lower <= [1200, 900, 0, 0, 300]) & (ages.upper >= [1200, 900, 0, 0, 300])).all()
        addresses = tree_counts(context.query(), by=Key.ip("ip", stride=32), confidence=1 - 1e-9).release()
        (outside,) = addresses.to_frame(other=False).filter(path="(outside)").select("lower", "upper").rows()
        assert outside[0] <= 500 <= outside[1]


def test_memory_is_checked_and_changes_nothing_of_what_is_counted():
    for context in contexts(PERSON, PAIR, split_evenly_over=1):
        options = {"by": "country", "unit": Unit("user", rows=2), "confidence": SURE}
        with pytest.raises(ValueError, match=r"memory \('lots'\)"):
            tree_counts(context.query(), **options, memory="lots")
        release = tree_counts(context.query(), **options, memory="20KiB").release()
        assert release.lower[0] <= 600 <= release.upper[0]  # a false alarm has a chance of at most 1e-9


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


DELAYS = pl.DataFrame(
    {"user": range(4000), "carrier": ["a", "b"] * 2000, "delay": [10, 30] * 2000, "miles": [2.0, 4.0] * 2000}
)
BY_CARRIER = Key.nested(Key.columns("carrier"), Key.number("delay", low=0, high=40, bins=40))


def on_delays(unit, loss):
    """Both Contexts over the same flights, each with one query."""
    through = dp.Context.compositor(data=DELAYS.lazy(), privacy_unit=unit, privacy_loss=loss, split_evenly_over=1)
    return through, frame_context(DELAYS, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1)


PUBLIC_CARRIERS = Curve(public_groups=Tree.from_paths([("a",), ("b",)], names=["carrier"]))


@pytest.mark.parametrize(
    ("method", "unit", "loss"),
    [
        ("auto", None, dp.loss_of(epsilon=2.0, delta=1e-6)),
        ("bin_curve", None, dp.loss_of(epsilon=2.0, delta=1e-6)),
        (PUBLIC_CARRIERS, None, dp.loss_of(epsilon=2.0)),
        (Curve(), Unit("user", rows=2), dp.loss_of(epsilon=2.0, delta=1e-6)),
    ],
    ids=["auto", "by name", "public groups", "people"],
)
def test_medians_by_group_in_both_contexts(method, unit, loss):
    """A group's curve is off by a bin with a chance far below 1e-9: 2,000 people share one bin."""
    for context in on_delays(ROW if unit is None else PERSON, loss):
        query = tree_counts(context.query(), by=BY_CARRIER, method=method, unit=unit)
        medians = query.release().quantiles([0.5]).sort("carrier")
        assert medians["carrier"].to_list() == ["a", "b"]
        assert medians["estimate"].to_list() == pytest.approx([10.5, 30.5], abs=1)


def test_weighed_people_are_counted_by_group_and_range():
    for context in on_delays(PERSON, dp.loss_of(epsilon=2.0, delta=1e-6)):
        release = tree_counts(context.query(), by=BY_CARRIER, unit=Unit("user", count="people", nodes=2)).release()
        assert release.statement.mechanism.startswith("people_")
        assert "a / [7, 14) / [10, 11)" in release.to_frame()["path"].to_list()


def test_sums_by_group_and_range():
    for context in on_delays(ROW, dp.loss_of(epsilon=2.0, delta=1e-6)):
        query = tree_counts(context.query(), by=BY_CARRIER, value=Value("miles", bounds=(0, 5)))
        found = query.release().to_frame(other=False).filter(carrier="b", level=1)["mean"].to_list()
        assert found == pytest.approx([4.0], abs=0.2)


@pytest.mark.parametrize(
    ("options", "unit", "words"),
    [
        ({"method": Quantiles([0.5])}, ROW, r"number is below groups.*Hint: method=Curve\(\)"),
        ({"method": Curve(), "value": Value("miles", bounds=(0, 5))}, ROW, r"method \(curve\) must be left out"),
        (
            {"method": Curve(), "unit": Unit("user", count="shares")},
            PERSON,
            r"count='shares' must be 'rows'.*Hint: Unit\('user', rows=5\)",
        ),
    ],
    ids=["chosen", "sums", "shares"],
)
def test_curves_of_groups_that_cannot_be_are_refused_and_cost_nothing(options, unit, words):
    for context in on_delays(unit, dp.loss_of(epsilon=2.0, delta=1e-6)):
        with pytest.raises(ValueError, match=words):
            tree_counts(context.query(), by=BY_CARRIER, **options)
        bound = None if unit is ROW else Unit("user", rows=1)
        assert tree_counts(context.query(), by=BY_CARRIER, method=Curve(), unit=bound).release().curves
