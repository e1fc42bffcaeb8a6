"""Releases in a world that is full, closed, crowded or slow."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

from opendp_tree import Ledger
from opendp_tree.cli import main
from opendp_tree.ledger import BudgetError
from tests.faults.moments import TOTAL, Record, by_command
from tests.faults.processes import PATIENCE, fork, run, wait

ROOT = Path(__file__).parents[2]
NOBODY = 65534
ROWS = "region,city\n" + "north,a\n" * 300 + "south,b\n" * 200


def full_disk(folder, *, cases, seed):
    """Each write of a release in turn fails, with or without a part of it written; and files may not grow at all."""
    (folder / "rows.csv").write_text(ROWS)
    record, counts = Record(folder), Counter()

    def failing(number, written):
        write, left = os.write, [number]

        def full(descriptor, content):
            left[0] -= 1
            if left[0] > 0:
                return write(descriptor, content)
            write(descriptor, bytes(content)[:written])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        os.write = full
        return by_command(folder)

    for written in (0, 1, 40):
        for number in range(1, 10):
            end = run(lambda number=number, written=written: failing(number, written), folder)
            assert end.code in (0, 1), end.errors
            assert end.code == 0 or "No space left on device" in end.errors, end.errors
            record.look(parts_may_stay=False)
            counts["failed and said so" if end.code else "done"] += 1
            if end.code == 0:
                break

    def small(size):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return by_command(folder)

    for size in (0, 1, 200, 400, 800, 10**6):
        end = run(lambda size=size: small(size), folder)
        assert end.code in (0, 1), end.errors
        record.look(parts_may_stay=False)
        counts["failed and said so" if end.code else "done"] += 1
    assert end.code == 0
    return counts


def read_only(folder, *, cases, seed):
    """A user who may not write, or not read, is told so before anything is spent."""
    home, closed = folder / "home", folder / "closed"
    for place in (home, closed):
        place.mkdir()
        (place / "rows.csv").write_text(ROWS)
    (closed / "out").write_text("old")
    Ledger.open(closed / "ledger", total=TOTAL)
    Ledger.open(home / "fixed", total=TOTAL)
    (home / "secret.csv").write_text(ROWS)
    for path, mode in ((home / "fixed", 0o444), (home / "secret.csv", 0o000), (home, 0o777), (closed, 0o555)):
        path.chmod(mode)
    for path in (closed / "ledger", closed / "out"):
        path.chmod(0o644)
    before = {path: path.read_bytes() for path in (home / "fixed", closed / "ledger", closed / "out")}
    (closed / "ledger").chmod(0o444)
    trials = {
        "output": (home / "rows.csv", closed / "new", home / "new-ledger"),
        "old output": (home / "rows.csv", closed / "out", home / "new-ledger"),
        "ledger": (home / "rows.csv", home / "out", closed / "new"),
        "old ledger": (home / "rows.csv", home / "out", closed / "ledger"),
        "ledger that is read-only": (home / "rows.csv", home / "out", home / "fixed"),
        "input": (home / "secret.csv", home / "out", home / "new-ledger"),
    }

    def release(data, out, book):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        words = ["release", str(data), "--by", "region", "--epsilon", "0.1", "--delta", "1e-9", "--quiet"]
        words += ["-o", str(out), "--output-format", "json", "--ledger", str(book)]
        return main([*words, "--total-epsilon", "1000", "--total-delta", "0.9"])

    for name, trial in trials.items():
        end = run(lambda trial=trial: release(*trial), folder)
        assert end.code == 1, f"{name}: {end.code} {end.errors}"
        assert end.errors.startswith("opendp-tree: "), end.errors
        assert end.errors.count("\n") == 1, end.errors
        assert {path: path.read_bytes() for path in before} == before, name
        assert not (home / "out").exists()
        assert not list(folder.glob("*/.*.part")), "a part is left behind"
        assert not (home / "new-ledger").exists(), "a ledger was begun"
    end = run(lambda: release(home / "rows.csv", home / "out", home / "new-ledger"), folder)
    assert end.code == 0, end.errors
    closed.chmod(0o755)
    return {"refused before anything was spent": len(trials), "done where it may": 1}


def writers(folder, *, cases, seed):
    """Two to twenty processes spend one budget, and some are killed while they do."""
    generator, counts = random.Random(f"{seed} writers"), Counter()
    for number in range(2, 21) if cases >= 200 else (2, 7, 20):
        book = folder / f"ledger-{number}"
        Ledger.open(book, total={"epsilon": "10"})

        def spend(book=book):
            ledger = Ledger.open(book)
            while True:
                try:
                    ledger.commit({"epsilon": "0.1"}, release=str(os.getpid()))
                except BudgetError:
                    return 3

        children = {}
        for child in range(number):
            errors = folder / f"errors-{child}"
            children[fork(spend, errors)] = errors
        time.sleep(generator.random() * 0.1)
        victims = generator.sample(list(children), number // 3)
        for child in victims:
            os.kill(child, signal.SIGKILL)
        for child, errors in children.items():
            end = wait(child, errors)
            assert end.code == 3 or child in victims, end.errors
            counts["killed" if end.code < 0 else "ran into the total"] += 1
        ledger = Ledger.open(book)
        entries = ledger.entries()
        assert ledger.left()["epsilon"] == 0
        assert [entry.number for entry in entries] == list(range(1, 101)), "a number is lost or given twice"
        assert all(int(ledger.stored(entry.number)) in children for entry in entries), "an entry has no release"
        counts["entries"] += len(entries)
    return counts


def pipes(folder, *, cases, seed):
    """A reader that is slow gets all; one that goes, or that an interrupt ends, leaves an entry and no noise."""
    labels = [f"category-number-{number}" for number in range(2500)]
    (folder / "rows.csv").write_text("label\n" + "".join(f"{label}\n" * 60 for label in labels))
    book = folder / "ledger"
    words = [sys.executable, "-m", "opendp_tree", "release", str(folder / "rows.csv"), "--by", "label", "-o", "-"]
    words += ["--epsilon", "5", "--delta", "1e-6", "--ledger", str(book), "--total-epsilon", "500"]
    words += ["--total-delta", "0.1"]

    def begin(unbuffered):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def slow(process):
        content = b""
        while piece := os.read(process.stdout.fileno(), 2048):
            content += piece
            time.sleep(0.001)
        assert len(content) > 2 * 65536
        assert content.endswith(b"\n")
        return 0, b""

    def gone(process):
        process.stdout.read(10)
        process.stdout.close()
        return 1, b""

    def stalled(process):
        process.stdout.read(10)
        time.sleep(0.3)  # the pipe is full by now
        process.send_signal(signal.SIGINT)
        return 130, b"opendp-tree: interrupted\n"

    trials = [(reader, unbuffered) for reader in (slow, gone, stalled) for unbuffered in ("", "1")]
    for count, (reader, unbuffered) in enumerate(trials, start=1):
        process = begin(unbuffered)
        code, errors = reader(process)
        assert process.wait(timeout=PATIENCE) == code, reader.__name__
        assert process.stderr.read() == errors, reader.__name__
        process.stdout.close()
        process.stderr.close()
        assert Ledger.open(book).left()["epsilon"] == Fraction(500) - 5 * count, "an entry is lost"
    return {"slow readers": 2, "readers that went": 2, "stalled readers, then an interrupt": 2}


SURROUNDINGS = {
    "full disk": full_disk,
    "read-only folder": read_only,
    "2 to 20 writers": writers,
    "pipes": pipes,
}
