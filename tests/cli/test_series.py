"""The nightly job: what is due is released once, files are written, and the exit code says what to do."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import date, timedelta

import polars as pl
import pytest

from opendp_tree import Ledger, Series
from opendp_tree.cli import main
from opendp_tree.cli.series import NAMES
from opendp_tree.cli.terminal import Exit
from opendp_tree.ledger import show
from opendp_tree.releases.writing import FORMATS
from opendp_tree.rows.period import Period
from tests.cli.helpers import ENVIRONMENT, PATIENCE, ROOT

TODAY = date(2026, 5, 1)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Period, "today", staticmethod(lambda: TODAY))


def prepare(folder, days=30, **options):
    """Rows by day from the first Monday of 2026, and a configuration by week."""
    first = date(2026, 1, 5)
    rows = [(str(first + timedelta(days=number)), city) for number in range(days) for city in ["a"] * 40 + ["b"] * 30]
    pl.DataFrame(rows, schema=["day", "city"], orient="row").write_csv(folder / "rows.csv")
    config = {
        "file": "series.db",
        "source": "rows.csv",
        "by": "city",
        "period": {"column": "day", "every": "week"},
        "first": "2026-W02",
        "epsilon": 1,
        "delta": 1e-6,
        "output": "out",
        **options,
    }
    path = folder / "nightly.json"
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return str(path)


def nightly(path, today, *more):
    return main(["series", "run", path, "--today", str(today), *more])


def test_what_is_due_is_released_and_written_once(tmp_path, capsys):
    path = prepare(tmp_path)
    assert nightly(path, "2026-01-11") == Exit.OK
    assert capsys.readouterr().err == ""
    assert not list((tmp_path / "out").iterdir())
    assert nightly(path, "2026-01-20") == Exit.OK
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["period"], line["status"]) for line in lines] == [("2026-W02", "released"), ("2026-W03", "released")]
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "2026-W02.parquet",
        "2026-W03.parquet",
        "series.parquet",
    }
    release = Series.open(tmp_path / "series.db")["2026-W02"].to_json()
    assert nightly(path, "2026-01-20") == Exit.OK
    assert capsys.readouterr().err == ""
    (tmp_path / "out" / "2026-W02.parquet").unlink()
    assert nightly(path, "2026-01-26") == Exit.OK
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["period"], line["status"]) for line in lines] == [("2026-W02", "written"), ("2026-W04", "released")]
    series = Series.open(tmp_path / "series.db")
    assert series["2026-W02"].to_json() == release
    assert series.ledger.left()["epsilon"] == 0
    table = pl.read_parquet(tmp_path / "out" / "series.parquet")
    assert table["period"].unique().sort().to_list() == series.periods
    written = pl.read_parquet(tmp_path / "out" / "2026-W04.parquet")
    assert abs(written.filter(pl.col("path") == "a")["estimate"][0] - 280) < 60


def test_quarters_that_are_due_are_pooled_once_before_the_weeks_after_them(tmp_path, capsys):
    path = prepare(tmp_path, first="2026-W12", pooled=0.15)
    assert nightly(path, "2026-03-31") == Exit.OK
    assert Series.open(tmp_path / "series.db").quarters == []
    capsys.readouterr()
    for _ in range(2):
        assert nightly(path, "2026-04-21") == Exit.OK
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    names = [(line["period"], line["status"]) for line in lines]
    weeks = [(f"2026-W{week}", "released") for week in (14, 15, 16)]
    assert names == [weeks[0], ("2026-Q1", "pooled"), *weeks[1:]]
    series = Series.open(tmp_path / "series.db")
    assert series.quarters == ["2026-Q1"]
    assert series.ledger.left() == {"epsilon": 0, "delta": 0}


def test_late_rows_are_waited_for_and_empty_periods_released(tmp_path):
    path = prepare(tmp_path, days=3, wait=3)
    weeks = ["2026-W02", "2026-W03", "2026-W04"]
    for today, released in (("2026-01-14", []), ("2026-01-15", weeks[:1]), ("2026-02-01", weeks)):
        assert nightly(path, today) == Exit.OK
        assert Series.open(tmp_path / "series.db").periods == released


def test_periods_of_any_name_are_written_into_the_folder(tmp_path):
    options = {"period": {"column": "city"}, "by": "day", "first": None, "periods": ["../x", "b"]}
    assert nightly(prepare(tmp_path, **options), "2026-01-20") == Exit.OK
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert names == {"..%2Fx.parquet", "b.parquet", "series.parquet"}


def test_no_budget_is_told_and_what_was_paid_is_there(tmp_path, capsys):
    unit = {"column": "city", "rows": 5}
    path = prepare(tmp_path, unit=unit, total={"epsilon": "2.5", "delta": "1e-5"}, format="csv")
    assert nightly(path, "2026-02-01") == Exit.BUDGET
    *lines, last = capsys.readouterr().err.splitlines()
    assert "only epsilon 0.5" in last
    for place, line in enumerate(map(json.loads, lines), start=1):
        assert line["cost"] == {"epsilon": "1", "delta": "0.000001"}
        assert (line["spent"]["epsilon"], line["left"]["epsilon"]) == (f"{place}", f"{1.5 - (place - 1)}")
    assert {"2026-W02.csv", "2026-W03.csv"} <= {each.name for each in (tmp_path / "out").iterdir()}
    assert set(pl.read_csv(tmp_path / "out" / "series.csv")["period"]) == {"2026-W02", "2026-W03"}
    assert Ledger.open(tmp_path / "series.db").left()["epsilon"] == 0.5


def test_what_may_be_there_later_is_tried_again(tmp_path, capsys):
    path = prepare(tmp_path)
    rows = (tmp_path / "rows.csv").read_bytes()
    (tmp_path / "rows.csv").unlink()
    assert nightly(path, "2026-01-20") == Exit.AGAIN == 75
    (tmp_path / "rows.csv").write_bytes(b"")
    assert nightly(path, "2026-01-20") == Exit.AGAIN
    assert "Hint" in capsys.readouterr().err
    assert not (tmp_path / "series.db").exists()
    (tmp_path / "rows.csv").write_bytes(rows)
    assert nightly(path, "2026-01-20") == Exit.OK


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": None}, "by is missing"),
        ({"colour": 1}, "there is no setting 'colour'. Hint: file, source, by"),
        ({"wiat": 2}, "there is no setting 'wiat'. Hint: wait"),
        ({"unit": {"column": "city", "row": 20}}, "unit: there is no setting 'row'. Hint: rows"),
        ({"unit": {"rows": 20}}, "unit must be a table with column. Hint: unit = {column"),
        ({"value": [{"column": "city"}]}, "value must be a table with column and bounds. Hint: value = {column"),
        ({"value": {"column": "city", "bound": [0, 1], "bounds": [0, 1]}}, "there is no setting 'bound'. Hint: bounds"),
        ({"integers": "yes"}, "integers"),
        ({"integers": True, "method": "tree_estimator"}, "nonnegative and integers are for counts by method auto"),
        ({"by": []}, 'Hint: a configuration has file = "weeks.db", source = '),
        ({"source": "nightly.json"}, "cannot read .json files: '"),
        ({"source": "nightly.*"}, "COPY (SELECT ...) TO 'rows.parquet'"),
        ({"first": "2026"}, "must be a week"),
        ({"first": None}, "first must be the first period"),
        ({"period": {"column": "day"}}, "periods must list"),
        ({"period": {"column": "day", "each": "week"}}, "each"),
        ({"epsilon": "much"}, "epsilon ('much') must be a number"),
        ({"epsilon": True}, "epsilon (True) must be a number"),
        ({"unit": "city"}, "unit must be a table with column. Hint: unit = {column"),
        ({"total": {"epsilon": "x"}}, "total: epsilon (x) must be a"),
        ({"total": 5}, "total must give epsilon"),
        ({"period": "city", "by": "day", "first": None, "periods": ["a", "Series"]}, "must not list 'series'"),
        ({"epsilon": -1}, "epsilon"),
        ({"format": "xls"}, "format ('xls') must be one of parquet, csv, ndjson, json, xlsx. Hint: format = "),
        ({"unit": {"column": "city", "rows": 5}}, "total must be given"),
        ({"by": "town"}, "no column 'town'"),
        ({"delta": 0}, "delta"),
        ({"ready": "in/ready"}, "ready ('in/ready') must contain {period}"),
        ({"method": "magic"}, "method"),
        ({"wait": "long"}, "wait ('long') must be a whole number of days"),
        ({"wait": -1}, "wait (-1) must be a whole number of days"),
        ({"wait": 10_001}, "wait (10001) must be a whole number of days, from 0 to 10,000"),
        ({"wait": 10**12}, "wait (1000000000000) must be a whole number of days"),
        ({"wait": 1.9}, "wait (1.9) must be a whole number of days"),
    ],
)
def test_wrong_configurations_are_told(tmp_path, capsys, options, words):
    assert nightly(prepare(tmp_path, **options), "2026-01-20") == Exit.USAGE
    told = capsys.readouterr().err
    assert words in told
    assert "Hint" in told
    assert {each.name for each in tmp_path.iterdir()} == {"nightly.json", "rows.csv"}


def test_a_damaged_source_is_tried_again_and_costs_nothing(tmp_path, capsys):
    path = prepare(tmp_path, source="rows.parquet")
    pl.read_csv(tmp_path / "rows.csv", try_parse_dates=True).write_parquet(tmp_path / "rows.parquet")
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:60] = bytes(56)
    (tmp_path / "rows.parquet").write_bytes(content)
    assert nightly(path, "2026-01-20") == Exit.AGAIN
    assert "rows.parquet could not be read in full; nothing was spent. Hint" in capsys.readouterr().err
    assert Series.open(tmp_path / "series.db").periods == []


@pytest.mark.parametrize("name", ["2026-W02", "series"])
def test_an_output_that_cannot_be_written_costs_nothing(tmp_path, name):
    path = prepare(tmp_path)
    (tmp_path / "out" / f"{name}.parquet").mkdir(parents=True)
    assert nightly(path, "2026-01-12") == Exit.FAILURE
    assert Series.open(tmp_path / "series.db").periods == []


def test_no_configuration(tmp_path, capsys):
    for content, more in ((None, []), ("[1]", []), ("{", []), ("{", ["--today", "soon"])):
        path = tmp_path / "nightly.json"
        if content is not None:
            path.write_text(content)
        assert main(["series", "run", str(path), *more]) == Exit.USAGE
    assert capsys.readouterr().err.count("Hint") == 4


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("unit", [{}, {"unit": {"column": "day", "rows": 100}, "total": {"epsilon": 9, "delta": 1}}])
def test_whole_numbers_are_written_in_every_format(tmp_path, form, unit):
    path = prepare(tmp_path, format=form, nonnegative=True, integers=True, **unit)
    assert nightly(path, "2026-01-20") == Exit.OK
    ending = "ndjson" if form == "json" else form
    names = {f"2026-W02.{form}", f"2026-W03.{form}", f"series.{ending}"}
    assert {each.name for each in (tmp_path / "out").iterdir()} == names
    release = Series.open(tmp_path / "series.db")["2026-W03"]
    assert all(estimate >= 0 and estimate == int(estimate) for estimate in release.estimates)
    release.write(tmp_path / f"again.{form}")
    if form != "xlsx":  # which holds the time
        assert (tmp_path / f"again.{form}").read_bytes() == (tmp_path / "out" / f"2026-W03.{form}").read_bytes()


def test_a_run_releases_at_most_so_many_periods(tmp_path, capsys):
    path = prepare(tmp_path, first="2026-W01", pooled=0.15)
    for most, released in (("2", 2), ("1", 3), ("100", 14)):
        assert nightly(path, "2026-04-06", "--most", most) == Exit.OK
        series = Series.open(tmp_path / "series.db")
        assert series.periods == [f"2026-W{week:02}" for week in range(1, released + 1)]
    assert nightly(path, "2026-04-06", "--most", "0") == Exit.USAGE
    assert series.quarters == ["2025-Q4", "2026-Q1"]


def test_a_dry_run_tells_the_costs_and_reads_and_spends_nothing(tmp_path, capsys, monkeypatch):
    path = prepare(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pl.LazyFrame, "collect", None)
        before = {each.name for each in tmp_path.iterdir()}
        assert nightly(path, "2026-01-20", "--dry-run") == Exit.OK
        assert capsys.readouterr() == (
            "due       cost\n2026-W02  epsilon 1, delta 0.000001\n2026-W03  epsilon 1, delta 0.000001\n"
            "All 2 together: epsilon 1, delta 0.000001, because a row is in one period. "
            "Left: epsilon 1, delta 0.000001. Nothing was read or spent.\n",
            "",
        )
        assert {each.name for each in tmp_path.iterdir()} == before
    path = prepare(tmp_path, unit={"column": "city", "rows": 9}, total={"epsilon": "2.5", "delta": "1e-5"})
    assert nightly(path, "2026-01-13") == Exit.OK
    content = (tmp_path / "series.db").read_bytes()
    capsys.readouterr()
    assert nightly(path, "2026-01-20", "--dry-run") == Exit.OK
    assert "All 1 together: epsilon 1, delta 0.000001. Left: epsilon 1.5, " in capsys.readouterr().out
    assert nightly(path, "2026-01-28", "--dry-run") == Exit.BUDGET
    printed = capsys.readouterr()
    assert "All 2 together: epsilon 2, delta 0.000002. Left: epsilon 1.5, " in printed.out
    assert "only epsilon 1.5, delta 0.000009 are left. Hint: --most N" in printed.err
    assert nightly(path, "2026-01-28", "--dry-run", "--most", "1") == Exit.OK
    assert (tmp_path / "series.db").read_bytes() == content


@pytest.mark.parametrize("pooled", [None, 0.15])
@pytest.mark.parametrize("unit", [{}, {"unit": {"column": "city", "rows": 9}, "total": {"epsilon": 99, "delta": 1}}])
def test_a_run_costs_what_a_dry_run_told(tmp_path, capsys, pooled, unit):
    if pooled and unit:
        return
    path = prepare(tmp_path, first="2026-W10", pooled=pooled, **unit)
    for today in ("2026-03-17", "2026-04-13"):
        assert nightly(path, today, "--dry-run") == Exit.OK
        told = capsys.readouterr().out
        before = Series.open(tmp_path / "series.db").ledger.left() if today > "2026-04" else None
        assert nightly(path, today) == Exit.OK
        capsys.readouterr()
        ledger = Series.open(tmp_path / "series.db").ledger
        cost = {name: (before or ledger.total)[name] - amount for name, amount in ledger.left().items()}
        assert f"together: {show(cost)}" in told


def test_outputs_replace_neither_the_file_nor_the_source(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    for options, words in (
        ({"file": "out/2026-W02.parquet"}, "file ("),
        ({"file": "out/series.parquet"}, "file ("),
        ({"source": "out/*.parquet"}, "source must not match the job's outputs, such as "),
        ({"source": "**/*.csv", "format": "csv"}, "source must not match"),
        ({"source": "o*/2026-*.csv", "format": "csv"}, "source must not match"),
    ):
        assert nightly(prepare(tmp_path, **options), "2026-01-20") == Exit.USAGE
        told = capsys.readouterr().err
        assert words in told
        assert "Hint" in told
    assert {each.name for each in tmp_path.iterdir()} == {"nightly.json", "out", "rows.csv"}
    assert not list((tmp_path / "out").iterdir())
    if os.name == "posix":
        path = prepare(tmp_path)
        (tmp_path / "out" / "2026-W03.parquet").symlink_to(tmp_path / "series.db-journal")
        assert nightly(path, "2026-01-20") == Exit.USAGE
        (tmp_path / "out" / "2026-W03.parquet").unlink()
    assert nightly(prepare(tmp_path, source="*.csv", output="csv", format="csv"), "2026-01-20") == Exit.OK


def test_the_page_lists_every_key_of_a_configuration():
    rows = re.search(r"^\| key \|.*?\n\n", (ROOT / "docs" / "nightly.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    keys = [key for line in rows.splitlines()[2:] if line for key in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(keys) == sorted(NAMES)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads no TOML")
def test_the_configurations_of_the_pages_run(tmp_path):
    table = pl.DataFrame(
        {
            "person": range(300),
            "country": ["be"] * 300,
            "city": ["a"] * 300,
            "origin": "a",
            "dest": "b",
            "date": [date(2026, 1, 5)] * 300,
        }
    )
    for page, source in (("publish", "visits.parquet"), ("nightly", "flights/2026.parquet")):
        folder = tmp_path / page
        (folder / source).parent.mkdir(parents=True)
        table.write_parquet(folder / source)
        (folder / "a.toml").write_text(
            re.search(r"```toml\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)[1]
        )
        (folder / "in").mkdir()
        (folder / "in" / "2026-W01.ready").touch()
        (folder / "in" / "2026-W02.ready").touch()
        assert nightly(str(folder / "a.toml"), "2026-01-15", "--dry-run") == Exit.OK
        assert nightly(str(folder / "a.toml"), "2026-01-15") == Exit.OK
        assert (folder / "weeks" / f"2026-W02.{'xlsx' if page == 'publish' else 'parquet'}").exists()


def test_files_that_differ_are_a_wrong_configuration(tmp_path, capsys):
    path = prepare(tmp_path, source="rows*.csv")
    (tmp_path / "rows2.csv").write_text("city,date\na,2026-01-05\n")
    assert nightly(path, "2026-01-20") == Exit.USAGE
    assert "Hint: all files must have the same columns" in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads no TOML")
def test_toml(tmp_path):
    prepare(tmp_path)
    (tmp_path / "nightly.toml").write_text(
        'file = "series.db"\nsource = "rows.csv"\nby = "city"\nperiod = {column = "day", every = "week"}\n'
        'first = "2026-W02"\nepsilon = 1\ndelta = 1e-6\noutput = "out"\n'
    )
    assert nightly(str(tmp_path / "nightly.toml"), "2026-01-12") == Exit.OK
    assert Series.open(tmp_path / "series.db").periods == ["2026-W02"]


def test_a_day_in_the_future_is_refused(tmp_path, capsys):
    path = prepare(tmp_path, first="2026-W17")
    assert nightly(path, TODAY + timedelta(days=1)) == Exit.USAGE
    assert "2026-05-02 must be a day such as 2026-03-09, and not after today. Hint" in capsys.readouterr().err
    assert not (tmp_path / "series.db").exists()
    assert nightly(path, TODAY) == Exit.OK == main(["series", "run", path])
    assert Series.open(tmp_path / "series.db").periods == ["2026-W17"]


def test_other_settings_than_those_of_the_file_are_a_wrong_configuration(tmp_path, capsys):
    assert nightly(prepare(tmp_path), "2026-01-12") == Exit.OK
    assert nightly(prepare(tmp_path, epsilon=2), "2026-01-12") == Exit.USAGE
    assert "another epsilon" in capsys.readouterr().err
    assert nightly(prepare(tmp_path, by="day, city"), "2026-01-12") == Exit.USAGE
    assert "another by: by is 'city', not 'day', 'city'. Hint" in capsys.readouterr().err
    unit = {"unit": {"column": "city", "rows": 5}, "total": {"epsilon": "9", "delta": "1e-5"}}
    assert nightly(prepare(tmp_path, **unit), "2026-01-12") == Exit.USAGE
    assert nightly(prepare(tmp_path, total={"epsilon": "9", "delta": "1e-5"}), "2026-01-12") == Exit.USAGE
    assert "another total" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "word"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")])
def test_a_signal_stops_the_job_with_its_own_code_and_costs_nothing(tmp_path, monkeypatch, capsys, number, word):
    path, handler = prepare(tmp_path), signal.getsignal(signal.SIGTERM)
    release = Series._with_statement

    def stopped(*words, **named):
        os.kill(os.getpid(), number)
        return release(*words, **named)

    monkeypatch.setattr(Series, "_with_statement", stopped)
    assert nightly(path, "2026-01-20") == 128 + number
    assert capsys.readouterr().err == f"opendp-tree: {word}\n"
    assert signal.getsignal(signal.SIGTERM) == handler
    series = Series.open(tmp_path / "series.db")
    assert series.periods == []
    assert series.ledger.left() == series.ledger.total


BACKGROUND = """
import os, signal, sys
from opendp_tree import Series
from opendp_tree.cli import main
release = Series._with_statement
def stopped(*words, **named):
    os.kill(os.getpid(), signal.SIGINT)
    if "terminate" in sys.argv:
        os.kill(os.getpid(), signal.SIGTERM)
    return release(*words, **named)
Series._with_statement = stopped
sys.exit(main(["series", "run", sys.argv[1], "--today", "2026-01-20"]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("word", "code", "released"), [("go", 0, 2), ("terminate", 143, 0)])
def test_a_job_in_the_background_ignores_sigint_and_ends_by_sigterm(tmp_path, word, code, released):
    """A shell without job control ignores SIGINT for what it starts with `&`."""
    words = ["sh", "-c", '"$@" & wait $!', "sh", sys.executable, "-c", BACKGROUND, prepare(tmp_path), word]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == code, done.stderr
    assert len(Series.open(tmp_path / "series.db").periods) == released


def test_a_missing_marker_holds_back_its_period_and_later_ones(tmp_path, capsys):
    path = prepare(tmp_path)
    (tmp_path / "in").mkdir()
    run = ["series", "run", path, "--today", "2026-01-26", "--ready", "in/{period}.ready"]
    for name in ("2026-W02", "2026-W04"):
        (tmp_path / "in" / f"{name}.ready").touch()
    assert main(run) == Exit.AGAIN == 75
    *lines, last = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["period"] for line in lines] == ["2026-W02"]
    marker = tmp_path / "in" / "2026-W03.ready"
    assert last.startswith(f"opendp-tree: waiting for {marker}; nothing was spent for its period. Hint")
    (tmp_path / "in" / "2026-W02.ready").unlink()  # a released period needs none
    (tmp_path / "rows.csv").rename(tmp_path / "later.csv")  # markers are checked first
    assert main([*run, "--json"]) == Exit.AGAIN
    told = json.loads(capsys.readouterr().err)
    assert (told["status"], told["exit_code"]) == ("again", 75)
    assert f"waiting for {marker}" in told["error"]
    (tmp_path / "later.csv").rename(tmp_path / "rows.csv")
    marker.touch()
    assert main(run) == Exit.OK
    assert Series.open(tmp_path / "series.db").periods == ["2026-W02", "2026-W03", "2026-W04"]


def test_a_quarter_waits_for_the_marker_of_its_last_week(tmp_path):
    path = prepare(tmp_path, first="2026-W13", pooled=0.15, ready="{period}.ready")
    (tmp_path / "2026-W13.ready").touch()
    assert nightly(path, "2026-04-21") == Exit.AGAIN
    assert Series.open(tmp_path / "series.db").quarters == []
    (tmp_path / "2026-W14.ready").touch()  # from 30 March to 5 April
    assert nightly(path, "2026-04-05") == Exit.OK  # when the week is not over
    assert Series.open(tmp_path / "series.db").quarters == []
    assert nightly(path, "2026-04-06") == Exit.OK  # and when it is
    series = Series.open(tmp_path / "series.db")
    assert (series.periods, series.quarters) == (["2026-W13", "2026-W14"], ["2026-Q1"])


def test_a_first_budget_that_pays_for_nothing_leaves_no_file(tmp_path, capsys):
    path = prepare(tmp_path, total={"epsilon": "0.5", "delta": "1e-6"})
    assert nightly(path, "2026-01-20") == Exit.BUDGET
    assert f"of {tmp_path / 'series.db'}'s total" in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} == {"nightly.json", "rows.csv"}


def test_a_job_that_is_killed_and_started_again_releases_every_period_once():
    """`make faults` does this a thousand times."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.nightly", "20"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert sum(counts.get(harm, 0) for harm in ("killed", "terminated", "interrupted")) >= 20
