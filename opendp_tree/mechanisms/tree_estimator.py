"""The one estimator for open, partly known and public trees: find, count known nodes, measure, least squares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, ExtrinsicDomain, Measurement, Metric, assert_features

from opendp_tree import saturate
from opendp_tree._arguments import check_integer, check_positive, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.find import (
    NAMED,
    Cells,
    PartitionParameters,
    choose_parameters,
    closed_parameters,
    deepest_known,
    find_cells,
    mean,
    variance,
)
from opendp_tree.mechanisms.layers import (
    LEAST_VARIANCE,
    Layers,
    NoisySums,
    ShownTree,
    choose_layers,
    cut_by_level,
    final_variances,
    make_layers,
    measure,
)
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tails import Bounds, hidden_bound, node_bounds
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.interval import round_down, round_up
from opendp_tree.theorems.partition import Fringe, estimator_loss
from opendp_tree.trees.domains import CountSpace, SparseLeafCounts, check_metric, sparse_reader
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownCells, ShownNodes, contracted_parents
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_estimator", "then_tree_estimator"]

Weights = Mapping[str, float] | Sequence[float] | None
_FEW = 12
"""From so many nodes of a level on, what their rests are like is learned from them."""
_FLOW_MEAN, _FLOW_DEVIATION, _FLOW_DEEP = 0.35, 0.3, 0.25
"""What no cell holds of a shown node that is no cell: guessed, in thresholds."""
_WIDE = 1e12
_FAR = 3.0
"""A measured rest that is further from what was learned, in deviations, is not drawn towards it."""
ROOT_EVEN, _ROOT_BALANCED = 0.005, 0.02
"""The root's share of epsilon in a public tree, with even shares below it and with balanced ones."""
_SILENT = Fringe((), (), (), Fraction(1), Fraction(1), None)
"""Of a known node below which nothing is found and whose rest is not counted: all nodes of a public tree."""


def make_tree_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float,
    alpha: float = 0.1,
    tree: Tree | None = None,
    known: KnownNodes | None = None,
    confidence: float = 0.95,
    measuring: float | None = None,
    weights: Weights = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
) -> Measurement:
    """Estimates and intervals for every shown node of a tree: find heavy cells, count known nodes, measure layers.

    Removing and adding a person have separate budgets, of which finding takes different parts; what is left measures
    layers of disjoint sets, chosen by what was found alone, and least squares joins everything. The map is exact, and
    rounded up. Proof: docs/proofs/partition.md.

    Gives a `TreeRelease`: of an `OpenTree` the known nodes and those with a cell at or below them, of a `Tree` all
    nodes.

    Parameters
    ----------
    input_domain
        Leaf counts of a tree: `leaf_domain(tree)`, or a vector domain and `tree`.
    input_metric
        `l1_distance`: by how many people inputs differ.
    epsilon, delta
        What one person's presence may reveal: the map at distance `d_in` is at most this. `delta` may be 0 for a public
        tree and where all known nodes are closed, and the measure is then `max_divergence()`; it is
        `approximate(max_divergence())` otherwise. The map reports `delta` itself where a little less is lost, so that
        OpenDP's searches for `epsilon` can compare; they also try an epsilon of 0, with which there is a map and no
        release.
    alpha
        The part of a count that planned errors forgive. 0.1 by default. The mechanism does not depend on it.
    tree
        The public tree, if `input_domain` does not carry it. None by default.
    known
        For an open tree, the nodes that are public: they are shown, empty ones too. None, the default, is the root
        alone.
    confidence
        A node that was fixed beforehand is shown with an interval that misses it with a chance of at most one less
        this. 0.95 by default. Intervals of all nodes but unknown leaves hold with this chance given that they are
        shown.
    measuring
        The dial between more keys and better totals: the share of epsilon that measures layers. None, the default,
        keeps every level near what a release of that level alone would give. Ignored for a public tree.
    weights
        Which levels matter, if at most nine are shown: by level name, or one number for each shown level from the root
        to the one above the deepest. A level of twice the weight may err by half as much. None, the default, treats
        levels alike, and the root as a sum of the level below it.
    levels
        Which levels are shown, the root's being 0; the root always is. The others cost nothing, so that fewer levels
        find smaller nodes. None, the default, shows all.
    d_in
        How many rows of one person `epsilon` and `delta` are for. 1 by default: one person, one row.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import OpenTree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = OpenTree.columns(2)
    >>> space = leaf_domain(tree), dp.l1_distance(T="i64")
    >>> counts = make_tree_estimator(*space, epsilon=1.0, delta=1e-6)
    >>> counts.map(1) <= (1.0, 1e-6)
    True
    >>> release = counts(tree.count([("be", "ghent")] * 500 + [("be", "liege")] * 400 + [("lu", "lux")]))
    >>> release.to_frame(other=False).select("level", "label_1", "label_2").rows()
    [(0, None, None), (1, 'be', None), (2, 'be', 'ghent'), (2, 'be', 'liege')]

    With names that are public, these are shown whatever the data:

    >>> known = KnownNodes.of(tree, [("nl", "delft")])
    >>> release = make_tree_estimator(*space, epsilon=1.0, delta=1e-6, known=known)(tree.count([]))
    >>> release.to_frame(other=False).select("level", "label_1", "label_2").rows()
    [(0, None, None), (1, 'nl', None), (2, 'nl', 'delft')]
    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    schema: Tree | OpenTree
    if isinstance(described, SparseLeafCounts):
        schema, read = sparse_reader(described, tree)
    else:
        space, schema = CountSpace.of_leaves(input_domain, tree)
        read = space.read_people  # type: ignore[assignment]
    unfunded = is_zero(epsilon)
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha ({alpha}) must be at least 0 and below 1")
    kept = check_levels(schema.depth, levels)
    budget = _Budget(
        check_positive(1.0 if unfunded else epsilon, name="epsilon"),
        Fraction(0) if is_zero(delta) else check_probability(delta, name="delta"),
        check_integer(d_in, name="d_in", least=1),
    )
    if measuring is not None:
        measuring = float(check_probability(measuring, name="measuring"))
    checked = check_weights(schema, kept, weights)
    sure = float(check_probability(confidence, name="confidence"))
    if isinstance(schema, OpenTree):
        names = KnownNodes.of(schema, ()) if known is None else known
        if not isinstance(names, KnownNodes) or names.tree != schema:
            raise ValueError("known must be KnownNodes of the tree of input_domain. Hint: KnownNodes.of(tree, paths)")
        estimator: OpenEstimator | PublicEstimator = OpenEstimator.of(names, kept, budget, measuring, checked, sure)
    elif known is not None:
        raise ValueError("known must be left out for a public tree, all of whose nodes are known")
    else:
        estimator = PublicEstimator(schema, kept, checked, sure, budget)
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)
    pure = estimator.pure

    def privacy_map(distance: int | float) -> float | tuple[float, float]:
        people = math.floor(read_distance(distance))  # counts that are 1.5 apart are 1 apart
        lost = estimator.loss(people) if people else (0.0, 0.0)
        return lost[0] if pure else with_promised_delta(lost, float(budget.delta))

    def function(data: Any) -> Any:
        return estimator.release(read(data), estimator.statement(privacy_map(budget.d_in), float(alpha)))  # type: ignore[arg-type]

    measure_ = max_divergence() if pure else approximate(max_divergence())
    return make_measurement(input_domain, input_metric, measure_, function, privacy_map)


then_tree_estimator = to_then(make_tree_estimator)


@dataclass(frozen=True)
class _Budget:
    """What may be lost at distance `d_in`, checked."""

    epsilon: Fraction
    delta: Fraction
    d_in: int


@dataclass(frozen=True)
class KnownPlaces:
    """The places of an open tree, with one for each known node; `contracted` to the shown levels alone."""

    counts: SparseCounts
    contracted: Occupied
    """What is on a level that is not shown is at the next one above that is."""
    levels: Ints
    known: Bools
    closed: Bools
    place_of: Ints
    """Of each key."""

    @classmethod
    def of(cls, names: KnownNodes, levels: tuple[int, ...], counts: SparseCounts) -> KnownPlaces:
        """The places of keys, among them the known nodes of shown levels."""
        by_key = counts.occupied.counts
        numbered = replace(counts.occupied, counts=np.arange(1, by_key.size + 1))
        placed, known, closed = names.among(replace(counts, occupied=numbered))
        occupied, kept = placed.occupied, np.array(levels)
        contracted = occupied
        if kept.size < names.tree.depth:
            index = np.searchsorted(kept, np.arange(names.tree.depth), side="right") - 1
            contracted = replace(occupied, levels=index[occupied.levels], meets=index[occupied.meets])
        place_of = np.zeros(by_key.size, dtype=np.int64)
        held = np.flatnonzero(occupied.counts)  # a place is that of one key at most, whose number it holds here
        place_of[occupied.counts[held] - 1] = held
        known = known & np.isin(occupied.levels, kept)
        return cls(placed, contracted, kept, known, closed, place_of).with_counts(by_key)

    def by_place(self, values: Ints) -> Ints:
        """Numbers of the keys by place; 0 where only a known node is."""
        found = np.zeros(self.known.size, dtype=np.int64)
        found[self.place_of] = values
        return found

    def with_counts(self, counts: Ints) -> KnownPlaces:
        """The same places with these counts of the keys."""
        placed = self.by_place(counts)
        occupied, contracted = (replace(each, counts=placed) for each in (self.counts.occupied, self.contracted))
        return replace(self, counts=replace(self.counts, occupied=occupied), contracted=contracted)

    @cached_property
    def owners(self) -> Ints:
        """For each place that of the deepest known node at or above it."""
        return deepest_known(self.contracted, self.known)

    @property
    def unknown(self) -> Bools:
        """The places below their known node, who is at which may be shown: not where that is closed."""
        levels = np.asarray(self.contracted.levels)
        return (levels > levels[self.owners]) & ~self.closed[self.owners]


@dataclass(frozen=True)
class Found:
    """What finding shows of an open tree: all nodes with a cell or a known node at or below them."""

    places: KnownPlaces
    nodes: ShownNodes
    wanted: Bools
    """Which nodes are on shown levels: those of `shown`, in this order."""
    shown: ShownTree
    first: Ints
    """A place of each of them."""
    tops: Ints
    """The kind of fringe that each of them is in: the level of its known node, and the deepest for closed ones."""

    @classmethod
    def of(cls, places: KnownPlaces, parameters: PartitionParameters | None) -> Found:
        """Run the partition on the counts of the places; without parameters nothing is looked for."""
        occupied, contracted, kept = places.counts.occupied, places.contracted, places.levels
        none = np.zeros(0, dtype=np.int64)
        cells = Cells(none, none, none, none)
        if parameters is not None:
            cells = find_cells(contracted, places.known, places.closed, parameters)
        names = np.flatnonzero(places.known)
        rests = cells.rests if cells.rests.size else np.zeros_like(names)
        at_places, gaps = np.concatenate((cells.places, names)), np.concatenate((cells.gaps, rests))
        listed = ShownCells.of(places.counts, at_places, np.concatenate((kept[cells.levels], occupied.levels[names])))
        nodes, at = listed.nodes, listed.order[listed.firsts]
        named = listed.is_cell & (at >= cells.places.size)
        wanted = np.isin(nodes.levels, kept)
        shown = ShownTree(
            np.searchsorted(kept, nodes.levels[wanted]),
            contracted_parents(nodes.parents, wanted),
            kept.size,
            (listed.is_cell & ~named)[wanted],
            named[wanted],
            np.where(listed.is_cell, gaps[at], 0)[wanted],
        )
        first = at_places[at][wanted]
        shut = places.closed[places.owners[first]] & shown.known
        tops = np.where(shut, kept.size - 1, contracted.levels[places.owners[first]])
        return cls(places, nodes, wanted, shown, first, tops)

    def people(self, which: Bools, counts: Ints | None = None) -> tuple[Ints, Ints]:
        """The people of some shown nodes, in halves as `measure` takes them; `counts` is by key."""
        places = self.places if counts is None else self.places.with_counts(counts)
        return people_at(places.counts.occupied, self.nodes.levels[self.wanted], self.first, which)


@dataclass(frozen=True)
class OpenEstimator:
    """All that is decided before data for an open tree: what is run is what the map is computed from."""

    known: KnownNodes
    levels: tuple[int, ...]
    parameters: PartitionParameters
    fringes: tuple[Fringe, ...]
    """Of the known nodes: what the map is for."""
    weights: tuple[float | None, ...] | None
    confidence: float
    budget: _Budget

    @classmethod
    def of(
        cls,
        known: KnownNodes,
        levels: tuple[int, ...],
        budget: _Budget,
        measuring: float | None,
        weights: tuple[float | None, ...] | None,
        confidence: float,
    ) -> OpenEstimator:
        """The estimator of a budget."""
        closed = all(known.closed)
        if not closed and budget.delta == 0:
            raise ValueError("delta (0) must be above 0 where nodes are unknown. Hint: delta=1e-6, or a public tree")
        if closed:
            parameters = closed_parameters(len(levels), budget.epsilon, d_in=budget.d_in)
        else:
            parameters = choose_parameters(
                len(levels), budget.epsilon, budget.delta, d_in=budget.d_in, measuring=measuring
            )
        return cls(known, levels, parameters, parameters.fringes, weights, confidence, budget)

    @property
    def pure(self) -> bool:
        """Whether delta is 0."""
        return self.budget.delta == 0

    def loss(self, people: int) -> tuple[float, float]:
        """Epsilon and delta at a distance, rounded up."""
        given = self.parameters
        epsilon, delta = estimator_loss(self.fringes, alphas=given.alphas, betas=given.betas, k=people)
        return round_up(epsilon), min(1.0, round_up(delta))

    def statement(self, spent: float | tuple[float, float], alpha: float) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        given, top = self.parameters, self.parameters.fringes[0]
        return _statement(
            spent,
            self.budget,
            {
                "scale": float(top.test_scale),
                "token_scale": float(top.token_scale),
                "threshold": top.thresholds[-1] if top.thresholds else None,
                "radius": top.radii[-1] if top.radii else None,
                "margin": top.margins[-1] if top.margins else None,
                "depth": self.known.tree.depth,
                "levels": "all" if len(self.levels) == self.known.tree.depth else ", ".join(map(str, self.levels)),
                "known": len(self.known.paths),
                "measuring_removal": round_up(given.alphas * self.budget.d_in),
                "measuring_addition": round_up(given.betas * self.budget.d_in),
                "alpha": alpha,
            },
        )

    def release(self, counts: SparseCounts, statement: PrivacyStatement) -> TreeRelease:
        """Known nodes, and nodes with a cell at or below them."""
        found = Found.of(KnownPlaces.of(self.known, self.levels, counts), self.parameters)
        shown, nodes, wanted = found.shown, found.nodes, found.wanted
        model = GapNoise.of(self.parameters, found.tops, shown)
        layers = choose_layers(
            shown,
            model.rest_variance(shown),
            self.parameters.alphas,
            self.parameters.betas,
            aim=2 * variance(max(len(self.levels) - 1, 1) / float(self.budget.epsilon / self.budget.d_in)),
            weights=self.weights,
        )
        measured = measure(layers, *found.people(layers.marked))
        estimates = estimate_nodes(shown, measured, model)
        bounds = node_bounds(shown, layers, measured, self.parameters, found.tops, miss=1 - self.confidence)
        number = shown.totals(shown.is_cell.astype(np.float64))
        estimates = np.maximum(estimates, number)
        bounds = Bounds(np.minimum(bounds.lower, estimates), np.maximum(bounds.upper, estimates))
        cell_counts = np.rint(number).astype(np.int64)
        if not wanted.all():
            estimates, bounds = fill_levels(nodes.levels, nodes.parents, wanted, estimates, bounds)
            cell_counts = _spread(cell_counts, wanted)
        return TreeRelease(
            counts.tree,
            estimates,
            bounds.lower,
            bounds.upper,
            self.confidence,
            statement,
            cells=cell_counts,
            nodes=nodes,
            shown=None if wanted.all() else wanted,
            hidden=hidden_weight(self.parameters, self.levels, counts.tree.depth, 1 - self.confidence),
        )


def _statement(spent: float | tuple[float, float], budget: _Budget, parameters: Mapping[str, Any]) -> PrivacyStatement:
    pure = isinstance(spent, float)
    return PrivacyStatement(
        mechanism="tree_estimator",
        measure="max_divergence()" if pure else "approximate(max_divergence())",
        d_in=budget.d_in,
        loss={"epsilon": spent} if isinstance(spent, float) else {"epsilon": spent[0], "delta": spent[1]},
        parameters=parameters,
    )


def _spread(values: Ints, wanted: Bools) -> Ints:
    found = np.zeros(wanted.size, dtype=values.dtype)
    found[wanted] = values
    return found


def hidden_weight(parameters: PartitionParameters, levels: tuple[int, ...], depth: int, miss: float) -> float:
    """What a node that is not shown holds at most, missed with chance at most `miss`; `inf` if nothing is proven."""
    if len(levels) < depth:
        return math.inf
    fringes = [fringe for fringe in parameters.fringes if fringe.levels]
    return max((hidden_bound(fringe, miss) for fringe in fringes), default=0.0)


@dataclass(frozen=True)
class GapNoise:
    """By shown node: the mean and variance of what its gap or noisy rest differs by, and its fringe's threshold."""

    shift: Floats
    spread: Floats
    threshold: Floats
    lost: Floats
    """What it may lack besides: below an inner node any number of hidden nodes near the threshold may lose tokens."""

    @classmethod
    def of(cls, parameters: PartitionParameters, tops: Ints, shown: ShownTree) -> GapNoise:
        """For the noise without end, which truncation changes by less than delta."""
        shift, spread, threshold, lost = (np.zeros(shown.levels.size) for _ in range(4))
        leaf = shown.levels == shown.depth - 1
        for top in np.unique(tops).tolist():
            here, fringe = np.flatnonzero(tops == top), parameters.fringes[top]
            test, token = float(fringe.test_scale), float(fringe.token_scale)
            tokens = np.where(leaf[here], 1.0, 2.0), np.where(leaf[here], 1.0, 3.0)
            shift[here] = mean(test) - tokens[0] * mean(token)
            spread[here] = variance(test) + tokens[1] * variance(token)
            threshold[here] = fringe.thresholds[-1] if fringe.thresholds else 1.0
            if fringe.thresholds:
                lost[here] = np.where(leaf[here], 0.0, mean(token) * shown.gaps[here] / (2 * threshold[here]))
            if fringe.rest_scales is not None:
                right, left = map(float, fringe.rest_scales)
                named = here[shown.known[here]]
                shift[named], spread[named] = mean(right) - mean(left), variance(right) + variance(left)
        return cls(shift, np.maximum(spread, LEAST_VARIANCE), threshold, lost)

    def rest_variance(self, shown: ShownTree) -> Floats:
        """What is known of each node's rest before anything is measured."""
        heard = shown.is_cell | shown.known
        return np.where(heard, self.spread, (self.threshold / 6) ** 2 + LEAST_VARIANCE)


class _State:
    """Means and covariances of (people, flow) for the shown nodes; flow is whom no cell at or below a node holds."""

    def __init__(self, size: int) -> None:
        self.people, self.flow, self.pp, self.pf, self.ff = (np.zeros(size) for _ in range(5))

    def take(self, here: slice) -> _State:
        """The state of some nodes."""
        part = _State(0)
        for name, values in vars(self).items():
            setattr(part, name, values[here].copy())
        return part

    def put(self, here: slice, part: _State) -> None:
        """Set the state of some nodes."""
        for name, values in vars(part).items():
            getattr(self, name)[here] = values

    def children(self, shown: ShownTree, level: int, passing: Bools) -> _State:
        """The sums over the children of a level's nodes; flow comes from those that pass it on."""
        part = _State(0)
        for name, values in vars(self).items():
            passed = values if name in ("people", "pp") else np.where(passing, values, 0.0)
            setattr(part, name, shown.sum_children(passed, level))
        return part

    def add(self, value: Floats, variance_: Floats) -> None:
        """Add people who are in no shown child."""
        self.people, self.flow = self.people + value, self.flow + value
        self.pp, self.pf, self.ff = self.pp + variance_, self.pf + variance_, self.ff + variance_

    def see_flow(self, value: Floats, precision: Floats) -> None:
        """Take in a measurement of the flow; a precision of 0 is none."""
        gain = precision / (1 + precision * self.ff)
        step = gain * (value - self.flow)
        self.people, self.flow = self.people + self.pf * step, self.flow + self.ff * step
        pf, ff = self.pf, self.ff
        self.pp, self.pf, self.ff = self.pp - gain * pf * pf, pf - gain * ff * pf, ff - gain * ff * ff

    def see_people(self, value: Floats, precision: Floats) -> None:
        """Take in a measurement of the people."""
        gain = precision / (1 + precision * self.pp)
        step = gain * (value - self.people)
        self.people, self.flow = self.people + self.pp * step, self.flow + self.pf * step
        pp, pf = self.pp, self.pf
        self.pp, self.pf, self.ff = pp - gain * pp * pp, pf - gain * pp * pf, self.ff - gain * pf * pf


def estimate_nodes(shown: ShownTree, measured: tuple[NoisySums, ...], model: GapNoise) -> Floats:
    """Least squares over gaps, rests and layers, in which every node's rest is one more child of it.

    A gap, or a known node's noisy rest, counts what flows into a node: its rest, and what flows out of shown children
    that are neither cells nor known. Rests of nodes that are neither are guessed from those of their level.
    """
    size, named = shown.levels.size, shown.depth <= NAMED
    own, precision, rest, rest_precision = _gather(shown, measured)
    heard, before, after = shown.is_cell | shown.known, _State(size), _State(size)
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        threshold, gap, spread = model.threshold[here], shown.gaps[here] - model.shift[here], model.spread[here]
        state = after.children(shown, level, ~heard)
        seen = _Seen.of(own[here] - state.people, precision[here], state.pp, rest[here], rest_precision[here])
        loose, wide = spread + model.lost[here] ** 2, np.maximum(np.abs(gap - state.flow), threshold) ** 2
        prior = np.where(heard[here], np.maximum(gap - state.flow, 0.0), _FLOW_MEAN * threshold if named else 0.0)
        width = np.where(heard[here], wide, (threshold * (_FLOW_DEVIATION if named else 0.5)) ** 2 + LEAST_VARIANCE)
        if named:
            prior, width = _learned(seen, ~heard[here], prior, width, 3 * threshold)
            if 0 < level < shown.depth - 1:
                gap, loose = _learned_gaps(seen, shown.is_cell[here], state, shown.gaps[here], gap, spread, loose)
        width = np.where(shown.child_counts[here] == 0, _WIDE, width)
        off = (rest[here] - prior) ** 2
        far = off > _FAR**2 * (width + 1 / np.maximum(rest_precision[here], 1 / _WIDE))
        width = np.where(far & (rest_precision[here] > 0), np.maximum(width, off), width)
        known = 1 / width + rest_precision[here]
        state.add((prior / width + rest_precision[here] * rest[here]) / known, 1 / known)
        before.put(here, state)
        if named:
            state.see_flow(gap, np.where(heard[here], 1 / loose, 0.0))
        else:  # what a node passes on is less than its threshold
            value = np.where(heard[here], gap, _FLOW_MEAN * threshold)
            state.see_flow(value, 1 / np.where(heard[here], loose, (_FLOW_DEEP * threshold) ** 2 + LEAST_VARIANCE))
        state.see_people(own[here], precision[here])
        after.put(here, state)
    for level in range(1, shown.depth):
        _descend(shown, level, before, after, heard)
    return after.people


def _gather(shown: ShownTree, measured: tuple[NoisySums, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    """By node: what layers say of its people and of its rest, each a mean and its precision."""
    own, precision, rest, rest_precision = (np.zeros(shown.levels.size) for _ in range(4))
    local = np.full(shown.levels.size, True) if shown.depth <= NAMED else shown.child_counts != 1
    for part in measured:
        value, weight = part.sums - part.mean, 1 / part.variance
        own[part.nodes] += weight * value[: part.nodes.size]
        precision[part.nodes] += weight
        here = local[part.rests]
        rest[part.rests[here]] += weight * value[part.nodes.size :][here]
        rest_precision[part.rests[here]] += weight
    own, rest = own / np.where(precision > 0, precision, 1.0), rest / np.where(rest_precision > 0, rest_precision, 1.0)
    return own, precision, rest, rest_precision


def _descend(shown: ShownTree, level: int, before: _State, after: _State, heard: Bools) -> None:
    """Hand what is known of the nodes above a level down to it."""
    here, above = shown.at(level), shown.at(level - 1)
    old, new, child = before.take(above), after.take(above), after.take(here)
    people, flow = new.people - old.people, new.flow - old.flow
    determinant = old.pp * old.ff - old.pf**2
    determinant = np.where(determinant > 0, determinant, 1.0)
    whose = shown.parents[here] - above.start
    pull_people = ((old.ff * people - old.pf * flow) / determinant)[whose]
    pull_flow = np.where(heard[here], 0.0, ((old.pp * flow - old.pf * people) / determinant)[whose])
    # A cell and a known node pass no flow up, so only the pull on their people reaches them.
    after.people[here] = child.people + child.pp * pull_people + child.pf * pull_flow
    after.flow[here] = child.flow + child.pf * pull_people + child.ff * pull_flow


@dataclass(frozen=True)
class _Seen:
    """What layers say of rests: by their own counts of them, and by nodes' counts less their children."""

    value: Floats
    variance: Floats
    """`inf` where they say nothing."""

    @classmethod
    def of(cls, less: Floats, precision: Floats, spread: Floats, rest: Floats, rest_precision: Floats) -> _Seen:
        with np.errstate(divide="ignore"):
            first = np.where(precision > 0, 1 / (1 / precision + spread), 0.0)
        total = first + rest_precision
        with np.errstate(divide="ignore"):
            width = 1 / total
        return cls((first * less + rest_precision * rest) / np.where(total > 0, total, 1.0), width)


def _learned(seen: _Seen, free: Bools, mean_: Floats, width: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the rests of a level's nodes that are neither cells nor known, where there are enough."""
    which = np.flatnonzero(free & np.isfinite(seen.variance))
    if which.size < _FEW:
        return mean_, width
    center, extra = _fit(seen.value[which], seen.variance[which])
    mean_, width = mean_.copy(), width.copy()
    mean_[which], width[which] = np.clip(center, 0.0, most[which]), max(extra, 0.25)
    return mean_, width


def _learned_gaps(
    seen: _Seen, cells: Bools, below: _State, gaps: Ints, gap: Floats, spread: Floats, loose: Floats
) -> tuple[Floats, Floats]:
    """What flows into a level's cells by their gaps, and its variance, where there are enough to learn both."""
    which = np.flatnonzero(cells & np.isfinite(seen.variance))
    if which.size < _FEW:
        return gap, loose
    center, extra = _fit((seen.value + below.flow - gaps)[which], (seen.variance + below.ff + spread)[which])
    gap, loose = gap.copy(), loose.copy()
    gap[which], loose[which] = gaps[which] + center, spread[which] + extra
    return gap, loose


def _fit(values: Floats, variances: Floats) -> tuple[float, float]:
    """Mean and variance of numbers that were seen with noise of these variances."""
    extra = max(float(np.var(values) - variances.mean()), 0.0)
    center = 0.0
    for _ in range(5):
        weight = 1 / (variances + extra)
        center = float((weight * values).sum() / weight.sum())
        squares = weight**2
        extra = max(float((squares * ((values - center) ** 2 - variances)).sum() / squares.sum()), 0.0)
    return center, extra


@dataclass(frozen=True)
class PublicEstimator:
    """All that is decided before data for a public tree: noise on levels, and least squares."""

    tree: Tree
    levels: tuple[int, ...]
    weights: tuple[float | None, ...] | None
    confidence: float
    budget: _Budget

    @property
    def pure(self) -> bool:
        """Whether delta is 0; nothing is lost where it is not."""
        return self.budget.delta == 0

    @cached_property
    def _slopes(self) -> Fraction:
        """What the layers may cost in either direction: all, but for a little that rounding needs."""
        return Fraction(round_down(self.budget.epsilon / self.budget.d_in * (1 - Fraction(1, 2**48))))

    @cached_property
    def wanted(self) -> Bools:
        """Which nodes are measured, level by level: those of shown levels, and leaves that are above some of these."""
        order = self.tree.level_order
        leaf = np.zeros(self.tree.node_count, dtype=np.bool_)
        leaf[self.tree.leaves] = True
        above = leaf[order.nodes] & (order.levels < self.levels[-1])
        return np.isin(order.levels, self.levels) | above

    @cached_property
    def shown(self) -> ShownTree:
        """These nodes; a leaf of another level is taken for one of the next shown level."""
        order, wanted = self.tree.level_order, self.wanted
        levels = np.searchsorted(self.levels, order.levels[wanted])
        none = np.zeros(levels.size, dtype=np.int64)
        parents = contracted_parents(order.parents, wanted)
        return ShownTree(levels, parents, len(self.levels), none > 0, none == 0, none)

    @cached_property
    def layers(self) -> Layers:
        """One for each level; leaves above a level are in its layer too, so that it holds everybody."""
        shown = self.shown
        marked, cuts = cut_by_level(shown, list(range(shown.depth)))
        plain = make_layers(shown, marked, cuts, self.shares, self._slopes, self._slopes)
        nobody = np.zeros(0, dtype=np.int64)
        return replace(plain, layers=tuple(replace(layer, rests=nobody) for layer in plain.layers))

    @cached_property
    def shares(self) -> Floats:
        """Shares of epsilon by level: even or balanced, whichever has the smaller largest error of a level."""
        below = self.shown.depth - 1
        if below == 0:
            return np.ones(1)
        weight = np.ones(below)
        root = None
        if self.weights is not None:
            told = np.array([math.nan if one is None else one for one in self.weights])
            weight[:-1] = np.where(np.isnan(told[1:]), 1.0, told[1:])
            root = None if math.isnan(told[0]) else float(told[0]) / (float(told[0]) + weight.sum())
        even = np.append(ROOT_EVEN if root is None else root, np.full(below, (1 - (root or ROOT_EVEN)) / below))
        best, shares = float(self._errors(even, weight).max()), even
        top = _ROOT_BALANCED if root is None else root
        trial = np.append(top, np.full(below, (1 - top) / below))
        for _ in range(12):
            errors = self._errors(trial, weight)
            if errors.max() < best:
                best, shares = float(errors.max()), trial
            scaled = trial[1:] * np.maximum(errors, 1e-3 * errors.max()) ** 0.7
            trial = np.append(top, scaled / scaled.sum() * (1 - top))
        return shares

    def _errors(self, shares: Floats, weight: Floats) -> Floats:
        """The weighted error of each level below the root, against a release of each level alone."""
        shown, variances = self.shown, self.variances(shares)
        alone = 2 * variance((shown.depth - 1) / float(self._slopes))
        errors = [variances[shown.at(level)].mean() for level in range(1, shown.depth)]
        return np.sqrt(np.array(errors) / max(alone, LEAST_VARIANCE)) * weight

    def variances(self, shares: Floats) -> Floats:
        """The variance of each shown node after least squares."""
        slope, shown = float(self._slopes), self.shown
        precisions = np.array([1 / max(2 * variance(1 / (share * slope)), LEAST_VARIANCE) for share in shares.tolist()])
        leaf = shown.child_counts == 0
        own = np.where(leaf, precisions[::-1].cumsum()[::-1][shown.levels], precisions[shown.levels])
        with np.errstate(divide="ignore", invalid="ignore"):
            return final_variances(shown, np.where(leaf, np.inf, 0.0), own)

    def loss(self, people: int) -> tuple[float, float]:
        """Epsilon and delta at a distance, rounded up."""
        epsilon, delta = estimator_loss([_SILENT], alphas=self._slopes, betas=self._slopes, k=people)
        return round_up(epsilon), round_up(delta)

    def statement(self, spent: float | tuple[float, float], alpha: float) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        shown_levels = "all" if len(self.levels) == self.tree.depth else ", ".join(map(str, self.levels))
        parameters = {"depth": self.tree.depth, "levels": shown_levels, "known": self.tree.node_count, "alpha": alpha}
        return _statement(spent, self.budget, parameters)

    def release(self, leaf_counts: Ints, statement: PrivacyStatement) -> TreeRelease:
        """All nodes."""
        order, shown, layers, wanted = self.tree.level_order, self.shown, self.layers, self.wanted
        measured = measure(layers, *people_of_tree(self.tree, leaf_counts, order.nodes[wanted]))
        estimates = self._estimates(measured)
        parameters = PartitionParameters((_SILENT,) * shown.depth, Fraction(0), Fraction(0))
        bounds = node_bounds(
            shown, layers, measured, parameters, np.full(shown.levels.size, -1), miss=1 - self.confidence
        )
        estimates = np.maximum(estimates, 0.0)
        bounds = Bounds(np.minimum(bounds.lower, estimates), np.maximum(bounds.upper, estimates))
        if not wanted.all():
            estimates, bounds = fill_levels(order.levels, order.parents, wanted, estimates, bounds)
        values, lower, upper = (order.by_node(each) for each in (estimates, bounds.lower, bounds.upper))
        return TreeRelease(self.tree, values, lower, upper, self.confidence, statement)

    def _estimates(self, measured: tuple[NoisySums, ...]) -> Floats:
        """Least squares over the levels."""
        shown = self.shown
        own, precision = np.zeros(shown.levels.size), np.zeros(shown.levels.size)
        for part in measured:
            own[part.nodes] += part.sums / part.variance
            precision[part.nodes] += 1 / part.variance
        own /= precision
        value, below, estimate, mine = np.zeros_like(own), np.full(own.size, np.inf), own.copy(), 1 / precision
        inner = shown.child_counts > 0
        for level in reversed(range(shown.depth - 1)):
            here = np.flatnonzero(inner[shown.at(level)]) + shown.at(level).start
            offset = here - shown.at(level).start
            value[here] = shown.sum_children(estimate, level)[offset]
            below[here] = shown.sum_children(mine, level)[offset]
            mine[here] = 1 / (1 / below[here] + precision[here])
            estimate[here] = mine[here] * (value[here] / below[here] + precision[here] * own[here])
        for level in range(1, shown.depth):
            at = shown.at(level)
            above = shown.parents[at]
            estimate[at] += mine[at] / below[above] * (estimate[above] - value[above])
        return estimate


def public_rmse(
    tree: Tree, levels: tuple[int, ...] | None, epsilon: float, d_in: int, weights: Weights = None
) -> float:
    """The largest RMSE of a shown node of a public tree."""
    kept = check_levels(tree.depth, levels)
    budget = _Budget(Fraction(epsilon), Fraction(0), d_in)
    made = PublicEstimator(tree, kept, check_weights(tree, kept, weights), 0.95, budget)
    return math.sqrt(float(made.variances(made.shares).max()))


def people_at(occupied: Occupied, levels: Ints, places: Ints, wanted: Bools) -> tuple[Ints, Ints]:
    """The people of the wanted nodes, each at a level above a place with people, in halves as `measure` takes them."""
    counts = occupied.counts.clip(0, saturate.LIMIT)
    found = np.zeros((2, levels.size), dtype=np.int64)
    # Where all of them together fit into one number, the lower half is all.
    fits = int(counts.max(initial=0)) * counts.size <= saturate.LIMIT
    halves = [counts] if fits else saturate.split(counts)
    starts, ends = occupied.ranges_of(places[wanted], levels[wanted])
    for half, part in zip(found[2 - len(halves) :], halves, strict=True):
        sums = np.zeros(counts.size + 1, dtype=np.int64)
        np.cumsum(part, out=sums[1:])
        half[wanted] = sums[ends] - sums[starts]
    return found[0], found[1]


def people_of_tree(tree: Tree, leaf_counts: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """The same for nodes of a public tree."""
    sums = []
    for half in saturate.split(leaf_counts.clip(0, saturate.LIMIT)):
        values = np.zeros(tree.node_count, dtype=np.int64)
        values[tree.leaves] = half
        sums.append(tree.sum_nodes(values)[nodes])
    return sums[0], sums[1]


def fill_levels(levels: Ints, parents: Ints, wanted: Bools, estimates: Floats, bounds: Bounds) -> tuple[Floats, Bounds]:
    """Numbers for the nodes of other levels too: the sum of those below, which is at most what is above."""
    values, upper, lower = (np.zeros(levels.size) for _ in range(3))
    values[wanted], lower[wanted], upper[wanted] = estimates, bounds.lower, bounds.upper
    others = [np.flatnonzero(~wanted & (levels == level)) for level in np.unique(levels[~wanted]).tolist()]
    for here in others:
        upper[here] = upper[parents[here]]
    summed = np.zeros(levels.size)
    for level in reversed(range(1, int(levels.max(initial=0)) + 1)):
        here = np.flatnonzero(levels == level)
        values[here] = np.where(wanted[here], values[here], np.minimum(summed[here], upper[here]))
        np.add.at(summed, parents[here], values[here])
    return values, Bounds(lower, upper)


def check_levels(depth: int, levels: Sequence[int] | None) -> tuple[int, ...]:
    """The levels that are shown, the root's among them."""
    if levels is None:
        return tuple(range(depth))
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise TypeError(f"levels ({levels!r}) must be a sequence of levels. Hint: [1, 3], where the root's level is 0")
    wanted = {check_integer(level, name="levels", least=0) for level in levels}
    if not wanted or max(wanted) >= depth:
        raise ValueError(f"levels ({list(levels)}) must be some of 0 to {depth - 1}. Hint: the root's level is 0")
    return tuple(sorted(wanted | {0}))


def check_weights(tree: Tree | OpenTree, levels: tuple[int, ...], weights: Weights) -> tuple[float | None, ...] | None:
    """One weight for each shown level above the deepest, or None for what is usual."""
    if weights is None:
        return None
    count = max(len(levels) - 1, 1)
    if len(levels) > NAMED:
        raise ValueError(f"weights must not be given for a tree of more than {NAMED} levels, found {len(levels)}")
    if isinstance(weights, Mapping):
        names = [tree.names[level - 1] if level <= len(tree.names) else None for level in levels[1:count]]
        wrong = [name for name in weights if name not in names]
        if wrong:
            hint = "Hint: measuring= is the dial between the deepest level and the others"
            raise ValueError(f"weights ({wrong[0]!r}) must name a level among {', '.join(map(repr, names))}. {hint}")
        given = [None, *(None if name is None else weights.get(name) for name in names)]
    else:
        given = list(weights)
        if len(given) != count:
            raise ValueError(f"weights ({len(given)} numbers) must be {count}, one for each level above the deepest")
    checked = tuple(None if one is None else float(check_positive(one, name="weights")) for one in given)
    if any(one is not None and not 1e-6 <= one <= 1e6 for one in checked):
        raise ValueError("weights must be from 1e-6 to 1e6. Hint: they say how levels compare, not what they cost")
    return checked
