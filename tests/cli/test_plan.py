import json

import pytest

from opendp_tree import Key, OpenTree, Tree, Unit, Value, plan
from opendp_tree.cli import main
from tests.cli.helpers import BUDGET, write_rows


def test_the_table_has_every_mechanism_and_says_why_not(capsys):
    assert main(["plan", "--by", "a,b,c,d,e", *BUDGET]) == 0
    first, _, heads, *lines, _, ranking = capsys.readouterr().out.splitlines()
    found = plan(6, epsilon=1.0, delta=1e-6, nodes="open")
    assert first == found.describe().splitlines()[0]
    assert ranking.startswith("The default of a release comes first; the others are ranked by error.")
    assert heads.split()[:2] == ["mechanism", "error"]
    assert len(lines) == len(found.candidates)
    for line, candidate in zip(lines, found.candidates, strict=True):
        assert line.startswith(candidate.name)
        assert ("not possible: " in line) == (not candidate.feasible)


def planned(capsys, *words):
    assert main(["plan", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_is_not_needed_and_is_checked_if_it_is_given(tmp_path, capsys):
    source = write_rows(tmp_path)
    for by, depth in {
        "region,city": 3,
        "ip(address)": 5,
        "calendar(day, levels=(year, month, day, hour))": 5,
        "number(day, low=2023-01-01, high=2025-01-01, width=1d)": 4,
        "region, url(url)": 7,
        "path(url, depth=7)": 7,
    }.items():
        told = planned(capsys, source, "--by", by, *BUDGET)
        assert told["depth"] == depth
        assert planned(capsys, "--by", by, *BUDGET) == told
        assert told["candidates"][0]["error"] > 0
    assert main(["plan", source, "--by", "nowhere", *BUDGET]) == 2
    assert "has no column nowhere. Hint" in capsys.readouterr().err


def test_public_nodes_from_a_file(tmp_path, capsys):
    source, words = write_rows(tmp_path), ["--by", "region,city", "--epsilon", "1"]
    paths = [("north", "aä"), ("north", "b"), ("south", "c")]
    told = planned(capsys, source, *words, "--tree", source)
    tree = Key.columns("region", "city", tree=Tree.from_paths(paths)).hierarchy
    assert told["best"] == plan(tree, epsilon=1.0).best.name
    assert planned(capsys, *words, "--tree", source) == told


OPEN = OpenTree.columns(3)
CASES = [
    ("", {}),
    ("--unit u --rows-per-unit 3", {"unit": Unit("u", rows=3)}),
    ("--unit u --count people --nodes-per-unit 6,12,20", {"unit": Unit("u", count="people", nodes=(6, 12, 20))}),
    ("--unit u --count shares", {"unit": Unit("u", count="shares")}),
    ("--unit u --leaves-per-unit 3", {"d_in": 3}),
    ("--value v --bounds 0 500", {"value": Value("v", bounds=(0, 500))}),
]


@pytest.mark.parametrize(("words", "options"), CASES)
def test_a_plan_tells_the_error_of_the_release_with_the_same_options(capsys, words, options):
    common = [*words.split(), "-o", "out.csv", "--ledger", "ledger", "--confidence", "0.9"]
    told = planned(capsys, "--by", "a,b,c", *BUDGET, *common)
    best = plan(OPEN, epsilon=1.0, delta=1e-6, **options).best
    assert (told["best"], told["candidates"][0]["error"]) == (best.name, best.error)


@pytest.mark.parametrize("closed", [(), ("--closed", "all")], ids=["open", "closed"])
def test_known_names_are_planned_with_a_value(tmp_path, capsys, closed):
    source = write_rows(tmp_path)
    told = planned(
        capsys, "--by", "region,city", *BUDGET, "--known", source, *closed, *["--value", "v", "--bounds", "0", "5"]
    )
    paths = [("north", "aä"), ("north", "b"), ("south", "c")]
    key = Key.columns("region", "city", known=paths, closed=bool(closed))
    best = plan(key, epsilon=1.0, delta=1e-6, value=Value("v", bounds=(0, 5))).best
    assert (told["best"], told["candidates"][0]["error"]) == ("tree_means", best.error)


def test_one_method_is_planned_for_alone(capsys):
    told = planned(capsys, "--by", "a,b,c", *BUDGET, "--method", "pruned_laplace")
    expected = plan(OPEN, epsilon=1.0, delta=1e-6).candidate("pruned_laplace").error
    assert [(each["mechanism"], each["error"]) for each in told["candidates"]] == [("pruned_laplace", expected)]
    number = ["--by", "number(age, low=0, high=100, bins=65536)", "--epsilon", "1"]
    errors = [planned(capsys, *number, *more)["candidates"] for more in ([], ["--quantiles", "0.5"])]
    assert errors[0][0]["error"] == errors[1][0]["error"]
    groups = planned(capsys, "--by", "kind, number(age, low=0, high=100, bins=65536)", *BUDGET)
    assert groups["candidates"][0]["error"] > 0
    assert errors[0][0]["error"] > 0


def test_nothing_possible_is_a_result_with_a_code_of_its_own(capsys):
    assert main(["plan", "--by", "a,b,c", "--epsilon", "1"]) == 4
    assert "not possible" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--unit u --count shares --rows-per-unit 3", "--rows-per-unit is not for --count shares. Hint: leave it out"),
        ("--confidence 0", "confidence (0.0) must be above 0 and below 1. Hint: opendp-tree plan --help"),
        ("--epsilon 0", "epsilon (0.0) must be positive"),
        ("--alpha 1", "alpha (1.0) must be"),
    ],
)
def test_wrong_options_are_refused_as_by_release(capsys, words, told):
    assert main(["plan", "--by", "a", *BUDGET, *words.split()]) == 2
    assert told in capsys.readouterr().err
