"""Leaf counts of every kind of key against plain Python; maps, and errors that name no value."""

import signal
from dataclasses import replace
from datetime import date, datetime, timedelta

import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException

from opendp_tree import Key, Tree, Unit, frame_domain, leaf_domain, make_leaf_counts, then_leaf_counts
from opendp_tree._interrupts import Interrupted, deferred_interrupts
from opendp_tree.rows.domains import guarded
from tests.frame_truth import as_paths, open_counts, public_counts
from tests.thoroughness import examples, slow

ROWS = dp.symmetric_distance()
TEXTS = st.sampled_from(["a", "b", "", "ä", "日本", "a/b", "🙂", "\x00"])
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.sampled_from([date(2024, 2, 29), date(1970, 1, 1)])
INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23))
PATHS = st.lists(st.sampled_from(["a", "b", "", "é"]), max_size=5).map("/".join)
IPV4 = st.ip_addresses(v=4).map(str) | st.sampled_from(["1.2.3", "1.2.3.04", "1.2.3.256", " 1.2.3.4", "", "x", "::1"])
IPV6 = (
    st.ip_addresses(v=6).map(str)
    | st.ip_addresses(v=6).map(lambda found: found.exploded.upper())
    | st.lists(st.sampled_from(["", "0", "1", "ab", "FFFF", "12345", "g", "1.2.3.4"]), max_size=10).map(":".join)
    | st.sampled_from(
        ["::", "1::", "::1.2.3.4", "::ffff:10.0.0.1", "1:2:3:4:5:6:7::", "fe80::1%eth0", ":::", "1::2::3"]
    )
)
URLS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "//", "http://", "HTTPS://", "ftp+x://", "1a://", "mailto:"]),
    st.sampled_from(["", "me@", "a:b@"]),
    st.sampled_from(["", "example.com", "www.Example.com.", "10.0.0.1", "[::1]", "localhost", "a..b"]),
    st.sampled_from(["", ":", ":80", ":x"]),
    st.sampled_from(["", "/", "//", "/a", "/a/b/", "/a//b", "?q=/x", "/a#b/c"]),
)
INTEGERS = {
    kind: st.integers(*bounds)
    for kind, bounds in (
        (pl.Int8, (-128, 127)),
        (pl.UInt32, (0, 2**32 - 1)),
        (pl.Int64, (-(2**63), 2**63 - 1)),
        (pl.UInt64, (0, 2**64 - 1)),
        (pl.UInt128, (0, 2**128 - 1)),
        (pl.Int128, (-(2**127), 2**127 - 1)),
    )
}
COLUMNS = {
    "texts": (pl.String, TEXTS),
    "categories": (pl.Categorical, TEXTS),
    "enums": (pl.Enum(["x", "y", "b"]), st.sampled_from(["x", "y", "b"])),
    "truths": (pl.Boolean, st.booleans()),
    "days": (pl.Date, DAYS),
    **{str(kind).lower(): (kind, values | st.integers(0, 3)) for kind, values in INTEGERS.items()},
}
SINGLE = {
    "path": (pl.String, PATHS, Key.path("k", depth=4)),
    "path, two letters": (pl.String, PATHS, Key.path("k", separator="/b", depth=3)),
    "path, categories": (pl.Categorical, PATHS, Key.path("k", depth=3)),
    "ip 4": (pl.String, IPV4, Key.ip("k")),
    "ip 6": (pl.String, IPV6, Key.ip("k", version=6, stride=16)),
    "ip 6, odd": (pl.Categorical, IPV6, Key.ip("k", version=6, stride=9)),
    "ip 4, numbers": (pl.UInt32, INTEGERS[pl.UInt32], Key.ip("k")),
    "date": (pl.Date, DAYS, Key.calendar("k")),
    "month and day": (pl.Date, DAYS, Key.calendar("k", levels=("month", "day"))),
    "hour, ms": (pl.Datetime("ms"), INSTANTS, Key.calendar("k", levels=("year", "month", "day", "hour"))),
    "hour, us": (pl.Datetime("us"), INSTANTS, Key.calendar("k", levels=("month", "hour"))),
    "day, us": (pl.Datetime("us"), INSTANTS, Key.calendar("k")),
    "day, ns": (pl.Datetime("ns"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), Key.calendar("k")),
    "week": (pl.Date, DAYS, Key.calendar("k", levels=("year", "week", "weekday"))),
    "quarter": (pl.Datetime("us"), INSTANTS, Key.calendar("k", levels=("quarter", "month", "weekday", "day", "hour"))),
    "url": (pl.String, URLS, Key.url("k", depth=5)),
    "url, any text": (pl.String, st.text(st.sampled_from("ab.:/?#@[]1\\n-é"), max_size=14), Key.url("k", depth=9)),
    "both": (pl.String, IPV4 | IPV6, Key.ip("k", version="both")),
    "both, odd": (pl.String, IPV4 | IPV6, Key.ip("k", version="both", stride=31)),
    **{
        f"bits, {str(kind).lower()}, {width}": (
            kind,
            values | st.integers(0, 9),
            Key.bits("k", width=width, stride=stride),
        )
        for kind, values in INTEGERS.items()
        for width, stride in ((1, 1), (5, 2), (64, 16), (100, 13), (128, 32))
    },
}


def columns(values):
    """Lists of values with nulls: none, one, few, many alike."""
    return st.lists(values | st.none(), max_size=12).flatmap(
        lambda some: st.sampled_from([some, some * 3, some[:1] * 20])
    )


def both(frame):
    """A frame as each domain takes it."""
    yield frame_domain(frame), frame
    yield frame_domain(frame), frame.lazy()
    supported = (pl.Enum, pl.Int128, pl.UInt128, pl.Int8)
    if not any(dtype in supported for dtype in frame.dtypes):
        yield dp.domain_of(frame.lazy(), infer=True), frame.lazy()


def check_open(frame, key):
    for domain, data in both(frame):
        assert as_paths(make_leaf_counts(domain, ROWS, by=key)(data)) == open_counts(frame, key)
        found = make_leaf_counts(domain, ROWS, by=replace(Key.of(key), nulls="drop"))(data)
        assert as_paths(found) == open_counts(frame, key, drop=True)


NESTED = [
    Key.nested(Key.columns("land"), Key.ip("ip")),
    Key.nested(Key.columns("land"), Key.ip("ip", version="both")),
    Key.nested(Key.ip("ip", stride=16), Key.columns("land", "number")),
    Key.nested(Key.columns("number"), Key.url("ip", depth=4)),
    Key.nested(Key.calendar("day", levels=("year", "weekday")), Key.path("land", depth=3)),
    Key.nested(Key.calendar("day"), Key.calendar("day", levels=("weekday",))),
    Key.nested(Key.bits("number", width=3, stride=2), Key.calendar("day", levels=("quarter",))),
    Key.nested(Key.columns("land"), Key.number("number", low=-2, high=6, bins=8, branching=2)),
    Key.nested(Key.number("number", low=0, high=4, bins=4, branching=3, outside="ends"), Key.columns("land")),
    Key.nested(Key.number("day", low=date(2020, 1, 1), high=date(2025, 1, 1), bins=9), Key.columns("land")),
]


@pytest.mark.parametrize("key", NESTED, ids=range(len(NESTED)))
@examples(25)
@given(st.lists(st.tuples(TEXTS | st.none(), IPV4 | IPV6 | st.none(), DAYS | st.none(), st.integers(-9, 9))))
def test_nested_keys_count_as_a_plain_group_by_and_lose_nothing(key, rows):
    schema = {"land": pl.String, "ip": pl.String, "day": pl.Date, "number": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    check_open(frame, key)
    counts = make_leaf_counts(frame_domain(frame), ROWS, by=key)(frame)
    assert counts.occupied.counts.sum() == frame.height


@st.composite
def frames(draw):
    """One to three columns of every type that a key may have, with nulls; rows that occur often, and none."""
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    rows = draw(columns(st.tuples(*(COLUMNS[kind][1] | st.none() for kind in kinds))))
    rows = [row or (None,) * len(kinds) for row in rows]
    schema = {f"c{place}": COLUMNS[kind][0] for place, kind in enumerate(kinds)}
    return pl.DataFrame({name: [row[place] for row in rows] for place, name in enumerate(schema)}, schema=schema)


@given(frames())
def test_columns_count_as_a_plain_group_by(frame):
    check_open(frame, frame.columns)
    counts = make_leaf_counts(frame_domain(frame), ROWS, by=frame.columns)(frame)
    assert counts.occupied.counts.sum() == frame.height


def antichain(paths):
    """Paths of which none leads through another, and none is that of the leaf for all others."""
    paths = [path for path in dict.fromkeys(paths) if path[0] != "(other)"]
    return [path for path in paths if not any(path[: len(up)] == up != path for up in paths)]


@pytest.mark.parametrize("kind", slow(SINGLE, unless=lambda kind: "bits" not in kind or "128" in kind))
@pytest.mark.hypothesis
def test_keys_of_one_column_count_as_a_plain_group_by(kind):
    dtype, values, key = SINGLE[kind]

    @examples(25)
    @given(columns(values))
    def check(column):
        check_open(pl.DataFrame({"k": column}, schema={"k": dtype}), key)

    check()


@pytest.mark.parametrize("kind", slow(SINGLE, unless=lambda kind: "bits" not in kind or "128" in kind))
@pytest.mark.hypothesis
def test_public_trees_count_the_leaf_that_a_key_leads_to_or_through(kind):
    dtype, values, key = SINGLE[kind]
    if getattr(key, "stride", 1) > 63:
        return

    @examples(15)
    @given(columns(values), st.data())
    def check(column, data):
        frame = pl.DataFrame({"k": column}, schema={"k": dtype})
        seen = sorted(open_counts(frame, key) or {(None,): 1}, key=repr)
        cut = [path[: data.draw(st.integers(1, len(path)))] for path in data.draw(st.lists(st.sampled_from(seen)))]
        cut = antichain(cut)
        tree = Tree.from_paths([*cut, ("(other)",)])
        for drop in (False, True):
            # A tree whose only labels are of another type than the column's is refused.
            matches = any(path[0] is not None for path in cut)
            for outside in (None, "drop", ("(other)",)) if matches else (("(other)",),):
                for domain, given_data in both(frame):
                    public = replace(key, tree=tree, outside=outside, nulls="drop" if drop else "label")
                    count = make_leaf_counts(domain, ROWS, by=public)
                    place = {None: ("(outside)",), "drop": None}.get(outside, outside)
                    expected = public_counts(frame, key, public.tree, drop=drop, outside=place)
                    assert count(given_data).tolist() == expected

    check()


@given(frames(), st.data())
def test_public_trees_of_columns(frame, data):
    cut = antichain(row[: data.draw(st.integers(1, len(row)))] for row in frame.rows()[::2])
    tree = Tree.from_paths([*cut, ("(other)",)])
    for domain, given_data in both(frame):
        count = make_leaf_counts(domain, ROWS, by=Key.columns(*frame.columns, tree=tree, outside=("(other)",)))
        assert count(given_data).tolist() == public_counts(frame, frame.columns, tree, outside=("(other)",))
        assert count(given_data).sum() == frame.height
        assert count.output_domain == leaf_domain(tree)


def test_times_are_read_by_the_clock_of_their_zone():
    start = datetime(2024, 3, 30, 21)
    hours = pl.Series("k", [start + timedelta(hours=place) for place in range(12)], dtype=pl.Datetime("us"))
    frame = hours.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin").to_frame()
    key = Key.calendar("k", levels=("day", "hour"))
    found = as_paths(make_leaf_counts(frame_domain(frame), ROWS, by=key)(frame))
    assert found == open_counts(frame, key)
    assert (31, 2) not in found  # the hour that was skipped


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_instants_beyond_the_calendar_count_as_null(unit, zone):
    ends = [2**63 - 1, -(2**63) + 1, -(2**63), 10**15]
    frame = pl.DataFrame({"k": pl.Series([*ends, 0], dtype=pl.Int64).cast(pl.Datetime(unit, zone))})
    found = as_paths(make_leaf_counts(frame_domain(frame), ROWS, by=Key.calendar("k", levels=("year",)))(frame))
    beyond = {"ms": 4, "us": 3, "ns": 0 if zone is None else 3}  # the calendar holds all nanoseconds, but not in zones
    assert found.get((None,), 0) == beyond[unit]
    assert sum(found.values()) == 5
    days = pl.DataFrame({"k": pl.Series([2**31 - 1, -(2**31), 0], dtype=pl.Int32).cast(pl.Date)})
    found = as_paths(make_leaf_counts(frame_domain(days), ROWS, by=Key.calendar("k", levels=("year",)))(days))
    assert found == {(None,): 2, (1970,): 1}


def test_columns_may_have_any_name():
    frame = pl.DataFrame({"people": ["a"], "key_0": ["b"], "unit": ["c"], "len": ["e"], "leaf": [1]})
    for domain, data in both(frame):
        for unit in frame.columns:
            count = make_leaf_counts(domain, dp.symmetric_id_distance(unit), by=frame.columns, unit=Unit(unit, rows=1))
            assert as_paths(count(data)) == {("a", "b", "c", "e", 1): 1}


DOMAIN = dp.lazyframe_domain(
    [
        dp.series_domain("city", dp.option_domain(dp.atom_domain(T="String"))),
        dp.series_domain("id", dp.atom_domain(T="i64")),
        dp.series_domain("age", dp.atom_domain(T="f64")),
        dp.series_domain("day", dp.atom_domain(T="NaiveDate")),
    ]
)
FRAMES = frame_domain({"city": pl.String, "id": pl.Int64, "age": pl.Float64, "day": pl.Date})
PEOPLE = dp.symmetric_id_distance("id")
TREE = Tree.from_paths([("ghent",), ("liege",)])


@pytest.mark.parametrize("domain", [DOMAIN, FRAMES], ids=["lazyframe_domain", "frame_domain"])
def test_maps_of_all_metrics(domain):
    bounds = [dp.polars.Bound(per_group=3), dp.polars.Bound(by=[pl.col("city")], per_group=1, num_groups=1)]
    people = {"unit": Unit("id", rows=5)}
    for metric, options, d_in, expected in (
        (dp.symmetric_distance(), {}, 3, 3),
        (dp.insert_delete_distance(), {}, 3, 3),
        (dp.change_one_distance(), {}, 3, 6),
        (dp.hamming_distance(), {}, 3, 6),
        (dp.symmetric_id_distance("id"), people, 3, 15),
        (dp.symmetric_id_distance("id"), {"unit": Unit("id", leaves=4)}, 3, 12),
        (dp.symmetric_id_distance("id"), {"unit": Unit("id", leaves=4, rows_per_leaf=2)}, 3, 24),
        (dp.symmetric_id_distance("id"), {"unit": Unit("id", rows=5, leaves=4, rows_per_leaf=2)}, 3, 15),
        (dp.change_one_id_distance("id"), people, 3, 30),
        (dp.frame_distance(dp.symmetric_distance()), {}, bounds, 3),
        (dp.frame_distance(dp.insert_delete_distance()), {}, bounds, 3),
        (dp.frame_distance(dp.symmetric_id_distance("id")), people, bounds, 15),
    ):
        count = make_leaf_counts(domain, metric, by="city", **options)
        assert count.map(d_in) == expected
        assert count.map(0 if isinstance(d_in, int) else [dp.polars.Bound(per_group=0)]) == 0
        assert count.output_metric == dp.l1_distance(T="i64")
        frame = pl.LazyFrame({"city": ["ghent"], "id": [1], "age": [0.5], "day": [date(2024, 1, 1)]})
        assert as_paths(count(frame)) == {("ghent",): 1}


def test_a_frame_distance_must_bound_the_whole_frame():
    """Bounds by columns may be stale once a column was redefined (OpenDP issue 2949), so they are not used."""
    count = make_leaf_counts(DOMAIN, dp.frame_distance(dp.symmetric_distance()), by="city")
    with pytest.raises(OpenDPException, match=r"d_in must bound the whole frame. Hint: a Bound without `by`"):
        count.map([dp.polars.Bound(by=[pl.col("city")], per_group=1, num_groups=1)])


def test_opendps_own_truncation_is_respected():
    """What make_stable_lazyframe makes of people is a bound on rows."""
    space = DOMAIN, dp.symmetric_id_distance("id")
    plan = pl.LazyFrame(schema={"city": pl.String, "id": pl.Int64, "age": pl.Float64, "day": pl.Date})
    truncated = dp.t.make_stable_lazyframe(
        *space, plan.filter(pl.int_range(pl.len()).over("id") < 2), MO="FrameDistance<SymmetricDistance>"
    )
    count = truncated >> then_leaf_counts(by="city")
    assert count.map(1) == 2
    frame = pl.LazyFrame(
        {"city": ["a", "a", "a", "b"], "id": [1, 1, 1, 2], "age": [0.0] * 4, "day": [date(2024, 1, 1)] * 4}
    )
    assert as_paths(count(frame)) == {("a",): 2, ("b",): 1}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"by": "town"}, ValueError, "by: there is no column 'town'. Hint: one of 'city', "),
        ({"by": "City"}, ValueError, "by: there is no column 'City'. Hint: 'city'$"),
        ({"by": "aeg"}, ValueError, "by: there is no column 'aeg'. Hint: 'age'$"),
        ({"by": "age, city"}, ValueError, r"by: there is no column 'age, city'. Hint: by=\['age', 'city'\]"),
        ({"domain": frame_domain({"a": pl.String}), "by": "b"}, ValueError, "no column 'b'. Hint: check the name"),
        ({"by": ["city", Key.ip("day")]}, TypeError, r"Hint: Key.nested\(Key.columns\('city'\), Key.number"),
        ({"by": "age"}, ValueError, r"by: column 'age' \(.*\) must hold one of: text, integer"),
        ({"by": 7}, TypeError, r"by \(int\) must be a Key, a column's name, or a list of names"),
        ({"by": []}, ValueError, "names must hold at least one column"),
        ({"by": Key.path("id", depth=2)}, ValueError, r"by: column 'id' \(integer\) must hold one of: text"),
        ({"by": Key.bits("city", width=8)}, ValueError, r"by: column 'city' \(text\) must hold one of: integer"),
        ({"by": Key.ip("day")}, ValueError, r"by: column 'day' \(date\) must hold one of: text, integer"),
        (
            {"by": Key.calendar("day", levels=("hour",))},
            ValueError,
            r"by: column 'day' \(date\) must hold one of: datetime",
        ),
        ({"unit": Unit("id", rows=1)}, ValueError, "unit needs an input_metric with an identifier"),
        ({"unit": "id"}, ValueError, r"unit \('id'\) must say how much .* Hint: Unit\('id', rows=5\)"),
        ({"metric": PEOPLE, "unit": 5}, TypeError, r"unit \(int\) must be a Unit. Hint"),
        ({"metric": PEOPLE}, ValueError, r"unit must say how much of one person .* Hint: unit=Unit\('id', rows=5\)"),
        ({"metric": PEOPLE, "unit": Unit("age", rows=1)}, ValueError, r"unit \('age'\) must be 'id'"),
        (
            {"metric": dp.symmetric_id_distance(pl.col("id") + 1), "unit": Unit("id", rows=1)},
            ValueError,
            r"unit: the identifier of .* must be a column of input_domain",
        ),
        (
            {"metric": dp.symmetric_id_distance("who"), "unit": Unit("who", rows=1)},
            ValueError,
            "unit: there is no column 'who'",
        ),
        (
            {"domain": frame_domain({"city": pl.String, "u": pl.Object}), "unit": Unit("u", rows=1)}
            | {"metric": dp.symmetric_id_distance("u")},
            ValueError,
            "identifier",
        ),
        ({"metric": dp.l1_distance(T="i64"), "domain": FRAMES}, ValueError, r"input_metric \(.*\) must be symmetric"),
        (
            {"domain": leaf_domain(TREE)},
            ValueError,
            r"input_domain \(.*\) must be a lazyframe_domain or a frame_domain",
        ),
    ],
)
def test_wrong_arguments_are_named(options, error, message):
    options = {"by": "city", "metric": ROWS, **options}
    domains = [options.pop("domain")] if "domain" in options else [DOMAIN, FRAMES]
    for domain in domains:
        with pytest.raises(error, match=message):
            make_leaf_counts(domain, options["metric"], **{k: v for k, v in options.items() if k != "metric"})


def test_data_that_does_not_fit_the_schema_is_an_error_that_names_no_value():
    for domain in (DOMAIN, FRAMES):
        count = make_leaf_counts(domain, ROWS, by="city")
        with pytest.raises(OpenDPException, match=r"column 'city' must hold text, .*; it holds integer"):
            count(pl.LazyFrame({"city": [123456]}))
        with pytest.raises(OpenDPException, match=r"column 'city' must hold text, .*; it holds nothing: there is none"):
            count(pl.LazyFrame({"town": ["ghent"]}))
    for data in ([1], None, {"city": ["x"]}):
        with pytest.raises(OpenDPException, match="the data must be a Polars LazyFrame or DataFrame"):
            make_leaf_counts(FRAMES, ROWS, by="city")(data)


def fails(series):
    raise KeyError(f"secret {series.to_list()}")


def test_errors_of_polars_and_of_python_functions_in_a_plan_are_withheld(tmp_path):
    """They may quote values, and so may their type."""
    (tmp_path / "frame.csv").write_text("city\n1\n2\nsecret\n")
    scan = pl.scan_csv(tmp_path / "frame.csv", schema={"city": pl.Int64})
    plan = pl.LazyFrame({"city": ["a"]}).with_columns(pl.col("city").map_batches(fails, return_dtype=pl.String))
    for frame in (scan, plan):
        with pytest.raises(OpenDPException, match="reading the frame failed; the details are withheld") as caught:
            make_leaf_counts(frame_domain(frame), ROWS, by="city")(frame)
        for words in (str(caught.value), repr(caught.value.raw_traceback)):
            assert "secret" not in words
            assert "KeyError" not in words


def test_what_polars_says_is_withheld_and_what_stops_a_program_is_not():
    def fail(error):
        raise error

    for error in (ValueError("secret"), pl.exceptions.PanicException("secret")):
        with pytest.raises(RuntimeError, match="withheld") as caught:
            guarded(lambda error=error: fail(error))
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    for error in (KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            guarded(lambda error=error: fail(error()))


def fail_interrupted(batch):
    """An interrupt, and in its wake an error of Polars: the batch lacks a column of the schema."""
    signal.raise_signal(signal.SIGINT)
    return batch.select(pl.lit("secret").alias("other"))


@deferred_interrupts()
def stopped(work):
    with pytest.raises((Interrupted, KeyboardInterrupt)) as caught:
        guarded(work)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_query_that_fails_after_an_interrupt_is_interrupted():
    """Polars may say that it was interrupted, or that the query failed: which comes first is a race."""

    def fail():
        signal.raise_signal(signal.SIGINT)
        raise pl.exceptions.ComputeError("secret")

    frame = pl.LazyFrame({"a": [1]})
    wrong = frame.map_batches(fail_interrupted, schema={"a": pl.Int64})
    for work in (fail, wrong.collect):
        with pytest.raises(KeyboardInterrupt):
            stopped(work)
    with pytest.raises(KeyboardInterrupt):
        make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by="a")(wrong)
