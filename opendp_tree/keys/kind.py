"""What every kind of key answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice, check_type
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.known import brief, check_known_kinds, is_label, read_known
from opendp_tree.keys.lookup import Lookup, find_leaf, kinds_at, with_outside
from opendp_tree.trees.labels import OUTSIDE, check_names
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Path, Tree, renamed

KEY = "key"
_CASTS = {
    ("text", "integer"): "labels 1, not '1'; or cast the column to text",
    ("integer", "text"): "labels '1', not 1; or cast the column to integers",
}


def key_names(key: KeyKind) -> list[str]:
    """What the columns of a key are called once rows are grouped."""
    return [f"{KEY}_{index}" for index in range(len(key.columns_used))]


@dataclass(frozen=True)
class Labels:
    """One column of labels per level; a key ends after `lengths` of them, and null before that is a label."""

    columns: tuple[pl.Series, ...]
    lengths: Ints

    def with_null(self) -> Bools:
        """Which keys have null among their labels."""
        with_null = np.zeros(self.lengths.size, dtype=np.bool_)
        for level, column in enumerate(self.columns):
            if column.null_count():
                with_null |= column.is_null().to_numpy() & (self.lengths > level)
        return with_null

    def sparse(self, tree: OpenTree, people: Ints, valid: Bools) -> SparseCounts:
        """The counts of the keys that are valid, for `people` each."""
        # Null stands for the end of a key or for a label, never for both below one node.
        if valid.all():
            return SparseCounts.of_labels(tree, self.columns, self.lengths, people)
        columns = [column.filter(valid) for column in self.columns]
        return SparseCounts.of_labels(tree, columns, self.lengths[valid], people[valid])


@dataclass(frozen=True, kw_only=True)
class KeyKind(ABC):
    """Where a row belongs in a hierarchy, however it is read."""

    kind: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ()
    """What the columns of this kind may hold."""
    has_room: ClassVar[bool] = False
    """Whether the open tree has a leaf for what is no key."""
    ends_early: ClassVar[bool] = False
    """Whether keys may have fewer labels than there are levels."""
    is_ordered: ClassVar[bool] = False
    """Whether labels have an order of their own, which pictures keep: that of the calendar, or of numbers."""

    columns_used: tuple[str, ...]
    """The columns that the key reads."""
    depth: int
    """The nodes from the root to the deepest possible leaf."""
    tree: Tree | None = None
    nulls: Literal["label", "drop"] | None = None
    outside: Path | Literal["leaf", "drop", "ends"] | None = None
    show: Sequence[int | str] | None = None
    """The levels that are wanted; once checked, their numbers."""
    known: Any = field(default=None, repr=False)
    """Names that are public; once checked, `KnownNodes`, or None."""
    closed: Any = field(default=None, repr=False)
    """Where no other names exist; once checked, None: `known` says it."""

    def __post_init__(self) -> None:
        if self.nulls is not None:
            check_choice(self.nulls, name="nulls", choices=("label", "drop"))
        if self.tree is None:
            self._check_open_outside()
        else:
            self._read_tree(self.tree)
        if self.show is not None:
            object.__setattr__(self, "show", self._read_levels(self.show))
        if self.tree is not None and (self.known is not None or self.closed is not None):
            raise ValueError("known and closed must be left out with tree, all of whose nodes are known and closed")
        object.__setattr__(self, "known", read_known(self, self.known, self.closed))
        object.__setattr__(self, "closed", None)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the levels: columns, parts of a calendar, or a column with what tells its levels apart."""

    @abstractmethod
    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """What the labels of each level are, by what the columns hold."""

    @abstractmethod
    def labels(self, groups: pl.DataFrame) -> Labels:
        """The labels of each distinct key."""

    def labels_below(self, groups: pl.DataFrame) -> Labels:
        """The labels of each distinct key where it is nested, as frames show them."""
        return self.labels(groups)

    def label_kinds_below(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """What the labels of each level are where the key is nested."""
        return self.label_kinds(kinds)

    def known_path(self, name: Any) -> Path:
        """A known name as a path: a tuple of labels as it is, and one label as the first."""
        return name if isinstance(name, tuple) else (name,)

    def prefix_of(self, path: Path) -> Path:
        """A path of labels of a public tree as the open tree has it."""
        return path

    def is_label(self, level: int, label: Any, kind: str) -> bool:
        """Whether rows can have a label at a level, as far as the key alone can tell."""
        return is_label(label, kind)

    def is_label_below(self, level: int, label: Any, kind: str) -> bool:
        """The same where the key is nested."""
        return self.is_label(level, label, kind)

    def words(self, groups: pl.DataFrame) -> tuple[Words, Words, Bools]:
        """Each distinct key of bits as high and low words, and which of them are keys at all."""
        raise TypeError(f"a key of {self.kind} has labels, not bits")

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        """What rows are grouped by, of one column."""
        return pl.col(column)

    def expressions(self, columns: Sequence[str], schema: Mapping[str, Any]) -> list[pl.Expr]:
        """What rows are grouped by: key_0, key_1, ..."""
        owned = zip(columns, self.column_owners, key_names(self), strict=True)
        return [owner.expression(column, schema[column]).alias(name) for column, owner, name in owned]

    def open_tree(self) -> OpenTree:
        """The hierarchy of all keys of this kind, whatever nodes are known.

        Examples
        --------
        >>> from opendp_tree import Key
        >>> Key.bits("number", width=32, stride=8).open_tree().depth
        5

        """
        return OpenTree.columns(self.names, ordered=self.is_ordered)

    @property
    def column_owners(self) -> tuple[KeyKind, ...]:
        """For each column that is read, the key that reads it: this one, or one of those that it nests."""
        return (self,) * len(self.columns_used)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns whose values are labels as they are."""
        return ()

    @property
    def time_step(self) -> Literal["day", "hour"] | None:
        """To what a column of times is cut before rows are grouped; None for plain columns."""
        return None

    @property
    def text_form(self) -> Literal["date", "time", "number"] | None:
        """As what texts of a file without types are read; None for texts."""
        return None

    @property
    def line_below(self) -> tuple[int, NumberRange] | None:
        """For ranges of numbers below groups, the number of levels of groups, and the ranges; None for other keys."""
        return None

    @property
    def hierarchy(self) -> Tree | OpenTree:
        """The tree that rows are counted in: the public one, or that of all keys."""
        return self.open_tree() if self.tree is None else self.tree

    @property
    def shown_levels(self) -> tuple[int, ...]:
        """The levels that are wanted, by their numbers from 0 for the root's."""
        return tuple(range(self.hierarchy.depth)) if self.show is None else self._read_levels(self.show)

    @property
    def drops_nulls(self) -> bool:
        """Whether rows with null among their labels are left out."""
        return self.nulls == "drop" or (self.tree is None and self.outside == "drop")

    @property
    def counts_by_value(self) -> bool:
        """Whether each value of the columns is a leaf of its own."""
        return self.tree is None and self.label_columns == self.columns_used

    @property
    def outside_leaf(self) -> int:
        """The place among the leaves of the public tree for rows that lead to none; -1 if they count nowhere."""
        if self.tree is None or self.outside == "drop":
            return -1
        return find_leaf(self.tree, self.outside if isinstance(self.outside, tuple) else (OUTSIDE,))

    def lookup(self, kinds: Mapping[str, str]) -> Lookup | None:
        """What finds the leaves of a public tree; None for open trees."""
        return None if self.tree is None else Lookup(self.tree, self.label_kinds(kinds), self.outside_leaf)

    def leaves(self, groups: pl.DataFrame, lookup: Lookup) -> Ints:
        """The place among the leaves of the public tree of each distinct key; -1 for keys that do not count."""
        labels = self.labels(groups)
        leaves = lookup.leaves(labels.columns, labels.lengths)
        if self.drops_nulls:
            leaves[labels.with_null()] = -1
        return leaves

    def counted(self, of: str = "rows") -> str:
        """Which rows are counted, in words: all, unless some were to be dropped."""
        inside = " inside the tree" if self.outside == "drop" else ""
        return f"{of}{inside}{' whose key has no null' if self.nulls == 'drop' else ''}"

    def check_kinds(self, kinds: Mapping[str, str]) -> None:
        """That the columns exist and hold what the key reads, and that labels of the tree can be among it."""
        for name, owner in zip(self.columns_used, self.column_owners, strict=True):
            if name not in kinds:
                raise ValueError(f"by: there is no column {name!r}. Hint: check the name")
            if kinds[name] not in (takes := owner.kinds_taken()):
                hint = ". Hint: cast it, or declare its type in read_source" if owner.text_form == "number" else ""
                raise ValueError(f"by: column {name!r} ({kinds[name]}) must hold one of: {', '.join(takes)}{hint}")
        if self.tree is not None:
            self._check_labels(self.tree, self.label_kinds(kinds))
        if self.known is not None:
            check_known_kinds(self, self.known, self.label_kinds(kinds))

    def kinds_taken(self) -> tuple[str, ...]:
        """What a column of this key may hold."""
        return self.takes

    def _check_labels(self, tree: Tree, kinds: tuple[str, ...]) -> None:
        """Each level must have a label of the kind that rows have there: else no row could reach it."""
        outside = int(tree.leaves[self.outside_leaf]) if self.outside_leaf >= 0 else -1
        for level, (kind, name) in enumerate(zip(kinds[: tree.depth - 1], self.names, strict=False), start=1):
            given = kinds_at(tree, level, without=outside)
            if given and kind not in given:
                hint = _CASTS.get((given[0], kind), "cast the column, or build the tree of such labels")
                raise ValueError(
                    f"by: the labels of tree at level {level} ({', '.join(given)}) can never be those of {name!r} "
                    f"({kind}): no row would reach them. Hint: {hint}"
                )

    def _check_open_outside(self) -> None:
        if self.outside not in ((None, "leaf", "drop") if self.has_room else (None,)):
            hint = "'leaf' or 'drop'" if self.has_room else "leave it out: each row has a place in this open tree"
            raise ValueError(f"outside ({self.outside!r}) needs a public tree. Hint: {hint}")
        if self.outside == "drop" and self.nulls == "label":
            raise ValueError("nulls ('label') must be 'drop': null is outside of an open tree of bits")

    def _read_tree(self, tree: Tree) -> None:
        """A public tree with the key's names for its levels, unless it has its own, and a leaf outside if need be."""
        check_type(tree, Tree, name="tree", hint="Tree.from_paths(...), whose nodes are public")
        if tree.labels is None:
            raise ValueError("tree must have labels. Hint: Tree.from_paths")
        if tree.depth > self.depth:
            raise ValueError(
                f"tree (of {tree.depth - 1} levels below its root) must not be deeper than the key ({self.depth - 1}): "
                "no row would reach its leaves. Hint: name a column for each level"
            )
        if self.outside in (None, "leaf") and tree.depth > 1:
            tree = with_outside(tree)
        unnamed = tree.names == check_names(None, count=tree.depth - 1)
        names = self.names[: tree.depth - 1] if unnamed else tree.names
        object.__setattr__(self, "tree", renamed(tree, names, ordered=tree.ordered or self.is_ordered))
        if self.outside not in (None, "leaf", "drop") and not (
            isinstance(self.outside, tuple) and self.outside_leaf >= 0
        ):
            raise ValueError(
                f"outside ({self.outside!r}) must be 'leaf', 'drop', or the path of a leaf of tree, a tuple of labels"
            )

    def _read_levels(self, show: Sequence[int | str]) -> tuple[int, ...]:
        """Levels by their numbers, from 0 for the root's, which is always shown."""
        if isinstance(show, str) or not isinstance(show, Sequence) or not show:
            raise TypeError(f"show ({show!r}) must be a list of levels. Hint: {list(self.names[:3])}")
        return tuple(sorted({0, *(self.level_number(level, name="show") for level in show)}))

    def level_number(self, level: Any, *, name: str) -> int:
        """The number of a level that is given by its number, from 0 for the root's, or by its name."""
        deepest = (self.depth if self.tree is None else self.tree.depth) - 1
        numbers: dict[int | str, int] = {number: number for number in range(deepest + 1)}
        numbers.update({each: number for number, each in enumerate(self.names[:deepest], 1)})
        if isinstance(level, bool) or not isinstance(level, (int, str)) or level not in numbers:
            raise ValueError(f"{name} ({brief(level)}) must be one of the levels {', '.join(map(repr, numbers))}")
        return numbers[level]
