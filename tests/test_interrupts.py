"""Ctrl-C beside OpenDP. What would end the process runs in one of its own: `tests/faults/injection.py`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from opendp.domains import atom_domain
from opendp.measures import max_divergence
from opendp.metrics import absolute_distance
from opendp.mod import OpenDPException

from opendp_tree import _interrupts, release_tree
from opendp_tree._interrupts import deferred_interrupts, interruptible, stop_if_interrupted
from opendp_tree._opendp import make_function, make_measurement

ROOT = Path(__file__).parents[1]


def interrupt():
    signal.raise_signal(signal.SIGINT)


def measurement(function):
    return make_measurement(atom_domain(T=int), absolute_distance(T=int), max_divergence(), function, float)


@pytest.fixture
def handled():
    """A handler of the user's own, and the signals that it got."""
    got = []
    before = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    yield got
    signal.signal(signal.SIGINT, before)


def test_interrupts_in_opendps_conversion_are_raised_after_the_return_and_kill_nobody():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-m", "tests.faults.injection", "10"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    outcomes = json.loads(done.stdout)
    assert set(outcomes["release_tree"]) <= {"KeyboardInterrupt", "not reached"}
    for found in outcomes.values():
        assert "nothing" not in found
        assert found["KeyboardInterrupt"] >= 6


def test_an_interrupt_in_a_callback_is_raised_after_the_return_and_stops_what_follows():
    steps = []
    first = measurement(lambda _: (interrupt(), steps.append("first"))[1])
    chained = first >> make_function(lambda _: steps.append("second"))
    with pytest.raises(KeyboardInterrupt) as caught:
        chained(1)
    assert steps == ["first"]
    assert caught.value.__suppress_context__  # nothing of OpenDP's is shown with it
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_no_exception_is_raised_itself_after_the_return():
    def leave(_):
        raise SystemExit(5)

    with pytest.raises(SystemExit) as caught:
        measurement(leave)(1)
    assert caught.value.code == 5


def test_a_panic_is_an_error_of_opendps_that_tells_nothing():
    panic = type("PanicException", (BaseException,), {})

    def fail(_):
        raise panic("secret")

    with pytest.raises(OpenDPException, match="a panic inside Polars") as caught:
        measurement(fail)(1)
    assert "secret" not in str(caught.value)


def test_nested_deferrals_raise_at_the_end_of_the_outermost():
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - where it is raised is the question
        with deferred_interrupts():
            interrupt()
        reached = True
    assert reached


def test_a_handler_of_the_users_is_called_after_the_return_and_keeps_the_release(handled):
    seen = []
    work = measurement(lambda value: (interrupt(), interrupt(), seen.append(len(handled)), stop_if_interrupted(), 7)[4])
    own = signal.getsignal(signal.SIGINT)
    assert work(1) == 7
    assert seen == [0]
    assert handled == [signal.SIGINT] * 2
    assert signal.getsignal(signal.SIGINT) is own


def test_in_asyncio_the_task_is_cancelled_and_an_interrupt_is_raised():
    work = measurement(lambda value: (interrupt(), 7)[1])

    async def program():
        found.append(work(1))
        await asyncio.sleep(600)
        found.append("went on")

    found = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(program())
    assert found in ([7], [])  # before Python 3.11, asyncio has no handler of its own


def test_ignored_and_deadly_signals_stay_so():
    work = measurement(lambda value: signal.getsignal(signal.SIGINT) is kept and 1)
    for kept in (signal.SIG_IGN, signal.SIG_DFL):
        before = signal.signal(signal.SIGINT, kept)
        try:
            assert work(1) == 1
            assert signal.getsignal(signal.SIGINT) is kept
        finally:
            signal.signal(signal.SIGINT, before)


def test_threads_work_and_leave_signals_alone():
    with ThreadPoolExecutor() as threads:
        assert threads.submit(measurement(lambda value: value + 1), 1).result() == 2


HANDLERS = """
import ctypes, signal
import polars
from tests.test_interrupts import measurement
def handler():
    action = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).sigaction(signal.SIGINT, None, action)
    return action.raw[:8]
with_polars = handler()
measurement(lambda value: value)(1)
kept = handler() == with_polars
signal.signal(signal.SIGINT, signal.default_int_handler)
print(kept, handler() == with_polars)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such handlers")
def test_the_systems_handler_stays_which_lets_polars_stop_its_queries():
    done = subprocess.run([sys.executable, "-c", HANDLERS], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_what_waits_for_others_can_be_interrupted_inside_a_deferral():
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012
        try:
            with interruptible():
                interrupt()
                steps.append("not reached")
        finally:
            interrupt()  # is noted again
            steps.append("cleaned up")
    assert steps == ["cleaned up"]
    with interruptible():
        steps.append("outside it does nothing")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_is_let_through_while_opendp_is_at_work():
    steps = []

    def wait_for_others(_):
        with interruptible():
            interrupt()
            steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        measurement(wait_for_others)(1)
    assert steps == ["went on"]


def test_an_interrupted_release_stops_before_it_draws_noise(monkeypatch):
    from opendp_tree import noise

    drawn = []
    monkeypatch.setattr(
        noise, "secure_bytes", lambda count, draw=noise.secure_bytes: drawn.append(count) or draw(count)
    )
    frame = pl.DataFrame({"a": ["x"] * 100})

    def count_and_interrupt(*args, collect=pl.LazyFrame.collect, **options):
        interrupt()
        return collect(*args, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", count_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        release_tree(frame, by="a", epsilon=1.0, delta=1e-6)
    assert drawn == []


def test_calls_of_opendp_inside_a_deferral_hold_nothing_back_again(monkeypatch):
    with deferred_interrupts():
        monkeypatch.setattr(_interrupts._Thread, "hold", lambda thread: pytest.fail("held twice"))
        assert measurement(lambda value: value + 1)(1) == 2
        monkeypatch.undo()
