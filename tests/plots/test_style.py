import html
import re
import sys

import pytest

from opendp_tree.plots.style import DASHES, LINES, as_text, graph_objects, number, percent, wrap
from tests.pictures import HOSTILE


@pytest.mark.parametrize("text", HOSTILE)
def test_labels_become_text(text):
    shown = as_text(text)
    assert "<" not in shown
    assert ">" not in shown
    assert html.unescape(shown) == re.sub("[\n\u202c\u202e]", " ", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_wrapped_lines_are_short_and_lose_nothing_but_spaces(text):
    lines = [html.unescape(line) for line in wrap(text).split("<br>")]
    assert all(len(line) <= 36 for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub("[\\s\u202c\u202e]", "", text)


def test_figures_without_a_value_are_a_dash():
    assert number(float("nan")) == number(float("inf")) == percent(float("inf")) == "–"
    assert percent(-0.5) == "-50 %"


def test_lines_differ_by_more_than_colour():
    assert len(set(zip(LINES, DASHES, strict=True))) == len(LINES) == len(set(LINES))


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=re.escape("Hint: pip install plotly") + "$"):
        graph_objects()
