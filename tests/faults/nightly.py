"""The nightly job, killed or terminated and started again until all is released: `python -m tests.faults.nightly 20`.

A program of its own, because it forks: Polars must not run before in this process, as its threads do not come along.
"""

import csv
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from opendp.mod import enable_features

from opendp_tree import Ledger, Series
from opendp_tree.cli import main as command
from tests.faults.processes import INTERRUPTED, at_call, at_line, fork, run, wait

PERIODS = [f"W{number}" for number in range(1, 7)]
CALLS, LINES = 450, 30_000
"""The latest moments of harm: a period takes about 180 calls. Harm that comes too late for its run is not counted."""


def prepare(folder):
    lines = [f"{name},{city}" for name in PERIODS for city in ["a"] * 300 + ["b"] * 200]
    (folder / "rows.csv").write_text("\n".join(["week,city", *lines]) + "\n")
    config = {"file": "series.db", "source": "rows.csv", "by": "city", "period": {"column": "week"}}
    config |= {"periods": PERIODS, "epsilon": 1, "delta": 1e-6, "output": "out", "format": "csv"}
    (folder / "nightly.json").write_text(json.dumps(config))


def table(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def job(folder, generator, mode):
    """One run, which comes to harm at a random moment, if it takes that long."""
    number = {"terminate": signal.SIGTERM, "interrupt": signal.SIGINT}.get(mode, signal.SIGKILL)
    by_line = mode in ("line", "terminate", "interrupt")
    moment = 1 + int(generator.random() ** 2 * (LINES if by_line else CALLS))

    def act():
        os.kill(os.getpid(), number)

    def harmed():
        if by_line:
            at_line(moment, act)
        else:
            at_call(moment, act, torn=mode == "torn write")
        return command(["series", "run", str(folder / "nightly.json")])

    return harmed


def look(folder, seen):
    """That every release that anybody has seen is the stored one, every period has at most one, and costs are exact."""
    if not (folder / "series.db").exists() or not (folder / "series.db").stat().st_size:
        assert not seen
        return []
    if Ledger.open(folder / "series.db").settings() is None:  # killed while it began
        return []
    series = Series.open(folder / "series.db")
    entries = series.ledger.entries()
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names), "a period is there twice"
    assert series.ledger.left()["epsilon"] == (0 if names else 1), "a wrong cost"
    for entry in entries:
        text = series.ledger.stored(entry.number)
        assert seen.setdefault(entry.name, text) == text, "a release has changed"
        path = folder / "out" / f"{entry.name}.csv"
        if path.exists():
            shown = [float(row["estimate"]) for row in table(path) if row["other"] == "false"]
            assert sorted(shown) == sorted(json.loads(text)["estimates"]), "another release came out"
    assert seen.keys() == set(names), "a release is lost"
    for path in (folder / "out").glob("W*.csv"):
        assert path.stem in names, "a release came out without an entry"
    return names


def run_nightly(folder, *, cases, seed):
    """Harm the job so many times; in between all periods must come out, and then it starts from nothing."""
    generator, counts = random.Random(seed), Counter()
    modes = ("line", "system call", "torn write", "terminate", "interrupt", "two at once")
    harmed, place = 0, 0
    while harmed < cases:
        place += 1
        here = folder / str(place)
        here.mkdir()
        prepare(here)
        seen, runs = {}, 0
        while True:
            mode, runs = generator.choice(modes), runs + 1
            if mode == "two at once":
                errors = [here.parent / f"{here.name}.{each}" for each in "ab"]
                kinds = zip(("line", "system call"), errors, strict=True)
                pair = [fork(job(here, generator, kind), path) for kind, path in kinds]
                ends = [wait(child, path) for child, path in zip(pair, errors, strict=True)]
            else:
                ends = [run(job(here, generator, mode), here)]
            names = look(here, seen)
            for end in ends:
                # A signal has its usual way before the job has begun, and when it has ended.
                expected = {"terminate": (143, -signal.SIGTERM), "interrupt": (130, INTERRUPTED)}
                assert end.code in (0, *expected.get(mode, (-signal.SIGKILL,))), f"{mode} {end.code}: {end.errors}"
                harmed += end.code != 0
                names_of = {"terminate": "terminated", "interrupt": "interrupted"}
                counts["done" if end.code == 0 else names_of.get(mode, "killed")] += 1
            if any(end.code == 0 for end in ends) or runs > 200:
                break
        assert sorted(names) == PERIODS, "a period is missing"
        assert {row["period"] for row in table(here / "out" / "series.csv")} == set(PERIODS)
        counts["periods, each once"] += len(names)
    return dict(counts)


def main(cases):
    enable_features("contrib")
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(run_nightly(Path(name), cases=cases, seed=1)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
