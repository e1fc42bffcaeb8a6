import html
import re
import sys

import pytest

from opendp_tree.plots.style import DASHES, INK, LINES, as_text, graph_objects, number, percent, wrap
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


def contrast(one, other):
    """Of two colours, as WCAG counts it."""
    lights = []
    for colour in (one, other):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("paper", ["#ffffff", "#111111", "#1f1f1f"])
def test_texts_and_lines_stand_out_on_light_and_dark_paper(paper):
    assert contrast(INK, paper) >= (4.5 if paper == "#ffffff" else 3.5)
    assert min(contrast(line, paper) for line in LINES) >= 3
