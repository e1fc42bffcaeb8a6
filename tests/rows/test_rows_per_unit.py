"""Histograms of rows per person against counting in plain Python; maps; errors before a row is read."""

import re
from collections import Counter

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.mod import OpenDPException

from opendp_tree import frame_domain
from opendp_tree.rows.rows_per_unit import make_rows_per_unit, then_rows_per_unit
from opendp_tree.theorems.laplace import bin_ends
from tests.rows.test_totality import SERIES

dp.enable_features("contrib")
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


@pytest.mark.parametrize("name", ["^a$", "unit", "people", "*", "user name"])
def test_any_name_is_a_columns_name(name):
    frame = pl.DataFrame({name: [1, 1, 2, None], "a": [1, 2, 3, 4]})
    if name in ("^a$", "*"):  # to OpenDP, and to Polars, these are patterns
        with pytest.raises((ValueError, OpenDPException)):
            make_rows_per_unit(frame_domain(frame), dp.symmetric_id_distance(name), most=2)
        return
    assert make_rows_per_unit(frame_domain(frame), dp.symmetric_id_distance(name), most=2)(frame) == [1, 1]


def test_no_rows_are_nobody():
    assert make_rows_per_unit(frame_domain(FRAME), SYMMETRIC, most=3)(FRAME.clear()) == [0, 0, 0]


WRONG = [
    ({"most": 1}, ValueError, "most (1) must be from 2 to 1048576"),
    ({"most": 2**20 + 1}, ValueError, "must be from 2 to 1048576"),
    ({"most": 2.0}, TypeError, "most (2.0) must be an integer"),
    ({"metric": dp.symmetric_distance()}, ValueError, "must be symmetric_id_distance or change_one_id_distance"),
    ({"metric": dp.symmetric_id_distance("nobody")}, ValueError, "must have a column of input_domain"),
    ({"domain": dp.atom_domain(T=int)}, ValueError, "must be a lazyframe_domain or a frame_domain"),
]


@pytest.mark.parametrize(("given", "kind", "words"), WRONG)
def test_wrong_arguments_are_told(given, kind, words):
    space = given.get("domain", frame_domain(FRAME)), given.get("metric", SYMMETRIC)
    with pytest.raises(kind, match=re.escape(words)):
        make_rows_per_unit(*space, most=given.get("most", 5))


def test_other_data_is_refused_by_its_schema():
    made = (frame_domain(FRAME), SYMMETRIC) >> then_rows_per_unit(most=3)
    for data in (FRAME.select(user=pl.lit("a")), FRAME.select("city"), [1, 2]):
        with pytest.raises(OpenDPException, match="must"):
            made(data)


def test_errors_of_a_frame_do_not_quote_it():
    broken = FRAME.lazy().with_columns(pl.col("city").cast(pl.Int64).alias("user"))
    made = make_rows_per_unit(frame_domain(FRAME), SYMMETRIC, most=3)
    with pytest.raises(OpenDPException, match="details are withheld") as told:
        made(broken)
    assert "conversion" not in str(told.value)
