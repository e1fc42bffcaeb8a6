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
    common = [*words.split(), "-o", "out.csv", "--confidence", "0.9"]
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
        ("--by a,b,c --epsilon 1", 4, "\n\nNothing is possible. Hint: --delta 1e-6\n"),
        ("--by a,number(b,low=0,high=12,bins=24) --epsilon 1", 4, "Hint: --delta 1e-6\n"),
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


RELEASED = ["rows.parquet", "--by", "region,city", "--epsilon", "0.5", "--delta", "1e-7", "--ledger", "ledger.db"]
TOTALS = ["--total-epsilon", "1", "--total-delta", "1e-6"]


@pytest.mark.parametrize(
    ("spent", "more", "code", "told"),
    [
        (0, TOTALS, 0, "Left after it: epsilon 0.5, delta 9e-7.\n"),
        (1, [], 0, "Left after it: epsilon 0, delta 8e-7.\n"),
        (1, TOTALS, 0, "Left after it: epsilon 0, delta 8e-7.\n"),
        (2, [], 3, "the ledger is spent"),
        (0, ["--total-epsilon", "0.4", "--total-delta", "0.1"], 3, "would cost"),
        (0, [], 2, "there is no ledger at ledger.db yet"),
        (1, ["--total-epsilon", "2"], 2, "has another total"),
        (1, ["--dataset", "visits"], 2, "names no data set"),
        (1, ["--unit", "person", "--count", "shares"], 2, "is for unit 'one row'"),
        (0, ["--total-delta", "1e-6"], 2, "--total-delta requires"),
    ],
)
def test_a_plan_with_a_ledger_ends_as_the_release_would_and_writes_nothing(
    tmp_path, monkeypatch, capsys, spent, more, code, told
):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    for _ in range(spent):
        assert main(["release", *RELEASED, *TOTALS, "-o", "out.csv", "--quiet"]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["plan", *RELEASED, *more]) == code
    assert told in "".join(capsys.readouterr())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert main(["release", *RELEASED, *more, "-o", "next.csv", "--quiet"]) == code


def test_what_a_ledger_has_left_after_a_plan_is_in_its_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    assert planned(capsys, *RELEASED, *TOTALS)["left"] == {"epsilon": "0.5", "delta": "9e-7"}
    assert planned(capsys, *RELEASED[:-2])["left"] is None
    assert main(["plan", *RELEASED[:-2], "--dataset", "visits"]) == 2
    assert "totals and --dataset require --ledger" in capsys.readouterr().err
