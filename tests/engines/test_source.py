from opendp_tree.engines import source
from opendp_tree.rows import tables


def test_engines_speak_of_the_table_that_rows_ask_for():
    assert source.Table is tables.Table
