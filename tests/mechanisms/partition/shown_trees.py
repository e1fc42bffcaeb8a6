"""Random trees of shown nodes, as any set of cells makes them."""

import numpy as np

from opendp_tree.mechanisms.partition.layers import ShownTree


def shown_tree(rng, depth, width, *, chance=0.5):
    """A tree in which every node without children is a cell, and others are with a chance."""
    levels, parents = [0], [-1]
    above = [0]
    for level in range(1, depth):
        here = []
        for place in above:
            for _ in range(int(rng.integers(0, width + 1))):
                here.append(len(levels))
                levels.append(level)
                parents.append(place)
        above = here
    levels, parents = np.array(levels), np.array(parents)
    childless = np.bincount(parents[1:], minlength=levels.size) == 0
    is_cell = childless | (rng.random(levels.size) < chance)
    gaps = np.where(is_cell, rng.integers(16, 60, levels.size), 0)
    return ShownTree(levels, parents, gaps, is_cell, depth)
