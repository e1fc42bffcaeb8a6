import os
import signal
from collections import Counter

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_tree import Key, OpenTree, Tree, Unit, frame_domain, release_tree
from opendp_tree.rows import counting, people
from opendp_tree.rows.leaf_counts import make_people_records, then_people_records
from opendp_tree.rows.people import PeoplePart, people_domain
from tests.frame_truth import as_paths
from tests.goodness_of_fit import FALSE_ALARM
from tests.rows.test_row_counts import KEYS, ROWS, SCHEMA, by_leaf, counter, frame_of
from tests.thoroughness import examples

SHARES = Unit("user", count="shares")
PEOPLE = dp.symmetric_id_distance("user")


def labels_of(records):
    """For each of the places of records, what the tree calls it."""
    if isinstance(records.tree, Tree):
        return list(range(records.tree.leaf_count))
    size = records.sparse.occupied.counts.size
    counts = records.sparse.recounted(np.arange(1, size + 1))
    found = {number - 1: path for path, number in as_paths(counts).items()}
    return [found[place] for place in range(size)]


def as_people(records):
    """Everybody's rows by leaf, without anybody's name."""
    names, found = labels_of(records), []
    for part in records.each():
        assert part.size == len(names)
        for start, end in zip(part.starts, np.append(part.starts, part.leaves.size)[1:], strict=True):
            leaves, rows = part.leaves[start:end], part.rows[start:end].tolist()
            assert (np.diff(leaves) > 0).all()
            found.append(tuple((names[leaf], number) for leaf, number in zip(leaves, rows, strict=True)))
    return Counter(found)


def one_by_one(key, rows):
    """Each person's leaf counts, by counting the rows of one after the other as if there were nobody else."""
    people = {row[0] for row in rows} - {None}
    found = [by_leaf(counter(key).count(frame_of([row for row in rows if row[0] == user]))) for user in people]
    return Counter(frozenset(own.items()) for own in found if own)


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS, random=st.randoms())
@examples(30)
def test_records_are_everybodys_own_counts_in_whatever_order_rows_come(name, rows, random):
    key = KEYS[name]
    for order in (rows, random.sample(rows, len(rows))):
        found = as_people(counter(key, SHARES).people(frame_of(order)))
        assert Counter(frozenset(person) for person in found.elements()) == one_by_one(key, rows)


def test_the_map_counts_people():
    space = frame_domain(SCHEMA)
    by = {"by": "a", "unit": SHARES}
    assert make_people_records(space, PEOPLE, **by).map(3) == 3
    assert make_people_records(space, dp.change_one_id_distance("user"), **by).map(3) == 6
    framed = make_people_records(space, dp.frame_distance(PEOPLE), **by)
    assert framed.map([dp.polars.Bound(per_group=4)]) == 4
    made = (space, PEOPLE) >> then_people_records(**by)
    assert (made.output_domain, made.output_metric) == (people_domain(OpenTree.columns(["a"])), dp.symmetric_distance())


def test_a_unit_is_needed_and_other_records_are_no_members():
    with pytest.raises(ValueError, match="unit must say how much of one person is counted"):
        make_people_records(frame_domain(SCHEMA), PEOPLE, by="a", unit=None)
    records = counter(KEYS["public"], SHARES).people(frame_of([(1, "x", 0)]))
    assert people_domain(KEYS["public"].tree).member(records)
    assert not people_domain(Tree.from_paths([("x",)])).member(records)
    assert not people_domain(KEYS["public"].tree).member(np.zeros(3, dtype=np.int64))
    with pytest.raises(TypeError, match="must be a Tree or an OpenTree"):
        people_domain(3)


def some_records(*persons):
    """Records of a public tree with three leaves."""
    starts = np.cumsum([0, *(sum(rows > 0 for rows in person) for person in persons)])[:-1]
    pairs = [(leaf, rows) for person in persons for leaf, rows in enumerate(person) if rows]
    leaves, rows = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    return PeoplePart(3, starts.astype(np.int64), leaves, rows)


def test_everybody_is_put_once_at_the_leaf_of_the_row_that_is_drawn(monkeypatch):
    records = some_records((2, 1, 0), (0, 0, 3), (1, 0, 1))
    for drawn, placed in (((0, 0, 0), (2, 0, 1)), ((1, 2, 1), (1, 0, 2)), ((2, 1, 0), (1, 1, 1))):
        monkeypatch.setattr(people, "uniform_below", lambda limits, drawn=drawn: np.array(drawn))
        assert records.placed().tolist() == list(placed)
    assert some_records().placed().tolist() == [0, 0, 0]


def test_rows_are_drawn_evenly():
    """Binomial tests at both ends with the false-alarm rate of the suite."""
    records = some_records(*[(3, 1, 0)] * 4000)
    first, second, third = records.placed().tolist()
    assert first + second == 4000
    assert third == 0
    assert stats.binomtest(second, 4000, 0.25).pvalue > FALSE_ALARM


def sums(key, rows, memory=None):
    """Sums over people by the names of leaves: rows, people, and people placed at random."""
    records = counter(key, SHARES, memory).people(frame_of(rows))
    found = records.summed(
        lambda part: part.added(part.rows),
        lambda part: np.bincount(part.leaves, minlength=part.size),
        PeoplePart.placed,
    )
    names = labels_of(records)
    return [Counter(dict(zip(names, each.tolist(), strict=True))) for each in found]


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS)
@examples(15)
def test_sums_are_the_same_in_any_number_of_parts(name, rows):
    """With coins that are a function of the person's own number of rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "uniform_below", lambda limits: limits // 2)
        whole, some, many = (sums(KEYS[name], rows, memory) for memory in (None, 500, 100))
    assert whole == some == many


@pytest.mark.parametrize("memory", [None, 200])
@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS)
@examples(15)
def test_without_one_person_nothing_changes_for_all_others(name, memory, rows):
    """Sums of all, less those of one person alone, are the sums of the others: of rows, people, and where they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "uniform_below", lambda limits: limits // 2)
        alone = sums(KEYS[name], [row for row in rows if row[0] == 1], memory)
        others = sums(KEYS[name], [row for row in rows if row[0] != 1], memory)
        whole = sums(KEYS[name], rows, memory)
    for one, rest, every in zip(alone, others, whole, strict=True):
        assert +(one + rest) == +every


def test_one_part_is_in_memory_at_a_time(monkeypatch):
    """Little memory: many parts, each read once for all sums, and none much larger than the others."""
    read, sizes = counting.people_records, []
    monkeypatch.setattr(counting, "people_records", lambda *given: sizes.append(0) or read(*given))
    rows = [(person, label, 0) for person in range(1000) for label in ("x", "y")]
    records = counter(KEYS["columns"], SHARES, 20_000).people(frame_of(rows))
    assert sizes == []  # nothing but keys is read before a measurement asks
    found = records.summed(
        PeoplePart.placed, lambda part: part.added(part.rows), lambda part: np.array([part.rows.size])
    )
    assert len(sizes) == records.parts == 16
    assert [int(each.sum()) for each in found] == [1000, 2000, 2000]
    # A part has 62 people on average; 150 have a chance below 1e-17, by Chernoff's bound.
    assert max(part.starts.size for part in records.each()) < 150


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3).filter(any), max_size=8), st.integers(1, 7))
def test_pieces_are_the_same_people_a_few_at_a_time(persons, most):
    part = some_records(*persons)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "_PIECE", most)
        pieces = list(part.pieces())
    assert np.concatenate([piece.rows for piece in pieces]).tolist() == part.rows.tolist()
    assert np.concatenate([piece.leaves for piece in pieces]).tolist() == part.leaves.tolist()
    assert np.concatenate([piece.totals for piece in pieces]).tolist() == part.totals.tolist()
    assert all(piece.starts.size and piece.starts[0] == 0 for piece in pieces) or not persons
    assert len(pieces) >= part.rows.size / (max(most, 3) + 2)  # somebody who began before has at most 3 records


def test_an_interrupt_ends_the_reading_of_parts(monkeypatch):
    """Between two parts, where nothing is drawn that would ask."""
    read, seen = counting.people_records, []

    def interrupted(*given):
        seen.append(os.kill(os.getpid(), signal.SIGINT))
        return read(*given)

    monkeypatch.setattr(counting, "people_records", interrupted)
    tree = Tree.from_paths([("x",), ("y",)])
    frame = frame_of([(person, "xy"[person % 2], 0) for person in range(100)])
    unit = Unit("user", count="people", nodes=1)
    with pytest.raises(KeyboardInterrupt):
        release_tree(frame, by=Key.columns("a", tree=tree), epsilon=1.0, unit=unit, memory=1000)
    assert len(seen) == 1


def test_a_mutant_that_knows_leaves_by_a_part_is_rejected(monkeypatch):
    """Places among a part's own keys: sums over parts mix leaves."""
    real = counting.people_records

    def mutant(size, units, leaves, rows=None):
        return real(size, units, np.unique(leaves, return_inverse=True)[1].reshape(-1), rows)

    rows = [(person, "xyz"[person % 3], 0) for person in range(60)]
    whole = sums(Key.columns("a"), rows)[0]
    assert sums(Key.columns("a"), rows, 100)[0] == whole
    monkeypatch.setattr(counting, "people_records", mutant)
    assert sums(Key.columns("a"), rows, 100)[0] != whole


def test_rows_of_nobody_are_left_out_first():
    rows = [(None, "x", 0)] * 50 + [(1, "x", 0), (1, "y", 0)]
    assert as_people(counter(KEYS["public"], SHARES).people(frame_of(rows))) == Counter([((0, 1), (1, 1))])
    unnamed = [(1, None, 0)] * 5 + [(1, "x", 0)]
    own = counter(Key.columns("a", nulls="drop"), SHARES).people(frame_of(unnamed))
    assert [part.totals.tolist() for part in own.each()] == [[1]]


def test_mutant_rows_of_nobody_as_people_of_their_own_are_rejected(monkeypatch):
    """Somebody whose rows carry no name would be many people: distance 1 would move many."""
    rows = [(1, "x", 0)]
    more = [*rows, *[(None, "x", 0)] * 5]

    def moved(records):
        found = [sum(part.starts.size for part in records(frame_of(each)).each()) for each in (rows, more)]
        return abs(found[1] - found[0])

    records = make_people_records(frame_domain(SCHEMA), PEOPLE, by="a", unit=SHARES)
    assert moved(records) <= records.map(1)
    real = counting.narrowed

    def mutant(frame, kinds):
        numbered = real(frame, kinds).with_row_index("row")
        return numbered.with_columns(pl.col("user").fill_null(pl.col("row").cast(pl.Int64) + 100))

    monkeypatch.setattr(counting, "narrowed", mutant)
    assert moved(records) > records.map(1)


@pytest.mark.parametrize("dtype", [pl.Null, pl.Int128, pl.UInt128, pl.Int64])
def test_people_of_files_are_read_whatever_the_type_of_who_they_are(dtype, tmp_path):
    """Polars filters columns of some types only once they are read."""
    frame = pl.DataFrame({"user": pl.Series([None] * 9, dtype=dtype), "city": ["x"] * 9})
    frame.write_parquet(tmp_path / "rows.parquet")
    space = frame_domain(frame), dp.symmetric_id_distance("user")
    records = space >> then_people_records(by="city", unit=Unit("user", rows=2))
    for rows in (frame, pl.scan_parquet(tmp_path / "rows.parquet")):
        assert records(rows).summed(PeoplePart.placed)[0].sum() == 0
