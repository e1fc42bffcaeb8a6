"""The private tree partition: disjoint heavy cells and their counts, at one price whatever their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Ints
from opendp_tree.mechanisms.find import find_in_fringe, make_fringe
from opendp_tree.mechanisms.searches import with_promised_delta
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta
from opendp_tree.trees.domains import CountSpace, check_metric, read_occupied
from opendp_tree.trees.shown_nodes import ShownCells
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_partition", "then_tree_partition"]

_NO_NOISE = Fraction(1, 2**20)
"""What a scale of 0 is drawn with: noise is 0 but with a chance of e**-(2**20), and the map says infinity."""


@dataclass(frozen=True)
class TreeCells:
    """The cells of a public tree: sorted node ids, and the gap of each."""

    nodes: Ints
    gaps: Ints


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
    level, its prefix or labels, and `gap`. `delta` chooses good parameters for a budget.

    `approximate(max_divergence())`, or `max_divergence()` where no noise ends. With d tested levels, c the logarithm of
    (1 - q**(A + 2))/(1 - q**(A + 1)), A the margin and q = exp(-1/scale), epsilon at distance k is k times the larger
    of 1/scale and (d - 1)*c + max(c, 1/token_scale); delta is 1 - (1 - p)**d, where p is the chance of noise above
    radius - k. Proof: docs/proofs/partition.md.

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
        level. On a public tree it may also be None: noise without end, and with it no delta.
    margin
        How far below the threshold counts stay exact; one number, or one a tested level. Threshold minus margin must
        not fall towards the root.
    levels
        Which levels are tested, ascending, the root's being 0; all of them by default. The others cost nothing and have
        no cells; their people belong to the next tested level above.
    delta
        In the place of `token_scale`, `threshold`, `radius` and `margin`: chooses them for an epsilon of at most
        1/scale and this delta. The map then reports exactly `delta` at distance 1, so that OpenDP's searches for
        `scale` can compare.
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
    found, read = read_occupied(input_domain, tree)
    tested = _tested_levels(found.depth, levels)
    numbers = token_scale, threshold, radius, margin
    if delta is None:
        if token_scale is None or threshold is None or margin is None:
            raise ValueError(
                "token_scale, threshold and margin must be given. Hint: or delta alone, which chooses them"
            )
        fringe = _read_fringe(len(tested), scale, token_scale, threshold, radius, margin)
        if None in fringe.radii and not isinstance(found, Tree):
            raise ValueError("radius (None) must be an integer: noise without end would show nodes that nobody is at")
    elif any(value is not None for value in numbers):
        raise ValueError("delta must be given alone: it chooses token_scale, threshold, radius and margin")
    else:
        fringe = _chosen_fringe(len(tested), scale, delta)
    is_pure = all(radius is None for radius in fringe.radii)

    def privacy_map(d_in: int | float) -> Any:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        loss = (0.0, 0.0) if people == 0 else _loss(fringe, people)
        if people and (scale == 0 or token_scale == 0):
            loss = math.inf, 1.0
        loss = loss if delta is None else with_promised_delta(loss, delta)
        return loss[0] if is_pure else loss

    measure = max_divergence() if is_pure else approximate(max_divergence())
    release = (
        _release_public(input_domain, tree, tested, fringe)
        if isinstance(found, Tree)
        else _release_open(read, tested, fringe)
    )
    return make_measurement(input_domain, input_metric, measure, release, privacy_map)


then_tree_partition = to_then(make_tree_partition)


def _loss(fringe: Fringe, people: int) -> tuple[float, float]:
    epsilon, delta = find_epsilon_delta([fringe], k=people)
    return round_up(epsilon), min(1.0, round_up(delta))


def _release_public(input_domain: Domain, tree: Tree | None, tested: tuple[int, ...], fringe: Fringe) -> Any:
    space, public = CountSpace.of_leaves(input_domain, tree)

    def release(data: Any) -> TreeCells:
        occupied = public.occupied(space.read(data), every=None in fringe.radii)
        assert occupied.ids is not None
        places, levels, gaps = find_in_fringe(occupied, tested, fringe)
        nodes = public.ancestors_at(occupied.ids[places], levels)
        order = np.argsort(nodes)
        return TreeCells(nodes[order], gaps[order])

    return release


def _release_open(read: Any, tested: tuple[int, ...], fringe: Fringe) -> Any:
    def release(data: Any) -> Any:
        from opendp_tree.releases.frame import cell_frame

        counts = read(data)
        assert isinstance(counts, SparseCounts)
        places, levels, gaps = find_in_fringe(counts.occupied, tested, fringe)
        listed = ShownCells.of(counts, places, levels)
        return cell_frame(listed).with_columns(gap=gaps[listed.order])

    return release


def _chosen_fringe(count: int, scale: float, delta: float) -> Fringe:
    """A silent fringe for an epsilon of at most 1/scale and a delta; without noise where the scale is 0."""
    exact, lost = check_scale(scale), check_probability(delta, name="delta")
    if exact == 0:
        return Fringe((2,) * count, (1,) * count, (0,) * count, _NO_NOISE, _NO_NOISE, None)
    return replace(make_fringe(count, 1 / exact, 1 / exact, 1 / exact, lost, 1), rest_scales=None)


def _read_fringe(
    count: int,
    scale: float,
    token_scale: float,
    threshold: int | Sequence[int],
    radius: int | Sequence[int | None] | None,
    margin: int | Sequence[int],
) -> Fringe:
    """The fringe, once its numbers are sure to be numbers that fit each other."""
    scales = []
    for name, value in (("scale", scale), ("token_scale", token_scale)):
        exact = check_scale(value, name=name)
        if exact > noise.LARGEST_SCALE:
            raise ValueError(f"{name} ({value}) must be at most 2**50, or noise would not fit")
        scales.append(exact or _NO_NOISE)
    radii = (None,) * count if radius is None else _one_per_level(radius, "radius", count)
    return Fringe(
        tuple(check_integer(each, name="threshold", least=1) for each in _one_per_level(threshold, "threshold", count)),
        tuple(None if each is None else check_integer(each, name="radius", least=1) for each in radii),
        tuple(check_integer(each, name="margin", least=0) for each in _one_per_level(margin, "margin", count)),
        scales[0],
        scales[1],
        None,
    )


def _tested_levels(depth: int, levels: Sequence[int] | None) -> tuple[int, ...]:
    if levels is None:
        return tuple(range(depth))
    tested = tuple(check_integer(level, name="levels", least=0) for level in _one_per_level(levels, "levels", None))
    if not tested:
        raise ValueError("levels () must name at least one level. Hint: a partition without tests shows nothing")
    if any(above >= below for above, below in pairwise(tested)):
        raise ValueError(f"levels {tested} must ascend from the root's, which is 0")
    if tested[-1] >= depth:
        raise ValueError(f"levels ({tested[-1]}) must be below depth ({depth}). Hint: the root's level is 0")
    return tested


def _one_per_level(values: Any, name: str, count: int | None) -> tuple[Any, ...]:
    """One value for each tested level."""
    if isinstance(values, (int, np.integer)) and count is not None:
        return (values,) * count
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise TypeError(f"{name} ({values!r}) must be an integer, or a sequence with one for each tested level")
    if count is not None and len(values) != count:
        raise ValueError(f"{name} has {len(values)} entries, and must have {count}: one for each tested level")
    return tuple(values)
