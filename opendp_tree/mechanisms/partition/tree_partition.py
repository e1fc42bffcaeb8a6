"""The private tree partition: disjoint heavy cells and their counts, at one price whatever their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.mechanisms.partition.parameters import GapParameters, choose_parameters
from opendp_tree.mechanisms.partition.walk import find_cells, find_cells_of_tree
from opendp_tree.mechanisms.searches import with_promised_delta
from opendp_tree.theorems.interval import round_down
from opendp_tree.theorems.tree_partition import GapShape
from opendp_tree.trees.domains import CountSpace, check_metric, read_occupied
from opendp_tree.trees.shown_nodes import ShownCells
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_partition", "then_tree_partition"]


def make_tree_partition(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    token_scale: float | None = None,
    threshold: int | Sequence[int] | None = None,
    radius: int | Sequence[int | None] | None = None,
    margin: int | Sequence[int] | None = None,
    levels: Sequence[int] | None = None,
    delta: float | None = None,
    tree: Tree | None = None,
) -> Measurement:
    """The cells of a tree, nodes with roughly `threshold` people or more outside the cells below them, and their gaps.

    A cell's gap is what its test compared with the threshold: the cell's people outside cells below it, a little
    blurred and with noise of `scale`. It costs nothing beyond finding the cell, and any number of cells costs the same.
    Gives a value with `nodes` (sorted ids) and `gaps` for a `Tree`; for an `OpenTree` a frame with a row a cell: its
    level, its prefix or labels, and `gap`. `choose_parameters` gives good parameters for a budget.

    `approximate(max_divergence())`, or `max_divergence()` where no noise ends. With d tested levels, c the logarithm of
    (1 - q**(A + 2))/(1 - q**(A + 1)), A the margin and q = exp(-1/scale), epsilon at distance k is k times the larger
    of 1/scale and (d - 1)*c + max(c, 1/token_scale); delta is 1 - (1 - p)**d, where p is the chance of noise above
    radius - k. Proof: docs/proofs/tree_partition.md.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector domain with one integer for each leaf. Without a declared size, vectors are cut
        to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`: how many people differ.
    scale
        Of each test's noise; 0 for none, which keeps nothing private. With the other numbers fixed, a larger one lowers
        epsilon only until c, which grows with it, takes over, and raises delta.
    token_scale
        Of the tokens that are taken off counts of at least threshold - margin. Given with `threshold` and `margin`, or
        all three left out for `delta`.
    threshold
        What count and noise together must reach; one number, or one for each tested level from the root down.
    radius
        The largest noise of a test, below the threshold, or empty nodes would be shown; one number, or one a tested
        level. On a public tree it may also be larger, or None: noise without end, and with it no delta.
    margin
        How far below the threshold counts stay exact; one number, or one a tested level. Threshold minus margin must
        not fall towards the root.
    levels
        Which levels are tested, ascending, the root's being 0; all of them by default. The others cost nothing and have
        no cells; their people belong to the next tested level above.
    delta
        In the place of `token_scale`, `threshold`, `radius` and `margin`: takes those of `choose_parameters` for an
        epsilon of 1/scale and this delta. The map then reports exactly `delta` at distance 1, so that OpenDP's searches
        for `scale` can compare.
    tree
        The tree, where `input_domain` does not carry it.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=4)
    >>> cells = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_partition(
    ...     1.0, token_scale=1.1, threshold=17, radius=16, margin=4
    ... )
    >>> cells.map(1)
    (1.0, 2.845431715437299e-07)
    >>> cells(np.array([0, 900, 0, 0, 500, 2, 0, 0])).nodes
    array([ 8, 11])
    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    found = read_occupied(input_domain, tree)[0]
    is_public = isinstance(found, Tree)
    if delta is None:
        if token_scale is None or threshold is None or margin is None:
            raise ValueError(
                "token_scale, threshold and margin must be given. Hint: or delta alone, which chooses them"
            )
        for name, value in (("scale", scale), ("token_scale", token_scale)):
            check_scale(value, name=name)
            if value > noise.LARGEST_SCALE:
                raise ValueError(f"{name} ({value}) must be at most 2**50, or noise would not fit")
        shape = _read_shape(found.depth, levels, threshold, radius, margin, every_node=is_public)
        parameters = GapParameters(float(scale), float(token_scale), shape)
    elif any(value is not None for value in (token_scale, threshold, radius, margin)):
        raise ValueError("delta must be given alone: it chooses token_scale, threshold, radius and margin")
    else:
        parameters = _chosen(found.depth, levels, scale, delta)

    def privacy_map(d_in: int | float) -> Any:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        loss = parameters.loss(people) if delta is None else with_promised_delta(parameters.loss(people), delta)
        return loss[0] if parameters.is_pure else loss

    measure = max_divergence() if parameters.is_pure else approximate(max_divergence())
    release = _release_public(input_domain, tree, parameters) if is_public else _release_open(input_domain, parameters)
    return make_measurement(input_domain, input_metric, measure, release, privacy_map)


then_tree_partition = to_then(make_tree_partition)


def _release_public(input_domain: Domain, tree: Tree | None, parameters: GapParameters) -> Any:
    space, public = CountSpace.of_leaves(input_domain, tree)
    return lambda data: find_cells_of_tree(public, space.read(data), parameters)


def _release_open(input_domain: Domain, parameters: GapParameters) -> Any:
    read = read_occupied(input_domain, None)[1]

    def release(data: Any) -> Any:
        from opendp_tree.releases.frame import cell_frame

        counts = read(data)
        assert isinstance(counts, SparseCounts)
        cells = find_cells(counts.occupied, parameters)
        listed = ShownCells.of(counts, cells.places, cells.levels)
        return cell_frame(listed).with_columns(gap=cells.gaps[listed.order])

    return release


def _chosen(depth: int, levels: Sequence[int] | None, scale: float, delta: float) -> GapParameters:
    """The parameters for an epsilon of 1/scale and a delta; without noise where the scale is 0."""
    tested = _tested(depth, levels)
    exact = check_scale(scale)
    check_probability(delta, name="delta")
    if exact == 0:
        return GapParameters(0.0, 0.0, GapShape(tested, *((one,) * len(tested) for one in (2, 1, 0))))  # type: ignore[arg-type]
    chosen = choose_parameters(len(tested), round_down(1 / exact), delta)
    return replace(chosen, shape=replace(chosen.shape, levels=tested))


def _tested(depth: int, levels: Sequence[int] | None) -> tuple[int, ...]:
    tested = tuple(range(depth)) if levels is None else _integers(levels, name="levels", count=None, least=0)
    if tested and tested[-1] >= depth:
        raise ValueError(f"levels ({tested[-1]}) must be below depth ({depth}). Hint: the root's level is 0")
    return tested


def _read_shape(
    depth: int,
    levels: Sequence[int] | None,
    threshold: int | Sequence[int],
    radius: int | Sequence[int | None] | None,
    margin: int | Sequence[int],
    *,
    every_node: bool,
) -> GapShape:
    """The shape, once its numbers are sure to be integers that fit the tree and each other."""
    tested = _tested(depth, levels)
    count = len(tested)
    radii = (radius,) * count if radius is None else _radii(radius, count)
    return GapShape(
        tested,
        _integers(threshold, name="threshold", count=count, least=1),
        radii,
        _integers(margin, name="margin", count=count, least=0),
        every_node,
    )


def _radii(radius: int | Sequence[int | None], count: int) -> tuple[int | None, ...]:
    given = _one_each(radius, name="radius", count=count)
    return tuple(None if value is None else check_integer(value, name="radius", least=1) for value in given)


def _integers(values: int | Sequence[int], *, name: str, count: int | None, least: int) -> tuple[int, ...]:
    return tuple(check_integer(value, name=name, least=least) for value in _one_each(values, name=name, count=count))


def _one_each(values: Any, *, name: str, count: int | None) -> tuple[Any, ...]:
    """One value for each tested level."""
    if isinstance(values, (int, np.integer)) and count is not None:
        return (values,) * count
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise TypeError(f"{name} ({values!r}) must be an integer, or a sequence with one for each tested level")
    if count is not None and len(values) != count:
        raise ValueError(f"{name} has {len(values)} entries, and must have {count}: one for each tested level")
    return tuple(values)
