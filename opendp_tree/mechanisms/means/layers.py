"""Noisy sums of steps: pairs for the sets of a layer, centred sums for what each shown node holds alone.

A row of step y adds y to P and M - y to Q of its set, M together. P + Q is M times the set's rows, P - Q its centred
sum, twice. A centred sum alone moves by at most M, too. Everything is an integer until noise is in it.
Proof: docs/proofs/tree_means.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Floats, Ints
from opendp_tree.mechanisms.partition.layers import Layer, Layers, Measured, ShownTree
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.tree_means import STEPS, sums_epsilon


@dataclass(frozen=True)
class NodeSums:
    """For each shown node its rows and the sums of their steps, exactly."""

    rows: Ints
    steps: Ints

    def take(self, places: Ints) -> NodeSums:
        """Those of some nodes."""
        return NodeSums(self.rows[places], self.steps[places])

    def without(self, nodes: Ints, above: Ints) -> NodeSums:
        """What is left at each node `above` once the nodes directly below it are taken out."""
        rows, steps = self.rows.copy(), self.steps.copy()
        np.subtract.at(rows, above, self.rows[nodes])
        np.subtract.at(steps, above, self.steps[nodes])
        return NodeSums(rows, steps)


@dataclass(frozen=True)
class Pairs:
    """The noisy pairs of one layer and one value: those of its nodes, then those of its rests."""

    layer: Layer
    scale: float
    """Of the noise of P and of Q, in steps."""
    high: Ints
    """The noisy sums of steps."""
    low: Ints
    """The noisy sums of what steps leave of 2**20."""

    def measured(self, values: Ints | Floats) -> Measured:
        """Numbers of this layer's sets as what was measured of its nodes and rests."""
        size = self.layer.nodes.size
        return Measured(replace(self.layer, scale=self.scale), values[:size], values[size:])


@dataclass(frozen=True)
class Centred:
    """For one value the noisy centred sums of what each shown node holds outside the shown nodes below it."""

    scale: float
    sums: Ints


@dataclass(frozen=True)
class SumScales:
    """The scales of all that is measured: for each layer and each value that of a pair, and of centred sums."""

    pairs: tuple[tuple[float, ...], ...]
    centred: tuple[float, ...]

    @classmethod
    def of(cls, layers: Layers, shares: tuple[Fraction, ...], cells: Fraction) -> SumScales:
        """Scales at which a layer costs no more than 1 over its own scale, and centred sums no more than `cells`."""
        pairs = tuple(
            tuple(round_up(STEPS * Fraction(layer.scale) / share) for share in shares) for layer in layers.layers
        )
        return cls(pairs, tuple(round_up(STEPS / (cells * share)) for share in shares))

    def spent(self) -> Fraction:
        """What all of it costs one row, exactly."""
        pairs = [Fraction(scale) for layer in self.pairs for scale in layer]
        return sums_epsilon(1, pairs=pairs, centred=[Fraction(scale) for scale in self.centred])


def measure_pairs(layers: Layers, scales: SumScales, sums: tuple[NodeSums, ...]) -> list[list[Pairs]]:
    """The pairs of each value, layer by layer."""
    below = np.flatnonzero(layers.marked & (layers.above >= 0))
    found: list[list[Pairs]] = []
    for place, whole in enumerate(sums):
        rest = whole.without(below, layers.above[below])
        found.append([])
        for layer, scale in zip(layers.layers, scales.pairs, strict=True):
            found[-1].append(noisy_pairs(layer, scale[place], whole.take(layer.nodes), rest.take(layer.rests)))
    return found


def noisy_pairs(layer: Layer, scale: float, *parts: NodeSums) -> Pairs:
    """The pairs of the sets of a layer."""
    steps = np.concatenate([part.steps for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    exact = np.concatenate((steps, STEPS * rows - steps))
    noisy = saturate.add(exact, noise.laplace(scale, exact.size))
    return Pairs(layer, scale, noisy[: steps.size], noisy[steps.size :])


def measure_centred(shown: ShownTree, scales: SumScales, sums: tuple[NodeSums, ...]) -> list[Centred]:
    """The centred sums of each value, of each row at the deepest shown node at or above it and nowhere else."""
    below = np.flatnonzero(shown.parents >= 0)
    found = []
    for scale, whole in zip(scales.centred, sums, strict=True):
        alone = whole.without(below, shown.parents[below])
        exact = 2 * alone.steps - STEPS * alone.rows
        found.append(Centred(scale, saturate.add(exact, noise.laplace(scale, exact.size))))
    return found


def counts_of_pairs(pairs: list[list[Pairs]]) -> tuple[Measured, ...]:
    """The counts that pairs tell of, layer by layer: those of all values, weighted by what was spent on them."""
    found = []
    for layer in zip(*pairs, strict=True):
        weights = np.array([1 / part.scale**2 for part in layer])
        weights /= weights.sum()
        counts = sum(
            weight * (part.high.astype(np.float64) + part.low) / STEPS
            for weight, part in zip(weights, layer, strict=True)
        )
        each = [float(weight) * part.scale / STEPS for weight, part in zip(weights, layer, strict=True)]
        parts = tuple(scale for scale in each for _ in range(2))
        wide = math.sqrt(sum(scale**2 for scale in parts))
        # Each of the two integer numbers of a value is within 1 of a continuous one.
        told = replace(layer[0].layer, scale=wide, parts=parts, grain=2 / STEPS)
        found.append(replace(layer[0].measured(counts), layer=told))
    return tuple(found)
