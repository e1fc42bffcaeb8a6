from dataclasses import replace

import pytest

from opendp_tree.plots import plot_bounds
from opendp_tree.plots.style import FOOTER
from tests.releases.test_bound_report import REPORT


def test_the_line_is_the_estimate_and_the_band_its_intervals():
    line, band, mark = plot_bounds(REPORT).data
    assert list(line.x) == REPORT.bounds.tolist()
    assert list(line.y) == pytest.approx(100 * REPORT.shares)
    assert list(band.x) == [1, 2, 3, 4, 4, 3, 2, 1]
    assert list(band.y) == pytest.approx([80, 94, 99, 100, 100, 95, 90, 60])
    assert band.fill == "toself"
    assert list(mark.x) == [3, 3]


def test_a_useless_report_is_drawn_without_a_recommendation_and_says_why():
    figure = plot_bounds(replace(REPORT, rows=1.0))
    assert [trace.name for trace in figure.data] == ["estimate", "95 % interval"]
    assert figure.layout.title.subtitle.text.startswith("Not useful")


def test_the_footer_says_what_it_cost_and_the_title_is_text():
    figure = plot_bounds(REPORT, title="<b>rows</b>")
    assert figure.layout.title.text == "&lt;b&gt;rows&lt;/b&gt;"
    (footer,) = [note.text for note in figure.layout.annotations if note.name == FOOTER]
    assert "Privacy: epsilon 0.05" in footer


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"report \(str\) must be a BoundReport"):
        plot_bounds("report")
    with pytest.raises(TypeError, match="title"):
        plot_bounds(REPORT, title=3)
