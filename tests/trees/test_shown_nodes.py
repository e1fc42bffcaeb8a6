from datetime import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree
from opendp_tree.releases.frame import cell_frame
from opendp_tree.trees.shown_nodes import ShownCells, ShownNodes, nested_parents
from tests.shapes import SHAPES


def cells_of(tree, keys, cells):
    """The cells for (place, level) pairs."""
    places, levels = (np.array(part) for part in zip(*cells, strict=True))
    return ShownCells.of(tree.count(keys), places, levels)


def test_prefixes_of_bits_are_the_least_keys_they_begin():
    cells = cells_of(OpenTree.bits(8, stride=4), [0x12, 0x13, 0xF7], [(2, 2), (0, 1), (1, 2), (0, 0)])
    assert cell_frame(cells).rows() == [(0, 0, 0), (1, 0x10, 4), (2, 0x13, 8), (2, 0xF7, 8)]
    assert cells.order.tolist() == [3, 1, 2, 0]


def test_wide_prefixes():
    for width in (65, 100, 128):
        key = (1 << (width - 1)) | 5
        cells = cells_of(OpenTree.bits(width), [key], [(0, 1), (0, width)])
        assert cell_frame(cells).rows() == [(1, 1 << (width - 1), 1), (width, key, width)]
        assert cell_frame(cells).schema["prefix"] == pl.UInt128


def test_labels_and_paths():
    tree = OpenTree.columns(2)
    cells = cells_of(tree, [("a", "x"), ("a", "y"), ("b", "x")], [(1, 2), (0, 1), (2, 0)])
    assert cell_frame(cells).rows() == [(0, None, None), (1, "a", None), (2, "a", "y")]
    cells = cells_of(OpenTree.paths("/", depth=3), ["a/x", "a/y"], [(1, 2), (0, 1)])
    assert cell_frame(cells).rows() == [(1, "a"), (2, "a/y")]


def test_shown_nodes_are_all_ancestors_of_cells():
    tree = OpenTree.bits(3)
    cells = cells_of(tree, [0b000, 0b001, 0b111], [(0, 3), (1, 3), (1, 1), (2, 2)])
    nodes = cells.nodes
    prefixes = nodes.words.to_the_right(3)[1].tolist()
    bits = tree.bits_at(nodes.levels).tolist()
    assert nodes.parents.tolist() == [-1, 0, 0, 1, 2, 3, 3]
    assert list(zip(nodes.levels.tolist(), prefixes, bits, (cells.lasts - cells.firsts).tolist(), strict=True)) == [
        (0, 0b000, 0, 4),
        (1, 0b000, 1, 3),
        (1, 0b100, 1, 1),
        (2, 0b000, 2, 2),
        (2, 0b110, 2, 1),
        (3, 0b000, 3, 1),
        (3, 0b001, 3, 1),
    ]
    assert cells.order.tolist() == [2, 0, 1, 3]
    assert np.flatnonzero(cells.is_cell).tolist() == [1, 4, 5, 6]
    assert cells.cells().tolist() == [1, 5, 6, 4]


@pytest.mark.parametrize("tree", [OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_no_cells(tree):
    empty = np.zeros(0, dtype=np.int64)
    cells = ShownCells.of(tree.count([]), empty, empty)
    assert cell_frame(cells).height == 0
    assert cells.nodes.size == cells.firsts.size == cells.lasts.size == 0


def test_nodes_have_their_own_labels_only():
    tree = OpenTree.columns(2)
    nodes = cells_of(tree, [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")], [(0, 2), (1, 2), (2, 1)]).nodes
    assert [labels.to_list() for labels in nodes.labels] == [["a", "b"], ["x", "y"]]
    assert nodes.parents.tolist() == [-1, 0, 0, 1, 1]
    assert nodes.size == 5


def test_what_is_released_does_not_depend_on_other_labels():
    """A label of another type elsewhere in the data must not turn the labels of cells into texts."""
    tree = OpenTree.columns(1)
    alone = cell_frame(cells_of(tree, [(1,)] * 5, [(0, 1)]))
    beside = cell_frame(cells_of(tree, [(1,)] * 5 + [("x",)], [(0, 1)]))
    assert alone.equals(beside)
    assert alone.schema == beside.schema


def test_released_labels_carry_no_other_labels_in_their_memory():
    tree = OpenTree.columns(1)
    private = pl.DataFrame(
        {"name": ["a heavy label that is shown"] * 5 + [f"a private label, number {i}" for i in range(50)]}
    )
    for frame in (private, private.cast(pl.Categorical)):
        found = cell_frame(cells_of(tree, frame, [(0, 1)]))["label_1"]
        assert found.dtype == pl.String
        memory = b"".join(
            bytes(part) for part in found.to_arrow(compat_level=pl.CompatLevel.newest()).buffers() if part
        )
        assert b"private" not in memory


def test_one_record_does_not_decide_how_a_label_is_shown():
    """Labels that are equal without being alike are no labels: floats, decimals and times with a zone among them."""
    tree = OpenTree.columns(1)
    for odd in (0.0, Decimal("1.0"), datetime(2026, 1, 1), 10**5000, "\ud800", b"x"):
        assert tree.count([(odd,)]).occupied.counts.size == 0
    with pytest.raises(
        TypeError, match=r"keys: column 'x' \(Float64\) must hold texts, integers, truth values or times"
    ):
        tree.count(pl.DataFrame({"x": [0.0]}))
    assert OpenTree.bits(8).count([np.int64(5), np.uint8(5)]).occupied.counts.tolist() == [2]
    assert OpenTree.paths("/", depth=3).count(["\ud800", "a"]).occupied.counts.tolist() == [1]


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_parents_follow_from_levels_and_first_places(tree):
    """Any tree, its nodes level by level, each known by its place in depth-first order or by its first leaf's."""
    for first in (tree._node_ranges[0], tree.leaf_ranges[0]):
        order = np.lexsort((first, tree.node_levels))
        found = nested_parents(tree.node_levels[order], first[order])
        assert np.where(found < 0, -1, order[found]).tolist() == tree.parents[order].tolist()


def test_no_node_and_a_root_alone():
    empty = np.zeros(0, dtype=np.int64)
    assert nested_parents(empty, empty).tolist() == []
    assert nested_parents(np.array([0]), np.array([0])).tolist() == [-1]


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_public_nodes_come_in_the_level_order(tree):
    nodes = ShownNodes.of_tree(tree)
    ids = tree.level_order.nodes
    assert nodes.levels.tolist() == tree.node_levels[ids].tolist()
    assert np.where(nodes.parents < 0, -1, ids[nodes.parents]).tolist() == tree.parents[ids].tolist()
    assert nodes.labels == ()


def test_public_labels_come_level_by_level():
    tree = Tree.from_paths([("a", 1), ("b", 2), ("a", 3)])
    assert [labels.to_list() for labels in ShownNodes.of_tree(tree).labels] == [["a", "b"], [1, 3, 2]]


@given(st.lists(st.integers(0, 63), min_size=1, max_size=12), st.data())
def test_any_place_of_a_cell_will_do(keys, data):
    tree = OpenTree.bits(6)
    counts = tree.count(keys)
    place = st.integers(0, counts.occupied.levels.size - 1)
    cells = data.draw(st.lists(st.tuples(place, st.integers(0, 6)), min_size=1, max_size=8))
    whole = counts.keys.to_the_right(6)[1].tolist()
    cells = list({whole[at] >> (6 - level) << (6 - level) | level << 8: (at, level) for at, level in cells}.values())
    shown = ShownCells.of(counts, *(np.array(part) for part in zip(*cells, strict=True)))
    expected = sorted((whole[at] >> (6 - level) << (6 - level), level) for at, level in cells)
    assert cell_frame(shown).select("prefix", "bits").rows() == expected
    assert [cells[at][1] for at in shown.order] == [level for _, level in expected]
