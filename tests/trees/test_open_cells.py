from datetime import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from opendp_tree import OpenTree
from opendp_tree.releases.frame import cell_frame
from opendp_tree.trees.open_cells import cell_keys


def keys_of(tree, keys, cells):
    """Cell keys for (place, level) pairs."""
    places, levels = (np.array(part) for part in zip(*cells, strict=True))
    return cell_keys(tree.count(keys), places, levels)


def test_prefixes_of_bits_are_the_least_keys_they_begin():
    found, order = keys_of(OpenTree.bits(8, stride=4), [0x12, 0x13, 0xF7], [(2, 2), (0, 1), (1, 2), (0, 0)])
    assert cell_frame(found).rows() == [(0, 0, 0), (1, 0x10, 4), (2, 0x13, 8), (2, 0xF7, 8)]
    assert order.tolist() == [3, 1, 2, 0]


def test_wide_prefixes():
    for width in (65, 100, 128):
        key = (1 << (width - 1)) | 5
        found, _ = keys_of(OpenTree.bits(width), [key], [(0, 1), (0, width)])
        assert cell_frame(found).rows() == [(1, 1 << (width - 1), 1), (width, key, width)]
        assert cell_frame(found).schema["prefix"] == pl.UInt128


def test_labels_and_paths():
    tree = OpenTree.columns(2)
    found, _ = keys_of(tree, [("a", "x"), ("a", "y"), ("b", "x")], [(1, 2), (0, 1), (2, 0)])
    assert cell_frame(found).rows() == [(0, None, None), (1, "a", None), (2, "a", "y")]
    found, _ = keys_of(OpenTree.paths("/", depth=3), ["a/x", "a/y"], [(1, 2), (0, 1)])
    assert cell_frame(found).rows() == [(1, "a"), (2, "a/y")]


def test_shown_nodes_are_all_ancestors_of_cells():
    tree = OpenTree.bits(3)
    found, order = keys_of(tree, [0b000, 0b001, 0b111], [(0, 3), (1, 3), (0, 1), (2, 2)])
    levels, firsts, lasts = found.shown()
    nodes = found.nodes(firsts, levels)
    prefixes = nodes.words.to_the_right(3)[1].tolist()
    bits = tree.bits_at(nodes.levels).tolist()
    assert nodes.parents.tolist() == [-1, 0, 0, 1, 2, 3, 3]
    assert list(zip(nodes.levels.tolist(), prefixes, bits, (lasts - firsts).tolist(), strict=True)) == [
        (0, 0b000, 0, 4),
        (1, 0b000, 1, 3),
        (1, 0b100, 1, 1),
        (2, 0b000, 2, 2),
        (2, 0b110, 2, 1),
        (3, 0b000, 3, 1),
        (3, 0b001, 3, 1),
    ]
    assert order.tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize("tree", [OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_no_cells(tree):
    empty = np.zeros(0, dtype=np.int64)
    found, _ = cell_keys(tree.count([]), empty, empty)
    assert cell_frame(found).height == 0
    levels, firsts, lasts = found.shown()
    assert levels.size == firsts.size == lasts.size == 0


def test_nodes_have_their_own_labels_only():
    tree = OpenTree.columns(2)
    found, _ = keys_of(tree, [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")], [(0, 2), (1, 2), (2, 1)])
    levels, firsts, _ = found.shown()
    nodes = found.nodes(firsts, levels)
    assert [labels.to_list() for labels in nodes.labels] == [["a", "b"], ["x", "y"]]
    assert nodes.parents.tolist() == [-1, 0, 0, 1, 1]
    assert nodes.size == 5


def test_what_is_released_does_not_depend_on_other_labels():
    """A label of another type elsewhere in the data must not turn the labels of cells into texts."""
    tree = OpenTree.columns(1)
    alone = cell_frame(keys_of(tree, [(1,)] * 5, [(0, 1)])[0])
    beside = cell_frame(keys_of(tree, [(1,)] * 5 + [("x",)], [(0, 1)])[0])
    assert alone.equals(beside)
    assert alone.schema == beside.schema


def test_released_labels_carry_no_other_labels_in_their_memory():
    tree = OpenTree.columns(1)
    private = pl.DataFrame(
        {"name": ["a heavy label that is shown"] * 5 + [f"a private label, number {i}" for i in range(50)]}
    )
    for frame in (private, private.cast(pl.Categorical)):
        found = cell_frame(keys_of(tree, frame, [(0, 1)])[0])["label_1"]
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
