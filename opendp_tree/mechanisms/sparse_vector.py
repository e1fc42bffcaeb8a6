"""Sparse vector: which of many adaptively chosen counts lie above a threshold, paid by the answers "above"."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

from opendp.measures import max_divergence
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_choice, check_flags, check_integer, read_distance
from opendp_tree._opendp import make_measurement, make_queryable, to_then
from opendp_tree.mechanisms.running_sparse_vector import Calibration, SparseVector
from opendp_tree.mechanisms.sparse_queries import Dialogue, Reader, node_counter
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_sparse_vector", "then_sparse_vector"]


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
