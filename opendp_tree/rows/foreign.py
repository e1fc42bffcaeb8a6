"""Frames of other libraries as Polars frames: by Arrow's protocol where there is one, and then without a copy."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl

from opendp_tree.rows.declared import value_column
from opendp_tree.rows.groups import guarded

__all__ = ["arrow_frame", "is_one_shot", "read_foreign", "read_rows", "unwrapped"]

_PLAIN_KINDS = "biufmM"
"""NumPy's letters for the types that Arrow takes as they are: truths, numbers, times."""
_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""The streams that were read. A stream that is read again is empty, and a release of nothing looks like any other."""


class _Stream:
    """An object by its Arrow stream alone, so that Polars takes this way for every library."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


def arrow_frame(data: Any) -> pl.DataFrame:
    """What has Arrow's stream protocol, as a frame of valid texts."""
    return _with_valid_texts(pl.DataFrame(_Stream(data)))


def _with_valid_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, whose texts Arrow does not check: bytes that are no UTF-8 are replaced, in each text by itself."""
    texts = [column for column in frame if column.dtype in (pl.String, pl.Categorical)]
    return frame.with_columns(_valid_texts(column) for column in texts)


def _valid_texts(column: pl.Series) -> pl.Series:
    values = column.cast(pl.String).cast(pl.Binary)
    with suppress(pl.exceptions.ComputeError):
        values.cast(pl.String)  # Polars checks all at once: then each text is as it would be alone
        return column
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
    return pl.Series(column.name, texts, dtype=column.dtype)


def is_one_shot(data: Any) -> bool:
    """Whether this is a stream, which can be read only once: a reader of batches is an iterator, a table is not."""
    return hasattr(data, "__next__") and hasattr(data, "__arrow_c_stream__")


def read_rows(rows: Sequence[Any], schema: pl.Schema) -> pl.DataFrame:
    """Rows that are mappings, as a frame of the declared columns and no others."""
    if not schema:
        raise TypeError(
            "a list of rows must come with the data types of its columns: types must not be found in rows. "
            "Hint: read_source(rows, schema={'city': pl.String})"
        )
    return pl.DataFrame([value_column(name, [_get(row, name) for row in rows], schema[name]) for name in schema])


def _get(row: Any, name: str) -> Any:
    try:
        return row.get(name)
    except Exception:  # no mapping, or one of somebody's own
        return None


def read_foreign(data: Any) -> pl.DataFrame | None:
    """The frame of another library; None for what is no frame."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _read_pandas(data)
    if isinstance(data, pl.Series) or (pandas is not None and isinstance(data, pandas.Series)):
        raise TypeError("the data (Series) must be a frame. Hint: series.to_frame('name')")
    if _holds_objects(data):
        raise TypeError(
            f"the data ({type(data).__name__}) must not hold columns of Python objects, whose types are found in rows. "
            "Hint: astype('string'), or another type that says what is in them"
        )
    if hasattr(data, "__arrow_c_stream__"):
        return _read_stream(data)
    if hasattr(data, "__dataframe__"):
        return guarded(lambda: _with_valid_texts(pl.from_dataframe(data)))
    collected = _collected(data)
    return None if collected is None else read_foreign(collected)


def unwrapped(data: Any) -> Any:
    """The frame within a frame of Narwhals, and anything else as it is."""
    ours = type(data).__module__.split(".")[0] == "narwhals" and hasattr(data, "to_native")
    return data.to_native() if ours else data


def _collected(data: Any) -> Any:
    """A frame that only Narwhals knows, as the frame in memory that its library has for it; None for anything else."""
    try:
        import narwhals
    except ImportError:
        return None
    try:
        known: Any = narwhals.from_native(data)
    except Exception:
        return None
    lazy = isinstance(known, narwhals.LazyFrame)
    return guarded(lambda: known.collect().to_native() if lazy else known.to_arrow())


def _holds_objects(data: Any) -> bool:
    """Whether a frame that is like those of pandas has columns without a type. Arrow would look at their rows."""
    types = getattr(data, "dtypes", None)
    return any(str(dtype) == "object" for dtype in (types if isinstance(types, Iterable) else ()))


def _read_stream(data: Any) -> pl.DataFrame:
    if is_one_shot(data):
        if data in _READ:
            raise ValueError("the data is a stream that was read already. Hint: frame = read_source(stream), once")
        _remember(data)
    return guarded(lambda: arrow_frame(data))


def _remember(stream: Any) -> None:
    with suppress(TypeError):  # some classes have objects that cannot be remembered
        _READ.add(stream)


def _read_pandas(data: Any) -> pl.DataFrame:
    """A pandas frame without its index. Columns of objects are refused: pandas knows no type for them."""
    if find_spec("pyarrow") is None or not hasattr(data, "__arrow_c_stream__"):
        raise ImportError("a pandas frame must come with PyArrow and pandas 2.2 or later. Hint: pip install pyarrow")
    names = list(data.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TypeError("the data: columns must have names that are texts, each once. Hint: frame.columns = [...]")
    texts = [_is_python_text(name, dtype) for name, dtype in zip(names, data.dtypes, strict=True)]
    return pl.DataFrame([_pandas_column(data[name], text) for name, text in zip(names, texts, strict=True)])


def _pandas_column(column: Any, python_text: bool) -> pl.Series:
    """One column at a time: pandas copies what it selects several of."""
    import pandas as pd

    if python_text:
        dtype = pl.Categorical() if isinstance(column.dtype, pd.CategoricalDtype) else pl.String()
        return value_column(column.name, guarded(column.tolist), dtype)
    if not isinstance(column.index, pd.RangeIndex):  # any other would come along, and Arrow look at its rows
        column = column.reset_index(drop=True)
    return guarded(lambda: arrow_frame(column.to_frame()).to_series())


def _is_python_text(name: str, dtype: Any) -> bool:
    """Whether a column holds Python's texts, which are read here; Arrow reads any other. Looks at no value."""
    import pandas as pd

    inner = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    if isinstance(inner, np.dtype) and inner.kind == "O":
        raise TypeError(
            f"the data: column {name!r} ({dtype}) must not hold Python objects, whose types are found in rows. "
            f"Hint: frame.astype({{{name!r}: 'string'}}), or another type of pandas that says what is in it"
        )
    if isinstance(inner, pd.StringDtype):
        return bool(inner.storage == "python")
    nullable = ("Int", "UInt", "Float", "boolean")
    known = isinstance(inner, (pd.ArrowDtype, pd.DatetimeTZDtype)) or str(inner).startswith(nullable)
    if known or (isinstance(inner, np.dtype) and inner.kind in _PLAIN_KINDS):
        return False
    raise TypeError(f"the data: column {name!r} ({dtype}) must hold texts, numbers, truths or times. Hint: astype")
