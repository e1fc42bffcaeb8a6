"""The private tree partition: disjoint heavy cells and their noisy counts, found as by the estimator."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Ints
from opendp_tree.budget import with_promised_delta
from opendp_tree.mechanisms.find import PartitionParameters, find_in_fringe, make_fringe
from opendp_tree.mechanisms.tree_estimator import check_levels
from opendp_tree.releases.frame import cell_frame
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.domains import leaf_reader
from opendp_tree.trees.nodes import ShownCells
from opendp_tree.trees.tree import Tree

_NO_NOISE = Fraction(1, 2**20)
"""Replaces a scale of 0: noise is 0 except with probability e**-(2**20), and the map is infinite."""


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

    A cell's gap is the number that its test compared with the threshold: the cell's people outside cells below it, less
    tokens, plus noise. The cost does not depend on the number of cells. For a `Tree` the result has `nodes` (sorted
    ids) and `gaps`; for an `OpenTree` it is a frame with one row per cell: its level, its prefix or labels, and `gap`.
    Proof: docs/proofs/partition.md.

    :param input_domain: `leaf_domain(tree)`, or a vector domain with one integer for each leaf.
    :param input_metric: `l1_distance`: how many people differ.
    :param scale: The scale of each test's noise; 0 for no noise, which is not private.
    :param token_scale: The scale of the tokens that are subtracted from counts of at least threshold - margin.
    :param threshold: What count and noise together must reach: one number, or one per tested level from the root down.
    :param radius: The largest noise of a test, below the threshold: one number, or one per tested level. On a public
        tree it may also be None: then noise is unbounded, and delta is 0.
    :param margin: How far below the threshold counts stay exact: one number, or one per tested level. Threshold minus
        margin must not fall towards the root.
    :param levels: Which levels are tested; the root's level is 0. By default all. The other levels cost nothing and
        have no cells; their people belong to the next tested level above.
    :param delta: Instead of the four numbers: chooses them for an epsilon of at most 1/scale and this delta, which the
        map then reports at distance 1.
    :param tree: The tree, where `input_domain` does not carry it.

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
    schema, read = leaf_reader(input_domain, input_metric, tree)
    tested = check_levels(schema.depth, levels, root=False)
    count = len(tested)
    if delta is not None:
        if any(value is not None for value in (token_scale, threshold, radius, margin)):
            raise ValueError("delta must be given alone: it chooses token_scale, threshold, radius and margin")
        fringe = _chosen_fringe(count, check_scale(scale), check_probability(delta, name="delta"))
    elif token_scale is None or threshold is None or margin is None:
        raise ValueError("token_scale, threshold and margin must be given. Hint: or delta alone, which chooses them")
    else:
        fringe = Fringe(
            _per_level(threshold, count, name="threshold", least=1),
            (None,) * count if radius is None else _per_level(radius, count, name="radius", least=1),
            _per_level(margin, count, name="margin", least=0),
            _drawable(scale, "scale"),
            _drawable(token_scale, "token_scale"),
            None,
        )
    if None in fringe.radii and not isinstance(schema, Tree):
        raise ValueError("radius (None) must be an integer for an open tree: unbounded noise could show empty nodes")
    parameters, is_pure = PartitionParameters((fringe,), Fraction(0), Fraction(0)), set(fringe.radii) == {None}

    def privacy_map(d_in: int | float) -> Any:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        loss = (math.inf, 1.0) if people and 0 in (scale, token_scale) else parameters.loss(people)
        loss = loss if delta is None else with_promised_delta(loss, delta)
        return loss[0] if is_pure else loss

    def function(data: Any) -> Any:
        counts = read(data)
        if isinstance(schema, Tree):
            occupied = schema.occupied(counts, every=None in fringe.radii)
            assert occupied.ids is not None
            places, levels, gaps = find_in_fringe(occupied, tested, fringe)
            nodes = schema.ancestors_at(occupied.ids[places], levels)
            order = np.argsort(nodes)
            return TreeCells(nodes[order], gaps[order])
        places, levels, gaps = find_in_fringe(counts.occupied, tested, fringe)
        listed = ShownCells.of(counts, places, levels)
        return cell_frame(listed).with_columns(gap=gaps[listed.order])

    measure = max_divergence() if is_pure else approximate(max_divergence())
    return make_measurement(input_domain, input_metric, measure, function, privacy_map)


then_tree_partition = to_then(make_tree_partition)


def _chosen_fringe(count: int, scale: Fraction, delta: Fraction) -> Fringe:
    """A silent fringe for an epsilon of at most 1/scale and a delta; without noise if the scale is 0."""
    if scale == 0:
        return Fringe((2,) * count, (1,) * count, (0,) * count, _NO_NOISE, _NO_NOISE, None)
    epsilon = min(1 / scale, Fraction(sys.float_info.max))
    return replace(make_fringe(count, epsilon, epsilon, epsilon, delta, 1), rest_scales=None)


def _drawable(value: float, name: str) -> Fraction:
    exact = check_scale(value, name=name)
    if exact > noise.LARGEST_SCALE:
        raise ValueError(f"{name} ({value}) must be at most 2**50: noise of a larger scale cannot be drawn")
    return exact or _NO_NOISE


def _per_level(values: Any, count: int, *, name: str, least: int) -> tuple[Any, ...]:
    """One integer per tested level; a radius may also be None."""
    if isinstance(values, (int, np.integer)):
        values = (values,) * count
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise TypeError(f"{name} ({values!r}) must be an integer, or a sequence with one for each tested level")
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} entries, and must have {count}: one for each tested level")
    is_radius = name == "radius"
    return tuple(None if each is None and is_radius else check_integer(each, name=name, least=least) for each in values)
