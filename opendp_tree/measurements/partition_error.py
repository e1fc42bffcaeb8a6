"""The tree partition's error, predicted for many settings at once.

A node errs by its residual if that stays unmarked, and by the noise of the cells at or below it. The settings' numbers
are arrays that broadcast together; callers put the situations on further axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree.measurements.excess import Floats, laplace_capped, laplace_excess, normal_capped, normal_excess

MOST_CELLS = 2**14
"""So many cells below one node are looked at. More would err more only if alpha is near 0, and forgives no noise."""

_TOKENS: Floats = -np.log1p(-(np.arange(24, dtype=np.float64) + 0.5) / 24)
"""Quantiles of a token, in scales."""
_WEIGHTS: Floats = np.linspace(0.0, 1.0, 16, dtype=np.float64)
_RESIDUALS: Floats = np.linspace(-6.0, 3.0, 28, dtype=np.float64)
"""Where the largest error can be, in scales from the threshold: below, nothing is marked, and above, nearly all."""


@dataclass(frozen=True)
class Settings:
    """Parameters of partitions of one depth, and of the counts of their cells; all are whole but scales and fill."""

    depth: int
    scale: Floats
    threshold: Floats
    radius: Floats
    margin: Floats
    count_scale: Floats
    fill: Floats

    def columns(self, axes: int) -> Settings:
        """The same with `axes` further axes."""
        arrays = (self.scale, self.threshold, self.radius, self.margin, self.count_scale, self.fill)
        return Settings(self.depth, *(array.reshape(array.shape + (1,) * axes) for array in arrays))

    def row(self, place: int) -> tuple[float, ...]:
        """Scale, threshold, radius, margin, count scale and fill of one setting."""
        arrays = (self.scale, self.threshold, self.radius, self.margin, self.count_scale, self.fill)
        return tuple(float(array[place]) for array in arrays)


def unmarked(at: Settings, residuals: Floats) -> Floats:
    """The chance that one test with a token of its own answers "bottom"."""
    needed = at.threshold - residuals
    quiet, quieter = -np.expm1(-1 / at.scale), -np.expm1(-2 / at.scale)  # 1 - q and 1 - q**2

    def power(exponent: Floats) -> Floats:
        found: Floats = np.exp(-exponent / at.scale)
        return found

    # The chance that noise z and a token of at most z - needed come together, summed over z in closed form.
    whole = -np.expm1(-(at.radius + 1) / at.scale) / quiet
    short = np.clip(needed, 1, at.radius + 1)
    some = (power(short) - power(at.radius + 1)) / quiet - (
        power(1 + short) - power(2 * at.radius + 3 - short)
    ) / quieter
    most = whole - power(1 - np.minimum(needed, 0)) * -np.expm1(-2 * (at.radius + 1) / at.scale) / quieter
    marked: Floats = np.where(needed > at.radius, 0.0, np.where(needed >= 1, some, most) / whole)
    return 1 - marked.clip(0, 1)


def chains(settings: Settings) -> tuple[Floats, Floats]:
    """Weights of leaves at the end of the longest chains, and the chance that such a chain has a cell."""
    at = settings.columns(2)
    lightest = at.threshold - at.margin
    heaviest = at.threshold + np.ceil(3 * at.scale)
    weights = np.rint(lightest + (heaviest - lightest) * _WEIGHTS[:, None])
    needed = at.threshold - weights + np.floor(at.scale * _TOKENS)
    missed = np.exp(-(at.radius + 1) / at.scale)
    top = ((np.exp(-np.maximum(needed, 0) / at.scale) - missed) / (1 - missed)).clip(0, 1)
    marked: Floats = 1 - ((1 - top) ** max(settings.depth - 1, 1)).mean(axis=-1)
    return weights[..., 0], marked


def mean_square(at: Settings, cells: npt.NDArray[np.int64], weight: Floats, residual: Floats, alpha: float) -> Floats:
    """The mean squared alpha-error of nodes with so many cells of this weight below them, and a residual."""
    chance = unmarked(at, residual)
    slack = alpha * (cells * weight + residual)
    # A cell holds at least threshold - radius people for sure, and no estimate is below that.
    least = at.threshold - at.radius
    room = cells * (weight - least)
    kept = _noise_excess(at, cells, residual - at.fill, slack, room)
    marked = _noise_excess(at, cells + 1, np.zeros_like(residual), slack, room + residual - least)
    return chance * kept + (1 - chance) * marked


def _noise_excess(at: Settings, cells: npt.NDArray[np.int64], shift: Floats, slack: Floats, room: Floats) -> Floats:
    """E[max(|Z - shift| - slack, 0)**2] for the noise Z of some cells, which is at least -room."""
    upper, lower = slack + shift, slack - shift
    if cells.size == 1 and cells.item() == 0:
        none: Floats = np.maximum(-upper, 0) ** 2 + np.maximum(-lower, 0) ** 2
        return none
    if cells.size == 1 and cells.item() == 1:
        return laplace_excess(upper, at.count_scale) + laplace_capped(
            lower, np.floor(room).clip(0, None), at.count_scale
        )
    decay = np.exp(-1 / at.count_scale)
    deviation = np.maximum(np.sqrt(2 * cells * decay) / -np.expm1(-1 / at.count_scale), 1e-6)
    return normal_excess(upper, deviation, 3 / cells) + normal_capped(lower, room, deviation, 3 / cells)


def worst_mean_square(settings: Settings, *, alpha: float, most_cells: int = MOST_CELLS) -> Floats:
    """The largest mean squared alpha-error of any node: without a cell, with one, or with many."""
    at = settings.columns(1)
    none, one = np.array([0]), np.array([1])
    residuals = np.rint(at.threshold + at.scale * _RESIDUALS).clip(0, None)
    residuals[:, 0] = 0
    found = [mean_square(at, none, np.zeros_like(at.scale), residuals, alpha)]
    if settings.depth > 1 and most_cells > 0:
        weights, marked = chains(settings)
        found.append(chain_square(at, weights, marked, alpha))
        # The lighter leaves are, the more of them may be below a node of one weight, but the fewer become cells.
        lightest = (weights / marked.clip(1e-9, 1)).min(axis=1, keepdims=True)
        found.append(mean_square(at, one, cell_weight(at, one, lightest, residuals), residuals, alpha))
        # What alpha forgives passes three deviations of the noise, and then ever more.
        deviations = 3 * float((at.count_scale / np.maximum(alpha * lightest, 1e-9)).max())
        enough = min(most_cells, max(4, 2 * min(deviations, 1e6) ** 2))
        some = 2 ** np.arange(1, 1 + int(math.log2(enough)))[:, None]
        if some.size:
            at, left = settings.columns(2), residuals[:, None, ::3]
            many = mean_square(at, some, cell_weight(at, some, lightest[:, None], left), left, alpha)
            found.append(many.max(axis=1))
    worst: Floats = np.max([part.max(axis=1) for part in found], axis=0)
    return worst


def chain_square(at: Settings, weights: Floats, marked: Floats, alpha: float) -> Floats:
    """The mean squared alpha-error of the node above a chain that has a cell with chance `marked`, or nothing."""
    slack = alpha * weights
    kept = _noise_excess(at, np.array([1]), -at.fill, slack, weights - (at.threshold - at.radius))
    lost = _noise_excess(at, np.array([0]), weights - at.fill, slack, slack)
    return marked * kept + (1 - marked) * lost


def cell_weight(at: Settings, cells: npt.NDArray[np.int64], lightest: Floats, residuals: Floats) -> Floats:
    """Two leaves that are no cells would be joined, and a residual with them: then few of `cells` may be missed."""
    sure = at.threshold + at.scale * np.log(np.maximum(3 * cells / at.depth, 1))
    return np.where(residuals > 0, np.maximum(sure, lightest), lightest)


def largest_errors(at: Settings, *, alpha: float, nodes: int) -> Floats:
    """The largest alpha-error to be expected over this many nodes: what a node exceeds with chance 1/nodes."""
    rare = math.log(nodes)
    suppressed = (1 - alpha) * (at.threshold + at.scale * rare) - at.fill
    noise = at.count_scale * rare - alpha * (at.threshold - at.margin)
    both = noise / 2 + (1 - alpha) * (at.threshold + at.scale * rare / 2) - at.fill
    found: Floats = np.maximum(np.maximum(suppressed, noise + at.fill), np.maximum(both, at.fill))
    return found
