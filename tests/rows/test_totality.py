"""No row decides whether rows can be counted: every type of column, with extreme values, row by row and at once.

Counts of all rows are the sums of counts of single rows, so no row changes where another belongs.
"""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import opendp.prelude as dp
import polars as pl
import pyarrow.parquet as pq
import pytest

from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts, read_source
from opendp_tree.rows.domains import kinds_of
from opendp_tree.rows.leaf_counts import make_people_records, make_rows_per_unit
from opendp_tree.rows.steps import FrameSteps, stable_leaf_counts
from tests.faults.processes import PATIENCE
from tests.frame_truth import as_paths, range_path
from tests.thoroughness import slow

ENDS = [0, 1, -1, 7, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
DAYS = [0, 1, -1, 19_000, 2_932_896, 2_932_897, -719_162, -719_163, 2**31 - 1, -(2**31), None]
TEXTS = ["", "a", "/", "//", "a/b", "/a/", "=1", "\x00", "\ud7ff", "ä" * 5000, "🙂"]
TEXTS += ["1.2.3.4", "::1", "2024-01-01", None]
ZONES = [None, "Europe/Brussels", "Pacific/Apia"]


def physical(values, dtype):
    """A column from the integers that stand for its values, as nothing but a cast would build them."""
    base = {pl.Date: pl.Int32}.get(dtype, pl.Int64)
    return pl.Series("k", values, dtype=base).cast(dtype)


def integers(dtype):
    low, high = (int(end) for end in pl.select(low=dtype.min(), high=dtype.max()).row(0))
    return pl.Series("k", [low, high, 0, 1, high // 2 + 1, None], dtype=dtype)


WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
SERIES = {
    "text": pl.Series("k", TEXTS),
    "category": pl.Series("k", TEXTS, dtype=pl.Categorical),
    "enum": pl.Series("k", TEXTS, dtype=pl.Enum([text for text in TEXTS if text is not None])),
    "truth": pl.Series("k", [True, False, None]),
    "date": physical(DAYS, pl.Date),
    "time": physical([0, 1, 86_399_999_999_999, None], pl.Time),
    **{str(dtype): integers(dtype) for dtype in WHOLE},
    "Int128": pl.Series("k", [-(2**127), 2**127 - 1, 0, 2**64, None], dtype=pl.Int128),
    "UInt128": pl.Series("k", [2**128 - 1, 2**127, 0, 2**64, None], dtype=pl.UInt128),
    **{f"duration {unit}": physical(ENDS, pl.Duration(unit)) for unit in ("ms", "us", "ns")},
    **{
        f"datetime {unit} {zone}": physical(ENDS, pl.Datetime(unit, zone))
        for unit in ("ms", "us", "ns")
        for zone in ZONES
    },
}
NULLS = ["text", "enum", "truth", "date", "time", "Int64", "Int128", "duration us", "datetime us None"]
NULLS += ["datetime ns Pacific/Apia"]
SERIES.update({f"{name}, all null": pl.Series("k", [None, None], dtype=SERIES[name].dtype) for name in NULLS})

LABELS = {
    "null": [(None,), ("absent",)],
    "null, under null": [(None, None), (None, "a"), ("a", None)],
    "texts": [("a",), ("",), (None,)],
    "integers": [(0,), (1,), (2**63 - 1,), (None,)],
    "wide integers": [(0,), (2**127 - 1,), (2**200,), (None,)],
    "truths": [(True,), (False,), (None,)],
    "dates": [(date(1970, 1, 1),), (date(9999, 12, 31),), (None,)],
    "instants": [(datetime(1970, 1, 1),), (None,)],
}
TREES = {"open": None, **{name: Tree.from_paths(paths) for name, paths in LABELS.items()}}
KEYS = {
    "columns": Key.columns("k"),
    "two columns": Key.columns("k", "also"),
    "path": Key.path("k", depth=3),
    "bits": Key.bits("k", width=8, stride=3),
    "many bits": Key.bits("k", width=128, stride=40),
    "ip 4": Key.ip("k"),
    "ip 6": Key.ip("k", version=6, stride=16),
    "date": Key.calendar("k"),
    "hour": Key.calendar("k", levels=("year", "hour")),
    "week": Key.calendar("k", levels=("year", "week", "weekday")),
    "quarter": Key.calendar("k", levels=("quarter", "month", "weekday", "day")),
    "url": Key.url("k", depth=4),
    "both": Key.ip("k", version="both"),
    "nested": Key.nested(Key.columns("also"), Key.path("k", depth=3)),
    "nested, both": Key.nested(Key.columns("also"), Key.ip("k", version="both")),
    "nested, bits": Key.nested(Key.bits("k", width=128, stride=40), Key.columns("also")),
    "nested, calendar": Key.nested(Key.calendar("k", levels=("year", "week")), Key.columns("also")),
    "nested, numbers": Key.nested(Key.number("k", low=-9, high=9, bins=18, branching=4), Key.columns("flag")),
    "nested, ends": Key.nested(Key.columns("flag"), Key.number("k", low=0, high=1, bins=3, outside="ends")),
    "nested, days": Key.nested(
        Key.columns("flag"), Key.number("k", low=date(1970, 1, 1), high=date(1970, 1, 8), bins=7, branching=2)
    ),
}


SPANS = {
    "small": (0, 10, 4),
    "negative": (-2, 1, 7),
    "fine": (0, 1, 10),
    "wide": (-(2**127), 2**127, 5),
    "64 bits": (-(2**63), 2**63, 2**10),
    "decimals": (Decimal("-0.10"), Decimal("99999999999999999999.99"), 3),
}
WAYS = {"leaf": {}, "ends": {"outside": "ends"}, "drop": {"outside": "drop"}, "no nulls": {"nulls": "drop"}}
NUMBERS = {
    (name, way): Key.number("k", low=low, high=high, bins=bins, branching=3, **WAYS[way])
    for name, (low, high, bins) in SPANS.items()
    for way in WAYS
}
DATES = {
    (name, way): Key.number("k", low=low, high=high, bins=bins, branching=2, **WAYS[way])
    for name, (low, high, bins) in {
        "days": (date(1969, 12, 31), date(1970, 1, 7), 7),
        "all days": (date.min, date.max, 9),
        "hours": (datetime(1970, 1, 1), datetime(1970, 1, 1, 12), 36),
    }.items()
    for way in WAYS
}
FLOATS = [0.0, -0.0, 0.3, 0.1, 1.0, 10.0, 1e38, -1e38, 5e-324, 2.0**127, 1.7e308, -1.7e308]
FLOATS += [float("inf"), -float("inf"), float("nan"), None]
SERIES.update(
    {
        "Float32": pl.Series("k", FLOATS, dtype=pl.Float64).cast(pl.Float32),
        "Float64": pl.Series("k", FLOATS, dtype=pl.Float64),
        "Decimal 2": pl.Series("k", ["0.10", "-0.10", "99999999999999999999.99", "0", None]).cast(pl.Decimal(38, 2)),
        "Decimal 0": pl.Series("k", ["9" * 38, "-" + "9" * 38, "1", None]).cast(pl.Decimal(38, 0)),
        "Decimal 38": pl.Series("k", ["0." + "9" * 37, "0.3", "-0." + "9" * 37, None]).cast(pl.Decimal(38, 37)),
    }
)
QUICK = ["text", "date", "Int8", "UInt128", "datetime ms Pacific/Apia", "Float64", "Decimal 2", "Int64, all null"]


def frame_of(name):
    series = SERIES[name]
    return series.to_frame().with_columns(also=pl.col("k"), flag=pl.lit(True))


def takes(key, name):
    """Whether the key reads columns of this type: if not, it is refused before any row is read."""
    try:
        key.check_kinds(kinds_of(frame_of(name).schema))
    except ValueError:
        return False
    return True


PAIRS = [(way, name) for way in KEYS for name in SERIES if takes(KEYS[way], name)]


def found(counts):
    """Counts as a Counter, whatever carries them; labels by what stands for them, as Python has no year 10,000."""
    if isinstance(counts, np.ndarray):
        return Counter(dict(enumerate(counts.tolist())))
    if counts.tree.kind == "columns":
        columns = tuple(column.to_physical() for column in counts.keys.columns)
        counts = replace(counts, keys=replace(counts.keys, columns=columns))
    return Counter(as_paths(counts))


def adds_up(make, frame):
    """Whether all rows together, in either order, count as the rows one by one."""
    single = sum((found(make(frame[place : place + 1])) for place in range(frame.height)), Counter())
    return all(
        +found(make(data)) == +single for data in (frame, frame.reverse(), frame.lazy(), frame.sample(fraction=1))
    )


@pytest.mark.parametrize(("way", "name"), slow(PAIRS, unless=lambda pair: pair[1] in QUICK))
def test_rows_of_every_type_count_alone_and_together(way, name):
    key, frame = KEYS[way], frame_of(name)
    for tree in TREES.values():
        for nulls in ("label", "drop"):
            if tree is not None and tree.depth > key.depth:
                continue
            outside = None if tree is None else tree.path(int(tree.leaves[0]))
            by = replace(key, tree=tree, nulls=nulls, outside=outside)
            if not takes(by, name):
                continue
            make = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by=by)
            assert adds_up(make, frame)
            if nulls == "label":
                assert found(make(frame)).total() == frame.height


@pytest.mark.parametrize("name", slow(SERIES, unless=QUICK.__contains__))
def test_numbers_of_every_type_count_alone_and_together_where_plain_python_puts_them(name):
    frame = frame_of(name)
    held = frame["k"].dtype
    for (_, way), key in (NUMBERS | DATES).items():
        if not takes(key, name):
            continue
        make = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by=key)
        assert adds_up(make, frame)
        total = make(frame).sum()
        if way in ("leaf", "ends"):
            assert total == frame.height
        if held.is_numeric() and held != pl.Float32:  # Python's own numbers say where each belongs
            paths = [range_path(value, key) if value is not None else (None,) for value in frame["k"].to_list()]
            if way == "drop":
                paths = [path for path in paths if path not in ((None,), ("(outside)",))]
            if way == "no nulls":
                paths = [path for path in paths if path != (None,)]
            expected = key.tree.count([("(outside)",) if path == (None,) else path for path in paths])
            assert make(frame).tolist() == expected.tolist()


LONG_PATH = """
import resource, sys, polars as pl, opendp.prelude as dp
from opendp_tree import Key, frame_domain, make_leaf_counts
dp.enable_features("contrib")
kind, letter = sys.argv[1:]
frame = pl.DataFrame({"k": [letter * 6_000_000, "a/b"]})
key = Key.path("k", depth=4) if kind == "path" else Key.url("k", depth=4)
make = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by=key)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert make(frame).occupied.counts.tolist() == [1, 1]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("kind", "letter", "most"), [("path", "/", 100), *slow([("url", "/", 300), ("url", ".", 300)])]
)
def test_one_text_of_millions_of_labels_takes_little_memory(kind, letter, most):
    """Of megabytes, for a text of 6: one label for each letter would take 190 more, in columns of every row."""
    words = [sys.executable, "-c", LONG_PATH, kind, letter]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert int(done.stdout) < most * 1024


UNITS = {
    **SERIES,
    "Float32": pl.Series("k", [0.0, -0.0, float("nan"), float("inf"), None], dtype=pl.Float32),
    "Float64": pl.Series("k", [0.0, -0.0, float("nan"), -float("nan"), -float("inf"), None]),
    "Decimal": pl.Series("k", ["0.10", "99999999999999999999.99", None]).cast(pl.Decimal(38, 2)),
    "Binary": pl.Series("k", [b"", b"\xff", None]),
    "Null": pl.Series("k", [None, None]),
    "List": pl.Series("k", [[1], [], [None], None]),
    "List of texts": pl.Series("k", [["a"], [], [None], None]),
    "List of categories": pl.Series("k", [["a"], [], [None], None], dtype=pl.List(pl.Categorical)),
    "Array": pl.Series("k", [[1, 2], [None, 1], None], dtype=pl.Array(pl.Int8, 2)),
    "Struct": pl.Series("k", [{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
}
LIMITS = {"rows": Unit("unit", rows=1), "leaves": Unit("unit", leaves=2, rows_per_leaf=3)}


@pytest.mark.parametrize("name", slow(UNITS, unless=QUICK.__contains__))
@pytest.mark.parametrize("bounds", LIMITS)
def test_units_of_every_type_are_told_apart(name, bounds):
    """One row a unit, so nothing is left out but rows without one; a unit's second row is, where one is the limit."""
    units = UNITS[name]
    frame = pl.DataFrame({"unit": units, "k": [f"{place}" for place in range(units.len())]})
    for tree in (None, TREES["null"]):
        make = make_leaf_counts(
            frame_domain(frame),
            dp.symmetric_id_distance("unit"),
            by=Key.columns("k", tree=tree, outside=None if tree is None else ("absent",)),
            unit=LIMITS[bounds],
        )
        present = frame.filter(pl.col("unit").is_not_null())
        distinct = present["unit"].to_frame().unique().height
        for data in (frame, frame.lazy(), frame.reverse()):
            assert found(make(data)).total() == (distinct if bounds == "rows" else present.height)
        for place in range(frame.height):
            assert found(make(frame[place : place + 1])).total() == int(units[place : place + 1].is_not_null()[0])


@pytest.mark.parametrize("name", UNITS)
def test_records_of_units_of_every_type_are_those_of_each(name):
    """Together, in any order, and row by row: nothing that is raised, and nobody who is found, depends on a value."""
    units = UNITS[name]
    frame = pl.DataFrame({"unit": units, "k": [f"{place}" for place in range(units.len())]})
    for tree in (None, TREES["null"]):
        key = Key.columns("k", tree=tree, outside=None if tree is None else ("absent",))
        space = frame_domain(frame), dp.symmetric_id_distance("unit")
        make = make_people_records(*space, by=key, unit=Unit("unit", count="shares"))
        present = frame.filter(pl.col("unit").is_not_null())
        for data in (frame, frame.lazy(), frame.reverse()):
            (records,) = make(data).each()
            assert records.starts.size == present["unit"].to_frame().unique().height
            assert records.rows.sum() == present.height == records.totals.sum()
            assert records.placed().sum() == records.starts.size
        for place in range(frame.height):
            (records,) = make(frame[place : place + 1]).each()
            assert records.starts.size == int(units[place : place + 1].is_not_null()[0])


@pytest.mark.parametrize("name", SERIES)
def test_records_count_the_rows_that_leaf_counts_count(name):
    column = SERIES[name]
    frame = pl.DataFrame({"k": column, "unit": [place % 3 for place in range(column.len())]})
    try:
        counts = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by="k")
    except (TypeError, ValueError):
        return
    records = make_people_records(
        frame_domain(frame), dp.symmetric_id_distance("unit"), by="k", unit=Unit("unit", count="shares")
    )
    for data in (frame, *(frame[place : place + 1] for place in range(frame.height))):
        assert sum(part.rows.sum() for part in records(data).each()) == found(counts(data)).total()


FORMS = {
    "eager": lambda frame, path: frame,
    "lazy": lambda frame, path: frame.lazy(),
    "read": lambda frame, path: pl.read_parquet(path),
    "scanned": lambda frame, path: pl.scan_parquet(path),
    "path": lambda frame, path: read_source(path),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("place", [0, 1250, 5000])
def test_columns_that_are_wrongly_flagged_as_sorted_count_as_they_are(form, descending, place, tmp_path):
    """Rows, rows of people, and rows after a filter: one row out of order is one row."""
    numbers = [0] * 5000
    numbers.insert(place, -5 if descending else 5)
    bare = pl.DataFrame({"k": numbers, "user": numbers, "city": [f"{number}" for number in numbers]})
    sorting = [pq.SortingColumn(column, descending=descending) for column in range(3)]
    pq.write_table(bare.to_arrow(), tmp_path / "k.parquet", sorting_columns=sorting)
    flagged = bare.with_columns(pl.all().set_sorted(descending=descending))
    data = FORMS[form](flagged, tmp_path / "k.parquet")
    space, people = (frame_domain(bare), dp.symmetric_distance()), dp.symmetric_id_distance("user")
    unit = Unit("user", rows=7)
    for by in ("k", "city", ["city", "k"], Key.bits("k", width=3)):
        assert found(make_leaf_counts(*space, by=by)(data)).total() == 5001
        assert sorted(found(make_leaf_counts(space[0], people, by=by, unit=unit)(data)).values()) == [1, 7]
        for memory in (None, 200_000):
            records = make_people_records(space[0], people, by=by, unit=unit, memory=memory)(data)
            assert sorted(total for part in records.each() for total in part.totals.tolist()) == [1, 5000]
    assert make_rows_per_unit(space[0], people, most=2)(data) == [1, 1]
    outlier = pl.col("k") <= -1 if descending else pl.col("k") >= 1
    assert FrameSteps().then("filter")(outlier).leaf_counts(*space, by="city")(data).occupied.counts.tolist() == [1]
    domain = dp.domain_of(bare.lazy(), infer=True)
    through = stable_leaf_counts(domain, space[1], bare.clear().lazy().filter(outlier), by="city")
    assert through(data.lazy()).occupied.counts.tolist() == [1]
