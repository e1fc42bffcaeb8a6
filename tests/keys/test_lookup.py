from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Tree
from opendp_tree.keys.lookup import Lookup

LABELS = st.sampled_from(["a", "b", "c", None])
PATHS = st.lists(st.lists(LABELS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=8)


def leaf_of(tree, path):
    """The same by walking: the leaf among the prefixes of a path."""
    places = {tree.path(int(node)): place for place, node in enumerate(tree.leaves)}
    return next((places[path[:end]] for end in range(len(path) + 1) if path[:end] in places), -1)


def labels_of(paths):
    columns = [
        pl.Series([path[level] if level < len(path) else None for path in paths], dtype=pl.String) for level in range(3)
    ]
    return columns, np.array([len(path) for path in paths])


@given(PATHS, PATHS)
def test_keys_lead_to_or_through_the_leaf_that_a_walk_finds(listed, asked):
    leaves = [path for path in dict.fromkeys(listed) if not any(path[: len(up)] == up != path for up in listed)]
    tree = Tree.from_paths(leaves)
    lookup = Lookup(tree, ("text",) * 3)
    assert lookup.leaves(*labels_of(asked)).tolist() == [leaf_of(tree, path) for path in asked]


def test_keys_without_a_leaf_go_to_the_one_for_others():
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("rest",)])
    asked = labels_of([("a", "x"), ("a",), ("a", "z"), ("b",), (None,), ("rest",)])
    assert Lookup(tree, ("text",) * 2).leaves(*asked).tolist() == [0, -1, -1, -1, -1, 2]
    assert Lookup(tree, ("text",) * 2, outside=2).leaves(*asked).tolist() == [0, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("text", ["1", "x", None], [3, -1, 5]),
        ("integer", [1, 2**70, None], [0, 1, 5]),
        ("truth", [True, False, None], [2, -1, 5]),
        ("date", [date(2024, 1, 1), date(1, 1, 1), None], [4, -1, 5]),
        ("time", [None], [5]),
    ],
)
def test_labels_of_another_kind_lead_nowhere(kind, values, expected):
    """1, True, "1" and a day are four labels; integers beyond 64 bits are labels, too."""
    tree = Tree.from_paths([(1,), (2**70,), (True,), ("1",), (date(2024, 1, 1),), (None,)])
    column = pl.Series(values, dtype=pl.Int128) if kind == "integer" else pl.Series(values)
    lengths = np.ones(len(values), dtype=np.int64)
    assert Lookup(tree, (kind,)).leaves([column], lengths).tolist() == expected


def test_a_tree_of_a_root_alone_takes_all():
    tree = Tree.from_paths([()])
    assert Lookup(tree, ("text",)).leaves(*labels_of([("a",), ()])).tolist() == [0, 0]
