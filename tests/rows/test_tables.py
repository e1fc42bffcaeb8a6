import pytest

from opendp_tree import Key, Tree
from opendp_tree.rows.tables import Table, bounds_by_value

TREE = Tree.from_paths([("x",), ("y",)])
COARSER = [
    Key.url("a"),
    Key.ip("a", version="both"),
    Key.number("a", low=0, high=9, bins=3),
    Key.nested(Key.columns("a"), Key.columns("b")),
    *(Key.path("a", depth=3), Key.columns("a", tree=TREE), Key.ip("a"), Key.bits("a", width=4), Key.calendar("a")),
]


def test_values_of_open_columns_are_leaves():
    assert bounds_by_value(Key.columns("a", "b"))
    assert bounds_by_value(Key.columns("a", nulls="drop"))


@pytest.mark.parametrize("key", COARSER, ids=lambda key: key.kind)
def test_values_that_may_share_a_leaf_are_not(key):
    assert not bounds_by_value(key)


def test_a_frame_is_no_table():
    import polars as pl

    assert not isinstance(pl.DataFrame({"a": [1]}), Table)
    assert not isinstance(pl.LazyFrame({"a": [1]}), Table)
