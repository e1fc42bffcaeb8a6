from collections import Counter

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_tree import Key, OpenTree, Tree, Unit, frame_domain
from opendp_tree.rows import groups, people, row_counts
from opendp_tree.rows.people import PeopleRecords, make_people_records, people_domain, then_people_records
from tests.goodness_of_fit import FALSE_ALARM
from tests.rows.test_row_counts import KEYS, ROWS, SCHEMA, TREE, counter, frame_of
from tests.thoroughness import examples

SHARES = Unit("user", count="shares")
PEOPLE = dp.symmetric_id_distance("user")


def labels_of(records):
    """For each of the places of records, what the tree calls it."""
    if isinstance(records.tree, Tree):
        return list(range(records.tree.leaf_count))
    counts = records.with_counts(np.arange(1, records.size + 1))
    from tests.frame_truth import as_paths

    found = {number - 1: path for path, number in as_paths(counts).items()}
    return [found[place] for place in range(records.size)]


def as_people(records):
    """Everybody's rows by leaf, without anybody's name."""
    names, found = labels_of(records), []
    for place, start in enumerate(records.starts):
        end = records.starts[place + 1] if place + 1 < records.starts.size else records.leaves.size
        here = slice(start, end)
        assert (np.diff(records.leaves[here]) > 0).all()
        found.append(
            tuple(
                (names[leaf], rows)
                for leaf, rows in zip(records.leaves[here], records.rows[here].tolist(), strict=True)
            )
        )
    return Counter(found)


def one_by_one(key, rows):
    """Each person's leaf counts, by counting the rows of one after the other as if there were nobody else."""
    from tests.frame_truth import as_paths

    found = []
    for user in {row[0] for row in rows} - {None}:
        counts = counter(key).count(frame_of([row for row in rows if row[0] == user]))
        if isinstance(counts, np.ndarray):
            own = [(leaf, int(count)) for leaf, count in enumerate(counts) if count]
        else:
            own = list(as_paths(counts).items())
        if own:
            found.append(frozenset(own))
    return Counter(found)


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


@pytest.mark.parametrize(
    ("metric", "unit", "message"),
    [
        (dp.symmetric_distance(), SHARES, "unit needs an input_metric with an identifier"),
        (dp.symmetric_id_distance("b"), SHARES, r"unit \('user'\) must be 'b', which tells people apart"),
        (PEOPLE, None, "unit must say how much of one person is counted"),
    ],
)
def test_what_does_not_fit_is_refused(metric, unit, message):
    with pytest.raises(ValueError, match=message):
        make_people_records(frame_domain(SCHEMA), metric, by="a", unit=unit)


def test_other_records_are_no_members():
    records = counter(KEYS["public"], SHARES).people(frame_of([(1, "x", 0)]))
    assert people_domain(TREE).member(records)
    assert not people_domain(Tree.from_paths([("x",)])).member(records)
    assert not people_domain(TREE).member(np.zeros(3, dtype=np.int64))
    with pytest.raises(TypeError, match="must be a Tree or an OpenTree"):
        people_domain(3)


def some_records(*persons):
    """Records of a public tree with three leaves."""
    starts = np.cumsum([0, *(sum(rows > 0 for rows in person) for person in persons)])[:-1]
    pairs = [(leaf, rows) for person in persons for leaf, rows in enumerate(person) if rows]
    leaves, rows = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    return PeopleRecords(TREE, starts.astype(np.int64), leaves, rows)


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


def test_rows_of_nobody_are_left_out_first():
    rows = [(None, "x", 0)] * 50 + [(1, "x", 0), (1, "y", 0)]
    assert as_people(counter(KEYS["public"], SHARES).people(frame_of(rows))) == Counter([((0, 1), (1, 1))])
    unnamed = [(1, None, 0)] * 5 + [(1, "x", 0)]
    own = counter(Key.columns("a", nulls="drop"), SHARES).people(frame_of(unnamed))
    assert own.totals.tolist() == [1]


def test_mutant_rows_of_nobody_as_people_of_their_own_are_rejected(monkeypatch):
    """Somebody whose rows carry no name would be many people: distance 1 would move many."""
    rows = [(1, "x", 0)]
    more = [*rows, *[(None, "x", 0)] * 5]

    def moved(records):
        return abs(int(records(frame_of(more)).starts.size) - int(records(frame_of(rows)).starts.size))

    records = make_people_records(frame_domain(SCHEMA), PEOPLE, by="a", unit=SHARES)
    assert moved(records) <= records.map(1)
    real = groups.group_rows

    def mutant(frame, key, unit):
        numbered = frame.with_row_index("row").with_columns(pl.col(unit).fill_null(pl.col("row").cast(pl.Int64) + 100))
        return real(numbered, key, unit)

    monkeypatch.setattr(row_counts, "group_rows", mutant)
    assert moved(records) > records.map(1)
