"""Leaf values: maps, members, and counts and sums against one row at a time in plain Python."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, Unit, Value, frame_domain, make_leaf_counts
from opendp_tree.mechanisms import LeafValues, leaf_values_domain, make_leaf_values
from opendp_tree.rows import counting, people
from opendp_tree.rows.counting import read_space
from opendp_tree.theorems.sums import STEPS
from tests.frame_truth import steps_of

TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
AMOUNT = Value("amount", bounds=(0, 500))
FRAME = pl.DataFrame({"user": [1, 1, 2], "city": ["a", "a", "b"], "amount": [1.0, 2.0, 3.0]})


PEOPLE = dp.symmetric_id_distance("user")


def made_for(frame, *, by="city", rows=None, values=AMOUNT):
    """Leaf values of rows or, with a bound on the rows of each, of people."""
    unit, metric = (None, dp.symmetric_distance()) if rows is None else (Unit("user", rows=rows), PEOPLE)
    return make_leaf_values(frame_domain(frame), metric, values=values, by=by, unit=unit)


@pytest.mark.parametrize("metric", [dp.symmetric_distance, dp.insert_delete_distance, dp.change_one_distance])
def test_the_map_is_that_of_leaf_counts_in_rows(metric):
    space = frame_domain(FRAME), metric()
    values, counts = make_leaf_values(*space, values=AMOUNT, by="city"), make_leaf_counts(*space, by="city")
    assert [values.map(k) for k in range(4)] == [counts.map(k) for k in range(4)]
    assert values.output_metric == dp.symmetric_distance()


def test_the_map_of_people_counts_the_rows_of_each():
    assert [made_for(FRAME, rows=7).map(k) for k in range(3)] == [0, 7, 14]
    with pytest.raises(ValueError, match="bound on rows alone"):
        make_leaf_values(frame_domain(FRAME), PEOPLE, values=AMOUNT, by="city", unit=Unit("user", leaves=2))


def refused(domain, value):
    assert not domain.member(value)
    with pytest.raises(TypeError, match="must be LeafValues"):
        read_space(domain).read(value)


def test_a_member_has_the_tree_and_as_many_sums_as_values():
    domain = leaf_values_domain(TREE, AMOUNT)
    three = np.zeros(3, dtype=np.int64)
    assert domain.member(LeafValues(three, (three,)))
    wrong = [
        LeafValues(three, ()),
        LeafValues(three, (three, three)),
        LeafValues(three[:2], (three[:2],)),
        LeafValues(three, (three[:2],)),
        LeafValues(three.astype(float), (three,)),
        LeafValues(np.ma.masked_array(three), (three,)),
        three,
    ]
    for value in wrong:
        refused(domain, value)
    sparse = OpenTree.columns(2).count([("a", "b")])
    refused(leaf_values_domain(OpenTree.columns(3), AMOUNT), LeafValues(sparse, (np.ones(1, dtype=np.int64),)))
    rows = np.array([2**41, 2**41 - 1, 0])  # as many as the map covers
    assert domain.member(LeafValues(rows, (rows * 2**20,)))


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        ([2**42, 0, 0], [0, 0, 0]),
        ([2**41, 2**41, 0], [0, 0, 0]),
        ([2**62, 2**62, 2**62], [0, 0, 0]),
        ([-1, 1, 1], [0, 0, 0]),
        ([1, 1, 1], [-1, 0, 0]),
        ([1, 1, 0], [0, 0, 1]),
        ([1, 1, 1], [0, 2**20 + 1, 0]),
        ([1, 1, 1], [0, 2**63 - 1, 0]),
    ],
)
def test_what_the_map_does_not_cover_is_no_member(rows, steps):
    refused(leaf_values_domain(TREE, AMOUNT), LeafValues(np.array(rows), (np.array(steps),)))
    counts = OpenTree.columns(2).count([("a", "b"), ("a", "c"), ("d", "e")])
    sparse = replace(counts, occupied=replace(counts.occupied, counts=np.array(rows)))
    refused(leaf_values_domain(counts.tree, AMOUNT), LeafValues(sparse, (np.array(steps),)))


def test_domains_of_other_bounds_or_trees_are_others():
    domains = [
        leaf_values_domain(TREE, AMOUNT),
        leaf_values_domain(TREE, Value("amount", bounds=(0, 501))),
        leaf_values_domain(OpenTree.columns(2), AMOUNT),
    ]
    assert domains[0] == leaf_values_domain(TREE, AMOUNT)
    assert len({str(domain) for domain in domains}) == 3
    assert read_space(domains[0]).values == (AMOUNT,)
    with pytest.raises(ValueError, match="must hold leaf values"):
        read_space(dp.atom_domain(T=float))


def test_levels_and_figures_have_names_of_their_own():
    clash = Tree.from_paths([("a",)], names=["mean"])
    with pytest.raises(ValueError, match="two columns 'mean'"):
        leaf_values_domain(clash, AMOUNT)
    leaf_values_domain(clash, [AMOUNT, Value("delay", bounds=(0, 1))])


DELAY = Value("delay", bounds=(-30, 180))
RNG = np.random.default_rng(5)
SIZE = 400


def frame_of(size=SIZE):
    amounts = RNG.uniform(-100, 700, size).tolist()
    amounts[::17] = [None] * len(amounts[::17])
    amounts[3::29] = [float("nan")] * len(amounts[3::29])
    amounts[5::31] = [float("inf")] * len(amounts[5::31])
    return pl.DataFrame(
        {
            "country": RNG.choice(["be", "lu", "fr"], size),
            "city": RNG.choice(["x", "y", "z"], size),
            "amount": amounts,
            "delay": pl.Series(RNG.integers(-50, 300, size).tolist(), dtype=pl.Int32),
            "user": RNG.integers(0, 40, size),
        }
    )


def expected(frame, values):
    """One row at a time."""
    counts, sums = Counter(), [Counter() for _ in values]
    for row in frame.iter_rows(named=True):
        numbers = [row[each.column] for each in values]
        if any(number is None or math.isnan(number) for number in numbers):
            continue
        place = row["country"], row["city"]
        counts[place] += 1
        for total, each, number in zip(sums, values, numbers, strict=True):
            total[place] += steps_of(number, low=Fraction(each.low), high=Fraction(each.high))
    return counts, sums


@pytest.mark.parametrize("values", [(AMOUNT,), (AMOUNT, DELAY)], ids=["one", "two"])
@pytest.mark.parametrize("public", [False, True])
def test_counts_and_sums_are_those_of_one_row_at_a_time(values, public):
    frame = frame_of()
    counts, sums = expected(frame, values)
    paths = sorted(counts)
    tree = Tree.from_paths(paths, names=["country", "city"]) if public else None
    key = Key.columns("country", "city", tree=tree, outside=None if tree is None else "drop")
    made = made_for(frame, values=values, by=key)
    for data in (frame, frame.lazy(), frame.sample(fraction=1.0, shuffle=True, seed=2)):
        found = made(data)
        assert found.people.tolist() == [counts[path] for path in paths]
        for mine, theirs in zip(found.sums, sums, strict=True):
            off = mine - np.array([theirs[path] for path in paths])
            assert (np.abs(off) <= found.people).all()  # at ties between steps floats may choose the other
            assert np.abs(off).sum() <= 3
            assert ((mine >= 0) & (mine <= STEPS * found.people)).all()


def test_at_most_so_many_rows_of_each_person_are_kept_and_no_less():
    frame = frame_of()
    valid = frame.filter(pl.col("amount").is_not_null() & pl.col("amount").is_not_nan())
    per_user = valid.group_by("user").len()["len"].to_numpy()
    assert made_for(frame, rows=3)(frame).people.sum() == np.minimum(per_user, 3).sum()
    everything, plain = made_for(frame, rows=SIZE)(frame), made_for(frame)(frame)
    assert everything.sums[0].tolist() == plain.sums[0].tolist()


def test_what_is_kept_of_others_does_not_depend_on_a_new_person(monkeypatch):
    """Under equal draws for everybody else a person with any rows moves the counts by at most the rows kept."""
    frame = frame_of(80).with_columns(user=pl.col("user") % 6).sort("user")
    newcomer = frame_of(30).with_columns(user=pl.lit(99, dtype=pl.Int64))
    words = RNG.integers(0, 2**63, 400).astype(np.uint64)
    monkeypatch.setattr(people, "uniform_words", lambda size: words[:size])
    key = Key.columns("city", tree=Tree.from_paths([("x",), ("y",), ("z",)]))
    for rows in (1, 2, 5):
        made = made_for(frame, by=key, rows=rows)
        before, after = made(frame), made(pl.concat([frame, newcomer]))
        assert np.abs(after.people - before.people).sum() == rows
        moved = np.abs(after.sums[0] - before.sums[0]).sum()
        left = np.abs(STEPS * after.people - after.sums[0] - (STEPS * before.people - before.sums[0])).sum()
        assert moved + left == rows * STEPS


def test_rows_without_a_leaf_take_nobodys_place():
    frame = pl.DataFrame({"user": [0] * 9, "city": ["x"] + ["nowhere"] * 8, "amount": [1.0] * 9})
    key = Key.columns("city", tree=Tree.from_paths([("x",), ("y",)]), outside="drop")
    assert made_for(frame, by=key, rows=1)(frame).people.tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(20))
def test_counts_and_sums_have_the_same_leaves_whatever_the_sums_are(seed):
    """Rows without an address, all at the lower bound, have a leaf although their steps add up to 0."""
    rng, size = np.random.default_rng(seed), seed % 7
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, 3, size),
            "address": rng.choice(["nonsense", "more nonsense", "10.0.0.1", "10.0.0.2"], size),
            "port": rng.choice([-1, 3, 99], size),
            "amount": rng.choice([0.0, 0.0, 500.0], size),
        },
        schema={"user": pl.Int64, "address": pl.String, "port": pl.Int64, "amount": pl.Float64},
    )
    for rows in (None, 9):
        for key in (Key.ip("address"), Key.bits("port", width=4, stride=2)):
            made = made_for(frame, by=key, rows=rows)
            found = made(frame)
            assert made.output_domain.member(found)
            assert found.people.sum() == size
            assert found.sums[0].sum() == STEPS * (frame["amount"] > 0).sum()


def test_no_rows_at_all_are_counted_as_none():
    frame = frame_of().clear()
    for rows in (None, 2):
        found = made_for(frame, by=["country", "city"], rows=rows)(frame)
        assert found.people.size == found.sums[0].size == 0


def test_a_step_is_the_same_alone_and_among_many():
    """Halves of steps, where the last bit decides; a quotient in the place of the product differs for hundreds."""
    value = Value("x", bounds=(0, 49))
    numbers = pl.DataFrame({"x": (np.arange(1500) * 691 + 0.5) * 49 / STEPS})
    among = numbers.select(counting.step_of(value))["x"].to_list()
    assert [numbers[place : place + 1].select(counting.step_of(value)).item() for place in range(1500)] == among
