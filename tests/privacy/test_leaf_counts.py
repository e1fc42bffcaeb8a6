"""Neighbouring frames: leaf counts never move further than the map says, and wrong variants do.

Which rows of a person are kept is drawn at random, so two frames are compared under the same draws: a draw is a
function of the person's own records, the leaf and a seed, whatever else the frame holds.
"""

from dataclasses import replace
from itertools import combinations_with_replacement, permutations

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts
from opendp_tree.keys.number import NOWHERE
from opendp_tree.rows import counting
from opendp_tree.rows.counting import RowCounter
from opendp_tree.theorems.noise import leaf_counts_l1, per_person
from tests.engines.stores import DuckDBStore
from tests.frame_truth import as_paths, path_of
from tests.fuzz.frames import own_draws
from tests.thoroughness import examples, slow

SCHEMA = {"id": pl.Int64, "a": pl.String, "b": pl.Int64}
TREE = Tree.from_paths([("x", 0), ("x", 1), ("y",), ("(other)",)])
KEYS = {
    "open": {"by": ["a", "b"]},
    "open, no nulls": {"by": Key.columns("a", "b", nulls="drop")},
    "public": {"by": Key.columns("a", "b", tree=TREE)},
    "public, other": {"by": Key.columns("a", "b", tree=TREE, outside=("(other)",))},
    "public, outside": {"by": Key.columns("a", "b", tree=TREE, outside="leaf")},
    "bits": {"by": Key.bits("b", width=1)},
    "bits, no others": {"by": Key.bits("b", width=1, outside="drop")},
    "numbers": {"by": Key.number("b", low=0, high=2, bins=2, branching=2)},
    "numbers, ends": {"by": Key.number("b", low=0, high=1, bins=2, outside="ends", nulls="drop")},
    "url": {"by": Key.url("a", depth=3)},
    # Ranges of width 1 from 0, so that what rows are grouped by is the number itself.
    "nested": {"by": Key.nested(Key.number("b", low=0, high=3, bins=3, branching=2), Key.path("a", depth=3))},
    "path": {"by": Key.path("a", depth=3)},
    "path, no nulls": {"by": Key.path("a", depth=2, nulls="drop")},
}
QUICK = "bits", "open", "public, other", "numbers, ends", "nested", "path, no nulls", "url"
BOUNDS = [
    {"unit": Unit("id", rows=1)},
    {"unit": Unit("id", rows=2)},
    {"unit": Unit("id", leaves=1)},
    {"unit": Unit("id", leaves=2, rows_per_leaf=2)},
    {"unit": Unit("id", rows=3, leaves=2, rows_per_leaf=2)},
]


def checked_leaves(leaves):
    """The numbers of leaves of open trees, once they are sure to tell the same leaves apart as labels do."""

    def numbered(counter, groups):
        found = leaves(counter, groups)
        if counter.lookup is None:
            named = groups.rename({f"key_{index}": name for index, name in enumerate(counter.key.columns_used)})
            named = named.with_columns(pl.col(pl.Int64).replace(NOWHERE, None))
            paths = [repr(path_of(row, counter.key)) for row in named.iter_rows(named=True)]
            pairs = {(leaf, path) for leaf, path in zip(found.tolist(), paths, strict=True) if leaf >= 0}
            assert len(pairs) == len({leaf for leaf, _ in pairs}) == len({path for _, path in pairs})
        return found

    return numbered


def counts(count, rows):
    found = count(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
    return dict(enumerate(found.tolist())) if isinstance(found, np.ndarray) else as_paths(found)


def moved(count, rows, others):
    one, two = counts(count, rows), counts(count, others)
    return sum(abs(one.get(leaf, 0) - two.get(leaf, 0)) for leaf in one.keys() | two.keys())


def broken(count, pairs):
    """Whether leaf counts of some pair move further than the map says at the pair's distance."""
    return any(moved(count, rows, others) > count.map(distance) for rows, others, distance in pairs)


def make(metric, options):
    return make_leaf_counts(frame_domain(SCHEMA), metric, **options)


ROW = st.tuples(
    st.sampled_from([1, 2, 3, None]),
    st.sampled_from(["x", "y", "z", "x/y", "/x", "x/y/z", None]),
    st.integers(-1, 2) | st.none(),
)
ROWS = st.lists(ROW, max_size=12)


def changed(rows, place, row):
    return [*rows[:place], row, *rows[place + 1 :]]


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.hypothesis
def test_rows_added_removed_or_changed_move_counts_no_further_than_the_map(kind):
    one, ordered = make(dp.symmetric_distance(), KEYS[kind]), make(dp.insert_delete_distance(), KEYS[kind])
    swapped, hamming = make(dp.change_one_distance(), KEYS[kind]), make(dp.hamming_distance(), KEYS[kind])

    @examples(30)
    @given(ROWS, st.lists(ROW, max_size=3), st.randoms())
    def check(rows, more, random):
        mixed = random.sample([*rows, *more], len(rows) + len(more))
        assert not broken(one, [(rows, mixed, len(more)), (mixed, rows, len(more))])
        assert not broken(ordered, [(rows, [*rows[:2], *more, *rows[2:]], len(more))])
        others = [*more, *rows[len(more) :]][: len(rows)]
        differ = sum(old != new for old, new in zip(rows, others, strict=True))
        assert not broken(swapped, [(rows, random.sample(others, len(others)), differ)])
        assert not broken(hamming, [(rows, others, differ)])

    check()


def without(rows, people):
    return [row for row in rows if row[0] not in people]


@pytest.mark.parametrize("limits", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", slow(KEYS, unless=QUICK.__contains__))
@pytest.mark.hypothesis
def test_people_added_removed_or_exchanged_move_counts_no_further_than_the_map(kind, limits, monkeypatch):
    options = {**KEYS[kind], **limits}
    count, swap = make(dp.symmetric_id_distance("id"), options), make(dp.change_one_id_distance("id"), options)
    monkeypatch.setattr(RowCounter, "_leaves", checked_leaves(RowCounter._leaves))

    @examples(15)
    @given(ROWS, st.sets(st.sampled_from([1, 2, 3, None]), max_size=2), ROWS, st.randoms(), st.integers(0, 99))
    def check(rows, people, more, random, seed):
        monkeypatch.setattr(counting, "_draws", own_draws(seed))
        fewer = without(rows, people)
        assert not broken(count, [(random.sample(rows, len(rows)), fewer, len({row[0] for row in rows} & people))])
        exchanged = [*fewer, *((9, *row[1:]) for row in more)]
        gone, came = len({row[0] for row in rows} & people), len({row[0] for row in exchanged} & {9})
        assert not broken(swap, [(rows, exchanged, -(-(gone + came) // 2))])
        assert not broken(count, [(rows, exchanged, gone + came)])

    check()


def test_rows_without_an_identifier_are_left_out():
    count = make(dp.symmetric_id_distance("id"), {"by": "a", "unit": Unit("id", rows=9)})
    assert counts(count, [(None, "x", 0), (1, "x", 0), (None, "y", 0)]) == {("x",): 1}


def test_what_is_kept_of_a_person_is_drawn_evenly():
    """Chance of a false alarm below 1e-9: 3,000 people keep one of two leaves each; 6.2 standard deviations."""
    rows = [(person, label, 0) for person in range(3_000) for label in ("x", "y")]
    for order in (rows, rows[::-1]):
        found = counts(make(dp.symmetric_id_distance("id"), {"by": "a", "unit": Unit("id", leaves=1)}), order)
        assert sum(found.values()) == 3_000
        assert abs(found["x",] - 1_500) < 6.2 * (3_000 / 4) ** 0.5


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_as_much_is_kept_as_the_limits_allow(sizes, rows, leaves, rows_per_leaf):
    given_rows = [(1, str(leaf), 0) for leaf, size in enumerate(sizes) for _ in range(size)]
    only_rows = counts(make(dp.symmetric_id_distance("id"), {"by": "a", "unit": Unit("id", rows=rows)}), given_rows)
    assert sum(only_rows.values()) == min(rows, sum(sizes))
    unit = Unit("id", leaves=leaves, rows_per_leaf=rows_per_leaf)
    found = counts(make(dp.symmetric_id_distance("id"), {"by": "a", "unit": unit}), given_rows)
    assert len(found) == min(leaves, len(sizes))
    assert all(count == min(rows_per_leaf, sizes[int(leaf)]) for (leaf,), count in found.items())
    both = counts(make(dp.symmetric_id_distance("id"), {"by": "a", "unit": replace(unit, rows=rows)}), given_rows)
    assert sum(both.values()) <= per_person(rows=rows, leaves=leaves, rows_per_leaf=rows_per_leaf)


def small_pairs():
    """Frames of one person in every order, and with all rows of another person, or of nobody known."""
    leaves = [("x", 0), ("y", 0), ("w", 0)]
    for size in (1, 2, 3):
        for own in combinations_with_replacement(leaves, size):
            rows = [(1, *leaf) for leaf in own]
            for order in permutations(rows):
                yield rows, list(order), 0
            for person in (2, None):
                for more in ([("w", 0)], [("x", 0)] * 3, leaves):
                    yield rows, [*((person, *leaf) for leaf in more), *rows], 1


PAIRS = list(small_pairs())
PEOPLE = dp.symmetric_id_distance("id")
TWO_LEAVES = {"by": "a", "unit": Unit("id", leaves=2)}
TWO_ROWS = {"by": "a", "unit": Unit("id", rows=2)}


@pytest.mark.parametrize("options", [TWO_LEAVES, TWO_ROWS], ids=str)
@pytest.mark.parametrize("memory", [150, *slow([None])])
@pytest.mark.parametrize("seed", [0, *slow([1, 2])])
def test_small_pairs_hold(options, memory, seed, monkeypatch):
    """In one part, and in several: frames of different sizes are then taken in different numbers of parts."""
    monkeypatch.setattr(counting, "_draws", own_draws(seed))
    assert not broken(make(PEOPLE, {**options, "memory": memory}), PAIRS)


@pytest.mark.parametrize("options", [TWO_LEAVES, TWO_ROWS], ids=str)
@pytest.mark.parametrize("every", [9, *slow([3])])
def test_small_pairs_hold_in_duckdb(options, every, monkeypatch):
    """The same pairs as tables of DuckDB."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(counting, "_draws", own_draws(0))
    with duckdb.connect() as connection:
        store = DuckDBStore(connection)

        def as_table(rows):
            return store.table(pl.DataFrame(rows, schema=SCHEMA, orient="row"), name="visits")

        count = make_leaf_counts(frame_domain(as_table([])), PEOPLE, **options)
        for rows, others, distance in PAIRS[::every]:
            one, two = as_paths(count(as_table(rows))), as_paths(count(as_table(others)))
            far = sum(abs(one.get(leaf, 0) - two.get(leaf, 0)) for leaf in one.keys() | two.keys())
            assert far <= count.map(distance)


def test_mutant_parts_of_rows_instead_of_people_is_rejected(monkeypatch):
    """Half of a person's rows in each part: each is cut by itself, and the person counts twice."""

    def every_other_row(source, key, unit, part, parts):
        return source.selected(key, unit).filter(pl.int_range(pl.len()) % parts == part)

    monkeypatch.setattr(counting, "_draws", own_draws(0))
    monkeypatch.setattr(counting.FrameRows, "rows_per_person", every_other_row)
    assert broken(make(PEOPLE, {**TWO_ROWS, "memory": 150}), PAIRS)


def test_mutant_first_rows_of_the_frame_is_rejected(monkeypatch):
    """The first k rows of each person in the order of the frame: a permutation of the rows changes the counts."""
    read = counting.narrowed

    def first_rows(frame, kinds):
        return read(frame, kinds).filter(pl.int_range(pl.len()).over("id") < 2)

    monkeypatch.setattr(counting, "_draws", own_draws(0))
    monkeypatch.setattr(counting, "narrowed", first_rows)
    assert broken(make(PEOPLE, TWO_ROWS), PAIRS)


def test_mutant_draws_by_the_place_of_a_leaf_among_all_is_rejected(monkeypatch):
    """A hash of codes instead of labels: another person's label moves the codes, and with them what others keep."""

    def by_rank(records, part, places):
        return np.array([2, 1, 3], dtype=np.uint64)[part.leaves[places]] << np.uint64(60)

    monkeypatch.setattr(counting, "_draws", by_rank)
    assert broken(make(PEOPLE, {"by": "a", "unit": Unit("id", leaves=1)}), PAIRS)


@pytest.mark.parametrize("forgotten", ["rows_per_leaf", "leaves", "rows"])
def test_mutants_that_forget_a_bound_are_rejected(forgotten, monkeypatch):
    truncate = counting.truncate
    many = {"rows_per_leaf": 99, "leaves": 99, "rows": 99}[forgotten]
    options = TWO_ROWS if forgotten == "rows" else {"by": "a", "unit": Unit("id", leaves=1)}

    def forgetful(rows, starts, unit, draw):
        return truncate(rows, starts, replace(unit, **{forgotten: many}), draw)

    monkeypatch.setattr(counting, "_draws", own_draws(0))
    monkeypatch.setattr(counting, "truncate", forgetful)
    assert broken(make(PEOPLE, options), PAIRS)


def test_mutant_that_takes_each_row_without_identifier_for_a_person_is_rejected(monkeypatch):
    read = counting.narrowed

    def own_numbers(frame, kinds):
        number = pl.int_range(pl.len(), dtype=pl.Int64) + 1000
        return read(frame, kinds).with_columns(pl.col("id").fill_null(number))

    monkeypatch.setattr(counting, "_draws", own_draws(0))
    monkeypatch.setattr(counting, "narrowed", own_numbers)
    assert broken(make(PEOPLE, TWO_ROWS), PAIRS)


def test_mutant_one_unit_for_a_change_is_rejected():
    """Without the factor 2 the map is too small, for rows and for people."""
    rows, others = [(1, "x", 0)], [(1, "y", 0)]
    assert moved(make(dp.change_one_distance(), {"by": "a"}), rows, others) > leaf_counts_l1(1)
    swap = make(dp.change_one_id_distance("id"), TWO_ROWS)
    assert moved(swap, rows * 2, [(2, "y", 0)] * 2) > leaf_counts_l1(1, per_unit=2)
    assert moved(swap, rows * 2, [(2, "y", 0)] * 2) == leaf_counts_l1(1, per_unit=2, changed=True) == swap.map(1)


def test_maps_are_reached():
    assert moved(make(dp.symmetric_distance(), {"by": "a"}), [], [(1, "x", 0)] * 4) == 4
    count = make(PEOPLE, {"by": "a", "unit": Unit("id", leaves=2, rows_per_leaf=2)})
    assert moved(count, [], [(1, label, 0) for label in "xxxyyy"]) == count.map(1) == 4
