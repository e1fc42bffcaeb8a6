"""Rows of a Polars frame to a histogram over people: how many of them have how many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.metrics import l1_distance
from opendp.mod import ChangeOneIdDistance, Domain, Metric, SymmetricIdDistance, Transformation, assert_features

from opendp_tree._arguments import check_integer
from opendp_tree._opendp import make_transformation, to_then
from opendp_tree._types import Ints
from opendp_tree.keys.key import Key
from opendp_tree.rows.domains import column_kinds
from opendp_tree.theorems.laplace import bin_ends, rows_per_unit_l1

if TYPE_CHECKING:
    import polars as pl

__all__ = ["make_rows_per_unit", "then_rows_per_unit"]

LARGEST = 2**20
"""More rows of one person than this nobody would keep: what a person may move is all that they have."""


def make_rows_per_unit(input_domain: Domain, input_metric: Metric, *, most: int) -> Transformation:
    """How many people have how many rows: a vector of i64 with a count for each bin of `bin_ends(most)`.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [1, 1, 1, 2, 3, 3, 3, 3, None]})
    >>> space = frame_domain(visits), dp.symmetric_id_distance("user")
    >>> people = space >> then_rows_per_unit(most=3)
    >>> people(visits), people.map(1)
    ([1, 0, 2], 1)

    """
    assert_features("contrib")
    kinds = column_kinds(input_domain)
    unit, changed = read_unit(input_metric, kinds)
    ends = np.array(bin_ends(check_most(most)), dtype=np.int64)

    def stability_map(d_in: int) -> int:
        return rows_per_unit_l1(check_integer(d_in, name="d_in", least=0), changed=changed)

    return make_transformation(
        input_domain,
        input_metric,
        vector_domain(atom_domain(T="i64"), size=ends.size),
        l1_distance(T="i64"),
        lambda data: histogram(data, unit, {unit: kinds[unit]}, ends),
        stability_map,
    )


then_rows_per_unit = to_then(make_rows_per_unit)


def check_most(most: int) -> int:
    """A number of rows that is worth a report."""
    if not 2 <= check_integer(most, name="most") <= LARGEST:
        raise ValueError(f"most ({most}) must be from 2 to {LARGEST}. Hint: the most rows that you would ever keep")
    return int(most)


def read_unit(metric: Metric, kinds: dict[str, str]) -> tuple[str, bool]:
    """The column that tells people apart, and whether people are changed instead of added or removed."""
    if not isinstance(metric, (SymmetricIdDistance, ChangeOneIdDistance)):
        raise ValueError(
            f"input_metric ({metric}) must be symmetric_id_distance or change_one_id_distance. Hint: without people "
            "there is nothing to bound"
        )
    from opendp_tree.trees.label_keys import column_name

    name = column_name(metric.identifier)
    if name not in kinds:
        raise ValueError(f"input_metric ({metric}) must have a column of input_domain as its identifier")
    if kinds[name].startswith(("Object", "Unknown")):
        raise ValueError(f"unit: values of the identifier {name!r} cannot be told apart, by their type. Hint: text")
    return str(name), isinstance(metric, ChangeOneIdDistance)


def histogram(data: Any, unit: str, kinds: dict[str, str], ends: Ints) -> Ints:
    """How many people are in each bin; those without an identifier are nobody."""
    from opendp_tree.rows.grouping import PEOPLE, check_columns, guarded, read_frame
    from opendp_tree.rows.tables import Table

    if isinstance(data, Table):
        check_columns(data.column_types(), kinds)
        rows: Ints = data.rows_per_key(Key.columns(unit), unit)[PEOPLE].to_numpy()
    else:
        people = read_frame(data, kinds)
        rows = guarded(lambda: _rows(people, unit))
    places = np.searchsorted(ends, np.minimum(rows, ends[-1]), side="left")
    return np.bincount(places, minlength=ends.size).astype(np.int64)


def _rows(people: pl.LazyFrame, unit: str) -> Ints:
    """The number of rows of each person, in any order."""
    from opendp_tree.rows.grouping import PEOPLE, UNIT

    counted = people.rename({unit: UNIT}).group_by(UNIT).len(PEOPLE).collect(engine="streaming")
    found: Ints = counted.filter(counted[UNIT].is_not_null())[PEOPLE].to_numpy().astype(np.int64)
    return found
