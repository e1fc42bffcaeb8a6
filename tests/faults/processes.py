"""Processes that are forked ready to run, and come to harm at a chosen moment."""

import os
import signal
import sqlite3
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import opendp

import opendp_tree

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (opendp, opendp_tree))
PATIENCE = 600
"""Seconds after which a process counts as hanging, on a slow disk, too."""
INTERRUPTED = 131
"""The exit code of a job that an interrupt ended; the command line says 130 itself."""
CALLS = ("open", "write", "fsync", "replace", "close", "lseek", "ftruncate", "unlink", "fchmod")


@dataclass(frozen=True)
class End:
    """How a process ended: its exit code, or minus the signal that killed it."""

    code: int
    errors: str
    seconds: float


_ALIVE = []
"""Trace functions. Python only borrows the one that it calls, and ends it if an interrupt is raised inside it."""


def at_line(number, act, places=PACKAGES):
    """Call `act` at the number-th line that is run of OpenDP or of this package; gives how many there were."""
    seen = [0]

    def line(frame, event, _):
        if event == "line":
            seen[0] += 1
            if seen[0] == number:
                act()
        return line

    def call(frame, *_):
        return line if frame.f_code.co_filename.startswith(places) else None

    _ALIVE.append(call)
    sys.settrace(call)
    return seen


def at_call(number, act, *, torn=False):
    """Call `act` before the number-th SQL statement or system call that changes files, or, if `torn`, in a write."""
    left = [number]

    def counted(name, call):
        def count(*args, **keywords):
            left[0] -= 1
            if left[0] == 0:
                if torn and name == "write":
                    call(args[0], bytes(args[1])[: len(args[1]) // 2])
                act()
            return call(*args, **keywords)

        return count

    class Connection(sqlite3.Connection):
        def execute(self, *args):
            return counted("execute", super().execute)(*args)

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)
    return left


def fork(job, errors, *, output=None):
    """Start `job`, which gives an exit code, in a process of its own; its number."""
    Path(errors).write_text("")
    # An interrupt between the fork and the child's `try` would unwind the parent's stack in the child, folders and all.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return child
    code = 70
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.dup2(os.open(errors, os.O_WRONLY), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY) if output is None else output, 1)
            code = job()
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BaseException:
            traceback.print_exc()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the job has ended
            sys.settrace(None)
            with suppress(OSError):
                sys.stderr.flush()
    except KeyboardInterrupt:  # in the lines between
        pass
    finally:
        os._exit(code)


def wait(child, errors, *, signals=()):
    """The end of a process, which is sent signals after so many seconds each."""
    start = time.monotonic()
    waiting = sorted(signals)
    while True:
        now = time.monotonic() - start
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return End(os.waitstatus_to_exitcode(status), Path(errors).read_text(errors="replace"), now)
        while waiting and now >= waiting[0][0]:
            os.kill(child, waiting.pop(0)[1])
        if now > PATIENCE:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("a process hangs")
        time.sleep(min(0.002, max(0.0, waiting[0][0] - now)) if waiting else 0.002)


def run(job, folder, *, signals=(), output=None):
    """Start a job and wait for its end."""
    errors = folder.parent / f"{folder.name}.errors"
    return wait(fork(job, errors, output=output), errors, signals=signals)
