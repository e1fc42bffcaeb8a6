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


@pytest.mark.parametrize(
    ("by", "depth"),
    [
        ("region,city", 3),
        ("ip(address)", 5),
        ("calendar(day, levels=(year, month, day, hour))", 5),
        ("number(day, low=2023-01-01, high=2025-01-01, width=1d)", 4),
        ("region, url(url)", 7),
        ("path(url, depth=7)", 7),
    ],
)
def test_a_file_is_not_needed(tmp_path, capsys, by, depth):
    told = planned(capsys, write_rows(tmp_path), "--by", by, *BUDGET)
    assert told["depth"] == depth
    assert planned(capsys, "--by", by, *BUDGET) == told
    assert told["candidates"][0]["error"] > 0


COLUMNS = "region", "city"
PATHS = [("north", "aä"), ("north", "b"), ("south", "c")]
SHUT = Key.columns(*COLUMNS, known=PATHS, closed=True)
PEOPLE = Unit("u", count="people", nodes=(6, 12))
VALUE = {"value": Value("v", bounds=(0, 5))}
CASES = [
    ("", OpenTree.columns(2), {}),
    ("--unit u --rows-per-unit 3", OpenTree.columns(2), {"unit": Unit("u", rows=3)}),
    ("--unit u --count people --nodes-per-unit 6,12", OpenTree.columns(2), {"unit": PEOPLE}),
    ("--unit u --count shares", OpenTree.columns(2), {"unit": Unit("u", count="shares")}),
    ("--unit u --leaves-per-unit 3", OpenTree.columns(2), {"d_in": 3}),
    ("--value v --bounds 0 5", OpenTree.columns(2), VALUE),
    ("--tree rows.parquet", Key.columns(*COLUMNS, tree=Tree.from_paths(PATHS)), {}),
    ("--known rows.parquet --value v --bounds 0 5", Key.columns(*COLUMNS, known=PATHS), VALUE),
    ("--known rows.parquet --closed all", SHUT, {}),
    (
        "--known rows.parquet --closed all --value v --bounds 0 5",
        Key.columns(*COLUMNS, known=PATHS, closed=True),
        VALUE,
    ),
]


@pytest.mark.parametrize(("words", "nodes", "options"), CASES)
def test_a_plan_tells_the_error_of_the_release_with_the_same_options(
    tmp_path, monkeypatch, capsys, words, nodes, options
):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    common = [*words.split(), "-o", "out.csv", "--ledger", "ledger", "--confidence", "0.9"]
    told = planned(capsys, "--by", "region,city", *BUDGET, *common)
    best = plan(nodes, epsilon=1.0, delta=1e-6, **options).best
    assert (told["best"], told["candidates"][0]["error"]) == (best.name, best.error)


def test_one_method_is_planned_for_alone(capsys):
    told = planned(capsys, "--by", "a,b", *BUDGET, "--method", "pruned_laplace")
    expected = plan(OpenTree.columns(2), epsilon=1.0, delta=1e-6).candidate("pruned_laplace").error
    assert [(each["mechanism"], each["error"]) for each in told["candidates"]] == [("pruned_laplace", expected)]
    for group in ("", "kind, "):
        by = ["--by", f"{group}number(age, low=0, high=100, bins=65536)", *BUDGET]
        plain, quantiles = (planned(capsys, *by, *more)["candidates"][0] for more in ([], ["--quantiles", "0.5"]))
        assert 0 < plain["error"] == quantiles["error"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("--by a,b,c --epsilon 1", 4, "not possible"),
        ("rows.parquet --by nowhere --epsilon 1", 2, "has no column nowhere. Hint"),
        (
            "--by a --epsilon 1 --unit u --count shares --rows-per-unit 3",
            2,
            "is not for --count shares",
        ),
        ("--by a --epsilon 1 --confidence 0", 2, "(0.0) must be above 0 and below 1. Hint: opendp-tree plan --help"),
        ("--by a --epsilon 0", 2, "epsilon (0.0) must be positive"),
        ("--by a --epsilon 1 --alpha 1", 2, "alpha (1.0) must be"),
    ],
)
def test_what_cannot_be_has_a_code_of_its_own(tmp_path, monkeypatch, capsys, words, code, told):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    assert main(["plan", *words.split()]) == code
    assert told in "".join(capsys.readouterr())
