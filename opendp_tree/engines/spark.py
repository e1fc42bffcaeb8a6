"""Tables of Apache Spark: people are bounded and leaves counted there, and the release is made of what comes back.

What runs in Spark is a deterministic function of the rows and the salt, so a task that is run again gives the same rows
again. Under ANSI rules, which Spark 4 has by default, a value may make a cast or a sum raise: nothing here casts what
could fail, or adds up to more than fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from opendp_tree._arguments import check_integer
from opendp_tree.engines.source import PEOPLE, UNIT, guarded, key_names
from opendp_tree.keys.key import Key
from opendp_tree.keys.key_levels import KeyLevels
from opendp_tree.rows.unit import Unit

if TYPE_CHECKING:
    from opendp_tree.trees.distant_counts import DistantCounts

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
    """The rows of a Spark frame, for `release_tree`: people are bounded and leaves counted in Spark.

    Nothing is cached, written, or run but the one action that a release needs. The frame must give the same rows
    whenever Spark asks for them: one that says that it does not (`rand`, a function marked as non-deterministic) is
    refused, and so is speculative execution, which takes the quicker of two runs. See docs/engines.md.

    Parameters
    ----------
    frame
        A frame of Spark 4, of a classic session; streams are refused.
    subtrees
        For open trees with more leaves than the driver can hold: the level, by column or by number, whose subtrees
        executors handle by themselves, bringing to the driver what is shown of them and one number for each. It needs
        the partition. By default None: the counts of all leaves are brought to the driver.

    Examples
    --------
    >>> from opendp_tree.engines.spark import SparkTable
    >>> SparkTable("visits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: frame (str) must be a Spark frame. Hint: ...

    """

    frame: Any
    subtrees: int | str | None = None

    def __post_init__(self) -> None:
        _check_frame(self.frame)
        check_session(self.frame)
        if self.subtrees is not None and not isinstance(self.subtrees, str):
            object.__setattr__(self, "subtrees", check_integer(self.subtrees, name="subtrees", least=1))

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row."""
        zone = _zone(self.frame)
        return pl.Schema({field.name: _dtype(field.dataType, zone) for field in self.frame.schema.fields})

    def leaf_counts(self, key: Key, unit: Unit | None, salt: bytes) -> pl.DataFrame:
        """How many rows each key has, of those that are kept: one row a key.

        Parameters
        ----------
        key
            Where rows belong.
        unit
            Who is bounded, and how; None for all rows.
        salt
            What the hash that orders a person's leaves begins with.
        """
        names = key_names(key)
        if unit is None:
            return self._collected(self.grouped(key), key)
        pairs = self.pairs(key, unit.column)
        if key.drops_nulls:
            pairs = pairs.dropna(subset=names)
        return self._collected(bounded(pairs, names, unit, salt), key)

    def records(self, key: Key, unit: str, salt: bytes, part: int, parts: int) -> pl.DataFrame:
        """How many rows each person has of each key, of the people of one of so many parts, in the column `unit`.

        Parameters
        ----------
        key
            Where rows belong.
        unit
            The column that tells people apart.
        salt
            What the hash that tells people's parts begins with.
        part, parts
            Which part, of how many.
        """
        from pyspark.sql import functions as f

        pairs = self.pairs(key, unit, f.pmod(f.xxhash64(*_salted(salt), UNIT), f.lit(parts)) == f.lit(part))
        return self._collected(pairs, key)

    def distant_counts(self, key: Key, unit: Unit | None, salt: bytes) -> DistantCounts | None:
        """Counts that stay in Spark, subtree by subtree; None where they are to be brought to the driver.

        Parameters
        ----------
        key, unit, salt
            As for `leaf_counts`.
        """
        if self.subtrees is None:
            return None
        from opendp_tree.engines.spark_subtrees import spread

        return spread(self, key, unit, salt, _level(self.subtrees, key))

    def grouped(self, key: Key) -> Any:
        """A frame of Spark: how many rows each key has, all rows counted.

        Parameters
        ----------
        key
            Where rows belong.
        """
        from pyspark.sql import functions as f

        return self._selected(key, None).groupBy(key_names(key)).agg(f.count(f.lit(1)).alias(PEOPLE))

    def pairs(self, key: Key, unit: str, *conditions: Any) -> Any:
        """A frame of Spark: how many rows each person has of each key. People are together from here on.

        Parameters
        ----------
        key
            Where rows belong.
        unit
            The column that tells people apart.
        conditions
            What else rows must fulfil, as columns of Spark.
        """
        from pyspark.sql import functions as f

        rows = self._selected(key, unit).where(f.col(UNIT).isNotNull())
        for condition in conditions:
            rows = rows.where(condition)
        return rows.repartition(UNIT).groupBy(UNIT, *key_names(key)).agg(f.count(f.lit(1)).alias(PEOPLE))

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

    def _collected(self, frame: Any, key: Key) -> pl.DataFrame:
        """What one action gives. Spark's own words may quote rows."""
        found = guarded(lambda: pl.DataFrame(frame.toArrow()))
        zone = _zone(self.frame)
        local = [
            pl.col(name).dt.convert_time_zone(zone)
            for name in key_names(key)
            if isinstance(found.schema[name], pl.Datetime) and found.schema[name].time_zone is not None  # type: ignore[attr-defined]
        ]
        return found.with_columns(local)


def bounded(pairs: Any, leaf: Sequence[str], unit: Unit, salt: bytes) -> Any:
    """How many rows of each leaf are kept, a frame of Spark, from how many each person has at each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    hashed = [part for name in leaf for part in (f.col(name), f.col(name).isNull())]
    people = f.col(PEOPLE)
    if unit.leaves is not None:
        people = f.least(people, f.lit(unit.rows_per_leaf))
    placed = pairs.select(UNIT, *leaf, people.alias(PEOPLE), f.xxhash64(*_salted(salt), UNIT, *hashed).alias("place"))
    own = Window.partitionBy(UNIT).orderBy("place", *leaf)
    so_far = own.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    kept = f.col(PEOPLE)
    if unit.leaves is not None:  # counted as a long: a person's leaves may be many
        placed = placed.withColumn("rank", f.count(f.lit(1)).over(so_far))
        placed = placed.where(f.col("rank") <= f.lit(unit.leaves))
    if unit.rows is not None:
        placed = placed.withColumn("before", f.sum(PEOPLE).over(so_far) - f.col(PEOPLE))
        kept = f.least(kept, f.lit(unit.rows) - f.col("before"))
    placed = placed.select(*leaf, kept.alias(PEOPLE)).where(f.col(PEOPLE) > 0)
    return placed.groupBy(*leaf).agg(f.sum(PEOPLE).alias(PEOPLE))


def _salted(salt: bytes) -> list[Any]:
    from pyspark.sql import functions as f

    return [f.lit(int.from_bytes(salt[start : start + 8], "little", signed=True)) for start in (0, 8)]


def _key_column(column: Any, kind: Any, key: KeyLevels) -> Any:
    """A column as rows are grouped by it."""
    from pyspark.sql import functions as f

    name = _type_name(kind)
    if name in ("string", "char", "varchar"):
        # Byte by byte, whatever the collation; what is no text cannot be brought to Python, and counts as null.
        return f.try_validate_utf8(f.collate(column, "UTF8_BINARY"))
    if key.kind == "calendar" and name.startswith("timestamp"):
        days = f.unix_date(column.cast("date")).cast("bigint")
        return days * f.lit(24) + f.hour(column) if "hour" in key.parts else days
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
        return column.cast("binary")
    if name in ("float", "double"):
        return f.when(f.isnan(column), f.lit(float("nan")).cast(name)).otherwise(column + f.lit(0.0).cast(name))
    return column


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


def _level(subtrees: int | str, key: Key) -> int:
    """The level of the subtrees' roots, below the tree's root."""
    if key.tree is not None:
        raise ValueError("subtrees must not be given for a public tree, whose counts are one for each of its leaves")
    if key.kind == "nested" or "weekday" in key.parts:
        what = "keys one below another" if key.kind == "nested" else "weekdays"
        raise ValueError(f"subtrees must not be given for {what}. Hint: leave it out, or make columns of the levels")
    if key.open_tree().outside:
        raise ValueError(
            'subtrees must not be given for a key with a leaf "(outside)", which is in no subtree. '
            f"Hint: Key.{key.kind}({key.columns_used[0]!r}, ..., outside='drop')"
        )
    depth, names = key.open_tree().depth, list(key.names if key.kind in ("columns", "calendar") else ())
    if isinstance(subtrees, str) and subtrees in names:
        return 1 + names.index(subtrees)
    if isinstance(subtrees, str) or subtrees >= depth:
        known = ", ".join(map(repr, [*names, *range(1, depth)][:20]))
        raise ValueError(f"subtrees ({subtrees!r}) must be one of the levels {known}")
    return subtrees


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
