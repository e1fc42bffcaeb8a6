"""Lines are estimates, bands and bars intervals; labels are text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, release_tree
from opendp_tree.plots import plot_bounds, plot_cdf, plot_quantiles
from opendp_tree.plots.style import FOOTER
from tests.pictures import HOSTILE
from tests.releases.test_bound_report import REPORT

RNG = np.random.default_rng(4)
AGES = pl.DataFrame({"age": RNG.uniform(0, 100, 4000), "name": RNG.choice([*HOSTILE, "a", "b"], 4000)})
NUMBER = Key.number("age", low=0, high=100, bins=50)


@pytest.fixture
def line():
    return release_tree(AGES, by=NUMBER, epsilon=1.0)


@pytest.fixture
def groups():
    return release_tree(AGES, by=Key.nested(Key.columns("name"), NUMBER), epsilon=3.0, delta=1e-6)


def test_the_line_is_the_estimate_and_the_band_its_intervals(line):
    drawn, band = plot_cdf(line).data
    frame = line.cdf()
    assert list(drawn.x) == frame["value"].to_list()
    assert list(drawn.y) == pytest.approx(100 * frame["estimate"].to_numpy())
    assert list(band.y) == pytest.approx(100 * np.append(frame["upper"], frame["lower"].reverse()))
    assert band.fill == "toself"


def test_groups_are_lines_of_their_own_and_their_labels_are_text(groups):
    figure = plot_cdf(groups)
    assert len(figure.data) == 8
    assert "The first 8 of 10 groups" in figure.layout.title.subtitle.text
    assert not any("<script>" in trace.name for trace in figure.data)


def test_dots_are_estimates_and_bars_their_intervals(line, groups):
    bars, dots = plot_quantiles(line, [0.25, 0.5]).data
    frame = line.quantiles([0.25, 0.5])
    assert list(dots.x) == frame["estimate"].to_list()
    assert list(bars.x)[:2] == [frame["lower"][0], frame["upper"][0]]
    figure = plot_quantiles(groups)
    assert figure.layout.title.text == "Medians by name"
    assert len(figure.data[1].x) == 10
    assert "<script>" not in "".join(figure.layout.yaxis.ticktext) + "".join(figure.data[1].hovertext)
    assert plot_quantiles(groups, [0.1, 0.9], top=3).layout.title.subtitle.text.startswith("The first 3 of 20 rows")


def test_dates_are_drawn_as_dates():
    days = pl.DataFrame({"day": [date(2024, 1, 5), date(2024, 1, 20)] * 500})
    release = release_tree(
        days, by=Key.number("day", low=date(2024, 1, 1), high=date(2024, 2, 1), bins=31), epsilon=1.0
    )
    assert isinstance(plot_cdf(release).data[0].x[0], date)
    assert isinstance(plot_quantiles(release).data[1].x[0], date)


def test_nothing_shown_is_an_empty_picture():
    nobody = release_tree(AGES.clear(), by=Key.nested(Key.columns("name"), NUMBER), epsilon=1.0, delta=1e-6)
    assert len(plot_cdf(nobody).data) == 0
    assert len(plot_quantiles(nobody).data[1].x) == 0


def test_the_footer_says_what_it_cost_and_titles_are_text(line):
    for figure in (plot_cdf(line, title="<b>"), plot_quantiles(line, title="<b>")):
        assert figure.layout.title.text == "&lt;b&gt;"
        (footer,) = [note.text for note in figure.layout.annotations if note.name == FOOTER]
        assert "Privacy: epsilon" in footer


def test_anything_else_is_refused():
    for plot in (plot_cdf, plot_quantiles):
        with pytest.raises(TypeError, match="release"):
            plot("release")
    other = release_tree(AGES, by=["name"], epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="cdf requires a release over the bins of a line"):
        plot_cdf(other)


def test_bounds_the_line_is_the_estimate_and_the_band_its_intervals():
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


def test_bounds_the_footer_says_what_it_cost_and_the_title_is_text():
    figure = plot_bounds(REPORT, title="<b>rows</b>")
    assert figure.layout.title.text == "&lt;b&gt;rows&lt;/b&gt;"
    (footer,) = [note.text for note in figure.layout.annotations if note.name == FOOTER]
    assert "Privacy: epsilon 0.05" in footer


def test_bounds_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"report \(str\) must be a BoundReport"):
        plot_bounds("report")
    with pytest.raises(TypeError, match="title"):
        plot_bounds(REPORT, title=3)
