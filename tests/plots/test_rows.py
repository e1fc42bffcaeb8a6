"""Nodes in rows: counts and means of a level."""

from __future__ import annotations

import html
from dataclasses import replace

import numpy as np
import pytest

from opendp_tree import Tree, TreeRelease, plot_level, plot_tree
from opendp_tree.plots import plot_means
from opendp_tree.plots.rows import BAR, OTHER
from opendp_tree.trees.number_range import NumberRange
from tests.pictures import HOSTILE, release
from tests.plots.test_tree import small
from tests.releases.test_values import release as with_values


def test_bars_are_the_level_from_large_to_small_with_intervals():
    bars, lines = plot_level(small(), 1).data
    assert bars.x == (60, 45, -5)
    assert lines.x == (54, 66, None, None, None, None, -11, 1, None)
    assert list(lines.y) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert bars.marker.color == (BAR, OTHER, BAR)
    assert bars.hovertext[0] == "<b>north</b><br>estimate 60<br>95 % interval 54 to 66"
    assert "hidden" not in plot_level(small(), 1).layout.yaxis.ticktext
    assert plot_level(small(), 0).layout.yaxis.ticktext == ("All",)
    assert bars.hovertext[2] == "<b>south</b><br>estimate −5<br>95 % interval −11 to 1"


def test_only_the_largest_are_drawn_and_the_picture_says_so():
    given = release((8, 6), hide=False)
    figure = plot_level(given, 2, top=10)
    assert len(figure.data[0].x) == 10
    assert figure.data[0].x == tuple(sorted(given.estimates[given.tree.levels[2]], reverse=True)[:10])
    assert figure.layout.title.subtitle.text == "The 10 largest of 48 nodes. Bars: estimate. Lines: 95 % interval."
    assert plot_level(given, 2).layout.height > figure.layout.height


def test_intervals_without_ends_have_no_line():
    tree = Tree.from_paths([("a",)])
    ends = np.array([1.0, np.inf])
    figure = plot_level(TreeRelease(tree, np.array([1.0, 1.0]), -ends, ends, 0.9, None), 1)
    assert '"x":[null,null,null]' in figure.to_json()


def test_labels_are_short_text():
    ticks = plot_level(release((8,), label=lambda level, number: HOSTILE[number], hide=False), 1).layout.yaxis.ticktext
    assert all("<" not in tick and ">" not in tick for tick in ticks)
    assert all(len(html.unescape(tick)) <= 30 for tick in ticks)


def test_what_is_counted_is_in_the_footer_and_the_hover():
    given = small()
    cut = replace(
        given,
        statement=replace(
            given.statement, counted="rows. At most 5 rows of each <user> count in total (others are dropped)"
        ),
    )
    figure = plot_level(cut, 1)
    assert figure.data[0].hovertext[0].endswith("count in total (others<br>are dropped)")
    assert (
        "Counted: rows. At most 5 rows of each &lt;user&gt; count in total (others are dropped)."
        in figure.layout.annotations[0].text
    )
    assert "Counted" not in plot_level(given, 1).layout.annotations[0].text


def test_a_level_has_a_name():
    given = small()
    assert given.tree.names == ("side", "place")
    assert plot_level(given, "place").to_json() == plot_level(given, 2).to_json()
    assert plot_level(given, "side").layout.title.text == "Private counts by side"
    assert plot_level(given, 0).layout.title.text == "Private counts at level 0"
    with pytest.raises(ValueError, match=r"level \('city'\) must be one of 'side', 'place'\. Hint: a number from 0"):
        plot_level(given, "city")
    tree = Tree.balanced(branching=2, depth=2)
    with pytest.raises(ValueError, match=r"level \('a'\) must be a number: levels have no names here"):
        plot_level(TreeRelease(tree, *np.ones((3, 3)), confidence=1.0, statement=None), "a")


def test_ranges_and_months_are_bars_in_their_order():
    for tree in (
        NumberRange(0, 3, 3).tree(branching=4, outside=False),
        Tree.from_paths([("jan",), ("feb",), ("mar",)], ordered=True),
    ):
        counts = np.array([60.0, 10.0, 30.0, 20.0])
        release = TreeRelease(tree, counts, counts - 4, counts + 4, 0.95, None)
        assert plot_level(release, 1).data[0].x == (10, 30, 20)
        assert plot_level(release, 1, top=2).data[0].x == (30, 20)
        assert plot_tree(release).data[0].labels[1:] == tuple(tree.labels[1:])


def test_points_are_means_with_their_intervals_the_highest_first():
    points, intervals, line = plot_means(with_values("amount"), 1).data
    assert list(points.x) == [3.0, 3.0]
    assert list(intervals.x) == [2.0, 4.0, None] * 2
    assert list(line.x) == [3.0, 3.0]
    assert "amount clipped to [0, 5]" in plot_means(with_values("amount"), 1).layout.title.subtitle.text
    made = with_values("amount", "delay")
    assert plot_means(made, "country", value="delay").layout.title.text == "Private means of delay by country"
    assert len(plot_means(made, 0).data) == 2  # the root has no line for the mean of all


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_level(small(), 3), r"level \(3\) must be an integer from 0 to 2"),
        (lambda: plot_level(small(), -1), r"level \(-1\)"),
        (lambda: plot_level(small(), 1, top=0), r"top \(0\)"),
        (lambda: plot_means(with_values(), 1), "release must have a value"),
        (lambda: plot_means(with_values("amount"), 1, value="delay"), "value"),
        (lambda: plot_means("release", 1), "TreeRelease"),
    ],
)
def test_arguments_are_checked(draw, message):
    with pytest.raises((ValueError, TypeError), match=message):
        draw()
