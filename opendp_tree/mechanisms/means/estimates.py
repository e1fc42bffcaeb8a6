"""Centred sums of all shown nodes: least squares over pairs and what each node holds alone, up and down once."""

from __future__ import annotations

import numpy as np

from opendp_tree._types import Bools, Floats
from opendp_tree.mechanisms.means.layers import Centred, Pairs
from opendp_tree.mechanisms.partition.layers import ShownTree
from opendp_tree.theorems.tree_means import STEPS


def estimate_centred(shown: ShownTree, pairs: list[Pairs], centred: Centred, local_rest: Bools) -> Floats:
    """For each shown node the estimate of its rows' centred sum, in half ranges: a row adds from -1 to 1."""
    size = shown.levels.size
    known, precision = np.zeros(size), np.zeros(size)
    trust = 1 / (2 * (centred.scale / STEPS) ** 2)
    rest, rest_precision = centred.sums / STEPS * trust, np.full(size, trust)
    for part in pairs:
        told = part.measured((part.high - part.low) / STEPS)
        trust = 1 / (4 * (part.scale / STEPS) ** 2)
        known[told.layer.nodes] += trust * told.whole
        precision[told.layer.nodes] += trust
        local = local_rest[told.layer.rests]
        rest[told.layer.rests[local]] += trust * told.rest[local]
        rest_precision[told.layer.rests[local]] += trust
    return _two_passes(shown, known, precision, rest / rest_precision, 1 / rest_precision)


def _two_passes(shown: ShownTree, known: Floats, precision: Floats, rest: Floats, variance: Floats) -> Floats:
    """Up: what lies at and below a node says of it, `before` and `after` its own measurements. Down: what is above."""
    before, spread = rest.copy(), variance.copy()
    after, left = rest.copy(), variance.copy()
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        before[here] += shown.sum_children(after, level)
        spread[here] += shown.sum_children(left, level)
        left[here] = 1 / (1 / spread[here] + precision[here])
        after[here] = (before[here] / spread[here] + known[here]) * left[here]
    for level in range(shown.depth - 1):
        here = shown.at(level + 1)
        above = shown.parents[here]
        after[here] += left[here] / spread[above] * (after[above] - before[above])
    return after
