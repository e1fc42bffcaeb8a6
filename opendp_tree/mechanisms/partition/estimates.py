"""Point estimates for all shown nodes: least squares over gaps and layers, in one pass up and one down.

Two numbers are carried along for each node: its people, and its *flow*, those of them whom no cell at or below it
holds. A cell's gap tells what flows into it, and nothing flows out; what is not yet in a cell flows on, to be counted
once, by the gap of the cell that takes it up or by the node's own rest. So a gap is never counted twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opendp_tree._types import Bools, Floats
from opendp_tree.mechanisms.partition.layers import LEAST_VARIANCE, CellNoise, Measured, ShownTree

FLOW_MEAN, FLOW_DEVIATION = 0.35, 0.25
"""What flows out of a shown node that is no cell: guessed, in thresholds."""
SURPRISE = 4.0
"""A count further than this from what the nodes below let expect, in deviations, says that they err more than was told.

Gaps of cells that were hardly shown, and guesses of what no cell holds, err all to one side, and such errors add up.
"""
CROWD = 64
"""With fewer cells at or below a node there is not enough to add up: a surprise is rather the count's own noise."""
_WIDE = 1e12


class _State:
    """Means and covariances of (people, flow) for a set of nodes."""

    def __init__(self, size: int) -> None:
        self.people, self.flow = np.zeros(size), np.zeros(size)
        self.pp, self.pf, self.ff = np.zeros(size), np.zeros(size), np.zeros(size)

    def take(self, here: slice) -> _State:
        part = _State(0)
        for name, values in vars(self).items():
            setattr(part, name, values[here].copy())
        return part

    def put(self, here: slice, part: _State) -> None:
        for name, values in vars(part).items():
            getattr(self, name)[here] = values

    def see_people(self, value: Floats, precision: Floats, crowd: Bools) -> None:
        """Take in a measurement of the people; a precision of 0 is none."""
        needed = ((value - self.people) / SURPRISE) ** 2 * precision - 1  # of the variance, over that of the noise
        doubt = np.where(crowd, np.maximum(1.0, needed / np.maximum(precision * self.pp, 1e-12)), 1.0)
        self.pp, self.pf, self.ff = doubt * self.pp, doubt * self.pf, doubt * self.ff
        self._take_in(value, precision)

    def _take_in(self, value: Floats, precision: Floats) -> None:
        gain = precision / (1 + precision * self.pp)
        step = gain * (value - self.people)
        self.people, self.flow = self.people + self.pp * step, self.flow + self.pf * step
        pp, pf = self.pp, self.pf
        self.pp, self.pf, self.ff = pp - gain * pp * pp, pf - gain * pp * pf, self.ff - gain * pf * pf

    def see_flow(self, value: Floats, precision: Floats) -> None:
        """Take in a measurement of the flow."""
        self.people, self.flow, self.pp, self.ff = self.flow, self.people, self.ff, self.pp
        self._take_in(value, precision)
        self.people, self.flow, self.pp, self.ff = self.flow, self.people, self.ff, self.pp


@dataclass(frozen=True)
class _Evidence:
    """By node: the sums of precision and of precision times value of all noisy counts of it, and of its rest."""

    people: Floats
    people_precision: Floats
    rest: Floats
    rest_precision: Floats


def estimate_nodes(
    shown: ShownTree, measured: tuple[Measured, ...], local_rest: Bools, is_leaf: Bools, model: CellNoise
) -> Floats:
    """The estimates of all shown nodes."""
    if shown.levels.size == 0:
        return np.zeros(0)
    evidence = _gather(shown.levels.size, measured, local_rest)
    flows = _Flows(shown.gaps + _shift(shown, measured, is_leaf, model), gap_variance(shown, is_leaf, model))
    crowds = shown.totals(shown.is_cell.astype(np.float64)) > CROWD
    before, after = _State(shown.levels.size), _State(shown.levels.size)
    for level in reversed(range(shown.depth)):
        _ascend(shown, level, evidence, flows, crowds, model, before, after)
    for level in range(shown.depth - 1):
        _descend(shown, level, before, after)
    return after.people


@dataclass(frozen=True)
class _Flows:
    """By cell: what flows into it, as its gap tells, and the variance of that."""

    value: Floats
    variance: Floats


def gap_variance(shown: ShownTree, is_leaf: Bools, model: CellNoise) -> Floats:
    """How far what flows into a cell may be from its gap, squared."""
    taken = np.where(is_leaf, 0.0, model.token_mean * shown.gaps / model.threshold) / 2
    return model.variance(is_leaf) + taken**2 + model.spread * shown.gaps


def _shift(shown: ShownTree, measured: tuple[Measured, ...], is_leaf: Bools, model: CellNoise) -> Floats:
    """What to add to gaps, so that all cells together hold the people that the layers count."""
    shift, inner = model.shift(is_leaf), shown.is_cell & ~is_leaf
    number = np.count_nonzero(inner)
    if number == 0 or not measured:
        return shift
    sets = [part.whole.size + part.rest.size for part in measured]
    precision = np.array([_precision(part.layer.scale) for part in measured]) / sets
    people = np.array([float(part.whole.sum()) + float(part.rest.sum()) for part in measured])
    lacking = (precision @ people) / precision.sum() - (shown.gaps + shift)[shown.is_cell].sum()
    if not shown.is_cell[0]:
        lacking -= FLOW_MEAN * model.threshold
    spread = 1 / precision.sum() + gap_variance(shown, is_leaf, model)[shown.is_cell].sum()
    known = (2 * number * model.token_mean) ** 2
    return shift + np.where(inner, lacking / number * known / (known + spread), 0.0)


def _precision(scale: float) -> float:
    """One over the variance of Laplace noise."""
    q = math.exp(-1 / scale)
    return 1 / max(2 * q / (1 - q) ** 2, LEAST_VARIANCE)


def _gather(size: int, measured: tuple[Measured, ...], local_rest: Bools) -> _Evidence:
    sums = _Evidence(*(np.zeros(size) for _ in range(4)))
    for part in measured:
        precision = _precision(part.layer.scale)
        sums.people[part.layer.nodes] += precision * part.whole
        sums.people_precision[part.layer.nodes] += precision
        local = local_rest[part.layer.rests]
        sums.rest[part.layer.rests[local]] += precision * part.rest[local]
        sums.rest_precision[part.layer.rests[local]] += precision
    return sums


def _ascend(
    shown: ShownTree,
    level: int,
    evidence: _Evidence,
    flows: _Flows,
    crowds: Bools,
    model: CellNoise,
    before: _State,
    after: _State,
) -> None:
    """What the nodes at and below each node of a level say of it: `before` and `after` its own gap and counts."""
    here = shown.at(level)
    if here.stop == here.start:
        return
    cell, gap = shown.is_cell[here], flows.value[here]
    state = _State(0)
    for name in vars(state):
        values = getattr(after, name)
        if name not in ("people", "pp"):  # nothing flows out of a cell
            values = np.where(shown.is_cell, 0.0, values)
        setattr(state, name, shown.sum_children(values, level))
    spread = _rest_spread(cell, gap - state.flow, model.threshold)
    spread = np.where(shown.child_counts[here] == 0, _WIDE, spread)
    precision = 1 / spread + evidence.rest_precision[here]
    rest, variance = evidence.rest[here] / precision, 1 / precision
    state.people, state.flow = state.people + rest, state.flow + rest
    state.pp, state.pf, state.ff = state.pp + variance, state.pf + variance, state.ff + variance
    before.put(here, state)
    guess, deviation = FLOW_MEAN * model.threshold, FLOW_DEVIATION * model.threshold
    state.see_flow(np.where(cell, gap, guess), 1 / np.where(cell, flows.variance[here], deviation**2))
    known = evidence.people_precision[here]
    state.see_people(evidence.people[here] / np.where(known > 0, known, 1.0), known, crowds[here])
    after.put(here, state)


def _rest_spread(cell: Bools, lacking: Floats, threshold: float) -> Floats:
    """How much a rest may be, squared, before it is measured: a cell's may well be all that its children lack."""
    found: Floats = np.where(cell, np.maximum(threshold, np.abs(lacking)), threshold / 2) ** 2
    return found


def _descend(shown: ShownTree, level: int, before: _State, after: _State) -> None:
    """Hand what is known of the nodes of a level down to their children."""
    above, here = shown.at(level), shown.at(level + 1)
    if here.stop == here.start:
        return
    old, new, child = before.take(above), after.take(above), after.take(here)
    people, flow = new.people - old.people, new.flow - old.flow
    determinant = old.pp * old.ff - old.pf**2
    determinant = np.where(determinant > 0, determinant, 1.0)  # 0 for a node without children, whom nobody asks
    pull_people = ((old.ff * people - old.pf * flow) / determinant)[shown.parents[here] - above.start]
    pull_flow = ((old.pp * flow - old.pf * people) / determinant)[shown.parents[here] - above.start]
    cell = shown.is_cell[here]
    # A cell passes no flow up, so only the pull on its people reaches it.
    child_flow = child.flow + child.pf * pull_people + np.where(cell, 0.0, child.ff * pull_flow)
    child_people = child.people + child.pp * pull_people + np.where(cell, 0.0, child.pf * pull_flow)
    after.people[here], after.flow[here] = child_people, child_flow
