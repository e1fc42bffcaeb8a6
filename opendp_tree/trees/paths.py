"""Trees given by the label paths of their leaves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

Label = str | int | bool | date | None
Path = tuple[Label, ...]
OUTSIDE = "(outside)"
"""The label of the leaf for what belongs to no other."""


def tagged_label(label: Any) -> tuple[type, Any]:
    """A key for dictionaries that keeps 1, True and "1" apart.

    Parameters
    ----------
    label
        A label, or a NumPy scalar that holds one.
    """
    if isinstance(label, np.generic):
        label = label.item()
    return type(label), label


def read_paths(paths: Iterable[Sequence[Label]]) -> tuple[list[int], list[Label]]:
    """Each node's parent and label, the implied root first; leaves come in the order of their paths.

    Parameters
    ----------
    paths
        The labels of each leaf, from below the root down.
    """
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
