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
