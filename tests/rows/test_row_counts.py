from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, Tree, Unit
from opendp_tree.rows.counting import RowCounter
from opendp_tree.rows.dtypes import kinds_of
from tests.frame_truth import as_paths

SCHEMA = {"user": pl.Int64, "a": pl.String, "b": pl.Int64}
ROWS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["x", "y", "x/y", None]), st.integers(0, 3)),
    max_size=20,
)
TREE = Tree.from_paths([("x",), ("y",), ("rest",)])
KEYS = {
    "columns": Key.columns("a", "b"),
    "no nulls": Key.columns("a", "b", nulls="drop"),
    "path": Key.path("a", depth=3),
    "bits": Key.bits("b", width=1),
    "bits, no others": Key.bits("b", width=1, outside="drop"),
    "url": Key.url("a", depth=3),
    "numbers": Key.number("b", low=1, high=2, bins=3, branching=2),
    "numbers, ends": Key.number("b", low=1, high=2, bins=3, outside="ends"),
    "numbers, no others": Key.number("b", low=1, high=2, bins=3, outside="drop"),
    "nested": Key.nested(Key.number("b", low=1, high=2, bins=3), Key.path("a", depth=3)),
    "outside": Key.columns("a", tree=TREE, outside="leaf"),
    "public": Key.columns("a", tree=TREE),
    "other": Key.columns("a", tree=TREE, outside=("rest",)),
}


def counter(key, unit=None, memory=None):
    kinds = kinds_of(SCHEMA)
    used = {name: kinds[name] for name in (*key.columns_used, *([unit.column] if unit else []))}
    return RowCounter.of(key, kinds, used, unit, memory)


def total(counts):
    return int(counts.sum()) if isinstance(counts, np.ndarray) else int(counts.occupied.counts.sum())


def frame_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS)
def test_bounds_that_are_never_reached_change_nothing_for_rows_of_somebody(name, rows):
    known = [row for row in rows if row[0] is not None]
    plain = counter(KEYS[name]).count(frame_of(known))
    for unit in (Unit("user", rows=99), Unit("user", leaves=99, rows_per_leaf=99)):
        bounded = counter(KEYS[name], unit).count(frame_of(rows))
        if isinstance(plain, np.ndarray):
            assert bounded.tolist() == plain.tolist()
        else:
            assert as_paths(bounded) == as_paths(plain)


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS, most=st.integers(1, 3))
def test_of_each_person_as_much_is_kept_as_there_is_up_to_the_bound(name, rows, most):
    each = Counter()
    for row in rows:
        if row[0] is not None:
            each[row[0]] += total(counter(KEYS[name]).count(frame_of([row])))
    bounded = counter(KEYS[name], Unit("user", rows=most)).count(frame_of(rows))
    assert total(bounded) == sum(min(count, most) for count in each.values())


def test_leaves_of_which_nothing_is_kept_do_not_show():
    rows = [(1, label, number) for label in ("x", "y") for number in range(4)]
    counts = counter(Key.columns("a", "b"), Unit("user", leaves=1)).count(frame_of(rows))
    assert counts.occupied.counts.tolist() == [1]


def test_units_of_any_type_are_together():
    for values in ([1, 1, 2], ["p", "p", "q"], [2**100, 2**100, 1]):
        dtype = pl.Int128 if values[0] == 2**100 else None
        frame = pl.DataFrame({"user": pl.Series(values, dtype=dtype), "a": ["x"] * 3, "b": [0] * 3})
        kinds = kinds_of(frame.schema)
        made = RowCounter.of(Key.columns("a"), kinds, {"a": "text", "user": kinds["user"]}, Unit("user", rows=1))
        assert made.count(frame).occupied.counts.tolist() == [2]
