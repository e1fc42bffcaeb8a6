"""Releases as the content of files (Parquet, CSV, NDJSON, Excel) and as frames of other libraries."""

from __future__ import annotations

import importlib
import io
import json
from datetime import date
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from opendp_tree._show import one_line
from opendp_tree.budget import PrivacyStatement
from opendp_tree.releases.json import write_statement

FORMATS = ("parquet", "csv", "ndjson", "json", "xlsx")
"""The formats of files, which are also the endings of their names."""
STATEMENT = "opendp_tree.statement"
"""The key of the metadata of a Parquet file that holds the privacy statement."""
# Excel's limits: rows below a header, exact integers, the first day with the right number.
_SHEET_ROWS, _EXACT, _EXCEL_DAY = 2**20 - 1, 2**53, date(1900, 3, 1)
_HEADER, _CELL = 127, 16_383  # characters, each of up to two of the units that Excel counts
# Spreadsheets skip spaces and invisible characters before a formula.
_MARK = r"^([\s\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u{2800}]*[=+\-@＝＋－＠]|[\t\r\n'])", "'${1}"
_TICKS = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}  # per day
_FIRST_DAY, _LAST_DAY = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (2, 9999))


def format_of(path: str | Path) -> str | None:
    """The format that the ending of a file's name stands for; None if it is unknown."""
    ending = Path(path).suffix.lower().removeprefix(".")
    name = {"jsonl": "ndjson", "pq": "parquet"}.get(ending, ending)
    return name if name in FORMATS else None


def frame_bytes(
    frame: pl.DataFrame, *, file_format: str, statement: PrivacyStatement | None = None, words: str = ""
) -> bytes:
    """A frame as the content of a file. Labels that the format cannot hold become texts."""
    buffer = io.BytesIO()
    if file_format == "xlsx":
        _write_excel(buffer, frame, statement, words)
    elif file_format == "parquet":
        metadata = None if statement is None else {STATEMENT: json.dumps(write_statement(statement))}
        frame.write_parquet(buffer, metadata=metadata)
    else:
        plain = frame.with_columns(_plain(column, file_format) for column in frame)
        (plain.write_csv if file_format == "csv" else plain.write_ndjson)(buffer)
    return buffer.getvalue()


def made_bytes(made: Any, file_format: str, frame: pl.DataFrame | None = None) -> bytes:
    """A release or report as the content of a file, with this frame instead of its own."""
    if file_format == "json":
        return bytes(made.to_json().encode())
    rows = made.to_frame() if frame is None else frame
    return frame_bytes(rows, file_format=file_format, statement=made.statement, words=made.describe())


def _write_excel(target: io.BytesIO, frame: pl.DataFrame, statement: PrivacyStatement | None, words: str) -> None:
    """A workbook with sheets for the rows and one for the statement. No text in it is a formula or a link."""
    plain = frame.with_columns(_excel_column(column) for column in frame)
    plain.columns = _excel_headers(frame.columns)
    texts = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
    with _required("xlsxwriter", "Excel", "opendp-tree[excel]").Workbook(target, {"in_memory": True, **texts}) as book:
        for part, start in enumerate(range(0, max(plain.height, 1), _SHEET_ROWS), start=1):
            name = "counts" if part == 1 else f"counts {part}"
            plain[start : start + _SHEET_ROWS].write_excel(book, name, autofit=True, freeze_panes=(1, 0))
        if statement is not None or words:
            _statement_frame(statement, words).write_excel(book, "statement", autofit=True)


def _excel_headers(names: list[str]) -> list[str]:
    """Names of printable characters that differ in more than upper and lower case, as Excel's tables require."""
    headers: dict[str, str] = {}
    for name in (one_line(name).replace("\ufffe", " ").replace("\uffff", " ") for name in names):
        header, number = name[:_HEADER] or "(no name)", 2
        while header.casefold() in headers:
            header, number = f"{name[: _HEADER - 9]}_{number}", number + 1
        headers[header.casefold()] = header
    return list(headers.values())


def _excel_column(column: pl.Series) -> pl.Series:
    """The column with values that Excel holds exactly: other integers and times are texts, infinities are empty."""
    dtype, exact = column.dtype, column.dtype == pl.Boolean
    if dtype.is_float():
        return column.set(~column.is_finite(), None)
    if dtype == pl.String:
        return column.str.slice(0, _CELL)
    if dtype.is_integer():
        ends: list[Any] = [column.min(), column.max()]
        exact = all(end is None or abs(end) <= _EXACT for end in ends)
    if dtype == pl.Date:
        exact = not ((column < _EXCEL_DAY) | _beyond(column)).any()
    return column if exact else label_texts(column)


def _statement_frame(statement: PrivacyStatement | None, words: str) -> pl.DataFrame:
    """The release in words, and each field of its statement, in two columns."""
    rows = [
        (head, value) if value else ("", head)
        for head, _, value in (line.partition(": ") for line in words.splitlines())
    ]
    if statement is not None:
        fields = statement.to_dict()
        loss, parameters = fields.pop("loss"), fields.pop("parameters")
        fields |= {f"loss {name}": _rounded_up(amount) for name, amount in loss.items()}
        fields |= {"Technical parameters": None, **parameters}
        rows += [(name, "" if value is None else str(value)) for name, value in fields.items()]
    lines = [(one_line(name), one_line(value)) for name, value in rows]
    return pl.DataFrame(lines, schema={"statement": pl.String, "value": pl.String}, orient="row")


def _rounded_up(amount: float) -> str:
    """An amount with at most six digits, never less than it is."""
    digits = Context(prec=6, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(repr(float(amount)))):.6g}"


def arrow_table(frame: pl.DataFrame, *, wanted_by: str = "to_arrow") -> Any:
    """The frame as a PyArrow table, without a copy if possible; 128-bit integers, which Arrow lacks, are texts."""
    _required("pyarrow", wanted_by)
    wide = (pl.Int128, pl.UInt128)
    return frame.with_columns(label_texts(column) for column in frame if column.dtype in wide).to_arrow()


def pandas_frame(frame: pl.DataFrame) -> Any:
    """The frame as a pandas frame. Integers and booleans have nullable types, so that labels keep their values."""
    pandas = _required("pandas", "to_pandas")
    # Python's times have no nanoseconds.
    table = arrow_table(frame.with_columns(selectors.time().cast(pl.String)), wanted_by="to_pandas")
    integers = [f"{sign}Int{8 << size}" for sign in ("", "U") for size in range(4)]
    names = {"bool": "boolean", **{name.lower(): name for name in integers}}
    types = {name: pandas.api.types.pandas_dtype(nullable) for name, nullable in names.items()}
    # Python has no years before 1.
    return table.to_pandas(types_mapper=lambda dtype: types.get(str(dtype)), date_as_object=False)


def _required(module: str, wanted_by: str, package: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        hint = f"Hint: pip install {package or module}"
        raise ImportError(f"{wanted_by} needs {module}, which is not installed. {hint}") from None


def spreadsheet_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before each text and column name that a spreadsheet would take for a formula."""
    texts = selectors.string(include_categorical=True) | selectors.by_dtype(pl.Enum)
    marked = frame.with_columns(texts.cast(pl.String).str.replace(*_MARK))
    marked.columns = pl.Series(frame.columns, dtype=pl.String).str.replace(*_MARK).to_list()
    return marked


def label_texts(labels: pl.Series) -> pl.Series:
    """Labels as texts. Polars panics at times beyond its calendar, which are written as numbers."""
    if isinstance(labels.dtype, pl.Duration):
        return labels.dt.to_string("iso")
    if not isinstance(labels.dtype, (pl.Date, pl.Datetime)):
        return labels.cast(pl.String)
    numbers, beyond = labels.to_physical(), _beyond(labels)
    # What is beyond becomes 0, not null: time zones are applied to what is under a null.
    known = pl.select(pl.when(beyond).then(0).otherwise(numbers)).to_series().cast(numbers.dtype).cast(labels.dtype)
    shown = pl.when(beyond).then(numbers.cast(pl.String)).otherwise(known.cast(pl.String))
    return pl.select(shown).to_series()


def _beyond(times: pl.Series) -> pl.Series:
    """Which days or instants are of years that Polars cannot show."""
    numbers, dtype = times.to_physical().cast(pl.Int64), times.dtype
    day = _TICKS[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1
    first, last = max(_FIRST_DAY * day, -(2**63)), min(_LAST_DAY * day, 2**63 - 1)
    return ((numbers < first) | (numbers > last)).fill_null(False)


def _plain(column: pl.Series, file_format: str) -> pl.Series:
    """The column itself if Polars can write all values of its type, or else its texts."""
    dtype = column.dtype
    wide = file_format == "ndjson" and dtype in (pl.Int128, pl.UInt128)
    timed = isinstance(dtype, (pl.Date, pl.Datetime)) and _beyond(column).any()
    return label_texts(column) if wide or timed or isinstance(dtype, pl.Duration) else column
