import json

import pytest

from opendp_tree import OpenTree, Unit, plan
from opendp_tree.cli import main
from tests.cli.helpers import BUDGET, write_rows


def test_the_table_has_every_mechanism_and_says_why_not(capsys):
    assert main(["plan", "--depth", "6", *BUDGET]) == 0
    first, _, heads, *lines, _, ranking = capsys.readouterr().out.splitlines()
    found = plan(6, epsilon=1.0, delta=1e-6, nodes="open")
    assert first == found.describe().splitlines()[0]
    assert ranking.startswith("Ranked by error.")
    assert heads.split()[:2] == ["mechanism", "error"]
    assert len(lines) == len(found.candidates)
    for line, candidate in zip(lines, found.candidates, strict=True):
        assert line.startswith(candidate.name)
        assert ("not possible: " in line) == (not candidate.feasible)


def test_json_is_the_same_plan(capsys):
    assert main(["plan", "--depth", "6", *BUDGET, "--nodes", "public", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = plan(6, epsilon=1.0, delta=1e-6, nodes="public")
    assert told["best"] == found.best.name
    assert [each["mechanism"] for each in told["candidates"]] == [each.name for each in found.candidates]
    assert told["candidates"][0]["error"] == found.best.error


def test_a_files_columns_make_the_depth(tmp_path, capsys):
    source = write_rows(tmp_path)
    told = {}
    for name, words in {
        "by": ["--by", "region,city"],
        "ip": ["--ip", "address"],
        "calendar": ["--calendar", "day", "--levels", "year,month,day,hour"],
        "number": ["--number", "day", "--low", "2023-01-01", "--high", "2025-01-01", "--width", "1d"],
        "nested": ["--by", "region", "--url", "url"],
        "path": ["--path", "url", "--depth", "7"],
    }.items():
        assert main(["plan", source, *words, *BUDGET, "--json"]) == 0
        told[name] = json.loads(capsys.readouterr().out)["depth"]
    assert told == {"by": 3, "ip": 5, "calendar": 5, "number": 4, "nested": 7, "path": 7}


def test_public_nodes_from_a_file(tmp_path, capsys):
    source = write_rows(tmp_path)
    words = ["plan", source, "--by", "region,city", "--tree", source, "--epsilon", "1", "--json"]
    assert main(words) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert "laplace" in best


def test_more_rows_for_each_person_cost_more(capsys):
    errors = []
    for rows in ("1", "3"):
        assert main(["plan", "--depth", "4", *BUDGET, "--rows-per-unit", rows, "--json"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["candidates"][0]["error"])
    assert errors[0] < errors[1]
    assert errors[1] == plan(OpenTree.columns(3), epsilon=1.0, delta=1e-6, unit=Unit("unit", rows=3)).best.error


def test_people_and_shares_are_planned_for(capsys):
    assert main(["plan", "--depth", "4", *BUDGET, "--count", "people", "--nodes-per-unit", "6,12,20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == "people_gaussian"
    assert main(["plan", "--depth", "4", *BUDGET, "--count", "shares"]) == 0
    assert "Counted: shares of people" in capsys.readouterr().out
    assert main(["plan", "--depth", "4", *BUDGET, "--count", "people", "--rows-per-unit", "3"]) == 2
    assert "must suit --count. Hint: --nodes-per-unit M" in capsys.readouterr().err


def test_nothing_possible_is_a_result_with_a_code_of_its_own(capsys):
    assert main(["plan", "--depth", "4", "--epsilon", "1"]) == 4
    assert "not possible" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "a hierarchy is missing. Hint: --depth N, or FILE"),
        (["--by", "a", "--depth", "3"], "--by needs a file. Hint: FILE --by ..., or --depth N alone"),
        (["--path", "a", "--depth", "3"], "--path needs a file"),
    ],
)
def test_a_plan_needs_a_depth_or_a_file(words, told, capsys):
    assert main(["plan", *words, *BUDGET]) == 2
    assert told in capsys.readouterr().err
