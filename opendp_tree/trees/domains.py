"""Domains and metrics: which OpenDP spaces hold counts, and how to read and write their members."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.mod import AtomDomain, Domain, ExtrinsicDomain, Metric, VectorDomain

from opendp_tree import saturate
from opendp_tree._arguments import check_type
from opendp_tree._opendp import extrinsic_domain
from opendp_tree._types import Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree, check_tree

INTEGER_TYPES = ("i32", "i64", "u32", "u64")
_INTEGER_DISTANCES = ("i32", "i64", "u32", "u64", "usize")


@dataclass(frozen=True)
class LeafCounts:
    """Describes a domain of int64 arrays with one count for each leaf of a tree."""

    tree: Tree
    size: int


@dataclass(frozen=True)
class NodeCounts:
    """Describes a domain of int64 arrays with one count for each node of a tree."""

    tree: Tree
    size: int


@dataclass(frozen=True)
class SparseLeafCounts:
    """Describes a domain of `SparseCounts` of an open tree."""

    tree: OpenTree


def leaf_domain(tree: Tree | OpenTree) -> Domain:
    """The domain of leaf counts of a tree, passed without copies; `tree.count(keys)` makes its members.

    The domain knows its tree, so what follows in a chain need not be told.

    Parameters
    ----------
    tree
        For a `Tree`, members are int64 arrays in the order of `tree.leaves`; for an `OpenTree`, its sparse counts.

    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> leaf_domain(tree).member(np.array([4, 0, 2, 1]))
    True
    """
    if isinstance(tree, OpenTree):
        described = SparseLeafCounts(tree)
        return extrinsic_domain(f"SparseLeafCounts({tree})", lambda value: _is_sparse(value, tree), described)
    return _count_domain(LeafCounts(check_tree(tree), tree.leaf_count))


def node_domain(tree: Tree) -> Domain:
    """The domain of node counts of a tree: int64 arrays by node id, passed without copies.

    Parameters
    ----------
    tree
        The public tree.

    >>> node_domain(Tree.balanced(branching=2, depth=2)).member(np.array([1, 2, 3]))
    True
    """
    return _count_domain(NodeCounts(check_tree(tree), tree.node_count))


def _count_domain(described: LeafCounts | NodeCounts) -> Domain:
    size = described.size
    # OpenDP compares such domains by this text alone, so it carries the whole digest.
    identifier = f"{type(described).__name__}(tree={described.tree.digest}, size={size})"
    return extrinsic_domain(identifier, lambda value: _is_count_array(value, size), described)


def _is_count_array(value: object, size: int) -> bool:
    # Subclasses are no members: a masked array would keep the noise from its masked counts.
    return type(value) is np.ndarray and value.dtype == np.int64 and value.shape == (size,)


def _is_sparse(value: Any, tree: OpenTree) -> bool:
    return type(value) is SparseCounts and bool(value.tree == tree)


def sparse_reader(
    described: SparseLeafCounts, tree: Tree | OpenTree | None
) -> tuple[OpenTree, Callable[[Any], SparseCounts]]:
    """The tree of a domain of sparse counts, and how to read its members."""
    open_tree = described.tree
    if tree is not None and tree != open_tree:
        raise ValueError(f"tree ({tree}) must be the tree of input_domain ({open_tree}). Hint: leave it out")

    def read(data: Any) -> SparseCounts:
        if not _is_sparse(data, open_tree):
            raise TypeError("the data must be sparse counts of the tree of input_domain. Hint: tree.count(keys)")
        counts: SparseCounts = replace(data, tree=open_tree)  # equal trees may be shown differently: as the domain says
        return counts

    return open_tree, read


def read_occupied(
    input_domain: Domain, tree: Tree | OpenTree | None
) -> tuple[Tree | OpenTree, Callable[[Any], SparseCounts | Occupied]]:
    """The tree of a domain of leaf counts, and how to read where its people are."""
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    if isinstance(described, SparseLeafCounts):
        return sparse_reader(described, tree)
    space, public = CountSpace.of_leaves(input_domain, tree)
    return public, lambda data: public.occupied(space.read_people(data))


def tree_of_leaves(input_domain: Domain, tree: Tree | OpenTree | None) -> Tree | OpenTree:
    """The tree of a domain of leaf counts."""
    return read_occupied(input_domain, tree)[0]


@dataclass(frozen=True)
class CountSpace:
    """How to read and write the integers of a domain, whatever carries them."""

    domain: Domain
    scalar: bool
    dtype: str
    size: int | None
    tree: Tree | None
    """The tree, where the domain knows it."""
    fitted: int | None = None
    """To how many counts vectors of undeclared length are cut, or filled up with zeros; None: they stay as they are."""

    @classmethod
    def of_leaves(cls, input_domain: Domain, tree: Tree | OpenTree | None) -> tuple[CountSpace, Tree]:
        """How leaf counts are read, and their tree, once the domain is sure to fit it."""
        space = cls.of(input_domain)
        known = space.tree_of(tree)
        fits = space.size in (None, known.leaf_count) and not space.scalar
        if not fits or (space.tree is not None and not space.holds_leaves):
            raise ValueError(
                f"input_domain ({input_domain}) must be leaf_domain(tree) or "
                f'vector_domain(atom_domain(T="i64"), size={known.leaf_count}), one count for each leaf. '
                "Hint: the size may be left out"
            )
        return (replace(space, fitted=known.leaf_count) if space.size is None else space), known

    @classmethod
    def of(cls, input_domain: Domain) -> CountSpace:
        """How the members of a domain are read and written."""
        if isinstance(input_domain, ExtrinsicDomain):
            described = input_domain.descriptor
            if isinstance(described, (LeafCounts, NodeCounts)):
                return cls(input_domain, False, "i64", described.size, described.tree)
        elif isinstance(input_domain, VectorDomain):
            element = input_domain.element_domain
            if isinstance(element, AtomDomain) and str(element.carrier_type) in INTEGER_TYPES:
                return cls(input_domain, False, str(element.carrier_type), input_domain.size, None)
        elif isinstance(input_domain, AtomDomain) and str(input_domain.carrier_type) in INTEGER_TYPES:
            return cls(input_domain, True, str(input_domain.carrier_type), None, None)
        raise ValueError(
            f"input_domain ({input_domain}) must hold integers: an atom_domain or vector_domain of "
            f"{', '.join(INTEGER_TYPES)}, or leaf_domain(tree)"
        )

    @property
    def carries_arrays(self) -> bool:
        """Whether members are NumPy arrays that OpenDP passes by reference."""
        return isinstance(self.domain, ExtrinsicDomain)

    @property
    def holds_leaves(self) -> bool:
        """Whether the domain says that its members are leaf counts."""
        return isinstance(self.domain, ExtrinsicDomain) and isinstance(self.domain.descriptor, LeafCounts)

    @property
    def output_type(self) -> str:
        """OpenDP's name for what `write` gives."""
        return "ExtrinsicObject" if self.carries_arrays else self.dtype if self.scalar else f"Vec<{self.dtype}>"

    def read(self, data: Any) -> Ints:
        """The data as a one-dimensional int64 array, clamped to ±(2**62 - 1)."""
        if self.carries_arrays:
            if not _is_count_array(data, self.size or 0):
                raise TypeError(f"the data must be a plain int64 array of shape ({self.size},). Hint: tree.count(keys)")
            return saturate.clamp(data)
        if self.scalar:
            data = [data]
        elif self.size is not None and len(data) != self.size:
            raise ValueError(f"the data must have exactly {self.size} counts, as input_domain says")
        values = saturate.clamp(np.array(data, dtype=_numpy_type(self.dtype)))
        return values if self.fitted is None else _fit(values, self.fitted)

    def read_people(self, data: Any) -> Ints:
        """The same for counts of people: what is below 0 is taken as 0, which moves no two inputs further apart."""
        return self.read(data).clip(min=0)

    def write(self, values: Ints) -> Any:
        """The values as the domain carries them."""
        kind = np.iinfo(_numpy_type(self.dtype))
        fitting = values.clip(max(kind.min, -saturate.LIMIT), min(kind.max, saturate.LIMIT)).astype(kind.dtype)
        return int(fitting[0]) if self.scalar else fitting

    def tree_of(self, tree: Tree | OpenTree | None) -> Tree:
        """The tree: the domain's own, or the argument."""
        given = None if tree is None else check_tree(tree)
        known = given if self.tree is None else self.tree
        if known is None:
            raise ValueError(
                "tree must be given, because input_domain does not carry one. Hint: tree=..., or leaf_domain"
            )
        if given is not None and known != given:
            raise ValueError(f"tree ({tree}) must be the tree of input_domain ({self.tree})")
        return known


def _fit(values: Ints, size: int) -> Ints:
    """Cut to a size, or filled up with zeros."""
    return values[:size] if values.size >= size else np.pad(values, (0, size - values.size))


def _numpy_type(name: str) -> str:
    return ("uint" if name[0] == "u" else "int") + name[1:]


def node_vector_domain(tree: Tree) -> Domain:
    """Node counts as OpenDP's own noise takes them."""
    return vector_domain(atom_domain(T="i64"), size=tree.node_count)


def is_metric(metric: Metric, constructor: Callable[..., Metric], **options: bool) -> bool:
    """Whether a metric is what an OpenDP constructor makes, in a distance type that loses nothing (f32 would)."""
    kind = str(check_type(metric, Metric, name="metric", hint="dp.l1_distance(T='i64')").distance_type)
    return kind in (*_INTEGER_DISTANCES, "f64") and metric == constructor(T=kind, **options)


def check_metric(metric: Metric, constructor: Callable[..., Metric], *, name: str = "input_metric") -> None:
    """Raise a ValueError unless `is_metric` holds."""
    check_type(metric, Metric, name=name, hint=f"{constructor.__name__}()")
    if not is_metric(metric, constructor):
        raise ValueError(f"{name} ({metric}) must be {constructor.__name__}, of an integer type or f64")


def write_distance(value: Fraction, metric: Metric) -> int | float:
    """A distance in the metric's own type, rounded up."""
    return math.ceil(value) if str(metric.distance_type) in _INTEGER_DISTANCES else round_up(value)
