"""Frames of releases: where nodes are, what is left of them, and in which order."""

import ipaddress
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, TreeRelease
from opendp_tree.releases.frame import node_columns
from opendp_tree.trees.nodes import ShownCells, ShownNodes
from opendp_tree.trees.number_range import NumberRange
from tests.trees.test_tree import parents


def release_of(tree, keys, estimates=None, **options):
    """A release that shows every node of an open tree that holds a key, with its count as the estimate."""
    counts = tree.count(keys)
    cells = ShownCells.of(counts, np.arange(counts.occupied.counts.size), counts.occupied.levels)
    sums = np.zeros(cells.nodes.size)
    sums[cells.cells()] = counts.occupied.counts[cells.order]
    for node in range(sums.size - 1, 0, -1):
        sums[cells.nodes.parents[node]] += sums[node]
    count = sums if estimates is None else np.array(estimates, dtype=float)
    settings = {"confidence": 0.9, "statement": None, **options}
    return TreeRelease(tree, count, count - 1, count + 1, nodes=cells.nodes, **settings)


def test_open_trees_show_what_tuples_say():
    rows = [("a", 1), ("a", 2), ("b",), (None, 7), ("a", 2)]
    frame = release_of(OpenTree.columns(["one", "two"]), rows).to_frame(other=False)
    assert frame.select("level", "one", "two", "path", "estimate").rows() == [
        (0, None, None, "", 5.0),
        (1, None, None, "(null)", 1.0),
        (1, "a", None, "a", 3.0),
        (1, "b", None, "b", 1.0),
        (2, None, 7, "(null) / 7", 1.0),
        (2, "a", 1, "a / 1", 1.0),
        (2, "a", 2, "a / 2", 2.0),
    ]
    assert "other" not in frame.columns


@given(st.lists(st.lists(st.sampled_from(["a", "b", "é", ""]), min_size=1, max_size=4).map(tuple), max_size=12))
def test_estimates_add_up_with_other_rows(rows):
    """People at inner nodes: each node is its children and what is left, at every node with children."""
    tree = OpenTree.columns(4)
    frame = release_of(tree, rows).to_frame()
    names = list(tree.names)
    for row in frame.filter(~pl.col("other")).iter_rows(named=True):
        level = row["level"]
        own = [row[name] for name in names[:level]]
        below = [
            other
            for other in frame.iter_rows(named=True)
            if other["level"] == level + 1 and [other[name] for name in names[:level]] == own
        ]
        if any(not other["other"] for other in below):
            assert sum(other["estimate"] for other in below) == row["estimate"]
            assert all(other["estimate"] > 0 for other in below)
        else:
            assert not below
        assert [other["other"] for other in below] == sorted(other["other"] for other in below)


def test_other_rows_follow_the_siblings_and_are_marked():
    """Also where a label is itself "(other)"."""
    keys = [("a", "x"), ("a",), ("(other)", "x"), ("b", "y"), ()]
    frame = release_of(OpenTree.columns(2), keys).to_frame()
    assert frame.select("level", "label_1", "label_2", "path", "estimate", "other").rows() == [
        (0, None, None, "", 5.0, False),
        (1, "(other)", None, "(other)", 1.0, False),
        (1, "a", None, "a", 2.0, False),
        (1, "b", None, "b", 1.0, False),
        (1, "(other)", None, "(other)", 1.0, True),
        (2, "(other)", "x", "(other) / x", 1.0, False),
        (2, "a", "x", "a / x", 1.0, False),
        (2, "a", "(other)", "a / (other)", 1.0, True),
        (2, "b", "y", "b / y", 1.0, False),
    ]
    rows = frame.filter(pl.col("path").is_in(["", "a"]) & ~pl.col("other"))
    assert frame.filter("other")["lower"].to_list() == [0.0, 0.0]  # at least nobody, at most all of the node above
    assert frame.filter("other")["upper"].to_list() == rows["upper"].to_list()
    assert frame["shown"].all()


def test_other_rows_of_certain_intervals_have_ends():
    release = release_of(OpenTree.columns(1), [("a",)] * 5 + [("b",)] * 4 + [()] * 3, confidence=1.0)
    other = release.to_frame().row(-1, named=True)
    # The root is 11..13, the children together 7..11.
    assert (other["estimate"], other["lower"], other["upper"]) == (3.0, 0.0, 6.0)


def test_other_rows_may_be_negative_and_vanish_when_all_is_explained():
    tree, keys = OpenTree.columns(1), [("a",), ("b",)]
    assert release_of(tree, keys, [10, 7, 6]).to_frame()["estimate"].to_list() == [10.0, 7.0, 6.0, -3.0]
    assert release_of(tree, keys, [13, 7, 6]).to_frame()["estimate"].to_list() == [13.0, 7.0, 6.0]
    assert release_of(tree, keys, [0.3, 0.1, 0.2]).to_frame().height == 3  # but for rounding


def test_public_trees_have_other_rows_where_children_are_hidden():
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z")])
    estimates = np.array([10.0, 7.0, 4.0, 0.0, 2.0, 0.0])
    shown = np.array([True, True, True, False, True, False])
    frame = TreeRelease(tree, estimates, estimates, estimates, 0.9, None, shown=shown).to_frame()
    # Everybody is at a leaf: what the root's two shown children do not explain is noise, and no row.
    assert frame.select("path", "estimate", "shown", "other").rows() == [
        ("", 10.0, True, False),
        ("a", 7.0, True, False),
        ("b", 2.0, True, False),
        ("a / x", 4.0, True, False),
        ("a / y", 0.0, False, False),
        ("a / (other)", 3.0, True, True),
        ("b / z", 0.0, False, False),
    ]
    everything = TreeRelease(tree, estimates, estimates, estimates, 0.9, None).to_frame()
    assert not everything["other"].any()


@pytest.mark.parametrize("labels", [[1, 2], [date(2026, 1, 1), date(2026, 1, 2)], [False, True]])
def test_types_of_columns_do_not_depend_on_other_rows(labels):
    tree = OpenTree.columns(["key"])
    keys = pl.DataFrame({"key": labels})
    with_other, without = (release_of(tree, keys, [top, 1, 1]).to_frame() for top in (9, 2))
    assert with_other.height == without.height + 1 == 4
    assert with_other.schema == without.schema
    assert with_other.schema["key"] == keys.schema["key"]
    last = with_other.row(-1, named=True)
    assert (last["key"], last["path"], last["other"]) == (None, "(other)", True)


def test_frames_of_nobody_have_their_schema():
    for tree, keys in (
        (OpenTree.columns(["one", "two"]), pl.DataFrame({"one": [1], "two": ["x"]})),
        (OpenTree.bits(8), [3]),
        (OpenTree.bits(32, shown_as="ipv4"), [3]),
        (OpenTree.bits(128, shown_as="ipv6"), [3]),
        (OpenTree.paths("/", depth=3), ["a/b"]),
    ):
        nobody = keys.clear() if isinstance(keys, pl.DataFrame) else []
        for other in (True, False):
            full, empty = (release_of(tree, part).to_frame(other=other) for part in (keys, nobody))
            assert empty.height == 0
            assert empty.schema == full.schema


def test_paths_and_prefixes_of_other_rows():
    frame = release_of(OpenTree.paths("/", depth=3), ["a/x", "a", "b"]).to_frame()
    assert frame.select("prefix", "path", "other").rows() == [
        ("", "", False),
        ("a", "a", False),
        ("b", "b", False),
        ("a/x", "a / x", False),
        ("a/(other)", "a / (other)", True),
    ]
    bits = release_of(OpenTree.bits(8, stride=4), [0x12, 0x13], [5, 5, 1, 2]).to_frame()
    assert bits.select("prefix", "bits", "path", "other").rows() == [
        (0, 0, "", False),
        (0x10, 4, "16/4", False),
        (0x12, 8, "18/8", False),
        (0x13, 8, "19/8", False),
        (None, None, "16/4 / (other)", True),
    ]
    plain = Tree.from_parents([-1, 0, 0])
    values = np.array([5.0, 3.0, 0.0])
    frame = TreeRelease(plain, values, values, values, 0.9, None, shown=values > 0).to_frame()
    assert frame.select("node", "path", "other").rows() == [
        (0, "", False),
        (1, "1", False),
        (2, "2", False),
        (None, "(other)", True),
    ]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_released_frames_carry_no_other_labels_in_their_memory(dtype):
    """Neither the release nor its frame, with text columns and paths, holds a label of a node that is not shown."""
    tree = OpenTree.columns(["one", "two"])
    rows = [("a public label, long enough", f"a private label, number {i}") for i in range(50)]
    rows += [(f"a private region, number {i}", "x") for i in range(50)] + [("a public label, long enough", "town")] * 9
    counts = tree.count(pl.DataFrame(rows, schema=["one", "two"], orient="row").cast(dtype))
    place = int(np.flatnonzero(counts.occupied.counts == 9)[0])
    nodes = ShownCells.of(counts, np.array([place]), np.array([2])).nodes
    values = np.array([109.0, 59.0, 9.0])
    release = TreeRelease(tree, values, values, values, 0.9, None, nodes=nodes)
    frame = release.to_frame()
    assert frame["path"].to_list()[-2:] == [
        "a public label, long enough / town",
        "a public label, long enough / (other)",
    ]
    texts = [column for column in frame.iter_columns() if column.dtype == pl.String]
    for column in (*nodes.labels, *texts):
        buffers = column.to_arrow(compat_level=pl.CompatLevel.newest())
        chunks = [buffers] if not hasattr(buffers, "chunks") else buffers.chunks
        memory = b"".join(bytes(part) for chunk in chunks for part in chunk.buffers() if part)
        assert b"private" not in memory
    assert "private" not in release.to_json()


group = st.sampled_from([0, 0, 0, 1, 0xAB, 0xFFFF])


@given(parents())
def test_rows_of_public_trees_spell_out_every_path(up):
    plain = Tree.from_parents(up)
    tree = Tree(plain.parents.copy(), tuple(None if p < 0 else f"n{i}" for i, p in enumerate(up)))
    rows, order = ShownNodes.of_tree(tree), tree.level_order.nodes
    frame = pl.DataFrame(node_columns(rows))
    for node, level, (*labels, path) in zip(order.tolist(), rows.levels.tolist(), frame.rows(), strict=True):
        assert level == tree.node_levels[node] == len(tree.path(node))
        assert [label for label in labels if label is not None] == list(tree.path(node))
        assert path == " / ".join(tree.path(node))
    # Level by level, siblings together: a row's parent never comes before that of the row above it.
    assert (np.diff(rows.levels) >= 0).all()
    assert (np.diff(rows.parents) >= 0).all()
    assert np.where(rows.parents < 0, -1, order[rows.parents]).tolist() == tree.parents[order].tolist()


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=10), st.integers(1, 32))
def test_ipv4_prefixes_are_networks(keys, stride):
    frame = release_of(OpenTree.bits(32, stride, shown_as="ipv4"), keys).to_frame()
    for prefix, bits, path in frame.select("prefix", "bits", "path").iter_rows():
        assert ipaddress.IPv4Network(prefix).prefixlen == bits
        assert path == (prefix if bits else "")
    assert {ipaddress.IPv4Address(key) for key in keys} == {
        ipaddress.IPv4Network(prefix)[0] for prefix in frame.filter(bits=32)["prefix"]
    }


@given(st.lists(st.lists(group, min_size=8, max_size=8), min_size=1, max_size=10), st.sampled_from([16, 20, 128]))
def test_ipv6_prefixes_are_written_as_the_standard_says(groups, stride):
    keys = [sum(part << (16 * place) for place, part in enumerate(parts)) for parts in groups]
    frame = release_of(OpenTree.bits(128, stride, shown_as="ipv6"), keys).to_frame()
    for prefix, bits in frame.select("prefix", "bits").iter_rows():
        # Python 3.13 writes mapped addresses with dots; the numbers are the same.
        network = ipaddress.IPv6Network(prefix)
        assert network.prefixlen == bits
        if "." not in str(network):
            assert prefix == str(network)
    assert set(keys) == {int(ipaddress.IPv6Network(prefix)[0]) for prefix in frame.filter(bits=128)["prefix"]}


def test_what_is_no_key_is_outside_and_has_no_prefix():
    for shown, prefix in (("integer", 0), ("ipv4", "0.0.0.0/8")):
        tree = OpenTree.bits(32, 8, shown_as=shown, outside=True)
        frame = release_of(tree, [0, -1, -1]).to_frame(other=False).filter(pl.col("level") == 1)
        assert frame.select("path", "prefix", "bits", "estimate").rows() == [
            ("0/8" if shown == "integer" else prefix, prefix, 8, 1.0),
            ("(outside)", None, None, 2.0),
        ]


def test_ranges_have_their_ends_and_are_called_by_them_in_order_of_value():
    tree = NumberRange(0, 30, 3).tree(branching=2, outside=True)
    frame = TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.9, statement=None).to_frame()
    assert frame.select("path", "low", "high").rows() == [
        ("", 0, 30),
        ("[0, 20)", 0, 20),
        ("[20, 30]", 20, 30),
        ("(outside)", None, None),
        ("[0, 10)", 0, 10),
        ("[10, 20)", 10, 20),
        ("[20, 30]", 20, 30),
    ]
    wide = NumberRange(-(2**127), 2**127, 2).tree(branching=2, outside=False)
    frame = TreeRelease(wide, *np.ones((3, 3)), confidence=0.9, statement=None).to_frame()
    assert frame["high"].to_list() == [2.0**127, 0.0, 2.0**127]
    days = NumberRange(date(2024, 1, 1), date(2024, 1, 3), 2).tree(branching=2, outside=False)
    frame = TreeRelease(days, *np.ones((3, days.node_count)), confidence=0.9, statement=None).to_frame()
    assert frame["low"].to_list() == [date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 2)]
