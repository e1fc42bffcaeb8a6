"""Trees whose nodes are not known in advance: only the depth is public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree._types import Ints
from opendp_tree.trees.labels import check_names

if TYPE_CHECKING:
    from opendp_tree.trees.nodes import SparseCounts

MOST_LEVELS = 1000
"""The limit for trees of labels, including the root's level: every level is a column of the release."""


@dataclass(frozen=True)
class OpenTree:
    """A tree that grows with its keys.

    Build one with `OpenTree.columns`, `OpenTree.bits` or `OpenTree.paths`. `depth` counts the nodes from the root to
    the deepest possible key. Only this description is public; which keys occur is private.

    >>> OpenTree.bits(32, stride=8)
    OpenTree(kind='bits', depth=5, width=32, stride=8, separator='', outside=False)
    """

    kind: Literal["columns", "bits", "paths"]
    depth: int
    width: int = 0
    stride: int = 1
    separator: str = ""
    outside: bool = False
    """Whether a tree of bits has one more leaf below its root, for values that are not keys."""
    # Trees that differ only in how nodes are shown are equal, so that their domains match in a chain.
    names: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """The column name of each level below the root, for keys that are tuples of labels."""
    shown_as: Literal["integer", "ipv4", "ipv6"] = field(default="integer", repr=False, compare=False)
    """How frames show prefixes of bits."""
    ordered: bool = field(default=False, repr=False, compare=False)
    """Whether pictures keep siblings in the order of their labels, instead of the largest first."""

    def __post_init__(self) -> None:
        check_choice(self.kind, name="kind", choices=("columns", "bits", "paths"))
        for name, least in (("depth", 2), ("width", 0), ("stride", 1)):
            check_integer(getattr(self, name), name=name, least=least)
        if self.kind != "bits" and self.depth > MOST_LEVELS:
            raise ValueError(f"depth ({self.depth}) must be at most {MOST_LEVELS}; deeper keys count at that level")
        if self.outside and self.kind != "bits":
            raise ValueError(f"outside must be False for {self.kind}: only trees of bits have keys that do not fit")
        if self.kind == "bits" and self.depth != -(-self.width // self.stride) + 1:
            raise ValueError(f"depth ({self.depth}) must fit width and stride. Hint: OpenTree.bits")
        count = self.depth - 1 if self.kind == "columns" else 0
        object.__setattr__(self, "names", check_names(self.names or None, count=count))
        check_choice(self.shown_as, name="shown_as", choices=("integer", "ipv4", "ipv6"))
        width = {"integer": self.width, "ipv4": 32, "ipv6": 128}[self.shown_as]
        if self.width != width:
            raise ValueError(f"width ({self.width}) must be {width} to be shown as {self.shown_as}")

    @classmethod
    def columns(cls, names: int | Iterable[str], *, ordered: bool = False) -> OpenTree:
        """Keys are tuples of labels, one for each level below the root. Shorter tuples stop at an inner node.

        :param names: The column names of the labels, from the coarsest level to the finest; or the number of levels,
            which are then called `label_1`, `label_2`, ...
        :param ordered: Whether pictures keep siblings in the order of their labels, as for months; else by size.
        """
        if isinstance(names, (int, np.integer)):
            return cls("columns", check_integer(names, name="names", least=1) + 1, ordered=ordered)
        checked = check_names(names)
        if not checked:
            raise ValueError("names must hold at least one name")
        return cls("columns", len(checked) + 1, names=checked, ordered=ordered)

    @classmethod
    def bits(
        cls,
        width: int,
        stride: int = 1,
        *,
        shown_as: Literal["integer", "ipv4", "ipv6"] = "integer",
        outside: bool = False,
    ) -> OpenTree:
        """Keys are integers; nodes are the prefixes of their bits.

        Up to 64 bits, keys are one array of integers; beyond, an array of shape (n, 2) of high and low words.

        :param width: The number of bits of a key, from 1 to 128.
        :param stride: The number of bits that each level adds to the prefix. By default 1; a larger stride needs less
            noise.
        :param shown_as: How releases show a prefix: by default as the least integer with this prefix; as "ipv4" (32
            bits) or "ipv6" (128 bits) as a text, `10.0.0.0/8`.
        :param outside: Whether values that are not keys count at a leaf "(outside)" below the root. By default they
            are not counted.
        """
        width = check_integer(width, name="width", least=1)
        stride = check_integer(stride, name="stride", least=1)
        if width > 128:
            raise ValueError(f"width ({width}) must be at most 128")
        return cls("bits", -(-width // stride) + 1, width, stride, shown_as=shown_as, outside=outside)

    @classmethod
    def paths(cls, separator: str, *, depth: int) -> OpenTree:
        """Keys are texts that are split into labels, such as the paths of files.

        :param separator: The text between two labels. One at the start or end of a key is ignored.
        :param depth: The number of levels, including the root's; deeper keys count at the last level.

        >>> OpenTree.paths("/", depth=3).count(["/a/b/c", "a/b/", "a"]).occupied.levels
        array([1, 2])
        """
        if not isinstance(separator, str) or not separator:
            raise ValueError(f"separator ({separator!r}) must be a non-empty text")
        return cls("paths", check_integer(depth, name="depth", least=2), separator=separator)

    def count(self, keys: Iterable[Any]) -> SparseCounts:
        """How often each key occurs: a member of `leaf_domain(tree)`.

        :param keys: Keys as described for `columns`, `bits` or `paths`; for columns also a Polars frame, for paths a
            series. Keys that do not fit the tree are left out, or count outside: no error depends on the data.

        >>> OpenTree.bits(8).count([3, 3, 200, 256]).occupied.counts
        array([2, 1])
        """
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a collection of keys, found one string. Hint: pass [key]")
        from opendp_tree.trees.nodes import count_keys

        return count_keys(self, keys)

    def bits_at(self, levels: Ints) -> Ints:
        """The length in bits of the prefix of a node at each level.

        :param levels: The levels.
        """
        return np.minimum(levels * self.stride, self.width)
