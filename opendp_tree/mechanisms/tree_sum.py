"""Leaf counts to the counts of all nodes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from opendp.domains import atom_domain, vector_domain
from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import Domain, Metric, Transformation

from opendp_tree._arguments import check_choice, read_distance
from opendp_tree._opendp import make_transformation, to_then
from opendp_tree.theorems.interval import sqrt_up
from opendp_tree.theorems.noise import tree_sum_l1, tree_sum_l2_squared, tree_sum_linf
from opendp_tree.trees.domains import CountSpace, is_metric, node_domain, write_distance
from opendp_tree.trees.tree import Tree


def make_tree_sum(
    input_domain: Domain,
    input_metric: Metric,
    tree: Tree | None = None,
    *,
    output_metric: Metric | None = None,
    carrier: Literal["vector", "array"] | None = None,
) -> Transformation:
    """The count of every node: leaf counts in, node counts by node id out.

    Proof: docs/proofs/counting.md. Sums are exact and saturate at ±(2**62 - 1), which keeps the stability.

    :param input_domain: `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared
        size, vectors are cut to the number of leaves, or filled up with zeros: no error depends on the data.
    :param input_metric: `l1_distance`, of an integer type or f64.
    :param tree: The tree, where `input_domain` does not carry it.
    :param output_metric: `l1_distance` (the default): node counts move by depth times `d_in`; Laplace noise can follow.
        `l2_distance`: by the square root of depth times `d_in`; Gaussian noise can follow. `linf_distance`: by `d_in`;
        with `monotonic=True` for `d_in` up to 1 only, because two people may move counts both ways.
    :param carrier: "array" gives `node_domain(tree)`, whose arrays OpenDP does not copy; "vector" a vector domain,
        which OpenDP's own noise needs. By default what `input_domain` is.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain, then_tree_sum
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_sum()
    >>> counts(tree.count([3, 3, 5])), counts.map(1)
    (array([3, 2, 1, 2, 0, 1, 0]), 3)
    """
    space, tree = CountSpace.of_leaves(input_domain, input_metric, tree)
    if carrier is None:
        carrier = "array" if space.arrays else "vector"
    check_choice(carrier, name="carrier", choices=("vector", "array"))
    output_metric = l1_distance(T=str(input_metric.distance_type)) if output_metric is None else output_metric
    vectors = vector_domain(atom_domain(T="i64"), size=tree.node_count)
    outputs = vectors if carrier == "vector" else node_domain(tree), output_metric
    stability_map = _stability_map(output_metric, tree.depth)
    return make_transformation(
        input_domain, input_metric, *outputs, lambda data: tree.sum(space.read(data)), stability_map
    )


then_tree_sum = to_then(make_tree_sum)


def _stability_map(output_metric: Metric, depth: int) -> Callable[[int | float], int | float]:
    def moved(d_in: Fraction) -> Fraction:
        if is_metric(output_metric, l1_distance):
            return tree_sum_l1(d_in, depth=depth)
        if is_metric(output_metric, l2_distance):
            return Fraction(sqrt_up(tree_sum_l2_squared(d_in, depth=depth)))
        if is_metric(output_metric, linf_distance, monotonic=True):
            if d_in > 1:
                raise ValueError(f"d_in ({float(d_in):g}) must be at most 1: further apart, counts may move both ways")
        elif not is_metric(output_metric, linf_distance):
            raise ValueError(
                f"output_metric ({output_metric}) must be l1_distance, l2_distance or linf_distance, "
                "of an integer type or f64"
            )
        return tree_sum_linf(d_in)

    moved(Fraction(0))  # raises for other metrics before anything is made
    return lambda d_in: write_distance(moved(read_distance(d_in)), output_metric)
