"""Estimates for every node of a tree from its private partition: the multiplicative estimator that is used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_integer, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.measurements.cell_intervals import noise_bounds, residual_bounds
from opendp_tree.measurements.partition_plan import PartitionPlan, plan_partition
from opendp_tree.measurements.partition_walk import Cells, PartitionWalk
from opendp_tree.measurements.tree_partition import partition_group_delta
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.interval import Interval, round_up
from opendp_tree.theorems.tree_partition import partition_epsilon
from opendp_tree.trees.domains import check_metric, read_occupied
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownCells, ShownNodes
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_partition_estimator", "then_partition_estimator"]


def make_partition_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float,
    alpha: float = 0.1,
    tree: Tree | OpenTree | None = None,
    confidence: float = 0.95,
    minimise: Literal["rmse", "largest"] = "rmse",
    node_count: int = 10**6,
    plan: PartitionPlan | None = None,
) -> Measurement:
    """Estimates and intervals for every node of a tree, from its private partition and noisy counts of the cells.

    `approximate(max_divergence())`, at most (epsilon, delta) at distance 1. The partition and the counts of its cells
    compose: each person is in at most one cell, so the counts cost one Laplace scale however many cells there are.
    The map is their exact sum; beyond distance 1 by group privacy. Proof: docs/proofs/partition_estimator.md.

    The parameters minimise the worst alpha-RMSE of any node that is predicted for this depth (`minimise="rmse"`), or
    the largest alpha-error to be expected over `node_count` nodes (`minimise="largest"`); or give a `plan`. Nothing
    needs to be known of an `OpenTree` but its depth; only nodes with a cell at or below them are in its release.

    Intervals hold with `confidence`, node by node, for the sums of the leaf counts; one below 0 is taken as 0, here
    and in what the intervals speak of.

    Gives a `TreeRelease`. The cost is that of sorting the leaves that hold people.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import OpenTree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = OpenTree.columns(2)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_partition_estimator(epsilon=1.0, delta=1e-6)
    >>> counts.map(1) <= (1.0, 1e-6)
    True
    >>> release = counts(tree.count([("be", "ghent")] * 500 + [("be", "liege")] * 400 + [("lu", "lux")]))
    >>> release.to_frame().select("level", "label_1", "label_2").rows()
    [(0, None, None), (1, 'be', None), (2, 'be', 'ghent'), (2, 'be', 'liege')]
    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    found, read = read_occupied(input_domain, tree)
    budget = check_scale(epsilon, name="epsilon"), check_probability(delta, name="delta")
    check_probability(confidence, name="confidence")
    if confidence > 1 - 1e-9:
        raise ValueError(f"confidence ({confidence}) must be at most 1 - 1e-9")
    check_choice(minimise, name="minimise", choices=("rmse", "largest"))
    check_integer(node_count, name="node_count", least=1)
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha ({alpha}) must be at least 0 and below 1")
    if budget[0] == 0:
        raise ValueError("epsilon (0) must be positive")
    setting = _Setting.of(found, budget, alpha, confidence, minimise, node_count, plan)

    def function(data: Any) -> TreeRelease:
        counts = read(data)
        occupied = counts.occupied if isinstance(counts, SparseCounts) else counts
        cells = PartitionWalk(occupied, setting.plan.scale, setting.plan.shape).run()
        noisy = setting.noisy(cells.residuals)
        if isinstance(counts, SparseCounts):
            return setting.open_release(counts, cells, noisy)
        return setting.public_release(counts, cells, noisy)

    return make_measurement(input_domain, input_metric, approximate(max_divergence()), function, setting.privacy_map)


then_partition_estimator = to_then(make_partition_estimator)


@dataclass(frozen=True)
class _Setting:
    """All that is decided before data: what is run is what the map is computed from."""

    tree: Tree | OpenTree
    plan: PartitionPlan
    confidence: float

    @classmethod
    def of(
        cls,
        tree: Tree | OpenTree,
        budget: tuple[Fraction, Fraction],
        alpha: float,
        confidence: float,
        minimise: Literal["rmse", "largest"],
        node_count: int,
        plan: PartitionPlan | None,
    ) -> _Setting:
        epsilon, delta = budget
        if plan is None:
            planned = plan_partition(
                depth=tree.depth,
                epsilon=float(epsilon),
                delta=float(delta),
                alpha=alpha,
                public=isinstance(tree, Tree),
                minimise=minimise,
                node_count=node_count,
            )
            plan = planned.fitted(epsilon=epsilon, delta=delta)
        elif not isinstance(plan, PartitionPlan):
            raise TypeError(f"plan ({type(plan).__name__}) must be a PartitionPlan. Hint: plan_partition(...)")
        elif plan.shape.depth < tree.depth:
            raise ValueError(f"plan must be for a depth of at least {tree.depth}, found {plan.shape.depth}")
        setting = cls(tree, plan, float(confidence))
        spent = setting.privacy_map(1)
        if spent[0] > epsilon or spent[1] > delta:
            raise ValueError(
                f"plan spends {spent} at distance 1, more than epsilon and delta ({float(epsilon)}, {float(delta)})"
            )
        return setting

    def privacy_map(self, d_in: int | float) -> tuple[float, float]:
        """The sum of what the partition and the cell counts lose."""
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        if people == 0:
            return 0.0, 0.0
        return self.one if people == 1 else self._loss(people)

    @cached_property
    def one(self) -> tuple[float, float]:
        """The loss at distance 1, computed once: the map, a budget and a release's statement ask for it."""
        return self._loss(1)

    def _loss(self, people: int) -> tuple[float, float]:
        scale, count_scale = Fraction(self.plan.scale), Fraction(self.plan.count_scale)
        epsilon = partition_epsilon(scale, self.plan.shape)
        delta = partition_group_delta(scale, self.plan.shape, people)
        return round_up((epsilon + Interval.of(1 / count_scale)) * people), delta

    def noisy(self, residuals: Ints) -> Ints:
        """The cells' counts with noise."""
        return saturate.add(residuals, noise.laplace(self.plan.count_scale, residuals.size))

    def public_release(self, occupied: Occupied, cells: Cells, noisy: Ints) -> TreeRelease:
        """Estimates for all nodes by id."""
        assert isinstance(self.tree, Tree)
        tree = self.tree
        where = tree.ancestors_at(occupied.ids[cells.places], cells.levels)
        values, marks = np.zeros(tree.node_count, dtype=np.int64), np.zeros(tree.node_count, dtype=np.int64)
        values[where], marks[where] = noisy, 1
        held, number = tree.sum_nodes(values), tree.sum_nodes(marks)
        return self._release(held, number, marks > 0, None)

    def open_release(self, counts: SparseCounts, cells: Cells, noisy: Ints) -> TreeRelease:
        """Estimates for the nodes with a cell at or below them."""
        shown = ShownCells.of(counts, cells.places, cells.levels)
        held = saturate.range_sums(noisy[shown.order], shown.firsts, shown.lasts)
        return self._release(held, shown.lasts - shown.firsts, shown.is_cell, shown.nodes)

    def _release(self, held: Ints, number: Ints, is_cell: Bools, nodes: ShownNodes | None) -> TreeRelease:
        lower, upper = self._interval(held.astype(np.float64), number, is_cell)
        # A cell holds at least so many people for sure: an estimate raised to that is no further from the truth.
        least = number * float(self.plan.shape.doubt)
        estimates = np.maximum(held, least) + np.where(is_cell, 0.0, self.plan.fill)
        hidden = None
        if nodes is not None:  # a node that is not shown is one without cells
            none = np.zeros(1, dtype=np.int64)
            hidden = float(self._interval(none.astype(np.float64), none, none > 0)[1][0])
        return TreeRelease(
            self.tree,
            estimates,
            lower,
            upper,
            self.confidence,
            self._statement(),
            cells=number,
            nodes=nodes,
            hidden=hidden,
        )

    def _interval(self, held: Floats, number: Ints, is_cell: Bools) -> tuple[Floats, Floats]:
        plan, miss = self.plan, 1 - self.confidence
        least = number * float(plan.shape.doubt)
        # A quarter for each side of the noise, and half for the people outside cells.
        bounds = noise_bounds(number, plan.count_scale, miss / 4)
        beyond = residual_bounds(held + bounds, plan.scale, plan.shape, miss / 2)
        # Floats do not hold all integers beyond 2**53: outward by more than all roundings.
        slack = np.where(np.abs(held) > 2**52, np.abs(held) * 2.0**-50, 0.0)
        lower = np.maximum(held - bounds - slack, least)
        return lower, np.maximum(held + bounds + slack, least) + np.where(is_cell, 0.0, beyond)

    def _statement(self) -> PrivacyStatement:
        epsilon, delta = self.privacy_map(1)
        shape = self.plan.shape
        return PrivacyStatement(
            mechanism="partition_estimator",
            measure=measure_name(approximate(max_divergence())),
            d_in=1,
            loss={"epsilon": epsilon, "delta": delta},
            parameters={
                "scale": self.plan.scale,
                "threshold": shape.threshold,
                "radius": shape.radius,
                "margin": shape.margin,
                "depth": shape.depth,
                "count_scale": self.plan.count_scale,
                "fill": self.plan.fill,
            },
        )
