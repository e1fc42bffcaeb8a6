"""The worst-case alpha-mRMSE of a mechanism, measured: bad situations, each repeated thousands of times in one tree.

The alpha-RMSE of a node is sqrt(E[max(|estimate - w| - alpha * w, 0)**2]); the alpha-mRMSE is the largest over nodes
and inputs. A battery is one input whose branches below the root realise the situations known to be bad. Branches are
disjoint, so one run gives as many independent samples of a situation as there are copies of it. The root, and with it
whatever its own test does, is left out: where the root matters, measure with a battery that is one level deeper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree import Tree
from opendp_tree.measurements.partition_plan import PartitionPlan

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SMALL_LEAVES = 8
"""A residual is spread over so many leaves, each too light to be found on its own."""
LONGEST_CELL_CHAIN = 8
"""Below a node with cells. Longer chains make lighter cells, by a few per cent, and the tree very much larger."""
MOST_CELLS = 64
CELLS_AND_RESIDUALS = ((0.0, None), (1.5, None), (3.0, -2.0), (6.0, -2.0), (6.0, -0.5))
"""Leaves that become cells, and residuals, in scales from the threshold. Cells must be heavy where there is a residual:
two that were missed would be joined, and the residual with them."""
FEWEST = 200
"""Groups with fewer samples are not looked at: their largest would be chance."""


@dataclass(frozen=True)
class Shape:
    """A branch below the root: one chain, or a node with `cells` chains below it and some small leaves."""

    chain: int
    cells: int = 0

    @property
    def parents(self) -> list[int]:
        """For each node of the branch its parent's place in the branch; -1 for the top, whose parent is the root."""
        if self.cells == 0:
            return list(range(-1, self.chain - 1))
        starts = [1 + cell * self.chain for cell in range(self.cells)]
        chains = [0 if step == 0 else start + step - 1 for start in starts for step in range(self.chain)]
        return [-1, *chains, *[0] * SMALL_LEAVES]


@dataclass(frozen=True)
class Situation:
    """A shape and the weights of its leaves."""

    shape: Shape
    weight: int
    residual: int = 0

    def leaves(self) -> list[int]:
        """Leaf counts in the order of the shape's nodes."""
        if self.shape.cells == 0:
            return [self.weight]
        small, over = divmod(self.residual, SMALL_LEAVES)
        return [self.weight] * self.shape.cells + [small + (place < over) for place in range(SMALL_LEAVES)]

    def __str__(self) -> str:
        if self.shape.cells == 0:
            return f"chain of {self.shape.chain} with {self.weight}"
        return f"{self.shape.cells} chains of {self.shape.chain} with {self.weight} each, and {self.residual}"


@dataclass(frozen=True)
class Battery:
    """A public tree, its leaf counts, and the nodes to look at; nodes of one group are in the same situation."""

    tree: Tree
    counts: Ints
    nodes: Ints
    groups: Ints
    names: tuple[str, ...]

    @property
    def truth(self) -> Ints:
        """The counts of the nodes looked at."""
        return self.tree.sum(self.counts)[self.nodes]


@dataclass(frozen=True)
class Measured:
    """The largest group's alpha-RMSE, its standard error, and which group it was."""

    error: float
    deviation: float
    situation: str
    samples: int


def battery(
    depth: int,
    *,
    alpha: float,
    open: bool,
    threshold: int,
    spread: float,
    count_scale: float | None = None,
    copies: int = 4000,
) -> Battery:
    """Bad situations for a mechanism that shows or marks what reaches a threshold with noise of scale `spread`.

    Chains of one and of all levels, of weights from the least to far above the threshold; and, if the mechanism counts
    cells with noise of `count_scale`, nodes with 1, 2, 4, ... cells below them and a residual. Nodes of an open tree
    exist only if somebody is there; on a public tree empty nodes count too.
    """
    around = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 5.0, 8.0])
    weights = {1, threshold // 4, threshold // 2, 20 * threshold, *(threshold + np.rint(spread * around).astype(int))}
    weights = sorted({int(weight) for weight in weights if weight >= 1} | (set() if open else {0}))
    if count_scale is None:
        chosen = [(Situation(Shape(depth - 1), weight), copies) for weight in weights]
    else:  # a cell on the way keeps its place, so that a node tested once is the worst chain
        chosen = [(Situation(Shape(1), weight), copies) for weight in weights]
        if depth > 2:
            chosen += [
                (Situation(Shape(depth - 1), weight), copies // (2 if depth <= 12 else 4)) for weight in weights[::2]
            ]
            chain = min(depth - 2, LONGEST_CELL_CHAIN)
            chosen += _with_cells(chain, alpha, threshold, spread, count_scale, copies)
    return _build(chosen)


def partition_battery(plan: PartitionPlan, *, alpha: float, open: bool, copies: int = 4000) -> Battery:
    """The battery for a tree partition and its cell counts."""
    shape = plan.shape
    return battery(
        shape.depth,
        alpha=alpha,
        open=open,
        threshold=shape.threshold,
        spread=plan.scale,
        count_scale=plan.count_scale,
        copies=copies,
    )


def level_battery(tree: Tree, counts: Ints) -> Battery:
    """All nodes of a tree, grouped by level: for mechanisms whose errors depend on no count, on a tree that is alike
    everywhere.
    """
    names = tuple(f"level {level}" for level in range(tree.depth))
    return Battery(tree, counts, np.arange(tree.node_count), tree.node_levels, names)


def measured_error(mechanism: Callable[[Any], Any], battery: Battery, *, alpha: float, repeats: int = 1) -> Measured:
    """The largest group's alpha-RMSE in `repeats` runs of a mechanism that takes leaf counts.

    What it gives is a release with `estimates`, or the `nodes` that it shows and their `counts`, or one number a node;
    what is not shown is estimated as 0. The largest of many noisy groups is too large by chance: so the largest is
    chosen on one half of the samples and measured on the other, and the other way round.
    """
    truth = battery.truth.astype(np.float64)
    sizes = np.bincount(battery.groups)
    order = np.argsort(battery.groups, kind="stable")
    squares = []
    for _ in range(repeats):
        release = mechanism(battery.counts)
        error = np.abs(estimates_of(release, battery.tree)[battery.nodes] - truth) - alpha * truth
        squares.append((np.maximum(error, 0) ** 2)[order])
    parts = np.split(np.array(squares), np.cumsum(sizes)[:-1], axis=1)
    groups = {name: part.ravel() for name, part in zip(battery.names, parts, strict=True) if part.size >= FEWEST}
    return _worst(groups)


def estimates_of(release: Any, tree: Tree) -> Floats:
    """One number a node, by id; 0 for what is not shown."""
    if hasattr(release, "estimates"):
        shown = getattr(release, "shown", None)
        return release.estimates if shown is None else np.where(shown, release.estimates, 0.0)
    if hasattr(release, "nodes"):
        found = np.zeros(tree.node_count)
        found[release.nodes] = release.counts
        return found
    return np.asarray(release, dtype=np.float64)


def _worst(groups: dict[str, Floats]) -> Measured:
    names = list(groups)
    halves = [[groups[name][start::2] for name in names] for start in (0, 1)]
    means = np.array([[half.mean() for half in part] for part in halves])
    errors = np.array([[half.std() / math.sqrt(half.size) for half in part] for part in halves])
    # Rare large errors make a group's mean large by chance, and its standard error with it: so less the latter.
    first, second = np.argmax(means - errors, axis=1)
    square = (means[1, first] + means[0, second]) / 2
    spread = math.hypot(errors[1, first], errors[0, second]) / 2
    place = int(np.argmax(means.sum(axis=0) - errors.sum(axis=0)))
    root = math.sqrt(square)  # whose error is that of the square, over twice the root
    return Measured(root, spread / (2 * root) if root > 0 else 0.0, names[place], groups[names[place]].size)


def _with_cells(
    chain: int, alpha: float, threshold: int, spread: float, count_scale: float, copies: int
) -> Iterator[tuple[Situation, int]]:
    """Nodes with cells below. Noise grows as the root of their number, what alpha forgives as the number itself."""
    most = MOST_CELLS if alpha == 0 else min(MOST_CELLS, 4 * (count_scale / (alpha * threshold)) ** 2)
    cells = 1
    while cells == 1 or cells <= most:
        for above, below in CELLS_AND_RESIDUALS:
            residual = 0 if below is None else max(0, threshold + round(below * spread))
            shape = Shape(chain if below is None else 1, cells)  # heavy ones need but one test
            situation = Situation(shape, max(1, threshold + round(above * spread)), residual)
            yield situation, max(2 * FEWEST, copies // max(2, cells // 4))
        cells *= 2 if cells < 4 else 4


def _build(chosen: Sequence[tuple[Situation, int]]) -> Battery:
    """One tree of all situations; it is kept, because settings that differ in weights alone share it."""
    situations = [situation for situation, _ in chosen]
    plan = tuple((situation.shape, number) for situation, number in chosen)
    tree, tops, ends = _tree(plan)
    leaves = [np.tile(situation.leaves(), number) for situation, number in chosen]
    nodes, groups, names = [], [], []
    for situation, top, end in zip(situations, tops, ends, strict=True):
        places = [("top", top)] if situation.shape.cells or situation.shape.chain == 1 else [("top", top), ("end", end)]
        for where, found in places:
            nodes.append(found)
            groups.append(np.full(found.size, len(names)))
            names.append(f"{situation}, {where}")
    return Battery(
        tree, np.concatenate(leaves).astype(np.int64), np.concatenate(nodes), np.concatenate(groups), tuple(names)
    )


@lru_cache(maxsize=4)
def _tree(plan: tuple[tuple[Shape, int], ...]) -> tuple[Tree, list[Ints], list[Ints]]:
    """The tree, and for each shape the tops and the last nodes of its copies."""
    parents, tops, ends = [np.array([-1])], [], []
    first = 1
    for shape, number in plan:
        own = np.array(shape.parents)
        starts = first + own.size * np.arange(number)
        parents.append(np.where(own < 0, 0, own + starts[:, None]).ravel())
        tops.append(starts)
        ends.append(starts + own.size - 1)
        first += own.size * number
    return Tree.from_parents(np.concatenate(parents)), tops, ends
