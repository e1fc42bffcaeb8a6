import io
import json

import polars as pl
import pytest

from opendp_tree.releases import writing
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.releases.writing import STATEMENT, arrow_table, frame_bytes, pandas_frame, unwritable

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128]
TIMES = [
    pl.Date,
    *(pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Brussels")),
    *(pl.Duration(unit) for unit in ("ms", "us", "ns")),
]


def extremes(dtype):
    physical = pl.Series([], dtype=dtype).to_physical().dtype
    ends = pl.concat([pl.select(end).to_series().cast(physical) for end in (physical.min(), physical.max())])
    return ends.append(pl.Series([0, 1, None], dtype=physical)).cast(dtype).alias("label").to_frame()


@pytest.mark.parametrize("dtype", [*INTEGERS, *TIMES], ids=str)
@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_every_label_of_every_type_can_be_written_in_every_format(dtype, form, capfd):
    frame = extremes(dtype)
    content = frame_bytes(frame, file_format=form)
    assert unwritable(frame.schema, file_format=form) == []
    assert capfd.readouterr().err == ""  # no panic that was caught
    if form == "parquet":
        assert pl.read_parquet(io.BytesIO(content)).equals(frame)
        return
    lines = content.decode().splitlines()
    texts = [json.loads(line)["label"] for line in lines] if form == "ndjson" else lines[1:]
    assert len(set(texts)) == frame["label"].n_unique()
    if dtype in (pl.Int128, pl.UInt128):
        assert [int(text) for text in texts[:4]] == frame["label"].to_list()[:4]


def test_times_that_polars_can_show_are_written_as_polars_does():
    frame = extremes(pl.Datetime("us", "Europe/Brussels"))[2:]
    for form, write in (("csv", pl.DataFrame.write_csv), ("ndjson", pl.DataFrame.write_ndjson)):
        buffer = io.BytesIO()
        write(frame, buffer)
        assert frame_bytes(frame, file_format=form) == buffer.getvalue()


def test_what_no_text_can_hold_is_found_before_it_is_written():
    schema = pl.Schema({"fine": pl.String, "bytes": pl.Binary, "list": pl.List(pl.Int64), "truth": pl.Boolean})
    assert unwritable(schema, file_format="csv") == ["bytes", "list"]
    assert unwritable(schema, file_format="parquet") == []


@pytest.mark.parametrize("dtype", [*INTEGERS, *TIMES, pl.String, pl.Boolean, pl.Float64], ids=str)
def test_every_label_of_every_type_goes_to_arrow_and_pandas_and_comes_back(dtype):
    plain = isinstance(dtype, pl.DataType) or dtype in (*INTEGERS, pl.Date)
    frame = extremes(dtype) if plain else pl.DataFrame({"label": [1, 0, None]}).cast({"label": dtype})
    if dtype not in (*INTEGERS, pl.Date) and plain:
        frame = frame[1:]  # the least of 64 bits is how pandas writes null
    for label in (pl.DataFrame(arrow_table(frame))["label"], pl.from_pandas(pandas_frame(frame))["label"]):
        if dtype in (pl.Int128, pl.UInt128):
            assert label.to_list() == [None if value is None else str(value) for value in frame["label"].to_list()]
        else:
            assert label.cast(dtype).equals(frame["label"])


def test_estimates_are_not_copied_on_their_way_to_arrow():
    frame = pl.DataFrame({"estimate": [float(number) for number in range(9999)]})
    buffer = arrow_table(frame)["estimate"].chunk(0).buffers()[1]
    assert buffer.address == frame["estimate"]._get_buffer_info()[0]


@pytest.mark.parametrize(
    ("missing", "write"), [("pyarrow", arrow_table), ("pandas", pandas_frame), ("pyarrow", pandas_frame)]
)
def test_what_is_not_installed_is_named(monkeypatch, missing, write):
    real = writing.importlib.import_module

    def absent(name):
        if name == missing:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(writing.importlib, "import_module", absent)
    method = "to_arrow" if write is arrow_table else "to_pandas"
    with pytest.raises(ImportError, match=rf"{method} needs {missing}, which .* Hint: pip install {missing}"):
        write(pl.DataFrame({"estimate": [1.0]}))


def test_parquet_says_what_is_counted_and_what_it_cost():
    statement = PrivacyStatement("none", "max_divergence()", 1, {"epsilon": 1.0}, {}, "one row", "rows")
    content = frame_bytes(pl.DataFrame({"path": ["a"]}), file_format="parquet", statement=statement)
    assert json.loads(pl.read_parquet_metadata(io.BytesIO(content))[STATEMENT]) == statement.to_dict()
    plain = frame_bytes(pl.DataFrame({"path": ["a"]}), file_format="parquet")
    assert STATEMENT not in pl.read_parquet_metadata(io.BytesIO(plain))
