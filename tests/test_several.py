from fractions import Fraction

import duckdb
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Ledger, Tree, Unit, Value, release_tree, release_trees
from opendp_tree.engines import DuckDBTable
from opendp_tree.ledger import BudgetError
from tests.context import shared
from tests.thoroughness import slow

VISITS = shared.VISITS.with_columns(hour=pl.Series([9] * 650 + [17] * 650))
HOURS = Key.columns("hour", tree=Tree.from_paths([(hour,) for hour in range(24)]))
BY = {"place": ["country", "city"], "time": HOURS, "city": "city"}


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 0.1, "delta": 3e-7},
        {"epsilon": 0.7},
        {"rho": 0.3},
        {"rho": 0.1, "delta": 1e-6},
    ],
)
@pytest.mark.parametrize("weights", [{"place": 2, "time": 1, "city": 0.3}, *slow([None])])
@pytest.mark.parametrize("unit", [None, Unit("user", rows=2)])
def test_the_total_loss_is_the_declared_one(budget, weights, unit):
    tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")])
    by = BY if budget.get("delta") else {**BY, "place": Key.columns("country", "city", tree=tree), "city": HOURS}
    # With rho, unknown nodes are found among rows that are kept, not among people who are weighed.
    method = "pruned_gaussian" if unit is not None and {"rho", "delta"} <= budget.keys() else "auto"
    releases = release_trees(VISITS, by=by, weights=weights, unit=unit, method=method, **budget)
    total = releases.statement.loss
    for name, amount in budget.items():
        shares = {each: Fraction(release.statement.loss[name]) for each, release in releases.items()}
        assert sum(shares.values()) <= total[name] <= amount
        if name != "delta":  # not every mechanism spends its delta
            assert total[name] > 0.99 * amount
            for each, share in shares.items():
                part = Fraction(1, 3) if weights is None else Fraction(weights[each]) / Fraction(sum(weights.values()))
                assert share <= part * Fraction(amount)
                assert share > Fraction(99, 100) * part * Fraction(amount)
    assert releases.statement.mechanism == "composition"
    assert releases.statement.unit == releases["time"].statement.unit
    assert releases.statement.parameters == {name: each.statement.mechanism for name, each in releases.items()}


def test_each_hierarchy_is_released_as_itself():
    releases = release_trees(VISITS, by=BY, epsilon=3.0, delta=1e-6, confidence=1 - 1e-9)
    assert list(releases) == list(BY)
    assert len(releases) == 3
    for release in releases.values():
        assert release.lower[0] <= 1300 <= release.upper[0]  # false alarms at most 1e-9 each
    assert releases["time"].to_frame().height == 26
    assert "epsilon 3" in repr(releases)
    assert "<table" in releases._repr_html_()
    assert repr(releases).splitlines()[0].split() == ["hierarchy", "nodes", "shown", "mechanism", "its", "share"]


def test_a_ledger_counts_all_of_them_once(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": "0.3", "delta": "1e-6"})
    releases = release_trees(VISITS, by=BY, epsilon=0.3, delta=1e-6, ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.cost == {"epsilon": Fraction("0.3"), "delta": Fraction("1e-6")}
    assert entry.statement["loss"] == releases.statement.loss
    assert ledger.left() == {"epsilon": 0, "delta": 0}
    with pytest.raises(BudgetError, match="the ledger is spent"):
        release_trees(VISITS, by=BY, epsilon=0.3, delta=1e-6, ledger=ledger)


@pytest.mark.parametrize(("release", "by"), [(release_tree, "country"), (release_trees, BY)])
def test_contrib_is_asked_for(release, by):
    dp.disable_features("contrib")
    try:
        with pytest.raises(Exception, match="contrib"):
            release(VISITS, by=by, epsilon=1.0, delta=1e-6)
    finally:
        dp.enable_features("contrib")


def test_values_are_summed_in_every_kind_of_hierarchy_and_named_in_the_ledger(tmp_path):
    """Each interval misses with a chance of at most 1e-9."""
    spent = VISITS.with_columns(amount=pl.when(pl.col("hour") == 9).then(40.0).otherwise(90.0))
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 9, "delta": "1e-6"})
    numbers, country = Key.number("hour", low=0, high=24, bins=8), Key.columns("country")
    by = {"place": country, "time": HOURS, "hours": numbers}
    by |= {"above": Key.nested(numbers, country), "below": Key.nested(country, numbers)}
    ask = {"epsilon": 9.0, "delta": 1e-6, "confidence": 1 - 1e-9, "value": Value("amount", bounds=(0, 100))}
    releases = release_trees(spent, by=by, **ask, ledger=ledger)
    for release in releases.values():
        root = release.to_frame(other=False).row(0, named=True)
        assert root["lower"] <= 1300 <= root["upper"]
        assert root["mean_lower"] <= 65 <= root["mean_upper"]
    assert releases.statement.loss["epsilon"] <= 9.0
    assert releases.statement.counted == "rows with a number in amount"
    assert "amount" in ledger.entries()[0].about


def test_a_table_says_what_is_counted_as_a_single_release_does():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits AS SELECT i % 400 AS person, i % 3 AS place FROM range(1200) t(i)")
        table = DuckDBTable(connection, "visits")
        ask = {"epsilon": 1.0, "delta": 1e-6, "unit": Unit("person", rows=2)}
        single = release_tree(table, by="place", **ask).statement.counted
        several = release_trees(table, by={"place": "place"}, **ask)
    assert single.startswith("rows. At most 2 rows of each person count in total (more are scaled down); rows without")
    assert several.statement.counted == several["place"].statement.counted == single
