import polars as pl

from opendp_tree.rows.tables import Table, snapshot_of


def test_a_frame_is_no_table():
    for frame in (pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]})):
        assert not isinstance(frame, Table)
        with snapshot_of(frame) as entered:
            assert entered is None
