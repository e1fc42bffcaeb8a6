"""Leaf counts to the counts of all nodes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import Domain, Metric, Transformation, assert_features

from opendp_tree._arguments import check_choice, read_distance
from opendp_tree._opendp import make_transformation, to_then
from opendp_tree.theorems.distances import tree_sum_l1, tree_sum_l2_squared, tree_sum_linf
from opendp_tree.theorems.interval import sqrt_up
from opendp_tree.trees.domains import (
    CountSpace,
    check_metric,
    is_metric,
    node_domain,
    node_vector_domain,
    write_distance,
)
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_sum", "then_tree_sum"]


def make_tree_sum(
    input_domain: Domain,
    input_metric: Metric,
    tree: Tree | None = None,
    *,
    output_metric: Metric | None = None,
    carrier: Literal["vector", "array"] | None = None,
) -> Transformation:
    """The count of every node: leaf counts in, node counts by node id out.

    Proof: docs/proofs/tree_sum.md. Sums are exact and saturate at ±(2**62 - 1), which keeps the stability. The cost is
    one pass over the leaves and one over the nodes.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or `vector_domain(atom_domain(T="i64"), size=tree.leaf_count)` with the tree as an
        argument. The integers may be i32, u32 or u64 too. Without a size (OpenDP's `count_by_categories` declares
        none), vectors are cut to the number of leaves, or filled up with zeros: no error depends on the data.
    input_metric
        `l1_distance`, of an integer type or f64.
    tree
        The tree, where `input_domain` does not carry it.
    output_metric
        What the stability is told in, exactly. `l1_distance` (the default, of the same type): depth times `d_in`;
        Laplace noise can follow. `l2_distance`: the square root of depth times `d_in`, rounded up; Gaussian noise can
        follow. `linf_distance`: `d_in`; with `monotonic=True` for `d_in` up to 1 only, because two people may pull two
        ways.
    carrier
        "array" gives `node_domain(tree)`, whose arrays OpenDP does not copy; "vector" a vector domain, which OpenDP's
        own noise needs. By default arrays where `input_domain` is `leaf_domain`, because they are faster, and vectors
        where it is a vector domain.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain, then_tree_sum
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_sum()
    >>> counts(tree.count([3, 3, 5])), counts.map(1)
    (array([3, 2, 1, 2, 0, 1, 0]), 3)
    >>> vectors = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_sum(carrier="vector")
    >>> (vectors >> dp.m.then_laplace(scale=3.0)).map(1)
    1.0
    """
    assert_features("contrib")
    space, tree = CountSpace.of_leaves(input_domain, tree)
    check_metric(input_metric, l1_distance)
    if carrier is None:
        carrier = "array" if space.carries_arrays else "vector"
    check_choice(carrier, name="carrier", choices=("vector", "array"))
    output_metric = l1_distance(T=str(input_metric.distance_type)) if output_metric is None else output_metric
    return make_transformation(
        input_domain,
        input_metric,
        node_vector_domain(tree) if carrier == "vector" else node_domain(tree),
        output_metric,
        lambda data: tree.sum(space.read(data)),
        _stability_map(output_metric, tree.depth),
    )


then_tree_sum = to_then(make_tree_sum)


def _stability_map(output_metric: Metric, depth: int) -> Callable[[int | float], int | float]:
    def l1(d_in: int | float) -> int | float:
        return write_distance(tree_sum_l1(read_distance(d_in), depth=depth), output_metric)

    def l2(d_in: int | float) -> int | float:
        return write_distance(Fraction(sqrt_up(tree_sum_l2_squared(read_distance(d_in), depth=depth))), output_metric)

    def linf(d_in: int | float) -> int | float:
        return write_distance(tree_sum_linf(read_distance(d_in)), output_metric)

    def monotonic_linf(d_in: int | float) -> int | float:
        if read_distance(d_in) > 1:
            raise ValueError(f"d_in ({d_in}) must be at most 1: further apart, counts may move both ways")
        return linf(d_in)

    for found, stability in (
        (is_metric(output_metric, l1_distance), l1),
        (is_metric(output_metric, l2_distance), l2),
        (is_metric(output_metric, linf_distance), linf),
        (is_metric(output_metric, linf_distance, monotonic=True), monotonic_linf),
    ):
        if found:
            return stability
    raise ValueError(
        f"output_metric ({output_metric}) must be l1_distance, l2_distance or linf_distance, of an integer type or f64"
    )
