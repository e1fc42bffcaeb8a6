"""The worst-case alpha-mRMSE of a mechanism, measured: bad situations, each repeated thousands of times in one tree.

The alpha-RMSE of a node is sqrt(E[max(|estimate - w| - alpha * w, 0)**2]); the alpha-mRMSE is the largest over nodes
and inputs. A battery is one input whose branches below the root realise the situations known to be bad. Branches are
disjoint, so one run gives as many independent samples of a situation as there are copies of it. The root, and with it
whatever its own test does, is left out: where the root matters, measure with a battery that is one level deeper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from opendp_tree import Tree
from opendp_tree._types import Floats, Ints

FEWEST = 200
"""Groups with fewer samples are not looked at: their largest would be chance."""


@dataclass(frozen=True)
class Shape:
    """A branch below the root: a chain, or a caterpillar, each of whose inner nodes has a leaf beside the next node."""

    chain: int
    caterpillar: bool = False

    @property
    def parents(self) -> list[int]:
        """For each node of the branch its parent's place in the branch; -1 for the top, whose parent is the root.

        A caterpillar's leaves come after its spine.
        """
        spine = list(range(-1, self.chain - 1))
        return [*spine, *range(self.chain - 1)] if self.caterpillar else spine


@dataclass(frozen=True)
class Situation:
    """A shape, the weight of its deepest leaf, and how many people join a caterpillar at each node above, upwards."""

    shape: Shape
    weight: int
    arrivals: tuple[int, ...] = ()

    def leaves(self) -> list[int]:
        """Leaf counts in the order of the shape's nodes."""
        return [self.weight, *reversed(self.arrivals)]

    def __str__(self) -> str:
        if self.shape.caterpillar:
            return f"caterpillar of {self.shape.chain} from {self.weight}, to {self.weight + sum(self.arrivals)}"
        return f"chain of {self.shape.chain} with {self.weight}"


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
    joining: tuple[int, ...] = (),
    copies: int = 4000,
) -> Battery:
    """Bad situations for a mechanism that shows or marks what reaches a threshold with noise of scale `spread`.

    Chains of one and of all levels, of weights from the least to far above the threshold; and, if the mechanism blurs
    what joins on the way up, the caterpillar that so many people join, the deepest first. Nodes of an open tree exist
    only if somebody is there; on a public tree empty nodes count too.
    """
    around = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 5.0, 8.0])
    weights = {1, threshold // 4, threshold // 2, 20 * threshold, *(threshold + np.rint(spread * around).astype(int))}
    weights = sorted({int(weight) for weight in weights if weight >= 1} | (set() if open else {0}))
    if not joining:
        return _build([(Situation(Shape(depth - 1), weight), copies) for weight in weights])
    # Of a public tree, people outside cells are shared out: among so many empty leaves nobody gets any.
    chosen = [(Situation(Shape(1), weight), copies if weight else 100 * copies) for weight in weights]
    if len(joining) > 1:
        chosen.append((Situation(Shape(len(joining), caterpillar=True), joining[0], joining[1:]), copies))
    if depth > 2:  # for the tree to have its depth
        chosen.append((Situation(Shape(depth - 1), 20 * threshold), FEWEST // 2))
    return _build(chosen)


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


def _build(chosen: Sequence[tuple[Situation, int]]) -> Battery:
    """One tree of all situations; it is kept, because settings that differ in weights alone share it."""
    situations = [situation for situation, _ in chosen]
    plan = tuple((situation.shape, number) for situation, number in chosen)
    tree, tops, ends = _tree(plan)
    leaves = [np.tile(situation.leaves(), number) for situation, number in chosen]
    nodes, groups, names = [], [], []
    for situation, top, end in zip(situations, tops, ends, strict=True):
        places = [("top", top)] if situation.shape.chain == 1 else [("top", top), ("end", end)]
        if situation.shape.caterpillar:
            places = [(f"{step} from its top", top + step) for step in range(situation.shape.chain)]
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
