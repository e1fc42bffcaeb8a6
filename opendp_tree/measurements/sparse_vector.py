"""Sparse vector: which of many adaptively chosen counts lie above a threshold, paid by the answers "above"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from opendp.measures import max_divergence
from opendp.metrics import absolute_distance, l1_distance
from opendp.mod import AtomDomain, Domain, Measurement, Metric, Transformation, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_integer, check_scale, read_distance
from opendp_tree._opendp import make_measurement, make_queryable, to_then
from opendp_tree._types import Array, Bools, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon
from opendp_tree.trees.domains import INTEGER_TYPES, CountSpace, is_metric
from opendp_tree.trees.tree import Tree

__all__ = ["Calibration", "make_sparse_vector", "then_sparse_vector"]


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

    def answer(self, values: Ints) -> Bools:
        """Whether each value is above; once no "above" is left, the rest are all False."""
        answers = np.zeros(values.size, dtype=np.bool_)
        if self.left == 0:
            return answers
        drawn = noise.laplace(self._calibration.query_scale, values.size)
        if not self._calibration.refreshed:
            above = np.flatnonzero(drawn >= self._needed(values))[: self.left]
            answers[above] = True
            self.left -= above.size
            return answers
        start = 0
        while self.left and start < values.size:
            part = slice(start, start + _CHUNK)
            above = np.flatnonzero(drawn[part] >= self._needed(values[part]))
            if above.size == 0:
                start += _CHUNK
                continue
            # The noise of later queries was not looked at under the old threshold, so it may serve under the new.
            start += int(above[0]) + 1
            answers[start - 1] = True
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


def _nearest(value: int) -> int:
    return max(-(2**63) + 1, min(2**63 - 1, value))


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
    tree: Tree | None = None,
) -> Measurement:
    """A queryable that tells, query by query, whether a count is above a threshold, until `cutoff` were.

    Pure `max_divergence()`. With noise of `scale` on the threshold and of `query_scale` on each query, epsilon at
    `d_in` is sensitivity * (1/scale + 2 * cutoff/query_scale); a 1 instead of the 2 for `monotonic` queries; and
    cutoff/scale instead of 1/scale if the threshold's noise is "refreshed" after each answer "above" (Dwork and
    Roth's Algorithm 2 has `query_scale` = 2 * `scale`). Answers "below" cost nothing, however many.
    Proof: docs/proofs/sparse_vector.md.

    A query is an OpenDP transformation from the input space to one integer under `absolute_distance`; or a node id
    of the tree, if the domain carries one (`leaf_domain`) or `tree` is given; or a list or array of these, answered
    in order. Queries may depend on earlier answers. One whose stability at `d_in` exceeds `sensitivity` is refused
    and costs nothing. After `cutoff` answers "above", queries are answered "below" (the paper) or refused; a batch
    that reaches the cutoff is then answered up to that point.

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
    """
    assert_features("contrib")
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
    counts = _leaf_space(input_domain, input_metric, tree)
    if not isinstance(monotonic, bool):
        raise TypeError(f"monotonic ({monotonic!r}) must be True or False")
    if monotonic and (counts is None or d_in != 1):
        raise ValueError("monotonic must be False unless the queries are nodes of a tree and d_in is 1")
    reader = _Reader(input_domain, input_metric, counts, sensitivity, d_in, monotonic)

    def function(data: Any) -> Any:
        dialogue = _Dialogue(reader, data, SparseVector(calibration), after_cutoff == "refuse")
        return make_queryable(dialogue.answer)

    def privacy_map(distance: int | float) -> float:
        steps = math.ceil(read_distance(distance) / d_in)
        if steps > 1 and counts is None:
            raise ValueError(f"d_in ({distance}) must be at most {d_in}, the d_in that the queries were checked at")
        return calibration.epsilon(Fraction(steps * sensitivity))

    return make_measurement(input_domain, input_metric, max_divergence(), function, privacy_map)


then_sparse_vector = to_then(make_sparse_vector)


def _leaf_space(input_domain: Domain, input_metric: Metric, tree: Tree | None) -> tuple[CountSpace, Tree] | None:
    """The space of leaf counts and its tree, if the queries may be nodes."""
    if not is_metric(input_metric, l1_distance):
        if tree is not None:
            raise ValueError(f"input_metric ({input_metric}) must be l1_distance where a tree is given")
        return None
    try:
        space = CountSpace.of(input_domain)
    except ValueError:
        if tree is not None:
            raise
        return None
    return CountSpace.of_leaves(input_domain, tree) if tree is not None or space.holds_leaves else None


@dataclass(frozen=True)
class _Reader:
    """Turns queries into integers, refusing those that are not what was declared."""

    input_domain: Domain
    input_metric: Metric
    counts: tuple[CountSpace, Tree] | None
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
        if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise TypeError(f"a query ({type(query).__name__}) must be a Transformation, a node id, or a list of these")
        if self.counts is None:
            raise ValueError("a query by node id needs a tree. Hint: use leaf_domain(tree), or pass tree=")
        nodes = self.counts[1].node_count
        if not 0 <= query < nodes:
            raise ValueError(f"query ({query}) must be a node id from 0 to {nodes - 1}")
        if self.d_in > self.sensitivity:
            raise ValueError(f"a node moves by up to {self.d_in} at d_in, more than sensitivity ({self.sensitivity})")

    def _check_transformation(self, query: Transformation) -> None:
        if self.monotonic:
            raise ValueError("a query must be a node id: that a transformation is monotonic cannot be checked")
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


class _Dialogue:
    """One dataset, as it was at the start, under one running sparse vector."""

    def __init__(self, reader: _Reader, data: Any, running: SparseVector, refuses: bool) -> None:
        self._reader, self._running, self._refuses = reader, running, refuses
        self._data = data.copy() if isinstance(data, np.ndarray) else data
        self._leaves = None if reader.counts is None else reader.counts[0].read(data)
        self._nodes: Ints | None = None

    def answer(self, query: Any) -> Any:
        """The answer to one query, or the answers to a batch."""
        batch = isinstance(query, (list, tuple, np.ndarray))
        # A copy: what is evaluated is what was checked.
        queries = np.array(query) if isinstance(query, np.ndarray) else tuple(query) if batch else (query,)
        self._reader.check_all(queries)
        if self._refuses and self._running.left == 0:
            raise ValueError("the cutoff is reached: no further query is answered")
        answers = self._running.answer(self._evaluate(queries))
        if self._refuses and self._running.left == 0:
            answers = answers[: int(np.flatnonzero(answers)[-1]) + 1]
        return answers if batch else bool(answers[0])

    def _evaluate(self, queries: tuple[Any, ...] | Array) -> Ints:
        if isinstance(queries, np.ndarray):
            found: Ints = self._node_counts()[queries]
            return found
        values = [
            query(self._data) if isinstance(query, Transformation) else int(self._node_counts()[query])
            for query in queries
        ]
        return np.array([max(-saturate.LIMIT, min(saturate.LIMIT, value)) for value in values], dtype=np.int64)

    def _node_counts(self) -> Ints:
        if self._nodes is None:
            assert self._reader.counts is not None
            assert self._leaves is not None
            self._nodes = self._reader.counts[1].sum(self._leaves)
        return self._nodes
