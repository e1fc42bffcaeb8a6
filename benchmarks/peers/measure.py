"""Runs a peer's script in its own environment and measures what it took and what it gave."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.peers.environments import activated, last_line, python, trouble
from benchmarks.peers.peers import SCRIPTS, Peer

TIMEOUT = 900
RELEASES = 30
ENOUGH = 25
"""Seconds after which no further release is begun."""
OTHER, OUTSIDE = "(other)", "(outside)"
Level = dict[tuple[str, ...], float]


@dataclass(frozen=True)
class Run:
    """One process of a script: seconds for its start and its first release, peak memory in bytes, counts by level."""

    start: float
    seconds: float
    memory: int
    releases: list[list[Level]]


def why_not(peer: Peer) -> str | None:
    """Why a peer cannot be run, or None."""
    if peer.program is not None and shutil.which(peer.program) is None:
        return f"needs {peer.program}"
    return trouble(peer.environment)


def run(peer: Peer, folder: Path, releases: int = RELEASES) -> Run | str:
    """A run, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as scratch:  # some engines leave files where they run
        result = Path(scratch) / "result.json"
        job = [SCRIPTS / "job.py", folder, result, peer.path, releases, ENOUGH]
        command = [str(part) for part in (python(peer.environment), *job)]
        with open(Path(scratch) / "errors", "w+") as errors:
            memory, code = _watch(command, scratch, activated(peer.environment), errors)
            errors.seek(0)
            if code != 0 or not result.exists():
                return "took too long" if code is None else f"failed: {last_line(errors.read())}"
        found = json.loads(result.read_text())
    made = [[{tuple(row[:-1]): row[-1] for row in table} for table in release] for release in found["releases"]]
    return Run(found["start"], found["seconds"], memory, made)


def _watch(command: Sequence[str], folder: str, environment: dict[str, str], errors: object) -> tuple[int, int | None]:
    """The peak memory of a command with all its children, and its exit code, or None if it took too long."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
    )
    peak, deadline, ended = 0, time.monotonic() + TIMEOUT, False
    while not ended and time.monotonic() < deadline:
        peak = max(peak, _session_memory(process.pid))
        time.sleep(0.05)
        # Not reaped yet, so that its number is still its own when the rest of its session is ended below.
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the session that was started above: engines may outlive their script
    code = process.wait()
    return peak, code if ended else None


def _session_memory(session: int) -> int:
    """Resident memory of all processes of a session, as Linux tells it."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


def rmse(releases: Sequence[Level], truth: Level) -> tuple[float, float]:
    """Over all places that have rows, 0 for those not released: the mean over releases, and its standard error."""
    each = [
        math.sqrt(statistics.fmean((released.get(place, 0.0) - count) ** 2 for place, count in truth.items()))
        for released in releases
    ]
    error = statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return statistics.fmean(each), error


def kept(releases: Sequence[Level], truth: Level) -> float:
    """How many of the places that have rows are released, on average."""
    return statistics.fmean(len(released.keys() & truth.keys()) for released in releases)


def astray(levels: Sequence[Level], *, public: bool) -> float:
    """The share of counts that differ from the sum of those below them.

    Where keys are unknown some may be left out: only sums that exceed the count above them are counted, and children
    without a parent. A release with rows "(other)" says what is left out, and must add up with them. Rows
    "(outside)" of all places are leaves of an upper level: nothing is below them.
    """
    exact = public or any(place[-1] == OTHER for level in levels for place in level)
    wrong = total = 0
    for above, below in pairwise(levels):
        sums: Level = {}
        for place, count in below.items():
            sums[place[:-1]] = sums.get(place[:-1], 0.0) + count
        parents = above.keys() | sums.keys()
        slack = 1e-6 * max(map(abs, above.values()), default=0.0)
        for place in parents:
            if place in sums or (public and place[-1] != OUTSIDE):
                gap = above.get(place, -math.inf) - sums.get(place, 0.0)
                wrong += gap < -slack or (exact and gap > slack)
        total += len(parents)
    return wrong / total if total else 0.0
