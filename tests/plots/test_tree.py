"""Areas fit into each other, every box that has room is named, small siblings are one box, hovers tell the release."""

from dataclasses import replace

import numpy as np
import opendp.prelude as dp
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, TreeRelease, leaf_domain, plot_tree, then_tree_estimator
from opendp_tree.plots.style import FOOTER, MUTED
from opendp_tree.plots.tree import MAX_SIBLINGS, areas, pack, read_nodes, relative_error
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
    assert footer.startswith("Privacy: epsilon 1 for adding or removing one row.")
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


def test_nothing_to_draw_is_a_root_alone():
    zero = np.zeros(3)
    empty = TreeRelease(Tree.from_paths([("a",), ("b",)]), zero, zero - 1, zero + 1, 0.9, None)
    trace = plot_tree(empty).data[0]
    assert (trace.labels, list(trace["values"])) == (("All",), [1.0])


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"kind \('pie'\) must be one of 'icicle', 'treemap', 'sunburst'"):
        plot_tree(small(), kind="pie")
    with pytest.raises(ValueError, match=r"max_nodes \(1\) must be an integer from 2"):
        plot_tree(small(), max_nodes=1)


def test_a_picture_of_what_does_not_add_up_says_so():
    assert "do not add up" in footer_of(replace(small(), adds_up=False))
    assert "do not add up" not in footer_of(small())


def footer_of(drawn):
    notes = plot_tree(drawn).layout.annotations
    return next(note.text for note in notes if note.name == FOOTER)


@given(st.integers(1, 60), st.data())
def test_areas_fit_into_their_parents(count, data):
    parents = np.array([-1] + [data.draw(st.integers(0, node - 1)) for node in range(1, count)])
    levels = np.zeros(count, dtype=int)
    for node in range(1, count):
        levels[node] = levels[parents[node]] + 1
    figures = st.floats(-1e6, 1e9) | st.just(float("nan")) | st.just(0.0)
    estimates = np.array(data.draw(st.lists(figures, min_size=count, max_size=count)))
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    size = areas(parents, levels, estimates, hidden)
    assert np.isfinite(size).all()
    assert (size >= 0).all()
    below = np.bincount(parents[parents >= 0], weights=size[parents >= 0], minlength=count)
    assert (below <= size * (1 + 1e-9)).all()
    assert (size[1:][~hidden[1:] & ~(estimates[1:] > 0)] == 0).all()


def test_hidden_nodes_and_empty_roots_are_as_large_as_what_is_below():
    parents, levels = np.array([-1, 0, 1, 1]), np.array([0, 1, 2, 2])
    estimates = np.array([-3.0, np.nan, 4.0, 2.0])
    assert areas(parents, levels, estimates, np.array([False, True, False, False])).tolist() == [6, 6, 4, 2]


@pytest.mark.parametrize("hide", [False, True])
def test_rows_find_their_parents_in_public_trees(hide):
    nodes = read_nodes(release((4, 3, 5), hide=hide, total=4000.0))
    for row in range(1, len(nodes.paths)):
        assert nodes.paths[nodes.parents[row]] == " / ".join(nodes.paths[row].split(" / ")[:-1])
        assert nodes.levels[row] == nodes.levels[nodes.parents[row]] + 1
    assert nodes.other.any() == hide


def test_rows_find_their_parents_when_ids_are_shuffled_and_labels_hold_the_separator():
    labelled = Tree.from_paths([("a / b", "c"), ("a", "b / c"), ("a", "d"), ("e",)])
    shuffled = Tree.from_parents([2, 0, -1, 2, 3, 0])
    for tree, labels in ((labelled, True), (shuffled, False)):
        counts = 10.0 ** (4 - tree.node_levels) + np.arange(tree.node_count)
        made = TreeRelease(tree, counts, counts, counts, 1.0, None)
        nodes = read_nodes(made)
        by_count = {count: node for node, count in enumerate(counts.tolist())}
        for row in range(1, len(nodes.paths)):
            above = nodes.estimate[nodes.parents[row]]
            assert by_count[above] == tree.parents[by_count[nodes.estimate[row]]]
        assert ("b / c" in plot_tree(made, kind="treemap").data[0].labels) == labels


def test_rows_find_their_parents_in_open_trees():
    tree = OpenTree.bits(8, stride=2)
    measurement = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_estimator(epsilon=9.0, delta=1e-3)
    nodes = read_nodes(measurement(tree.count(np.repeat(np.arange(256, dtype=np.uint64), 1000))))
    assert len(nodes.paths) > 80
    for row in range(1, len(nodes.paths)):
        if not nodes.other[row]:
            (start, bits), parent = map(int, nodes.paths[row].split("/")), int(nodes.parents[row])
            above, above_bits = map(int, (nodes.paths[parent] or "0/0").split("/"))
            assert above_bits == bits - 2
            assert start >> (8 - above_bits) == above >> (8 - above_bits)


def packed(made, **options):
    nodes = read_nodes(made)
    return nodes, pack(nodes, **{"room": 1 / 28, "view": 4, "max_nodes": 10**6, **options})


@pytest.mark.parametrize("options", [{}, {"room": 1 / 250}, {"view": 2}, {"max_nodes": 60}, {"ordered": True}])
@pytest.mark.parametrize("shape", [(40, 30), (3, 12, 25), (500,)])
def test_every_node_with_an_area_is_drawn_once_below_its_parent(shape, options):
    """In a box of its own, or below a box of several that opens; but for those that `max_nodes` leaves out."""
    nodes, boxes = packed(release(shape, hide=False, noise=0.0), **options)
    drawn = {int(box.rows[0]): index for index, box in enumerate(boxes) if box.rows.size == 1}
    assert len(drawn) == sum(box.rows.size == 1 for box in boxes)
    positive = set(np.flatnonzero(nodes.size > 0).tolist())
    assert set(drawn) == positive if "max_nodes" not in options else len(boxes) < 90
    below = np.zeros(len(boxes))
    for box in boxes[1:]:
        below[box.parent] += box.size
        above = boxes[box.parent]
        if above.rows.size == 1:
            assert (nodes.parents[box.rows] == above.rows[0]).all()
        else:
            assert set(box.rows) <= set(above.rows)
    assert all(b <= box.size * (1 + 1e-9) for b, box in zip(below, boxes, strict=True))


def test_in_the_first_view_all_siblings_but_one_have_room():
    for shape in ((5, 30), (3, 12, 25)):
        _, boxes = packed(release(shape, hide=False, noise=0.0), view=len(shape) + 1)
        levels = [0]
        for box in boxes[1:]:
            levels.append(levels[box.parent] + 1)
        for index in range(len(boxes)):
            here = [
                box for box, level in zip(boxes, levels, strict=True) if box.parent == index and level <= len(shape)
            ]
            narrow = [box for box in here if box.size < boxes[0].size / 28]
            assert len(narrow) <= 1
            assert [box.size for box in here if box.rows.size == 1] == sorted(
                (box.size for box in here if box.rows.size == 1), reverse=True
            )


def test_the_root_has_a_unit_and_boxes_beside_small_siblings_say_how_many_nodes_are_there():
    paths = [("big", "b"), *((f"small {number}", leaf) for number in range(9) for leaf in "xy")]
    tree = Tree.from_paths(paths)
    counts = np.where(tree.node_levels == 2, 5.0, np.where(tree.node_levels == 1, 10.0, 1090.0))
    counts[[1, tree.leaves[0]]] = 1000.0
    statement = replace(STATEMENT, counted="people (each user once per node)")
    trace = plot_tree(TreeRelease(tree, counts, counts - 1, counts + 1, 0.95, statement)).data[0]
    assert trace.text[:3] == ("All<br>1,090\u2002people", "big<br>1,000", "(9 more)<br>90")
    beside = trace.parents.index("2")
    assert trace.text[beside] == "(18 nodes)"


def test_grey_boxes_are_explained():
    assert plot_tree(small()).layout.title.subtitle.text.endswith(' Grey: no interval, as for "(other)".')
    assert "Grey" not in plot_tree(release(hide=False)).layout.title.subtitle.text


def test_many_equal_siblings_have_a_limit():
    count = 5 * MAX_SIBLINGS
    tree = Tree.from_paths([(number,) for number in range(count)])
    counts = np.concatenate(([float(count)], np.ones(count)))
    trace = plot_tree(TreeRelease(tree, counts, counts, counts, 1.0, None)).data[0]
    assert trace.labels[MAX_SIBLINGS + 1] == f"({4 * MAX_SIBLINGS:,} more)"
    assert f"sum of their estimates {4 * MAX_SIBLINGS:,}" in trace.hovertext[MAX_SIBLINGS + 1]
    assert trace.maxdepth == 2


def test_small_siblings_are_one_box_that_says_what_it_sums():
    tree = Tree.from_paths([("big",), *((f"small {number}",) for number in range(9))])
    counts = np.array([1000.0, 910.0, *range(6, 15)])
    release = TreeRelease(tree, counts, counts - 2, counts + 2, 0.95, STATEMENT, cells=np.ones(11, dtype=np.int64))
    trace = plot_tree(release).data[0]
    assert trace.labels[:3] == ("All", "big", "(9 more)")
    assert trace.hovertext[2] == (
        "<b>(9 more)</b><br>sum of their estimates 90<br>median of their relative errors 20 %<br>9 % of All<br>9 cells"
        "<br>small 8 14; small 7 13; small 6 12;<br>small 5 11; small 4 10; ...<br>a click opens them"
    )
    assert trace.marker.colors[2] == pytest.approx(np.log10(2 / 10), abs=1e-3)
    assert set(trace.parents[3:]) == {"2"}  # those of the next view
    few = plot_tree(release, max_nodes=3).data[0]
    assert few.labels == ("All", "big", "(9 more)")
    assert few.hovertext[2].endswith("too many to draw")


def test_nodes_of_which_none_has_room_are_one_box_after_their_parent():
    tree = Tree.from_paths([(name, number) for name in "ab" for number in range(60)])
    counts = np.where(tree.node_levels == 2, 1.0, np.where(tree.node_levels == 1, 60.0, 120.0))
    trace = plot_tree(TreeRelease(tree, counts, counts, counts, 1.0, None)).data[0]
    assert trace.labels[:5] == ("All", "a", "b", "(60 nodes)", "(60 nodes)")
    assert trace.text[1:3] == ("a<br>60", "b<br>60")
    assert trace.text[3].split("<br>")[:3] == ["(60 nodes)", "0\u20021", "1\u20021"]  # the largest are named
    small = plot_tree(TreeRelease(tree, counts, counts, counts, 1.0, None), max_nodes=3).data[0]
    assert small.hovertext[1].endswith("60 nodes below are too small to draw")
