import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from opendp_tree import Ledger
from opendp_tree._interrupts import deferred_interrupts
from opendp_tree.ledger import BudgetError, LedgerError, LockedError, _transaction, spend
from tests.faults.processes import PATIENCE

ROOT = Path(__file__).parents[1]
HERE = {**os.environ, "PYTHONPATH": str(ROOT)}
PURE = {"epsilon": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def locked(path):
    """A ledger, and the connection of another process that has locked it."""
    ledger = Ledger.open(path, total=PURE)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield ledger, db


def changed(path, statement):
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_decimals_add_up_exactly_to_the_total(path):
    ledger = Ledger.open(path, total={"epsilon": "1", "delta": "1e-6"})
    for _ in range(10):
        ledger.commit({"epsilon": "0.1", "delta": "1e-7"})
    assert ledger.left() == {"epsilon": 0, "delta": 0}
    with pytest.raises(BudgetError, match=r"epsilon 0, delta 0 are left\. Hint: the ledger is spent"):
        ledger.commit({"epsilon": "1e-12"})


def test_floats_count_for_no_less_than_they_are(path):
    ledger = Ledger.open(path, total={"epsilon": 1.0})
    for _ in range(9):
        ledger.commit({"epsilon": 0.1})
    assert 1 - ledger.left()["epsilon"] >= 9 * Fraction(0.1)
    with pytest.raises(BudgetError):  # the float 0.1 is larger than a tenth
        ledger.commit({"epsilon": 0.1})


def test_a_total_that_is_no_short_decimal_is_rounded_down_and_pays_for_what_is_written_alike(path):
    assert Ledger.open(path, total={"rho": Fraction(1, 3)}).total["rho"] < Fraction(1, 3)
    assert Ledger.open(path, total={"rho": Fraction(1, 3)}).left() == Ledger.open(path).total
    ledger = Ledger.open(path.with_name("other"), total={"epsilon": 0.3})
    assert ledger.total["epsilon"] == Fraction(3, 10)
    assert ledger.commit({"epsilon": "0.3"}) == 1


def test_a_refusal_says_what_is_still_possible_and_writes_nothing(path):
    ledger = Ledger.open(path, total={"epsilon": 1, "delta": "1e-6"}, unit="one row")
    ledger.check({"epsilon": 1, "delta": "1e-6"}, unit="one row")
    ledger.commit({"epsilon": "0.25", "delta": "1e-6"})
    before = path.read_bytes()
    for cost, words in (
        ({"epsilon": "0.5", "delta": "1e-7"}, r"no delta is left: ask for delta 0, .* and at most epsilon 0\.75$"),
        ({"epsilon": 1}, r"ask for at most epsilon 0\.75, delta 0$"),
    ):
        for refuse in (ledger.check, ledger.commit):
            with pytest.raises(BudgetError, match=words):
                refuse(cost)
    with pytest.raises(LedgerError, match=r"is for unit 'one row', not 'two'\. Hint"):
        ledger.check({"epsilon": "0.1"}, unit="two")
    assert path.read_bytes() == before
    ledger.commit({"epsilon": "0.75"})
    with pytest.raises(BudgetError, match="the ledger is spent"):
        ledger.check({"epsilon": "0.1"})


def test_release_and_cost_are_one_transaction(path):
    ledger = Ledger.open(path, total={"rho": 1}, unit="row", dataset="flights")
    assert (ledger.stored("2024"), ledger.stored(1)) == (None, None)
    given = {"release": '{"a": 1}', "name": "2024", "statement": {"mechanism": "gaussian"}}
    assert ledger.commit({"rho": "0.5"}, {"by": ["origin"]}, **given) == 1
    again = Ledger.open(path)
    (entry,) = again.entries()
    assert (again.unit, again.dataset, again.left()) == ("row", "flights", {"rho": Fraction(1, 2), "delta": 0})
    assert (entry.note, entry.statement, entry.name) == ({"by": ["origin"]}, {"mechanism": "gaussian"}, "2024")
    assert again.stored("2024") == again.stored(1) == '{"a": 1}'
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"has a release '2024' already\. Hint: ledger\.stored\('2024'\)"):
        ledger.commit({"rho": "0.1"}, name="2024")
    with pytest.raises(BudgetError):
        ledger.commit({"rho": "0.6"}, release="{}", name="2025")
    for wrong in ({"release": 3}, {"name": 3}):
        with pytest.raises(TypeError, match="must be a str"):
            ledger.commit({"rho": "0.1"}, **wrong)
    assert path.read_bytes() == before
    assert ledger.commit({"rho": "0.5"}) == 2  # neither stored nor named, like the next
    assert ledger.stored(2) is None


def test_a_ledger_is_for_one_total_unit_and_data_set(path):
    with pytest.raises(LedgerError, match=r"no ledger at .* yet\. Hint: Ledger\.open\('.*', total="):
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
    with pytest.raises(LedgerError, match="counts epsilon and delta, not rho and delta"):
        Ledger.open(path).commit({"rho": 1})


def test_losses_of_two_units_are_never_added_up(path):
    """Nor is the dearest of disjoint releases taken for people, who may have rows in all of them."""
    ledger = Ledger.open(path, total={"epsilon": 2})
    ledger.commit({"epsilon": 1}, statement={"unit": "one row"})
    for refused in (
        lambda: ledger.commit({"epsilon": 1}, statement={"unit": "one value of 'user'"}),
        lambda: ledger.check({"epsilon": 1}, unit="one value of 'user'"),
        lambda: Ledger.open(path.with_suffix(".person"), total=PURE, unit="one user").commit(PURE, disjoint="weeks"),
    ):
        with pytest.raises(LedgerError, match=r"is for unit 'one row', not|is only for unit 'one row'"):
            refused()
    assert len(ledger.entries()) == 1
    assert ledger.commit({"epsilon": 1}, disjoint="weeks") == 2


def test_amounts_are_finite_and_not_negative(path):
    texts = ("-1", "nan", "inf", "1e999999999", "1e-999999999", "x")
    for amount in (*texts, Decimal("1e99999999"), None, float("nan"), -0.5, []):
        with pytest.raises(LedgerError, match=r"total: epsilon \(.*\) must be a finite"):
            Ledger.open(path, total={"epsilon": amount})
    for total in ({"delta": 0}, 5, "x", [], [("epsilon", 1)], {1: 2}):
        with pytest.raises(LedgerError, match="must give epsilon and delta, or rho and delta"):
            Ledger.open(path, total=total)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"hello\n", b"SQLite format 3\0", bytes(5000), None], ids=repr)
def test_a_file_that_is_not_a_ledger_is_refused_and_left_alone(path, content):
    if content is None:
        changed(path, "CREATE TABLE mine (a)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    for total in (None, PURE):
        with pytest.raises(LedgerError, match=r"is not a ledger\. Hint: name another file"):
            Ledger.open(path, total=total)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM ledger",
        "INSERT INTO ledger SELECT * FROM ledger",
        'UPDATE entries SET cost = \'{"epsilon": "-1"}\'',
        'UPDATE entries SET cost = \'{"rho": "1"}\'',
        "UPDATE entries SET cost = x'ff'",
        "UPDATE ledger SET total = '[]'",
        "UPDATE entries SET note = '[1]'",
        "UPDATE entries SET statement = '{'",
        "UPDATE entries SET disjoint = x'ff'",
        f"UPDATE entries SET note = '{'[' * 100_000}'",
        "DROP TABLE entries",
        "ALTER TABLE entries RENAME cost TO costs",
    ],
    ids=lambda damage: damage[:40],
)
def test_damage_is_an_error_and_spends_nothing(path, damage):
    ledger = Ledger.open(path, total=PURE)
    for _ in range(2):
        ledger.commit({"epsilon": "0.1"})
    changed(path, damage)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"is damaged.*\. Hint: restore the ledger from a copy|another total"):
        ledger.commit({"epsilon": "0.1"})
    assert path.read_bytes() == before


def test_an_empty_file_is_begun(path):
    path.touch()
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(path)
    assert Ledger.open(path, total=PURE).left()["epsilon"] == 1


def test_a_writer_waits_for_others_and_asks_often(path, locked, monkeypatch):
    (ledger, other), sleeps, steps = locked, [], 200

    def others_commit(seconds):
        sleeps.append(seconds)
        if len(sleeps) == steps:
            other.execute("ROLLBACK")

    monkeypatch.setattr("opendp_tree.ledger.time.sleep", others_commit)
    assert ledger.commit({"epsilon": "0.1"}) == 1
    assert len(sleeps) == steps
    assert max(sleeps) <= 0.002  # shorter than a commit that reaches the disk: nobody takes all turns
    with _transaction(path) as db:
        assert db.execute("PRAGMA busy_timeout").fetchone() == (0,)  # SQLite's own waiting starves some


def test_a_file_that_is_locked_or_cannot_be_written_is_an_error(path, locked, monkeypatch):
    ledger, db = locked
    monkeypatch.setattr("opendp_tree.ledger.LOCKED_SECONDS", 0.0)
    for use in (ledger.left, lambda: ledger.commit({"epsilon": "0.1"}), lambda: Ledger.open(path, total=PURE)):
        with pytest.raises(LockedError, match=r"is locked by another process\. Hint"):
            use()
    for wrong in (path / "below", path.parent / "none" / "ledger", f"{path}\0", "x" * 300):
        with pytest.raises(LedgerError, match=r"cannot be opened\. Hint"):
            Ledger.open(wrong, total=PURE)
    db.execute("ROLLBACK")
    assert ledger.left()["epsilon"] == 1


def test_an_interrupt_ends_the_wait_for_another_process(locked):
    ledger, db = locked
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - the end raises it
        signal.raise_signal(signal.SIGINT)
        ledger.commit({"epsilon": "0.1"})
    db.execute("ROLLBACK")
    assert ledger.entries() == []


def test_a_full_disk_is_an_error_and_spends_nothing(path, monkeypatch):
    ledger = Ledger.open(path, total=PURE)
    connect = sqlite3.connect

    def full(*args, **options):
        db = connect(*args, **options)
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        return db

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(LedgerError, match=r"does not fit on its disk; nothing was spent\. Hint"):
            ledger.commit({"epsilon": "0.25"}, release="x" * 100_000)
    assert ledger.entries() == []
    assert ledger.commit({"epsilon": 1}) == 1


def test_a_commit_waits_for_the_disk_and_for_its_folder(path):
    Ledger.open(path, total=PURE)
    with _transaction(path, "rw") as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


SPENDER = """
import sys
from pathlib import Path
from opendp_tree import Ledger
from opendp_tree.ledger import BudgetError
folder, name = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger.open(folder / "ledger.db", total={"epsilon": "4"})
while True:
    try:
        print(ledger.commit({"epsilon": "0.05"}, release=name), flush=True)
    except BudgetError:
        break
"""


def spenders(folder, names):
    """Processes that have all been started before the first spends."""
    command = [sys.executable, "-c", SPENDER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": HERE}
    running = [subprocess.Popen([*command, name], **pipes) for name in names]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    return running


def test_processes_at_once_share_one_total_to_the_last(path, tmp_path):
    names = ["a", "b", "c", "d"]
    said = [process.communicate(timeout=PATIENCE)[0].split() for process in spenders(tmp_path, names)]
    assert sorted(int(entry) for entries in said for entry in entries) == list(range(1, 81))
    ledger = Ledger.open(path)
    assert ledger.left()["epsilon"] == 0
    for name, entries in zip(names, said, strict=True):
        assert all(ledger.stored(int(entry)) == name for entry in entries)


def test_killed_while_they_spend_processes_leave_no_cost_without_a_release(path, tmp_path):
    running = spenders(tmp_path, ["a", "b"])
    seen = [line for _ in range(5) if (line := running[0].stdout.readline())]  # the other may have been faster
    running[0].kill()
    said = [process.communicate(timeout=PATIENCE)[0].split() for process in running]
    stored = [Ledger.open(path).stored(entry) for entry in range(1, 81)]
    assert None not in stored
    assert stored.count("b") == len(said[1])
    assert 0 <= stored.count("a") - len(said[0]) - len(seen) <= 1  # one may have been committed and not yet printed


DIES_IN_ITS_COMMIT = """
import os, signal, sqlite3, sys
from opendp_tree import Ledger
class Connection(sqlite3.Connection):
    def execute(self, words, *args):
        if words == "COMMIT":  # the pages are in the file, and the journal that takes them back beside it
            super().execute("PRAGMA cache_spill = 1")
            super().execute("PRAGMA cache_size = 1")
            super().execute("CREATE TABLE more AS SELECT randomblob(1000000) AS a")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(words, *args)
ledger, connect = Ledger.open(sys.argv[1]), sqlite3.connect
sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)
ledger.commit({"epsilon": "0.5"}, release="x" * 100_000)
"""


def test_killed_in_the_middle_of_a_commit_a_ledger_is_as_it_was_for_whoever_reads_first(path):
    ledger = Ledger.open(path, total=PURE)
    ledger.commit({"epsilon": "0.25"})
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", DIES_IN_ITS_COMMIT, str(path)], env=HERE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() != before
    assert path.with_name(f"{path.name}-journal").exists()
    assert Ledger.open(path).left()["epsilon"] == Fraction(3, 4)
    assert path.read_bytes() == before
    assert ledger.commit({"epsilon": "0.75"}) == 2


@pytest.mark.parametrize(
    ("way", "complaint"),
    [("release", ""), ("commit_late", "came out without an entry"), ("write_in_place", "output is torn")],
)
def test_killed_at_any_step_ledger_and_output_are_whole_or_untouched(tmp_path, way, complaint):
    """The two wrong ways to release are found by killing."""
    program = Path(__file__).with_name("ledger_faults.py")
    command = [sys.executable, str(program), str(tmp_path), way]
    done = subprocess.run(command, capture_output=True, text=True, env=HERE, check=False)
    assert done.returncode == (1 if complaint else 0), done.stderr
    assert complaint in done.stderr
    if not complaint:
        outcomes = json.loads(done.stdout)
        assert outcomes["killed"] > 40
        assert outcomes["finished"] == 2


def test_a_ledger_prints_what_was_spent_on_what_and_what_is_left(path):
    ledger = Ledger.open(path, total={"rho": 1}, unit="one row", dataset="<b>flights</b>")
    assert "Left:  rho 1, delta 0" in repr(ledger)
    note = {"columns": ["origin", "<script>\x1b[2J"]}
    ledger.commit({"rho": "0.5"}, note, statement={"mechanism": "tree_gaussian"})
    shown = repr(ledger)
    assert shown == str(ledger) == ledger.describe()
    assert "columns origin <script> [2J, by tree_gaussian\n" in shown
    assert shown.endswith("Total: rho 1, delta 0\nSpent: rho 0.5, delta 0\nLeft:  rho 0.5, delta 0")
    page = ledger._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "Left:  rho 0.5" in page
    path.write_text("no ledger any more")
    for shown in (repr(ledger), ledger._repr_html_()):
        assert "cannot be read now." in shown


class Released:
    """Stands for a release and for its statement."""

    to_json = staticmethod(lambda: "{}")
    to_dict = staticmethod(lambda: {"mechanism": "laplace"})


Released.statement = Released


def test_spending_commits_what_was_made_before_it_gives_it(path):
    ledger = Ledger.open(path, total={"epsilon": 1})

    def make():
        assert ledger.entries() == []
        return Released

    assert spend(ledger, {"epsilon": "0.5"}, make, note={"by": "a"}) is Released
    (entry,) = ledger.entries()
    assert (entry.statement, entry.note, ledger.stored(1)) == ({"mechanism": "laplace"}, {"by": "a"}, "{}")
    assert spend(None, {"epsilon": 1}, lambda: 3) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_what_fails_costs_nothing_and_what_is_refused_is_not_made(path, error):
    ledger = Ledger.open(path, total={"epsilon": 1})

    def fail():
        raise error

    with pytest.raises(error):
        spend(ledger, {"epsilon": "0.75"}, fail)
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        spend(ledger, {"epsilon": "0.75"}, lambda: signal.raise_signal(signal.SIGINT))
    assert ledger.entries() == []
    with pytest.raises(BudgetError):
        spend(ledger, {"epsilon": "1.5"}, lambda: pytest.fail("made"))


def test_what_another_process_took_meanwhile_is_refused_at_the_commit(path):
    ledger = Ledger.open(path, total={"epsilon": 1})
    with pytest.raises(BudgetError, match=r"ask for at most epsilon 0\.5"):
        spend(ledger, {"epsilon": "0.75"}, lambda: ledger.commit({"epsilon": "0.5"}))
    assert len(ledger.entries()) == 1


def test_a_column_may_be_called_like_a_period(path):
    ledger = Ledger.open(path, total={"epsilon": 1}, unit="one value of 'u, in x'")
    ledger.commit({"epsilon": "0.1"}, statement={"unit": "one value of 'u, in x'"})
    ledger.commit({"epsilon": "0.1"}, statement={"unit": "one value of 'u, in x', in each period"})
    with pytest.raises(LedgerError, match="not \"one value of 'u, in y'\""):
        ledger.commit({"epsilon": "0.1"}, statement={"unit": "one value of 'u, in y'"})


def test_wrong_paths_and_names_are_told(path):
    ledger = Ledger.open(path, total=PURE)
    for error, words, use in (
        (TypeError, r"path \(NoneType\) must be a file's name", lambda: Ledger.open(None)),
        (LedgerError, r"is a folder\. Hint: .*ledger.db", lambda: Ledger.open(path.parent, total=PURE)),
        (LedgerError, r"names no data set\. Hint: leave the data set out", lambda: Ledger.open(path, dataset="x")),
        (TypeError, r"which \(list\) must be a release's name", lambda: ledger.stored([1])),
        (TypeError, r"which \(bool\) must be a release's name", lambda: ledger.stored(True)),
    ):
        with pytest.raises(error, match=words):
            use()
