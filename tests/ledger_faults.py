"""Kill a process at each of its system calls and SQL statements, and look at what is left. A program, as it forks."""

import json
import os
import signal
import sqlite3
import sys
from fractions import Fraction
from pathlib import Path

from opendp_tree._files import PendingFile
from opendp_tree.ledger import BudgetError, Ledger

TOTAL, COST = {"epsilon": "60"}, {"epsilon": "1"}
CALLS = ("open", "write", "fsync", "replace", "close", "ftruncate")


def release(folder, content):
    """A release as it should be made."""
    ledger = Ledger.open(folder / "ledger", total=TOTAL)
    ledger.commit(COST, release=content)
    with PendingFile(folder / "out") as output:
        output.commit(content.encode())


def commit_late(folder, content):
    """Wrong: committed only when it is out."""
    ledger = Ledger.open(folder / "ledger", total=TOTAL)
    with PendingFile(folder / "out") as output:
        output.commit(content.encode())
    ledger.commit(COST, release=content)


def write_in_place(folder, content):
    """Wrong: the output grows where readers see it."""
    ledger = Ledger.open(folder / "ledger", total=TOTAL)
    ledger.commit(COST, release=content)
    descriptor = os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(descriptor, content.encode())
    os.close(descriptor)


def die_at(step, *, torn):
    """Let the process kill itself before its step-th call or statement, or in the middle of it if it writes."""
    left = step

    def count(call, name, *args):
        nonlocal left
        left -= 1
        if left == 0:
            if torn and name == "write":
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args)

    def wrap(name):
        call = getattr(os, name)
        setattr(os, name, lambda *args: count(call, name, *args))

    class Connection(sqlite3.Connection):
        def execute(self, *args):
            return count(super().execute, "execute", *args)

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)
    for name in CALLS:
        wrap(name)


def look(folder, seen):
    """What came out, having checked that it is whole and that the ledger stores it."""
    out = folder / "out"
    content = out.read_text() if out.exists() else None
    assert content is None or content.endswith("!"), "the output is torn"
    seen.add(content)
    ledger = Ledger.open(folder / "ledger", total=TOTAL)
    stored = [ledger.stored(entry.number) for entry in ledger.entries()]
    assert all(text.endswith("!") for text in stored), "a stored release is torn"
    assert len(set(stored)) == len(stored), "a release is stored twice"
    assert seen - {None} <= set(stored), "a release came out without an entry"
    assert ledger.left()["epsilon"] == Fraction(60) - len(stored) >= 0, "the sum is wrong"
    return ledger.left()["epsilon"]


def main(folder, make):
    seen, outcomes = set(), {"killed": 0, "finished": 0, "refused": 0}
    for torn in (False, True):
        for step in range(1, 100):
            content = f"release {torn} {step}!"
            child = os.fork()
            if child == 0:
                die_at(step, torn=torn)
                try:
                    make(folder, content)
                except BudgetError:
                    os._exit(3)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            look(folder, seen)
            outcomes[
                "killed" if os.WIFSIGNALED(status) else "refused" if os.WEXITSTATUS(status) == 3 else "finished"
            ] += 1
            assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in (0, 3), "an unexpected error"
            if os.WIFEXITED(status):
                break
    while True:
        try:
            make(folder, f"last {len(seen)}!")
        except BudgetError:
            break
        look(folder, seen)
    assert look(folder, seen) == 0
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), globals()[sys.argv[2]])
