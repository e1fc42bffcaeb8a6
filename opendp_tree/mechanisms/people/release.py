"""From records of people to a release: find, weigh, add noise, and say how sure the figures are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.consistent import Consistency
from opendp_tree.mechanisms.partition.estimates import estimate_nodes
from opendp_tree.mechanisms.partition.intervals import hidden_bound, layer_bounds, leaf_reach
from opendp_tree.mechanisms.partition.layers import NAMED, CellNoise, Layer, Layers, Measured, ShownTree, measure
from opendp_tree.mechanisms.partition.release import FindThenMeasure, people_at
from opendp_tree.mechanisms.partition.walk import Cells, find_cells
from opendp_tree.mechanisms.people.design import PeopleDesign
from opendp_tree.mechanisms.people.weights import leaf_units, people_units
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance, single_bound
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.rows.people import PeoplePart, PeopleRecords
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.shown_nodes import ShownCells
from opendp_tree.trees.tree import Tree

SPREAD = 0.125
"""What each person of a cell adds to the variance of its gap, as a guess: being put there or elsewhere."""
_PLACED = 0.5
"""Of the chance to miss a leaf's shares, what is for where people were put; the rest is for the noise of its gap."""
_ROUNDING = 1e-9
"""By so much of themselves bounds that floats compute are moved outward."""
_DRAWS: dict[str, Callable[[float, int], Ints]] = {"laplace": noise.laplace, "gaussian": noise.gaussian}


@dataclass(frozen=True)
class PeopleRelease:
    """How records become a release; all of it is public."""

    design: PeopleDesign
    confidence: float
    statement: PrivacyStatement

    def make(self, records: PeopleRecords) -> TreeRelease:
        """The release of the records, which are read once; twice where people are counted at nodes that are found."""
        if isinstance(records.tree, Tree):
            return self._public(records, records.tree)
        assert self.design.cells is not None
        placed, *units = records.summed(PeoplePart.placed, *self._leaf_weights)
        counts = records.with_counts(placed)
        cells = find_cells(counts.occupied, self.design.cells)
        listed = ShownCells.of(counts, cells.places, cells.levels)
        if self.design.count == "shares":
            return self._shares(records, cells, listed, units[0])
        return self._layered(records, cells, listed, self._by_level(units))

    def _public(self, records: PeopleRecords, tree: Tree) -> TreeRelease:
        """Every node of a public tree: level by level, and least squares where levels add up."""
        scales, levels = self._scales, tree.levels
        if self.design.count == "people":
            owners = [partial(_owners, tree, level, nodes) for level, nodes in enumerate(levels)]
            sums = self._people_at(records, owners, levels)
        else:
            by_bound = [tree.sum(units) for units in records.summed(*self._leaf_weights)]
            sums = tuple(own[nodes] for own, nodes in zip(self._by_level(by_bound), levels, strict=True))
        noisy = np.zeros(tree.node_count)
        for level, nodes in enumerate(levels):
            noisy[nodes] = self._noisy(sums[level], scales[level])
        if self.design.adds_up:
            variances = np.array([self._variance(scale) for scale in scales])[tree.node_levels]
            return self._scaled(self._consistent(tree, variances).release(noisy, self.statement))
        estimates = noisy / self.design.units
        reach = np.array([self._reach(scale) for scale in scales])[tree.node_levels]
        return self._released(records, estimates, reach, tree=tree)

    def _layered(self, records: PeopleRecords, cells: Cells, listed: ShownCells, units: list[Ints]) -> TreeRelease:
        """What was found of an open tree, level by level; with rests and least squares where levels add up."""
        assert self.design.cells is not None
        nodes, levels = listed.nodes, self.design.cells.shape.levels
        wanted = np.isin(nodes.levels, levels)
        find = FindThenMeasure(self.design.cells, Fraction(0), None, self.confidence)
        shown = find.contract(nodes.levels, nodes.parents, np.zeros(nodes.size, dtype=np.int64), listed.is_cell)
        places = cells.places[listed.order][listed.firsts][wanted]
        sums = self._shown_sums(records, shown, places, units)
        if self.design.adds_up and sums.size:
            estimates, reach = self._joined(shown, sums)
        else:
            by_level = np.array([self._reach(scale) for scale in self._scales])
            estimates, reach = np.zeros(sums.size), by_level[shown.levels]
            for level, scale in enumerate(self._scales):
                at_level = shown.at(level)
                estimates[at_level] = self._noisy(sums[at_level], scale) / self.design.units
        full = np.zeros(nodes.size), np.full(nodes.size, np.inf)
        full[0][wanted], full[1][wanted] = estimates, reach
        return self._released(records, *full, listed=listed, wanted=wanted)

    def _shown_sums(self, records: PeopleRecords, shown: ShownTree, places: Ints, units: list[Ints]) -> Ints:
        """What is counted at each shown node, in units, without noise."""
        assert self.design.cells is not None
        levels, occupied = self.design.cells.shape.levels, records.sparse.occupied
        here = [np.flatnonzero(shown.levels == level) for level in range(len(levels))]
        sums = np.zeros(shown.levels.size, dtype=np.int64)
        if self.design.count == "people":
            pairs = zip(levels, here, strict=True)
            owners = [partial(_owners_among, occupied, level, places[nodes]) for level, nodes in pairs]
            for nodes, found in zip(here, self._people_at(records, owners, here), strict=True):
                sums[nodes] = found
            return sums
        for level, nodes in enumerate(here):
            of_leaves = replace(occupied, counts=units[level])
            halves = people_at(of_leaves, np.asarray(levels)[shown.levels], places, shown.levels == level)
            sums[nodes] = saturate.join(*halves)[nodes]
        return sums

    def _joined(self, shown: ShownTree, sums: Ints) -> tuple[Floats, Floats]:
        """Least squares over all layers: each has its level's nodes, and what is left over above them."""
        size, inner = shown.levels.size, np.flatnonzero(shown.child_counts > 0)
        parents = np.concatenate((shown.parents, inner))
        rest = sums.copy()
        np.subtract.at(rest, shown.parents[1:], sums[1:])
        values = np.concatenate((sums, rest[inner]))
        first = np.concatenate((shown.levels, shown.levels[inner] + 1))  # the first layer that counts it
        last = np.full(values.size, shown.depth)
        last[inner] = shown.levels[inner]
        total, precision = np.zeros(values.size), np.zeros(values.size)
        for level, scale in enumerate(self._scales):
            here = np.flatnonzero((first <= level) & (level <= last))
            weight = 1 / self._variance(scale)
            total[here] += weight * self._noisy(values[here], scale)
            precision[here] += weight
        solved = self._consistent(Tree.from_parents(parents), 1 / precision).release(total / precision, None)
        reach = (solved.upper - solved.lower) / 2
        return solved.estimates[:size] / self.design.units, reach[:size] / self.design.units

    def _shares(self, records: PeopleRecords, cells: Cells, listed: ShownCells, leaves: Ints) -> TreeRelease:
        """Shares add up with the gaps of cells: the layers, and the least squares, of the partition's estimator."""
        design, nodes = self.design, listed.nodes
        assert design.cells is not None
        find = FindThenMeasure(design.cells, design.measuring, None, self.confidence)
        gaps = np.where(listed.is_cell, cells.gaps[listed.order][listed.firsts], 0)
        wanted = np.isin(nodes.levels, find.levels)
        shown = find.contract(nodes.levels, nodes.parents, gaps, listed.is_cell)
        layers = find.layers(shown)
        places = cells.places[listed.order][listed.firsts][wanted]
        units = replace(records.sparse.occupied, counts=leaves)
        halves = people_at(units, nodes.levels[wanted], places, layers.marked)
        fine = _stretched(layers, design.units)
        measured = measure(fine, *halves)
        coarse = tuple(
            Measured(layer, part.whole / design.units, part.rest / design.units)
            for layer, part in zip(layers.layers, measured, strict=True)
        )
        is_leaf = shown.levels == shown.depth - 1
        local = np.full(shown.levels.size, True) if shown.depth <= NAMED else shown.child_counts > 1
        model = replace(CellNoise.of(find.contracted), spread=SPREAD)
        estimates = np.maximum(estimate_nodes(shown, coarse, local, is_leaf, model), 0)
        miss = 1 - self.confidence
        none = np.zeros(shown.levels.size)
        ends = layer_bounds(shown, fine, measured, least=none, over=miss * 0.495, under=miss * 0.495)
        lower, upper = ends[0] / design.units, ends[1] / design.units
        by_gap = is_leaf & (shown.levels > 0)
        lower[by_gap], upper[by_gap] = self._leaf_ends(shown.gaps[by_gap], miss)
        full = [np.zeros(nodes.size), np.zeros(nodes.size), np.full(nodes.size, np.inf)]
        for array, found in zip(full, (estimates, lower, upper), strict=True):
            array[wanted] = found
        hidden = hidden_bound(design.cells, miss * (1 - _PLACED), depth=records.sparse.tree.depth)
        return TreeRelease(
            records.sparse.tree,
            full[0],
            np.minimum(np.maximum(full[1], 0), full[0]),
            np.maximum(full[2], full[0]),
            self.confidence,
            self.statement,
            cells=listed.lasts - listed.firsts,
            nodes=nodes,
            shown=None if wanted.all() else wanted,
            hidden=float(most_shares(np.array([hidden]), miss * _PLACED)[0]) if math.isfinite(hidden) else None,
        )

    def _leaf_ends(self, gaps: Ints, miss: float) -> tuple[Floats, Floats]:
        """What a leaf's shares are at least and at most: by its gap, and by where people may have been put."""
        assert self.design.cells is not None
        below, beyond = leaf_reach(self.design.cells, miss * (1 - _PLACED))
        each = miss * _PLACED / 2
        return least_shares(np.maximum(gaps - below, 0), each), most_shares(gaps + beyond, each)

    @property
    def _scales(self) -> tuple[float, ...]:
        assert self.design.scales is not None
        return self.design.scales

    @property
    def _bounds(self) -> list[int | None]:
        """By level what all rows of one person weigh at most: None for shares. No levels where people are counted."""
        design = self.design
        return [] if design.count == "people" else [None if design.count == "shares" else most for most in design.most]

    @property
    def _leaf_weights(self) -> list[Callable[[PeoplePart], Ints]]:
        """What rows weigh at leaves: one function for each different bound."""
        return [partial(leaf_units, most=most, units=self.design.units) for most in dict.fromkeys(self._bounds)]

    def _by_level(self, sums: Sequence[Ints]) -> list[Ints]:
        """For each level the sums by its bound."""
        by_bound = dict(zip(dict.fromkeys(self._bounds), sums, strict=True))
        return [by_bound[most] for most in self._bounds]

    def _people_at(
        self, records: PeopleRecords, owners: Sequence[Callable[[], Ints]], nodes: Sequence[Ints]
    ) -> tuple[Ints, ...]:
        """For each level what people weigh at its nodes, each of which owns some of the leaves."""

        def weigh(level: int, part: PeoplePart) -> Ints:
            squared, most = self.design.noise == "gaussian", self.design.most[level]
            size, units = nodes[level].size, self.design.units
            return people_units(part, owners[level](), size, most, squared=squared, units=units)

        return records.summed(*(partial(weigh, level) for level in range(len(owners))))

    def _noisy(self, sums: Ints, scale: float) -> Floats:
        drawn = _DRAWS[self.design.noise](scale, sums.size)
        return saturate.add(sums, drawn).astype(np.float64)

    def _variance(self, scale: float) -> float:
        return laplace_variance(scale) if self.design.noise == "laplace" else gaussian_variance(scale)

    def _reach(self, scale: float) -> float:
        return (single_bound(self.design.noise, scale, self.confidence) + 1) / self.design.units

    def _consistent(self, tree: Tree, variances: Floats) -> Consistency:
        return Consistency.of(
            tree,
            variances,
            noise=self.design.noise,
            confidence=self.confidence,
            nonnegative=False,
            integers=False,
        )

    def _scaled(self, release: TreeRelease) -> TreeRelease:
        """A release in units as one in what is counted."""
        parts = {name: getattr(release, name) / self.design.units for name in ("estimates", "lower", "upper")}
        return replace(release, **parts, fit=None)

    def _released(
        self,
        records: PeopleRecords,
        estimates: Floats,
        reach: Floats,
        *,
        tree: Tree | None = None,
        listed: ShownCells | None = None,
        wanted: Bools | None = None,
    ) -> TreeRelease:
        """Estimates that are not negative, since nobody weighs less than nothing, and intervals around the noise."""
        lower, upper = np.maximum(estimates - reach, 0), np.maximum(estimates + reach, 0)
        some = wanted is not None and not wanted.all()
        return TreeRelease(
            records.tree if tree is None else tree,
            np.maximum(estimates, 0),
            lower,
            upper,
            self.confidence,
            self.statement,
            cells=None if listed is None else listed.lasts - listed.firsts,
            nodes=None if listed is None else listed.nodes,
            shown=wanted if some else None,
            adds_up=self.design.adds_up,
        )


def _stretched(layers: Layers, units: int) -> Layers:
    """The same layers for counts in units; a power of two changes no digit of a scale."""
    wide = tuple(Layer(layer.nodes, layer.rests, layer.scale * units) for layer in layers.layers)
    return replace(layers, layers=wide)


def _owners(tree: Tree, level: int, nodes: Ints) -> Ints:
    """For each leaf of a public tree which of a level's nodes holds it; -1 for a leaf above that level."""
    deep = tree.node_levels[tree.leaves] >= level
    above = tree.ancestors_at(tree.leaves, np.full(tree.leaves.size, level))
    place = np.full(tree.node_count, -1)
    place[nodes] = np.arange(nodes.size)
    return np.where(deep, place[above], -1)


def _owners_among(occupied: Occupied, level: int, places: Ints) -> Ints:
    """For each key which of some nodes of a level, each known by one of its keys, holds it; -1 for none."""
    starts, ends = occupied.nodes_at(level)
    which = np.searchsorted(starts, places, side="right") - 1
    number = np.full(starts.size, -1)
    number[which] = np.arange(places.size)
    owner = np.full(occupied.counts.size, -1)
    inside = np.repeat(np.arange(starts.size), ends - starts)
    firsts = np.repeat(starts - np.append(0, np.cumsum(ends - starts)[:-1]), ends - starts)
    owner[firsts + np.arange(inside.size)] = number[inside]
    return owner


def most_shares(placed: Floats | Ints, chance: float) -> Floats:
    """The most that the shares of people may be, of whom so many or fewer were put there, but for this chance."""
    n = np.asarray(placed, dtype=np.float64)
    low: Floats = n.copy()
    high: Floats = n + 2 * math.log(1 / chance) + 2 * np.sqrt(n * math.log(1 / chance)) + 1
    for _ in range(60):
        middle = (low + high) / 2
        rest = np.where(n > 0, n * np.log(np.maximum(middle, 1e-300) / np.maximum(n, 1e-300)), 0.0)
        likely = n - middle + rest > math.log(chance)
        low, high = np.where(likely, middle, low), np.where(likely, high, middle)
    outward: Floats = high * (1 + _ROUNDING)
    return outward


def least_shares(placed: Floats | Ints, chance: float) -> Floats:
    """The least that the shares of people may be, of whom so many or more were put there, but for this chance."""
    n = np.asarray(placed, dtype=np.float64)
    low: Floats = np.zeros(n.size)
    high: Floats = n.copy()
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(n > 0, n * np.log(middle / n), 0.0)
        likely = n - middle + rest > math.log(chance)
        low, high = np.where(likely, low, middle), np.where(likely, middle, high)
    outward: Floats = low * (1 - _ROUNDING)
    return outward
