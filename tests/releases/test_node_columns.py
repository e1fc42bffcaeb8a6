"""Where nodes are, as columns."""

import ipaddress
from datetime import date

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, TreeRelease
from opendp_tree.releases.frame import node_columns
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.shown_nodes import ShownNodes
from tests.releases.test_frame import release_of
from tests.trees.test_tree import parents

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


def test_ids_of_trees_whose_root_is_not_the_first():
    tree = Tree.from_parents([2, 0, -1])
    frame = TreeRelease(tree, *np.arange(9.0).reshape(3, 3), confidence=0.9, statement=None).to_frame()
    assert frame.select("node", "path", "estimate").rows() == [(2, "", 2.0), (0, "0", 0.0), (1, "1", 1.0)]


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


def test_mixed_labels_of_one_level_become_texts_and_leave_other_levels_alone():
    tree = Tree.from_paths([("a", 1), (2, 3)])
    frame = TreeRelease(tree, *np.ones((3, 5)), confidence=0.9, statement=None).to_frame()
    assert frame.schema["label_1"] == pl.String
    assert frame.schema["label_2"] == pl.Int64
    assert frame["path"].to_list() == ["", "a", "2", "a / 1", "2 / 3"]


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
