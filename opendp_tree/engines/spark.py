"""Tables of Apache Spark: rows are counted there by key, or by person and key, and the release is made here.

What runs in Spark is a deterministic function of the rows, so a task that is run again gives the same rows again. Under
ANSI rules, which Spark 4 has by default, a value may make a cast or a sum raise: nothing here casts what could fail, or
adds up to more than fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import polars as pl

from opendp_tree.engines.sql import LONGEST_TEXT
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KeyKind, key_names
from opendp_tree.rows.grouping import PEOPLE, UNIT, guarded

__all__ = ["SparkTable"]

_DTYPES: dict[str, Any] = {
    "string": pl.String,
    "char": pl.String,
    "varchar": pl.String,
    "tinyint": pl.Int8,
    "smallint": pl.Int16,
    "int": pl.Int32,
    "bigint": pl.Int64,
    "boolean": pl.Boolean,
    "date": pl.Date,
    "timestamp_ntz": pl.Datetime("us"),
    "float": pl.Float32,
    "double": pl.Float64,
    "decimal": pl.Decimal(38, 18),
    "binary": pl.Binary,
}


@dataclass(frozen=True)
class SparkTable:
    """The rows of a Spark frame, for `release_tree`: they are counted in Spark, and counts are brought to the driver.

    Nothing is cached or written. The frame must give the same rows whenever Spark asks for them: one that says that it
    does not (`rand`, a function marked as non-deterministic) is refused, and so is speculative execution, which takes
    the quicker of two runs. See docs/engines.md.

    Parameters
    ----------
    frame
        A frame of Spark 4, of a classic session; streams are refused.

    Examples
    --------
    >>> from opendp_tree.engines.spark import SparkTable
    >>> SparkTable("visits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: frame (str) must be a Spark frame. Hint: ...

    """

    frame: Any

    def __post_init__(self) -> None:
        _check_frame(self.frame)
        check_session(self.frame)

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row."""
        zone = _zone(self.frame)
        return pl.Schema({field.name: _dtype(field.dataType, zone) for field in self.frame.schema.fields})

    def rows_per_key(self, key: Key, unit: str | None = None) -> pl.DataFrame:
        """How many rows each key has; of rows with an identifier alone where `unit` is given.

        Parameters
        ----------
        key
            Where rows belong.
        unit
            The column that tells people apart. By default None: all rows are counted.
        """
        rows = self._selected(key, unit)
        return self._counted(rows if unit is None else rows.where(rows[UNIT].isNotNull()), key_names(key))

    def rows_per_person(self, key: Key, unit: str, part: int, parts: int) -> pl.LazyFrame:
        """How many rows each person has at each key, of the people of one part.

        Parameters
        ----------
        key
            Where rows belong.
        unit
            The column that tells people apart.
        part, parts
            Which part, of how many.
        """
        from pyspark.sql import functions as f

        rows = self._selected(key, unit)
        rows = rows.where(rows[UNIT].isNotNull() & (f.pmod(f.xxhash64(UNIT), f.lit(parts)) == f.lit(part)))
        return self._counted(rows, [UNIT, *key_names(key)]).lazy()

    def snapshot(self) -> AbstractContextManager[object]:
        """Nothing: what a frame is read from must not change, and Spark cannot say whether it does."""
        return nullcontext()

    def _selected(self, key: Key, unit: str | None) -> Any:
        """The columns that are used, as they are told apart. By their places: names may differ in case alone."""
        from pyspark.sql import functions as f

        check_session(self.frame)
        fields = {field.name: (place, field.dataType) for place, field in enumerate(self.frame.schema.fields)}
        placed = self.frame.toDF(*(f"c{place}" for place in range(len(fields))))
        columns = []
        for name, used, owner in zip(key_names(key), key.columns_used, key.column_owners, strict=True):
            place, kind = fields[used]
            columns.append(_key_column(f.col(f"c{place}"), kind, owner).alias(name))
        if unit is not None:
            place, kind = fields[unit]
            columns.append(_person(f.col(f"c{place}"), kind, unit).alias(UNIT))
        return placed.select(*columns)

    def _counted(self, rows: Any, by: Sequence[str]) -> pl.DataFrame:
        """What one action gives. Spark's own words may quote rows."""
        from pyspark.sql import functions as f

        counts = rows.groupBy(*by).agg(f.count(f.lit(1)).alias(PEOPLE))
        found = guarded(lambda: pl.DataFrame(counts.toArrow()))
        zone = _zone(self.frame)
        local = [
            pl.col(name).dt.convert_time_zone(zone)
            for name, dtype in found.schema.items()
            if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None and name != UNIT
        ]
        return found.with_columns(local)


def _key_column(column: Any, kind: Any, key: KeyKind) -> Any:
    """A column as rows are grouped by it."""
    from pyspark.sql import functions as f

    name = _type_name(kind)
    if name in ("string", "char", "varchar"):
        # Byte by byte, whatever the collation; what is no text cannot be brought to Python, and counts as null.
        return _shortened(f.try_validate_utf8(f.collate(column, "UTF8_BINARY")))
    if key.time_step is not None and name.startswith("timestamp"):
        days = f.unix_date(column.cast("date")).cast("bigint")
        return days * f.lit(24) + f.hour(column) if key.time_step == "hour" else days
    return column


def _person(column: Any, kind: Any, unit: str) -> Any:
    """An identifier, equal values alike: texts as their bytes, one NaN, one zero."""
    from pyspark.sql import functions as f

    name = _type_name(kind)
    if name in ("string", "char", "varchar"):
        if "collate" in kind.simpleString():
            raise ValueError(
                f"unit ({unit!r}) must be told apart byte by byte, but the column has a collation of its own. "
                "Hint: collate(column, 'UTF8_BINARY'), in lower case first if case does not tell people apart"
            )
        return _shortened(column).cast("binary")
    if name in ("float", "double"):
        return f.when(f.isnan(column), f.lit(float("nan")).cast(name)).otherwise(column + f.lit(0.0).cast(name))
    return column


def _shortened(text: Any) -> Any:
    """A text, or what stands for a long one, as in the other engines."""
    from pyspark.sql import functions as f

    short = f.concat(f.substring(text, 1, LONGEST_TEXT), f.sha2(text, 256))
    return f.when(f.octet_length(text) > f.lit(LONGEST_TEXT), short).otherwise(text)


def _dtype(kind: Any, zone: str) -> Any:
    """The data type that stands for one of Spark's; an object's, which nothing can be counted by, for all others."""
    name = _type_name(kind)
    return pl.Datetime("us", zone) if name == "timestamp" else _DTYPES.get(name, pl.Object)


def _type_name(kind: Any) -> str:
    """What SQL calls a type, without its parameters and collation."""
    return str(kind.simpleString()).split("(")[0].split(" ")[0]


def _zone(frame: Any) -> str:
    """The time zone by whose clock Spark reads times."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    try:
        pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("us", zone))
    except Exception:
        raise ValueError(
            f"spark.sql.session.timeZone ({zone!r}) must be a zone's name. Hint: 'UTC', or 'Europe/Brussels'"
        ) from None
    return str(zone)


def _check_frame(frame: Any) -> None:
    try:
        from pyspark.sql import DataFrame
    except ImportError:
        raise TypeError(f"frame ({type(frame).__name__}) must be a Spark frame. Hint: pip install pyspark") from None
    if not isinstance(frame, DataFrame):
        hint = f"Hint: spark.table({frame!r})" if isinstance(frame, str) else "Hint: spark.createDataFrame"
        raise TypeError(f"frame ({type(frame).__name__}) must be a Spark frame. {hint}")
    if getattr(frame, "_jdf", None) is None:
        raise TypeError("frame must be of a classic Spark session. Hint: SparkSession.builder.master(...), not remote")
    if frame.isStreaming:
        raise ValueError("frame must not be a stream, which never ends. Hint: spark.read")
    names = frame.columns
    if len(set(names)) < len(names):
        raise ValueError("frame: columns must have different names. Hint: frame.toDF(...)")
    if not frame._jdf.queryExecution().analyzed().deterministic():
        raise ValueError(
            "frame must give the same rows whenever Spark asks for them: a part of it is not deterministic. "
            "Hint: write it to a table first, and read that"
        )


def check_session(frame: Any) -> None:
    """That no task runs twice at once, the quicker of them to count."""
    session = frame.sparkSession
    given = session.conf.get("spark.speculation", "false"), session.sparkContext.getConf().get("spark.speculation")
    if any(str(value).lower() == "true" for value in given):
        raise ValueError(
            "spark.speculation (true) must be false: of two runs it takes the quicker, and how long one takes depends "
            "on data and noise. Hint: SparkSession.builder.config('spark.speculation', 'false')"
        )
