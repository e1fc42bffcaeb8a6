"""The estimator of open, partly known and public trees: find cells, measure layers, least squares, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import saturate
from opendp_tree._arguments import check_integer, check_positive, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import NO_DELTA, Budget, PrivacyStatement, amounts_of_loss, make_unfunded, with_promised_delta
from opendp_tree.mechanisms.find import (
    NAMED,
    PartitionParameters,
    choose_parameters,
    closed_parameters,
    deepest_known,
    find_cells,
    mean,
    public_parameters,
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
    two_passes,
)
from opendp_tree.mechanisms.tails import Bounds, hidden_bound, node_bounds
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.domains import leaf_reader
from opendp_tree.trees.level_weights import share_below_root
from opendp_tree.trees.nodes import KnownNodes, Occupied, ShownCells, ShownNodes, SparseCounts, contracted_parents
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_estimator", "then_tree_estimator"]

_FEW = 12
"""A level with at least this many nodes gives a prior for their rests."""
_GROUPS = 16
"""The most groups of similar gaps that the cells of a level are fitted in."""
_FLOW_MEAN, _FLOW_DEVIATION, _FLOW_DEEP = 0.35, 0.3, 0.25
"""A prior, in thresholds, for the people of a shown node outside cells if the node is no cell itself."""
_WIDE = 1e12
_FAR = 3.0
"""A measured rest that is further from its prior, in deviations, is not shrunk towards it."""
_PEOPLE, _FLOW, _PP, _PF, _FF = range(5)
"""Rows of a state: means of a node's people and of its flow (people in no cell at or below it), then covariances."""
_OF_FLOW = np.array([[False], [True], [False], [True], [True]])


def make_tree_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float,
    tree: Tree | None = None,
    known: KnownNodes | None = None,
    confidence: float = 0.95,
    measuring: float | None = None,
    weights: Sequence[float] | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
) -> Measurement:
    """Estimates and intervals for every shown node of a tree: find heavy cells, count known nodes, measure layers.

    Gives a `TreeRelease`: of an `OpenTree` the known nodes and those with a cell at or below them, of a `Tree` all
    nodes. The map is exact, and rounded up. Proof: docs/proofs/partition.md.

    :param input_domain: Leaf counts of a tree: `leaf_domain(tree)`, or a vector domain and `tree`.
    :param input_metric: `l1_distance`: by how many people inputs differ.
    :param epsilon: What one person's presence may reveal: the map at distance `d_in` is at most this.
    :param delta: The probability that it reveals more. The map reports `delta` itself where less is lost, for OpenDP's
        searches. It may be 0, and the measure `max_divergence()`, for a public tree or if all known nodes are closed.
    :param tree: The public tree, if `input_domain` does not carry it.
    :param known: For an open tree, the nodes that are public: they are shown, empty ones too. By default the root.
    :param confidence: For a node that was fixed beforehand, the probability that it is shown with an interval that
        misses its count is at most 1 - confidence. Given that a node is shown, the promise holds for known
        nodes and for nodes above the deepest shown level, on trees of at most nine levels.
    :param d_in: How many rows of one person `epsilon` and `delta` are for.

    Other parameters: as for `TreeEstimator`.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import OpenTree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = OpenTree.columns(2)
    >>> known = KnownNodes.of(tree, [("nl", "delft")])
    >>> counts = make_tree_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6, known=known)
    >>> counts.map(1) <= (1.0, 1e-6)
    True
    >>> release = counts(tree.count([("be", "ghent")] * 500 + [("be", "liege")] * 400 + [("lu", "lux")]))
    >>> release.to_frame(other=False).filter(level=2).select("label_1", "label_2").rows()
    [('be', 'ghent'), ('be', 'liege'), ('nl', 'delft')]
    """
    schema, read = leaf_reader(input_domain, input_metric, tree)
    budget = Budget.declared(epsilon=epsilon, delta=delta, d_in=d_in)
    sure = float(check_probability(confidence, name="confidence"))
    dial = None if measuring is None else float(check_probability(measuring, name="measuring"))
    estimator = choose_estimator(
        schema, budget, known=known, levels=levels, measuring=dial, weights=weights, confidence=sure
    )
    if is_zero(epsilon):
        return make_unfunded(input_domain, input_metric, delta=delta)
    measure_ = approximate(max_divergence()) if budget.delta else max_divergence()

    def privacy_map(distance: int | float) -> float | tuple[float, float]:
        people = math.floor(read_distance(distance))  # counts that are 1.5 apart are 1 apart
        loss = estimator.parameters.loss(people)
        return with_promised_delta(loss, budget.delta) if budget.delta else loss[0]

    def function(data: Any) -> Any:
        spent, chosen = amounts_of_loss(measure_, privacy_map(budget.d_in)), estimator.parameters
        nodes = estimator.tree.node_count if isinstance(estimator, PublicEstimator) else len(estimator.known.paths)
        parameters = describe(chosen, estimator.levels, schema.depth, nodes) | {
            "measuring_removal": round_up(chosen.alphas * budget.d_in),
            "measuring_addition": round_up(chosen.betas * budget.d_in),
        }
        statement = PrivacyStatement("tree_estimator", measure_name(measure_), budget.d_in, spent, parameters)
        return estimator.release(read(data), statement)

    return make_measurement(input_domain, input_metric, measure_, function, privacy_map)


then_tree_estimator = to_then(make_tree_estimator)


def choose_estimator(
    tree: Tree | OpenTree,
    budget: Budget,
    *,
    known: KnownNodes | None = None,
    levels: Sequence[int] | None = None,
    measuring: float | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> OpenEstimator | PublicEstimator:
    """The estimator for a budget, from which its map is computed."""
    kept = check_levels(tree.depth, levels)
    checked, (epsilon, delta), d_in = check_weights(len(kept), weights), budget.exact, budget.d_in
    if isinstance(tree, Tree):
        if known is not None:
            raise ValueError("known must be left out for a public tree, all of whose nodes are known")
        parameters = public_parameters(len(kept), epsilon, d_in=d_in)
        return PublicEstimator(tree, kept, parameters, checked, confidence)
    names = check_known(tree, known)
    if all(names.closed):
        parameters = closed_parameters(len(kept), epsilon, d_in=d_in)
    elif delta == 0:
        raise ValueError(NO_DELTA)
    else:
        parameters = choose_parameters(len(kept), epsilon, delta, d_in=d_in, measuring=measuring)
    return OpenEstimator(kept, parameters, checked, confidence, names)


def check_known(tree: OpenTree, known: KnownNodes | None) -> KnownNodes:
    """The known nodes of an open tree: by default the root."""
    names = KnownNodes.of(tree, ()) if known is None else known
    if not isinstance(names, KnownNodes) or names.tree != tree:
        raise ValueError("known must be KnownNodes of the tree of input_domain. Hint: KnownNodes.of(tree, paths)")
    return names


def describe(
    parameters: PartitionParameters | None, levels: tuple[int, ...], depth: int, known: int
) -> dict[str, int | float | str | None]:
    """The parameters that nodes were found with, for statements."""
    shown: dict[str, int | float | str | None] = {"depth": depth, "known": known}
    shown["levels"] = "all" if len(levels) == depth else ", ".join(map(str, levels))
    top = None if parameters is None else parameters.fringes[0]
    if top is not None and (top.levels or top.rest_scales is not None):
        shown |= {"scale": float(top.test_scale), "token_scale": float(top.token_scale)}
        shown |= zip(("threshold", "radius", "margin"), top.levels[-1] if top.levels else (None,) * 3, strict=True)
    return shown


@dataclass(frozen=True)
class KnownPlaces:
    """The places of an open tree, one for each known node among them; `contracted` has the shown levels alone."""

    counts: SparseCounts
    contracted: Occupied
    """A place on a level that is not shown is at the next shown level above it."""
    levels: Ints
    known: Bools
    closed: Bools
    place_of: Ints
    """The place of each key."""

    @classmethod
    def of(cls, names: KnownNodes, levels: tuple[int, ...], counts: SparseCounts) -> KnownPlaces:
        """The places of keys and of the known nodes of shown levels."""
        by_key, depth, kept = counts.occupied.counts, counts.tree.depth, np.array(levels)
        numbered = replace(counts, occupied=replace(counts.occupied, counts=np.arange(1, by_key.size + 1)))
        placed, known, closed = names.among(numbered)
        occupied = contracted = placed.occupied
        if kept.size < depth:
            index = np.searchsorted(kept, np.arange(depth), side="right") - 1
            contracted = replace(occupied, levels=index[occupied.levels], meets=index[occupied.meets])
        place_of = np.zeros(by_key.size, dtype=np.int64)
        held = np.flatnonzero(occupied.counts)  # counts are numbers of keys here, at most one per place
        place_of[occupied.counts[held] - 1] = held
        known = known & np.isin(occupied.levels, kept)
        return cls(placed, contracted, kept, known, closed, place_of).with_counts(by_key)

    def with_counts(self, counts: Ints) -> KnownPlaces:
        """The same places with these counts of the keys."""
        placed = np.zeros(self.known.size, dtype=np.int64)
        placed[self.place_of] = counts
        occupied, contracted = (replace(each, counts=placed) for each in (self.counts.occupied, self.contracted))
        return replace(self, counts=replace(self.counts, occupied=occupied), contracted=contracted)

    @cached_property
    def owners(self) -> Ints:
        """For each place the place of the deepest known node at or above it."""
        return deepest_known(self.contracted, self.known)

    @property
    def unknown(self) -> Bools:
        """The places below an open known node: unknown nodes that may be shown."""
        levels = np.asarray(self.contracted.levels)
        return (levels > levels[self.owners]) & ~self.closed[self.owners]


@dataclass(frozen=True)
class Found:
    """The shown nodes of an open tree: all nodes with a cell or a known node at or below them."""

    places: KnownPlaces
    nodes: ShownNodes
    wanted: Bools
    """Which of `nodes` are on shown levels. These are the nodes of `shown`, in the same order."""
    shown: ShownTree
    first: Ints
    """A place of each node of `shown`."""
    tops: Ints
    """The index of each one's fringe in the parameters: the level of its known node; the deepest if that is closed."""

    @classmethod
    def of(cls, places: KnownPlaces, parameters: PartitionParameters | None) -> Found:
        """Run the partition on the counts of the places; without parameters only known nodes are shown."""
        occupied, contracted, kept = places.counts.occupied, places.contracted, places.levels
        cells = levels = gaps = rests = np.zeros(0, dtype=np.int64)
        if parameters is not None:
            cells, levels, gaps, rests = find_cells(contracted, places.known, places.closed, parameters)
        names = np.flatnonzero(places.known)
        all_places = np.concatenate((cells, names))
        gaps = np.concatenate((gaps, rests if rests.size else np.zeros_like(names)))
        listed = ShownCells.of(places.counts, all_places, np.concatenate((kept[levels], occupied.levels[names])))
        nodes, at = listed.nodes, listed.order[listed.firsts]
        named = listed.is_cell & (at >= cells.size)
        wanted = np.isin(nodes.levels, kept)
        shown = ShownTree(
            np.searchsorted(kept, nodes.levels[wanted]),
            contracted_parents(nodes.parents, wanted),
            kept.size,
            (listed.is_cell & ~named)[wanted],
            named[wanted],
            np.where(listed.is_cell, gaps[at], 0)[wanted],
        )
        first = all_places[at][wanted]
        shut = places.closed[places.owners[first]] & shown.known
        tops = np.where(shut, kept.size - 1, contracted.levels[places.owners[first]])
        return cls(places, nodes, wanted, shown, first, tops)

    def people(self, which: Bools, counts: Ints | None = None) -> tuple[Ints, Ints]:
        """The people of some shown nodes, split in halves for `measure`; `counts` is by key."""
        places = self.places if counts is None else self.places.with_counts(counts)
        return people_at(places.counts.occupied, self.nodes.levels[self.wanted], self.first, which)

    @cached_property
    def cells(self) -> Floats:
        """How many cells are at or below each of the shown nodes."""
        return self.shown.totals(self.shown.is_cell.astype(np.float64))

    def release(
        self, estimates: Floats, bounds: Bounds, confidence: float, statement: PrivacyStatement, **parts: Any
    ) -> TreeRelease:
        """A release of these numbers of shown nodes; if counts add up, nodes of other levels are filled in."""
        nodes, wanted = self.nodes, self.wanted
        values, bounds = fill_levels(nodes.levels, nodes.parents, wanted, estimates, bounds)
        if not parts.get("adds_up", True):
            values, bounds = np.where(wanted, values, 0.0), Bounds(bounds.lower, np.where(wanted, bounds.upper, np.inf))
        cells = np.zeros(wanted.size, dtype=np.int64)
        cells[wanted] = np.rint(self.cells)
        parts |= {"cells": cells, "nodes": nodes, "shown": None if wanted.all() else wanted}
        tree, ends = self.places.counts.tree, (bounds.lower, bounds.upper)
        return TreeRelease(tree, values, *ends, confidence, statement, **parts)


@dataclass(frozen=True)
class OpenEstimator:
    """An open tree: all that is decided before data is seen."""

    levels: tuple[int, ...]
    parameters: PartitionParameters
    weights: tuple[float, ...] | None
    confidence: float
    known: KnownNodes

    def release(self, counts: SparseCounts, statement: PrivacyStatement) -> TreeRelease:
        """Known nodes, and nodes with a cell at or below them."""
        found, given = Found.of(KnownPlaces.of(self.known, self.levels, counts), self.parameters), self.parameters
        shown, miss = found.shown, 1 - self.confidence
        model = GapNoise.of(given, found.tops, shown)
        layers = choose_layers(shown, model.rest_variance(shown), given.alphas, given.betas, weights=self.weights)
        measured = measure(layers, *found.people(layers.marked))
        estimates = np.maximum(estimate_nodes(shown, measured, model), found.cells)
        bounds = node_bounds(shown, layers, measured, given, found.tops, miss=miss).around(estimates)
        hidden = hidden_weight(given, self.levels, counts.tree.depth, miss)
        return found.release(estimates, bounds, self.confidence, statement, hidden=hidden)


def hidden_weight(parameters: PartitionParameters, levels: tuple[int, ...], depth: int, miss: float) -> float:
    """`hidden_bound` of all fringes; `inf` where levels are not shown."""
    if len(levels) < depth:
        return math.inf
    fringes = [fringe for fringe in parameters.fringes if fringe.levels]
    return max((hidden_bound(fringe, miss) for fringe in fringes), default=0.0)


@dataclass(frozen=True)
class GapNoise:
    """By shown node: the mean and variance of the noise of its gap or noisy rest, and its fringe's threshold."""

    shift: Floats
    spread: Floats
    threshold: Floats
    lost: Floats
    """An allowance for tokens subtracted from hidden nodes near the threshold, of which there may be any number."""

    @classmethod
    def of(cls, parameters: PartitionParameters, tops: Ints, shown: ShownTree) -> GapNoise:
        """As if noise were unbounded: truncation changes it by less than delta."""
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
        """The variance of each node's rest before anything is measured."""
        heard = shown.is_cell | shown.known
        # The gaps of inner nodes count the people of hidden leaves. Per node of the last inner level there are `flow`
        # of them, in groups of less than the threshold, which makes rests vary by about as much as this product.
        inner, last = heard & (shown.levels < shown.depth - 1), shown.at(max(shown.depth - 2, 0))
        flow = np.maximum(shown.gaps[inner], 0).sum() / max(last.stop - last.start, 1)
        flow = np.minimum(flow, self.threshold / 2)
        width = np.maximum((self.threshold / 6) ** 2, flow * (self.threshold - flow))
        return np.where(heard, self.spread, width + LEAST_VARIANCE)


def estimate_nodes(shown: ShownTree, measured: tuple[NoisySums, ...], model: GapNoise) -> Floats:
    """Least squares over gaps, rests and layers, in which every node's rest is one more child of it.

    A gap, or a known node's noisy rest, counts what flows into a node: its rest, and what flows out of shown children
    that are neither cells nor known. The rests of such children have a prior, learned from their level if possible.
    """
    size, named = shown.levels.size, shown.depth <= NAMED
    own, precision, rest, rest_precision = gather(shown, measured)
    heard = shown.is_cell | shown.known
    before, after, passed = (np.zeros((5, size)) for _ in range(3))
    common = np.zeros(size)  # the error of a node's flow that it shares with others: the errors of learned means
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        loud, threshold, gaps, spread = heard[here], model.threshold[here], shown.gaps[here], model.spread[here]
        state = np.array([shown.sum_children(row, level) for row in passed])
        shared = shown.sum_children(common, level)
        gap, loose = gaps - model.shift[here], spread + model.lost[here] ** 2 + shared**2
        lacking = gap - state[_FLOW]
        prior = np.where(loud, np.maximum(lacking, 0.0), _FLOW_MEAN * threshold if named else 0.0)
        width = (threshold * (_FLOW_DEVIATION if named else 0.5)) ** 2 + LEAST_VARIANCE
        width = np.where(loud, np.maximum(np.abs(lacking), threshold) ** 2, width)
        if named:
            # Rests as layers measure them: as the node's count less its children's, and directly.
            with np.errstate(divide="ignore"):
                indirect = np.where(precision[here] > 0, 1 / (1 / precision[here] + state[_PP]), 0.0)
                total = indirect + rest_precision[here]
                noisy = 1 / total
            value = indirect * (own[here] - state[_PEOPLE]) + rest_precision[here] * rest[here]
            value /= np.where(total > 0, total, 1.0)
            sure = _FLOW_DEVIATION * float(threshold.max(initial=0.0))
            if learned := _fit(value, noisy, np.flatnonzero(~loud), sure):
                at, center, extra, error = learned
                prior[at], width[at] = np.clip(center, 0.0, 3 * threshold[at]), max(extra, 0.25)
                shared[at] += error
            for group in _similar_gaps(gaps, shown.is_cell[here]) if 0 < level < shown.depth - 1 else ():
                if learned := _fit(value + state[_FLOW] - gaps, noisy + state[_FF] + spread, group, sure):
                    at, center, extra, _ = learned
                    gap[at], loose[at] = gaps[at] + center, spread[at] + extra + shared[at] ** 2
        common[here] = np.where(loud, 0.0, shared)
        width = np.where(shown.child_counts[here] == 0, _WIDE, width)
        off = (rest[here] - prior) ** 2
        far = off > _FAR**2 * (width + 1 / np.maximum(rest_precision[here], 1 / _WIDE))
        width = np.where(far & (rest_precision[here] > 0), np.maximum(width, off), width)
        known = 1 / width + rest_precision[here]
        state[:_PP] += (prior / width + rest_precision[here] * rest[here]) / known
        state[_PP:] += 1 / known
        before[:, here] = state
        if named:
            _see(state, _FLOW, gap, np.where(loud, 1 / loose, 0.0))
        else:  # a node that is no cell passes up less than its threshold
            loose = np.where(loud, loose, (_FLOW_DEEP * threshold) ** 2 + LEAST_VARIANCE)
            _see(state, _FLOW, np.where(loud, gap, _FLOW_MEAN * threshold), 1 / loose)
        _see(state, _PEOPLE, own[here], precision[here])
        after[:, here] = state
        passed[:, here] = np.where(_OF_FLOW & loud, 0.0, state)
    for level in range(1, shown.depth):
        _descend(shown, level, before, after, heard)
    people: Floats = after[_PEOPLE]
    return people


def _see(state: Floats, which: int, value: Floats, precision: Floats) -> None:
    """Update a state by a measurement of people or of flow; a precision of 0 has no effect."""
    across = state[[_PP, _PF]] if which == _PEOPLE else state[[_PF, _FF]]
    gain = precision / (1 + precision * across[which])
    state[:_PP] += across * (gain * (value - state[which]))
    state[_PP:] -= gain * across[[0, which, 1]] * across[[0, 1 - which, 1]]


def _descend(shown: ShownTree, level: int, before: Floats, after: Floats, heard: Bools) -> None:
    """Update the nodes of a level by what is known of their parents."""
    here, above = shown.at(level), shown.at(level - 1)
    old, child = before[:, above], after[:, here].copy()
    people, flow = after[:_PP, above] - old[:_PP]
    determinant = old[_PP] * old[_FF] - old[_PF] ** 2
    determinant = np.where(determinant > 0, determinant, 1.0)
    whose = shown.parents[here] - above.start
    pull_people = ((old[_FF] * people - old[_PF] * flow) / determinant)[whose]
    pull_flow = np.where(heard[here], 0.0, ((old[_PP] * flow - old[_PF] * people) / determinant)[whose])
    # A cell and a known node pass no flow up, so only the pull on their people reaches them.
    after[:_PP, here] += child[[_PP, _PF]] * pull_people + child[[_PF, _FF]] * pull_flow


def gather(shown: ShownTree, measured: tuple[NoisySums, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    """By node the layers' measurements of its people and of its rest, each a mean and its precision."""
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


def _similar_gaps(gaps: Ints, is_cell: Bools) -> list[Ints]:
    """Cells in groups of similar gaps: the larger a gap, the more hidden nodes below it may have lost tokens."""
    cells = np.flatnonzero(is_cell)
    groups = min(_GROUPS, cells.size // (2 * _FEW))
    return np.array_split(cells[np.argsort(gaps[cells], kind="stable")], max(groups, 1))


def _fit(values: Floats, variances: Floats, at: Ints, sure: float) -> tuple[Ints, float, float, float] | None:
    """Indices, mean, variance and the mean's standard error of noisy numbers; None if that is not below `sure`."""
    at = at[np.isfinite(variances[at])]
    if at.size < _FEW:
        return None
    values, variances = values[at], variances[at]
    center, extra = 0.0, max(float(np.var(values) - variances.mean()), 0.0)
    for _ in range(5):
        weight = 1 / (variances + extra)
        center = float((weight * values).sum() / weight.sum())
        squares = weight**2
        extra = max(float((squares * ((values - center) ** 2 - variances)).sum() / squares.sum()), 0.0)
    error = float((1 / (variances + extra)).sum() ** -0.5)
    return (at, center, extra, error) if error < sure else None


@dataclass(frozen=True)
class PublicEstimator:
    """A public tree: noise on levels, and least squares."""

    tree: Tree
    levels: tuple[int, ...]
    parameters: PartitionParameters
    weights: tuple[float, ...] | None
    confidence: float

    @cached_property
    def wanted(self) -> Bools:
        """Which nodes are measured, level by level: those of shown levels, and leaves above the deepest of these."""
        order = self.tree.level_order
        leaf = np.zeros(self.tree.node_count, dtype=np.bool_)
        leaf[self.tree.leaves] = True
        above = leaf[order.nodes] & (order.levels < self.levels[-1])
        return np.isin(order.levels, self.levels) | above

    @cached_property
    def shown(self) -> ShownTree:
        """The measured nodes; a leaf of another level is moved to the next shown level."""
        order, wanted = self.tree.level_order, self.wanted
        levels = np.searchsorted(self.levels, order.levels[wanted])
        none = np.zeros(levels.size, dtype=np.int64)
        parents = contracted_parents(order.parents, wanted)
        return ShownTree(levels, parents, len(self.levels), none > 0, none == 0, none)

    @cached_property
    def layers(self) -> Layers:
        """One layer per level, with the leaves above it, so that it holds everybody."""
        shown, given = self.shown, self.parameters
        marked, cuts = cut_by_level(shown, list(range(shown.depth)))
        plain = make_layers(shown, marked, cuts, self.shares, given.alphas, given.betas, more=2)
        nobody = np.zeros(0, dtype=np.int64)
        return replace(plain, layers=tuple(replace(layer, rests=nobody) for layer in plain.layers))

    @cached_property
    def shares(self) -> Floats:
        """Shares of epsilon by level: even or balanced, whichever has the smaller maximum error over levels."""
        below, root = self.shown.depth - 1, None
        if below == 0:
            return np.ones(1)
        weight = np.ones(below)
        if self.weights is not None:
            weight[:-1] = self.weights[1:]
            root = self.weights[0] / (self.weights[0] + weight.sum())

        # Nodes with many leaves gain least from least squares and usually hold most people: weighted by leaves.
        leaves = self.shown.totals((self.shown.child_counts == 0).astype(np.float64))

        def errors(shares: Floats) -> Floats:
            variances, levels = self.variances(shares), (self.shown.at(level + 1) for level in range(below))
            return weight * np.sqrt([np.average(variances[here], weights=leaves[here]) for here in levels])

        return share_below_root(errors, np.ones(below), root=root, rounds=12, power=0.7)[0]

    def variances(self, shares: Floats) -> Floats:
        """The variance of each shown node after least squares."""
        slope, shown = float(self.parameters.alphas), self.shown
        precisions = np.array([1 / max(2 * variance(1 / (share * slope)), LEAST_VARIANCE) for share in shares.tolist()])
        leaf = shown.child_counts == 0
        own = np.where(leaf, precisions[::-1].cumsum()[::-1][shown.levels], precisions[shown.levels])
        with np.errstate(divide="ignore", invalid="ignore"):
            return final_variances(shown, np.where(leaf, np.inf, 0.0), own)

    def release(self, leaf_counts: Ints, statement: PrivacyStatement) -> TreeRelease:
        """All nodes."""
        order, shown, layers, wanted = self.tree.level_order, self.shown, self.layers, self.wanted
        halves = saturate.split(leaf_counts.clip(0, saturate.LIMIT))
        high, low = (self.tree.sum(half)[order.nodes[wanted]] for half in halves)
        measured = measure(layers, high, low)
        own, precision, _, _ = gather(shown, measured)
        with np.errstate(divide="ignore"):
            estimates = np.maximum(two_passes(shown, own, precision), 0.0)
        tops = np.full(shown.levels.size, -1)
        bounds = node_bounds(shown, layers, measured, self.parameters, tops, miss=1 - self.confidence).around(estimates)
        estimates, bounds = fill_levels(order.levels, order.parents, wanted, estimates, bounds)
        values, lower, upper = map(order.by_node, (estimates, bounds.lower, bounds.upper))
        return TreeRelease(self.tree, values, lower, upper, self.confidence, statement)


def public_rmses(
    tree: Tree, levels: tuple[int, ...] | None, epsilon: float, d_in: int, weights: Sequence[float] | None = None
) -> dict[int, float]:
    """For each shown level of a public tree the largest RMSE of a node."""
    made = choose_estimator(tree, Budget(epsilon, d_in=d_in), levels=levels, weights=weights)
    assert isinstance(made, PublicEstimator)
    variances = made.variances(made.shares)
    return {level: math.sqrt(variances[made.shown.at(place)].max()) for place, level in enumerate(made.levels)}


def people_at(occupied: Occupied, levels: Ints, places: Ints, wanted: Bools) -> tuple[Ints, Ints]:
    """The people of the wanted nodes, each given by a level and a place at or below it, split in halves."""
    counts = occupied.counts.clip(0, saturate.LIMIT)
    found = np.zeros((2, levels.size), dtype=np.int64)
    # If the sum of all counts fits into one integer, the lower half holds it.
    fits = int(counts.max(initial=0)) * counts.size <= saturate.LIMIT
    halves = [counts] if fits else saturate.split(counts)
    starts, ends = occupied.ranges_of(places[wanted], levels[wanted])
    for half, part in zip(found[2 - len(halves) :], halves, strict=True):
        sums = np.zeros(counts.size + 1, dtype=np.int64)
        np.cumsum(part, out=sums[1:])
        half[wanted] = sums[ends] - sums[starts]
    return found[0], found[1]


def fill_levels(levels: Ints, parents: Ints, wanted: Bools, estimates: Floats, bounds: Bounds) -> tuple[Floats, Bounds]:
    """Numbers for nodes of other levels too: the sum of those below, at most the upper end above."""
    if wanted.all():
        return estimates, bounds
    values, lower, upper, summed = (np.zeros(levels.size) for _ in range(4))
    values[wanted], lower[wanted], upper[wanted] = estimates, bounds.lower, bounds.upper
    below_root = [np.flatnonzero(levels == level) for level in range(1, int(levels.max()) + 1)]
    for here in below_root:
        upper[here] = np.where(wanted[here], upper[here], upper[parents[here]])
    for here in reversed(below_root):
        values[here] = np.where(wanted[here], values[here], np.minimum(summed[here], upper[here]))
        np.add.at(summed, parents[here], values[here])
    return values, Bounds(lower, upper)


def check_levels(depth: int, levels: Iterable[int] | None, *, root: bool = True) -> tuple[int, ...]:
    """The levels that are shown, ascending, by default with the root's."""
    if levels is None:
        return tuple(range(depth))
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise TypeError(f"levels ({levels!r}) must be a sequence of levels. Hint: [1, 3], where the root's level is 0")
    wanted = {check_integer(level, name="levels", least=0) for level in levels}
    if not wanted or max(wanted) >= depth:
        raise ValueError(f"levels ({sorted(wanted)}) must be some of 0 to {depth - 1}. Hint: the root's level is 0")
    return tuple(sorted(wanted | {0} if root else wanted))


def check_weights(depth: int, weights: Sequence[float] | None) -> tuple[float, ...] | None:
    """One weight for each shown level above the deepest, or None for the default."""
    if weights is None:
        return None
    if depth > NAMED:
        raise ValueError(f"weights must not be given for a tree of more than {NAMED} levels, found {depth}")
    if len(weights) != max(depth - 1, 1):
        raise ValueError(f"weights ({len(weights)} numbers) must be {depth - 1}, one for each level above the deepest")
    checked = tuple(float(check_positive(one, name="weights")) for one in weights)
    if not all(1e-6 <= one <= 1e6 for one in checked):
        raise ValueError("weights must be from 1e-6 to 1e6. Hint: they are relative to each other")
    return checked
