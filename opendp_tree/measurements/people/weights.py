"""What people weigh at leaves and at nodes, in whole units: sums are exact, whatever their order.

All rows of a frame together weigh at most `UNITS` each, so sums stay below 2**52. Proof: docs/proofs/people_layers.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendp_tree._types import Ints
from opendp_tree.rows.people import PeopleRecords
from opendp_tree.theorems.people_layers import node_units, node_units_squared

UNITS = 2**20
"""So many units are one: a person with a thousand leaves loses less than a thousandth to rounding."""


def leaf_units(records: PeopleRecords, most: int | None, *, units: int = UNITS) -> Ints:
    """For each leaf what all rows there weigh: `row_units`, over all records.

    Parameters
    ----------
    records
        Who has how many rows at which leaf.
    most
        What all rows of one person weigh at most; None for 1, however few they are.
    units
        How many units are one.
    """
    totals = records.totals[records.people]
    whole, rest = np.divmod(units * (1 if most is None else most), totals)
    # whole * rows + rest * rows // totals is the floor of units * most * rows / totals, in numbers that fit.
    over = (rest.astype(np.uint64) * records.rows.astype(np.uint64) // totals.astype(np.uint64)).astype(np.int64)
    weights = whole * records.rows + over
    if most is not None:
        weights = np.where(totals <= most, units * records.rows, weights)
    return summed(weights, records.leaves, records.size)


def summed(weights: Ints, places: Ints, size: int) -> Ints:
    """The sums of integers by place."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, places, weights)
    return sums


def people_units(
    records: PeopleRecords, node_of_leaf: Ints, size: int, most: int, *, squared: bool, units: int = UNITS
) -> Ints:
    """For each of a level's nodes what all people there weigh: each `node_units` at every node where they are.

    Parameters
    ----------
    records
        Who has how many rows at which leaf.
    node_of_leaf
        For each leaf the node that holds it, from 0 to below `size`; -1 for none.
    size
        The number of nodes.
    most
        What one person weighs at all nodes together at most, or the squares of that.
    squared
        Whether squares are bounded, as for Gaussian noise.
    units
        How many units are one.
    """
    nodes = node_of_leaf[records.leaves]
    inside = nodes >= 0
    pairs = records.people[inside] * np.int64(max(size, 1)) + nodes[inside]
    if (pairs[1:] < pairs[:-1]).any():
        pairs = np.sort(pairs)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    people, nodes = np.divmod(pairs, max(size, 1))
    held = np.bincount(people, minlength=records.starts.size)
    weigh: Callable[..., int] = node_units_squared if squared else node_units
    distinct, which = np.unique(held, return_inverse=True)
    table = np.array([weigh(max(each, 1), most=most, units=units) for each in distinct.tolist()], dtype=np.int64)
    return summed(table[which][people], nodes, size)
