"""Labels of a public tree: what levels are called, trees that paths describe, and the nodes that paths lead to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree import saturate
from opendp_tree._arguments import is_text
from opendp_tree._types import Ints

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree

_FIRST = ("level", "estimate", "lower", "upper", "cells", "shown", "path", "other", "counted")
RESERVED = (*_FIRST, "node", "prefix", "bits", "gap")
"""What a release's frame calls its own columns."""
FIGURES = ("sum", "sum_lower", "sum_upper", "mean", "mean_lower", "mean_upper")
"""What a release's frame has for each value."""


def check_names(names: Iterable[str] | None, *, count: int | None = None) -> tuple[str, ...]:
    """What frames call the label of each level below the root."""
    if names is None:
        return tuple(f"label_{number}" for number in range(1, (count or 0) + 1))
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names ({names!r}) must be a collection of texts. Hint: wrap a single name: [name]")
    given = tuple(names)
    for name in given:
        if type(name) is not str:
            raise TypeError(f"names: {name!r} must be a text")
        if not name or not is_text(name):
            raise ValueError(f"names: {name!r} must be a text of at least one letter that can be written as UTF-8")
        if name in RESERVED:
            raise ValueError(f"names: {name!r} must not be one of {', '.join(RESERVED)}: columns of every release")
    if len(set(given)) < len(given):
        raise ValueError(f"names ({', '.join(given)}) must be distinct")
    if count is not None and len(given) != count:
        raise ValueError(f"names ({', '.join(given)}) must be {count}, one for each level below the root")
    return given


def figure_names(columns: Sequence[str]) -> list[str]:
    """What a release's frame calls the figures of its values: with several, the name of each stands before them."""
    return [f"{column}_{name}" if len(columns) > 1 else name for column in columns for name in FIGURES]


def check_figure_names(columns: Sequence[str], names: Sequence[str]) -> None:
    """That the figures of values and the levels of a tree have names of their own."""
    figures = figure_names(columns)
    taken = [name for name in figures if name in (*names, *RESERVED)]
    if taken or len(set(figures)) < len(figures):
        raise ValueError(
            f"value: the release would have two columns {(taken or figures)[0]!r}. Hint: rename the column of the data"
        )


Label = str | int | bool | date | None
Path = tuple[Label, ...]
OUTSIDE = "(outside)"
"""The label of the leaf for what belongs to no other."""


def tagged_label(label: Any) -> tuple[type, Any]:
    """A key for dictionaries that keeps 1, True and "1" apart."""
    if isinstance(label, np.generic):
        label = label.item()
    return type(label), label


def read_paths(paths: Iterable[Sequence[Label]]) -> tuple[list[int], list[Label]]:
    """Each node's parent and label, the implied root first; leaves come in the order of their paths."""
    parents: list[int] = [-1]
    labels: list[Label] = [None]
    nodes: dict[tuple[int, Hashable], int] = {}
    leaves: set[int] = set()
    inner: set[int] = set()
    for path in paths:
        if isinstance(path, str) or not isinstance(path, Sequence):
            raise TypeError(f"paths must hold tuples of labels, found {path!r}. Hint: wrap a single label: (label,)")
        node = 0
        for given in path:
            label = given.item() if isinstance(given, np.generic) else given
            if not isinstance(label, (str, int, date, type(None))):
                raise TypeError(f"paths: label {label!r} must be a str, int, bool, date or None")
            inner.add(node)
            parent, node = node, nodes.setdefault((node, tagged_label(label)), len(parents))
            if node == len(parents):
                parents.append(parent)
                labels.append(label)
        if node in leaves:
            raise ValueError(f"paths: {tuple(path)!r} occurs twice")
        leaves.add(node)
    if not leaves:
        raise ValueError("paths must hold at least one path")
    if leaves & inner:
        node = min(leaves & inner)
        names: list[Label] = []
        while node:
            names.append(labels[node])
            node = parents[node]
        raise ValueError(f"paths: {tuple(reversed(names))!r} is both a leaf and an inner node")
    return parents, labels


class NodeIndex:
    """Finds the nodes of a tree by path, and its leaves by node id, by path or by a label that no other leaf has."""

    def __init__(self, tree: Tree) -> None:
        """Look up all children and leaves once."""
        self._has_labels = tree.labels is not None
        labels: Any = range(tree.node_count) if tree.labels is None else tree.labels
        self._root, self._leaves = tree.root, set(tree.leaves.tolist())
        self._children: dict[tuple[int, Hashable], int] = {
            (parent, tagged_label(labels[node])): node
            for node, parent in enumerate(tree.parents.tolist())
            if parent >= 0
        }
        self._names: dict[Hashable, int] = {}
        for leaf in tree.leaves.tolist() if self._has_labels else ():
            name = tagged_label(labels[leaf])
            self._names[name] = -1 if name in self._names else leaf

    def find(self, path: tuple[Any, ...]) -> int:
        """The id of the node that a path leads to; -1 if there is none."""
        node = self._root
        for label in path:
            try:
                node = self._children.get((node, tagged_label(label)), -1)
            except TypeError:  # what cannot be a key is no label
                return -1
        return node

    def leaf_ids(self, keys: Iterable[Any]) -> Ints:
        """The node id that each key gives or stands for; -1 where it is no leaf's path or label."""
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
        return np.fromiter((self._leaf_id(key) for key in keys), dtype=np.int64)

    def _leaf_id(self, key: Any) -> int:
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return int(key) if abs(int(key)) < 2**62 else -1
        try:
            if isinstance(key, tuple):
                node = self.find(key) if self._has_labels else -1
                return node if node in self._leaves else -1
            return self._names.get(tagged_label(key), -1)
        except Exception:  # a key that cannot be looked up, for whatever reason of its own, is no leaf
            return -1
