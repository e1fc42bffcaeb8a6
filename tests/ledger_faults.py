"""Kill a process at each of its system calls and SQL statements, and look at what is left. A program, as it forks."""

import json
import os
import signal
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

from opendp_tree._files import PendingFile
from opendp_tree.ledger import BudgetError, Ledger
from tests.faults.processes import at_call, run

TOTAL, COST = {"epsilon": "60"}, {"epsilon": "1"}


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
    seen, outcomes = set(), Counter()
    for torn in (False, True):
        for step in range(1, 100):

            def job(torn=torn, step=step):
                at_call(step, lambda: os.kill(os.getpid(), signal.SIGKILL), torn=torn)
                try:
                    make(folder, f"release {torn} {step}!")
                except BudgetError:
                    return 3
                return 0

            end = run(job, folder)
            look(folder, seen)
            assert end.code in (0, 3, -signal.SIGKILL), end.errors
            outcomes[{0: "finished", 3: "refused"}.get(end.code, "killed")] += 1
            if end.code >= 0:
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
