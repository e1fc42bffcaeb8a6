from datetime import date

import polars as pl
import pytest

from opendp_tree.releases.json import read_labels, write_labels


@pytest.mark.parametrize(
    ("labels", "written"),
    [
        (pl.Series(["a", None]), {"type": "text", "values": ["a", None]}),
        (pl.Series([True]), {"type": "boolean", "values": [True]}),
        (pl.Series([1], dtype=pl.UInt8), {"type": "uint8", "values": [1]}),
        (pl.Series([date(1970, 1, 2)]), {"type": "date", "values": [1]}),
        (
            pl.Series([7]).cast(pl.Datetime("ms", "UTC")),
            {"type": "datetime", "unit": "ms", "zone": "UTC", "values": [7]},
        ),
        (pl.Series([7]).cast(pl.Duration("us")), {"type": "duration", "unit": "us", "values": [7]}),
        (pl.Series([7]).cast(pl.Time), {"type": "time", "values": [7]}),
    ],
)
def test_each_type_has_its_text(labels, written):
    assert write_labels(labels) == written
    assert read_labels(written).equals(labels, check_dtypes=True)


def test_values_are_not_bent_into_a_type():
    for kind, value in (
        ("int8", True),
        ("int8", 300),
        ("text", 5),
        ("boolean", 1),
        ("date", "1970-01-01"),
        ("uint8", -1),
    ):
        with pytest.raises(ValueError, match=f"labels of type '{kind}' must be of that type"):
            read_labels({"type": kind, "values": [value]})
