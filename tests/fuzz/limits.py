"""Time and memory that a call may take in `make fuzz`; they depend on the machine, so `make test` has no limits."""

import resource
import signal
import time
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz import Violation

SECONDS, MEGABYTES, HANGS = 1.0, 200, 60
enforced = False
"""Set by `make fuzz` alone."""
_STATUS, _PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@contextmanager
def limited(words, *, seconds=SECONDS):
    """Refuse what takes more processor time or memory than it may, and stop what hangs. Memory on Linux alone."""

    if not enforced:
        yield
        return

    def stop(*_):
        raise Violation(f"{words}: still at work after {HANGS} s")

    if _PEAK.exists():
        _PEAK.write_text("5")  # forget the peak so far
    before, total = _megabytes("VmRSS"), resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, stop)
    # What asks for all there is gets a MemoryError, and does not take others down with it.
    if before:
        resource.setrlimit(resource.RLIMIT_AS, ((_megabytes("VmSize") + 8 * 1024) * 2**20, total[1]))
    signal.setitimer(signal.ITIMER_REAL, HANGS)
    started = time.thread_time()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, total)
        taken, more = time.thread_time() - started, _megabytes("VmHWM") - before
        if taken > seconds:
            raise Violation(f"{words}: {taken:.1f} s")
        if more > MEGABYTES:
            raise Violation(f"{words}: {more} MB")


def _megabytes(name):
    if not _STATUS.exists():
        return 0
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) // 1024
