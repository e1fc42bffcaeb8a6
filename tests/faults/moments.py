"""Releases that are killed or interrupted at a moment: at a line, at a system call, in a write, or at any time."""

import json
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import polars as pl
from opendp.mod import enable_features
from opendp.prelude import loss_of, unit_of

from opendp_tree import Key, Ledger, frame_context, make_leaf_counts, release_tree
from opendp_tree._files import PendingFile
from opendp_tree._interrupts import deferred_interrupts
from opendp_tree.cli import main
from opendp_tree.planning import make_tree_counts
from opendp_tree.rows.domains import frame_domain
from tests.faults.processes import INTERRUPTED, at_call, at_line, run

COST, TOTAL = {"epsilon": "0.1", "delta": "1e-9"}, {"epsilon": "1000", "delta": "0.9"}
SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}


def rows():
    return pl.DataFrame({"region": ["north"] * 300 + ["south"] * 200, "city": ["a", "b"] * 250})


def by_command(folder):
    """A release by the command line."""
    words = ["release", str(folder / "rows.csv"), "--by", "region,city", "--epsilon", "0.1", "--delta", "1e-9"]
    words += ["-o", str(folder / "out"), "--output-format", "json", "--quiet"]
    words += ["--ledger", str(folder / "ledger"), "--total-epsilon", "1000", "--total-delta", "0.9"]
    return main(words)


def by_library(folder, release):
    """A release by a program that keeps a ledger."""
    enable_features("contrib")
    found = release().to_json()
    Ledger.open(folder / "ledger", total=TOTAL).commit(COST, release=found)
    with deferred_interrupts(), PendingFile(folder / "out") as output:
        output.commit(found.encode())
    return 0


def with_ledger(folder, release):
    """A release that keeps its ledger itself, and is then written."""
    enable_features("contrib")
    found = release(ledger=Ledger.open(folder / "ledger", total=TOTAL))
    with deferred_interrupts(), PendingFile(folder / "out") as output:
        output.commit(found.to_json().encode())
    return 0


def in_one_call(ledger=None):
    return release_tree(rows(), by=["region", "city"], epsilon=0.1, delta=1e-9, ledger=ledger)


def in_a_context(ledger=None):
    context = frame_context(
        rows(),
        privacy_unit=unit_of(contributions=1),
        privacy_loss=loss_of(epsilon=0.1, delta=1e-9),
        split_evenly_over=1,
        ledger=ledger,
    )
    return context.query().filter(pl.col("city") != "c").tree_counts(by=["region", "city"]).release()


def by_parts():
    from opendp.metrics import symmetric_distance

    frame = rows()
    counts = make_leaf_counts(frame_domain(frame), symmetric_distance(), by=Key.columns("region", "city"))
    space = counts.output_domain, counts.output_metric
    measurement = counts >> make_tree_counts(*space, d_in=1, epsilon=0.1, delta=1e-9)
    assert measurement.map(1)[0] <= 0.1
    return measurement(frame)


WAYS = {
    "command": by_command,
    "release_tree": lambda folder: by_library(folder, in_one_call),
    "frame_context": lambda folder: by_library(folder, in_a_context),
    "release_tree with a ledger": lambda folder: with_ledger(folder, in_one_call),
    "frame_context with a ledger": lambda folder: with_ledger(folder, in_a_context),
    "parts": lambda folder: by_library(folder, by_parts),
}


@dataclass
class Record:
    """A folder with an output and a ledger, and what was seen there so far."""

    folder: Path
    entries: list = field(default_factory=list)
    output: int | None = None
    counts: Counter = field(default_factory=Counter)

    def look(self, *, parts_may_stay):
        """Check that all is whole, that nothing is forgotten, and that each entry has its release, and none is free."""
        out, book = self.folder / "out", self.folder / "ledger"
        output = out.stat().st_mtime_ns if out.exists() else None  # two releases may hold the same
        if output is not None:
            assert json.loads(out.read_bytes())["format"] == "opendp-tree release", "the output is torn"
        entries = Ledger.open(book).entries() if book.exists() and book.stat().st_size else []
        if entries:
            left = Ledger.open(book).left()["epsilon"]
            assert left == Fraction(TOTAL["epsilon"]) - sum(entry.cost["epsilon"] for entry in entries), "a wrong sum"
            assert all(0.0999 < entry.cost["epsilon"] <= Fraction(COST["epsilon"]) for entry in entries), "a wrong cost"
        assert entries[: len(self.entries)] == self.entries, "an entry is lost"
        new = entries[len(self.entries) :]
        assert len(new) <= 1, "one release is counted twice"
        for entry in new:
            stored = json.loads(Ledger.open(book).stored(entry.number))
            assert stored["format"] == "opendp-tree release", "an entry has no release"
        if output != self.output:
            assert new, "a release came out without an entry"
            assert json.loads(out.read_bytes()) == stored, "another release came out than is stored"
            self.counts["came out"] += 1
        self.counts["entries, each with its release"] += len(new)
        for part in self.folder.glob(".*.part"):
            assert parts_may_stay, "a part is left behind"
            part.unlink()
            self.counts["hidden parts left by kills"] += 1
        self.entries, self.output = entries, output


def measure(folder, way):
    """How many lines and system calls a release takes, and how long."""
    seen = folder.parent / "seen"

    def counting():
        lines, left = at_line(0, None), at_call(0, None)
        code = WAYS[way](folder)
        seen.write_text(json.dumps([lines[0], -left[0]]))
        return code

    plain = run(lambda: WAYS[way](folder), folder)  # which begins the ledger
    end = run(counting, folder)
    assert plain.code == end.code == 0, plain.errors + end.errors
    return *json.loads(seen.read_text()), plain.seconds


def harmed(folder, way, harm, mode, moment, size):
    """Run a release that is harmed at this share of its lines, of its system calls or of its time."""
    lines, calls, seconds = size
    number = SIGNALS[harm]

    def act():
        signal.raise_signal(number)

    def job():
        if mode == "line":
            at_line(1 + int(moment * lines), act)
        elif mode != "time":
            at_call(1 + int(moment * calls), act, torn=mode == "torn write")
        return WAYS[way](folder)

    return run(job, folder, signals=[(moment * seconds, number)] if mode == "time" else ())


def check_end(end, harm, way, mode):
    """A killed process may say nothing; an interrupted one says so, and nobody else kills it."""
    if harm == "kill":
        assert end.code in (-signal.SIGKILL, 0), f"{end.code}: {end.errors}"
        return "killed" if end.code else "done before"
    if way != "command" or (mode == "time" and end.code == INTERRUPTED):  # before the command began
        assert end.code in (INTERRUPTED, 0), f"{end.code}: {end.errors}"
    else:
        assert (end.code, end.errors) in ((130, "opendp-tree: interrupted\n"), (0, "")), f"{end.code}: {end.errors}"
    if end.code == 0 and way.startswith(("parts", "frame_context")) and "Exception ignored in" in end.errors:
        return "told and ignored by Python, in a finaliser of OpenDP's"
    return "interrupted" if end.code else "done before"


def run_moments(folder, *, harm, cases, seed):
    """Harm so many releases, each way in turn; what became of them."""
    generator = random.Random(f"{seed} {harm}")
    modes = ["line", "time", "system call", *(["torn write"] if harm == "kill" else [])]
    totals = Counter()
    for place, way in enumerate(WAYS):
        here = folder / f"{harm}-{way}"
        here.mkdir()
        (here / "rows.csv").write_text("region,city\n" + "north,a\n" * 300 + "south,b\n" * 200)
        size = measure(here, way)
        record = Record(here)
        # Two were made by `measure`.
        record.entries = Ledger.open(here / "ledger").entries()
        record.output = (here / "out").stat().st_mtime_ns
        for case in range(place, cases, len(WAYS)):
            mode = modes[case // len(WAYS) % len(modes)]
            moment = generator.random()
            try:
                end = harmed(here, way, harm, mode, moment, size)
                outcome = check_end(end, harm, way, mode)
                if harm == "interrupt" and mode in ("line", "system call") and moment < 0.9:
                    assert outcome != "done before", f"an interrupt was lost {end.errors}"
                record.look(parts_may_stay=harm == "kill")
            except AssertionError as error:
                raise AssertionError(f"{harm} of {way} at {mode} {moment} of {size}: {error}") from None
            totals[outcome] += 1
        totals.update(record.counts)
    return dict(totals)
