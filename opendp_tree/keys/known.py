"""Known names of a key: paths, trees and earlier releases as nodes of its open tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from opendp_tree.keys.key import KeyKind, brief
from opendp_tree.keys.lookup import is_label
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.nodes import KnownNodes, joined_paths, level_of
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

_HINT = "Hint: known=[('be', 'ghent'), ('lu',)], a Tree, an earlier release, or a list of these"


def read_known(key: KeyKind, known: Any, closed: Any) -> KnownNodes | None:
    """The nodes of the key's open tree that are known; None if the root alone is, and is open."""
    if key.tree is not None:
        raise ValueError("known and closed must be left out with tree, all of whose nodes are known and closed")
    if known is None:
        raise ValueError("closed must come with known: it promises that no other names exist. Hint: known=[...]")
    tree, paths, shut = key.open_tree(), list[Path](), list[Path]()
    for source in _sources(known):
        if isinstance(source, KnownNodes):
            if source.tree != tree:
                raise ValueError(f"known: nodes of {source.tree} must be those of the key, {tree}")
            paths += source.paths
            shut += [path for path, is_closed in zip(source.paths, source.closed, strict=True) if is_closed]
        elif isinstance(getattr(source, "tree", source), Tree):
            paths += _paths_of_tree(key, getattr(source, "tree", source))
        elif hasattr(source, "statement"):
            paths += _paths_of_release(tree, source)
        else:
            paths.append(key.known_path(source))
    check_labels(key, tree, paths)
    nodes = KnownNodes.of(tree, paths)
    shut += _closed_paths(key, nodes, closed)
    if len(nodes.paths) == 1 and not shut:
        return None
    # Nothing is below the deepest level, nor below the leaf outside.
    leaves = [path for path in nodes.paths if level_of(tree, path) == tree.depth - 1 or path == (OUTSIDE,)]
    return KnownNodes.of(tree, nodes.paths, closed=[*shut, *leaves])


def check_labels(key: KeyKind, tree: OpenTree, paths: Iterable[Path], kinds: Mapping[str, str] | None = None) -> None:
    """Paths must have labels that rows can have: by the key alone, or by what its columns hold."""
    if tree.kind == "bits":  # `KnownNodes` checks prefixes
        return
    levels = key.levels
    for path in paths:
        if len(path) > len(levels):
            hint = f"Hint: the levels are {', '.join(key.names[:5])}"
            raise ValueError(f"known: {brief(path)} must have at most {len(levels)} labels, one per level. {hint}")
        for level, label in zip(levels, path, strict=False):
            kind = level.kind if level.column is None else (kinds or {}).get(level.column, "any")
            accepts = level.accepts if kinds is None else None  # checked when the key was made
            if label is None or (is_label(label, kind) and (accepts is None or accepts(label))):
                continue
            expected = "a text, an integer, a truth value or a date" if kind == "any" else kind
            raise ValueError(
                f"known: {brief(label)} ({type(label).__name__}) can never be a label of {level.name!r} ({expected}): "
                "no row would reach it. Hint: labels as frames of a release show them, or cast the column"
            )


def _sources(known: Any) -> list[Any]:
    if isinstance(known, (KnownNodes, Tree)) or hasattr(known, "statement"):
        return [known]
    if isinstance(known, (str, bytes, tuple)) or not isinstance(known, Iterable):
        raise TypeError(f"known ({type(known).__name__}) must be a list of names. {_HINT}")
    return list(known)


def _paths_of_tree(key: KeyKind, tree: Tree) -> Iterator[Path]:
    """The paths of all nodes of a public tree but its leaf for rows outside."""
    key.check_tree(tree, name="known: a tree")
    order, labels = tree.level_order, tree.labels or ()
    paths = joined_paths(order.levels, order.parents, [labels[node] for node in order.nodes.tolist()])
    return (key.prefix_of(path) for path in paths if path != (OUTSIDE,))


def _paths_of_release(tree: OpenTree, release: Any) -> list[Path]:
    """The paths of the nodes that a `TreeRelease` of an open tree shows."""
    nodes, earlier = release.nodes, release.tree
    if tree.kind == "bits":
        same = (earlier.kind, earlier.width, earlier.stride) == (tree.kind, tree.width, tree.stride)
    else:
        names = tree.names[: len(earlier.names)]
        same = (earlier.kind, earlier.separator, earlier.names) == (tree.kind, tree.separator, names)
    if not same or earlier.depth > tree.depth:
        hint = "Hint: a release by the same key, or by its first columns"
        raise ValueError(f"known: a release of {earlier} must be one of the key's levels, {tree}. {hint}")
    paths = nodes.paths()
    if nodes.outside >= 0 and not tree.outside:
        paths[nodes.outside] = (0, 0)
    shown = range(nodes.size) if release.shown is None else np.flatnonzero(release.shown).tolist()
    return [paths[index] for index in shown]


def _closed_paths(key: KeyKind, nodes: KnownNodes, closed: Any) -> list[Path]:
    """The known nodes all of whose children are known: all nodes, those above some levels, or some paths."""
    if closed is None or closed is False:
        return []
    if closed is True:
        return list(nodes.paths)
    if isinstance(closed, (str, bytes, tuple)) or not isinstance(closed, Iterable):
        hint = f"Hint: closed=[{key.names[0]!r}]"
        raise TypeError(f"closed ({brief(closed)}) must be True, or a list of levels and paths. {hint}")
    paths: list[Path] = []
    for part in closed:
        if isinstance(part, tuple):
            if part not in nodes.paths:
                raise ValueError(f"closed: {brief(part)} must be the path of a known node. Hint: add it to known")
            paths.append(part)
        elif level := key.level_number(part, name="closed"):
            paths += [path for path in nodes.paths if level_of(nodes.tree, path) < level]
        else:
            raise ValueError("closed: the root's level (0) has no other node. Hint: () closes the root")
    return paths
