"""Histograms of rows per person against counting in plain Python; maps; errors before a row is read."""

import re
from collections import Counter

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import frame_domain
from opendp_tree.rows.leaf_counts import make_rows_per_unit
from opendp_tree.theorems.tails import bin_ends
from tests.rows.test_totality import SERIES

USERS = [int(x) if x % 7 else None for x in np.random.default_rng(5).zipf(1.4, 3000) % 500]
FRAME = pl.DataFrame({"user": USERS, "city": ["a"] * 3000})
SYMMETRIC, CHANGED = dp.symmetric_id_distance("user"), dp.change_one_id_distance("user")


def plain(users, most):
    """One person after another."""
    counts = Counter(user for user in users if user is not None)
    ends = bin_ends(most)
    bins = Counter(next(end for end in ends if min(rows, most) <= end) for rows in counts.values())
    return [bins[end] for end in ends]


@pytest.mark.parametrize("most", [2, 3, 8, 9, 50, 1000, 2**20])
def test_it_counts_people_by_their_rows(most):
    made = make_rows_per_unit(frame_domain(FRAME), SYMMETRIC, most=most)
    assert made(FRAME) == made(FRAME.lazy()) == made(FRAME.reverse()) == plain(USERS, most)
    assert not any(made(FRAME.clear()))


def test_opendps_own_frames_count_alike():
    lazy = FRAME.lazy()
    made = make_rows_per_unit(dp.domain_of(lazy, infer=True), SYMMETRIC, most=9)
    assert made(lazy) == plain(USERS, 9)
    noisy = made >> dp.m.then_laplace(2.0)
    assert noisy.map(1) == 0.5
    assert len(noisy(lazy)) == len(bin_ends(9))


def test_the_map_is_one_for_a_person_and_two_for_a_changed_one():
    for metric, each in ((SYMMETRIC, 1), (CHANGED, 2)):
        made = make_rows_per_unit(frame_domain(FRAME), metric, most=9)
        assert [made.map(k) for k in (0, 1, 2, 7)] == [0, each, 2 * each, 7 * each]
        assert made.output_metric == dp.l1_distance(T="i64")


@pytest.mark.parametrize("name", SERIES)
def test_any_type_tells_people_apart(name):
    """Nothing fails for some values, and nobody changes where another is counted."""
    column = SERIES[name].rename("user").unique(maintain_order=True)
    frame = pl.DataFrame({"user": pl.concat([column, column.slice(0, 1)])})
    made = make_rows_per_unit(frame_domain(frame), SYMMETRIC, most=3)
    there = column.drop_nulls().n_unique()
    first = int(column[0] is not None)
    assert made(frame) == [there - first, first, 0]


WRONG = [
    ({"most": 1}, ValueError, "most (1) must be from 2 to 1048576"),
    ({"most": 2**20 + 1}, ValueError, "must be from 2 to 1048576"),
    ({"most": 2.0}, TypeError, "most (2.0) must be an integer"),
    ({"metric": dp.symmetric_distance()}, ValueError, "must be symmetric_id_distance or change_one_id_distance"),
    ({"metric": dp.symmetric_id_distance("nobody")}, ValueError, "unit: there is no column 'nobody'"),
    ({"domain": dp.atom_domain(T=int)}, ValueError, "must be a lazyframe_domain or a frame_domain"),
]


@pytest.mark.parametrize(("given", "kind", "words"), WRONG)
def test_wrong_arguments_are_told(given, kind, words):
    space = given.get("domain", frame_domain(FRAME)), given.get("metric", SYMMETRIC)
    with pytest.raises(kind, match=re.escape(words)):
        make_rows_per_unit(*space, most=given.get("most", 5))
