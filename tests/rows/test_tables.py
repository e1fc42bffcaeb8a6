import polars as pl

from opendp_tree.rows.tables import Table, measured


def test_a_frame_is_no_table():
    for frame in (pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]})):
        assert not isinstance(frame, Table)
        assert measured(id, frame) == id(frame)
