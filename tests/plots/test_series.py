"""Lines over time are estimates, bands intervals; gaps stay gaps, and labels are text."""

import polars as pl
import pytest

from opendp_tree import Period, Series
from opendp_tree.plots import plot_series
from tests.pictures import HOSTILE


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


def test_labels_are_text_and_the_largest_come_first(series):
    figure = plot_series(series)
    assert not any("<script>" in (trace.name or "") for trace in figure.data)
    assert "for all periods together" in figure.layout.annotations[0].text


def test_what_no_period_shows_is_refused(series):
    with pytest.raises(ValueError, match="no period shows 'nowhere'"):
        plot_series(series, ["nowhere"])
    with pytest.raises(ValueError, match="must be 1 to 8"):
        plot_series(series, [])
    with pytest.raises(TypeError, match="Series"):
        plot_series(3)
