"""Domains and metrics: the OpenDP spaces of counts, and how to read and write their members."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.metrics import l1_distance
from opendp.mod import AtomDomain, Domain, ExtrinsicDomain, Metric, VectorDomain, assert_features

from opendp_tree import saturate
from opendp_tree._arguments import check_type
from opendp_tree._opendp import extrinsic_domain
from opendp_tree._types import Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.nodes import SparseCounts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree, check_tree

INTEGER_TYPES = ("i32", "i64", "u32", "u64")
_INTEGER_DISTANCES = (*INTEGER_TYPES, "usize")


@dataclass(frozen=True)
class TreeCounts:
    """Describes a domain of `SparseCounts` of an open tree, or of int64 arrays with a count per leaf or per node."""

    tree: Tree | OpenTree
    of_leaves: bool = True

    @property
    def size(self) -> int | None:
        """The length of the arrays of a public tree."""
        if isinstance(self.tree, OpenTree):
            return None
        return self.tree.leaf_count if self.of_leaves else self.tree.node_count

    def has(self, value: Any) -> bool:
        """Whether a value is a member. Noise would not reach the masked counts of a masked array, a subclass."""
        if isinstance(self.tree, OpenTree):
            return type(value) is SparseCounts and bool(value.tree == self.tree)
        return type(value) is np.ndarray and value.dtype == np.int64 and value.shape == (self.size,)

    def domain(self) -> Domain:
        """The domain. OpenDP compares such domains by their text alone, so it contains the whole digest."""
        if isinstance(self.tree, OpenTree):
            return extrinsic_domain(f"SparseLeafCounts({self.tree})", self.has, self)
        name = "LeafCounts" if self.of_leaves else "NodeCounts"
        return extrinsic_domain(f"{name}(tree={self.tree.digest}, size={self.size})", self.has, self)


def described(domain: Domain) -> TreeCounts | None:
    """The counts that a domain was made for; None for OpenDP's own domains."""
    descriptor = domain.descriptor if isinstance(domain, ExtrinsicDomain) else None
    return descriptor if isinstance(descriptor, TreeCounts) else None


def leaf_domain(tree: Tree | OpenTree) -> Domain:
    """The domain of leaf counts of a tree, passed without copies; `tree.count(keys)` makes its members.

    The domain carries its tree, so constructors that follow in a chain need no `tree` argument.

    :param tree: For a `Tree`, members are int64 arrays in the order of `tree.leaves`; for an `OpenTree`, its sparse
        counts.
    """
    return TreeCounts(tree if isinstance(tree, OpenTree) else check_tree(tree)).domain()


def node_domain(tree: Tree) -> Domain:
    """The domain of node counts of a tree: int64 arrays by node id, passed without copies.

    :param tree: The public tree.
    """
    return TreeCounts(check_tree(tree), of_leaves=False).domain()


def leaf_reader(
    input_domain: Domain, input_metric: Metric, tree: Tree | OpenTree | None
) -> tuple[Tree | OpenTree, Callable[[Any], Any]]:
    """The tree of a space of leaf counts, and how to read its members: sparse counts, or one count for each leaf."""
    counts = described(input_domain)
    if counts is None or not isinstance(open_tree := counts.tree, OpenTree):
        space, public = CountSpace.of_leaves(input_domain, input_metric, tree)
        return public, space.read
    _check_l1(input_metric)
    if tree is not None and tree != open_tree:
        raise ValueError(f"tree ({tree}) must be the tree of input_domain ({open_tree}). Hint: leave it out")

    def read(data: Any) -> SparseCounts:
        if not counts.has(data):
            raise TypeError("the data must be sparse counts of the tree of input_domain. Hint: tree.count(keys)")
        return SparseCounts(
            open_tree, data.occupied, data.keys, data.outside
        )  # an equal tree, but names are those of the domain

    return open_tree, read


def tree_of_leaves(input_domain: Domain, tree: Tree | OpenTree | None) -> Tree | OpenTree:
    """The tree of a domain of leaf counts."""
    return leaf_reader(input_domain, l1_distance(T="i64"), tree)[0]


@dataclass(frozen=True)
class CountSpace:
    """How to read and write the integers of a domain: arrays, vectors or one number."""

    domain: Domain
    dtype: str
    size: int | None
    arrays: TreeCounts | None = None
    """The description of a domain of NumPy arrays, which OpenDP passes by reference; None for OpenDP's own domains."""
    scalar: bool = False
    fitted: int | None = None
    """The length to which vectors of undeclared length are cut or padded with zeros; None leaves them as they are."""

    @classmethod
    def of_leaves(
        cls, input_domain: Domain, input_metric: Metric, tree: Tree | OpenTree | None
    ) -> tuple[CountSpace, Tree]:
        """How leaf counts are read, and their tree, which the domain must fit."""
        _check_l1(input_metric)
        space = cls.of(input_domain)
        checked = None if tree is None else check_tree(tree)
        known = checked if space.arrays is None else check_tree(space.arrays.tree)
        if known is None:
            raise ValueError(
                "tree must be given, because input_domain does not carry one. Hint: tree=..., or leaf_domain"
            )
        if checked is not None and known != checked:
            raise ValueError(f"tree ({tree}) must be the tree of input_domain ({known})")
        if space.size not in (None, known.leaf_count) or space.scalar or (space.arrays and not space.arrays.of_leaves):
            raise ValueError(
                f"input_domain ({input_domain}) must be leaf_domain(tree) or "
                f'vector_domain(atom_domain(T="i64"), size={known.leaf_count}), one count for each leaf. '
                "Hint: the size may be left out"
            )
        return (replace(space, fitted=known.leaf_count) if space.size is None else space), known

    @classmethod
    def of(cls, input_domain: Domain) -> CountSpace:
        """The space of a domain."""
        counts = described(input_domain)
        if counts is not None and counts.size is not None:
            return cls(input_domain, "i64", counts.size, counts)
        atom = input_domain.element_domain if isinstance(input_domain, VectorDomain) else input_domain
        if not isinstance(atom, AtomDomain) or str(atom.carrier_type) not in INTEGER_TYPES:
            raise ValueError(
                f"input_domain ({input_domain}) must hold integers: an atom_domain or vector_domain of "
                f"{', '.join(INTEGER_TYPES)}, or leaf_domain(tree)"
            )
        size = input_domain.size if isinstance(input_domain, VectorDomain) else None
        return cls(input_domain, str(atom.carrier_type), size, scalar=atom is input_domain)

    @property
    def output_type(self) -> str:
        """OpenDP's name for the type that `write` returns."""
        return "ExtrinsicObject" if self.arrays else self.dtype if self.scalar else f"Vec<{self.dtype}>"

    def read(self, data: Any) -> Ints:
        """The data as a one-dimensional int64 array, clamped to ±(2**62 - 1)."""
        if self.arrays:
            if not self.arrays.has(data):
                raise TypeError(f"the data must be a plain int64 array of shape ({self.size},). Hint: tree.count(keys)")
            return saturate.clamp(data)
        if self.scalar:
            data = [data]
        elif self.size is not None and len(data) != self.size:
            raise ValueError(f"the data must have exactly {self.size} counts, as input_domain says")
        values = saturate.clamp(np.array(data, dtype=_numpy_type(self.dtype)))
        if self.fitted is None:
            return values
        return np.pad(values[: self.fitted], (0, max(self.fitted - values.size, 0)))

    def read_people(self, data: Any) -> Ints:
        """The same for counts of people: negative counts become 0, which never increases a distance."""
        return self.read(data).clip(min=0)

    def write(self, values: Ints) -> Any:
        """The values as the domain carries them."""
        kind = np.iinfo(_numpy_type(self.dtype))
        fitting = values.clip(max(kind.min, -saturate.LIMIT), min(kind.max, saturate.LIMIT)).astype(kind.dtype)
        return int(fitting[0]) if self.scalar else fitting


def _numpy_type(name: str) -> str:
    return ("uint" if name[0] == "u" else "int") + name[1:]


def is_metric(metric: Metric, constructor: Callable[..., Metric], **options: bool) -> bool:
    """Whether a metric is the constructor's, with an exact distance type (not f32)."""
    kind = str(check_type(metric, Metric, name="metric", hint="dp.l1_distance(T='i64')").distance_type)
    return kind in (*_INTEGER_DISTANCES, "f64") and metric == constructor(T=kind, **options)


def check_metric(metric: Metric, constructor: Callable[..., Metric], *, name: str = "input_metric") -> None:
    """Raise a ValueError unless `is_metric` holds."""
    check_type(metric, Metric, name=name, hint=f"{constructor.__name__}()")
    if not is_metric(metric, constructor):
        raise ValueError(f"{name} ({metric}) must be {constructor.__name__}, of an integer type or f64")


def _check_l1(input_metric: Metric) -> None:
    """What all constructors that start from leaf counts need."""
    assert_features("contrib")
    check_metric(input_metric, l1_distance)


def write_distance(value: Fraction, metric: Metric) -> int | float:
    """A distance in the metric's own type, rounded up."""
    return math.ceil(value) if str(metric.distance_type) in _INTEGER_DISTANCES else round_up(value)
