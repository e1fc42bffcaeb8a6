"""Leaf counts that stay in Spark's executors, each subtree in one task, and what a mechanism takes of them.

A task draws its noise from its executor's own secure bits. It is the last step before the driver: nothing is shuffled,
cached or written after it, so a task that is run again has lost what it drew before, and the driver takes one result of
each task. The frame that draws is made, collected once and dropped in `_gather`; nobody else ever has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.engines.source import PEOPLE, UNIT, guarded, key_names
from opendp_tree.engines.spark import bounded, check_session
from opendp_tree.keys.key import Key
from opendp_tree.keys.key_columns import Labels, read_labels, read_words
from opendp_tree.keys.key_levels import TEXT_PARTS
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.distant_counts import DistantCounts, Excerpt, Task
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts

if TYPE_CHECKING:
    import pyarrow as pa

    from opendp_tree.engines.spark import SparkTable

LEAF, LENGTH = "leaf", "length"
_NUMBERS, _RECORDS = ("number_0", "number_1"), ("record_0", "record_1")


def spread(table: SparkTable, key: Key, unit: Unit | None, salt: bytes, level: int) -> DistantCounts:
    """The counts of a table's leaves, bounded as `SparkTable.leaf_counts` says, whole subtrees together."""
    leaf = leaf_names(key.open_tree())
    rows = table.grouped(key) if unit is None else table.pairs(key, unit.column)
    leaves = _as_leaves(rows, key, unit)
    if unit is not None:
        leaves = bounded(leaves, leaf, unit, salt)
    prefix, tree = _prefix(key.open_tree(), level), key.open_tree()
    together = leaves.repartition(*prefix)
    return DistantCounts(tree, level, lambda task: _gather(together, tree, task))


def leaf_names(tree: OpenTree) -> list[str]:
    """The columns that tell leaves apart: words of bits, or a label for each level and how many there are."""
    if tree.kind == "bits":
        return [f"{LEAF}_high", f"{LEAF}_low"]
    return [*(f"{LEAF}_{place}" for place in range(tree.depth - 1)), LENGTH]


def _as_leaves(rows: Any, key: Key, unit: Unit | None) -> Any:
    """The rows of a grouped frame by leaf and not by key, several keys of a leaf as one."""
    from pyspark.sql import functions as f

    tree, names = key.open_tree(), key_names(key)
    leaf, others = leaf_names(tree), [] if unit is None else [UNIT]
    if key.kind == "columns":  # each key is a leaf
        rows = rows.dropna(subset=names) if key.drops_nulls else rows
        labels = [f.col(name).alias(new) for name, new in zip(names, leaf[:-1], strict=True)]
        return rows.select(*labels, f.lit(len(names)).cast("bigint").alias(LENGTH), *others, PEOPLE)
    schema = [f"{name} {kind}" for name, kind in zip(leaf, _leaf_types(key), strict=True)]
    carried = [f"{UNIT} {rows.schema[UNIT].dataType.simpleString()}"] if others else []
    read = rows.mapInArrow(_on_batches(_LeafReader(key)), ", ".join([*schema, *carried, f"{PEOPLE} bigint"]))
    # A person's rows are still together, and so the leaves of a person: no further exchange.
    return read.groupBy(*leaf, *others).agg(f.sum(PEOPLE).alias(PEOPLE))


def _leaf_types(key: Key) -> list[str]:
    """What Spark calls the types of the columns that tell leaves apart, of a key that is not of columns."""
    tree = key.open_tree()
    if tree.kind == "bits":
        return ["bigint", "bigint"]
    if key.kind == "calendar":
        return [*("string" if part in TEXT_PARTS else "bigint" for part in key.parts), "bigint"]
    return [*["string"] * (tree.depth - 1), "bigint"]


def _prefix(tree: OpenTree, level: int) -> list[Any]:
    """What is the same for all leaves of a subtree, and differs between subtrees."""
    from pyspark.sql import functions as f

    names = leaf_names(tree)
    if tree.kind != "bits":
        return [f.col(name) for name in names[:level]]
    # Words are integers aligned to the left, so a prefix is what is left of them without their last bits.
    bits = int(tree.bits_at(np.array([level]))[0])
    cut = [(name, bits - 64 * place) for place, name in enumerate(names) if bits > 64 * place]
    return [f.col(name) if bit >= 64 else f.shiftrightunsigned(name, 64 - bit) for name, bit in cut]


class _LeafReader:
    """Keys as leaves: the package's own reading of texts, addresses and times, wherever it runs."""

    def __init__(self, key: Key) -> None:
        self.key = key

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        tree, rest = self.key.open_tree(), frame.select(pl.exclude(key_names(self.key)))
        if tree.kind == "bits":
            high, low, valid = read_words(frame, self.key)
            return words_frame(BitKeys.of_integers(high, low, tree.width)).hstack(rest).filter(pl.Series(valid))
        labels = read_labels(frame, self.key)
        valid = ~labels.with_null() if self.key.drops_nulls else np.ones(frame.height, dtype=np.bool_)
        return labels_frame(labels, tree).hstack(rest).filter(pl.Series(valid, dtype=pl.Boolean))


class _TaskOnPart:
    """A mechanism's task on the leaves of one part: keys of what it keeps, and what it says of them."""

    def __init__(self, tree: OpenTree, task: Task) -> None:
        self.tree, self.task = tree, task

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        counts = counts_of(frame, self.tree, frame[PEOPLE].to_numpy())
        found = self.task(counts.occupied)
        listed = _listed(found)
        return keys_at(counts, found.places).hstack(listed)


def _listed(found: Excerpt) -> pl.DataFrame:
    """Numbers as columns, records as lists."""
    numbers = [pl.Series(name, found.numbers[:, place]) for place, name in enumerate(_NUMBERS)]
    records = [pl.Series(name, found.records[:, place], dtype=pl.Int64) for place, name in enumerate(_RECORDS)]
    by_place = pl.DataFrame([pl.Series("at", found.at, dtype=pl.Int64), *records]).group_by("at").agg(pl.all())
    rows = pl.DataFrame([pl.Series("at", np.arange(found.places.size)), *numbers])
    return rows.join(by_place, on="at", how="left", maintain_order="left").drop("at")


def _gather(leaves: Any, tree: OpenTree, task: Task) -> tuple[SparseCounts, Excerpt]:
    """One action: the task on each part, and what comes back as one."""
    check_session(leaves)
    found = guarded(lambda: pl.DataFrame(drawing_frame(leaves, tree, task).toArrow()))
    rows = np.arange(1, found.height + 1)
    counts = counts_of(found, tree, rows)  # every key once: its number of people is its row
    order = counts.occupied.counts - 1
    found = found[order]
    lists = found.select(pl.int_range(pl.len()).alias("at"), *_RECORDS).explode(_RECORDS).drop_nulls(_RECORDS[0])
    excerpt = Excerpt(
        np.arange(found.height),
        found.select(_NUMBERS).to_numpy().astype(np.int64).reshape(-1, len(_NUMBERS)),
        lists["at"].to_numpy().astype(np.int64),
        lists.select(_RECORDS).to_numpy().astype(np.int64).reshape(-1, len(_RECORDS)),
    )
    return replace(counts, occupied=replace(counts.occupied, counts=np.zeros_like(order))), excerpt


def drawing_frame(leaves: Any, tree: OpenTree, task: Task) -> Any:
    """The frame that draws, anew whenever it is asked: for `_gather` alone, which asks once."""
    kinds = [f"{field.name} {_plain(field.dataType)}" for field in leaves.schema.fields if field.name != PEOPLE]
    extra = [*(f"{name} bigint" for name in _NUMBERS), *(f"{name} array<bigint>" for name in _RECORDS)]
    return leaves.mapInArrow(_on_part(_TaskOnPart(tree, task)), ", ".join([*kinds, *extra]))


def _plain(kind: Any) -> str:
    """A column's type for what comes back of it; texts were read byte by byte, without a collation."""
    name: str = kind.simpleString()
    return "string" if name.startswith("string") else name


def counts_of(frame: pl.DataFrame, tree: OpenTree, people: Ints) -> SparseCounts:
    """The counts of leaves by their columns."""
    names = leaf_names(tree)
    if tree.kind == "bits":
        high, low = (frame[name].to_numpy().astype(np.int64).view(np.uint64) for name in names)
        return SparseCounts.of_words(tree, *BitKeys(high, low).to_the_right(tree.width), people)
    return SparseCounts.of_labels(tree, [frame[name] for name in names[:-1]], frame[LENGTH].to_numpy(), people)


def keys_at(counts: SparseCounts, places: Ints) -> pl.DataFrame:
    """The columns of the leaves at some places."""
    if isinstance(counts.keys, BitKeys):
        return words_frame(counts.keys[places])
    rows = pl.Series(counts.keys.rows[places])
    columns = [column.gather(rows).alias(f"{LEAF}_{place}") for place, column in enumerate(counts.keys.columns)]
    return pl.DataFrame([*columns, pl.Series(LENGTH, counts.occupied.levels[places])])


def words_frame(keys: BitKeys) -> pl.DataFrame:
    """Words as Spark has them: without unsigned integers, and so by their bits."""
    return pl.DataFrame({f"{LEAF}_high": keys.high.view(np.int64), f"{LEAF}_low": keys.low.view(np.int64)})


def labels_frame(labels: Labels, tree: OpenTree) -> pl.DataFrame:
    """A column for each level, also for those that no key here reaches, as may be of paths and pages alone."""
    columns = list(labels.columns)
    nothing = pl.repeat(None, labels.lengths.size, dtype=pl.String, eager=True)
    columns += [nothing] * (tree.depth - 1 - len(columns))
    named = [column.alias(f"{LEAF}_{place}") for place, column in enumerate(columns)]
    return pl.DataFrame([*named, pl.Series(LENGTH, labels.lengths)])


Work = Callable[[pl.DataFrame], pl.DataFrame]
Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def _on_batches(work: Work) -> Batches:
    """For `mapInArrow`: some work on each batch."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _worked(work, [batch])

    return run


def _on_part(work: Work) -> Batches:
    """For `mapInArrow`: some work on all batches of a part together."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _worked(work, list(batches))

    return run


def _worked(work: Work, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work's result as Arrow. Whatever fails is written to Spark's logs, and so must not hold data."""
    import pyarrow as pa

    if not batches:
        return

    def table() -> pa.Table:
        found = work(pl.DataFrame(pa.Table.from_batches(batches))).to_arrow()
        return found.cast(pa.schema([(each.name, _spark_type(each.type)) for each in found.schema]))

    yield from guarded(table).to_batches()


def _spark_type(kind: Any) -> Any:
    """Polars has large texts and lists, Spark small ones."""
    import pyarrow as pa

    if pa.types.is_large_list(kind):
        return pa.list_(pa.int64())
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return pa.string() if pa.types.is_large_string(kind) else kind
