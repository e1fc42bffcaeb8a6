"""How the measuring epsilon is divided among layers, from cells and gaps alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Floats
from opendp_tree.measurements.partition.layers import (
    Layers,
    ShownTree,
    cut_by_cells,
    cut_by_level,
    ladder_of,
    make_layers,
)
from opendp_tree.measurements.partition.parameters import GapParameters

LevelWeights = tuple[float | None, ...] | None
"""One weight for each level above the deepest, from the root down; None for what is usual."""

NAMED = 9
"""Trees of at most so many levels are measured level by level; deeper ones by the number of cells below a node."""
ROOT = 1.5
"""Unless told, the root may err by as much as a sum of the level below it, over this."""
FALL = 0.92
"""Unless told, each further level down has so much of the weight of the one above it, as it gains more from others."""
WIDEST = 1.0
"""A level's noise has at most this times the number of levels the variance of what is known without it."""
LEAST_VARIANCE = 1e-6
"""A variance of a gap that is less, at a very large epsilon, is taken as this."""
RATIO = 14.0
"""Between the steps of a ladder."""
LIGHT = 0.7
"""The share of the root and of the two lowest steps, which serve intervals more than estimates, against the others."""


@dataclass(frozen=True)
class CellNoise:
    """What a gap says of a cell's people: the means and variances of a test's noise and of a token."""

    noise_mean: float
    noise_variance: float
    token_mean: float
    token_variance: float
    threshold: float
    spread: float = 0.0
    """What each of a cell's people adds to the variance of its gap, where people are put at one of their leaves."""

    @classmethod
    def of(cls, parameters: GapParameters) -> CellNoise:
        """For the noise without end, which truncation changes by less than delta."""
        q, t = math.exp(-1 / parameters.scale), math.exp(-1 / parameters.token_scale)
        threshold = sum(parameters.shape.thresholds) / parameters.shape.depth
        variances = (max(ratio / (1 - ratio) ** 2, LEAST_VARIANCE) for ratio in (q, t))
        return cls(q / (1 - q), next(variances), t / (1 - t), next(variances), threshold)

    def variance(self, is_leaf: npt.NDArray[np.bool_]) -> Floats:
        """Of a cell's debiased gap."""
        return self.noise_variance + np.where(is_leaf, 1.0, 3.0) * self.token_variance

    def shift(self, is_leaf: npt.NDArray[np.bool_]) -> Floats:
        """What to add to a gap: tokens that were taken off, less the noise that was added."""
        return np.where(is_leaf, 1.0, 2.0) * self.token_mean - self.noise_mean


def choose_layers(shown: ShownTree, model: CellNoise, epsilon: Fraction, *, weights: LevelWeights = None) -> Layers:
    """The layers of a release: by level for trees of few levels, else by the number of cells.

    Parameters
    ----------
    shown
        Cells, their gaps, and the nodes above them.
    model
        The noise of the gaps.
    epsilon
        What all layers together may cost one person.
    weights
        How much each measured level matters, from the root down: a level of twice the weight may err by half as much.
        None, the default, for nearly all alike, and for the root what a sum of the next level would err by. Only for
        trees of few levels.
    """
    if shown.depth <= NAMED:
        marked, cuts = cut_by_level(shown)
        shares = level_shares(shown, model, float(epsilon), weights)
        return make_layers(shown, marked, cuts, shares, epsilon)
    cells = shown.totals(shown.is_cell.astype(np.float64))
    ladder = ladder_of(cells[0], RATIO) if cells.size else []
    marked, cuts = cut_by_cells(shown, cells, ladder)
    shares = np.ones(len(cuts))
    shares[:1] = shares[-2:] = LIGHT
    return make_layers(shown, marked, cuts, shares, epsilon)


def default_measuring(depth: int) -> float:
    """The share of epsilon that measures, unless told: enough to keep every level near a release of that level alone.

    >>> [default_measuring(depth) for depth in (3, 4, 5, 33)]
    [0.4, 0.48, 0.52, 0.34]
    """
    if depth > NAMED:
        return 0.34 if depth <= 64 else 0.32
    return {4: 0.48, 5: 0.52, 6: 0.55, 7: 0.55, 8: 0.48, 9: 0.42}.get(depth, 0.4)


def level_shares(shown: ShownTree, model: CellNoise, epsilon: float, weights: LevelWeights) -> Floats:
    """The epsilon of each level above the deepest, so that the largest weighted error of a level is least.

    The mean variance of a level's nodes, as known from below, is that of its children's sum and of what no cell holds.
    Given a bound on the weighted variance of every level, each takes from the bottom up what it needs to keep it; the
    bound is lowered until epsilon is spent.
    """
    last = max(shown.depth - 2, 0)
    sizes = np.diff(shown.edges).astype(float).tolist()
    usual = (min(1.0, ROOT / math.sqrt(max(*sizes[:2], 1.0))), *(FALL**step for step in range(last)))
    weight = [one if told is None else told for one, told in zip(usual, weights or [None] * len(usual), strict=True)]
    unheld = np.where(shown.is_cell, model.variance(shown.levels == shown.depth - 1), (model.threshold / 4) ** 2)
    own = [float(unheld[shown.at(level)].mean()) if sizes[level] else 0.0 for level in range(shown.depth)]

    def needed(bound: float) -> Floats:
        shares, variance = np.zeros(last + 1), own[last + 1] if last + 1 < shown.depth else 0.0
        for level in reversed(range(last + 1)):
            if sizes[level] == 0:
                continue
            below = own[level] + variance * (sizes[level + 1] / sizes[level] if level + 1 < shown.depth else 0.0)
            aim, widest = bound / weight[level] ** 2, WIDEST * last * below if level else math.inf
            layer = min(aim * below / (below - aim) if below > aim * (1 + 1e-12) else math.inf, widest)
            shares[level] = math.sqrt(2 / layer)
            variance = 1 / (1 / below + 1 / layer)
        return shares

    low, high = 1e-6, 1e12
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle).sum() <= epsilon else (middle, high)
    shares = needed(high)
    # A level that needs nothing still gets a little, so that every one is measured whatever the cells.
    found: Floats = np.maximum(shares, 0.02 * max(shares.sum(), 1e-9))
    return found
