"""Tables of Apache Spark: rows are counted there by key, or by person and key, and the release is made here.

What runs in Spark is a deterministic function of the rows, so a task that runs again gives the same rows. Under ANSI
rules, the default of Spark 4, casts and sums may raise: nothing here casts a value that could fail, or can overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import polars.selectors as cs

from opendp_tree.engines.sql import LONGEST_TEXT
from opendp_tree.keys.key import Key, KeyKind, key_names
from opendp_tree.rows.domains import PEOPLE, UNIT, Table, guarded

_TEXTS = ("string", "char", "varchar")
_DTYPES: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, pl.String),
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
class SparkTable(Table):
    """The rows of a Spark frame, for `release_tree`: they are counted in Spark, and counts are brought to the driver.

    Nothing is cached or written. The frame must give the same rows whenever Spark reads it: one that is marked as
    non-deterministic (`rand`, some functions) is refused, and so is speculative execution, which takes the quicker of
    two runs. See docs/data.md#databases-and-spark.

    :param frame: A frame of Spark 4, of a classic session; streams are refused.
    """

    frame: Any

    def __post_init__(self) -> None:
        _check_frame(self.frame)
        _check_session(self.frame)

    def column_types(self) -> pl.Schema:
        """The columns and their types in Polars. No row is read."""
        known = {**_DTYPES, "timestamp": pl.Datetime("us", _zone(self.frame))}
        # All other types become objects, which no key takes.
        fields = self.frame.schema.fields
        return pl.Schema({field.name: known.get(_type_name(field.dataType), pl.Object) for field in fields})

    def _counted(self, key: Key, unit: str | None, by: Sequence[str], part: int = 0, parts: int = 1) -> pl.DataFrame:
        """How many rows there are by some of the key's columns and the identifier, by one action of Spark."""
        from pyspark.sql import functions as f

        _check_session(self.frame)
        fields = {field.name: (f"c{index}", field.dataType) for index, field in enumerate(self.frame.schema.fields)}
        # By their indices: names may differ in case alone.
        indexed = self.frame.toDF(*(name for name, _ in fields.values()))
        columns = [
            _key_column(f, f.col(fields[used][0]), fields[used][1], owner).alias(name)
            for name, used, owner in zip(key_names(key), key.columns_used, key.column_owners, strict=True)
        ]
        if unit is None:
            rows = indexed.select(*columns)
        else:
            column, kind = fields[unit]
            rows = indexed.select(*columns, _person(f, f.col(column), kind, unit).alias(UNIT))
            rows = rows.where(rows[UNIT].isNotNull() & (f.pmod(f.xxhash64(UNIT), f.lit(parts)) == f.lit(part)))
        counts = rows.groupBy(*by).agg(f.count(f.lit(1)).alias(PEOPLE))
        groups = guarded(lambda: pl.DataFrame(counts.toArrow()))
        local = cs.datetime(time_zone="*").exclude(UNIT).dt.convert_time_zone(_zone(self.frame))
        return groups.with_columns(local)


def _key_column(f: Any, column: Any, kind: Any, key: KeyKind) -> Any:
    """A column as rows are grouped by it; `f` is Spark's module of functions."""
    name = _type_name(kind)
    if name in _TEXTS:
        # Byte by byte, whatever the collation; bytes that are no UTF-8 cannot be read in Python, and count as null.
        return _shortened(f, f.try_validate_utf8(f.collate(column, "UTF8_BINARY")))
    if key.time_step is not None and name.startswith("timestamp"):
        days = f.unix_date(column.cast("date")).cast("bigint")
        return days * f.lit(24) + f.hour(column) if key.time_step == "hour" else days
    return column


def _person(f: Any, column: Any, kind: Any, unit: str) -> Any:
    """An identifier, with one form for equal values: texts as their bytes, one NaN, one zero."""
    name = _type_name(kind)
    if name in _TEXTS:
        if "collate" in kind.simpleString():
            raise ValueError(
                f"unit ({unit!r}) must be compared byte by byte, but the column has a collation. "
                "Hint: collate(column, 'UTF8_BINARY'), in lower case first if people are the same whatever the case"
            )
        return _shortened(f, column).cast("binary")
    if name in ("float", "double"):
        return f.when(f.isnan(column), f.lit(float("nan")).cast(name)).otherwise(column + f.lit(0.0).cast(name))
    return column


def _shortened(f: Any, text: Any) -> Any:
    """A text, or a long one's replacement, as in the other engines."""
    short = f.concat(f.substring(text, 1, LONGEST_TEXT), f.sha2(text, 256))
    return f.when(f.octet_length(text) > f.lit(LONGEST_TEXT), short).otherwise(text)


def _type_name(kind: Any) -> str:
    """What SQL calls a type, without its parameters and collation."""
    return str(kind.simpleString()).split("(")[0].split(" ")[0]


def _zone(frame: Any) -> str:
    """The time zone by whose clock Spark reads times."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    try:
        pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("us", zone))
    except Exception:
        raise ValueError(f"spark.sql.session.timeZone ({zone!r}) must be a zone's name. Hint: 'UTC'") from None
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
        raise ValueError("frame must always give the same rows: it is not deterministic. Hint: write it to a table")


def _check_session(frame: Any) -> None:
    """That Spark does not run a task twice at once and take the quicker run."""
    session = frame.sparkSession
    settings = session.conf.get("spark.speculation", "false"), session.sparkContext.getConf().get("spark.speculation")
    if any(str(value).lower() == "true" for value in settings):
        raise ValueError(
            "spark.speculation (true) must be false: it takes the quicker of two runs, and their times depend on data. "
            "Hint: SparkSession.builder.config('spark.speculation', 'false')"
        )
