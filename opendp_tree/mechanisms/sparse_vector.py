"""Sparse vector: which of many adaptively chosen counts lie above a threshold, paid by the answers "above"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
from opendp.measures import max_divergence
from opendp.metrics import absolute_distance, l1_distance, linf_distance
from opendp.mod import AtomDomain, Domain, ExtrinsicDomain, Measurement, Metric, Transformation, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_flags, check_integer, check_scale, read_distance
from opendp_tree._opendp import make_measurement, make_queryable, to_then
from opendp_tree._types import Array, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon
from opendp_tree.trees.domains import (
    INTEGER_TYPES,
    CountSpace,
    SparseLeafCounts,
    check_metric,
    is_metric,
    sparse_reader,
)
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts, check_path, people_at
from opendp_tree.trees.tree import Tree

__all__ = [
    "BELOW",
    "Calibration",
    "SparseVector",
    "make_above_threshold",
    "make_sparse_vector",
    "then_above_threshold",
    "then_sparse_vector",
]

BELOW = -1
"""The gap of an answer "below", of which nothing more is told."""
_CHUNK = 4096  # queries that are looked at under one threshold before the next "above" is searched further


@dataclass(frozen=True)
class Calibration:
    """What a sparse vector needs to know of its noise, and what that costs."""

    threshold: int
    scale: float
    query_scale: float
    cutoff: int
    monotonic: bool
    refreshed: bool

    @classmethod
    def of(
        cls,
        *,
        threshold: int,
        scale: float,
        query_scale: float | None,
        cutoff: int,
        monotonic: bool,
        threshold_noise: str,
    ) -> Calibration:
        """A checked calibration; without a `query_scale`, the one that is best for the given `scale`."""
        check_scale(scale)
        check_integer(threshold, name="threshold")
        check_integer(cutoff, name="cutoff", least=1)
        check_choice(threshold_noise, name="threshold_noise", choices=("once", "refreshed"))
        refreshed = threshold_noise == "refreshed"
        if query_scale is None:
            # Per answer "above": Dwork and Roth's ratio. Drawn once: the split that minimises the sum's variance.
            shifts = 1 if monotonic else 2
            query_scale = float(scale) * (shifts if refreshed else (shifts * cutoff) ** (1 / 3))
        check_scale(query_scale, name="query_scale")
        return cls(int(threshold), float(scale), float(query_scale), int(cutoff), monotonic, refreshed)

    def epsilon(self, sensitivity: Fraction) -> float:
        """The privacy loss when every query moves by at most `sensitivity`, rounded up."""
        if sensitivity == 0:
            return 0.0
        if self.scale == 0 or self.query_scale == 0:
            return math.inf
        return round_up(
            sparse_vector_epsilon(
                sensitivity,
                scale=Fraction(self.scale),
                query_scale=Fraction(self.query_scale),
                cutoff=self.cutoff,
                monotonic=self.monotonic,
                refreshed=self.refreshed,
            )
        )


class SparseVector:
    """The running mechanism: noise for the threshold, and how many answers "above" are left."""

    def __init__(self, calibration: Calibration) -> None:
        self.left = calibration.cutoff
        self._calibration = calibration
        self._threshold = self._draw_threshold()

    def answer(self, values: Ints) -> Ints:
        """For each value that is above, by how much its noisy value exceeds the noisy threshold; `BELOW` for others."""
        answers = np.full(values.size, BELOW, dtype=np.int64)
        if self.left == 0:
            return answers
        drawn = noise.laplace(self._calibration.query_scale, values.size)
        if not self._calibration.refreshed:
            needed = self._needed(values)
            above = np.flatnonzero(drawn >= needed)[: self.left]
            answers[above] = _gaps(drawn[above], needed[above])
            self.left -= above.size
            return answers
        start = 0
        while self.left and start < values.size:
            part = slice(start, start + _CHUNK)
            needed = self._needed(values[part])
            above = np.flatnonzero(drawn[part] >= needed)
            if above.size == 0:
                start += _CHUNK
                continue
            # The noise of later queries was not looked at under the old threshold, so it may serve under the new.
            first = above[:1]
            answers[start + first] = _gaps(drawn[start + first], needed[first])
            start += int(first[0]) + 1
            self.left -= 1
            self._threshold = self._draw_threshold()
        return answers

    def _needed(self, values: Ints) -> Ints:
        """The noise at which each value reaches the noisy threshold. Clamping the two sides instead would not do:
        at the clamp the threshold cannot be shifted, and every answer "below" would leak.
        """
        if abs(self._threshold) <= saturate.LIMIT:
            return self._threshold - values
        return np.array([_nearest(self._threshold - value) for value in values.tolist()], dtype=np.int64)

    def _draw_threshold(self) -> int:
        return self._calibration.threshold + int(noise.laplace(self._calibration.scale, 1)[0])


def _gaps(drawn: Ints, needed: Ints) -> Ints:
    """How far noise exceeds what was needed, exactly, or 2**62 - 1 if that is less."""
    gaps = drawn.astype(np.uint64) - needed.astype(np.uint64)  # modulo 2**64, and the true difference is in range
    return np.minimum(gaps, np.uint64(saturate.LIMIT)).astype(np.int64)


def _nearest(value: int) -> int:
    return max(-(2**63) + 1, min(2**63 - 1, value))


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


def make_sparse_vector(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    threshold: int,
    cutoff: int = 1,
    sensitivity: int = 1,
    d_in: int = 1,
    monotonic: bool = False,
    query_scale: float | None = None,
    threshold_noise: Literal["once", "refreshed"] = "once",
    after_cutoff: Literal["below", "refuse"] = "below",
    gaps: bool = False,
    tree: Tree | OpenTree | None = None,
) -> Measurement:
    """A queryable that tells, query by query, whether a count is above a threshold, until `cutoff` were.

    Pure `max_divergence()`. With noise of `scale` on the threshold and of `query_scale` on each query, epsilon at
    `d_in` is sensitivity * (1/scale + 2 * cutoff/query_scale); a 1 instead of the 2 for `monotonic` queries; and
    cutoff/scale instead of 1/scale if the threshold's noise is "refreshed" after each answer "above" (Dwork and
    Roth's Algorithm 2 has `query_scale` = 2 * `scale`). Answers "below" cost nothing, however many.
    Proof: docs/proofs/sparse_vector.md.

    A query is an OpenDP transformation from the input space to one integer under `absolute_distance`; or a node of the
    tree, if the domain carries one (`leaf_domain`) or `tree` is given: its id, or its path as a tuple of labels; or a
    list of these, or an array of ids, answered in order. Of an `OpenTree`, whose nodes nobody knows in advance, nodes
    are asked for by path alone: (label, ...), or (prefix, bits) for bits; a path where nobody is counts 0. Queries may
    depend on earlier answers. One whose stability at `d_in` exceeds `sensitivity` is refused and costs nothing. After
    `cutoff` answers "above", queries are answered "below" (the paper) or refused; a batch that reaches the cutoff is
    then answered up to that point.

    Beyond `d_in`, the map follows by group privacy for leaf counts under `l1_distance`, and is an error elsewhere.

    Parameters
    ----------
    input_domain
        Where queries start: any domain; `leaf_domain(tree)`, or a vector of leaf counts with `tree`, if queries
        are nodes.
    input_metric
        Of that domain; `l1_distance` if queries are nodes.
    scale
        Of the noise on the threshold. A scale of 0 adds no noise and promises nothing.
    threshold
        What counts are compared with.
    cutoff
        How many answers "above" are given at most; 1, the least that tells anything. More cost more.
    sensitivity
        How far any one query may move between neighbours; 1, as counts of people do.
    d_in
        The distance of neighbours at which queries are checked against `sensitivity`; 1, one row.
    monotonic
        Whether from one neighbour to the other all counts move the same way, which halves what "above" costs.
        Nodes of a tree do at `d_in=1`; of an arbitrary transformation that cannot be checked, so then only
        nodes are accepted, and the default is False.
    query_scale
        Of the noise on each query; by default the one that gives the least error for `scale`.
    threshold_noise
        "once" draws the threshold's noise once, which is better; "refreshed" draws it anew after each "above",
        as Dwork and Roth's Algorithm 2 does.
    gaps
        Whether an answer "above" tells by how much the noisy count exceeds the noisy threshold: answers are then
        integers, that gap, or -1 for "below". It costs nothing; False, because many only want to know which.
    after_cutoff
        "below" answers all later queries so, as the paper does; "refuse" raises an error.
    tree
        The tree whose nodes may be asked for, where `input_domain` does not carry it.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> above = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_sparse_vector(4.0, threshold=500, monotonic=True)
    >>> above.map(1)
    0.5
    >>> ask = above(tree.count([3] * 1000))
    >>> ask(2), ask([6, 5, 1])
    (False, array([False, False,  True]))
    >>> open_tree = OpenTree.columns(["country", "city"])
    >>> above = (leaf_domain(open_tree), dp.l1_distance(T="i64")) >> then_sparse_vector(4.0, threshold=500, gaps=True)
    >>> ask = above(open_tree.count([("be", "ghent")] * 2000))
    >>> ask(("lu",)), 1400 < ask(("be", "ghent")) < 1600
    (-1, True)
    """
    assert_features("contrib")
    check_flags(monotonic=monotonic, gaps=gaps)
    calibration = Calibration.of(
        threshold=threshold,
        scale=scale,
        query_scale=query_scale,
        cutoff=cutoff,
        monotonic=monotonic,
        threshold_noise=threshold_noise,
    )
    check_integer(sensitivity, name="sensitivity", least=1)
    check_integer(d_in, name="d_in", least=1)
    check_choice(after_cutoff, name="after_cutoff", choices=("below", "refuse"))
    counts = node_counter(input_domain, input_metric, tree)
    if monotonic and (counts is None or d_in != 1):
        raise ValueError("monotonic must be False unless the queries are nodes of a tree and d_in is 1")
    reader = Reader(input_domain, input_metric, counts, sensitivity, d_in, monotonic)

    def function(data: Any) -> Any:
        dialogue = Dialogue(reader, data, SparseVector(calibration), refuses=after_cutoff == "refuse", gaps=gaps)
        return make_queryable(dialogue.answer)

    def privacy_map(distance: int | float) -> float:
        steps = math.ceil(read_distance(distance) / d_in)
        if steps > 1 and counts is None:
            raise ValueError(f"d_in ({distance}) must be at most {d_in}, the d_in that the queries were checked at")
        return calibration.epsilon(Fraction(steps * sensitivity))

    return make_measurement(input_domain, input_metric, max_divergence(), function, privacy_map)


then_sparse_vector = to_then(make_sparse_vector)


def make_above_threshold(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    threshold: int,
    cutoff: int = 1,
    query_scale: float | None = None,
    threshold_noise: Literal["once", "refreshed"] = "once",
) -> Measurement:
    """For each integer of a vector, in order, whether it is above a threshold; False for all after `cutoff` were.

    Pure `max_divergence()` from `linf_distance`, with the loss of `make_sparse_vector` at a sensitivity of `d_in`;
    `linf_distance(monotonic=True)` halves what the answers "above" cost. Proof: docs/proofs/sparse_vector.md.

    Parameters
    ----------
    input_domain
        A vector of integers, or arrays by `leaf_domain` or `node_domain`.
    input_metric
        `linf_distance`; with `monotonic=True` if all entries move the same way between neighbours.
    scale
        Of the noise on the threshold. A scale of 0 adds no noise and promises nothing.
    threshold
        What entries are compared with.
    cutoff
        How many answers "above" are given at most; 1, the least that tells anything.
    query_scale
        Of the noise on each entry; by default the one that gives the least error for `scale`.
    threshold_noise
        "once" draws the threshold's noise once, which is better; "refreshed" draws it anew after each "above".

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    >>> above = space >> then_above_threshold(4.0, threshold=500, cutoff=1)
    >>> above.map(1), above([0, 0, 1000, 0, 1000])
    (0.5, [False, False, True, False, False])
    """
    assert_features("contrib")
    space = CountSpace.of(input_domain)
    if space.scalar:
        raise ValueError(f"input_domain ({input_domain}) must hold vectors. Hint: vector_domain")
    monotonic = is_metric(input_metric, linf_distance, monotonic=True)
    if not monotonic:
        check_metric(input_metric, linf_distance)
    calibration = Calibration.of(
        threshold=threshold,
        scale=scale,
        query_scale=query_scale,
        cutoff=cutoff,
        monotonic=monotonic,
        threshold_noise=threshold_noise,
    )

    def function(data: Any) -> Any:
        answers = SparseVector(calibration).answer(space.read(data)) != BELOW
        return answers if space.carries_arrays else answers.tolist()

    return make_measurement(
        input_domain,
        input_metric,
        max_divergence(),
        function,
        lambda d_in: calibration.epsilon(read_distance(d_in)),
        "ExtrinsicObject" if space.carries_arrays else "Vec<bool>",
    )


then_above_threshold = to_then(make_above_threshold)
