"""Tables show texts as they are; long work says what it does, where somebody watches."""

from __future__ import annotations

import io
import math
import sys
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from opendp_tree import _show
from opendp_tree._show import Bar, clear_code, html_table, number_text, one_line, progress, table


def test_numbers_line_up_to_the_right_and_texts_to_the_left():
    lines = table(
        ["node", "estimate", "note"], [["a", 1234.5, "x"], ["bb", 0.123456, ""], ["c", None, "z"]]
    ).splitlines()
    assert lines == ["node  estimate  note", "a        1,234  x", "bb       0.123", "c            -  z"]


def test_whatever_a_label_contains_stays_text_on_its_line():
    hostile = "<script>alert(1)</script> & \x1b[2J\r\n\u202e \"'$x$"
    shown = table([hostile], [[hostile], [hostile]])
    assert len(shown.splitlines()) == 3
    assert not set(shown) & set("\x1b\r\u202e")
    page = html_table([hostile], [[hostile]], title=hostile, above=[hostile], below=[hostile])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp;") == 5
    assert page.count('"') == page.replace("&quot;", "").count('"')  # quotes of labels are escaped
    assert "$x$" not in page
    ElementTree.fromstring(page)  # well-formed


def test_bars_share_a_scale_that_holds_all_ends():
    bars = [
        Bar(100.0, 90.0, 110.0),
        Bar(-10.0, -20.0, 0.0),
        Bar(None),
        Bar(math.inf, math.nan, 3.0),
        Bar(5.0, -math.inf, 5),
    ]
    page = ElementTree.fromstring(html_table(["a"], [[bar] for bar in bars]))
    drawings = list(page.iter("svg"))
    width = float(drawings[0].get("width"))
    starts = [[float(rect.get("x")) for rect in each.iter("rect")] for each in drawings]
    ends = [[float(rect.get("x")) + float(rect.get("width")) for rect in each.iter("rect")] for each in drawings]
    assert [len(each) for each in starts] == [1, 1, 0, 0, 1]
    assert all(0 <= place <= width for each in (*starts, *ends) for place in each)
    zero = starts[0][0]
    assert ends[1][0] == pytest.approx(zero, abs=0.2)
    assert (ends[0][0] - zero) / (zero - starts[1][0]) == pytest.approx(10, rel=0.05)
    assert html_table(["a"], []).count("<table") == 0


def test_long_labels_lose_their_middle():
    assert one_line("x" * 100, 20) == "x" * 7 + "…" + "x" * 12
    assert one_line("short", 20) == "short"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch):
    """Called in the test itself: pytest gives each phase a standard error of its own."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_show, "_TICK", 0.02)
    return stream


def wait_for(terminal, lines):
    """However long it takes on a busy machine."""
    while terminal.getvalue().count("\r") < lines:
        time.sleep(0.01)


def test_long_work_is_reported_with_its_time_and_leaves_no_trace(monkeypatch):
    terminal = watched(monkeypatch)
    with progress("counting", after=30):
        pass
    assert terminal.getvalue() == ""
    for lines in (3, 6):  # it ends with an error, too, and begins again
        with pytest.raises(KeyError), progress("counting", after=0.01):  # noqa: PT012
            wait_for(terminal, lines)
            raise KeyError
        said = terminal.getvalue().split("\r\033[K")
        assert said[1].startswith("counting ... 0 s")
        assert len(said) > lines
        assert said[-1] == ""
    assert "\n" not in terminal.getvalue()


def test_the_outermost_tells(monkeypatch):
    terminal = watched(monkeypatch)

    @progress("inner")
    def inner():
        """Documented."""
        wait_for(terminal, 1)

    assert (inner.__name__, inner.__doc__) == ("inner", "Documented.")
    with progress("outer", after=0.01):
        inner()
    assert "inner" not in terminal.getvalue()
    assert "outer" in terminal.getvalue()


def test_nothing_is_reported_without_a_terminal(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        assert clear_code() is None


def test_a_notebook_gets_no_codes_of_terminals(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert clear_code() is None  # IPython in a pipe
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    with progress("counting", after=0.01):
        wait_for(stream, 1)
    assert "counting ... 0 s" in stream.getvalue()
    assert "\033" not in stream.getvalue()


def test_numbers_have_three_digits_or_all_of_a_thousand_and_more():
    texts = [number_text(value) for value in (0.0, 0.12345, 30.34, 999.4, 999.6, 1684.3, 1e6, -2500.0, 1e300)]
    assert texts == ["0", "0.123", "30.3", "999", "1,000", "1,684", "1,000,000", "-2,500", "1e+300"]
    assert number_text(float("inf")) == "inf"
