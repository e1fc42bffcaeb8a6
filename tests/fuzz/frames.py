"""Neighbouring frames of every data type, key, unit and source.

Three laws. Stability: leaf counts move no further than the map says. Totality: whether rows can be counted is decided
by the schema, never by a value: what a frame without rows gives, any frame gives. Equal laws: a frame gives the same
counts in any order of its rows and from any source, under the same draws.
"""

import hashlib
import io
from contextlib import contextmanager
from dataclasses import replace
from datetime import date

import numpy as np
import opendp.prelude as dp
import polars as pl

from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts
from opendp_tree.rows import counting
from tests.fuzz import Violation, case_random, reported
from tests.fuzz.edge_values import edge_values

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128)
TEXTS = ("", "a", "b", "a/b", "/a//b/", "/", "a/b/c/d", "\0", "é\u0301", "x" * 999)
TEXTS += ("10.0.0.1", "10.0.0.01", "::1", "fe80::1%e")
TIMES = tuple(pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Pacific/Apia"))
DURATIONS = tuple(map(pl.Duration, ("ms", "us", "ns")))
LABELS = (*INTEGERS, pl.String, pl.Categorical, pl.Enum(TEXTS), pl.Boolean, pl.Date, pl.Time, *TIMES, *DURATIONS)
REFUSED = (pl.Float64, pl.Binary, pl.List(pl.Int64), pl.Struct({"a": pl.Int64}), pl.Null, pl.Decimal(10, 2))
"""No key is read from these; a unit may be one."""
CSV = (pl.String, pl.Int64, pl.Boolean)
"""What a CSV file gives back as it was."""
SOURCES = ("eager", "lazy", "csv", "parquet", "ipc")
METRICS = {
    "symmetric": (dp.symmetric_distance, None),
    "insert_delete": (dp.insert_delete_distance, None),
    "change_one": (dp.change_one_distance, None),
    "people": (dp.symmetric_id_distance, "unit"),
    "people changed": (dp.change_one_id_distance, "unit"),
}


def fuzz(seed, cases):
    """Each case is one way to count, three pairs of neighbours, and one frame from another source."""
    for case in range(cases):
        with reported(seed, case):
            check(case_random(seed, case))
    return cases


def pool(random, dtype):
    """Up to twelve edge values of a data type, null among them: few, so that rows share them."""
    values = edge_values(dtype)
    if dtype in (pl.String, pl.Categorical):
        values = pl.concat([pl.Series([*TEXTS, None], dtype=pl.String).cast(dtype), values.cast(pl.String).cast(dtype)])
    chosen = random.sample(range(values.len()), min(values.len(), 12))
    return pl.concat([values.gather(chosen).drop_nulls(), values.filter(values.is_null()).head(1)])


def random_key(random):
    """A key and the data types of its columns; now and then one that it cannot read."""
    kind = random.choice(("columns", "columns", "path", "url", "bits", "ip", "calendar", "number", "days", "nested"))
    texts = (pl.String, pl.Categorical, pl.Enum(TEXTS))
    wrong = random.random() < 0.05
    if kind == "columns":
        dtypes = [random.choice(LABELS) for _ in range(random.randint(1, 3))]
        key = Key.columns(*(f"k{place}" for place in range(len(dtypes))))
    elif kind == "path":
        dtypes, key = [random.choice(texts)], Key.path("k0", depth=random.choice((2, 3, 5, 1000)))
    elif kind == "bits":
        dtypes = [random.choice(INTEGERS)]
        key = Key.bits("k0", width=random.choice((1, 8, 63, 64, 65, 128)), stride=random.choice((1, 3, 64, 200)))
    elif kind == "ip":
        dtypes, key = [random.choice((*texts, *INTEGERS))], Key.ip("k0", version=random.choice((4, 6, "both")))
    elif kind == "url":
        dtypes, key = [random.choice(texts)], Key.url("k0", depth=random.choice((2, 5)))
    elif kind == "number":
        low, high = random.choice(((0, 1), (-9, 9), (-(2**63), 2**63), (-(2**127), 2**127)))
        outside = random.choice(("leaf", "ends", "drop"))
        dtypes = [random.choice((*INTEGERS, pl.Float32, pl.Float64, pl.Decimal(10, 2)))]
        key = Key.number("k0", low=low, high=high, bins=random.choice((1, 7, 100)), branching=3, outside=outside)
    elif kind == "days":
        dtypes = [random.choice((pl.Date, *TIMES))]
        key = Key.number("k0", low=date(1969, 1, 1), high=date(2030, 1, 1), bins=9, branching=2)
    elif kind == "nested":
        dtypes = [random.choice(LABELS), random.choice(texts)]
        last = random.choice((Key.ip("k1", version="both"), Key.url("k1"), Key.path("k1", depth=3), Key.ip("k1")))
        key = Key.nested(Key.columns("k0"), last)
    else:
        dtypes = [random.choice((pl.Date, *TIMES))]
        levels = random.choice(("year month day", "month", "day hour", "year week weekday", "quarter hour"))
        key = Key.calendar("k0", levels=levels.split())
    return key, [random.choice(REFUSED) for _ in dtypes] if wrong else dtypes


def random_tree(random, key, pools):
    """A public tree of some labels that may occur and some that cannot; or none."""
    if random.random() < 0.6 or (key.open_tree().kind == "paths" and key.depth > 9):
        return None
    labels = ["a", "b", "", 0, 1, 7, -1, True, None, 2**63, "(other)"]
    known = [] if pools[0].dtype.is_temporal() or pools[0].dtype in REFUSED else pools[0].drop_nulls().to_list()
    paths = {(random.choice(labels + known), random.choice(labels)) for _ in range(4)} | {("(rest)",)}
    distinct = {tuple((type(label), label) for label in path): path for path in paths}
    return Tree.from_paths(list(distinct.values()))


def check(random):
    key, dtypes = random_key(random)
    name = random.choice(list(METRICS))
    metric, unit = METRICS[name]
    source = random.choice(SOURCES)
    if source == "csv":
        dtypes = [dtype if dtype in CSV else pl.String for dtype in dtypes]
    pools = [pool(random, dtype) for dtype in dtypes]
    names = [*key.columns_used]
    if unit:
        kinds = CSV if source == "csv" else (*LABELS, *REFUSED)
        pools.append(pool(random, random.choice(kinds)))
        names.append(unit)
    placed = {"nulls": random.choice((None, "label", "drop"))}
    if key.tree is None:  # which has a tree of its own
        placed["tree"] = random_tree(random, key, pools)
    if placed.get("tree") is not None and random.random() < 0.5:
        placed["outside"] = ("(rest)",)
    bounds = random.choice([{"rows": 2}, {"leaves": 1}, {"leaves": 2, "rows_per_leaf": 2, "rows": 3}])
    person = Unit(unit, **bounds) if unit else None
    schema = {column: values.dtype for column, values in zip(names, pools, strict=True)}
    try:
        by = replace(key, **placed)
        count = make_leaf_counts(frame_domain(schema), metric(unit) if unit else metric(), by=by, unit=person)
    except (TypeError, ValueError):
        return  # by the schema and the arguments alone: no row has been made yet
    with coupled(random.randrange(2**32)):
        if not counts(count, build(names, pools, []), "eager").keys():
            check_neighbours(random, count, names, pools, name, source)


def check_neighbours(random, count, names, pools, metric, source):
    def draw(size):
        return [tuple(random.randrange(values.len()) for values in pools) for _ in range(size)]

    rows = draw(random.randrange(12))
    found = counts(count, build(names, pools, rows), "eager")
    mixed = random.sample(rows, len(rows))
    for frame, where in ((build(names, pools, mixed), "eager"), (build(names, pools, rows), source)):
        if (other := counts(count, frame, where)) != found:
            raise Violation(f"{names} {frame.schema} from {where}: {found} is not {other}")
    for _ in range(3):
        others, distance = neighbour(random, rows, draw, metric, pools)
        moved = counts(count, build(names, pools, others), "eager")
        far = sum(abs(found.get(leaf, 0) - moved.get(leaf, 0)) for leaf in found.keys() | moved.keys())
        if far > count.map(distance):
            raise Violation(f"{metric} {distance}: counts moved by {far}, the map says {count.map(distance)}")


def neighbour(random, rows, draw, metric, pools):
    """Another frame, and a distance that it is surely within."""
    size = random.randint(1, 3)
    if metric in ("symmetric", "insert_delete"):
        more = draw(size)
        place = random.randrange(len(rows) + 1)
        return [*rows[:place], *more, *rows[place:]], size
    if metric == "change_one":
        size = min(size, len(rows))
        return [*draw(size), *rows[size:]], size
    # People: all rows of one value of the unit go, or come, or both. Null is one value more.
    person = random.randrange(pools[-1].len())
    same = {person}
    if pools[-1].dtype == pl.Float64 and pools[-1][person] == 0:  # 0.0 is -0.0
        same = {place for place, value in enumerate(pools[-1].to_list()) if value == 0}
    kept = [row for row in rows if row[-1] not in same]
    came = [(*row[:-1], person) for row in draw(random.randrange(6))]
    differ = (len(kept) < len(rows)) + bool(came)
    return [*kept, *came], differ if metric == "people" else (differ + 1) // 2


def build(names, pools, rows):
    """A frame of these places in the pools."""
    columns = [
        values.gather([row[place] for row in rows]).alias(name)
        for place, (name, values) in enumerate(zip(names, pools, strict=True))
    ]
    return pl.DataFrame(columns)


def from_source(frame, source):
    """The frame as it comes from a source."""
    if source == "eager":
        return frame
    if source == "lazy":
        return frame.lazy()
    buffer = io.BytesIO()
    if source == "csv":
        frame.write_csv(buffer, null_value="\\N", quote_style="non_numeric")
        buffer.seek(0)
        return pl.scan_csv(buffer, schema=frame.schema, null_values="\\N", missing_utf8_is_empty_string=True)
    getattr(frame, f"write_{source}")(buffer)
    buffer.seek(0)
    return getattr(pl, f"scan_{source}")(buffer)


def counts(count, frame, source):
    """The counts that are not 0, by a text that names the leaf whatever the frame."""
    found = count(from_source(frame, source))
    if isinstance(found, np.ndarray):
        return {leaf: number for leaf, number in enumerate(found.tolist()) if number}
    leaves = leaf_names(found)
    if len(set(leaves)) < len(leaves):
        raise Violation("a leaf is counted twice")
    return dict(zip(leaves, found.occupied.counts.tolist(), strict=True))


def leaf_names(found):
    """What names each leaf of sparse counts, whatever others there are."""
    if found.tree.kind == "bits":
        leaves = list(zip(found.keys.high.tolist(), found.keys.low.tolist(), strict=True))
        leaves[-1:] = ["(outside)"] if found.outside else leaves[-1:]
        return leaves
    columns = [plain(column).gather(found.keys.rows).to_list() for column in found.keys.columns]
    ends = found.occupied.levels.tolist()
    return [row[:end] for row, end in zip(zip(*columns, strict=True), ends, strict=True)] if ends else []


def plain(column):
    """A column as integers or texts, which Python can hold whatever the time."""
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if column.dtype.is_float():
        return column.cast(pl.String).replace("-0.0", "0.0")  # one value, of which Polars gives either
    return column.to_physical()


@contextmanager
def coupled(seed):
    """Draws that depend on a person's own records, the leaf and a seed, whatever else a frame holds."""
    old, counting._draws = counting._draws, own_draws(seed)
    try:
        yield
    finally:
        counting._draws = old


def own_draws(seed):
    """A word for each record, by the leaf, all records of its person, and a seed."""

    def draw(records, part, places):
        names = range(part.size) if records.keys is None else leaf_names(records.keys)
        pairs = [(names[leaf], rows) for leaf, rows in zip(part.leaves.tolist(), part.rows.tolist(), strict=True)]
        ends = [*part.starts.tolist()[1:], len(pairs)]
        own = [sorted(pairs[start:end], key=repr) for start, end in zip(part.starts.tolist(), ends, strict=True)]
        words = [word(seed, (own[part.people[place]], pairs[place]), 8) for place in places.tolist()]
        return np.array(words, dtype=np.uint64)

    return draw


def word(seed, row, size):
    return int.from_bytes(hashlib.sha256(repr((seed, row)).encode("utf-8", "surrogatepass")).digest()[:size], "big")
