"""Curves of how many lie below each value of a line, from the counts of its bins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from opendp.measures import max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_integer, check_positive, check_probability, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Array, Ints
from opendp_tree.budget import PrivacyStatement
from opendp_tree.mechanisms.find import find_in_fringe, pure_fringe
from opendp_tree.releases.curve import ROUNDING, Found, MeasuredCurve, line_edges
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import Interval, round_down, round_up
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta
from opendp_tree.theorems.sums import found_epsilon
from opendp_tree.trees.domains import CountSpace
from opendp_tree.trees.least_squares import SegmentTree, tail_reach
from opendp_tree.trees.tree import Tree

BRANCHING = 16
SCALES = 2.0**-20, 2.0**40
"""Outside of this range, noise is none or does not fit into int64."""
_ROOT_WEIGHT = Fraction(1, 2)
_FALSE_CELLS = 10.0
_MOST_BINS = 2**22


def make_segment_curve(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    finding: float = 0.2,
    branching: int = BRANCHING,
    confidence: float = 0.95,
) -> Measurement:
    """How many lie below each value of a line of many bins: a `TreeRelease` with `quantiles`, `cdf` and `between`.

    A private partition finds where people are, in a binary tree over the bins, all of whose nodes are public. The line
    is cut at both ends of each cell. A fresh balanced tree over these segments is measured with integer Laplace noise,
    and least squares gives the count below each cut. Segments of many bins hold few people, so little is lost.

    `max_divergence()`: at distance k, epsilon is k/scale, or less by rounding. Proof: docs/proofs/quantiles.md.

    :param input_domain: `leaf_domain(tree)` of a tree whose leaves in order are the bins; or a vector of integers, with
        the tree.
    :param input_metric: `l1_distance`, of an integer type or f64.
    :param scale: One over epsilon at distance 1, from 2**-20 to 2**40.
    :param tree: The tree, where `input_domain` does not carry it.
    :param finding: The share of epsilon that finds the segments; 0.2 did best over 2**10 to 2**20 bins.
    :param branching: The most children of a node of the tree over the segments: fewer levels leave more for each.
    :param confidence: The probability with which each interval holds.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> bins = Tree.balanced(branching=2, depth=13)
    >>> curve = (leaf_domain(bins), dp.l1_distance(T="i64")) >> then_segment_curve(1.0)
    >>> 1 - 1e-9 < curve.map(1) <= 1.0
    True
    >>> release = curve(np.repeat([0, 30, 0], [1024, 1024, 2048]))
    >>> bool(abs(release.quantiles([0.5])["estimate"][0] - 1536) < 10)
    True
    """
    if check_probability(finding, name="finding") < Fraction(1, 1000):
        raise ValueError(f"finding ({finding}) must be at least 0.001. Hint: 0.2, or make_bin_curve")
    return _make(input_domain, input_metric, tree, scale, finding=finding, branching=branching, confidence=confidence)


def make_bin_curve(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    branching: int = BRANCHING,
    confidence: float = 0.95,
) -> Measurement:
    """How many lie below each value of a line of few bins: a `TreeRelease` with `quantiles`, `cdf` and `between`.

    A balanced tree over the bins is measured with integer Laplace noise, and least squares gives the count below each
    edge. From about a thousand bins on, `make_segment_curve` errs less. Its map is the same, and tight.
    Proof: docs/proofs/quantiles.md.

    Other parameters: as for `make_segment_curve`.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> curve = (leaf_domain(Tree.balanced(branching=16, depth=3)), dp.l1_distance(T="i64")) >> then_bin_curve(1.0)
    >>> curve.map(1), curve.map(2)
    (1.0, 2.0)
    >>> release = curve(np.repeat([0, 90], 128))
    >>> abs(release.between(128, 192)["estimate"][0] - 5760) < 200
    True
    """
    return _make(input_domain, input_metric, tree, scale, finding=0, branching=branching, confidence=confidence)


then_segment_curve = to_then(make_segment_curve)
then_bin_curve = to_then(make_bin_curve)


def _make(input_domain: Domain, input_metric: Metric, tree: Tree | None, scale: float, **options: Any) -> Measurement:
    """The measurement of a `MeasuredLine`, which checks its options."""
    space, public = CountSpace.of_leaves(input_domain, input_metric, tree)
    if public._depth_first is not None:
        raise ValueError("tree must have its leaves numbered depth-first. Hint: sort the paths, or the node ids")
    if public.leaf_count > _MOST_BINS:
        raise ValueError(f"tree must have at most 2**22 leaves, found {public.leaf_count}. Hint: fewer, wider bins")
    edges = line_edges(public)
    line = MeasuredLine.of(edges.size - 1, scale, **options)

    def release(data: Any) -> TreeRelease:
        return line.release(public, edges, space.read_people(data))

    return make_measurement(input_domain, input_metric, max_divergence(), release, line.epsilon)


@dataclass(frozen=True)
class MeasuredLine:
    """How the counts of bins become a curve; all of it is public."""

    bins: int
    scale: float
    """That of the tree over the segments: one over what it costs."""
    fringe: Fringe | None
    """How segments are found; None where bins are segments."""
    branching: int
    confidence: float
    asked: float

    @classmethod
    def of(cls, bins: int, scale: float, *, finding: float, branching: int, confidence: float) -> MeasuredLine:
        """Checks all arguments; a share of one over the scale goes to finding."""
        exact = check_positive(scale, name="scale")
        if not SCALES[0] <= exact <= SCALES[1]:
            raise ValueError(f"scale ({scale}) must be from 2**-20 to 2**40. Hint: 1/epsilon")
        if check_integer(branching, name="branching", least=2) > 2**16:
            raise ValueError(f"branching ({branching}) must be at most 2**16. Hint: 16")
        if check_probability(confidence, name="confidence") > 1 - Fraction(1, 2**50):
            raise ValueError(f"confidence ({confidence}) must be at most 1 - 2**-50. Hint: 0.95")
        levels = 1 + (bins - 1).bit_length()
        fringe, left = None, 1 / exact
        if finding > 0:
            spent = round_down(Fraction(finding) / exact)
            fringe = pure_fringe(levels, Fraction(spent), nodes=2**levels - 1, false_cells=_FALSE_CELLS)
            left -= Fraction(spent)
        made = cls(bins, round_up(1 / left), fringe, branching, float(confidence), float(scale))
        if max(max(scales) for scales in made._level_scales()) > noise.LARGEST_SCALE:
            raise ValueError(f"scale ({scale}) must be smaller: what finding leaves needs more noise than can be drawn")
        return made

    def segment_tree(self, segments: int) -> SegmentTree:
        """The tree over this many segments."""
        return SegmentTree.of(segments, scale=self.scale, branching=self.branching, root_weight=_ROOT_WEIGHT)

    def _level_scales(self) -> Iterator[tuple[float, ...]]:
        """The scales of the levels, for each number of levels that segments can lead to."""
        fewest = 1 if self.fringe is not None else self.bins
        while fewest <= self.bins:
            scales = self.segment_tree(fewest).scales
            yield scales
            fewest = self.branching ** (len(scales) - 1) + 1

    def epsilon(self, d_in: int | float) -> float:
        """The privacy map, rounded up."""
        finding = Interval.of(0) if self.fringe is None else find_epsilon_delta([self.fringe], k=1)[0]
        # The tree over the segments has one of these costs; a count outside of the line is not in that tree.
        costs = [1 / Fraction(self.scale)]
        costs += [laplace_epsilon(1, scales=list(map(Fraction, scales))) for scales in self._level_scales()]
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        return round_up(found_epsilon(people, finding=finding, measuring=map(Interval.of, costs)))

    @property
    def statement(self) -> PrivacyStatement:
        """What a curve costs at distance 1."""
        parameters: dict[str, int | float | str | None] = {"scale": self.asked, "branching": self.branching}
        name = "bin_curve"
        if self.fringe is not None:
            name, parameters["finding"] = "segment_curve", round_up(1 / self.fringe.test_scale)
            parameters["threshold"] = self.fringe.thresholds[0]
        return PrivacyStatement(name, measure_name(max_divergence()), 1, {"epsilon": self.epsilon(1)}, parameters)

    def release(self, tree: Tree, edges: Array, counts: Ints) -> TreeRelease:
        """One run of the mechanism on the leaf counts of a tree: the bins', and perhaps one of what is outside."""
        curve = self.curve(edges, counts[: self.bins])
        first, last = (np.minimum(places, self.bins) for places in tree.leaf_ranges)
        found = curve.counts(first, last)
        if counts.size > self.bins:
            noisy = saturate.add(counts[self.bins :], noise.laplace(self.scale, counts.size - self.bins))
            self._count_outside(found, tree, curve, float(noisy[0]))
        return TreeRelease(tree, *found, confidence=self.confidence, statement=self.statement, curve=curve)

    def _count_outside(self, found: Found, tree: Tree, curve: MeasuredCurve, outside: float) -> None:
        """Write the count of the leaf outside of the line, and add it to the root's."""
        own, total = 2 * self.scale**2, float(curve.tree.variances(np.array(0), np.array(curve.cuts.size - 1)))
        for node, inside, known, variance, step in (
            (int(tree.leaves[-1]), 0.0, 0.0, own, self.scale),
            (tree.root, curve.unbiased_total, curve.totals[-1], own + total, max(self.scale, curve.tree.largest_step)),
        ):
            tail = tail_reach(np.array(variance), largest_step=step, chance=(1 - self.confidence) / 2)
            reach = float(tail) + ROUNDING * (abs(outside) + abs(inside))
            found.lower[node], found.upper[node] = (max(0.0, inside + outside + part) for part in (-reach, reach))
            found.estimate[node] = min(max(known + max(outside, 0.0), found.lower[node]), found.upper[node])

    def curve(self, edges: Array, counts: Ints) -> MeasuredCurve:
        """One run of the mechanism on the counts of bins, none below 0."""
        cuts = np.arange(self.bins + 1) if self.fringe is None else self._find_cuts(counts, self.fringe)
        tree = self.segment_tree(cuts.size - 1)
        parts = []
        for starts, scale in zip(tree.starts, tree.scales, strict=True):
            ends = cuts[starts]
            true = saturate.range_sums(counts, ends[:-1], ends[1:])
            parts.append(saturate.add(true, noise.laplace(scale, true.size)))
        return MeasuredCurve(edges, cuts, tree, np.concatenate(parts), self.confidence)

    def _find_cuts(self, counts: Ints, fringe: Fringe) -> Ints:
        """Both ends of every cell of a binary tree over the bins; empty bins fill up to a power of 2."""
        depth = len(fringe.levels)
        tree = _binary_tree(depth)
        filled = np.zeros(tree.leaf_count, dtype=np.int64)
        filled[: self.bins] = counts
        places, levels, _ = find_in_fringe(tree.occupied(filled, every=True), tuple(range(depth)), fringe)
        bits = depth - 1 - levels
        first = places >> bits << bits
        return np.unique(np.concatenate(([0, self.bins], first, first + (1 << bits))).clip(max=self.bins))


@lru_cache(maxsize=4)
def _binary_tree(depth: int) -> Tree:
    return Tree.balanced(branching=2, depth=depth)
