import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import frame_domain
from opendp_tree.rows.frame_domain import column_kinds


def test_members_are_frames_with_the_columns():
    domain = frame_domain({"a": pl.String, "b": pl.Int64})
    frame = pl.DataFrame({"b": [1], "a": ["x"], "c": [0.5]})
    assert domain.member(frame)
    assert domain.member(frame.lazy())
    for other in (frame.drop("a"), frame.cast({"b": pl.Int32}), frame.to_dict(as_series=False), None, 7):
        assert not domain.member(other)


def test_domains_are_equal_if_their_columns_are():
    """OpenDP compares by the identifier alone."""
    types = [
        {"a": pl.String},
        {"b": pl.String},
        {"a": pl.String, "b": pl.String},
        {"a": pl.Int64},
        {"a": pl.Int32},
        {"a": pl.Categorical},
        {"a": pl.Enum(["x"])},
        {"a": pl.Enum(["x", "y"])},
        {"a": pl.Enum(["x', 'y"])},
        {"a": pl.Enum([str(n) for n in range(99)])},
        {"a": pl.Enum([str(n) for n in range(98)] + ["z"])},
        {"a": pl.Datetime("us")},
        {"a": pl.Datetime("ns")},
        {"a": pl.Datetime("us", "UTC")},
        {"a': String, 'b": pl.String},
    ]
    domains = [frame_domain(columns) for columns in types]
    for place, domain in enumerate(domains):
        assert [domain == other for other in domains] == [place == number for number in range(len(domains))]
    assert frame_domain({"a": pl.String, "b": pl.Date}) == frame_domain({"b": pl.Date, "a": str})
    assert frame_domain(pl.DataFrame({"a": ["x"]})) == frame_domain(pl.LazyFrame({"a": ["x"]})) == domains[0]


def test_both_kinds_of_domains_tell_what_columns_hold():
    frame = pl.DataFrame(
        schema={
            "text": pl.String,
            "category": pl.Categorical,
            "small": pl.Int32,
            "large": pl.UInt64,
            "truth": pl.Boolean,
            "date": pl.Date,
            "datetime": pl.Datetime("ms"),
            "time": pl.Time,
        }
    )
    kinds = ["text", "text", "integer", "integer", "truth", "date", "datetime", "time"]
    assert list(column_kinds(frame_domain(frame)).values()) == kinds
    assert list(column_kinds(dp.domain_of(frame.lazy(), infer=True)).values()) == kinds


@pytest.mark.parametrize("columns", [None, {}, ["a"], 7, "a"])
def test_wrong_columns_are_named(columns):
    with pytest.raises(TypeError, match="columns must give each column's data type, or be a frame"):
        frame_domain(columns)
