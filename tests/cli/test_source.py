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
        (["--path", "url"], Key.path("url", depth=4)),
        (["--path", "url", "--separator", ".", "--depth", "3"], Key.path("url", separator=".", depth=3)),
        (["--ip", "address"], Key.ip("address")),
        (["--ip", "address6", "--ip-version", "6"], Key.ip("address6", version=6, stride=16)),
        (["--date", "day", "--parts", "year,month"], Key.calendar("day", levels=("year", "month"))),
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
    source = open_source(options(write_rows(tmp_path, "csv"), "--date", "day"))
    assert source.frame.collect_schema()["day"] == pl.Date


def test_a_listed_tree_is_part_of_the_key(tmp_path):
    listed = tmp_path / "tree.csv"
    listed.write_text("region,city\nnorth,b\nsouth,\n")
    file = write_rows(tmp_path)
    source = open_source(options(file, "--by", "region,city", "--tree", str(listed)))
    assert source.key.hierarchy == Tree.from_paths([("north", "b"), ("south",)], names=["region", "city"])
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
