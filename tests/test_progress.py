import io
import sys
import time
from types import SimpleNamespace

import pytest

from opendp_tree import _progress
from opendp_tree._progress import StatusLine, progress, shows_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch):
    """Called in the test itself: pytest gives each phase a standard error of its own."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "_TICK", 0.02)
    return stream


def test_what_is_short_says_nothing(monkeypatch):
    terminal = watched(monkeypatch)
    with progress("counting", after=30):
        pass
    assert terminal.getvalue() == ""


def test_what_is_long_is_told_with_its_time_and_leaves_no_trace(monkeypatch):
    terminal = watched(monkeypatch)
    with progress("counting", after=0.01):
        time.sleep(0.3)
    said = terminal.getvalue().split("\r\033[K")
    assert said[1].startswith("counting ... 0 s")
    assert len(said) > 3
    assert said[-1] == ""
    assert "\n" not in terminal.getvalue()


def test_it_ends_with_an_error_and_begins_anew(monkeypatch):
    terminal = watched(monkeypatch)

    def fail():
        with progress("counting", after=0.01):
            time.sleep(0.1)
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
        assert terminal.getvalue().endswith("\r\033[K")


def test_the_outermost_tells(monkeypatch):
    terminal = watched(monkeypatch)

    @shows_progress("inner")
    def inner():
        """Documented."""
        time.sleep(0.1)

    assert (inner.__name__, inner.__doc__) == ("inner", "Documented.")
    with progress("outer", after=0.01):
        inner()
    assert "inner" not in terminal.getvalue()
    assert "outer" in terminal.getvalue()


def test_nothing_is_told_where_nobody_watches(monkeypatch):
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("counting", after=0.0):
            time.sleep(0.05)
        assert stream is None or stream.getvalue() == ""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert not StatusLine().shown


def test_a_notebook_watches_without_codes_of_terminals(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not StatusLine().shown  # IPython in a pipe
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    with progress("counting", after=0.01):
        time.sleep(0.1)
    assert "counting ... 0 s" in stream.getvalue()
    assert "\033" not in stream.getvalue()
    assert not StatusLine(quiet=True).shown
