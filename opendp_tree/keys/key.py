"""Where the rows of a frame belong: the constructors of all kinds of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from opendp_tree.keys.kind import KeyKind
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Key"]


class Options(TypedDict, total=False):
    """What every key can be told besides where its labels are."""

    tree: Tree | None
    nulls: Literal["label", "drop"] | None
    outside: Path | Literal["leaf", "drop"] | None
    show: Sequence[int | str] | None
    known: Any
    closed: Any


@dataclass(frozen=True, kw_only=True)
class Key(KeyKind):
    """Where a row belongs in a hierarchy, read from one column or several.

    Build one with `Key.columns`, `Key.path`, `Key.url`, `Key.bits`, `Key.ip`, `Key.calendar` or `Key.number`, or of
    several such with `Key.nested`. What a row holds that is no such key (no address, a number that is too wide, a time
    before the year 1 or after 9999) counts as null. All constructors take the same options:

    - `tree`: a public tree of label paths. A row counts at the leaf that its labels lead to or lead through. By default
      None: the nodes are not known in advance.
    - `nulls`: "label" counts null like any other label, "drop" leaves such rows out. By default "label".
    - `outside`: where rows count that have no place. "leaf", the default, is a leaf "(outside)" below the root, which a
      public tree without one is given, so that the root counts all rows; "drop" leaves such rows out, and statements
      say so; of a public tree also the path of one of its leaves.
    - `show`: the levels that are wanted, by name (a column, a part of a calendar) or by number from 0, the root's. By
      default None: all.
    - `known`: names that everybody knows, or that earlier releases have shown: a list of paths (tuples of labels as
      frames show them; texts for paths, web addresses and prefixes of addresses; a single label for the first level), a
      `Tree`, an earlier `TreeRelease`, or a list of these. Known nodes and all nodes above them are always shown, empty
      ones too; other nodes are found as before. By default None: the root alone. Not with `tree`, which knows all.
    - `closed`: where no other names exist: True for all known nodes, or a list of levels, by name or number, all of
      whose nodes are known, and of paths of known nodes, all of whose children are. Rows that lead elsewhere count at
      the last known node of their path. Once everything is closed, `delta` is not needed. By default None: nowhere.

    Examples
    --------
    >>> key = Key.columns("country", "city", known=[("be", "ghent"), ("lu",)], closed=["country"])
    >>> key.known.paths
    ((), ('be',), ('lu',), ('be', 'ghent'))
    >>> Key.calendar("day").open_tree()
    OpenTree(kind='columns', depth=4, width=0, stride=1, separator='', outside=False)

    """

    @classmethod
    def columns(cls, *names: str, **options: Unpack[Options]) -> Key:
        """One column a level, from the coarsest to the finest: texts, integers, truth values, dates or times.

        Parameters
        ----------
        *names
            The columns.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`.

        Examples
        --------
        >>> Key.columns("region", "county", "city").depth
        4

        """
        from opendp_tree.keys.columns import ColumnKey

        return ColumnKey(columns_used=names, depth=len(names) + 1, **options)

    @classmethod
    def path(cls, column: str, *, separator: str = "/", depth: int = 4, **options: Unpack[Options]) -> Key:
        """One column of texts such as "a/b/c", split as `OpenTree.paths` splits them.

        Parameters
        ----------
        column
            The column.
        separator
            What stands between labels. By default "/".
        depth
            The most levels that are counted, the root's among them: what is below belongs to the last one. By
            default 4.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`.

        Examples
        --------
        >>> Key.path("file", separator="/", depth=4).columns_used
        ('file',)

        """
        from opendp_tree.keys.paths import PathKey

        return PathKey(columns_used=(column,), depth=depth, separator=separator, **options)

    @classmethod
    def url(cls, column: str, *, depth: int = 6, **options: Unpack[Options]) -> Key:
        """One column of web addresses: the names of the host from the last, then the parts of the path.

        "https://www.example.com/a/b?q=1" is at `com`, `example`, `www`, `/a`, `/b`. Scheme, user, port, query and
        fragment are left out, hosts are in small letters, and a host that is an IP address is one label. Any text is
        read so: one without a scheme begins with its host, or with its path if it begins with "/".

        Parameters
        ----------
        column
            The column.
        depth
            The most levels that are counted, the root's among them: what is below belongs to the last one. By default
            6, five labels: most hosts have three.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`.

        Examples
        --------
        >>> Key.url("page").depth
        6

        """
        from opendp_tree.keys.paths import UrlKey

        return UrlKey(columns_used=(column,), depth=depth, separator=" / ", **options)

    @classmethod
    def bits(cls, column: str, *, width: int, stride: int = 1, **options: Unpack[Options]) -> Key:
        """One column of integers from 0 to 2**width - 1; each level adds `stride` bits of prefix.

        Parameters
        ----------
        column
            The column.
        width
            The number of bits, at most 128.
        stride
            The bits that each level adds. By default 1, the most levels; levels that nobody wants cost accuracy.
        **options
            As for every `Key`: `tree`, whose labels are integers of `stride` bits, `nulls`, `outside`, `show`, `known`,
            of paths (least integer of the prefix, bits), and `closed`. Without a tree, null is outside, as are numbers
            that are negative or too wide.

        Examples
        --------
        >>> Key.bits("number", width=32, stride=8).depth
        5

        """
        from opendp_tree.keys.addresses import BitKey

        split = OpenTree.bits(width, stride)
        return BitKey(columns_used=(column,), depth=split.depth, width=split.width, stride=split.stride, **options)

    @classmethod
    def ip(
        cls,
        column: str,
        *,
        version: int | Literal["both"] = 4,
        stride: int | None = None,
        **options: Unpack[Options],
    ) -> Key:
        """One column of addresses, as texts or as integers; each level adds `stride` bits of prefix.

        IPv6 texts may be shortened by "::" and end in an IPv4 address; an address with a zone counts as null, as does
        an IPv4 address with leading zeros.

        Parameters
        ----------
        column
            The column.
        version
            4, the default, or 6; or "both", for texts of either: the first level is then "IPv4" or "IPv6", and labels
            are prefixes such as "10.0.0.0/8".
        stride
            The bits that each level adds. By default 8 for version 4, one byte, and 16 for version 6, one group.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`. Without a tree, what is no
            such address is outside; for "both" it counts as null.

        Examples
        --------
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

        The calendar is the Gregorian one, from the year 1 to 9999; where there is a time zone, by its clock.

        Parameters
        ----------
        column
            The column.
        levels
            Some of year, quarter (Q1 to Q4), month (1 to 12), week (W01 to W53, of ISO 8601), weekday (Mon to Sun), day
            (of the month) and hour, in this order. With weeks, which quarters and months cut, the year is that of ISO
            8601, which the week belongs to. By default year, month and day.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`.

        Examples
        --------
        >>> Key.calendar("departure", levels=("month", "weekday", "hour")).depth
        4

        """
        from opendp_tree.keys.calendar import CalendarKey

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

        The leaves are the ranges [low, low + width), ... in order of value; the last one holds `high`. Integers, floats
        and decimals of any size are compared with the exact ends of ranges. Times with a zone are read on its clock.

        A release of such a key knows its ranges: `release.tree.ranges` has `low`, `high`, `bins` and `edges`, and the
        first `bins` of `release.tree.leaves` are the ranges in order.

        Parameters
        ----------
        column
            The column.
        low, high
            Public ends, chosen without looking at the data: two numbers, or two dates or times without a zone.
        bins
            How many ranges, at most 2**20. Give either this or `width`.
        width
            How wide each range is, which must fit a whole number of times; a `timedelta` for dates and times.
        branching
            How many children a node above the ranges has, from 2. By default as few as make no more levels than 16
            would: 10 for 1000 ranges. Fewer levels have less noise each; more, from 2 on, have more ranges of ranges.
        outside
            Where values below `low` and above `high` count, infinite ones too: "leaf", the default, at a leaf
            "(outside)" of their own; "ends", in the first and the last range; "drop", nowhere.
        nulls
            Null, and what is not a number (NaN), counts at that leaf by default ("label"), nowhere with "drop"; nowhere
            either where `outside` is "drop".
        show
            The levels that are wanted, by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> key = Key.number("age", low=0, high=120, width=10)
        >>> key.tree.ranges.bins, key.tree.paths()[0], key.tree.paths()[-1]
        (12, ('[0, 10)',), ('(outside)',))

        """
        from opendp_tree.keys.number import NumberKey, number_tree

        tree = number_tree(column, low, high, bins, width, branching=branching, outside=outside, nulls=nulls)
        return NumberKey(columns_used=(column,), depth=tree.depth, tree=tree, nulls=nulls, outside=outside, show=show)

    @classmethod
    def nested(cls, *keys: Key, **options: Unpack[Options]) -> Key:
        """The levels of one key below those of another: an address under a country, hours under a range of ages.

        Labels are those that a frame of the release shows: prefixes of addresses as "10.0.0.0/8".

        Parameters
        ----------
        *keys
            The keys from the coarsest, without options of their own. Those whose texts may end early (paths, web
            addresses, and IP addresses of both versions) must be last.
        **options
            `tree`, `nulls`, `outside`, `show`, `known` and `closed`, as for every `Key`.

        Examples
        --------
        >>> Key.nested(Key.columns("country"), Key.ip("address")).names
        ('country', 'address_8', 'address_16', 'address_24', 'address_32')

        """
        from opendp_tree.keys.nested import NestedKey

        return NestedKey.below(keys, options)

    @classmethod
    def of(cls, by: Key | str | Sequence[str]) -> Key:
        """A key as it is; a column's name, or several, as `Key.columns`.

        Parameters
        ----------
        by
            A key, a column's name, or names from the coarsest to the finest.

        Examples
        --------
        >>> Key.of(["region", "city"]) == Key.columns("region", "city")
        True

        """
        if isinstance(by, Key):
            return by
        if isinstance(by, str):
            return cls.columns(by)
        if not isinstance(by, Sequence):
            raise TypeError(f"by ({type(by).__name__}) must be a Key, a column's name, or a list of names")
        return cls.columns(*by)
