"""What a sparse vector is asked: transformations, and nodes of a tree by id or path. Refused before noise is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from opendp.metrics import absolute_distance, l1_distance
from opendp.mod import AtomDomain, Domain, ExtrinsicDomain, Metric, Transformation

from opendp_tree import saturate
from opendp_tree._types import Array, Ints
from opendp_tree.mechanisms.running_sparse_vector import BELOW, SparseVector
from opendp_tree.trees.domains import INTEGER_TYPES, CountSpace, SparseLeafCounts, is_metric, sparse_reader
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.prefix_counts import check_path, people_at
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree


class NodeCounter(Protocol):
    """The nodes that may be asked for, and how to count them."""

    @property
    def has_paths(self) -> bool:
        """Whether a tuple is a path, rather than a batch of ids."""

    def check(self, query: Any) -> None:
        """Raise unless a query is a node."""

    def begin(self, data: Any) -> Callable[[Any], Any]:
        """How to count nodes of a dataset, as it is now: one, or an array of ids."""


@dataclass(frozen=True)
class PublicNodes:
    """Nodes of a public tree, by id or by path."""

    space: CountSpace
    tree: Tree

    @property
    def has_paths(self) -> bool:
        """A tree without labels has ids for labels: a tuple is a batch of them."""
        return self.tree.labels is not None

    def check(self, query: Any) -> None:
        """Raise unless a query is an id or a path."""
        if isinstance(query, tuple):
            self.tree.node(query)
        elif isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise TypeError(f"a query ({type(query).__name__}) must be a Transformation, a node id, or a list of these")
        elif not 0 <= query < self.tree.node_count:
            raise ValueError(f"query ({query}) must be a node id from 0 to {self.tree.node_count - 1}")

    def begin(self, data: Any) -> Callable[[Any], Any]:
        """How to count nodes: all are summed when the first is asked for."""
        leaves, sums = self.space.read(data).copy(), list[Ints]()

        def count(query: Any) -> Any:
            if not sums:
                sums.append(self.tree.sum(leaves))
            return sums[0][self.tree.node(query) if isinstance(query, tuple) else query]

        return count


@dataclass(frozen=True)
class OpenNodes:
    """Nodes of an open tree, by path."""

    tree: OpenTree
    read: Callable[[Any], SparseCounts]
    has_paths = True

    def check(self, query: Any) -> None:
        """Raise unless a query is a path that the tree can hold."""
        check_path(self.tree, query)

    def begin(self, data: Any) -> Callable[[Any], Any]:
        """How to count nodes: one pass over the keys for each."""
        counts = self.read(data)
        return lambda query: people_at(counts, check_path(self.tree, query))


def node_counter(input_domain: Domain, input_metric: Metric, tree: Tree | OpenTree | None) -> NodeCounter | None:
    """The nodes that may be asked for, if the space is one of leaf counts."""
    if not is_metric(input_metric, l1_distance):
        if tree is not None:
            raise ValueError(f"input_metric ({input_metric}) must be l1_distance where a tree is given")
        return None
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    if isinstance(described, SparseLeafCounts):
        return OpenNodes(*sparse_reader(described, tree))
    try:
        space = CountSpace.of(input_domain)
    except ValueError:
        if tree is not None:
            raise
        return None
    return PublicNodes(*CountSpace.of_leaves(input_domain, tree)) if tree is not None or space.holds_leaves else None


@dataclass(frozen=True)
class Reader:
    """Turns queries into integers, refusing those that are not what was declared."""

    input_domain: Domain
    input_metric: Metric
    counts: NodeCounter | None
    sensitivity: int
    d_in: int
    monotonic: bool

    def check_all(self, queries: tuple[Any, ...] | Array) -> None:
        """Raise unless every query is a node of the tree or a transformation that is stable enough."""
        if not isinstance(queries, np.ndarray):
            for query in queries:
                self._check(query)
            return
        if queries.ndim != 1 or queries.dtype.kind not in "iu":
            raise TypeError("an array of queries must be one-dimensional and hold node ids")
        for extreme in (queries.min(initial=0), queries.max(initial=0)):
            self._check(extreme)

    def _check(self, query: Any) -> None:
        if isinstance(query, Transformation):
            self._check_transformation(query)
            return
        if self.counts is not None:
            self.counts.check(query)
        elif isinstance(query, bool) or not isinstance(query, (int, np.integer, tuple)):
            raise TypeError(f"a query ({type(query).__name__}) must be a Transformation, a node id, or a list of these")
        else:
            raise ValueError("a query by node needs a tree. Hint: use leaf_domain(tree), or pass tree=")
        if self.d_in > self.sensitivity:
            raise ValueError(f"a node moves by up to {self.d_in} at d_in, more than sensitivity ({self.sensitivity})")

    def _check_transformation(self, query: Transformation) -> None:
        if self.monotonic:
            raise ValueError("a query must be a node: that a transformation is monotonic cannot be checked")
        if query.input_domain != self.input_domain or query.input_metric != self.input_metric:
            raise ValueError("a query must start from the input_domain and input_metric of the sparse vector")
        output = query.output_domain
        if not isinstance(output, AtomDomain) or str(output.carrier_type) not in INTEGER_TYPES:
            raise ValueError(f"a query's output domain ({output}) must be one integer")
        if not is_metric(query.output_metric, absolute_distance):
            raise ValueError(f"a query's output metric ({query.output_metric}) must be absolute_distance")
        stability = query.map(self.d_in)  # type: ignore[no-untyped-call]
        if not stability <= self.sensitivity:
            raise ValueError(
                f"a query of stability {stability} exceeds sensitivity ({self.sensitivity}); nothing was spent"
            )


class Dialogue:
    """One dataset, as it was at the start, under one running sparse vector."""

    def __init__(self, reader: Reader, data: Any, running: SparseVector, *, refuses: bool, gaps: bool) -> None:
        """Take the data as they are now."""
        self._reader, self._running, self._refuses, self._gaps = reader, running, refuses, gaps
        self._data = data.copy() if isinstance(data, np.ndarray) else data
        self._count = None if reader.counts is None else reader.counts.begin(data)

    def answer(self, query: Any) -> Any:
        """The answer to one query, or the answers to a batch."""
        has_paths = self._reader.counts is not None and self._reader.counts.has_paths
        batch = isinstance(query, (list, np.ndarray) if has_paths else (list, tuple, np.ndarray))
        # A copy: what is evaluated is what was checked.
        queries = np.array(query) if isinstance(query, np.ndarray) else tuple(query) if batch else (query,)
        self._reader.check_all(queries)
        if self._refuses and self._running.left == 0:
            raise ValueError("the cutoff is reached: no further query is answered")
        found = self._running.answer(self._evaluate(queries))
        if self._refuses and self._running.left == 0:
            found = found[: int(np.flatnonzero(found != BELOW)[-1]) + 1]
        answers = found if self._gaps else found != BELOW
        return answers if batch else answers[0].item()

    def _evaluate(self, queries: tuple[Any, ...] | Array) -> Ints:
        if isinstance(queries, np.ndarray):
            assert self._count is not None
            found: Ints = self._count(queries)
            return found
        values = [int(self._value(query)) for query in queries]
        return np.array([max(-saturate.LIMIT, min(saturate.LIMIT, value)) for value in values], dtype=np.int64)

    def _value(self, query: Any) -> int:
        if isinstance(query, Transformation):
            return query(self._data)  # type: ignore[no-any-return]
        assert self._count is not None
        return self._count(query)  # type: ignore[no-any-return]
