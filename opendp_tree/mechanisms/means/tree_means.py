"""Counts, sums and means of every node of a tree, as one measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_integer, check_positive, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.means.prediction import MeansShares, choose_shares
from opendp_tree.mechanisms.means.release import OpenMeans, PublicMeans
from opendp_tree.mechanisms.partition.layers import SHARES
from opendp_tree.mechanisms.partition.parameters import GapParameters, choose_parameters
from opendp_tree.mechanisms.partition.release import FindThenMeasure
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tree_estimator import check_levels
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.rows.leaf_values import LeafValueSpace, read_space
from opendp_tree.rows.value import value_shares
from opendp_tree.theorems.interval import exp, round_down, round_up
from opendp_tree.theorems.tree_means import STEPS, tree_means_epsilon
from opendp_tree.theorems.tree_partition import gap_delta, gap_epsilon
from opendp_tree.trees.level_weights import regular_level_weights
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_means", "then_tree_means"]


def make_tree_means(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    shares: tuple[float, float, float] | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
) -> Measurement:
    """Counts, sums and means of every node, with intervals, from leaf values: a `TreeRelease` with `values`.

    Of an open tree, cells and their gaps are found first. Above the leaves a pair is measured for each set of a layer:
    the sum of the values' distances from the lower bound, and from the upper one. A row moves both by the width of the
    bounds together, so that the pair costs what one number would. In the cells the sum of distances from the middle is
    enough, because gaps tell the counts. Of a public tree, pairs are measured at every node, level by level.
    Proof: docs/proofs/tree_means.md.

    Parameters
    ----------
    input_domain
        Counts and sums of values by leaf: `leaf_values_domain(tree, values)`, what `make_leaf_values` gives.
    input_metric
        `symmetric_distance`: by how many rows inputs differ.
    epsilon, delta
        What may be lost at distance `d_in`. For a public tree delta is 0, the default, and the measure is
        `max_divergence()`; an open tree needs one, and the measure is `approximate(max_divergence())`. The map reports
        `delta` itself where a little less is lost, so that OpenDP's searches for `epsilon` can compare.
    confidence
        The interval of a node's count, of its sum and of its mean each miss with a chance of at most one less this, for
        a node that was fixed beforehand. 0.95 by default.
    shares
        How epsilon is divided, for an open tree: finding cells, pairs, sums in the cells. None, the default, for the
        shares of least predicted error.
    levels
        Which levels of an open tree are shown, the root's being 0; the root always is. None, the default, shows all.
    d_in
        How many rows of one person `epsilon` and `delta` are for. 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, Value
    >>> from opendp_tree.mechanisms import LeafValues, leaf_values_domain, then_tree_means
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be",), ("lu",)])
    >>> space = leaf_values_domain(tree, Value("amount", bounds=(0, 500))), dp.symmetric_distance()
    >>> means = space >> then_tree_means(epsilon=1.0)
    >>> 1 - 1e-9 < means.map(1) <= 1.0
    True
    >>> release = means(LeafValues(np.array([9_000, 4_000]), (np.array([9_000, 2_000]) * 2**20,)))
    >>> release.values[0].mean.round(-1)
    array([420., 500., 250.])
    """
    assert_features("contrib")
    if input_metric != symmetric_distance():
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance: how many rows differ")
    space = read_space(input_domain)
    unfunded = is_zero(epsilon)
    budget = Budget(
        float(check_positive(1.0 if unfunded else epsilon, name="epsilon")),
        0.0 if is_zero(delta) else float(check_probability(delta, name="delta")),
        d_in=check_integer(d_in, name="d_in", least=1),
    )
    sure = float(check_probability(confidence, name="confidence"))
    if isinstance(space.tree, Tree):
        setting = _of_public(space, budget, sure)
    else:
        setting = _of_open(space, budget, sure, shares, levels)
    if isinstance(space.tree, Tree) and (shares is not None or levels is not None):
        raise ValueError("shares and levels must be left out for a public tree, which is measured at every node")
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)
    measure = max_divergence() if setting.pure else approximate(max_divergence())
    return make_measurement(
        input_domain,
        input_metric,
        measure,
        lambda data: setting.mechanism.release(space.read(data), setting.statement()),
        setting.privacy_map,
    )


then_tree_means = to_then(make_tree_means)


@dataclass(frozen=True)
class _Setting:
    """All that is decided before data: what is run is what the map is computed from."""

    space: LeafValueSpace
    mechanism: OpenMeans | PublicMeans
    parameters: GapParameters | None
    """Those of the cells; None for a public tree."""
    layers: Fraction
    """What pairs and centred sums cost one row at most."""
    budget: Budget

    @property
    def pure(self) -> bool:
        return self.parameters is None

    def privacy_map(self, d_in: int | float) -> Any:
        """What cells and sums lose together."""
        rows = math.floor(read_distance(d_in))
        spent = self._spent(rows) if rows else (0.0, 0.0)
        return spent[0] if self.pure else spent

    def _spent(self, rows: int) -> tuple[float, float]:
        if self.parameters is None:
            return round_up(tree_means_epsilon(rows, found=Fraction(0), layers=self.layers)), 0.0
        scale, shape = Fraction(self.parameters.scale), self.parameters.shape
        used = gap_epsilon(scale, Fraction(self.parameters.token_scale), shape)
        epsilon = tree_means_epsilon(rows, found=Fraction(used.hi), layers=self.layers)
        lost = min(1.0, round_up(gap_delta(exp(-1 / scale), shape, k=rows)))
        promised = self.budget.delta if rows <= self.budget.d_in else 0.0
        return with_promised_delta((round_up(epsilon), lost), promised)

    def statement(self) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        epsilon, delta = self._spent(self.budget.d_in)
        parameters: dict[str, int | float | str | None] = {"depth": self.space.tree.depth, "steps": STEPS}
        if self.parameters is not None:
            assert isinstance(self.mechanism, OpenMeans)
            shape = self.parameters.shape
            parameters |= {
                "scale": self.parameters.scale,
                "token_scale": self.parameters.token_scale,
                "threshold": max(shape.thresholds),
                "margin": max(shape.margins),
                "levels": "all" if shape.depth == self.space.tree.depth else ", ".join(map(str, shape.levels)),
                "pairs_epsilon": round_up(self.mechanism.find.epsilon),
                "cells_epsilon": round_up(self.mechanism.cells),
            }
        return PrivacyStatement(
            mechanism="tree_means",
            measure="max_divergence()" if self.pure else "approximate(max_divergence())",
            d_in=self.budget.d_in,
            loss={"epsilon": epsilon} if self.pure else {"epsilon": epsilon, "delta": delta},
            parameters=parameters,
        )


def _of_public(space: LeafValueSpace, budget: Budget, confidence: float) -> _Setting:
    tree = space.tree
    assert isinstance(tree, Tree)
    if budget.delta:
        raise ValueError("delta must be 0 for a public tree: nothing needs to be found. Hint: leave it out")
    # A little less than is left, so that what is spent is within epsilon however it is rounded.
    each = Fraction(round_down(budget.exact[0] / budget.d_in * (1 - Fraction(1, 2**48))))
    weights = regular_level_weights(tree, noise="laplace")
    mechanism = PublicMeans.of(tree, each, weights, space.values, value_shares(space.values), confidence)
    _check_scales(scale for level in mechanism.scales for scale in level)
    return _Setting(space, mechanism, None, mechanism.spent(), budget)


def _of_open(
    space: LeafValueSpace,
    budget: Budget,
    confidence: float,
    shares: tuple[float, float, float] | None,
    levels: Sequence[int] | None,
) -> _Setting:
    tree = space.tree
    assert isinstance(tree, OpenTree)
    if budget.delta == 0:
        raise ValueError("delta (0) must be above 0 where nodes are unknown. Hint: delta=1e-6, or a public tree")
    wanted = check_levels(tree.depth, levels)
    (epsilon, _), d_in = budget.exact, budget.d_in
    divided = (
        choose_shares(len(wanted), float(epsilon), budget.delta, d_in) if shares is None else _check_shares(shares)
    )
    finding = round_down(epsilon * Fraction(divided.finding))
    chosen = choose_parameters(len(wanted), finding, budget.delta, d_in=d_in)
    parameters = replace(chosen, shape=replace(chosen.shape, levels=wanted))
    used = gap_epsilon(Fraction(parameters.scale), Fraction(parameters.token_scale), parameters.shape)
    left = (epsilon / d_in - Fraction(used.hi)) * (1 - Fraction(1, 2**48))
    part = Fraction(divided.cells) / (Fraction(divided.cells) + Fraction(divided.pairs))
    cells, pairs = (Fraction(round_down(left * each)) for each in (part, 1 - part))
    _check_scales([SHARES * STEPS / each / min(value_shares(space.values)) for each in (cells, pairs)])
    find = FindThenMeasure(parameters, pairs, None, confidence)
    mechanism = OpenMeans(find, cells, space.values, value_shares(space.values))
    return _Setting(space, mechanism, parameters, cells + pairs, budget)


def _check_scales(scales: Any) -> None:
    # A little below the largest, so that what is drawn can be, however its scale is rounded up later.
    if any(scale > LARGEST_SCALE * (1 - 2.0**-40) for scale in scales):
        raise ValueError(
            "epsilon must be larger for so many levels and values: noise of such a scale cannot be drawn. "
            "Hint: fewer values, or a larger epsilon"
        )


def _check_shares(shares: tuple[float, float, float]) -> MeansShares:
    if not isinstance(shares, (tuple, list)) or len(shares) != 3:
        raise TypeError("shares must be three numbers: for finding cells, for pairs, for sums in the cells")
    parts = [check_probability(share, name="shares") for share in shares]
    total = sum(parts, Fraction(0))
    return MeansShares(*(float(part / total) for part in parts))
