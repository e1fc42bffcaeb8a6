from dataclasses import replace
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from opendp_tree import Tree, TreeRelease, plot_tree
from opendp_tree.plots.style import FOOTER, MUTED
from opendp_tree.plots.tree import relative_error
from tests.pictures import HOSTILE, STATEMENT, release

KINDS = {"icicle": go.Icicle, "treemap": go.Treemap, "sunburst": go.Sunburst}


def small(**more):
    """The children of north exceed it, south is negative, hidden is not shown."""
    tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south",), ("hidden",)], names=["side", "place"])
    noisy = np.array([100.0, 60.0, 90.0, 30.0, -5.0, 7.0])
    shown = np.array([True, True, True, True, True, False])
    return TreeRelease(tree, noisy, noisy - 6, noisy + 6, 0.95, STATEMENT, shown=shown, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_its_own_trace_with_areas_that_fit(kind):
    trace = plot_tree(small(), kind=kind).data[0]
    assert isinstance(trace, KINDS[kind])
    assert trace.branchvalues == "remainder"
    assert trace.labels == ("All", "north", "(other)", "a", "b")
    assert [trace.ids.index(parent) for parent in trace.parents[1:]] == [0, 0, 1, 1]
    shrunk = 100 / (60 + 45)  # south's -5 has no area
    assert list(trace["values"]) == pytest.approx([0, 0, 45 * shrunk, 45 * shrunk, 15 * shrunk], abs=1e-9)


def test_hovers_tell_what_was_released_not_what_was_drawn():
    tree = small(cells=np.array([5, 4, 2, 2, 1, 0]))
    trace = plot_tree(tree).data[0]
    hover = dict(zip(trace.labels, trace.hovertext, strict=True))
    assert hover["All"] == "<b>All</b><br>estimate 100<br>95 % interval 94 to 106 (±6 %)<br>5 cells"
    assert hover["a"] == (
        "<b>north / a</b><br>estimate 90<br>95 % interval 84 to 96 (±6.7 %)<br>150 % of north<br>2 cells"
    )
    assert hover["(other)"] == "<b>(other)</b><br>estimate 45<br>45 % of All<br>what the shown nodes beside it leave"


def test_colours_are_relative_errors_and_other_is_muted():
    trace = plot_tree(small()).data[0]
    colours = dict(zip(trace.labels, trace.marker.colors, strict=True))
    assert colours["(other)"] == MUTED
    assert colours["a"] == pytest.approx(np.log10(6 / 90), abs=1e-3)
    assert (trace.marker.cmin, trace.marker.cmax) == (-3, 0)
    assert "Relative error: half the 95 % interval ÷ estimate" in trace.marker.colorbar.title.text


def test_relative_errors_of_odd_intervals():
    estimate, low, high = (
        np.array(column) for column in ([10.0, 0, -4, 5], [8.0, 0, -6, np.nan], [12.0, 2, -2, np.nan])
    )
    assert relative_error(estimate, low, high).tolist()[:3] == [0.2, np.inf, np.inf]
    assert np.isnan(relative_error(estimate, low, high)[3])


def test_lightness_of_the_colours_rises():
    scale = plot_tree(small()).data[0].marker.colorscale
    light = [
        sum(w * int(colour[i : i + 2], 16) for w, i in ((0.2126, 1), (0.7152, 3), (0.0722, 5))) for _, colour in scale
    ]
    assert all(later > earlier + 20 for earlier, later in pairwise(light))


def test_texts_read_well_on_every_colour():
    def light(colour):
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
        return np.dot((0.2126, 0.7152, 0.0722), linear)

    width = np.geomspace(1e-4, 2, 100) * 100
    counts = np.full(101, 100.0)
    tree = Tree.from_paths([(number,) for number in range(100)])
    widths = np.concatenate(([1.0], width))
    trace = plot_tree(TreeRelease(tree, counts, counts - widths, counts + widths, 0.95, None)).data[0]
    scale = trace.marker.colorscale
    for value, ink in zip(trace.marker.colors, trace.textfont.color, strict=True):
        at = [-3 + 3 * place for place, _ in scale]
        rgb = [np.interp(value, at, [int(colour[i : i + 2], 16) for _, colour in scale]) for i in (1, 3, 5)]
        fill = light("#" + "".join(f"{round(channel):02x}" for channel in rgb))
        text = 1.0 if ink == "white" else light(ink)
        assert (max(fill, text) + 0.05) / (min(fill, text) + 0.05) >= 4.2


def test_titles_and_footers():
    figure = plot_tree(small())
    assert figure.layout.title.text == "Private counts by side, place"
    footer = next(note.text for note in figure.layout.annotations if note.name == FOOTER)
    assert footer.startswith("Privacy: epsilon 1 (max divergence) for adding or removing one row.")
    assert footer.endswith("1 node has an estimate of zero or less and no area.")
    assert plot_tree(small(), title="<Mine>").layout.title.text == "&lt;Mine&gt;"
    bare = TreeRelease(Tree.from_parents([-1, 0]), *np.ones((3, 2)), confidence=1.0, statement=None)
    assert plot_tree(bare).layout.title.text == "Private counts"
    assert "not known" in plot_tree(bare).layout.annotations[0].text
    assert "certain interval 1 to 1" in plot_tree(bare).data[0].hovertext[0]


def test_labels_are_never_markup():
    trace = plot_tree(release((8,), label=lambda level, number: HOSTILE[number], hide=False)).data[0]
    for text in (*trace.labels, *trace.text, *trace.hovertext):
        for allowed in ("<b>", "</b>", "<br>"):
            text = text.replace(allowed, "")  # noqa: PLW2901
        assert "<" not in text
        assert ">" not in text


def test_large_trees_are_drawn_in_part():
    given = release((50, 20, 10), total=1e6, hide=False)
    trace = plot_tree(given).data[0]
    assert 1000 < len(trace.ids) < 3000
    assert trace.maxdepth == 3
    assert len(plot_tree(given, max_nodes=20_000).data[0].ids) > 9000


def test_nothing_to_draw_is_a_root_alone():
    zero = np.zeros(3)
    empty = TreeRelease(Tree.from_paths([("a",), ("b",)]), zero, zero - 1, zero + 1, 0.9, None)
    trace = plot_tree(empty).data[0]
    assert (trace.labels, list(trace["values"])) == (("All",), [1.0])


def test_releases_are_not_changed():
    given = small()
    before = [array.copy() for array in (given.estimates, given.lower, given.upper, given.shown)]
    plot_tree(given)
    for array, copy in zip((given.estimates, given.lower, given.upper, given.shown), before, strict=True):
        assert (array == copy).all()


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"kind \('pie'\) must be one of 'icicle', 'treemap', 'sunburst'"):
        plot_tree(small(), kind="pie")
    with pytest.raises(ValueError, match=r"max_nodes \(1\) must be an integer from 2"):
        plot_tree(small(), max_nodes=1)


def test_what_is_counted_is_in_the_footer_and_the_hover():
    given = small()
    cut = replace(given, statement=replace(given.statement, counted="rows after keeping at most 5 of each <user>"))
    figure = plot_tree(cut)
    assert all(
        text.endswith("of rows after keeping at most 5 of<br>each &lt;user&gt;") for text in figure.data[0].hovertext
    )
    assert "Counted: rows after keeping at most 5 of each &lt;user&gt;." in figure.layout.annotations[0].text
    assert "Counted" not in plot_tree(given).layout.annotations[0].text


def test_a_picture_of_what_does_not_add_up_says_so():
    assert "do not add up" in footer_of(replace(small(), adds_up=False))
    assert "do not add up" not in footer_of(small())


def footer_of(drawn):
    notes = plot_tree(drawn).layout.annotations
    return next(note.text for note in notes if note.name == FOOTER)
