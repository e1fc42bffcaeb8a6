import json
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from opendp_tree import Ledger
from opendp_tree.ledger import BudgetError, LedgerError, spend

ROOT = Path(__file__).parents[1]
HERE = {**os.environ, "PYTHONPATH": str(ROOT)}
PURE = {"epsilon": 1}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def test_decimals_add_up_exactly_to_the_total(path):
    ledger = Ledger.open(path, total={"epsilon": "1", "delta": "1e-6"})
    for _ in range(10):
        ledger.reserve({"epsilon": "0.1", "delta": "1e-7"})
    assert ledger.left() == {"epsilon": 0, "delta": 0}
    with pytest.raises(BudgetError, match=r"epsilon 0, delta 0 are left\. Hint: the ledger is spent"):
        ledger.reserve({"epsilon": "1e-12"})


def test_floats_count_for_no_less_than_they_are(path):
    ledger = Ledger.open(path, total={"epsilon": 1.0})
    for _ in range(9):
        ledger.reserve({"epsilon": 0.1})
    assert 1 - ledger.left()["epsilon"] >= 9 * Fraction(0.1)
    with pytest.raises(BudgetError):  # the float 0.1 is larger than a tenth
        ledger.reserve({"epsilon": 0.1})


def test_a_total_that_is_no_short_decimal_is_rounded_down(path):
    assert Ledger.open(path, total={"rho": Fraction(1, 3)}).total["rho"] < Fraction(1, 3)
    assert Ledger.open(path, total={"rho": Fraction(1, 3)}).left() == Ledger.open(path).total


def test_a_refusal_writes_nothing_and_delta_is_counted_too(path):
    ledger = Ledger.open(path, total={"epsilon": 1, "delta": "1e-6"})
    before = path.read_bytes()
    with pytest.raises(BudgetError, match=r"Hint: ask for at most epsilon 1, delta 0\.000001"):
        ledger.reserve({"epsilon": "0.1", "delta": "1e-5"})
    assert path.read_bytes() == before


def test_a_refusal_says_what_is_still_possible(path):
    ledger = Ledger.open(path, total={"epsilon": 1, "delta": "1e-6"}, unit="one row")
    ledger.check({"epsilon": 1, "delta": "1e-6"}, unit="one row")
    ledger.reserve({"epsilon": "0.25", "delta": "1e-6"})
    for cost, words in (
        ({"epsilon": "0.5", "delta": "1e-7"}, r"no delta is left: ask for delta 0, .* and at most epsilon 0\.75$"),
        ({"epsilon": 1}, r"ask for at most epsilon 0\.75, delta 0$"),
    ):
        for refuse in (ledger.check, ledger.reserve):
            with pytest.raises(BudgetError, match=words):
                refuse(cost)
    with pytest.raises(LedgerError, match=r"is for unit 'one row', not 'two'\. Hint"):
        ledger.check({"epsilon": "0.1"}, unit="two")
    ledger.reserve({"epsilon": "0.75"})
    with pytest.raises(BudgetError, match="the ledger is spent"):
        ledger.check({"epsilon": "0.1"})
    assert len(ledger.entries()) == 2


def test_statements_follow_reservations(path):
    ledger = Ledger.open(path, total={"rho": 1}, unit="row", dataset="flights")
    entry = ledger.reserve({"rho": "0.5"}, {"by": ["origin"]})
    assert Ledger.open(path).left() == {"rho": Fraction(1, 2)}  # before the release is made
    ledger.finish(entry, {"mechanism": "gaussian"})
    header, reserved, done = lines(path)
    assert (header["unit"], header["dataset"], header["total"]) == ("row", "flights", {"rho": "1"})
    assert (reserved["state"], reserved["cost"], reserved["note"]) == ("reserved", {"rho": "0.5"}, {"by": ["origin"]})
    assert (done["state"], done["entry"], done["statement"]) == ("done", entry, {"mechanism": "gaussian"})
    for number in (entry, 0, 2):
        with pytest.raises(LedgerError, match="no open entry"):
            ledger.finish(number, {})


def test_a_ledger_is_for_one_total_unit_and_data_set(path):
    with pytest.raises(LedgerError, match=r"no ledger at .* yet\. Hint: total="):
        Ledger.open(path)
    Ledger.open(path, total=PURE, unit="row", dataset="flights")
    assert Ledger.open(path, unit="row").dataset == "flights"
    with pytest.raises(LedgerError, match=r"has another total: epsilon 1, delta 0\. Hint"):
        Ledger.open(path, total={"epsilon": 2})
    with pytest.raises(LedgerError, match=r"is for unit 'row', not 'tailnum'\. Hint"):
        Ledger.open(path, unit="tailnum")
    Ledger.open(path.with_suffix(".any"), total=PURE)
    assert Ledger.open(path.with_suffix(".any"), unit="row").unit is None  # which nobody said, so that any will do
    with pytest.raises(LedgerError, match=r"is for dataset 'flights', not 'taxis'\. Hint"):
        Ledger.open(path, dataset="taxis")
    with pytest.raises(LedgerError, match="counts epsilon and delta, not rho"):
        Ledger.open(path).reserve({"rho": 1})


@pytest.mark.parametrize("amount", ["-1", "nan", "inf", "1e999999999", "1e-999999999", "x", None, float("nan"), -0.5])
def test_amounts_are_finite_and_not_negative(path, amount):
    with pytest.raises(LedgerError, match=r"total: epsilon \(.*\) must be a finite number"):
        Ledger.open(path, total={"epsilon": amount})
    with pytest.raises(LedgerError, match="must be of epsilon and delta, or of rho"):
        Ledger.open(path, total={"delta": 0})
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 20, 60, -2])
def test_a_torn_last_line_costs_nothing_and_is_kept(path, cut):
    ledger = Ledger.open(path, total=PURE)
    ledger.reserve({"epsilon": "0.25"})
    whole = path.read_bytes()
    ledger.reserve({"epsilon": "0.25"})
    torn = path.read_bytes()[len(whole) :][:cut]
    for _ in range(3):
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.truncate(len(whole))
            file.seek(0, os.SEEK_END)
            file.write(torn)
        assert ledger.left()["epsilon"] == Fraction(3, 4)
        assert ledger.reserve({"epsilon": "0.25"}) == 2
        kept = lines(path)[2]
        assert (kept["state"], kept["text"].encode("latin-1")) == ("torn", torn)
        assert ledger.left()["epsilon"] == Fraction(1, 2)


def test_a_last_line_without_its_end_counts(path):
    ledger = Ledger.open(path, total=PURE)
    path.write_bytes(path.read_bytes()[:-1])
    ledger.reserve({"epsilon": "0.25"})
    path.write_bytes(path.read_bytes()[:-1])
    assert ledger.left()["epsilon"] == Fraction(3, 4)
    assert ledger.reserve({"epsilon": "0.25"}) == 2
    assert len(lines(path)) == 3


def test_a_torn_first_line_is_begun_anew(path):
    Ledger.open(path, total=PURE)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        Ledger.open(path, total=PURE)
        assert len(lines(path)) == 1


def test_damage_elsewhere_is_refused(path):
    ledger = Ledger.open(path, total=PURE)
    for _ in range(3):
        ledger.finish(ledger.reserve({"epsilon": "0.1"}), {})
    whole = path.read_bytes()
    parts = whole.splitlines(keepends=True)
    first = parts[1]
    damaged = {
        3: [*parts[:2], b"{}\n", *parts[3:]],
        4: [*parts[:3], *parts[4:]],  # a reservation is missing
        2: [parts[0], first.replace(b"0.1", b"-0.1"), *parts[2:]],
        5: [*parts[:4], b"\0" * 40 + b"\n", *parts[5:]],
    }
    for number, content in damaged.items():
        path.write_bytes(b"".join(content))
        with pytest.raises(LedgerError, match=f"line {number} of .* is damaged. Hint: restore"):
            ledger.reserve({"epsilon": "0.1"})
    for other in (b"hello\n", b"[]\n", b'{"ledger": "another"}\n', b"hello", whole.replace(b'"total"', b'"sum"')):
        path.write_bytes(other)
        with pytest.raises(LedgerError, match=r"does not begin as a ledger does\. Hint"):
            Ledger.open(path, total=PURE)
        assert path.read_bytes() == other


def test_a_reservation_is_on_the_disk_before_the_release(path, monkeypatch):
    ledger = Ledger.open(path, total=PURE)
    calls = []
    monkeypatch.setattr(os, "write", lambda *args, write=os.write: calls.append("write") or write(*args))
    monkeypatch.setattr(os, "fsync", lambda *args, fsync=os.fsync: calls.append("fsync") or fsync(*args))
    ledger.reserve({"epsilon": "0.1"})
    assert calls == ["write", "fsync"]


def test_a_full_disk_is_an_error_and_leaves_a_torn_line(path, monkeypatch):
    ledger = Ledger.open(path, total=PURE)
    write = os.write

    def full(descriptor, content):
        write(descriptor, bytes(content)[:30])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            ledger.reserve({"epsilon": "0.25"})
    assert ledger.reserve({"epsilon": "1"}) == 1


SPENDER = """
import sys, time
from pathlib import Path
from opendp_tree import Ledger
from opendp_tree.ledger import BudgetError
folder, name = Path(sys.argv[1]), sys.argv[2]
(folder / name).touch()
while not (folder / "go").exists():
    time.sleep(0.001)
ledger = Ledger.open(folder / "ledger.jsonl", total={"epsilon": "4"})
count = 0
while True:
    try:
        entry = ledger.reserve({"epsilon": "0.05"}, {"by": name})
    except BudgetError:
        break
    count += 1
    ledger.finish(entry, {"by": name})
print(count)
"""


def test_processes_at_once_share_one_total(path, tmp_path):
    names = ["a", "b", "c", "d"]
    command = [sys.executable, "-c", SPENDER, str(tmp_path)]
    running = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=HERE) for name in names]
    while not all((tmp_path / name).exists() for name in names):
        assert all(process.poll() is None for process in running)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    counts = [int(process.communicate(timeout=60)[0]) for process in running]
    assert sum(counts) == 80
    assert sum(count > 0 for count in counts) > 1  # they did run at once
    _, *records = lines(path)
    reserved = [record for record in records if record["state"] == "reserved"]
    assert [record["entry"] for record in reserved] == list(range(1, 81))
    done = {record["entry"]: record["statement"] for record in records if record["state"] == "done"}
    assert done == {record["entry"]: record["note"] for record in reserved}


def killed_at_any_step(folder, way):
    program = Path(__file__).with_name("ledger_faults.py")
    command = [sys.executable, str(program), str(folder), way]
    return subprocess.run(command, capture_output=True, text=True, env=HERE, check=False)


def test_killed_at_any_step_ledger_and_output_are_whole_or_untouched(tmp_path):
    done = killed_at_any_step(tmp_path, "release")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes["killed"] > 40
    assert outcomes["finished"] == 2


@pytest.mark.parametrize(
    ("way", "complaint"), [("reserve_late", "came out without an entry"), ("write_in_place", "output is torn")]
)
def test_wrong_ways_to_release_are_found_by_killing(tmp_path, way, complaint):
    done = killed_at_any_step(tmp_path, way)
    assert done.returncode == 1
    assert complaint in done.stderr


HEADER = '{"ledger": "opendp-tree", "version": 1, "total": {"epsilon": "1", "delta": "0"}, "unit": null}'
DEEP = "[" * 100_000
NONSENSE = ["null", "5", "true", '"x"', "[]", "[[1]]", "{}", '{"a": {}}', "1e400", "NaN", "-1", DEEP, "9" * 5000]


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: value[:9])
def test_nonsense_anywhere_in_a_ledger_is_a_ledger_error(path, value):
    first = [
        HEADER.replace('{"epsilon": "1", "delta": "0"}', value),
        HEADER.replace('"1"', value, 1),
        HEADER.replace('"version": 1', f'"version": {value}'),
        HEADER.replace("null", value if value != "null" else "7"),
        value,
    ]
    good = '{"entry": 1, "state": "reserved", "cost": {"epsilon": "0.1", "delta": "0"}}'
    later = [
        good.replace('{"epsilon": "0.1", "delta": "0"}', value),
        good.replace('"0.1"', value).replace("5", "-5"),
        good.replace("1,", f"{value},", 1),
        good.replace('"reserved"', value),
        good.replace('{"epsilon": "0.1", "delta": "0"}', '{"rho": "0.1"}'),
        f"{good}\n" + good.replace("1,", f"{value},", 1).replace("reserved", "done"),
        value,
    ]
    allowed = {'"x"'}  # is a unit
    for content in (*first, *(f"{HEADER}\n{line}" for line in later)):
        if (content == first[3] and value in allowed) or content == HEADER:
            continue
        path.write_text(content + "\n")
        with pytest.raises(LedgerError, match=r"does not begin as a ledger|is damaged|has another total"):
            Ledger.open(path, total=PURE).reserve({"epsilon": "0.1"})
        assert path.read_text() == content + "\n"


@pytest.mark.parametrize("total", [5, "x", None, [], [("epsilon", 1)], {1: 2}, {"epsilon": []}])
def test_amounts_that_are_none_are_a_ledger_error(path, total):
    ledger = Ledger.open(path, total=PURE)
    with pytest.raises(LedgerError):
        ledger.reserve(total)


def test_a_ledger_prints_what_was_spent_on_what_and_what_is_left(path):
    ledger = Ledger.open(path, total={"rho": 1}, unit="one row", dataset="<b>flights</b>")
    assert "Left:  rho 1" in repr(ledger)
    entry = ledger.reserve({"rho": "0.5"}, {"columns": ["origin", "<script>\x1b[2J"]})
    ledger.finish(entry, {"mechanism": "tree_gaussian"})
    shown = repr(ledger)
    assert shown == str(ledger) == ledger.describe()
    assert "columns origin <script> [2J, by tree_gaussian  done" in shown
    assert shown.endswith("Total: rho 1\nSpent: rho 0.5\nLeft:  rho 0.5")
    page = ledger._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "Left:  rho 0.5" in page
    path.write_text("no ledger any more")
    for shown in (repr(ledger), ledger._repr_html_()):
        assert "It cannot be read now." in shown
    path.unlink()
    assert "It cannot be read now." in repr(ledger)


def test_notes_that_somebody_edited_still_print(path):
    ledger = Ledger.open(path, total={"rho": 1})
    ledger.reserve({"rho": "0.5"})
    record = lines(path)[-1]
    for note in (None, 3, "text", [1], {"a": {"b": None}}):
        changed = {**record, "note": note, "time": 5}
        path.write_text(path.read_text().splitlines()[0] + "\n" + json.dumps(changed) + "\n")
        assert "Left:  rho 0.5" in repr(Ledger.open(path))


class Released:
    class statement:  # noqa: N801 - stands for a PrivacyStatement
        @staticmethod
        def to_dict():
            return {"mechanism": "laplace"}


def test_spending_counts_before_and_finishes_after(path):
    ledger = Ledger.open(path, total={"epsilon": 1})

    def make():
        (entry,) = ledger.entries()
        assert (entry.cost["epsilon"], entry.statement, entry.note) == (Fraction(1, 2), None, {"by": "a"})
        return Released

    assert spend(ledger, {"epsilon": "0.5"}, make, note={"by": "a"}) is Released
    (entry,) = ledger.entries()
    assert entry.statement == {"mechanism": "laplace"}
    assert spend(None, {"epsilon": 1}, lambda: 3) == 3


def test_what_fails_stays_counted_and_what_is_refused_is_not_made(path):
    ledger = Ledger.open(path, total={"epsilon": 1})

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spend(ledger, {"epsilon": "0.75"}, fail)
    assert ledger.left()["epsilon"] == Fraction(1, 4)
    assert ledger.entries()[0].statement is None
    with pytest.raises(BudgetError):
        spend(ledger, {"epsilon": "0.5"}, lambda: pytest.fail("made"))
    assert len(ledger.entries()) == 1
