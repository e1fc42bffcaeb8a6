import numpy as np
import polars as pl
from hypothesis import given

from opendp_tree import Tree
from opendp_tree.frames import decode, node_frame
from tests.test_tree import parents


@given(parents())
def test_label_columns_spell_out_every_path(up):
    unlabelled = Tree.from_parents(up)
    tree = Tree(unlabelled.parents.copy(), tuple(None if p < 0 else f"n{i}" for i, p in enumerate(up)))
    rows = node_frame(tree, {"node": np.arange(tree.node_count)}).rows()
    for level, *labels, node in rows:
        path = tree.path(node)
        assert len(path) == level
        assert [label for label in labels if label is not None] == list(path)


def test_decoding_gives_null_where_a_key_ended():
    for labels in (["x", "y"], pl.Series(["x", "y"])):
        assert decode(labels, np.array([1, -1, 0])).to_list() == ["y", None, "x"]
        assert decode(labels[:0], np.array([-1])).to_list() == [None]


def test_decoding_keeps_times_to_the_nanosecond():
    times = pl.Series([1, 1_000_000_001], dtype=pl.Int64)
    for dtype in (pl.Datetime("ns"), pl.Datetime("ns", "Europe/Berlin"), pl.Duration("ns")):
        found = decode(times.cast(dtype), np.array([1, -1, 0]))
        assert found.dtype == dtype
        assert found.to_physical().to_list() == [1_000_000_001, None, 1]
