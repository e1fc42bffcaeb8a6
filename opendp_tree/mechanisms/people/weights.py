"""What people weigh at leaves and at nodes, in whole units: sums are exact, whatever their order.

A row weighs at most `UNITS`, so sums over all parts of people stay below 2**52. Proof: docs/proofs/people_layers.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendp_tree._types import Ints
from opendp_tree.rows.people import PeoplePart
from opendp_tree.theorems.people_layers import node_units, node_units_squared

UNITS = 2**20
"""So many units are one: a person with a thousand leaves loses less than a thousandth to rounding."""


def leaf_units(part: PeoplePart, most: int | None, *, units: int = UNITS) -> Ints:
    """For each leaf what all rows there weigh: `row_units`, over all records."""
    totals = part.totals
    weighed = np.ones(totals.size, dtype=np.bool_) if most is None else totals > most  # others count as they are
    whole, rest = np.divmod(units * (1 if most is None else most), totals)
    whole, rest = np.where(weighed, whole, units), np.where(weighed, rest, 0)
    # whole * rows + rest * rows // totals is the floor of units * most * rows / totals, in numbers that fit.
    lengths, rows = part.lengths, part.rows
    weights = np.repeat(whole, lengths) * rows
    left = np.flatnonzero(np.repeat(rest > 0, lengths))
    person = part.people[left]
    product = rest[person].astype(np.uint64) * rows[left].astype(np.uint64)
    weights[left] += (product // totals[person].astype(np.uint64)).astype(np.int64)
    return part.added(weights)


def people_units(
    part: PeoplePart, node_of_leaf: Ints, size: int, most: int, *, squared: bool, units: int = UNITS
) -> Ints:
    """For each of a level's nodes what all people there weigh: each `node_units` at every node where they are."""
    nodes = node_of_leaf[part.leaves]
    inside = nodes >= 0
    pairs = part.people[inside] * np.int64(max(size, 1)) + nodes[inside]
    if (pairs[1:] < pairs[:-1]).any():
        pairs = np.sort(pairs)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    people, nodes = np.divmod(pairs, max(size, 1))
    held = np.bincount(people, minlength=part.starts.size)
    weigh: Callable[..., int] = node_units_squared if squared else node_units
    distinct, which = np.unique(held, return_inverse=True)
    table = np.array([weigh(max(each, 1), most=most, units=units) for each in distinct.tolist()], dtype=np.int64)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, nodes, table[which][people])
    return sums
