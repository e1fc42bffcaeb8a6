"""Counts and sums against one row at a time in plain Python; people under equal draws."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, Unit, Value, frame_domain
from opendp_tree.mechanisms import make_leaf_values
from opendp_tree.rows import counting
from opendp_tree.theorems.tree_means import STEPS, steps_of

dp.enable_features("contrib")
AMOUNT, DELAY = Value("amount", bounds=(0, 500)), Value("delay", bounds=(-30, 180))
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
    made = make_leaf_values(frame_domain(frame), dp.symmetric_distance(), values=values, by=key)
    for data in (frame, frame.lazy(), frame.sample(fraction=1.0, shuffle=True, seed=2)):
        found = made(data)
        assert found.people.tolist() == [counts[path] for path in paths]
        for mine, theirs in zip(found.sums, sums, strict=True):
            off = mine - np.array([theirs[path] for path in paths])
            assert (np.abs(off) <= found.people).all()  # at ties between steps floats may choose the other
            assert np.abs(off).sum() <= 3
            assert ((mine >= 0) & (mine <= STEPS * found.people)).all()


def test_opendps_own_frames_give_the_same():
    frame = frame_of().drop("user")
    by_reference = make_leaf_values(frame_domain(frame), dp.symmetric_distance(), values=AMOUNT, by="city")
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    domain = context.query()._query._chain[0]
    made = make_leaf_values(domain, dp.symmetric_distance(), values=AMOUNT, by="city")
    one, other = by_reference(frame), made(frame.lazy())
    assert one.people.tolist() == other.people.tolist()
    assert one.sums[0].tolist() == other.sums[0].tolist()


def test_at_most_so_many_rows_of_each_person_are_kept_and_no_less():
    frame = frame_of()
    made = make_leaf_values(
        frame_domain(frame), dp.symmetric_id_distance("user"), values=AMOUNT, by="city", unit=Unit("user", rows=3)
    )
    valid = frame.filter(pl.col("amount").is_not_null() & pl.col("amount").is_not_nan())
    per_user = valid.group_by("user").len()["len"].to_numpy()
    assert made(frame).people.sum() == np.minimum(per_user, 3).sum()
    everything = make_leaf_values(
        frame_domain(frame), dp.symmetric_id_distance("user"), values=AMOUNT, by="city", unit=Unit("user", rows=SIZE)
    )
    plain = make_leaf_values(frame_domain(frame), dp.symmetric_distance(), values=AMOUNT, by="city")
    assert everything(frame).sums[0].tolist() == plain(frame).sums[0].tolist()


def test_what_is_kept_of_others_does_not_depend_on_a_new_person(monkeypatch):
    """Under equal draws for everybody else a person with any rows moves the counts by at most the rows kept."""
    frame = frame_of(80).with_columns(user=pl.col("user") % 6).sort("user")
    newcomer = frame_of(30).with_columns(user=pl.lit(99, dtype=pl.Int64))
    words = RNG.integers(0, 2**63, 400).astype(np.uint64)
    monkeypatch.setattr(counting, "uniform_words", lambda size: words[:size])
    for rows in (1, 2, 5):
        made = make_leaf_values(
            frame_domain(frame),
            dp.symmetric_id_distance("user"),
            values=AMOUNT,
            by=Key.columns("city", tree=Tree.from_paths([("x",), ("y",), ("z",)])),
            unit=Unit("user", rows=rows),
        )
        before, after = made(frame), made(pl.concat([frame, newcomer]))
        assert np.abs(after.people - before.people).sum() == rows
        moved = np.abs(after.sums[0] - before.sums[0]).sum()
        left = np.abs(STEPS * after.people - after.sums[0] - (STEPS * before.people - before.sums[0])).sum()
        assert moved + left == rows * STEPS


def test_rows_are_drawn_evenly():
    """Of a person's ten rows each is kept as often: a chance below 1e-7 to fail by accident (6 sd)."""
    frame = pl.DataFrame({"user": [0] * 10, "city": [str(place) for place in range(10)], "amount": [1.0] * 10})
    made = make_leaf_values(
        frame_domain(frame),
        dp.symmetric_id_distance("user"),
        values=AMOUNT,
        by=Key.columns("city", tree=Tree.from_paths([(str(place),) for place in range(10)]), outside="drop"),
        unit=Unit("user", rows=3),
    )
    total = sum(made(frame).people for _ in range(400))
    assert total.sum() == 1200
    sd = np.sqrt(400 * 0.3 * 0.7)
    assert np.abs(total - 120).max() < 6 * sd
    assert total.min() > 0


def test_rows_without_a_leaf_take_nobodys_place():
    frame = pl.DataFrame({"user": [0] * 9, "city": ["x"] + ["nowhere"] * 8, "amount": [1.0] * 9})
    made = make_leaf_values(
        frame_domain(frame),
        dp.symmetric_id_distance("user"),
        values=AMOUNT,
        by=Key.columns("city", tree=Tree.from_paths([("x",), ("y",)]), outside="drop"),
        unit=Unit("user", rows=1),
    )
    assert made(frame).people.tolist() == [1, 0]


def test_no_rows_at_all_are_counted_as_none():
    frame = frame_of().clear()
    for unit, metric in ((None, dp.symmetric_distance()), (Unit("user", rows=2), dp.symmetric_id_distance("user"))):
        found = make_leaf_values(frame_domain(frame), metric, values=AMOUNT, by=["country", "city"], unit=unit)(frame)
        assert found.people.size == found.sums[0].size == 0


def test_a_step_is_the_same_alone_and_among_many():
    """Halves of steps, where the last bit decides; a quotient in the place of the product differs for hundreds."""
    value = Value("x", bounds=(0, 49))
    numbers = pl.DataFrame({"x": (np.arange(1500) * 691 + 0.5) * 49 / STEPS})
    among = numbers.select(counting.step_of(value))["x"].to_list()
    assert [numbers[place : place + 1].select(counting.step_of(value)).item() for place in range(1500)] == among
