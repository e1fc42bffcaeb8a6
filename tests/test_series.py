"""A series: every period once, its cost exact, whatever happens; and what must be refused."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date, datetime, timedelta
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, Ledger, Period, Series, Tree, TreeEstimator, TreeRelease, Unit, Value, release_tree
from opendp_tree.engines import DuckDBTable
from opendp_tree.ledger import BudgetError, LedgerError
from opendp_tree.series import MEMORY, QUIET, _key_with_known, node_frame, path_text, remembered
from opendp_tree.trees.nodes import ShownNodes
from opendp_tree.trees.open_tree import OpenTree

WEEK, BY_WEEK, EACH_DAY = Period("week"), Period("day", every="week"), Period("day", every="day")
MAY = date(2024, 5, 1)
TODAY = date(2026, 5, 1)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Period, "today", staticmethod(lambda: TODAY))


def visits(weeks=4, size=400):
    """Two cities in every week, and one that is there in the first only."""
    cities = ["ghent"] * size + ["liege"] * size
    frames = [pl.DataFrame({"week": f"W{number}", "city": cities}) for number in range(1, weeks + 1)]
    return pl.concat([*frames, pl.DataFrame({"week": "W1", "city": ["bruges"] * size})])


def opened(path, name="series.db", **options):
    return Series.open(path / name, **{"by": "city", "period": WEEK, **BUDGET, **options})


def tree(*cities):
    return Key.columns("city", tree=Tree.from_paths([(city,) for city in cities]))


def paths(frame):
    return set((frame.to_frame(other=False) if isinstance(frame, TreeRelease) else frame)["path"])


# Once, and at an exact cost.


def test_a_period_is_released_once_whatever_the_data(tmp_path):
    series = opened(tmp_path)
    first = series.release(visits(), "W1")
    again = series.release(visits(size=9), "W1")
    assert again.to_json() == first.to_json() == series["W1"].to_json()
    assert series.periods == ["W1"]
    assert len(series) == 1
    assert list(series) == ["W1"]
    with pytest.raises(KeyError):
        series["W2"]


def test_rows_cost_what_one_period_costs_and_users_the_sum(tmp_path):
    frame = visits().with_columns(user=pl.int_range(pl.len()))
    series = opened(tmp_path)
    for name in ("W1", "W2", "W3"):
        series.release(frame, name)
    assert series.ledger.left() == {"epsilon": 0, "delta": 0}
    assert [entry.cost["epsilon"] for entry in series.ledger.entries()] == [1, 1, 1]
    total = {"epsilon": "2.5", "delta": "1e-5"}
    users = opened(tmp_path, "users.db", unit=Unit("user", rows=2), total=total)
    for name in ("W1", "W2"):
        users.release(frame, name)
    assert users.ledger.left() == {"epsilon": Fraction(1, 2), "delta": Fraction(8, 10**6)}
    with pytest.raises(BudgetError, match=r"only epsilon 0\.5"):
        users.release(frame, "W3")
    assert users.periods == ["W1", "W2"]


def test_other_releases_from_the_same_file_are_added(tmp_path):
    series = opened(tmp_path, total={"epsilon": "1.5", "delta": "2e-6"})
    series.release(visits(), "W1")
    release_tree(visits(), by="city", epsilon=0.5, delta=1e-6, ledger=series.ledger)
    series.release(visits(), "W2")
    assert series.ledger.left()["epsilon"] == 0
    with pytest.raises(BudgetError):
        release_tree(visits(), by="city", epsilon=0.1, ledger=series.ledger)


def test_a_release_is_of_the_rows_of_its_period_alone(tmp_path):
    frame = visits()
    series = opened(tmp_path, by=tree("ghent", "liege", "bruges"))
    for name in ("W1", "W2", "W3", "nobody"):
        counts = dict(zip(*series.release(frame, name).to_frame().select("path", "estimate"), strict=True))
        truth = dict(frame.filter(pl.col("week") == name).group_by("city").len().rows())
        # Laplace noise of scale 3 at most exceeds 60 with a chance of 2e-9.
        assert all(abs(counts[city] - truth.get(city, 0)) < 60 for city in ("ghent", "liege", "bruges"))


def test_what_loses_the_race_is_thrown_away(tmp_path, monkeypatch):
    series, other = opened(tmp_path), opened(tmp_path)
    said = Series._with_statement

    def slowly(self, release, name, kind):
        monkeypatch.setattr(Series, "_with_statement", said)
        stored.append(other.release(visits(), name))
        return said(self, release, name, kind)

    stored = []
    monkeypatch.setattr(Series, "_with_statement", slowly)
    assert series.release(visits(), "W1").to_json() == stored[0].to_json()
    assert len(series.ledger.entries()) == 1


@pytest.mark.parametrize("moment", ["_with_statement", "to_json", "commit"])
def test_a_release_that_fails_costs_nothing_and_is_made_anew(tmp_path, monkeypatch, moment):
    series = opened(tmp_path)
    owner = {"_with_statement": Series, "to_json": TreeRelease, "commit": Ledger}[moment]
    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            series.release(visits(), "W1")
    assert series.periods == []
    assert series.ledger.left()["epsilon"] == 1
    series.release(visits(), "W1")
    assert series.periods == ["W1"]


# Settings, units, words.


def test_opening_with_other_settings_is_refused_and_says_which(tmp_path):
    opened(tmp_path).release(visits(), "W1")
    assert opened(tmp_path).periods == ["W1"]
    for options, words in (
        ({"by": ["city", "week"]}, "by: by is 'city', not 'city', 'week'. Hint"),
        ({"by": Key.path("url", depth=3)}, "by: by is 'city', not path('url', depth=3, separator='/'). Hint"),
        ({"by": Key.calendar("day", levels=["year"])}, "not calendar('day', depth=2, parts=('year',)). Hint"),
        ({"by": tree("ghent")}, "by"),
        ({"period": Period("day", every="week")}, "period"),
        ({"epsilon": 0.5}, "epsilon"),
        ({"method": TreeEstimator(weights=[2.0])}, "method"),
        ({"confidence": 0.9}, "confidence"),
        ({"measuring": (0.5,)}, "measuring"),
    ):
        with pytest.raises(LedgerError, match=f"another .*{re.escape(words)}"):
            opened(tmp_path, **options)
    opened(tmp_path, "tree.db", by=tree("ghent")).release(visits(), "W1")
    with pytest.raises(LedgerError, match="another by"):
        opened(tmp_path, "tree.db", by=tree("liege"))


def test_one_unit_per_file_with_a_total_if_costs_add_up(tmp_path):
    with pytest.raises(ValueError, match="total must be given with a unit"):
        opened(tmp_path, unit=Unit("user", rows=2))
    assert not (tmp_path / "series.db").exists()
    opened(tmp_path)
    with pytest.raises(LedgerError, match="unit"):
        opened(tmp_path, unit=Unit("user", rows=2))
    for name, unit in (("users.db", "one value of 'user'"), ("nobody.db", None)):
        Ledger.open(tmp_path / name, total={"epsilon": "9", "delta": "1e-5"}, unit=unit)
        with pytest.raises(LedgerError, match="not 'one row'"):
            opened(tmp_path, name)


def test_statements_say_what_periods_cost_together(tmp_path):
    series = opened(tmp_path)
    statement = series.release(visits(), "W2").statement
    assert statement.unit == "one row, in all periods together"
    stated = "(the value of 'week', which you state was derived from each row alone)"
    assert statement.counted == f"rows, of the period W2 {stated}"
    for words in (
        "for all periods together: a row is in one of them",
        "A person with k rows loses up to k times that",
        "which you state was derived from each row alone",
    ):
        assert words in series.describe()
    shared = "Of periods (value of 'week', text), which share no rows, only the largest cost counts."
    assert shared in series.ledger.describe()
    frame, total = visits().with_columns(user=pl.int_range(pl.len())), {"epsilon": "9", "delta": "1e-5"}
    users = opened(tmp_path, "users.db", unit=Unit("user", rows=2), total=total)
    assert users.release(frame, "W1").statement.unit == "one value of 'user', in each period"
    assert "A person with rows in m periods loses m times that." in users.describe()
    assert "share no rows" not in users.ledger.describe()


def test_a_series_can_be_read_by_its_path_alone(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no series at .*series.db yet. Hint: by=..., period=..., epsilon="):
        Series.open(tmp_path / "series.db")
    assert not (tmp_path / "series.db").exists()
    series = opened(tmp_path)
    series.release(visits(), "W1")
    read = Series.open(tmp_path / "series.db")
    assert read.to_frame().equals(series.to_frame())
    assert read.release(visits(), "W1").to_json() == series["W1"].to_json()
    assert "1 periods" in repr(read)
    assert "W1" in read._repr_html_()
    with pytest.raises(ValueError, match="open for reading only"):
        read.release(visits(), "W2")
    with pytest.raises(TypeError, match="must be a Period"):
        Series.open(tmp_path / "series.db", by="city")
    Ledger.open(tmp_path / "plain.db", total={"epsilon": 1})
    with pytest.raises(LedgerError, match="there is no series at"):
        Series.open(tmp_path / "plain.db")


# What must be refused.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measuring": lambda rows: 0.5}, "fixed before any data"),
        *(({"measuring": measuring}, "measuring") for measuring in ((), "0.5", 0.5)),
        ({"measuring": (1.0,)}, "below 1"),
        ({"measuring": (0.5,), "method": TreeEstimator(measuring=0.3)}, "must not be given"),
        ({"period": "week"}, "must be a Period"),
        ({"by": ["period", "city"]}, "must not be called 'period'"),
        ({"confidence": 1.0}, "confidence"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"unit": "user"}, "how much of one person"),
        ({"pooled": 0.15, "period": WEEK}, "shorter than a quarter"),
        ({"pooled": 0.15, "period": Period("day", every="quarter")}, "shorter than a quarter"),
        ({"pooled": 0.15, "period": BY_WEEK, "by": tree("ghent")}, "must not be given"),
        ({"pooled": 0.15, "period": BY_WEEK, "unit": Unit("user", rows=2)}, "must not be given"),
        ({"pooled": 0.15, "period": BY_WEEK, "epsilon": None, "rho": 0.1}, "must not be given"),
        ({"pooled": 1.0, "period": BY_WEEK}, "pooled"),
    ],
)
def test_wrong_settings_are_refused_before_a_file_is_made(tmp_path, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        opened(tmp_path, **options)
    assert not (tmp_path / "series.db").exists()


def test_what_cannot_be_released_costs_nothing(tmp_path):
    series = opened(tmp_path)
    with duckdb.connect() as connection:
        connection.execute("create table visits as select 'W1' as week, 'ghent' as city")
        for rows, name, words in (
            (visits().drop("week"), "W1", "no column 'week'"),
            (visits().drop("city"), "W1", "no column 'city'"),
            (visits().with_columns(week=pl.lit(1.5)), "W1", "names of periods"),
            (visits(), "", "must be a value of 'week'"),
            (
                visits().lazy().with_columns(week=pl.col("city").rank().cast(pl.String)),
                "W1",
                "must not be a lazy frame",
            ),
            (DuckDBTable(connection, "visits"), "W1", "engine's table"),
        ):
            with pytest.raises((TypeError, ValueError), match=words):
                series.release(rows, name)
    assert series.ledger.left()["epsilon"] == 1
    for call in (series.to_frame, lambda: series.known, series.quiet, series.changes, lambda: series.moving_sums(2)):
        with pytest.raises(ValueError, match="without releases"):
            call()


def test_a_scan_is_released_by_its_path(tmp_path):
    visits().write_parquet(tmp_path / "visits.parquet")
    assert paths(opened(tmp_path).release(tmp_path / "visits.parquet", "W2")) == {"", "ghent", "liege"}


# What is known, and what is forgotten: functions of releases.


def made(estimates, half=4.0):
    """A release of city names below two states, with these estimates."""
    tree = OpenTree.columns(["state", "city"])
    cells = sorted((state, city) for state, city in estimates if city)
    states = sorted({state for state, _ in estimates})
    order = [("", ""), *((state, "") for state in states), *cells]
    parents = np.array([-1, *([0] * len(states)), *(1 + states.index(state) for state, _ in cells)])
    levels = np.array([0] + [1] * len(states) + [2] * len(cells))
    labels = pl.Series(states, dtype=pl.String), pl.Series([city for _, city in cells], dtype=pl.String)
    values = np.array([estimates.get(key, 100.0) for key in order], dtype=float)
    nodes = ShownNodes(tree, levels, parents, labels)
    return TreeRelease(tree, values, values - half, values + half, 0.95, None, nodes=nodes)


def kept(*releases, public=()):
    """What is remembered of the last of some releases."""
    return set(node_frame(releases[-1]).filter(remembered(releases, public))["path"])


def test_names_are_forgotten_by_the_mean_of_four_estimates_since_they_were_away():
    edge = QUIET * 4.0 / (np.log(20) / np.sqrt(2)) / np.sqrt(MEMORY)
    for mean, stays in ((edge + 0.01, True), (edge - 0.01, False)):
        release = made({("x", ""): 50, ("x", "a"): mean, ("x", "b"): 50})
        assert ("x / a" in kept(*[release] * MEMORY)) is stays
        assert "x / a" in kept(*[release] * (MEMORY - 1))
    low, high = made({("x", "a"): -9.0, ("x", "b"): 9}), made({("x", "a"): 90.0, ("x", "b"): 9})
    away = made({("x", "b"): 9})
    assert "x / a" in kept(low, high, low, low)
    assert "x / a" in kept(low, away, low, low)
    assert "x / a" not in kept(low, away, low, low, low, low)


def test_nodes_above_known_ones_and_public_ones_are_known_whoever_else_is_there():
    """Rows of other periods, and rows of its own, change nothing of what a release knows."""
    low = made({("x", ""): -9, ("x", "a"): -9, ("y", ""): -9, ("y", "b"): 90})
    assert kept(*[low] * MEMORY) == {"", "y", "y / b"}
    assert kept(*[low] * MEMORY, public={path_text(("x", "a"))}) == {"", "x", "x / a", "y", "y / b"}
    key = Key.columns("state", "city")
    assert _key_with_known(key, []) == key
    assert _key_with_known(key, [low]).known.paths == ((), ("x",), ("y",), ("x", "a"), ("y", "b"))
    assert _key_with_known(key, [low] * MEMORY).known.paths == ((), ("y",), ("y", "b"))
    public = Key.columns("state", "city", known=[("x", "a")])
    assert ("x", "a") in _key_with_known(public, [low] * MEMORY).known.paths


def test_names_that_were_shown_are_shown_again_and_forgotten_when_nobody_is_there(tmp_path):
    """Four estimates of nobody are kept with a chance of about 1 in 14, so that ten tries all fail in 1 of 10**11."""
    series, frame = opened(tmp_path), visits(18)
    shown = paths(series.release(frame, "W1"))
    assert "bruges" in shown
    for number in range(2, 5):
        assert shown <= paths(series.release(frame, f"W{number}"))
    frame_columns = ["period", "path", "level", "city", "estimate", "lower", "upper", "new"]
    assert series.to_frame().columns == frame_columns
    assert paths(series.new("W1")) == {"ghent", "liege", "bruges"}
    assert not series.to_frame().filter((pl.col("period") != "W1") & pl.col("new")).height
    assert set(series.known.filter(pl.col("path") == "ghent")["first"]) == {"W1"}
    assert paths(series.known) | paths(series.quiet()) == paths(series["W4"])
    for number in range(5, 19):
        series.release(frame, f"W{number}")
    assert "bruges" not in paths(series["W18"])
    assert {"ghent", "liege"} <= paths(series["W18"])
    assert series.ledger.left()["epsilon"] == 0


@pytest.mark.parametrize(
    "by",
    [
        Key.ip("address"),
        Key.path("page", depth=3),
        Key.url("page"),
        Key.calendar("at"),
        Key.bits("number", width=16, stride=4),
        Key.nested(Key.columns("city"), Key.ip("address")),
        Key.columns("city", "number", show=["number"]),
        Key.columns("flag", "day"),
    ],
    ids=lambda key: type(key).__name__,
)
def test_every_kind_of_key_has_its_series(tmp_path, by):
    rows = pl.DataFrame(
        {
            "week": ["W1", "W2", "W3"] * 300,
            "city": ["ghent", None, "liege"] * 300,
            "address": ["10.0.0.1", "192.168.1.7", "no address"] * 300,
            "page": ["/a/b", "/a/c", None] * 300,
            "at": [datetime(2024, 5, 1), datetime(2024, 6, 1), None] * 300,
            "number": [1, 300, 70_000] * 300,
            "flag": [True, False, None] * 300,
            "day": [date(2024, 5, 1), date(2024, 5, 2), None] * 300,
        }
    ).sort("city")
    rows = rows.with_columns(week=pl.Series(["W1", "W2", "W3"] * 300))
    series = opened(tmp_path, by=by)
    for name in ("W1", "W2", "W3"):
        series.release(rows, name)
    first, last = (paths(series[name]) for name in ("W1", "W3"))
    assert first <= last
    assert series.known.height == len(last)


def test_labels_that_cannot_be_known_are_refused_before_the_first_release(tmp_path):
    series = opened(tmp_path, by="at")
    with pytest.raises(ValueError, match=r"labels of 'at' \(datetime\) cannot be known"):
        series.release(visits().with_columns(at=pl.lit(datetime(2024, 5, 1))), "W1")
    assert series.ledger.left()["epsilon"] == 1


# Changes and sums.


def by_day(days, size=300):
    first = date(2024, 12, 28)
    frames = [
        pl.DataFrame({"day": first + timedelta(days=number), "city": ["ghent"] * size + ["liege"] * (2 * size)})
        for number in range(days)
    ]
    return pl.concat(frames)


def test_changes_and_sums_have_the_intervals_of_both(tmp_path):
    series = opened(tmp_path, period=EACH_DAY)
    for day in ("2024-12-28", "2024-12-29", "2024-12-31", "2025-01-01"):
        series.release(by_day(5), day)

    def rows(frame, day="2024-12-29"):
        return frame.filter((pl.col("path") == "liege") & (pl.col("period") == day)).row(0, named=True)

    changes, sums = series.changes(), series.moving_sums(2)
    pairs = {("2024-12-29", "2024-12-28"), ("2025-01-01", "2024-12-31")}
    assert set(changes.select("period", "against").rows()) == pairs
    assert set(sums["period"]) == {"2024-12-29", "2025-01-01"}
    one, both = rows(changes), rows(sums)
    now, then = rows(series.to_frame()), rows(series.to_frame(), "2024-12-28")
    assert one["change"] == now["estimate"] - then["estimate"]
    assert (one["lower"], one["upper"]) == (now["lower"] - then["upper"], now["upper"] - then["lower"])
    assert (both["lower"], both["upper"]) == (now["lower"] + then["lower"], now["upper"] + then["upper"])
    assert one["confidence"] == pytest.approx(0.9)
    with pytest.raises(ValueError, match="one of 'previous', 'year'"):
        series.changes("month")


def test_changes_against_a_year_ago_and_sums_without_a_calendar(tmp_path):
    series = opened(tmp_path, period=Period("day", every="month"))
    frame = by_day(400, size=9).with_columns(city=pl.lit("ghent"))
    for name in ("2024-12", "2025-01", "2025-12"):
        series.release(frame, name)
    assert set(series.changes("year").select("period", "against").rows()) == {("2025-12", "2024-12")}
    plain = opened(tmp_path, "plain.db")
    for name in ("W2", "W1", "W3"):
        plain.release(visits(), name)
    assert plain.periods == ["W2", "W1", "W3"]
    assert plain.moving_sums(2)["period"].unique(maintain_order=True).to_list() == ["W1", "W3"]
    assert plain.moving_sums(3)["confidence"].unique().to_list() == pytest.approx([0.85])
    with pytest.raises(ValueError, match="has no calendar"):
        plain.changes("year")
    with pytest.raises(ValueError, match="n"):
        plain.moving_sums(0)


def test_early_releases_find_more_names(tmp_path):
    series = opened(tmp_path)
    shares = [series._method(number).measuring for number in range(7)]
    assert shares == [0.2, 0.2, 0.2, 0.2, 0.5, 0.5, 0.5]
    assert opened(tmp_path, "tree.db", by=tree("ghent")).measuring is None


@pytest.mark.parametrize(
    "options",
    [
        {"unit": Unit("user", rows=2)},
        {"unit": Unit("user", count="people", nodes=2)},
        {"unit": Unit("user", count="shares")},
        {"unit": Unit("user", rows=2, leaves=1)},
        {"value": Value("amount", bounds=(0, 10))},
        {"unit": Unit("user", rows=2), "value": Value("amount", bounds=(0, 10))},
    ],
    ids=["rows", "people", "shares", "leaves", "value", "rows and value"],
)
def test_names_are_known_with_units_and_with_values(tmp_path, options):
    """Of 400 rows a name is shown, but for a chance below 1e-9; of none, only if it is known."""
    frame = visits().with_columns(user=pl.int_range(pl.len()), amount=pl.lit(7.0))
    total = {"total": {"epsilon": "9", "delta": "1e-5"}} if "unit" in options else {}
    series = opened(tmp_path, **options, **total)
    for name in ("W1", "W2", "W3"):
        release = series.release(frame, name)
    assert paths(release) == {"", "ghent", "liege", "bruges"}
    assert series.to_frame()["new"].sum() == 3


def test_names_that_are_public_in_the_key_are_never_new_nor_quiet(tmp_path):
    """Nobody is in delft; its four estimates would be forgotten with a chance of about 13 in 14."""
    series = opened(tmp_path, by=Key.columns("city", known=[("delft",), (None,)]))
    for number in range(1, 9):
        series.release(visits(8), f"W{number}")
        for each in (series, Series.open(tmp_path / "series.db")):
            assert set(each.new("W1")["path"]) == {"ghent", "liege", "bruges"}
            assert not {"", "delft", "(none)"} & set(each.quiet()["path"])
            assert "delft" in set(each.known["path"])
    for name, by in (("ips.db", Key.ip("city", known=["10.0.0.0/8"])), ("tree.db", tree("ghent"))):
        other = opened(tmp_path, name, by=by)
        other.release(visits(), "W1")
        assert not other.new().filter(~pl.col("path").str.starts_with("(")).height


# Pooled finds.


def spread(weeks=13):
    """Two cities in every week, and one from the third week on."""
    first, cities = date(2024, 1, 1), ["ghent"] * 400 + ["liege"] * 400
    days = [first + timedelta(weeks=number) for number in range(weeks)]
    later = [["late"] * 200 if number > 1 else [] for number in range(weeks)]
    return pl.concat([pl.DataFrame({"day": day, "city": cities + more}) for day, more in zip(days, later, strict=True)])


def pooling(path, **options):
    return opened(path, **{"period": Period("day", every="week"), "pooled": 0.15, **options})


def test_later_periods_know_what_a_pooled_find_shows(tmp_path):
    """Nobody is there in the first two weeks; 2,200 rows of the quarter are found, but for a chance below 1e-9."""
    series, frame = pooling(tmp_path), spread()
    series.release(frame, "2024-W01")
    assert "late" not in paths(series.known)
    pool = series.pool(frame, "2024-Q1")
    assert "late" in paths(pool)
    row = series.known.filter(pl.col("path") == "late").row(0, named=True)
    assert (row["first"], row["estimate"]) == ("2024-Q1", None)
    assert "late" in paths(series.release(frame, "2024-W02"))
    assert series.new("2024-W02")["path"].to_list() == ["late"]
    assert series.quarters == ["2024-Q1"]
    assert series.periods == ["2024-W01", "2024-W02"]


def test_periods_and_pooled_finds_cost_a_row_the_budget_together(tmp_path):
    series, frame = pooling(tmp_path), spread()
    for week in ("2024-W01", "2024-W02"):
        series.release(frame, week)
        assert series.ledger.left() == {"epsilon": Fraction(15, 100), "delta": Fraction(15, 10**8)}
    first = series.pool(frame, date(2024, 3, 1))
    assert series.ledger.left() == {"epsilon": 0, "delta": 0}
    assert series.pool(frame.head(5), "2024-Q1").to_json() == first.to_json()
    assert Series.open(tmp_path / "series.db").pool(None, "2024-Q1").to_json() == first.to_json()
    series.pool(frame, "2024-Q2")
    series.release(frame, "2024-W03")
    assert series.ledger.left() == {"epsilon": 0, "delta": 0}
    losses = [entry.statement["loss"]["epsilon"] for entry in series.ledger.entries()]
    assert [loss <= cost for loss, cost in zip(losses, (0.85, 0.85, 0.15, 0.15, 0.85), strict=True)] == [True] * 5
    assert "in one quarter, whose pooled search has 0.15 of that" in series.describe()
    assert (
        "Of quarters (quarter of 'day', date), which share no rows, only the largest cost counts."
        in series.ledger.describe()
    )
    assert first.statement.unit == "one row, in all quarters together, beside periods"
    assert series["2024-W03"].statement.unit == "one row, in all periods together, beside pooled finds of quarters"


@pytest.mark.parametrize("pooled", [0.15, 1 / 3, 1e-6, 0.999])
@pytest.mark.parametrize("epsilon", [1.0, 0.1, 2 / 3])
def test_both_parts_are_never_more_than_the_budget(tmp_path, pooled, epsilon):
    series = pooling(tmp_path, pooled=pooled, epsilon=epsilon, delta=1e-7 / 3)
    parts = [series._amounts(kind) for kind in ("period", "quarter")]
    for name, whole in (("epsilon", epsilon), ("delta", 1e-7 / 3)):
        spent = sum(Fraction(repr(part[name])) for part in parts)
        assert Fraction(repr(whole)) * (1 - Fraction(1, 10**13)) <= spent <= Fraction(repr(whole))


def test_what_was_not_pooled_stays_so(tmp_path):
    pooling(tmp_path).release(spread(), "2024-W01")
    with pytest.raises(LedgerError, match="another pooled"):
        pooling(tmp_path, pooled=None)
    plain = opened(tmp_path, "plain.db", period=BY_WEEK)
    for name, words in (("2024-Q1", "without a pooled find"), ("2024-W01", "must be a quarter")):
        with pytest.raises(ValueError, match=words):
            plain.pool(spread(), name)


# Periods.


@pytest.mark.parametrize(
    ("every", "name", "first", "following", "before"),
    [
        ("day", "2024-02-29", date(2024, 2, 29), "2024-03-01", None),
        ("week", "2020-W53", date(2020, 12, 28), "2021-W01", None),
        ("week", "2026-W01", date(2025, 12, 29), "2026-W02", "2025-W01"),
        ("month", "2025-12", date(2025, 12, 1), "2026-01", "2024-12"),
        ("quarter", "2025-Q4", date(2025, 10, 1), "2026-Q1", "2024-Q4"),
        ("year", "2025", date(2025, 1, 1), "2026", "2024"),
    ],
)
def test_names_of_the_calendar(every, name, first, following, before):
    rule = Period("day", every=every)
    assert rule.first_day(name) == first
    assert rule.name(first) == name == rule.name(name)
    assert rule.next(name) == following
    assert rule.year_before(name) == before


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
def test_every_day_is_in_one_period(every):
    rule, day = Period("day", every=every), date(2019, 12, 20)
    for _ in range(900):
        name = rule.name(day)
        assert rule.first_day(name) <= day < rule.first_day(rule.next(name))
        day += timedelta(days=1)


@pytest.mark.parametrize(
    ("period", "names", "words"),
    [
        (
            BY_WEEK,
            ["2026-W54", "2026-W1", "2026W01", "2026-W00", "26-W01", "2026-W01 ", "٢٠٢٦-W01", "9999-W60", "", None, 3],
            "must be a week",
        ),
        (WEEK, ["", True, 1.5, None, "\ud800"], "must be a value of 'week'"),
    ],
)
def test_what_is_no_name_of_a_period_is_refused(period, names, words):
    for name in names:
        with pytest.raises(ValueError, match=words):
            period.name(name)


def test_wrong_periods_are_refused():
    for every, last in (("day", "9999-12-31"), ("month", "9999-12"), ("year", "9999")):
        with pytest.raises(ValueError, match="must not be the calendar's last"):
            Period("day", every=every).next(last)
    with pytest.raises(ValueError, match="every"):
        Period("day", every="fortnight")
    with pytest.raises(TypeError, match="column"):
        Period(3)


@pytest.mark.parametrize(("day", "wait", "due"), [(11, 0, True), (5, 0, True), (4, 0, False), (6, 2, False)])
def test_due_periods_are_over(day, wait, due):
    assert BY_WEEK.due("2026-W01", today=date(2026, 1, day), wait=wait) == ["2026-W01"] * due


TICKS = [None, -(2**63), 2**63 - 1, 0, -1, 1, 10**18, -(10**18), 1_735_300_800_000_000, 1_735_300_799_999_999]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("every", ["day", "year"])
def test_a_row_is_in_a_period_by_itself_alone_and_every_value_has_an_answer(unit, zone, every):
    frame = pl.Series("day", TICKS, dtype=pl.Int64).cast(pl.Datetime(unit, zone)).to_frame().with_row_index()
    rule = Period("day", every=every)
    for name in (rule.name(date(1970, 1, 1)), rule.name(date(2024, 12, 27)), rule.name(date(9998, 1, 1))):
        together = rule.rows(frame, name, ["index"]).collect()["index"].to_list()
        alone = [index for index in range(frame.height) if rule.rows(frame[index], name, ["index"]).collect().height]
        assert together == alone


@pytest.mark.parametrize(("rule", "other", "name"), [(WEEK, "W1", "W2"), (EACH_DAY, MAY, "2024-05-02")])
def test_a_column_that_claims_to_be_sorted_is_not_believed(rule, other, name):
    there = name if rule is WEEK else MAY + timedelta(days=1)
    frame = pl.DataFrame([pl.Series(rule.column, [there, other, there]).set_sorted(), pl.Series("city", [0, 1, 2])])
    assert rule.rows(frame, name, ["city"]).collect()["city"].to_list() == [0, 2]


def test_the_time_zone_determines_the_day():
    column = pl.Series("day", [datetime(2024, 5, 1, 3)]).dt.replace_time_zone("UTC")
    frame = column.dt.convert_time_zone("America/New_York").to_frame()
    assert [EACH_DAY.rows(frame, day, []).collect().height for day in ("2024-04-30", "2024-05-01")] == [1, 0]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["7", "07"]), pl.Int64, pl.UInt8])
def test_names_of_periods_are_texts_of_values(dtype):
    values = [7, None] if dtype in (pl.Int64, pl.UInt8) else ["7", None]
    frame = pl.DataFrame({"week": pl.Series(values, dtype=dtype)})
    assert WEEK.rows(frame, WEEK.name(7), []).collect().height == 1
    assert WEEK.rows(frame, "07", []).collect().height == 0


def test_a_period_or_quarter_that_is_not_over_is_refused_and_costs_nothing(tmp_path, monkeypatch):
    frame = pl.DataFrame({"day": [date(2026, 4, 30)] * 500, "city": ["ghent"] * 500})
    series = opened(tmp_path, period=Period("day", every="day"), pooled=0.15)
    with pytest.raises(ValueError, match=r"must be over: it ends before 2026-05-02, today is 2026-05-01, .* Hint: rel"):
        series.release(frame, TODAY)
    with pytest.raises(ValueError, match=r"'2026-Q2'.* must be over: it ends before 2026-07-01"):
        series.pool(frame, "2026-Q2")
    assert series.ledger.entries() == []
    series.release(frame, "2026-04-30")
    monkeypatch.setattr(Period, "today", staticmethod(lambda: date(2026, 4, 1)))  # what is stored stays readable
    assert series.release(frame, "2026-04-30").to_json() == series["2026-04-30"].to_json()
    series.pool(frame, "2026-Q1")
    assert (series.periods, series.quarters) == (["2026-04-30"], ["2026-Q1"])


def test_a_file_that_another_process_is_beginning_is_no_series_yet(tmp_path):
    (tmp_path / "series.db").touch()
    assert list(opened(tmp_path).periods) == []


def test_the_time_zone_and_the_kind_of_the_period_are_those_of_the_first_release(tmp_path):
    times = pl.Series("t", [datetime(2026, 1, 4, 23, 30)] * 500).dt.replace_time_zone("UTC")
    frame = pl.DataFrame({"t": times, "city": ["ghent"] * 500})
    local = frame.with_columns(pl.col("t").dt.convert_time_zone("Europe/Brussels"))
    series = opened(tmp_path, by=tree("ghent"), period=Period("t", every="day"), epsilon=1.0, delta=0.0)
    series.release(frame, "2026-01-04")
    message = r"'t' is in Europe/Brussels, but earlier releases of this file used UTC. Hint: pl.col\('t'\).dt.convert_"
    with pytest.raises(ValueError, match=message):
        series.release(local, "2026-01-05")
    with pytest.raises(ValueError, match="'t' holds date, but earlier releases of this file used UTC"):
        series.release(frame.with_columns(pl.col("t").dt.date()), "2026-01-05")
    assert series.periods == ["2026-01-04"]
    pools = opened(tmp_path, "pools.db", period=Period("t", every="day"), pooled=0.15)
    pools.release(frame, "2026-01-04")
    with pytest.raises(ValueError, match="used UTC"):
        pools.pool(local, "2026-Q1")


def test_releases_by_two_rules_at_once_are_added(tmp_path, monkeypatch):
    times = pl.Series("t", [datetime(2026, 1, 4, 23, 30)] * 500).dt.replace_time_zone("UTC")
    frame = pl.DataFrame({"t": times, "city": ["ghent"] * 500})
    series = opened(tmp_path, by=tree("ghent"), period=Period("t", every="day"), epsilon=1.0, delta=0.0)
    series.release(frame, "2026-01-04")
    monkeypatch.setattr(Series, "_checked_clock", lambda self, dtype: dtype.time_zone)  # as if it were first
    with pytest.raises(BudgetError):
        series.release(frame.with_columns(pl.col("t").dt.convert_time_zone("Europe/Brussels")), "2026-01-05")


def tampered(path, sql, *values):
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql, values)
        db.commit()


DAMAGED = ["", "{}", "[" * 9999, b"\xff"]
SETTINGS = ["null", "[]", "5", '{"a": 1}', '{"period": 5}', '{"period": {"column": "week"}}']


@pytest.mark.parametrize("text", DAMAGED + SETTINGS)
def test_damaged_settings_are_one_error(tmp_path, text):
    opened(tmp_path).release(visits(), "W1")
    tampered(tmp_path / "series.db", "UPDATE series SET settings = ?", text)
    with pytest.raises(LedgerError, match="is damaged"):
        Series.open(tmp_path / "series.db")
    with pytest.raises(LedgerError, match=r"is damaged|is a series with another"):
        opened(tmp_path)


@pytest.mark.parametrize("text", [*DAMAGED, None])
def test_a_damaged_release_is_named(tmp_path, text):
    series = opened(tmp_path)
    series.release(visits(), "W1")
    tampered(series.ledger.path, "UPDATE entries SET release = ?", text)
    for use in (lambda: series["W1"], lambda: series.release(visits(), "W2"), series.to_frame):
        with pytest.raises(LedgerError, match=r"series.db: the release of W1 is damaged. Hint: restore"):
            use()


def test_settings_may_be_corrected_until_the_first_release(tmp_path):
    with pytest.raises(ValueError, match="no column 'nope'"):
        opened(tmp_path, by=["city", "nope"]).release(visits(), "W1")
    with pytest.raises(ValueError, match="delta"):
        opened(tmp_path, delta=0.0).release(visits(), "W1")
    series = opened(tmp_path, delta=1e-5)
    series.release(visits(), "W1")
    assert series.ledger.total == {"epsilon": 1, "delta": Fraction(1, 10**5)}
    with pytest.raises(LedgerError, match="another by"):
        opened(tmp_path, by=["city", "week"], delta=1e-5)
    total = {"epsilon": 9, "delta": "1e-3"}
    opened(tmp_path, "more.db", by="nope", total=total)
    assert opened(tmp_path, "more.db").ledger.total == {"epsilon": 9, "delta": Fraction(1, 1000)}


@pytest.mark.parametrize("began", ["a series", "a ledger", "a ledger, before cheaper periods"])
def test_a_stated_total_stays_whatever_a_period_costs(tmp_path, began):
    total = {"epsilon": "1", "delta": "1e-6"}
    if began == "a series":
        opened(tmp_path, total=total)
    else:
        Ledger.open(tmp_path / "series.db", total=total, unit="one row")
        opened(tmp_path)
    if "cheaper" in began:
        opened(tmp_path, epsilon=0.5)
        opened(tmp_path)
    series = opened(tmp_path, epsilon=8.0)
    assert series.ledger.total == Ledger.open(series.ledger.path).total == {"epsilon": 1, "delta": Fraction(1, 10**6)}
    with pytest.raises(BudgetError, match=r"would cost epsilon 8, .* only epsilon 1"):
        series.release(visits(), "W1")
    assert opened(tmp_path).release(visits(), "W1").statement.loss["epsilon"] <= 1


def test_a_total_that_is_stated_later_stays(tmp_path):
    opened(tmp_path)
    opened(tmp_path, total=opened(tmp_path, epsilon=2.0).ledger.total, epsilon=2.0)
    assert opened(tmp_path, epsilon=8.0).ledger.total["epsilon"] == 2


def test_a_file_whose_first_commit_was_killed_is_begun_anew(tmp_path):
    """The journal of that commit is rolled back to an empty file, which is no damage."""
    path = tmp_path / "series.db"
    kill = f"""
import os, sqlite3
db = sqlite3.connect({str(path)!r}, isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("CREATE TABLE ledger (text)")
db.executemany("INSERT INTO ledger VALUES (?)", [("x" * 1000,)] * 200)
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", kill], check=False).returncode == 9
    assert path.stat().st_size > 0
    assert (tmp_path / "series.db-journal").exists()
    series = opened(tmp_path)
    series.release(visits(), "W1")
    assert opened(tmp_path).periods == ["W1"]
