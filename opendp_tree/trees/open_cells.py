"""The released cells of an open tree, and the nodes above them: nothing here knows more than the cells' prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_nodes import OpenNodes, nested_parents
from opendp_tree.trees.open_tree import BitKeys, OpenTree, SparseCounts

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CellKeys:
    """Prefixes of cells in depth-first order: as words for bits, as one column of labels a level otherwise."""

    tree: OpenTree
    levels: Ints
    meets: Ints
    """For each cell but the last, the level of the deepest node that holds it and the next."""
    words: BitKeys | None
    columns: tuple[Any, ...]

    def shown(self) -> tuple[Ints, Ints, Ints]:
        """All nodes with a cell at or below them, level by level: their level, and their range of cells."""
        cells = Occupied(self.levels, self.meets, np.ones_like(self.levels), np.arange(self.levels.size))
        nodes = [cells.nodes_at(level) for level in range(self.tree.depth)]
        parts = [(np.full(starts.size, level), starts, ends) for level, (starts, ends) in enumerate(nodes)]
        levels, firsts, lasts = (np.concatenate(part) for part in zip(*parts, strict=True))
        return levels, firsts, lasts

    def nodes(self, rows: Ints, levels: Ints) -> OpenNodes:
        """The ancestors at `levels` of the cells `rows`, which must come level by level and hold all above them."""
        parents = nested_parents(levels, rows)
        if self.words is not None:
            return OpenNodes(levels, parents, words=self.words[rows].first(self.tree.bits_at(levels)))
        from opendp_tree.trees.label_codes import decode

        labels = tuple(decode(column, rows[levels == level]) for level, column in enumerate(self.columns, start=1))
        return OpenNodes(levels, parents, labels)


def cell_keys(counts: SparseCounts, places: Ints, levels: Ints) -> tuple[CellKeys, Ints]:
    """The prefixes of the nodes at `levels` above `places`, in depth-first order; and that order."""
    tree, keys = counts.tree, counts.keys
    if isinstance(keys, BitKeys):
        words = keys[places].first(tree.bits_at(levels))
        order = np.lexsort((levels, words.low, words.high))
        words, levels = words[order], levels[order]
        common = words[1:].common_bits(words[:-1]) // tree.stride
        meets = np.minimum(common, np.minimum(levels[1:], levels[:-1]))
        return CellKeys(tree, levels, meets, words, ()), order
    from opendp_tree.trees.label_codes import decode

    codes = np.where(np.arange(len(keys.labels)) < levels[:, None], keys.codes[places], -1)
    order = np.lexsort(codes.T[::-1])
    codes = codes[order]
    meets = np.argmax(codes[1:] != codes[:-1], axis=1)
    columns = tuple(decode(labels, column) for labels, column in zip(keys.labels, codes.T, strict=True))
    columns += tuple(columns[-1].clear(len(codes)) for _ in range(tree.depth - 1 - len(columns)))  # no key is so deep
    return CellKeys(tree, levels[order], meets, None, columns), order
