"""Where the people of a tree are: the one form in which sparse mechanisms see public and open trees alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opendp_tree._types import Ints, Levels


@dataclass(frozen=True)
class Places:
    """Some nodes of a tree in depth-first order: a node comes before those below it."""

    levels: Levels
    meets: Levels

    def nodes_at(self, level: int) -> tuple[Ints, Ints]:
        """The nodes of a level with places at or below them: the first place of each, and the place after its last."""
        starts = np.flatnonzero(self._joins < level)
        ends = np.append(starts, self.levels.size)[1:]
        real = self.levels[starts] >= level  # a place above this level stands alone between two others
        return starts[real], ends[real]

    def first_places(self, places: Ints, levels: Ints) -> Ints:
        """The first place of the node at each level that is at or above each place."""
        joins, firsts = self._joins, places.copy()
        later = np.flatnonzero(joins[places] >= levels)  # mechanisms know nodes by their first places: mostly none
        for level in np.unique(levels[later]).tolist():
            here = later[levels[later] == level]
            starts = np.flatnonzero(joins < level)
            firsts[here] = starts[np.searchsorted(starts, places[here], side="right") - 1]
        return firsts

    def ranges_of(self, places: Ints, levels: Ints) -> tuple[Ints, Ints]:
        """The node at each level that is at or above each place: its first place, and the place after its last."""
        firsts, ends = places.copy(), places + 1
        joins, starts = self._joins, None
        for level in np.unique(levels)[::-1].tolist():  # what parts nodes of a level parts those below it, too
            starts = np.flatnonzero(joins < level) if starts is None else starts[joins[starts] < level]
            here = np.flatnonzero(levels == level)
            after = np.searchsorted(starts, places[here], side="right")
            firsts[here] = starts[after - 1]
            ends[here] = np.where(after < starts.size, starts[np.minimum(after, starts.size - 1)], joins.size)
        return firsts, ends

    @cached_property
    def _joins(self) -> Levels:
        """For each place the level of the deepest node that holds it and the place before; -1 for the first."""
        small: type[np.signedinteger[Any]] = np.int16 if int(self.meets.max(initial=0)) < 2**15 else np.int64
        joins: Levels = np.empty(self.levels.size, dtype=small)
        joins[:1] = -1
        joins[1:] = self.meets
        return joins


@dataclass(frozen=True)
class Occupied(Places):
    """The places with people."""

    counts: Ints
    ids: Ints | None = None
    """What a public tree calls each place: a node id. By default None: places are rows among sorted keys."""


def meets_between(meets: Levels, places: Ints) -> Ints:
    """The level of the deepest node that holds each of some places and the next of them."""
    if places.size < 2:
        return places[:0]
    edges = np.column_stack((places[:-1], places[1:])).ravel()
    lowest = np.minimum.reduceat(np.append(meets, np.zeros(1, meets.dtype)), edges)[::2].astype(np.int64)
    return np.where(places[1:] > places[:-1], lowest, np.iinfo(np.int64).max)
