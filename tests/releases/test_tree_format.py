"""Trees of JSON: those of numbers with their ranges; labels and open trees are with whole releases."""

import json
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import OpenTree, Tree, TreeRelease
from opendp_tree.releases.json import read_tree, write_tree
from opendp_tree.trees.number_range import NumberRange


def again(release):
    return TreeRelease.from_json(release.to_json())


RANGES = [
    NumberRange(0, 10, 5),
    NumberRange(-(2**100), 2**101, 1),
    NumberRange(0.1, 0.7, 33),
    NumberRange(Decimal("0.25"), Fraction(1, 3), 7),
    NumberRange(date(2024, 1, 1), date(2025, 1, 1), 12),
    NumberRange(datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 6), 4),
]


@pytest.mark.parametrize("ranges", RANGES, ids=str)
@pytest.mark.parametrize("branching", [2, 3, 16])
@pytest.mark.parametrize("outside", [True, False])
def test_ranges_come_back_with_their_ends(ranges, branching, outside):
    tree = ranges.tree(branching=branching, outside=outside, name="value")
    release = TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.5, statement=None)
    back = again(release)
    assert back.tree == tree
    assert back.tree.ordered
    assert back.tree.ranges.exact_edges == ranges.exact_edges
    assert back.to_frame().equals(release.to_frame())
    assert back.to_json() == release.to_json()


@pytest.mark.parametrize(
    "ranges",
    [
        5,
        {"low": 0, "high": 10},
        {"low": 0, "high": 11, "bins": 5},
        {"low": 0, "high": 10, "bins": 4},
        {"low": 0, "high": 10, "bins": 2**19},
        {"low": "0", "high": 10, "bins": 5},
        {"low": {"number": "1e999999999"}, "high": 10, "bins": 5},
        {"low": {"number": "1/0"}, "high": 10, "bins": 5},
        {"low": {"date": "2024-01-01"}, "high": 10, "bins": 5},
    ],
)
def test_ranges_of_another_tree_are_refused(ranges):
    tree = NumberRange(0, 10, 5).tree(branching=2, outside=True)
    parts = json.loads(TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.5, statement=None).to_json())
    parts["tree"]["ranges"] = ranges
    with pytest.raises(ValueError, match=r"ranges|low|bins"):
        TreeRelease.from_json(json.dumps(parts))


def test_trees_of_earlier_texts_are_read():
    for tree in (Tree.from_paths([("a", 1), ("b",)], names=["one", "two"]), OpenTree.bits(8, 2), OpenTree.columns(2)):
        written = write_tree(tree)
        assert read_tree(written) == tree
        earlier = {name: value for name, value in written.items() if name not in ("ordered", "ranges", "outside")}
        assert read_tree(earlier) == tree
