"""Public trees of any shape, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from opendp_tree import saturate
from opendp_tree._arguments import check_type, is_text, shortened
from opendp_tree._types import Array, Ints
from opendp_tree.trees.arrays import LevelOrder, check_parents, node_levels, subtree_ranges
from opendp_tree.trees.labels import Label, NodeIndex, Path, check_names, read_paths
from opendp_tree.trees.occupied import Occupied, meets_between

if TYPE_CHECKING:
    from opendp_tree.trees.number_range import NumberRange

__all__ = ["Label", "Path", "Tree"]

MOST_NODES = 2**28
"""Of a balanced tree: 2 GB for each of its arrays."""


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

    def __init__(
        self,
        parents: Ints,
        labels: tuple[Label, ...] | None,
        names: Iterable[str] | None = None,
        *,
        ordered: bool = False,
        ranges: NumberRange | None = None,
    ) -> None:
        """Use `Tree.from_parents`, `Tree.from_paths` or `Tree.balanced`, which check what they are given."""
        parents = check_parents(parents)
        if labels is not None and (not isinstance(labels, tuple) or len(labels) != parents.size):
            raise TypeError(f"labels must be a tuple of {parents.size}, one for each node. Hint: Tree.from_paths")
        if not all(is_text(label) for label in labels or () if isinstance(label, str)):
            raise ValueError("labels must be texts that can be written as UTF-8. Hint: replace lone surrogates")
        levels = node_levels(parents)
        leaves = np.flatnonzero(np.bincount(parents[parents >= 0], minlength=parents.size) == 0)
        depth = int(levels.max()) + 1
        self.__dict__.update(
            **{"parents": _frozen(parents), "node_levels": _frozen(levels), "leaves": _frozen(leaves)},
            **{
                "depth": depth,
                "labels": labels,
                "names": () if labels is None else check_names(names, count=depth - 1),
            },
            **{"ordered": bool(ordered) or ranges is not None, "ranges": ranges, "memo": {}},
        )

    parents: Ints
    """For each node its parent's id; -1 for the root."""
    labels: tuple[Label, ...] | None
    """For each node its own label (the root's is None), if the tree was built from paths."""
    node_levels: Ints
    """For each node its level; the root is at level 0."""
    depth: int
    """The number of nodes on the longest path from the root to a leaf."""
    names: tuple[str, ...]
    """What frames call the label of each level below the root. Cosmetic: trees that differ in names only are equal."""
    ordered: bool
    """Whether pictures keep siblings in the tree's order, instead of the largest first. Cosmetic, like names."""
    ranges: NumberRange | None
    """What the leaves of a tree of numbers, dates or times are: `ranges.edges[i]` and `[i + 1]` are the ends of
    `leaves[i]`. None for other trees."""
    memo: dict[Any, Any]
    """What other modules derive from the tree, kept with it: names and order play no part in it."""
    leaves: Ints
    """The ids of the leaves, ascending: the order of every vector of leaf counts."""

    @classmethod
    def from_parents(cls, parents: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Tree:
        """A tree from each node's parent. Ten million nodes take a few seconds; the shape does not matter.

        Parameters
        ----------
        parents
            For each node its parent's id, where ids are the positions in it; -1 for the root.

        >>> Tree.from_parents([-1, 0, 0, 1, 1])
        Tree(nodes=5, leaves=3, depth=3)
        """
        return cls(parents, None)  # type: ignore[arg-type]

    @classmethod
    def from_paths(
        cls, paths: Iterable[Sequence[Label]], *, names: Iterable[str] | None = None, ordered: bool = False
    ) -> Tree:
        """A tree from the label paths of its leaves, which may have different lengths.

        Parameters
        ----------
        paths
            One sequence of labels for each leaf. The root is implied: a path names the nodes below it. Leaves keep
            this order.
        names
            What frames call the label of each level below the root ("region", "city"); by default `label_1`,
            `label_2`, ...
        ordered
            Whether pictures keep siblings in this order, as for months. By default the largest come first.

        >>> Tree.from_paths([("a", "x"), ("a", "y"), ("b",)]).paths()
        [('a', 'x'), ('a', 'y'), ('b',)]
        """
        parents, labels = read_paths(paths)
        return cls(np.array(parents, dtype=np.int64), tuple(labels), names, ordered=ordered)

    @classmethod
    def balanced(cls, *, branching: int, depth: int) -> Tree:
        """A complete tree, whose nodes are numbered level by level.

        Parameters
        ----------
        branching
            How many children every inner node has.
        depth
            The number of levels with the root's, at least 1.

        >>> Tree.balanced(branching=2, depth=3)
        Tree(nodes=7, leaves=4, depth=3)
        """
        for name, value in (("branching", branching), ("depth", depth)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} ({value!r}) must be a positive integer")
        fan = min(int(branching), MOST_NODES + 1)  # no power is too large to be computed
        nodes = int(depth) if fan == 1 else sum(fan**level for level in range(min(int(depth), 30)))
        if nodes > MOST_NODES:
            raise ValueError(
                f"branching ({shortened(branching)}) and depth ({shortened(depth)}) must give at most 2**28 nodes. "
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
        ends = np.cumsum(np.bincount(self.node_levels))
        return tuple(np.split(order, ends[:-1]))

    @cached_property
    def level_order(self) -> LevelOrder:
        """The nodes level by level from the root, siblings side by side."""
        return LevelOrder.of(self)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the parents and labels: equal digests, equal trees."""
        sha = hashlib.sha256(np.ascontiguousarray(self.parents, dtype="<i8").data)
        for label in self.labels or ():
            text = f"{type(label).__name__}:{label}".encode()
            sha.update(b"%d:" % len(text) + text)
        return sha.hexdigest()

    @cached_property
    def leaf_ranges(self) -> tuple[Ints, Ints]:
        """For each node the range first..last-1 of its leaves' places in depth-first order, siblings by id.

        >>> first, last = Tree.from_parents([-1, 0, 0, 1, 1]).leaf_ranges
        >>> first, last
        (array([0, 0, 2, 0, 1]), array([3, 2, 3, 1, 2]))
        """
        own = np.zeros(self.node_count, dtype=np.int64)
        own[self.leaves] = 1
        first, last = subtree_ranges(self.parents, own)
        return _frozen(first), _frozen(last)

    @cached_property
    def _node_ranges(self) -> tuple[Ints, Ints]:
        """For each node the range of its subtree's places in depth-first order of all nodes."""
        first, last = subtree_ranges(self.parents, np.ones(self.node_count, dtype=np.int64))
        return _frozen(first), _frozen(last)

    @cached_property
    def _leaf_meets(self) -> Ints:
        """For each leaf but the last, in depth-first order, the level of the deepest node above it and the next."""
        first = self.leaf_ranges[0]
        meets = np.empty(self.leaf_count - 1, dtype=np.int64)
        # Only the child of the meeting node starts at the second leaf without being a first child.
        later = np.flatnonzero((self.parents >= 0) & (first != first[self.parents]))
        meets[first[later] - 1] = self.node_levels[self.parents[later]]
        return _frozen(meets)

    @cached_property
    def _depth_first(self) -> Ints | None:
        """The leaf index at each place of the depth-first order; None where that is the order of ids."""
        places = self.leaf_ranges[0][self.leaves]
        if (places[1:] > places[:-1]).all():
            return None
        order = np.empty_like(places)
        order[places] = np.arange(places.size)
        return _frozen(order)

    def sum(self, leaf_counts: Ints) -> Ints:
        """The count of every node: the exact sum of the leaves under it, clamped to ±(2**62 - 1).

        Parameters
        ----------
        leaf_counts
            One for each leaf, in the order of `leaves`.

        >>> Tree.from_parents([-1, 0, 0, 1, 1]).sum(np.array([5, 1, 2]))
        array([8, 3, 5, 1, 2])
        """
        if leaf_counts.shape != (self.leaf_count,):
            raise ValueError(f"leaf_counts must be one-dimensional with {self.leaf_count} entries")
        order = self._depth_first
        return saturate.range_sums(leaf_counts if order is None else leaf_counts[order], *self.leaf_ranges)

    def sum_nodes(self, node_values: Ints) -> Ints:
        """For every node the exact sum of the values at and below it, clamped to ±(2**62 - 1).

        Parameters
        ----------
        node_values
            One for each node, by id.

        >>> Tree.from_parents([-1, 0, 0, 1, 1]).sum_nodes(np.array([10, 5, 0, 1, 0]))
        array([16,  6,  0,  1,  0])
        """
        if node_values.shape != (self.node_count,):
            raise ValueError(f"node_values must be one-dimensional with {self.node_count} entries")
        first, last = self._node_ranges
        ordered = np.empty_like(node_values)
        ordered[first] = node_values
        return saturate.range_sums(ordered, first, last)

    def occupied(self, leaf_counts: Ints, *, every: bool = False) -> Occupied:
        """The leaves with a positive count, in depth-first order.

        Parameters
        ----------
        leaf_counts
            One for each leaf, in the order of `leaves`.
        every
            Whether leaves where nobody is are places, too; by default they are not.
        """
        order = self._depth_first
        counts = leaf_counts if order is None else leaf_counts[order]
        places = np.arange(counts.size) if every else np.flatnonzero(counts > 0)
        leaves = self.leaves if order is None else self.leaves[order]
        meets = meets_between(self._leaf_meets, places)
        return Occupied(self.node_levels[leaves[places]], meets, counts[places], leaves[places])

    def ancestors_at(self, nodes: Ints, levels: Ints) -> Ints:
        """Each node's ancestor at a level not below its own.

        Parameters
        ----------
        nodes
            Node ids.
        levels
            For each of them the level of its ancestor; the node itself where that is its own.
        """
        nodes = nodes.copy()
        climbing = np.flatnonzero(self.node_levels[nodes] > levels)
        while climbing.size:
            nodes[climbing] = self.parents[nodes[climbing]]
            climbing = climbing[self.node_levels[nodes[climbing]] > levels[climbing]]
        return nodes

    def count(self, keys: Iterable[Any]) -> Ints:
        """Leaf counts, a member of `leaf_domain(tree)`: how often each leaf occurs among `keys`.

        Parameters
        ----------
        keys
            A leaf's node id, its path as a tuple of labels, or its own label where no two leaves share one. Keys that
            are not leaves of the tree count nowhere, so that nothing raised here depends on the data.

        >>> Tree.from_paths([("a", "x"), ("a", "y"), ("b",)]).count([("b",), ("a", "y"), "y", "nowhere"])
        array([0, 2, 1])
        """
        ids = self._node_index.leaf_ids(keys)
        known = (ids >= 0) & (ids < self.node_count)
        return np.bincount(ids[known], minlength=self.node_count)[self.leaves]

    def path(self, node: int) -> Path:
        """The labels (node ids, in a tree without labels) from below the root down to a node.

        Parameters
        ----------
        node
            The node's id.

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
        """The id of the node that a path leads to: `path` undone.

        Parameters
        ----------
        path
            The labels (node ids, in a tree without labels) from below the root down to the node; () for the root.

        >>> Tree.from_paths([("a", "x"), ("b",)]).node(("a",))
        1
        """
        found = self._node_index.find(path) if isinstance(path, tuple) else -1
        if found < 0:
            raise ValueError(f"path ({path!r}) must lead to a node of the tree. Hint: a tuple of labels")
        return found

    @cached_property
    def _node_index(self) -> NodeIndex:
        return NodeIndex(self)

    def paths(self) -> list[Path]:
        """The path of every leaf, in the order of leaf counts."""
        return [self.path(leaf) for leaf in self.leaves.tolist()]

    def draw(self, values: Sequence[object] | Array | None = None, *, max_nodes: int = 60) -> str:
        """The tree as text, a line a node.

        Parameters
        ----------
        values
            What to write beside each node, by node id; nothing by default.
        max_nodes
            How many nodes to draw at most. By default 60, which fits a screen; a last line says how many are left out.

        >>> print(Tree.balanced(branching=2, depth=2).draw([3, 1, 2]))
        0  3
        ├── 1  1
        └── 2  2
        """
        if values is not None and len(values) != self.node_count:
            raise ValueError(f"values must have one entry for each of the {self.node_count} nodes")
        # Siblings together, in order of id; a stack instead of recursion, so that long chains draw too.
        order = np.argsort(self.parents, kind="stable")
        starts = np.searchsorted(self.parents[order], np.arange(self.node_count + 1))
        lines: list[str] = []
        stack = [(self.root, "", "")]
        while stack and len(lines) < max_nodes:
            node, before, indent = stack.pop()
            name = str(node) if self.labels is None else "(root)" if node == self.root else str(self.labels[node])
            lines.append(before + name + ("" if values is None else f"  {values[node]}"))
            room = max_nodes - len(lines) + 1
            children = order[starts[node] : min(starts[node + 1], starts[node] + room)].tolist()
            ends_here = starts[node + 1] - starts[node] <= room
            for place, child in reversed(list(enumerate(children))):
                last = ends_here and place == len(children) - 1
                stack.append((child, indent + ("└── " if last else "├── "), indent + ("    " if last else "│   ")))
        hidden = self.node_count - len(lines)
        return "\n".join(lines + ([f"… {hidden} more nodes"] if hidden else []))

    def __repr__(self) -> str:
        return f"Tree(nodes={self.node_count}, leaves={self.leaf_count}, depth={self.depth})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Tree is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Tree is immutable: {name!r} cannot be deleted")


def check_tree(tree: object) -> Tree:
    """A public tree."""
    return check_type(tree, Tree, name="tree", hint="Tree.from_parents or Tree.from_paths")


def renamed(tree: Tree, names: tuple[str, ...], *, ordered: bool) -> Tree:
    """The same tree with other names of levels, sharing all that was computed of it."""
    if (names, ordered) == (tree.names, tree.ordered):
        return tree
    key = ("renamed", names, ordered)
    if key not in tree.memo:
        copy = object.__new__(Tree)
        copy.__dict__.update(tree.__dict__, names=check_names(names, count=tree.depth - 1), ordered=ordered)
        tree.memo[key] = copy
    found: Tree = tree.memo[key]
    return found


def _frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array
