"""Whatever is wrong is told before a row is read, and leaves the ledger as it was; for commands: tests/cli."""

import opendp.prelude as dp
import pandas as pd
import polars as pl
import pytest

from opendp_tree import Auto, Key, Ledger, Tree, Unit, Value, bound_report, frame_context, release_tree, release_trees
from opendp_tree.ledger import LedgerError

dp.enable_features("contrib")
ROWS = pl.DataFrame({"user": [*range(500)] * 2, "city": ["a", "b"] * 500, "age": [20, 40] * 500, "cost": [1.5] * 1000})
BOTH = Key.columns("city", "age", show=["age"])
AGES = Key.nested(Key.columns("city"), Key.number("age", low=0, high=64, bins=8))


def touched(batch):
    raise AssertionError("a row was read")


UNREAD = ROWS.lazy().map_batches(touched, schema=ROWS.schema)
PERSON = Unit("user", rows=2)
CITIES = Tree.from_paths([("a",), ("b",)])


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", total={"epsilon": 5, "delta": "1e-5"})


def for_unit(ledger, unit):
    """Another ledger beside one."""
    return Ledger.open(ledger.path.with_name(unit), total={"epsilon": 5, "delta": "1e-5"}, unit=unit)


def tree(data=UNREAD, **given):
    plain = {"by": "city", "epsilon": 1.0, "delta": 1e-6}
    return lambda ledger: release_tree(data, **{**plain, "ledger": ledger, **given})


def trees(**given):
    plain = {"by": {"a": "city", "b": "age"}, "epsilon": 1.0, "delta": 1e-6}
    return lambda ledger: release_trees(UNREAD, **{**plain, **given}, ledger=ledger)


def report(data=UNREAD, **given):
    """By a ledger of its own, which is for people."""

    def ask(ledger):
        people = for_unit(ledger, "one value of 'user'")
        try:
            bound_report(data, **{"most": 5, "ledger": people, **given})
        finally:
            assert people.entries() == []

    return ask


def query(ask, **given):
    plain = {"privacy_unit": dp.unit_of(contributions=1), "privacy_loss": dp.loss_of(epsilon=1.0, delta=1e-6)}
    return lambda ledger: ask(
        frame_context(UNREAD, **{**plain, "split_evenly_over": 1, **given}, ledger=ledger).query()
    )


LIBRARY = {
    "no such column": tree(by="town"),
    "no hierarchy": tree(by=[]),
    "a column twice": tree(by=["city", "city"]),
    "no budget": tree(epsilon=None),
    "two budgets": tree(rho=1.0),
    "a negative budget": tree(epsilon=-1.0),
    "a budget that is text": tree(epsilon="1"),
    "a delta of 2": tree(delta=2.0),
    "no delta for unknown names": tree(delta=0.0),
    "a confidence of 2": tree(confidence=2),
    "an alpha of 2": tree(alpha=2),
    "an unknown method": tree(method="magic"),
    "a method for public trees": tree(method="tree_laplace"),
    "a unit without its column": tree(unit=Unit("nobody", rows=2)),
    "a unit that is text": tree(unit="user"),
    "a value without its column": tree(value=Value("money", bounds=(0, 1))),
    "a value that is text": tree(value=Value("city", bounds=(0, 1))),
    "labels that the column cannot have": tree(by=Key.columns("age", tree=Tree.from_paths([("x",), ("y",)]))),
    "known names and a method without them": tree(by=Key.columns("city", known=["a"]), method="pruned_laplace"),
    "known names and a method for public trees": tree(by=Key.columns("city", known=["a"]), method="tree_laplace"),
    "known names that the column cannot have": tree(by=Key.columns("age", known=["x"])),
    "known names above a number": tree(by=Key.nested(*AGES.inner, known=["a"])),
    "levels that a method cannot leave out": tree(by=BOTH, method="pruned_laplace"),
    "levels that are not those of the key": tree(by=BOTH, method=Auto(levels=[1])),
    "rows without a schema": tree([1, 2]),
    "no rows at all": tree(3),
    "a value that is no Value": tree(value="cost"),
    "a value and a method that does not sum": tree(value=Value("cost", bounds=(0, 1)), method="pruned_laplace"),
    "a value and no delta": tree(value=Value("cost", bounds=(0, 1)), delta=0.0),
    "a value and rho": tree(value=Value("cost", bounds=(0, 1)), epsilon=None, rho=0.5),
    "weights of others": trees(weights={"a": 1}),
    "a negative weight": trees(weights={"a": 1, "b": -1}),
    "no hierarchies": trees(by={}),
    "no names of hierarchies": trees(by=["city"]),
    "one wrong hierarchy": trees(by={"a": "city", "b": "town"}),
    "more delta than the ledger has": tree(delta=1e-4),
    "more epsilon than the ledger has": tree(epsilon=6.0),
    "rho and the ledger of epsilon": tree(epsilon=None, rho=0.1, by=Key.columns("city", tree=CITIES), delta=0.0),
    "people and the ledger of rows": lambda ledger: tree(unit=PERSON)(for_unit(ledger, "one row")),
    "the ledger that is not there": tree(ledger="none"),
    "no ledger at all": tree(ledger=3),
    "a report without its column": report(unit="nobody", ledger=None),
    "a report of a unit that is no name": report(unit=3),
    "a report of one row": report(most=1),
    "a report of no rows": report(most=0),
    "a report of pandas objects": report(pd.DataFrame({"user": [object(), 3]})),
    "a report of a number": report(3),
    "a report of rows without types": report([1, 2]),
    "a report for nothing": report(epsilon=0),
    "a report for a huge budget": report(epsilon=1e4),
    "a report of confidence 2": report(confidence=2),
    "a report beyond the ledger": report(epsilon=6.0),
    "a report of others than the ledger's": report(unit="city"),
    "a report and no ledger": report(ledger=3),
    "a query of no column": query(lambda asked: asked.tree_counts(by="town").release()),
    "a query of people where rows are protected": query(
        lambda asked: asked.tree_counts(by="city", unit=PERSON).release()
    ),
    "a query with rho": query(lambda asked: asked.tree_counts(by="city").release(), privacy_loss=dp.loss_of(rho=1.0)),
}


@pytest.mark.parametrize("mistake", LIBRARY)
def test_a_mistake_in_python_is_told_unread_and_unpaid(ledger, mistake):
    before = ledger.path.read_bytes()
    with pytest.raises((TypeError, ValueError, dp.OpenDPException)) as told:
        LIBRARY[mistake](ledger)
    assert "withheld" not in str(told.value)  # which would be said of an error of a row
    assert isinstance(told.value, LedgerError) or "the ledger" not in mistake
    assert ledger.path.read_bytes() == before


def test_a_hint_for_quantiles_leads_to_quantiles():
    ask = {"by": AGES, "epsilon": 1.0, "delta": 1e-6, "unit": PERSON}
    with pytest.raises(ValueError, match=r"Hint: .* with a unit, method=Curve\(\)"):
        release_tree(ROWS, **ask).quantiles([0.5])
    assert release_tree(ROWS, **ask, method="curve").quantiles([0.5]).height > 0
