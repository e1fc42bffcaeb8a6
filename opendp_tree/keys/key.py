"""Where the rows of a frame belong: the constructors of all kinds of keys, and keys of one column per level."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice, check_column, check_type, column_hint, shortened
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.lookup import Lookup, find_leaf, with_outside
from opendp_tree.trees.labels import LABEL_KINDS, OUTSIDE, check_names
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree, renamed

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Key"]

KEY = "key"
_CASTS = {
    ("text", "integer"): "labels 1, not '1'; or cast the column to text",
    ("integer", "text"): "labels '1', not 1; or cast the column to integers",
}


def key_names(key: KeyKind) -> list[str]:
    """What the columns of a key are called once rows are grouped."""
    return [f"{KEY}_{index}" for index in range(len(key.columns_used))]


def brief(value: object) -> str:
    """A value in few letters."""
    return shortened(value) if isinstance(value, int) else reprlib.repr(value)


@dataclass(frozen=True)
class Level:
    """A level of a key below the root."""

    name: str
    kind: str = "text"
    """What its labels are, unless they are a column's values."""
    column: str | None = None
    """The column whose values are the labels as they are."""
    accepts: Callable[[Any], bool] | None = None
    """Whether rows can have a label of this kind; None for all labels."""


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


class Options(TypedDict, total=False):
    """The options of every key."""

    tree: Tree | None
    nulls: Literal["label", "drop"] | None
    outside: Path | Literal["leaf", "drop"] | None
    show: Sequence[int | str] | None
    known: Any
    closed: Any


@dataclass(frozen=True, kw_only=True)
class KeyKind(ABC):
    """What every kind of key answers; users have the constructors of `Key`."""

    takes: ClassVar[tuple[str, ...]] = ()
    """The kinds of columns that the key reads."""
    has_room: ClassVar[bool] = False
    """Whether the open tree has a leaf for what is no key."""
    ends_early: ClassVar[bool] = False
    """Whether keys may have fewer labels than there are levels."""
    is_ordered: ClassVar[bool] = False
    """Whether pictures keep the order of labels: that of the calendar, or of numbers."""
    time_step: ClassVar[Literal["day", "hour"] | None] = None
    """To what a column of times is cut before rows are grouped; None for plain columns."""
    text_type: ClassVar[pl.DataType] = pl.String()
    """What texts of a file without types are read as."""
    line_below: ClassVar[tuple[int, NumberRange] | None] = None
    """For ranges of numbers below groups, the number of levels of groups, and the ranges; None for other keys."""

    columns_used: tuple[str, ...]
    """The columns that the key reads."""
    depth: int
    """The nodes from the root to the deepest possible leaf."""
    tree: Tree | None = None
    nulls: Literal["label", "drop"] | None = None
    outside: Path | Literal["leaf", "drop", "ends"] | None = None
    show: Sequence[int | str] | None = None
    """The levels to show; once checked, their numbers, with 0 for the root's, which is always shown."""
    known: Any = field(default=None, repr=False)
    """Names that are public; once checked, `KnownNodes`, or None."""
    closed: Any = field(default=None, repr=False)
    """Where no other names exist; once checked, None: `known` says it."""

    def __post_init__(self) -> None:
        for column in self.columns_used:
            check_column(column)
        if self.nulls is not None:
            check_choice(self.nulls, name="nulls", choices=("label", "drop"))
        if self.tree is not None:
            self._read_tree(self.tree)
        elif self.outside not in ((None, "leaf", "drop") if self.has_room else (None,)):
            hint = "'leaf' or 'drop'" if self.has_room else "leave it out: each row has a node in this open tree"
            raise ValueError(f"outside ({self.outside!r}) needs a public tree. Hint: {hint}")
        elif self.outside == "drop" and self.nulls == "label":
            raise ValueError("nulls ('label') must be 'drop': null is outside of an open tree of bits")
        if self.show is not None:
            if isinstance(self.show, str) or not isinstance(self.show, Sequence) or not self.show:
                raise TypeError(f"show ({self.show!r}) must be a list of levels. Hint: {list(self.names[:3])}")
            numbers = {0, *(self.level_number(level, name="show") for level in self.show)}
            object.__setattr__(self, "show", tuple(sorted(numbers)))
        if self.known is not None or self.closed is not None:
            from opendp_tree.keys.known import read_known

            object.__setattr__(self, "known", read_known(self, self.known, self.closed))
            object.__setattr__(self, "closed", None)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels below the root: by default texts, called by the column and a number."""
        return tuple(Level(f"{self.columns_used[0]}_{number}") for number in range(1, self.depth))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels below the root."""
        return tuple(level.name for level in self.levels)

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """What the labels of each level are, by what the columns hold."""
        return tuple(level.kind if level.column is None else kinds[level.column] for level in self.levels)

    @abstractmethod
    def labels(self, groups: pl.DataFrame) -> Labels:
        """The labels of each distinct key."""

    def below(self) -> KeyKind:
        """The same key where it is nested, with labels as frames show them."""
        return self

    def known_path(self, name: Any) -> Path:
        """A known name as a path: a tuple of labels as it is, and one label as the first."""
        return name if isinstance(name, tuple) else (name,)

    def prefix_of(self, path: Path) -> Path:
        """A path of labels of a public tree as the open tree has it."""
        return path

    def words(self, groups: pl.DataFrame) -> tuple[Words, Words, Bools]:
        """Each distinct key of bits as high and low words, and which of them are keys at all."""
        raise TypeError("this key has labels, not bits")

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        """What rows are grouped by, of one column."""
        return pl.col(column)

    def expressions(self, columns: Sequence[str], schema: Mapping[str, Any]) -> list[pl.Expr]:
        """What rows are grouped by: key_0, key_1, ..."""
        owned = zip(columns, self.column_owners, key_names(self), strict=True)
        return [owner.expression(column, schema[column]).alias(name) for column, owner, name in owned]

    def open_tree(self) -> OpenTree:
        """The hierarchy of all keys of this kind, whatever nodes are known."""
        return OpenTree.columns(self.names, ordered=self.is_ordered)

    @property
    def column_owners(self) -> tuple[KeyKind, ...]:
        """For each column that is read, the key that reads it: this one, or one of those that it nests."""
        return (self,) * len(self.columns_used)

    @property
    def hierarchy(self) -> Tree | OpenTree:
        """The tree that rows are counted in: the public one, or that of all keys."""
        return self.open_tree() if self.tree is None else self.tree

    @property
    def shown_levels(self) -> tuple[int, ...]:
        """The levels to show, by their numbers from 0 for the root's."""
        return tuple(range(self.hierarchy.depth) if self.show is None else map(int, self.show))

    @property
    def drops_nulls(self) -> bool:
        """Whether rows with null among their labels are left out."""
        return self.nulls == "drop" or (self.tree is None and self.outside == "drop")

    @property
    def outside_leaf(self) -> int:
        """The index among the leaves of the public tree for rows that lead to none; -1 if they count nowhere."""
        if self.tree is None or self.outside == "drop":
            return -1
        return find_leaf(self.tree, self.outside if isinstance(self.outside, tuple) else (OUTSIDE,))

    def lookup(self, kinds: Mapping[str, str]) -> Lookup | None:
        """What finds the leaves of a public tree; None for open trees."""
        return None if self.tree is None else Lookup(self.tree, self.label_kinds(kinds), self.outside_leaf)

    def leaves(self, groups: pl.DataFrame, lookup: Lookup) -> Ints:
        """The index among the leaves of the public tree of each distinct key; -1 for keys that do not count."""
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
        """That the columns exist and hold what the key reads, and that public labels can be among it."""
        for name, owner in zip(self.columns_used, self.column_owners, strict=True):
            if name not in kinds:
                raise ValueError(f"by: there is no column {name!r}. {column_hint(name, kinds)}")
            if kinds[name] not in owner.takes:
                kind, hint = kinds[name], "cast it, or declare its type in read_source"
                if kind.startswith("engine type"):
                    hint = "cast it in a view, or bring the rows here by read_source"
                elif kind == "float":
                    hint += f"; Key.number({name!r}, ...) has ranges of it"
                expected = f"one of: {', '.join(owner.takes)}. Hint: {hint}"
                raise ValueError(f"by: column {name!r} ({kind}) must hold {expected}")
        if self.tree is not None:
            self._check_labels(self.tree, self.label_kinds(kinds))
        if self.known is not None:
            from opendp_tree.keys.known import check_labels

            check_labels(self, self.known.tree, self.known.paths, kinds)

    def _check_labels(self, tree: Tree, kinds: tuple[str, ...]) -> None:
        """Each level must have a label of the kind that rows have there: else no row could reach it."""
        labels, outside = tree.labels or (), -1 if self.outside_leaf < 0 else int(tree.leaves[self.outside_leaf])
        for level, (kind, name) in enumerate(zip(kinds[: tree.depth - 1], self.names, strict=False), start=1):
            types = {type(labels[node]) for node in tree.levels[level].tolist() if node != outside} - {type(None)}
            # Columns hold labels of no other type: Python's times, for example, have fewer digits than Polars'.
            held = sorted(LABEL_KINDS.get(each, f"Python's {each.__name__}") for each in types)
            if held and kind not in held:
                hint = _CASTS.get((held[0], kind), "cast the column, or build the tree of such labels")
                raise ValueError(
                    f"by: the labels of tree at level {level} ({', '.join(held)}) can never be those of {name!r} "
                    f"({kind}): no row would reach them. Hint: {hint}"
                )

    def check_tree(self, tree: Tree, *, name: str) -> None:
        """That a public tree has labels, and no more levels than the key."""
        if tree.labels is None:
            raise ValueError(f"{name} must have labels. Hint: Tree.from_paths")
        if tree.depth > self.depth:
            raise ValueError(
                f"{name} (of {tree.depth - 1} levels below its root) must not be deeper than the key "
                f"({self.depth - 1}): no row would reach its leaves. Hint: name a column for each level"
            )

    def _read_tree(self, tree: Tree) -> None:
        """A public tree with the key's names for its levels, unless it has its own, and a leaf outside if need be."""
        check_type(tree, Tree, name="tree", hint="Tree.from_paths(...), whose nodes are public")
        self.check_tree(tree, name="tree")
        if self.outside in (None, "leaf") and tree.depth > 1:
            tree = with_outside(tree)
        is_unnamed = tree.names == check_names(None, count=tree.depth - 1)
        names = self.names[: tree.depth - 1] if is_unnamed else tree.names
        object.__setattr__(self, "tree", renamed(tree, names, ordered=tree.ordered or self.is_ordered))
        is_leaf = isinstance(self.outside, tuple) and self.outside_leaf >= 0
        if self.outside not in (None, "leaf", "drop") and not is_leaf:
            raise ValueError(f"outside ({self.outside!r}) must be 'leaf', 'drop', or the path of a leaf of tree")

    def level_number(self, level: Any, *, name: str) -> int:
        """The number of a level that is given by its number, from 0 for the root's, or by its name."""
        deepest = (self.depth if self.tree is None else self.tree.depth) - 1
        numbers: dict[int | str, int] = {number: number for number in range(deepest + 1)}
        numbers.update({each: number for number, each in enumerate(self.names[:deepest], 1)})
        if isinstance(level, bool) or not isinstance(level, (int, str)) or level not in numbers:
            raise ValueError(f"{name} ({brief(level)}) must be one of the levels {', '.join(map(repr, numbers))}")
        return numbers[level]


@dataclass(frozen=True, kw_only=True)
class Key(KeyKind):
    """Where a row belongs in a hierarchy, read from one column or several.

    Build one with `Key.columns`, `Key.path`, `Key.url`, `Key.bits`, `Key.ip`, `Key.calendar` or `Key.number`, or of
    several such with `Key.nested`. A value that is no such key (no address, a number that is too wide, a time outside
    the years 1 to 9999) counts as null. All constructors take the same options:

    - `tree`: a public tree of label paths. A row counts at the leaf that its labels lead to or through. By default
      None: the nodes are not known in advance.
    - `nulls`: "label", the default, counts null like any other label; "drop" leaves such rows out.
    - `outside`: where rows count that lead to no leaf. "leaf", the default, is a leaf "(outside)" below the root;
      "drop" leaves such rows out, and statements say so; of a public tree also the path of one of its leaves.
    - `show`: the levels to show, by name or by number from 0, the root's. By default None: all.
    - `known`: names that everybody knows, or that earlier releases have shown: a list of paths (tuples of labels as
      frames show them; texts for paths, web addresses and prefixes), a `Tree`, an earlier `TreeRelease`, or a list of
      these. They are always shown, empty ones too; other nodes are found as before. By default None. Not with `tree`.
    - `closed`: where no other names exist: True for all known nodes, or a list of levels all of whose nodes are known
      and of paths all of whose children are. Rows that lead elsewhere count at the last known node of their path. Once
      everything is closed, `delta` is not needed. By default None: nowhere.

    >>> key = Key.columns("country", "city", known=[("be", "ghent"), ("lu",)], closed=["country"])
    >>> key.known.paths
    ((), ('be',), ('lu',), ('be', 'ghent'))
    """

    @classmethod
    def columns(cls, *names: str, **options: Unpack[Options]) -> Key:
        """One column per level, from the coarsest to the finest: texts, integers, truth values, dates or times.

        :param names: The columns.
        :param options: As for every `Key`.
        """
        return ColumnKey(columns_used=names, depth=len(names) + 1, **options)

    @classmethod
    def path(cls, column: str, *, separator: str = "/", depth: int = 4, **options: Unpack[Options]) -> Key:
        """One column of texts such as "a/b/c", split as `OpenTree.paths` splits them.

        :param column: The column.
        :param separator: The text between labels. By default "/".
        :param depth: The number of levels, the root's among them: what is below belongs to the last. By default 4.
        :param options: As for every `Key`.
        """
        from opendp_tree.keys.paths import PathKey

        return PathKey(columns_used=(column,), depth=depth, separator=separator, **options)

    @classmethod
    def url(cls, column: str, *, depth: int = 6, **options: Unpack[Options]) -> Key:
        """One column of web addresses: the names of the host from the last, then the parts of the path.

        "https://www.example.com/a/b?q=1" is at `com`, `example`, `www`, `/a`, `/b`. Any text is read so.

        :param column: The column.
        :param depth: The number of levels, the root's among them: what is below belongs to the last. By default 6.
        :param options: As for every `Key`.
        """
        from opendp_tree.keys.paths import UrlKey

        return UrlKey(columns_used=(column,), depth=depth, separator=" / ", **options)

    @classmethod
    def bits(cls, column: str, *, width: int, stride: int = 1, **options: Unpack[Options]) -> Key:
        """One column of integers from 0 to 2**width - 1; each level adds `stride` bits of prefix.

        :param column: The column.
        :param width: The number of bits, at most 128.
        :param stride: The bits that each level adds. By default 1; every level costs accuracy.
        :param options: As for every `Key`: labels of a `tree` are integers of `stride` bits, paths of `known` are
            (least integer of the prefix, bits). Without a tree, null is outside, as are other numbers.
        """
        from opendp_tree.keys.addresses import bit_key

        return bit_key(column, width, stride, options)

    @classmethod
    def ip(
        cls, column: str, *, version: int | Literal["both"] = 4, stride: int | None = None, **options: Unpack[Options]
    ) -> Key:
        """One column of addresses, as texts or as integers; each level adds `stride` bits of prefix.

        :param column: The column.
        :param version: 4, the default, or 6; or "both", for texts of either: the first level is then "IPv4" or "IPv6".
        :param stride: The bits that each level adds. By default 8 for version 4 and 16 for version 6.
        :param options: As for every `Key`. Without a tree, other values are outside; for "both" they are null.

        >>> Key.ip("address", version=6).depth, Key.ip("address", version="both").depth
        (9, 10)
        """
        from opendp_tree.keys.addresses import address_key

        return address_key(column, version, stride, options)

    @classmethod
    def calendar(
        cls, column: str, *, levels: Sequence[str] = ("year", "month", "day"), **options: Unpack[Options]
    ) -> Key:
        """One column of dates or times, by parts of the calendar, in whose order frames and pictures show them.

        :param column: The column.
        :param levels: Some of year, quarter (Q1 to Q4), month (1 to 12), week (W01 to W53, of ISO 8601), weekday (Mon
            to Sun), day (of the month) and hour, in this order. By default year, month and day.
        :param options: As for every `Key`.
        """
        from opendp_tree.keys.number import CalendarKey

        parts = (levels,) if isinstance(levels, str) else tuple(levels)
        return CalendarKey(columns_used=(column,), depth=len(parts) + 1, parts=parts, **options)

    @classmethod
    def number(
        cls,
        column: str,
        *,
        low: Any,
        high: Any,
        bins: int | None = None,
        width: Any = None,
        branching: int | None = None,
        outside: Literal["leaf", "drop", "ends"] = "leaf",
        nulls: Literal["label", "drop"] | None = None,
        show: Sequence[int] | None = None,
    ) -> Key:
        """One column of numbers, dates or times, in ranges of equal width: a public tree, for which epsilon suffices.

        The leaves are the ranges [low, low + width), ... in order of value; the last one holds `high`. A release knows
        them: `release.tree.ranges` has `low`, `high`, `bins` and `edges`.

        :param column: The column.
        :param low: The public lower end, chosen without looking at the data: a number, or a date or time without a
            zone.
        :param high: The public upper end.
        :param bins: How many ranges, at most 2**20. Give either this or `width`.
        :param width: The width of each range, of which `high - low` is a multiple; a `timedelta` for dates and times.
        :param branching: How many children a node above the ranges has, from 2. By default as few as make no more
            levels than 16 would: 10 for 1000 ranges.
        :param outside: Where values below `low` and above `high` count: "leaf", the default, at a leaf "(outside)";
            "ends", in the first and the last range; "drop", nowhere.
        :param nulls: Null and NaN count at that leaf by default ("label"); nowhere with "drop", here or in `outside`.
        :param show: The levels to show, by number from 0, the root's. By default None: all.
        """
        from opendp_tree.keys.number import NumberKey

        if (bins is None) == (width is None):
            raise ValueError("bins or width must be given, and not both. Hint: bins=100")
        ranges = NumberRange(low, high, bins) if bins is not None else NumberRange.of_width(low, high, width)
        has_leaf = outside == "leaf" or (outside == "ends" and nulls != "drop")
        tree = ranges.tree(branching=branching, outside=has_leaf, name=check_column(column))
        return NumberKey(
            columns_used=(column,), depth=tree.depth, tree=tree, ranges=ranges, nulls=nulls, outside=outside, show=show
        )

    @classmethod
    def nested(cls, *keys: Key, **options: Unpack[Options]) -> Key:
        """The levels of one key below those of another: an address under a country, hours under a range of ages.

        :param keys: The keys from the coarsest, without options of their own. Those whose texts may end early (paths,
            web addresses, and IP addresses of both versions) must be last.
        :param options: As for every `Key`; labels are as frames show them: prefixes of addresses as "10.0.0.0/8".
        """
        from opendp_tree.keys.nested import nested_key

        return nested_key(keys, options)

    @classmethod
    def of(cls, by: Key | str | Sequence[str]) -> Key:
        """A key as it is; a column's name, or several, as `Key.columns`.

        :param by: A key, a column's name, or names from the coarsest to the finest.
        """
        if isinstance(by, Key):
            return by
        if isinstance(by, str):
            return cls.columns(by)
        if not isinstance(by, Sequence):
            raise TypeError(f"by ({type(by).__name__}) must be a Key, a column's name, or a list of names")
        if any(isinstance(each, Key) for each in by):
            columns = f"Key.columns({', '.join(repr(each) for each in by if isinstance(each, str)) or '...'})"
            hint = f"Hint: Key.nested({columns}, Key.number(...))"
            raise TypeError(f"by must be a Key, a column's name, or a list of names, not a list with a Key. {hint}")
        return cls.columns(*by)


@dataclass(frozen=True, kw_only=True)
class ColumnKey(Key):
    """One column per level; each value is a label."""

    takes = ("text", "integer", "boolean", "date", "datetime", "time")

    def __post_init__(self) -> None:
        if not self.columns_used:
            raise ValueError("by: names must hold at least one column. Hint: by=['region', 'city']")
        if len(set(map(check_column, self.columns_used))) < len(self.columns_used):
            raise ValueError(f"by: names {self.columns_used} must differ")
        super().__post_init__()

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(Level(name, column=name) for name in self.columns_used)

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The values; categories as their texts."""
        frame = groups.select(key_names(self)).cast({pl.Categorical: pl.String, pl.Enum: pl.String})
        return Labels(tuple(frame.iter_columns()), np.full(groups.height, frame.width))
