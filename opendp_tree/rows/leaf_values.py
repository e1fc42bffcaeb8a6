"""Rows of a frame to counts and sums of values by leaf: what sums and means at every node are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from opendp.mod import Domain, ExtrinsicDomain, Metric, Transformation, assert_features

from opendp_tree._opendp import extrinsic_domain, to_then
from opendp_tree._types import Ints
from opendp_tree.keys.key import Key
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value, read_values
from opendp_tree.theorems.tree_means import STEPS
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.labels import check_figure_names
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["LeafValues", "leaf_values_domain", "make_leaf_values", "then_leaf_values"]

TOO_MANY_ROWS = 2**42
"""So many rows, of 2**20 steps each, would leave the integers in which sums are exact."""


@dataclass(frozen=True)
class LeafValues:
    """What rows come to at each leaf.

    Parameters
    ----------
    counts
        The leaf counts: an array in the order of a public tree's leaves, or the sparse counts of an open tree.
    sums
        For each value the sums of its steps, 0 to 2**20 a row, in the order of the counts.
    """

    counts: Ints | SparseCounts
    sums: tuple[Ints, ...]

    @property
    def people(self) -> Ints:
        """The counts as an array."""
        return self.counts.occupied.counts if isinstance(self.counts, SparseCounts) else self.counts


@dataclass(frozen=True)
class LeafValueSpace:
    """Describes a domain of `LeafValues`."""

    tree: Tree | OpenTree
    values: tuple[Value, ...]

    def holds(self, value: object) -> bool:
        """Whether something is a member, by its form and by its size: sums of members never wrap."""
        if type(value) is not LeafValues or len(value.sums) != len(self.values):
            return False
        counts = value.counts
        if isinstance(self.tree, OpenTree):
            if type(counts) is not SparseCounts or counts.tree != self.tree:
                return False
        elif type(counts) is not np.ndarray or counts.shape != (self.tree.leaf_count,):
            return False
        arrays = (value.people, *value.sums)
        if not all(
            type(array) is np.ndarray and array.dtype == np.int64 and array.shape == arrays[0].shape for array in arrays
        ):
            return False
        rows = value.people
        if not ((rows >= 0) & (rows < TOO_MANY_ROWS)).all():
            return False
        # Floats add whole numbers exactly below 2**53, and what is beyond stays beyond.
        few = rows.sum(dtype=np.float64) < TOO_MANY_ROWS
        return bool(few) and all(bool(((steps >= 0) & (steps <= STEPS * rows)).all()) for steps in value.sums)

    def read(self, value: object) -> LeafValues:
        """A member, once it is sure to be one."""
        if not self.holds(value):
            raise TypeError("the data must be LeafValues of input_domain. Hint: make_leaf_values")
        assert isinstance(value, LeafValues)
        return value


def leaf_values_domain(tree: Tree | OpenTree, values: Value | Sequence[Value]) -> Domain:
    """The domain of counts and sums by leaf, of fewer than 2**42 rows; `make_leaf_values` makes its members.

    Counts are not negative, and a leaf's sums are from 0 to 2**20 times its rows. Frames never come to anything else.

    Distances between members are in rows: `symmetric_distance` of d says that the two are what rows come to that differ
    in d, added or removed.

    Parameters
    ----------
    tree
        The public tree, or the open one.
    values
        What is summed, as for `make_leaf_values`.

    >>> tree = Tree.from_paths([("be",), ("lu",)])
    >>> domain = leaf_values_domain(tree, Value("amount", bounds=(0, 500)))
    >>> domain.member(LeafValues(np.array([2, 1]), (np.array([2**20, 0]),)))
    True
    """
    described = LeafValueSpace(tree, read_values(values))
    check_figure_names([each.column for each in described.values], tree.names)
    identifier = f"LeafValues({leaf_domain(tree)}, {described.values})"
    return extrinsic_domain(identifier, described.holds, described)


def read_space(input_domain: Domain) -> LeafValueSpace:
    """What a domain of `LeafValues` says of itself."""
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    if not isinstance(described, LeafValueSpace):
        raise ValueError(f"input_domain ({input_domain}) must hold leaf values. Hint: leaf_values_domain(tree, values)")
    return described


def make_leaf_values(
    input_domain: Domain,
    input_metric: Metric,
    *,
    values: Value | Sequence[Value],
    by: Key | str | Sequence[str],
    unit: Unit | None = None,
) -> Transformation:
    """How many rows of a frame belong to each leaf, and the sums of their values, in steps between the bounds.

    A row without a number in one of the columns is left out of all, counts included. The output metric is
    `symmetric_distance`: how many rows that are counted differ. Its map is that of `make_leaf_counts` with this unit,
    exact. Proof: docs/proofs/tree_means.md. Nothing that is raised depends on values in the data.

    Parameters
    ----------
    input_domain
        OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    input_metric
        How far frames are apart, in rows or in people, as for `make_leaf_counts`.
    values
        What is summed: `Value("amount", bounds=(0, 500))`, or a list of several.
    by
        Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
    unit
        How many rows of one person are kept, where the metric has an identifier: `Unit("user", rows=5)`; which ones is
        drawn at random. By default None: the metric counts rows.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> frame = pl.DataFrame({"city": ["ghent", "ghent", "lux"], "amount": [125.0, None, 900.0]})
    >>> space = frame_domain(frame), dp.symmetric_distance()
    >>> leaves = space >> then_leaf_values(values=Value("amount", bounds=(0, 500)), by="city")
    >>> leaves(frame).people, leaves(frame).sums, leaves.map(1)
    (array([1, 1]), (array([ 262144, 1048576]),), 1)

    """
    assert_features("contrib")
    from opendp_tree.rows.leaf_counts import make_counting

    return make_counting(input_domain, input_metric, by=by, unit=unit, values=read_values(values))


then_leaf_values = to_then(make_leaf_values)
