"""Where the people of a tree are: the one form in which sparse mechanisms see public and open trees alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Occupied:
    """The places with people, in depth-first order: an inner place comes before those below it.

    `meets[i]` is the level of the deepest node that holds both place i and place i + 1. Between them, levels and
    meets say all about the shape of the tree that the people span.
    """

    levels: Ints
    meets: Ints
    counts: Ints
    names: Ints
    """What the tree calls each place: a node id, or a row among the sorted keys."""

    def nodes_at(self, level: int) -> tuple[Ints, Ints]:
        """The nodes of a level with people at or below them: the first place of each, and the place after its last.

        >>> two = np.array([2, 2, 1])  # places ("a", "x"), ("a", "y") and ("b",)
        >>> Occupied(two, np.array([1, 0]), np.array([5, 5, 5]), np.arange(3)).nodes_at(1)
        (array([0, 2]), array([2, 3]))
        """
        joins = np.concatenate(([-1], self.meets)) if self.levels.size else self.meets
        starts = np.flatnonzero(joins < level)
        ends = np.append(starts, self.levels.size)[1:]
        real = self.levels[starts] >= level  # people at a node above this level stand alone between two others
        return starts[real], ends[real]
