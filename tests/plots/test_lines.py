"""Lines are estimates, bands and bars intervals; gaps stay gaps, and labels are text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, Period, Series, release_tree
from opendp_tree.plots import plot_bounds, plot_cdf, plot_quantiles, plot_series
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
    lines, bands = figure.data[::2], figure.data[1::2]
    assert len(lines) == len(bands) == 8
    assert "The first 8 of 10 groups" in figure.layout.title.subtitle.text
    assert not any("<script>" in trace.name for trace in lines)


def test_dots_are_estimates_and_bars_their_intervals(line, groups):
    dots, bars = plot_quantiles(line, [0.25, 0.5]).data
    frame = line.quantiles([0.25, 0.5])
    assert list(dots.x) == frame["estimate"].to_list()
    assert list(bars.x)[:2] == [frame["lower"][0], frame["upper"][0]]
    figure = plot_quantiles(groups)
    assert figure.layout.title.text == "Medians by name"
    assert len(figure.data[0].x) == 10
    assert "<script>" not in "".join(figure.layout.yaxis.ticktext) + "".join(figure.data[0].hovertext)
    assert plot_quantiles(groups, [0.1, 0.9], top=3).layout.title.subtitle.text.startswith("The first 3 of 20 rows")


def test_dates_are_drawn_as_dates():
    days = pl.DataFrame({"day": [date(2024, 1, 5), date(2024, 1, 20)] * 500})
    release = release_tree(
        days, by=Key.number("day", low=date(2024, 1, 1), high=date(2024, 2, 1), bins=31), epsilon=1.0
    )
    assert isinstance(plot_cdf(release).data[0].x[0], date)
    assert isinstance(plot_quantiles(release).data[0].x[0], date)


def test_nothing_shown_is_an_empty_picture():
    nobody = release_tree(AGES.clear(), by=Key.nested(Key.columns("name"), NUMBER), epsilon=1.0, delta=1e-6)
    assert len(plot_cdf(nobody).data) == 0
    assert len(plot_quantiles(nobody).data[0].x) == 0


def test_the_footer_says_what_it_cost_and_titles_are_text(line):
    for figure in (plot_cdf(line, title="<b>"), plot_quantiles(line, title="<b>"), plot_bounds(REPORT, title="<b>")):
        assert figure.layout.title.text == "&lt;b&gt;"
        (footer,) = [note.text for note in figure.layout.annotations if note.name == FOOTER]
        assert "Privacy: epsilon" in footer


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


@pytest.fixture
def series(tmp_path):
    rows = pl.DataFrame({"week": [1, 2, 4] * 600, "city": ["a", "b", *HOSTILE[:1]] * 600}).sort("week")
    extra = pl.DataFrame({"week": [1, 4] * 400, "city": ["away"] * 800})
    series = Series.open(tmp_path / "s.db", by="city", period=Period("week"), epsilon=2.0, delta=1e-6)
    for week in (1, 2, 4):
        series.release(pl.concat([rows.with_columns(city=pl.col("city")), extra]), week)
    return series


def test_lines_are_estimates_and_bands_their_intervals(series):
    line, band = plot_series(series, [""]).data
    root = series.to_frame().filter(pl.col("path") == "")
    assert list(line.x) == ["1", "2", "4"]
    assert list(line.y) == root["estimate"].to_list()
    assert list(band.y) == [*root["upper"], *root["lower"].reverse()]
    assert line.name == "(all)"


def test_a_period_that_does_not_show_a_node_is_a_gap(series):
    frame = series.to_frame()
    shown = set(frame.filter(pl.col("path") == "away")["period"])
    line, *bands = plot_series(series, ["away"]).data
    assert [y is not None for y in line.y] == [period in shown for period in series.periods]
    assert sum(len(band.x) for band in bands) == 2 * len(shown)
    assert not any("<script>" in (trace.name or "") for trace in plot_series(series).data)
    assert "for all periods together" in plot_series(series).layout.annotations[0].text


def test_anything_else_is_refused(series):
    other = release_tree(AGES, by=["name"], epsilon=1.0, delta=1e-6)
    for draw, message in (
        (lambda: plot_cdf("release"), "release"),
        (lambda: plot_quantiles("release"), "release"),
        (lambda: plot_cdf(other), "cdf requires a release over the bins of a line"),
        (lambda: plot_bounds("report"), r"report \(str\) must be a BoundReport"),
        (lambda: plot_bounds(REPORT, title=3), "title"),
        (lambda: plot_series(3), "Series"),
        (lambda: plot_series(series, ["nowhere"]), "no period shows 'nowhere'"),
        (lambda: plot_series(series, []), "must be 1 to 8"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            draw()
