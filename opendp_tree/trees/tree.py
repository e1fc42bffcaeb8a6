"""Public trees of any shape as arrays. Pointer doubling gives levels and ranges, however deep the tree is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from opendp_tree import saturate
from opendp_tree._arguments import check_integer, check_type, is_text
from opendp_tree._types import Array, Floats, Ints
from opendp_tree.trees.labels import Label, Path, check_names, read_paths, tagged_label
from opendp_tree.trees.nodes import Occupied, meets_between

if TYPE_CHECKING:
    from opendp_tree.trees.number_range import NumberRange

__all__ = ["Label", "Path", "Tree"]

MOST_NODES = 2**28
"""The limit for a balanced tree, at 2 GB per array."""
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Tree:
    """An immutable tree whose nodes are public.

    Build one with `Tree.from_parents`, `Tree.from_paths` or `Tree.balanced`. Node ids are 0..node_count-1, leaves
    are ordered by node id, and `depth` counts the nodes on the longest path from the root to a leaf.

    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> tree
    Tree(nodes=5, leaves=3, depth=3)
    >>> print(tree.draw())
    (root)
    ├── be
    │   ├── ghent
    │   └── liege
    └── lu
    """

    parents: Ints
    """For each node its parent's id; -1 for the root."""
    labels: tuple[Label, ...] | None
    """For each node its own label (the root's is None), if the tree was built from paths."""
    node_levels: Ints
    """For each node its level; the root is at level 0."""
    depth: int
    """The number of nodes on the longest path from the root to a leaf."""
    names: tuple[str, ...]
    """The column name of each level below the root. Cosmetic: trees that differ in names only are equal."""
    ordered: bool
    """Whether pictures keep siblings in the tree's order, instead of the largest first. Cosmetic, like names."""
    ranges: NumberRange | None
    """For a tree of numbers, dates or times: `ranges.edges[i]` and `[i + 1]` are the ends of `leaves[i]`; else None."""
    memo: dict[Any, Any]
    """Values that other modules derive from the tree; none depends on names or order."""
    leaves: Ints
    """The ids of the leaves, ascending: the order of every vector of leaf counts."""

    def __init__(
        self,
        parents: Ints,
        labels: tuple[Label, ...] | None,
        names: Iterable[str] | None = None,
        *,
        ordered: bool = False,
        ranges: NumberRange | None = None,
    ) -> None:
        parents = _check_parents(parents)
        if labels is not None and (not isinstance(labels, tuple) or len(labels) != parents.size):
            raise TypeError(f"labels must be a tuple of {parents.size}, one for each node. Hint: Tree.from_paths")
        if not is_text("".join(label for label in labels or () if isinstance(label, str))):
            raise ValueError("labels must be texts that can be written as UTF-8. Hint: replace lone surrogates")
        levels = node_levels(parents)
        leaves = np.flatnonzero(np.bincount(parents[parents >= 0], minlength=parents.size) == 0)
        depth = int(levels.max()) + 1
        self.__dict__.update(
            parents=_frozen(parents),
            node_levels=_frozen(levels),
            leaves=_frozen(leaves),
            depth=depth,
            labels=labels,
            names=() if labels is None else check_names(names, count=depth - 1),
            ordered=bool(ordered) or ranges is not None,
            ranges=ranges,
            memo={},
        )

    @classmethod
    def from_parents(cls, parents: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Tree:
        """A tree from each node's parent. Ten million nodes take a few seconds; the shape does not matter.

        :param parents: For each node its parent's id; -1 for the root. A node's id is its position here.
        """
        return cls(parents, None)  # type: ignore[arg-type]

    @classmethod
    def from_paths(
        cls, paths: Iterable[Sequence[Label]], *, names: Iterable[str] | None = None, ordered: bool = False
    ) -> Tree:
        """A tree from the label paths of its leaves, which may have different lengths.

        :param paths: One sequence of labels for each leaf, from below the root down. Leaves keep this order.
        :param names: The column name of each level below the root. By default `label_1`, `label_2`, ...
        :param ordered: Whether pictures keep siblings in this order, as for months. By default the largest come first.
        """
        parents, labels = read_paths(paths)
        return cls(np.array(parents, dtype=np.int64), tuple(labels), names, ordered=ordered)

    @classmethod
    def balanced(cls, *, branching: int, depth: int) -> Tree:
        """A complete tree, whose nodes are numbered level by level.

        :param branching: How many children every inner node has.
        :param depth: The number of levels with the root's, at least 1.
        """
        branching = check_integer(branching, name="branching", least=1)
        depth = check_integer(depth, name="depth", least=1)
        nodes = depth if branching == 1 else sum(branching**level for level in range(min(depth, 30)))
        if nodes > MOST_NODES:
            raise ValueError(
                f"branching ({branching}) and depth ({depth}) must give at most 2**28 nodes. "
                "Hint: an OpenTree holds only the keys that occur"
            )
        return cls((np.arange(nodes, dtype=np.int64) - 1) // branching, None)

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return self.parents.size

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return self.leaves.size

    @cached_property
    def root(self) -> int:
        """The root's id."""
        return int(np.argmin(self.parents))

    @cached_property
    def levels(self) -> tuple[Ints, ...]:
        """The node ids of each level, ascending, from the root's level down."""
        small = self.node_levels.astype(np.uint16) if self.depth <= 2**16 else self.node_levels
        order = _frozen(np.argsort(small, kind="stable"))
        return tuple(np.split(order, np.cumsum(np.bincount(self.node_levels))[:-1]))

    @cached_property
    def level_order(self) -> LevelOrder:
        """The nodes level by level from the root, siblings side by side."""
        if self.parents[0] == -1 and (self.parents[1:] >= self.parents[:-1]).all():
            return LevelOrder(self, np.arange(self.node_count), True)
        return LevelOrder(self, np.argsort(self.node_levels * self.leaf_count + self.leaf_ranges[0]), False)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the parents and labels: trees are equal if their digests are."""
        sha = hashlib.sha256(self.parents.astype("<i8", copy=False).data)
        texts = [f"{type(label).__name__}:{label}" for label in self.labels or ()]
        sha.update("".join([f"{len(text)}:{text}" for text in texts]).encode())
        return sha.hexdigest()

    @cached_property
    def leaf_ranges(self) -> tuple[Ints, Ints]:
        """For each node the range first..last-1 of its leaves in depth-first order, siblings by id.

        >>> first, last = Tree.from_parents([-1, 0, 0, 1, 1]).leaf_ranges
        >>> first, last
        (array([0, 0, 2, 0, 1]), array([3, 2, 3, 1, 2]))
        """
        is_leaf = np.zeros(self.node_count, dtype=np.int64)
        is_leaf[self.leaves] = 1
        first, last = subtree_ranges(self.parents, is_leaf)
        return _frozen(first), _frozen(last)

    @cached_property
    def _leaf_meets(self) -> Ints:
        """For each leaf but the last, in depth-first order, the level of its deepest common ancestor with the next."""
        first = self.leaf_ranges[0]
        meets = np.empty(self.leaf_count - 1, dtype=np.int64)
        # Only the child of that ancestor starts at the second leaf without being a first child.
        later = np.flatnonzero((self.parents >= 0) & (first != first[self.parents]))
        meets[first[later] - 1] = self.node_levels[self.parents[later]]
        return meets

    @cached_property
    def _depth_first(self) -> Ints | None:
        """The leaf indices in depth-first order; None where that is the order of ids."""
        places = self.leaf_ranges[0][self.leaves]
        if (places[1:] > places[:-1]).all():
            return None
        order = np.empty_like(places)
        order[places] = np.arange(places.size)
        return order

    def sum(self, leaf_counts: Ints) -> Ints:
        """The count of every node: the exact sum of the leaves under it, clamped to ±(2**62 - 1).

        :param leaf_counts: One for each leaf, in the order of `leaves`.

        >>> Tree.from_parents([-1, 0, 0, 1, 1]).sum(np.array([5, 1, 2]))
        array([8, 3, 5, 1, 2])
        """
        if leaf_counts.shape != (self.leaf_count,):
            raise ValueError(f"leaf_counts must be one-dimensional with {self.leaf_count} entries")
        order = self._depth_first
        return saturate.range_sums(leaf_counts if order is None else leaf_counts[order], *self.leaf_ranges)

    def occupied(self, leaf_counts: Ints, *, every: bool = False) -> Occupied:
        """The leaves with a positive count, in depth-first order.

        :param leaf_counts: One for each leaf, in the order of `leaves`.
        :param every: Whether to include leaves without people. By default they are left out.
        """
        order = slice(None) if self._depth_first is None else self._depth_first
        counts, leaves = leaf_counts[order], self.leaves[order]
        places = np.arange(counts.size) if every else np.flatnonzero(counts > 0)
        meets = meets_between(self._leaf_meets, places)
        return Occupied(self.node_levels[leaves[places]], meets, counts[places], leaves[places])

    def ancestors_at(self, nodes: Ints, levels: Ints) -> Ints:
        """Each node's ancestor at a level not below its own.

        :param nodes: Node ids.
        :param levels: For each of them the level of its ancestor. At its own level, that is the node itself.
        """
        nodes = nodes.copy()
        climbing = np.flatnonzero(self.node_levels[nodes] > levels)
        while climbing.size:
            nodes[climbing] = self.parents[nodes[climbing]]
            climbing = climbing[self.node_levels[nodes[climbing]] > levels[climbing]]
        return nodes

    def count(self, keys: Iterable[Any]) -> Ints:
        """Leaf counts, a member of `leaf_domain(tree)`: how often each leaf occurs among `keys`.

        :param keys: A leaf's node id, its path as a tuple of labels, or its own label where no two leaves share one.
            Keys that are not leaves of the tree count nowhere, so that nothing raised here depends on the data.

        >>> Tree.from_paths([("a", "x"), ("a", "y"), ("b",)]).count([("b",), ("a", "y"), "y", "nowhere"])
        array([0, 2, 1])
        """
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a collection of keys, found one string. Hint: pass [key]")
        if isinstance(keys, np.ndarray):
            if keys.ndim != 1:
                raise ValueError(f"keys must be one-dimensional, found {keys.ndim} dimensions")
            if keys.dtype.kind not in ("iuO" if self.labels is None else "iuOUbM"):
                raise TypeError(f"keys ({keys.dtype}) must be node ids{'' if self.labels is None else ' or labels'}")
            keys = saturate.clamp(keys) if keys.dtype.kind in "iu" else keys.tolist()
        ids = keys if isinstance(keys, np.ndarray) else np.fromiter(map(self._leaf_id, keys), np.int64)
        return np.bincount(ids[(ids >= 0) & (ids < self.node_count)], minlength=self.node_count)[self.leaves]

    def _leaf_id(self, key: Any) -> int:
        """The node id that a key is or names; -1 if it is not a leaf's path or label."""
        try:
            if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
                return int(key) if 0 <= key < self.node_count else -1
            if isinstance(key, tuple):
                return -1 if self.labels is None else self._find(key)
            return self._leaf_names.get(tagged_label(key), -1)
        except Exception:  # a key that cannot be looked up, for whatever reason, is not a leaf
            return -1

    @cached_property
    def _children(self) -> dict[Any, int]:
        """The child of each node by its label."""
        labels: Any = range(self.node_count) if self.labels is None else self.labels
        return {(up, tagged_label(labels[node])): node for node, up in enumerate(self.parents.tolist()) if up >= 0}

    @cached_property
    def _leaf_names(self) -> dict[Any, int]:
        """The leaf of each label; -1 if several leaves share it."""
        names: dict[Any, int] = {}
        for leaf in self.leaves.tolist() if self.labels is not None else ():
            name = tagged_label((self.labels or ())[leaf])
            names[name] = -1 if name in names else leaf
        return names

    def _find(self, path: tuple[Any, ...]) -> int:
        """The id of the node that a path leads to; -1 if there is none."""
        node = self.root
        for label in path:
            node = self._children.get((node, tagged_label(label)), -1)
        return node

    def path(self, node: int) -> Path:
        """The labels (node ids, in a tree without labels) from below the root down to a node.

        :param node: The node's id.

        >>> Tree.from_paths([("a", "x"), ("b",)]).path(2)
        ('a', 'x')
        """
        if isinstance(node, bool) or not isinstance(node, (int, np.integer)) or not 0 <= node < self.node_count:
            raise ValueError(f"node ({node!r}) must be a node id from 0 to {self.node_count - 1}")
        steps: list[Label] = []
        while (parent := int(self.parents[node])) >= 0:
            steps.append(int(node) if self.labels is None else self.labels[node])
            node = parent
        return tuple(reversed(steps))

    def node(self, path: Path) -> int:
        """The id of the node that a path leads to: the inverse of `path`.

        :param path: The labels (node ids, in a tree without labels) from below the root down; () for the root.

        >>> Tree.from_paths([("a", "x"), ("b",)]).node(("a",))
        1
        """
        try:
            node = self._find(path) if isinstance(path, tuple) else -1
        except TypeError:  # an unhashable value is not a label
            node = -1
        if node < 0:
            raise ValueError(f"path ({path!r}) must lead to a node of the tree. Hint: a tuple of labels")
        return node

    def paths(self) -> list[Path]:
        """The path of every leaf, in the order of leaf counts."""
        return [self.path(leaf) for leaf in self.leaves.tolist()]

    def draw(self, values: Sequence[object] | Array | None = None, *, max_nodes: int = 60) -> str:
        """The tree as text, one line per node.

        :param values: What to write beside each node, by node id. By default nothing.
        :param max_nodes: The largest number of nodes to draw, by default 60. A last line counts those left out.

        >>> print(Tree.balanced(branching=2, depth=2).draw([3, 1, 2]))
        0  3
        ├── 1  1
        └── 2  2
        """
        if values is not None and len(values) != self.node_count:
            raise ValueError(f"values must have one entry for each of the {self.node_count} nodes")
        # Siblings together, by id. A stack instead of recursion, so that long chains can be drawn.
        order = np.argsort(self.parents, kind="stable")
        starts = np.searchsorted(self.parents[order], np.arange(self.node_count + 1))
        lines: list[str] = []
        stack = [(self.root, "", "")]
        while stack and len(lines) < max_nodes:
            node, before, indent = stack.pop()
            name = str(node) if self.labels is None else "(root)" if node == self.root else str(self.labels[node])
            lines.append(before + name + ("" if values is None else f"  {values[node]}"))
            children = order[starts[node] : starts[node + 1]]
            last = children[-1] if children.size else -1
            for child in children[max_nodes - len(lines) :: -1].tolist():  # others have no room
                lead, below = ("└── ", "    ") if child == last else ("├── ", "│   ")
                stack.append((child, indent + lead, indent + below))
        hidden = self.node_count - len(lines)
        return "\n".join(lines + ([f"… {hidden} more nodes"] if hidden else []))

    def __repr__(self) -> str:
        return f"Tree(nodes={self.node_count}, leaves={self.leaf_count}, depth={self.depth})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


def fewest_children(leaves: int, widest: int) -> tuple[int, int]:
    """The fewest levels below the root if nodes have at most `widest` children, and the fewest children for these."""
    levels = 1
    while widest**levels < leaves:
        levels += 1
    children = max(1, math.floor(leaves ** (1 / levels)) - 1)
    while children**levels < leaves:
        children += 1
    return levels, children


def check_tree(tree: object) -> Tree:
    """A public tree."""
    return check_type(tree, Tree, name="tree", hint="Tree.from_parents or Tree.from_paths")


def renamed(tree: Tree, names: tuple[str, ...], *, ordered: bool) -> Tree:
    """The same tree with other names of levels, sharing everything computed from it."""
    if (names, ordered) == (tree.names, tree.ordered):
        return tree
    key = ("renamed", names, ordered)
    if key not in tree.memo:
        copy = object.__new__(Tree)
        copy.__dict__.update(tree.__dict__, names=check_names(names, count=tree.depth - 1), ordered=ordered)
        tree.memo[key] = copy
    same: Tree = tree.memo[key]
    return same


def _frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array


def _check_parents(parents: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ints:
    """A private copy of `parents`, which must have one root and valid ids; `_doubling` finds cycles."""
    given = np.asarray(parents)
    if given.ndim != 1 or not 0 < given.size <= 2**31:
        raise ValueError(f"parents (of shape {given.shape}) must be one-dimensional, with 1 to 2**31 nodes")
    if given.dtype.kind not in "iu":
        raise TypeError(f"parents must be integers, found {given.dtype}")
    wrong = np.flatnonzero((given < -1) | (given >= given.size))
    if wrong.size:
        node = int(wrong[0])
        raise ValueError(f"parents[{node}] ({given[node]}) must be -1 or a node id from 0 to {given.size - 1}")
    roots = np.flatnonzero(given == -1)
    if roots.size != 1:
        raise ValueError(f"parents must have one root, found {roots.size}. Hint: the root's parent is -1")
    return given.astype(np.int64)


def node_levels(parents: Ints) -> Ints:
    """The number of steps from each node up to the root; a cycle is an error."""
    levels = (parents >= 0).astype(np.int64)
    for ancestors in _doubling(parents):
        levels += levels[ancestors]
    return levels


def subtree_ranges(parents: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """For each node the range first..last that its subtree takes in depth-first order, siblings by id."""
    totals, steps, stride = sizes.copy(), (parents >= 0).astype(np.int64), 1
    # totals[v] covers fewer than `stride` levels below v; nodes with ancestor v at exactly that distance add the next.
    for ancestors in _doubling(parents):
        exact = np.flatnonzero(steps == stride)
        totals += np.bincount(ancestors[exact], weights=totals[exact], minlength=parents.size).astype(np.int64)
        steps += steps[ancestors]
        stride *= 2
    # The sizes of earlier siblings and of the parent itself, summed along the path to the root.
    order = np.arange(parents.size) if (parents[1:] >= parents[:-1]).all() else np.argsort(parents, kind="stable")
    sorted_parents, sorted_totals = parents[order], totals[order]
    before = np.cumsum(sorted_totals) - sorted_totals
    is_first = np.concatenate(([True], sorted_parents[1:] != sorted_parents[:-1]))
    before -= before[is_first][np.cumsum(is_first) - 1]
    first = np.empty_like(parents)
    first[order] = before + sizes[sorted_parents]
    first[np.argmin(parents)] = 0
    for ancestors in _doubling(parents):
        first += first[ancestors]
    return first, first + totals


def _doubling(parents: Ints) -> Iterator[Ints]:
    """Each node's ancestor 1, 2, 4, ... levels up (the root above itself), until all of them are the root."""
    root = int(np.argmin(parents))
    ancestors = parents.copy()
    ancestors[root] = root
    for _ in range(parents.size.bit_length() + 1):
        yield ancestors
        if (ancestors == root).all():
            return
        ancestors = ancestors[ancestors]
    node = int(ancestors[np.flatnonzero(ancestors != root)[0]])
    raise ValueError(f"parents has a cycle through node {node}")


@dataclass(frozen=True)
class InnerLevel:
    """The inner nodes of one level and their children, as places in the level order."""

    inner: slice | Ints
    children: slice
    starts: Ints
    """The index, among `children`, of each inner node's first child."""
    sizes: Ints

    def sums(self, values: Floats) -> Floats:
        """For each inner node the sum over its children."""
        below = values[self.children]
        if 2 * self.sizes.size == below.size and (self.sizes == 2).all():
            return below[::2] + below[1::2]  # many times faster than reduceat
        total: Floats = np.add.reduceat(below, self.starts)
        return total

    def spread(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """For each child its parent's value."""
        return np.repeat(values, self.sizes)


@dataclass(frozen=True)
class LevelOrder:
    """A tree's nodes level by level from the root, each level in depth-first order. Places are positions in it."""

    tree: Tree
    nodes: Ints
    """The node id at each place."""
    by_id: bool
    """Whether places are node ids, so that nothing needs to be moved."""

    @cached_property
    def parents(self) -> Ints:
        """The place of each place's parent; -1 for the root."""
        if self.by_id:
            return self.tree.parents
        parents = self.by_node(np.arange(self.nodes.size))[self.place(self.tree.parents)]
        parents[0] = -1
        return parents

    @cached_property
    def levels(self) -> Ints:
        """The level of each place."""
        return self.place(self.tree.node_levels)

    @cached_property
    def leaf_ranges(self) -> tuple[Ints, Ints]:
        """The leaves under each place are first..last-1, counted in depth-first order."""
        first, last = self.tree.leaf_ranges
        return self.place(first), self.place(last)

    @cached_property
    def inner_levels(self) -> tuple[InnerLevel, ...]:
        """From the root down, the levels with inner nodes: all but the deepest."""
        edges = [0, *np.cumsum(np.bincount(self.tree.node_levels)).tolist()]
        levels = []
        for before, start, end in zip(edges, edges[1:], edges[2:], strict=False):
            above = self.parents[start:end]
            starts = np.flatnonzero(np.concatenate(([True], above[1:] != above[:-1])))
            inner = slice(before, start) if starts.size == start - before else above[starts]
            levels.append(InnerLevel(inner, slice(start, end), starts, np.diff(starts, append=above.size)))
        return tuple(levels)

    def place(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Values by node id, put in the level order; the same array where that is the order of ids."""
        return values if self.by_id else values[self.nodes]

    def by_node(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Values in the level order, put by node id; the same array where these orders agree."""
        if self.by_id:
            return values
        out = np.empty_like(values)
        out[self.nodes] = values
        return out
