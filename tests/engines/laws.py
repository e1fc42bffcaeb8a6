"""What holds of every engine's tables; a test file of an engine imports these and gives the fixture `store`."""

from collections import Counter
from datetime import date, datetime
from functools import partial
from itertools import product

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import (
    Key,
    Ledger,
    Tree,
    Unit,
    Value,
    bound_report,
    frame_context,
    frame_domain,
    make_leaf_counts,
    release_tree,
)
from opendp_tree.mechanisms import make_people_records
from opendp_tree.mechanisms.people import leaf_units
from opendp_tree.rows import people as rows_people
from opendp_tree.rows.leaf_counts import make_rows_per_unit
from opendp_tree.rows.people import PeoplePart
from tests.frame_truth import as_paths

TEXTS = [
    *("", " ", "a", "A", "a ", " a", "á", "a\u0301", "Á", "ß", "ss", "ẞ", "İ", "i\u0307", "ı", "ﬁ", "fi"),
    *("\u03a9", "\u2126", "\t", "x\ny", "x\r\ny", '"', '""', ",", "'", "''", "\\", "\\N", "\\.", "NULL", "null"),
    *("%s", "{0}", "$1", ":", "-", "n", "\U0010ffff", "\ufeff", "\u200b", "👩\u200d👩", "日本", "٣", "3", "x6162"),
    *("long " * 300, "\x01"),
]
MANY = 3 * len(TEXTS)
ROWS = pl.DataFrame(
    {
        "text": [[*TEXTS, None][place % (len(TEXTS) + 1)] for place in range(MANY)],
        "number": [[-(2**63), -1, 0, 1, 2**63 - 1, None][place % 6] for place in range(MANY)],
        "truth": [[True, False, None][place % 3] for place in range(MANY)],
    },
    schema={"text": pl.String, "number": pl.Int64, "truth": pl.Boolean},
)
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None]
TIMES = [
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(1970, 1, 1, 0, 59, 59, 999_999),
    datetime(2024, 3, 31, 2, 30),
    datetime(9999, 12, 31, 23, 59, 59, 999_998),
    None,
]
VISITS = {"user": pl.Int64, "a": pl.String, "b": pl.Int64}


def visits(seed, people=7, rows=60):
    rng = np.random.default_rng(seed)
    frame = {
        "user": [None if user == people else int(user) for user in rng.integers(0, people + 1, rows)],
        "a": [[*TEXTS, None][number] for number in rng.integers(0, 4, rows)],
        "b": [None if number == 3 else int(number) for number in rng.integers(0, 4, rows)],
    }
    return pl.DataFrame(frame, schema=VISITS)


def records(table, by, *, unit="user", parts=1):
    """How many rows each person has at each key, part by part; no pair is listed twice."""
    found = []
    for part in range(parts):
        frame = table.rows_per_person(Key.columns(*by), unit, part, parts).collect()
        pairs = [(row[0], *row[1:-1]) for row in frame.iter_rows()]
        assert len(set(pairs)) == len(pairs)
        found.append(dict(zip(pairs, frame["people"].to_list(), strict=True)))
    people = [{pair[0] for pair in part} for part in found]
    assert sum(map(len, people)) == len(set().union(*people))  # each person is in one part
    return {pair: rows for part in found for pair, rows in part.items()}


def expected_records(frame, by, *, unit="user"):
    person = pl.col(unit).alias("person")
    return {
        row[:-1]: row[-1]
        for row in frame.drop_nulls(unit).select(person, *by).group_by("person", *by).len().iter_rows()
    }


def counts_of(source, by, unit=None, **options):
    metric = dp.symmetric_distance() if unit is None else dp.symmetric_id_distance(unit.column)
    found = make_leaf_counts(frame_domain(source), metric, by=by, unit=unit, **options)(source)
    return found.tolist() if isinstance(found, np.ndarray) else as_paths(found)


def test_counts_are_those_of_polars_on_hostile_values(store):
    for by in (["text"], ["text", "number"], ["truth", "number", "text"], ["number"]):
        assert counts_of(store.table(ROWS), by) == counts_of(ROWS, by), by


def test_dates_and_times_are_those_of_polars(store):
    frame = pl.DataFrame({"day": DAYS * 2}, schema={"day": pl.Date})
    for by in (Key.columns("day"), Key.calendar("day"), Key.calendar("day", levels=("month",))):
        assert counts_of(store.table(frame), by) == counts_of(frame, by)
    frame = pl.DataFrame({"time": TIMES * 2}, schema={"time": pl.Datetime("us")})
    for by in (Key.columns("time"), Key.calendar("time"), Key.calendar("time", levels=("year", "hour"))):
        assert counts_of(store.table(frame), by) == counts_of(frame, by)


def test_infinite_and_far_dates_are_null(store):
    for kind, far in store.far:
        store.connection.execute(f"CREATE TABLE far_{kind} (k {kind})")
        for value in ("2024-01-01", "infinity", "-infinity", *far):
            store.connection.execute(f"INSERT INTO far_{kind} VALUES ('{value}')")
        assert sorted(counts_of(store.kind(store.connection, f"far_{kind}"), ["k"]).values()) == [1, len(far) + 2]


def test_an_empty_table_has_no_leaves(store):
    assert counts_of(store.table(visits(1).clear()), ["a", "b"]) == {}
    assert counts_of(store.table(visits(1).clear()), ["a", "b"], Unit("user", rows=2)) == {}


@pytest.mark.parametrize("parts", [1, 3])
def test_records_are_those_of_polars(store, parts):
    """So whoever else is in the table changes nothing of a person's records, and nobody's rows are another's."""
    for seed in range(3):
        frame = visits(seed)
        for by in (("a", "b"), ("b",), ("user", "a")):
            assert records(store.table(frame), by, parts=parts) == expected_records(frame, by)


def test_rows_without_an_identifier_are_counted_where_nobody_is_told_apart(store):
    frame = visits(2)
    table, key = store.table(frame), Key.columns("a", "b")
    for found, rows in ((table.rows_per_key(key), frame), (table.rows_per_key(key, "user"), frame.drop_nulls("user"))):
        assert sorted(found.rows(), key=repr) == sorted(rows.group_by("a", "b").len().rows(), key=repr)


def test_as_much_is_kept_as_the_bounds_allow(store):
    frame = visits(9, people=30, rows=400)
    table, by = store.table(frame), ["a", "b"]
    known = frame.drop_nulls("user")
    each = Counter(known["user"].to_list())
    assert sum(counts_of(table, by, Unit("user", rows=5)).values()) == sum(min(5, rows) for rows in each.values())
    leaves = Counter(known.select("user", "a", "b").unique()["user"].to_list())
    assert sum(counts_of(table, by, Unit("user", leaves=3)).values()) == sum(min(3, n) for n in leaves.values())


def test_bounds_that_are_never_reached_change_nothing(store):
    frame = visits(3)
    known = frame.drop_nulls("user")
    for by in (Key.columns("a", "b"), Key.columns("a", "b", nulls="drop")):
        assert counts_of(store.table(frame), by, Unit("user", rows=999)) == counts_of(known, by)


@pytest.mark.parametrize("memory", [None, 4000])
def test_keys_that_share_leaves_are_counted_as_polars_does(store, memory):
    tree = Tree.from_paths([("a",), ("A",), ("rest",)])
    paths = visits(4).with_columns(a=pl.Series(["x/y", "x//y", "/x/y", "x", None, "z"] * 10))
    table, known = store.table(paths), paths.drop_nulls("user")
    for by in (Key.path("a", depth=3), Key.bits("b", width=1), Key.columns("a", tree=tree, outside=("rest",))):
        never = Unit("user", rows=999)
        assert counts_of(table, by, never, memory=memory) == counts_of(known, by)
        bounded = counts_of(table, by, Unit("user", rows=1), memory=memory)
        assert sum(bounded if isinstance(bounded, list) else bounded.values()) <= known["user"].n_unique()


@pytest.mark.parametrize("memory", [None, 4000])
@pytest.mark.parametrize("unit", [Unit("user", count="shares"), Unit("user", rows=2)], ids=str)
def test_people_of_a_table_are_weighed_as_those_of_a_frame(store, memory, unit):
    """What rows weigh at leaves, and where people are put, by a coin that is a function of their number of rows."""
    frame = visits(8, people=30, rows=400)
    key = Key.columns("a", "b")

    def weighed(source, memory=None):
        made = make_people_records(
            frame_domain(source), dp.symmetric_id_distance("user"), by=key, unit=unit, memory=memory
        )
        records = made(source)
        sums = records.summed(PeoplePart.placed, partial(leaf_units, bound=3), partial(leaf_units, bound=1))
        return records.parts, [as_paths(records.keys.recounted(each)) for each in sums]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_people, "uniform_below", lambda limits: limits // 2)
        parts, found = weighed(store.table(frame), memory)
        assert found == weighed(frame)[1]
        assert (parts > 1) == (memory is not None)
        assert weighed(store.table(frame.clear()))[1] == [{}, {}, {}]


PAGES = ["https://www.example.com/a", "example.com/b", "http://EXAMPLE.com/b?q", "/c", "10.1.2.3", "2001:db8::1", None]
KEYS = {
    "url": Key.url("page"),
    "addresses": Key.ip("page", version="both"),
    "number": Key.number("age", low=0, high=100, bins=5),
    "number at the ends": Key.number("age", low=0, high=100, bins=5, outside="ends", nulls="drop"),
    "days": Key.number("day", low=date(1960, 1, 1), high=date(1980, 1, 1), bins=4),
    "times": Key.number("time", low=date(1960, 1, 1), high=date(1980, 1, 1), bins=4),
    "nested": Key.nested(
        Key.number("age", low=0, high=100, bins=5), Key.calendar("time", levels=("year", "hour")), Key.url("page")
    ),
    "bits with an outside": Key.bits("age", width=6),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_kind_are_counted_as_polars_does(store, name):
    rng, rows = np.random.default_rng(8), 120
    chosen = {"page": PAGES, "age": [-(2**63), -1, 0, 19, 20, 63, 100, 101, None], "day": DAYS[1:], "time": TIMES[1:]}
    frame = pl.DataFrame(
        {
            "user": np.arange(rows) % 9,
            **{n: [of[i] for i in rng.integers(0, len(of), rows)] for n, of in chosen.items()},
        },
        schema={"user": pl.Int64, "page": pl.String, "age": pl.Int64, "day": pl.Date, "time": pl.Datetime("us")},
    )
    table, by = store.table(frame), KEYS[name]
    assert counts_of(table, by) == counts_of(frame, by)
    for memory in (None, 4000):
        assert counts_of(table, by, Unit("user", rows=999), memory=memory) == counts_of(frame, by)
        bounded = counts_of(table, by, Unit("user", rows=1), memory=memory)
        assert sum(bounded if isinstance(bounded, list) else bounded.values()) <= 9


PEOPLE = {
    "texts": pl.Series(TEXTS[:7]),
    "integers": pl.Series([-(2**63), 2**63 - 1, 0]),
    "small integers": pl.Series([-7, 7, None], dtype=pl.Int16),
    "truths": pl.Series([True, False, None]),
    "days": pl.Series(DAYS),
    "times": pl.Series(TIMES),
}


@pytest.mark.parametrize("kind", PEOPLE)
def test_people_of_every_type_are_told_apart_at_keys_of_every_type(store, kind):
    """Whoever has no identifier is nobody."""
    for values in PEOPLE.values():
        users = pl.DataFrame({"user": PEOPLE[kind]}).join(pl.DataFrame({"key": values}), how="cross")
        frame = pl.concat([users] * 3)
        table = store.table(frame)
        for parts in (1, 3):
            assert records(table, ("key",), parts=parts) == expected_records(frame, ("key",))


def test_people_are_spread_over_parts(store):
    """A part of 4,000 people has 1,000 on average: 9 standard deviations, a false alarm below 1e-15."""
    table = store.table(pl.DataFrame({"user": np.arange(4000), "a": ["x"] * 4000}))
    sizes = [table.rows_per_person(Key.columns("a"), "user", part, 4).collect().height for part in range(4)]
    assert sum(sizes) == 4000
    assert max(abs(size - 1000) for size in sizes) < 9 * (4000 * 3 / 16) ** 0.5


HOSTILE = ['a"; DROP TABLE victims; --', "a'b", "{0}", "%s %(x)s", "$1 :x ?", "select", "Ünï\n\tcode", "a.b", "]`["]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_names_whatever_they_hold(store, name):
    store.table(pl.DataFrame({"n": [1]}), name="victims")
    frame = pl.DataFrame({name: ["x", "y", "x"], name + "u": [1, 1, 2]})
    table = store.table(frame, name=name)
    assert counts_of(table, [name]) == {("x",): 2, ("y",): 1}
    assert sum(counts_of(table, [name], Unit(name + "u", rows=1)).values()) == 2
    assert counts_of(store.kind(store.connection, "victims"), ["n"]) == {(1,): 1}


def test_values_are_never_read_as_sql(store):
    frame = pl.DataFrame({"k": HOSTILE, "user": HOSTILE})
    assert records(store.table(frame), ("k",)) == {(text, text): 1 for text in HOSTILE}


@pytest.mark.parametrize(
    "unit", [None, Unit("user", rows=1), Unit("user", leaves=1), Unit("user", count="shares")], ids=str
)
def test_a_unit_means_the_same_on_a_table_as_on_a_frame(store, unit):
    """Noise of scale at most 2 for each of few nodes: 60 are 30 scales, and a false alarm is below 1e-9."""
    frame = pl.DataFrame({"user": np.arange(2000) % 700, "city": ["ghent", "liege"] * 1000})
    release, other = (
        release_tree(source, by="city", epsilon=5.0, delta=1e-6, unit=unit) for source in (store.table(frame), frame)
    )
    assert release.statement == other.statement
    assert abs(release.to_frame(other=False)["estimate"][0] - (2000 if unit is None else 700)) < 60


def test_sums_are_refused_before_anything_is_spent(store, tmp_path):
    table = store.table(pl.DataFrame({"k": ["x"] * 9, "n": [1] * 9, "f": [1] * 9}), types={"f": "DOUBLE PRECISION"})
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-6"})
    options = {"by": "k", "epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
    for column, unit in product("nf", (None, Unit("n", rows=1))):
        with pytest.raises(ValueError, match=r"value must not be given for a table of an engine.*Hint: .*read_source"):
            release_tree(table, unit=unit, value=Value(column, bounds=(0, 1)), **options)
    assert not ledger.entries()


QUERIES = {
    "steps": lambda query: query.filter(pl.col("n") > 0).tree_counts(by="k"),
    "sums": lambda query: query.tree_counts(by="k", value=Value("n", bounds=(0, 1))),
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_a_context_cannot_do_with_a_table_is_refused_before_anything_is_spent(store, name, tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-6"})
    context = frame_context(
        store.table(pl.DataFrame({"k": ["x"] * 900, "n": [1] * 900})),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        ledger=ledger,
    )
    with pytest.raises(ValueError, match=r"must not be given for a table of an engine.*Hint: bring the rows here"):
        QUERIES[name](context.query()).release()
    assert not ledger.entries()
    assert context.query().tree_counts(by="k").release().nodes.size == 2


def test_bounds_of_people_in_a_table_are_reported(store, tmp_path):
    """Of 4,000 people half have one row: noise of scale 1/5 moves a share by 0.1 with a probability below 1e-9."""
    frame = pl.DataFrame({"user": [*range(4000), *range(2000), None], "f": [1] * 6001})
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 5})
    table = store.table(frame, types={"f": "DOUBLE PRECISION"})
    with pytest.raises(ValueError, match="identifier 'f'"):
        bound_report(table, unit="f", most=3, epsilon=5.0, ledger=ledger)
    assert not ledger.entries()
    report = bound_report(table, most=3, epsilon=5.0, ledger=ledger)
    assert abs(report.shares[0] - 2 / 3) < 0.1


@pytest.mark.parametrize("kind", PEOPLE)
def test_the_report_counts_the_people_whom_bounds_hold_for(store, kind):
    frame = pl.DataFrame({"user": pl.concat([PEOPLE[kind], PEOPLE[kind].head(2), PEOPLE[kind].head(1)])})
    table = store.table(frame)
    people = Counter()
    for (user, _), rows in records(table, ["user"]).items():
        people[user] += rows
    report = make_rows_per_unit(frame_domain(table), dp.symmetric_id_distance("user"), most=4)
    assert report(table) == np.bincount([*people.values()], minlength=5)[1:].tolist()


def test_all_questions_are_answered_from_one_snapshot(store):
    table = store.table(pl.DataFrame({"k": [1, 1]}))
    for _ in range(2):
        with table.snapshot():
            found = counts_of(table, ["k"])
            store.other.execute(f"INSERT INTO {table.table} VALUES (1)")
            with table.snapshot():  # of the transaction that is open
                assert counts_of(table, ["k"]) == found
            assert counts_of(table, ["k"]) == found
    assert counts_of(table, ["k"]) == {(1,): 4}


def test_what_is_no_connection_is_refused(store):
    with pytest.raises(TypeError, match="connection"):
        store.kind("visits.db", "visits")


def test_a_table_that_is_not_there_is_refused_by_name(store):
    with pytest.raises(ValueError, match=r"table \('nowhere'\)"):
        store.kind(store.connection, "nowhere").column_types()


def test_types_that_are_no_keys_are_refused_before_a_row_is_read(store):
    table = store.table(pl.DataFrame({"k": [1], "f": [1]}), types={"f": "DOUBLE PRECISION"})
    with pytest.raises(ValueError, match="by: column 'f'"):
        release_tree(table, by="f", epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=r"by: column 'f' .* Hint: cast it"):
        release_tree(table, by=Key.number("f", low=0, high=1, bins=2), epsilon=1.0)
    with pytest.raises(ValueError, match="identifier 'f'"):
        release_tree(table, by="k", epsilon=1.0, delta=1e-6, unit=Unit("f", rows=1))


def test_what_fails_in_a_row_says_nothing_of_it(store):
    store.table(pl.DataFrame({"k": ["1", "secret"]}), name="texts")
    store.connection.execute("DROP VIEW IF EXISTS numbers")
    store.connection.execute("CREATE VIEW numbers AS SELECT CAST(k AS INTEGER) AS k FROM texts")
    table = store.kind(store.connection, "numbers")
    with pytest.raises(RuntimeError, match="withheld") as caught:
        table.rows_per_key(Key.columns("k"))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert counts_of(store.table(pl.DataFrame({"k": ["x"]})), ["k"]) == {("x",): 1}  # the connection is still good


def is_exact(store):
    frame = visits(1, people=12, rows=300)
    table = store.table(frame)
    try:
        return records(table, ("a", "b"), parts=3) == expected_records(frame, ("a", "b"))
    except AssertionError:  # a person in several parts
        return False


MUTANTS = {
    "rows of nobody": {"unit IS NOT NULL": "1 = 1"},
    "people in two parts": {"% 3 = 2": "% 3 >= 1"},
    "pairs instead of rows": {"count(*) AS people": "count(DISTINCT key_0) AS people"},
    "people of one part alone": {"% 3 = 2": "% 3 = 1"},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_query_are_rejected(store, name, monkeypatch):
    read = store.kind._read

    def mutant(table, query, columns):
        for words, instead in MUTANTS[name].items():
            query = query.replace(words, instead)
        return read(table, query, columns)

    assert is_exact(store)
    monkeypatch.setattr(store.kind, "_read", mutant)
    assert not is_exact(store)


def test_mutant_parts_by_key_are_rejected(store, monkeypatch):
    monkeypatch.setattr(store.kind, "hashed", store.kind.hashed.replace("{0}", "key_0"))
    assert not is_exact(store)


def test_nothing_depends_on_the_hash_being_good(store, monkeypatch):
    monkeypatch.setattr(store.kind, "hashed", "coalesce(NULL, 7)")
    assert is_exact(store)


def test_long_texts_are_known_by_their_beginning_and_a_digest(store):
    """One row decides nothing of whether others are read, however long its text is; and no text passes for another."""
    long = ["é" * 40_000, "é" * 40_000 + "x", "x" * 2**16, "x" * (2**16 + 1), "x" * (2**16 + 2)]
    passing = next(iter(counts_of(store.table(pl.DataFrame({"k": [long[3]]})), ["k"])))[0]
    frame = pl.DataFrame({"k": [*long, passing] * 2, "user": [*long, passing] * 2})
    table = store.table(frame)
    labels = [label for (label,) in counts_of(table, ["k"])]
    assert len(set(labels)) == len(labels) == 6
    assert long[2] in labels
    assert passing.startswith("x" * 2**16)
    assert len(passing) == 2**16 + 64
    assert sorted(records(table, ("k",)).values()) == [2] * 6
