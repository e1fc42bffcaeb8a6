"""Keys to the leaves of a public tree."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree import saturate
from opendp_tree._types import Ints
from opendp_tree.trees.paths import tagged_label

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree


class LeafIndex:
    """Finds the leaves of a tree by node id, by path, and by their own labels where no two share one."""

    def __init__(self, tree: Tree) -> None:
        """Look up all paths once.

        Parameters
        ----------
        tree
            The tree.
        """
        self._has_labels = tree.labels is not None
        self._paths: dict[Hashable, int] = {}
        self._names: dict[Hashable, int] = {}
        if tree.labels is None:
            return
        for leaf, path in zip(tree.leaves.tolist(), tree.paths(), strict=True):
            self._paths[tuple(map(tagged_label, path))] = leaf
            name = tagged_label(tree.labels[leaf])
            self._names[name] = -1 if name in self._names else leaf

    def ids(self, keys: Iterable[Any]) -> Ints:
        """The node id that each key gives or stands for; -1 where it is no leaf's path or label.

        Parameters
        ----------
        keys
            As for `Tree.count`.
        """
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a collection of keys, found one string. Hint: pass [key]")
        if isinstance(keys, np.ndarray):
            if keys.ndim != 1:
                raise ValueError(f"keys must be one-dimensional, found {keys.ndim} dimensions")
            if keys.dtype.kind in "iu":
                return saturate.clamp(keys)
            if keys.dtype.kind not in ("OUbM" if self._has_labels else "O"):
                raise TypeError(f"keys ({keys.dtype}) must be node ids" + (" or labels" if self._has_labels else ""))
            keys = keys.tolist()
        return np.fromiter((self._id(key) for key in keys), dtype=np.int64)

    def _id(self, key: Any) -> int:
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return int(key) if abs(int(key)) < 2**62 else -1
        try:
            if isinstance(key, tuple):
                return self._paths.get(tuple(map(tagged_label, key)), -1)
            return self._names.get(tagged_label(key), -1)
        except Exception:  # a key that cannot be looked up, for whatever reason of its own, is no leaf
            return -1
