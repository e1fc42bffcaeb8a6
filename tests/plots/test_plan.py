import numpy as np
import polars as pl
import pytest

from opendp_tree import plot_depths, plot_plan
from opendp_tree.plots.style import FOOTER
from tests.pictures import candidate, depths, plan


def test_each_possible_mechanism_has_a_line_and_the_best_stands_out():
    figure = plot_plan(plan())
    best, *others = figure.data
    assert best.name == "gaussian, least squares (best)"
    assert [line.name for line in others] == [
        each.name for each in plan().candidates if each.feasible and each.name != "gaussian, least squares"
    ]
    assert best.line.width > max(line.line.width for line in others)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert set(best.y) == {11.0}


def test_impossible_mechanisms_are_named_with_their_reason_as_text():
    (footer,) = [note.text for note in plot_plan(plan()).layout.annotations if note.name == FOOTER]
    assert footer == (
        "Not possible: paper (its threshold is above any count; &lt;b&gt;more&lt;/b&gt; budget would do)."
    )


def test_a_plan_without_a_best_says_so():
    nothing = plan(best=None)
    nothing.candidates = (candidate("laplace", False, "no budget"),)
    figure = plot_plan(nothing)
    assert figure.data == ()
    assert figure.layout.title.subtitle.text == "No mechanism is possible."


def test_values_that_a_log_axis_lacks_break_the_line():
    frame = pl.DataFrame({"depth": [0, 1, 2, 4], "mechanism": ["a"] * 4, "error": [1.0, 0.0, float("inf"), 5.0]})
    (line,) = plot_depths(frame).data
    assert list(line.x) == [1, 2, 4]
    assert np.isnan(line.y[:2]).all()
    assert line.y[2] == 5


def test_depths_have_a_line_for_each_mechanism_in_order():
    figure = plot_depths(depths())
    assert [line.name for line in figure.data] == ["laplace", "gaussian", "partition"]
    assert "20" in figure.layout.yaxis.ticktext
    assert plot_depths(depths(), title="Mine").layout.title.text == "Mine"


def test_frames_are_checked_and_not_changed():
    frame = depths()
    plot_depths(frame)
    assert frame.equals(depths())
    with pytest.raises(ValueError, match="frame must have the columns depth, mechanism, error; missing: error"):
        plot_depths(frame.drop("error"))
    with pytest.raises(ValueError, match="missing: mechanism"):
        plot_depths(frame.drop("mechanism"))
