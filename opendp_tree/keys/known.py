"""Known names of a key: paths, trees and earlier releases as nodes of its open tree."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import is_text
from opendp_tree.trees.known_nodes import KnownNodes, level_of
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import joined_paths
from opendp_tree.trees.tree import Path, Tree

if TYPE_CHECKING:
    from opendp_tree.keys.kind import KeyKind


def brief(value: object) -> str:
    """A value in few letters; Python refuses to write integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return reprlib.repr(value)


_HINT = "Hint: known=[('be', 'ghent'), ('lu',)], a Tree, an earlier release, or a list of these"
_KINDS = {str: "text", int: "integer", bool: "truth", date: "date"}


class AnyColumn(dict[str, str]):
    """What columns hold where no frame says it yet."""

    def __missing__(self, name: str) -> str:
        return "any"


def read_known(key: KeyKind, known: Any, closed: Any) -> KnownNodes | None:
    """The nodes of the key's open tree that are known; None if the root alone is, and is open."""
    if known is None:
        if closed is not None:
            raise ValueError("closed must come with known: it promises that no other names exist. Hint: known=[...]")
        return None
    tree, paths, shut = key.open_tree(), list[Path](), list[Path]()
    for source in _sources(known):
        if isinstance(source, KnownNodes):
            if source.tree != tree:
                raise ValueError(f"known: nodes of {source.tree} must be those of the key, {tree}")
            paths += source.paths
            shut += [path for path, is_closed in zip(source.paths, source.closed, strict=True) if is_closed]
        elif isinstance(source, Tree):
            paths += [key.prefix_of(path) for path in _paths_of_tree(key, source)]
        elif hasattr(source, "statement"):
            paths += _paths_of_release(key, tree, source)
        else:
            paths.append(key.known_path(source))
    kinds = key.label_kinds(AnyColumn())
    for path in paths:
        _check_path(key, tree, path, kinds)
    nodes = KnownNodes.of(tree, paths)
    shut += _closed_paths(key, nodes, closed)
    if len(nodes.paths) == 1 and not shut:
        return None
    # Nothing is below the deepest level, nor below the leaf outside.
    leaves = [path for path in nodes.paths if level_of(tree, path) == tree.depth - 1 or path == (OUTSIDE,)]
    return KnownNodes.of(tree, nodes.paths, closed=[*shut, *leaves])


def _sources(known: Any) -> list[Any]:
    if isinstance(known, (KnownNodes, Tree)) or hasattr(known, "statement"):
        return [known]
    if isinstance(known, (str, bytes, tuple)) or not isinstance(known, Iterable):
        raise TypeError(f"known ({type(known).__name__}) must be a list of names. {_HINT}")
    return list(known)


def _paths_of_tree(key: KeyKind, tree: Tree) -> Iterator[Path]:
    """The paths of all nodes of a public tree, without its leaf for rows that have no place."""
    if tree.labels is None:
        raise ValueError("known: a tree must have labels. Hint: Tree.from_paths")
    if tree.depth > key.depth:
        raise ValueError(
            f"known: a tree (of {tree.depth - 1} levels below its root) must not be deeper than the key "
            f"({key.depth - 1}). Hint: a tree of the key's levels"
        )
    order = tree.level_order
    found = joined_paths(order.levels, order.parents, [tree.labels[node] for node in order.nodes.tolist()])
    return (path for path in found if path != (OUTSIDE,))


def _paths_of_release(key: KeyKind, tree: OpenTree, release: Any) -> list[Path]:
    """The paths of the nodes that a `TreeRelease` shows."""
    nodes = release.nodes
    if nodes is None:
        assert isinstance(release.tree, Tree)
        return [key.prefix_of(path) for path in _paths_of_tree(key, release.tree)]
    earlier = release.tree
    assert isinstance(earlier, OpenTree)
    same = (earlier.kind, earlier.width, earlier.separator) == (tree.kind, tree.width, tree.separator)
    if tree.kind == "bits":
        same = same and earlier.stride == tree.stride
    else:
        same = same and earlier.names == tree.names[: len(earlier.names)] and earlier.depth <= tree.depth
    if not same:
        raise ValueError(
            f"known: a release of {earlier} must be one of the key's levels, {tree}. Hint: a release by the same key, "
            "or by its first columns"
        )
    shown = np.ones(nodes.size, dtype=np.bool_) if release.shown is None else release.shown
    paths = nodes.paths()
    if nodes.outside >= 0 and not tree.outside:
        paths[nodes.outside] = (0, 0)
    return [paths[index] for index in np.flatnonzero(shown).tolist()]


def _check_path(key: KeyKind, tree: OpenTree, path: Any, kinds: tuple[str, ...]) -> None:
    """A path of labels that rows of the key can have, as far as the key alone can tell."""
    if tree.kind == "bits":
        return  # KnownNodes checks prefixes
    if len(path) >= key.depth:
        raise ValueError(
            f"known: {brief(path)} must have at most {key.depth - 1} labels, one per level of the key. "
            f"Hint: the levels are {', '.join(key.names[:5])}"
        )
    for level, (label, kind) in enumerate(zip(path, kinds, strict=False), start=1):
        if label is not None and not key.is_label(level, label, kind):
            what = (
                "a text, an integer, a truth value, a date or None"
                if kind == "any"
                else f"a label that rows can have, of the kind {kind},"
            )
            raise ValueError(
                f"known: {brief(label)} ({type(label).__name__}) must be {what} at level {level} "
                f"({key.names[level - 1]}). Hint: labels as frames of a release show them"
            )


def is_label(label: Any, kind: str) -> bool:
    """Whether a label is of a kind that a column can hold."""
    if kind not in ("any", _KINDS.get(type(label))) or type(label) not in _KINDS:
        return False
    return is_text(label) if isinstance(label, str) else type(label) is not int or -(2**127) <= label < 2**127


def check_known_kinds(key: KeyKind, nodes: KnownNodes, kinds: tuple[str, ...]) -> None:
    """Labels must be of the kinds that the columns of a frame hold."""
    if nodes.tree.kind != "bits":
        for level, kind in enumerate(kinds, start=1):
            for label in {path[level - 1] for path in nodes.paths if len(path) == level} - {None}:
                if not is_label(label, kind):
                    raise ValueError(
                        f"by: the known label {brief(label)} ({type(label).__name__}) can never be one of "
                        f"{key.names[level - 1]!r} ({kind}): no row would reach it. Hint: labels of that type, or cast "
                        "the column"
                    )


def _closed_paths(key: KeyKind, nodes: KnownNodes, closed: Any) -> list[Path]:
    """The known nodes all of whose children are known: all nodes, those above some levels, or some paths."""
    if closed is None or closed is False:
        return []
    if closed is True:
        return list(nodes.paths)
    if isinstance(closed, (str, bytes, tuple)) or not isinstance(closed, Iterable):
        raise TypeError(
            f"closed ({brief(closed)}) must be True, or a list of levels and paths. Hint: closed=[{key.names[0]!r}]"
        )
    found: list[Path] = []
    for part in closed:
        if isinstance(part, tuple):
            if part not in nodes.paths:
                raise ValueError(f"closed: {brief(part)} must be the path of a known node. Hint: add it to known")
            found.append(part)
            continue
        level = key.level_number(part, name="closed")
        if level == 0:
            raise ValueError("closed: the root's level (0) has no other node. Hint: () closes the root")
        found += [path for path in nodes.paths if level_of(nodes.tree, path) < level]
    return found
