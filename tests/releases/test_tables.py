import polars as pl
import pytest

from opendp_tree.releases.words import error_rows, nested_rows, with_truth

ROWS = pl.LazyFrame({"a": ["x"] * 5 + [None] * 3 + ["y"], "b": ["1", "1", "2", None, None, "1", "1", "1", "9"]})
RELEASE = pl.DataFrame(
    [
        (0, None, None, 10.0, False),
        (1, "x", None, 4.0, False),
        (1, None, None, 3.5, False),
        (1, "z", None, 1.0, False),
        (1, "(other)", None, 1.5, True),
        (2, "x", "1", 2.0, False),
        (2, "x", None, 2.5, False),
    ],
    schema=["level", "a", "b", "estimate", "other"],
    orient="row",
).with_columns(lower=pl.col("estimate") - 1, upper=pl.col("estimate") + 1, shown=True)


def test_the_truth_is_that_of_a_group_by_with_null_as_a_label():
    found = with_truth(RELEASE, ROWS, ["a", "b"])
    assert found["truth"].to_list() == [9, 5, 3, 0, 2, 2]
    assert found["error"].to_list() == [1.0, -1.0, 0.5, 1.0, 0.0, 0.5]


def test_the_largest_children_come_under_their_parent():
    nodes = nested_rows(with_truth(RELEASE, ROWS, ["a", "b"]), ["a", "b"], most=2)
    assert [row[0] for row in nodes] == ["all", "  x", "    None", "    1", "  None"]
    assert nodes[0] == ("all", 10.0, 1.0, 9, 1.0)


def test_errors_by_level():
    found = error_rows(with_truth(RELEASE, ROWS, ["a", "b"]))
    assert [row[:2] for row in found] == [(0, 1), (1, 3), (2, 2)]
    assert found[1][2] == pytest.approx(((1 + 0.25 + 1) / 3) ** 0.5)
    assert found[1][3] == 1.0
