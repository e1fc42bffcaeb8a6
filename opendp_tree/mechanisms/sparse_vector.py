"""Sparse vector: which of many adaptively chosen counts lie above a threshold, paid by the answers "above"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from opendp.measures import max_divergence
from opendp.metrics import absolute_distance, l1_distance, linf_distance
from opendp.mod import AtomDomain, Domain, Measurement, Metric, Transformation, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_flags, check_integer, check_scale, read_distance
from opendp_tree._opendp import make_measurement, make_queryable, to_then
from opendp_tree._types import Array, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.noise import sparse_vector_epsilon
from opendp_tree.trees.domains import (
    INTEGER_TYPES,
    CountSpace,
    check_metric,
    described,
    is_metric,
    leaf_reader,
)
from opendp_tree.trees.nodes import check_path
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

BELOW = -1
"""What an answer "below" has in place of a gap."""
_CHUNK = 4096  # queries that are compared at once: those after a refreshed threshold are compared again


@dataclass(frozen=True)
class Calibration:
    """The noise of a sparse vector, and what it costs."""

    threshold: int
    scale: float
    query_scale: float
    cutoff: int
    monotonic: bool
    refreshed: bool

    @classmethod
    def of(
        cls, threshold: int, scale: float, query_scale: float | None, cutoff: int, monotonic: bool, threshold_noise: str
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
        asked: dict[str, Any] = {"cutoff": self.cutoff, "monotonic": self.monotonic, "refreshed": self.refreshed}
        scale, query_scale = Fraction(self.scale), Fraction(self.query_scale)
        return round_up(sparse_vector_epsilon(sensitivity, scale=scale, query_scale=query_scale, **asked))


class SparseVector:
    """The running mechanism: noise for the threshold, and how many answers "above" are left."""

    def __init__(self, calibration: Calibration) -> None:
        self.left = calibration.cutoff
        self._calibration = calibration
        self._threshold = self._draw_threshold()

    def answer(self, values: Ints) -> Ints:
        """For each value that is above, by how much its noisy value exceeds the noisy threshold; `BELOW` for others."""
        answers = np.full(values.size, BELOW, dtype=np.int64)
        drawn = noise.laplace(self._calibration.query_scale, values.size if self.left else 0)
        refreshed = self._calibration.refreshed
        start = 0
        while self.left and start < values.size:
            part = slice(start, start + _CHUNK)
            needed = self._needed(values[part])
            above = np.flatnonzero(drawn[part] >= needed)[: 1 if refreshed else self.left]
            # Modulo 2**64, and the true difference is in range.
            gaps = drawn[start + above].astype(np.uint64) - needed[above].astype(np.uint64)
            answers[start + above] = np.minimum(gaps, np.uint64(saturate.LIMIT)).astype(np.int64)
            self.left -= above.size
            if refreshed and above.size:
                # The noise of later queries was not looked at under the old threshold, so it may serve under the new.
                self._threshold = self._draw_threshold()
                start += int(above[0]) + 1
            else:
                start += _CHUNK
        return answers

    def _needed(self, values: Ints) -> Ints:
        """The noise at which each value reaches the noisy threshold."""
        # Clamping the two sides instead would leak with every "below": at the clamp the threshold cannot be shifted.
        if abs(self._threshold) <= saturate.LIMIT:
            return self._threshold - values
        end = 2**63 - 1
        return np.array([max(-end, min(end, self._threshold - value)) for value in values.tolist()], dtype=np.int64)

    def _draw_threshold(self) -> int:
        return self._calibration.threshold + int(noise.laplace(self._calibration.scale, 1)[0])


@dataclass(frozen=True)
class Queries:
    """Which queries may be asked, and how they are evaluated."""

    input_domain: Domain
    input_metric: Metric
    tree: Tree | OpenTree | None
    """The tree whose nodes may be asked for."""
    read_leaves: Callable[[Any], Any] | None
    sensitivity: int
    d_in: int
    monotonic: bool

    def read(self, query: Any) -> tuple[tuple[Any, ...] | Array, bool]:
        """A query as a copy of a batch, all of whose queries are as declared, and whether it was one."""
        has_paths = isinstance(self.tree, OpenTree) or (self.tree is not None and self.tree.labels is not None)
        batch = isinstance(query, (list, np.ndarray) if has_paths else (list, tuple, np.ndarray))
        if not isinstance(query, np.ndarray):
            return tuple(map(self._checked, tuple(query) if batch else (query,))), batch
        ids = np.array(query)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError("an array of queries must be one-dimensional and hold node ids")
        for extreme in (ids.min(initial=0), ids.max(initial=0)):
            self._checked(extreme)
        return ids, batch

    def _checked(self, query: Any) -> Any:
        """A transformation, a node id, or a path of an open tree."""
        kind, tree = type(query).__name__, self.tree
        if isinstance(query, Transformation):
            self._check_transformation(query)
            return query
        if tree is None:
            raise TypeError(
                f"a query ({kind}) must be a Transformation: a query by node needs a tree. "
                "Hint: use leaf_domain(tree), or pass tree="
            )
        if isinstance(tree, OpenTree):
            query = check_path(tree, query)
        elif isinstance(query, tuple):
            query = tree.node(query)
        elif isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise TypeError(f"a query ({kind}) must be a Transformation, a node id, or a list of these")
        elif not 0 <= query < tree.node_count:
            raise ValueError(f"query ({query}) must be a node id from 0 to {tree.node_count - 1}")
        if self.d_in > self.sensitivity:
            raise ValueError(f"a node moves by up to {self.d_in} at d_in, more than sensitivity ({self.sensitivity})")
        return query

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

    def begin(self, data: Any) -> Callable[[tuple[Any, ...] | Array], Ints]:
        """How to evaluate batches on a dataset, as it is now."""
        tree, copied = self.tree, data.copy() if isinstance(data, np.ndarray) else data
        counts: Any = None if self.read_leaves is None else self.read_leaves(data)
        if isinstance(tree, Tree):
            counts = tree.sum(counts)

        def value(query: Any) -> int:
            if isinstance(query, Transformation):
                exact = int(query(copied))
            else:
                exact = counts.people_at(query) if isinstance(tree, OpenTree) else int(counts[query])
            return max(-saturate.LIMIT, min(saturate.LIMIT, exact))

        def evaluate(queries: tuple[Any, ...] | Array) -> Ints:
            if isinstance(queries, np.ndarray):  # of node ids
                return counts[queries]  # type: ignore[no-any-return]
            return np.array([value(query) for query in queries], dtype=np.int64)

        return evaluate


def _leaves(
    input_domain: Domain, input_metric: Metric, tree: Tree | OpenTree | None
) -> tuple[Tree | OpenTree, Callable[[Any], Any]] | tuple[None, None]:
    """The tree whose nodes may be asked for, and how to read leaf counts, if the space is one of leaf counts."""
    if not is_metric(input_metric, l1_distance):
        if tree is not None:
            raise ValueError(f"input_metric ({input_metric}) must be l1_distance where a tree is given")
        return None, None
    counts = described(input_domain)
    carried = counts is not None and counts.of_leaves
    return leaf_reader(input_domain, input_metric, tree) if carried or tree is not None else (None, None)


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
    """A queryable that says for each query whether a count is above a threshold, until `cutoff` counts have been above.

    Pure `max_divergence()`. With noise of `scale` on the threshold and of `query_scale` on each query, epsilon at
    `d_in` is sensitivity * (1/scale + 2 * cutoff/query_scale); a 1 instead of the 2 for `monotonic` queries; and
    cutoff/scale instead of 1/scale if the threshold's noise is "refreshed" after each answer "above" (Dwork and
    Roth's Algorithm 2 has `query_scale` = 2 * `scale`). Answers "below" cost nothing, however many. Beyond `d_in`, the
    map follows by group privacy for leaf counts, and is an error elsewhere. Proof: docs/proofs/sparse_vector.md.

    A query is an OpenDP transformation from the input space to one integer under `absolute_distance`; or a node of the
    tree: its id, or its path as a tuple of labels; or a list of these, or an array of ids, answered in order. The nodes
    of an `OpenTree` are asked for by path only: (label, ...), or (prefix, bits) for bits; a path that nobody has counts
    0. Queries may depend on earlier answers. A query whose stability at `d_in` exceeds `sensitivity` is refused and
    costs nothing.

    :param input_domain: Where queries start: any domain; `leaf_domain(tree)`, or a vector of leaf counts with `tree`,
        if queries are nodes.
    :param input_metric: The metric of that domain; `l1_distance` if queries are nodes.
    :param scale: The scale of the noise on the threshold. A scale of 0 adds no noise and promises nothing.
    :param threshold: What counts are compared with.
    :param cutoff: The largest number of answers "above"; 1 by default, the smallest allowed. A larger cutoff
        costs more.
    :param sensitivity: How far any one query may move between neighbours; 1, as counts of people do.
    :param d_in: The distance of neighbours at which queries are checked against `sensitivity`; 1, one row.
    :param monotonic: Whether from one neighbour to the other all counts move the same way, which halves what "above"
        costs. Nodes of a tree do at `d_in=1`; then only these are accepted.
    :param query_scale: The scale of the noise on each query; by default the one that gives the least error for `scale`.
    :param threshold_noise: "once", which is better; or "refreshed" after each "above", as Dwork and Roth do.
    :param after_cutoff: "below" gives this answer to all later queries, as the paper does; "refuse" raises an error,
        and answers a batch that reaches the cutoff up to that point.
    :param gaps: Whether an answer "above" says by how much the noisy count exceeds the noisy threshold: answers are
        then integers, that gap, or -1 for "below". It costs nothing.
    :param tree: The tree whose nodes may be asked for, where `input_domain` does not carry it.

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
    """
    assert_features("contrib")
    check_flags(monotonic=monotonic, gaps=gaps)
    calibration = Calibration.of(threshold, scale, query_scale, cutoff, monotonic, threshold_noise)
    check_integer(sensitivity, name="sensitivity", least=1)
    check_integer(d_in, name="d_in", least=1)
    check_choice(after_cutoff, name="after_cutoff", choices=("below", "refuse"))
    known, read_leaves = _leaves(input_domain, input_metric, tree)
    if monotonic and (known is None or d_in != 1):
        raise ValueError("monotonic must be False unless the queries are nodes of a tree and d_in is 1")
    asked = Queries(input_domain, input_metric, known, read_leaves, sensitivity, d_in, monotonic)
    refuses = after_cutoff == "refuse"

    def function(data: Any) -> Any:
        evaluate, running = asked.begin(data), SparseVector(calibration)

        def answer(query: Any) -> Any:
            queries, batch = asked.read(query)
            if refuses and running.left == 0:
                raise ValueError("the cutoff is reached: no further query is answered")
            found = running.answer(evaluate(queries))
            if refuses and running.left == 0:
                found = found[: int(np.flatnonzero(found != BELOW)[-1]) + 1]
            answers = found if gaps else found != BELOW
            return answers if batch else answers[0].item()

        return make_queryable(answer)

    def privacy_map(distance: int | float) -> float:
        steps = math.ceil(read_distance(distance) / d_in)
        if steps > 1 and known is None:
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

    Other parameters: as for `make_sparse_vector`.

    :param input_domain: A vector of integers, or arrays by `leaf_domain` or `node_domain`.
    :param input_metric: `linf_distance`; with `monotonic=True` if all entries move the same way between neighbours.

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
    calibration = Calibration.of(threshold, scale, query_scale, cutoff, monotonic, threshold_noise)

    def function(data: Any) -> Any:
        answers = SparseVector(calibration).answer(space.read(data)) != BELOW
        return answers if space.arrays else answers.tolist()

    def privacy_map(d_in: int | float) -> float:
        return calibration.epsilon(read_distance(d_in))

    output_type = "ExtrinsicObject" if space.arrays else "Vec<bool>"
    return make_measurement(input_domain, input_metric, max_divergence(), function, privacy_map, output_type)


then_above_threshold = to_then(make_above_threshold)
