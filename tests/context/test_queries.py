from datetime import date
from decimal import Decimal
from functools import partial
from itertools import product

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, Unit, Value, frame_context, register, tree_counts
from opendp_tree.planning import Curve
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
    key = Key.columns("country", tree=PUBLIC)
    for context in contexts(ROW, dp.loss_of(rho=0.1), split_evenly_over=1):
        release = tree_counts(context.query(), by=key).release()
        assert set(release.statement.loss) == {"rho"}
        assert release.estimates.size == 4
    for context in contexts(ROW, dp.loss_of(epsilon=1.0), split_evenly_over=1):
        spent = tree_counts(context.query(), by=key).release().statement.loss["epsilon"]
        assert 1 - 1e-9 < spent <= 1


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


@pytest.mark.parametrize(
    "k",
    [2.5, 0.5, 2.0, True, 0, -1, Decimal("2.5"), date(2020, 1, 1), pl.lit(2.5, pl.Float32), pl.lit(0, pl.UInt8)],
    ids=str,
)
def test_truncations_need_integers_in_both_contexts(k):
    """OpenDP rounds a fraction down, and Polars compares with it: more rows would be kept than the map says."""
    register()
    through, by_reference = contexts(PERSON, PAIR, split_evenly_over=1)
    order, ranks = pl.int_range(pl.len()).shuffle().over("user"), pl.struct("city").rank("dense").over("user")
    written = [lambda query: query.filter(order < k), lambda query: query.truncate_per_group(3).filter(ranks < k)]
    methods = [
        lambda query: query.truncate_per_group(k),
        lambda query: query.truncate_per_group(3).truncate_num_groups(k=k, by=["city"]),
    ]
    for context, steps in ((through, written + methods), (by_reference, written)):
        for step, ask in product(steps, ("tree_counts", "leaf_counts")):
            with pytest.raises(ValueError, match="with an integer k from 1"):
                getattr(step(context.query()), ask)(by="country")
    for step in methods:
        with pytest.raises((TypeError, ValueError), match=r"k \(.* must be an integer"):
            step(by_reference.query())
    for context in (through, by_reference):
        assert context.query().filter(order < pl.lit(1, pl.UInt8)).tree_counts(by="country").release() is not None


def test_wrong_queries_are_refused():
    through, by_reference = contexts(ROW, PAIR, split_evenly_over=1)
    with pytest.raises(ValueError, match="by"):
        tree_counts(through.query())
    with pytest.raises(TypeError, match="query"):
        tree_counts(VISITS, by="country")
    with pytest.raises(AttributeError, match="fly"):
        by_reference.query().fly()
    assert by_reference.current_privacy_loss() is not None


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


def test_a_query_says_what_it_counts():
    weighed = "rows of the query. At most 2 rows of each user count in total (more are scaled down); rows without a "
    weighed += "user are not counted"
    for protected, unit, words in ((ROW, None, "rows of the query"), (PERSON, Unit("user", rows=2), weighed)):
        for context in contexts(protected, PAIR, split_evenly_over=1):
            release = tree_counts(context.query(), by="country", unit=unit).release()
            assert release.statement.counted == words


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


def test_sums_and_means_follow_the_steps_of_a_query():
    visits = pl.DataFrame({"city": ["ghent"] * 900 + ["liege"] * 500, "amount": [40.0] * 900 + [90.0] * 500})
    amount = Value("amount", bounds=(0, 100))
    for context in contexts(ROW, dp.loss_of(epsilon=6.0, delta=1e-6), visits, split_evenly_over=2):
        release = tree_counts(context.query().filter(pl.col("amount") > 50), by="city", value=amount).release()
        assert release.statement.counted == "rows of the query with a number in amount"
        assert [round(mean, -1) for mean in release.to_frame(other=False)["mean"]] == [90, 90]
        with pytest.raises(ValueError, match="value"):
            tree_counts(context.query(), by="city", value=Value("city", bounds=(0, 1)))


DELAYS = pl.DataFrame(
    {"user": range(4000), "carrier": ["a", "b"] * 2000, "delay": [10, 30] * 2000, "miles": [2.0, 4.0] * 2000}
)
BY_CARRIER = Key.nested(Key.columns("carrier"), Key.number("delay", low=0, high=40, bins=40))


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
    for context in contexts(ROW if unit is None else PERSON, loss, DELAYS, split_evenly_over=1):
        query = tree_counts(context.query(), by=BY_CARRIER, method=method, unit=unit)
        medians = query.release().quantiles([0.5]).sort("carrier")
        assert medians["carrier"].to_list() == ["a", "b"]
        assert medians["estimate"].to_list() == pytest.approx([10.5, 30.5], abs=1)


@pytest.mark.parametrize(
    ("options", "unit", "words"),
    [
        ({"method": Curve(), "value": Value("miles", bounds=(0, 5))}, ROW, r"method \(curve\) must be left out"),
        (
            {"method": Curve(), "unit": Unit("user", count="shares")},
            PERSON,
            r"count='shares' must be 'rows'.*Hint: Unit\('user', rows=5\)",
        ),
    ],
    ids=["sums", "shares"],
)
def test_curves_of_groups_that_cannot_be_are_refused_and_cost_nothing(options, unit, words):
    for context in contexts(unit, PAIR, DELAYS, split_evenly_over=1):
        with pytest.raises(ValueError, match=words):
            tree_counts(context.query(), by=BY_CARRIER, **options)
        bound = None if unit is ROW else Unit("user", rows=1)
        assert tree_counts(context.query(), by=BY_CARRIER, method=Curve(), unit=bound).release().curves
