"""What holds of every engine's tables; a test file of an engine imports these and gives the fixture `store`."""

from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from functools import partial

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts, release_tree
from opendp_tree.engines import sql
from opendp_tree.mechanisms import make_people_records
from opendp_tree.mechanisms.people.weights import leaf_units
from opendp_tree.rows import people as rows_people
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
SALT = bytes(range(16))
UNITS = [
    Unit("user", rows=2),
    Unit("user", leaves=2),
    Unit("user", leaves=2, rows_per_leaf=2),
    Unit("user", rows=3, leaves=2, rows_per_leaf=2),
]


def visits(seed, people=7, rows=60):
    rng = np.random.default_rng(seed)
    frame = {
        "user": [None if user == people else int(user) for user in rng.integers(0, people + 1, rows)],
        "a": [[*TEXTS, None][number] for number in rng.integers(0, 4, rows)],
        "b": [None if number == 3 else int(number) for number in rng.integers(0, 4, rows)],
    }
    return pl.DataFrame(frame, schema=VISITS)


def counted(frame):
    """Leaf counts as a multiset of keys."""
    found = Counter()
    for *key, people in frame.iter_rows():
        assert people > 0
        assert tuple(key) not in found
        found[tuple(key)] = people
    return found


def kept(table, unit, *, by=("a", "b"), salt=SALT):
    return counted(table.leaf_counts(Key.columns(*by), unit, salt))


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


def test_an_empty_table_has_no_leaves(store):
    assert counts_of(store.table(visits(1).clear()), ["a", "b"]) == {}
    assert counts_of(store.table(visits(1).clear()), ["a", "b"], UNITS[0]) == {}


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_what_is_kept_of_all_is_the_sum_of_what_is_kept_of_each(store, unit):
    """So whoever else is in the table changes nothing of what is kept of a person, and none adds more than the map."""
    for seed in range(3):
        frame = visits(seed)
        everybody, added = kept(store.table(frame), unit), Counter()
        for user in range(7):
            own = kept(store.table(frame.filter(pl.col("user") == user)), unit)
            assert sum(own.values()) <= unit.most_rows
            added.update(own)
        assert everybody == added


def test_without_one_person_the_rows_kept_of_all_others_are_the_same(store):
    frame = visits(5, people=200, rows=4000)
    by, unit = ("user", "a", "b"), Unit("user", rows=3)
    whole = kept(store.table(frame), unit, by=by)
    fewer = kept(store.table(frame.filter(pl.col("user") != 17).reverse()), unit, by=by)
    assert sum(whole.values()) > 500
    assert {key: people for key, people in whole.items() if key[0] != 17} == fewer


def test_as_much_is_kept_as_the_bounds_allow(store):
    frame = visits(9, people=30, rows=400)
    table = store.table(frame)
    known = frame.drop_nulls("user")
    each = Counter(known["user"].to_list())
    assert sum(kept(table, Unit("user", rows=5)).values()) == sum(min(5, people) for people in each.values())
    leaves = Counter(known.select("user", "a", "b").unique()["user"].to_list())
    assert sum(kept(table, Unit("user", leaves=3)).values()) == sum(min(3, number) for number in leaves.values())


def test_bounds_that_are_never_reached_change_nothing(store):
    frame = visits(3)
    known = frame.drop_nulls("user")
    for by in (Key.columns("a", "b"), Key.columns("a", "b", nulls="drop")):
        assert counts_of(store.table(frame), by, Unit("user", rows=999)) == counts_of(known, by)


def test_another_salt_keeps_other_rows_each_as_often(store):
    """3,000 people keep one of two leaves: 6.2 standard deviations, a false alarm below 1e-9."""
    frame = pl.DataFrame([(user, label, 0) for user in range(3000) for label in ("x", "y")], VISITS, orient="row")
    table = store.table(frame)
    found = [kept(table, Unit("user", leaves=1), by=("a",), salt=bytes([number]) * 16) for number in (1, 2)]
    for each in found:
        assert sum(each.values()) == 3000
        assert abs(each["x",] - 1500) < 6.2 * (3000 / 4) ** 0.5
    assert found[0] != found[1]


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
def test_people_of_a_table_are_weighed_as_those_of_a_frame(store, memory):
    """What rows weigh at leaves, and where people are put, by a coin that is a function of their number of rows."""
    frame = visits(8, people=30, rows=400)
    key, unit = Key.columns("a", "b"), Unit("user", count="shares")

    def weighed(source, memory=None):
        made = make_people_records(
            frame_domain(source), dp.symmetric_id_distance("user"), by=key, unit=unit, memory=memory
        )
        records = made(source)
        sums = records.summed(PeoplePart.placed, partial(leaf_units, most=3), partial(leaf_units, most=None))
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
def test_people_of_every_type_are_bounded_at_keys_of_every_type(store, kind):
    """Each person is at each key, and keeps three rows; whoever has no identifier keeps none."""
    for values in PEOPLE.values():
        users = pl.DataFrame({"user": PEOPLE[kind]}).join(pl.DataFrame({"key": values}), how="cross")
        table, people = store.table(pl.concat([users] * 3)), PEOPLE[kind].drop_nulls().len()
        assert sum(kept(table, Unit("user", rows=3), by=("key",)).values()) == 3 * people
        assert sum(kept(table, Unit("user", leaves=1), by=("key",)).values()) == people
        found = [table.records(Key.columns("key"), "user", SALT, part, 3)["unit"] for part in range(3)]
        assert sum(part.n_unique() for part in found) == pl.concat(found).n_unique() == people


@pytest.mark.parametrize("kept_leaves", [1, 2])
def test_each_order_of_a_persons_leaves_is_as_likely(store, kept_leaves):
    """Each of five leaves is kept of as many of 4,000 people: 6.5 standard deviations under each of four salts."""
    labels = ["a", "b", "c", "ab", None]
    frame = pl.DataFrame({"user": np.arange(4000)}).join(pl.DataFrame({"a": labels}), how="cross")
    table, expected = store.table(frame), 4000 * kept_leaves / 5
    for number in range(4):
        found = kept(table, Unit("user", leaves=kept_leaves), by=("a",), salt=bytes([number]) * 16)
        away = max(abs(people - expected) for people in found.values())
        assert len(found) == 5
        assert away < 6.5 * (expected * (1 - kept_leaves / 5)) ** 0.5


def test_every_person_is_in_one_part(store):
    table = store.table(visits(6, people=60, rows=500))
    found = [set(table.records(Key.path("a", depth=2), "user", SALT, part, 4)["unit"]) for part in range(4)]
    assert sum(map(len, found)) == len(set.union(*found)) == 60
    assert all(found)


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
    table = store.table(frame)
    found = kept(table, Unit("user", rows=1), by=("k",))
    assert found == {(text,): 1 for text in HOSTILE}


def test_a_release_is_made(store):
    frame = pl.DataFrame({"user": np.arange(2000) % 700, "city": ["ghent", "liege"] * 1000})
    table = store.table(frame)
    release = release_tree(table, by="city", epsilon=5.0, delta=1e-6, unit=Unit("user", rows=1))
    assert release.statement.counted.startswith("rows after keeping at most 1")
    assert abs(release.to_frame(other=False)["estimate"][0] - 700) < 60
    plain = release_tree(table, by="city", epsilon=5.0, delta=1e-6)
    assert abs(plain.to_frame(other=False)["estimate"][0] - 2000) < 60


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
        table.leaf_counts(Key.columns("k"), None, SALT)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert counts_of(store.table(pl.DataFrame({"k": ["x"]})), ["k"]) == {("x",): 1}  # the connection is still good


def is_additive(store, unit):
    """Whether what is kept of all is the sum of what is kept of each, and of nobody more than the bound."""
    frame = visits(1, people=12, rows=300)
    everybody, added = kept(store.table(frame), unit), Counter()
    for user in range(12):
        own = kept(store.table(frame.filter(pl.col("user") == user)), unit)
        if sum(own.values()) > unit.most_rows:
            return False
        added.update(own)
    return everybody == added


MUTANTS = {
    "any number of leaves": ({"place <= 2": "1 = 1"}, Unit("user", leaves=2)),
    "any number of rows at a leaf": ({"CASE WHEN people < 1 THEN people ELSE 1 END": "people"}, Unit("user", leaves=2)),
    "more rows at the last leaf": (
        {"CASE WHEN at_most < 3 - before THEN at_most ELSE 3 - before END": "at_most"},
        Unit("user", rows=3),
    ),
    "a bound for all people": ({"PARTITION BY unit": "PARTITION BY key_0"}, Unit("user", rows=2)),
    "a seeded random order": (
        {"at_most FROM pairs": "at_most, random() AS draw FROM pairs", "unit ORDER BY ": "unit ORDER BY draw, "},
        Unit("user", rows=2),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_query_are_rejected(store, name, monkeypatch):
    """A bound forgotten, others' rows counted, a seeded random order: one person changes what is kept of others."""
    written = sql.bounded_counts
    changes, unit = MUTANTS[name]

    def mutant(*given):
        store.connection.execute("SELECT setseed(0.5)").fetchall()
        query = written(*given)
        for words, instead in changes.items():
            assert words in query
            query = query.replace(words, instead)
        return query

    assert is_additive(store, unit)
    monkeypatch.setattr(sql, "bounded_counts", mutant)
    assert not is_additive(store, unit)


def test_nothing_depends_on_the_hash_being_good(store, monkeypatch):
    """With one hash for all, labels settle the order: the bound and the sum over people hold all the same."""
    monkeypatch.setattr(store.kind, "dialect", replace(store.kind.dialect, hashed="coalesce(NULL, 7)"))
    assert all(is_additive(store, unit) for unit in UNITS)
