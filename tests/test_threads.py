import os
import signal
import threading

import pytest

from opendp_tree import _threads
from opendp_tree._interrupts import Interrupted, deferred_interrupts
from opendp_tree._threads import side_by_side, usable_cores


def test_results_come_in_the_order_of_the_items():
    assert side_by_side(lambda item: item**2, range(50)) == [item**2 for item in range(50)]
    assert side_by_side(abs, []) == []


def test_several_threads_work_where_there_are_several_cores(monkeypatch):
    monkeypatch.setattr(_threads, "usable_cores", lambda: 2)
    both = threading.Barrier(2, timeout=60)
    assert sorted(side_by_side(lambda item: (both.wait(), item)[1], [1, 2])) == [1, 2]
    monkeypatch.setattr(_threads, "usable_cores", lambda: 1)
    assert set(side_by_side(lambda _: threading.current_thread(), [1, 2])) == {threading.current_thread()}


def test_what_is_raised_is_raised_here_and_the_rest_is_not_begun(monkeypatch):
    monkeypatch.setattr(_threads, "usable_cores", lambda: 2)
    begun = []

    def work(item):
        begun.append(item)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side(work, range(10_000))
    assert len(begun) < 10_000


def test_an_interrupt_ends_the_work_between_items(monkeypatch):
    monkeypatch.setattr(_threads, "usable_cores", lambda: 2)
    begun = []

    def stopped():
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Interrupted):
                side_by_side(begun.append, range(10_000))

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert len(begun) < 10_000


def test_there_is_a_core_to_use():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
