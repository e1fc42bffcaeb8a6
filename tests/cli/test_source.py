from datetime import date, datetime
from decimal import Decimal

import polars as pl
import pytest

from opendp_tree import Key, Tree
from opendp_tree.cli.parser import build_parser
from opendp_tree.cli.source import open_source, read_key
from opendp_tree.cli.terminal import CommandError, Exit
from tests.cli.helpers import BUDGET, ROWS, write_rows


def options(file, *words):
    return build_parser("0").parse_args(["release", str(file), *words, *BUDGET, "-o", "out.csv"])


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["--by", "region,city"], Key.columns("region", "city")),
        (["--by", "region, ip(address6, version=6)"], Key.nested(Key.columns("region"), Key.ip("address6", version=6))),
        (["--by", "number(person, low=0, high=10, bins=2)"], Key.number("person", low=0, high=10, bins=2)),
        (["--path", "url"], Key.path("url", depth=4)),
        (["--path", "url", "--separator", ".", "--depth", "3"], Key.path("url", separator=".", depth=3)),
        (["--ip", "address"], Key.ip("address")),
        (["--ip", "address6", "--ip-version", "6"], Key.ip("address6", version=6, stride=16)),
        (["--ip", "address", "--ip-version", "both"], Key.ip("address", version="both")),
        (["--calendar", "day", "--levels", "year,week"], Key.calendar("day", levels=("year", "week"))),
        (["--url", "url"], Key.url("url")),
        (["--url", "url", "--depth", "3"], Key.url("url", depth=3)),
        (["--by", "region", "--ip", "address"], Key.nested(Key.columns("region"), Key.ip("address"))),
        (
            ["--number", "person", "--low", "-1", "--high", "10.5", "--bins", "4"],
            Key.number("person", low=-1, high=Decimal("10.5"), bins=4),
        ),
        (
            ["--number", "day", "--low", "2024-01-01", "--high", "2024-01-15", "--width", "7d", "--branching", "2"],
            Key.number("day", low=date(2024, 1, 1), high=date(2024, 1, 15), bins=2, branching=2),
        ),
        (
            [
                "--number",
                "day",
                "--low",
                "2024-01-01T06:00",
                "--high",
                "2024-01-02",
                "--width",
                "6h",
                "--outside",
                "ends",
            ],
            Key.number("day", low=datetime(2024, 1, 1, 6), high=date(2024, 1, 2), bins=3, outside="ends"),
        ),
    ],
)
def test_arguments_describe_a_key(words, key):
    assert read_key(options("rows.csv", *words)) == key


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a hierarchy is missing"),
        (["--by", "region", "--stride", "4"], "--stride goes with --ip"),
        (["--ip", "address", "--depth", "3"], "--depth goes with --path"),
        (["--path", "url", "--separator", ""], "separator"),
        (["--by", "region", "--low", "3"], "--low goes with --number"),
        (["--number", "person", "--low", "3", "--high", "2", "--bins", "1"], r"low \(3\) must be below high \(2\)"),
        (["--number", "person", "--bins", "1"], "low .* must be a number"),
        (["--number", "person", "--low", "0", "--high", "1", "--width", "0.3"], "Hint: bins=3"),
        (["--calendar", "day", "--levels", "month,week"], "must not have weeks"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(words, message):
    with pytest.raises(CommandError, match=message) as error:
        read_key(options("rows.csv", *words))
    assert error.value.code == Exit.USAGE
    assert "Hint" in str(error.value)


def test_a_source_holds_the_columns_that_are_used_and_no_more(tmp_path):
    for form in ("parquet", "csv"):
        source = open_source(options(write_rows(tmp_path, form), "--by", "region,city"), unit="person")
        assert source.frame.collect_schema().names() == ["region", "city", "person"]
        assert source.frame.collect().height == ROWS.height
        assert source.key.tree is None


def test_dates_of_texts_are_read(tmp_path):
    source = open_source(options(write_rows(tmp_path, "csv"), "--calendar", "day"))
    assert source.frame.collect_schema()["day"] == pl.Date


def test_a_listed_tree_is_part_of_the_key(tmp_path):
    listed = tmp_path / "tree.csv"
    listed.write_text("region,city\nnorth,b\nsouth,\n")
    file = write_rows(tmp_path)
    source = open_source(options(file, "--by", "region,city", "--tree", str(listed)))
    paths = [("north", "b"), ("south",), ("(outside)",)]
    assert source.key.hierarchy == Tree.from_paths(paths, names=["region", "city"])
    for words, message in (
        (["--nodes", "public"], "must be listed"),
        (["--nodes", "open", "--tree", str(listed)], "--nodes public"),
    ):
        with pytest.raises(CommandError, match=message):
            open_source(options(file, "--by", "region,city", *words))
    with pytest.raises(CommandError, match="--tree goes with --by or --path"):
        open_source(options(file, "--ip", "address", "--tree", write_rows(tmp_path, "csv")))


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("absent.csv", None, Exit.FAILURE, "there is no file"),
        ("rows.txt", "a\n1\n", Exit.USAGE, "unknown ending"),
        ("rows.ndjson", '{"a": 1}\n', Exit.USAGE, "NDJSON is not read"),
        ("rows.csv", "", Exit.FAILURE, "is empty"),
        ("rows.parquet", "secret", Exit.FAILURE, "cannot be read as parquet"),
        ("rows.csv", "secret\n1\n", Exit.USAGE, "has no column region"),
    ],
)
def test_files_that_cannot_be_counted_are_refused_without_a_word_of_what_they_hold(
    tmp_path, name, content, code, message
):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(CommandError, match=message) as error:
        open_source(options(path, "--by", "region"))
    assert error.value.code == code
    assert "secret" not in str(error.value)


def test_a_number_in_its_own_words_says_where_rows_outside_go(tmp_path):
    file, by = write_rows(tmp_path, "csv"), "number(person, low=0, high=10, bins=2, outside=ends)"
    assert open_source(options(file, "--by", by)).key.outside == "ends"
    with pytest.raises(CommandError, match=r"--outside is not for a number in --by\. Hint"):
        open_source(options(file, "--by", by, "--outside", "drop"))
