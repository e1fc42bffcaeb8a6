"""Where the rows of a frame belong: columns, a hierarchy, and what is done with rows that it has no place for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from opendp_tree._arguments import check_choice, check_column
from opendp_tree.keys.key_levels import PARTS, KeyLevels
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Key"]

_IP_WIDTHS, _IP_STRIDES = {4: 32, 6: 128}, {4: 8, 6: 16}
_BETWEEN_URL = " / "


class Options(TypedDict, total=False):
    """What every key can be told besides where its labels are."""

    tree: Tree | None
    nulls: Literal["label", "drop"] | None
    outside: Path | Literal["leaf", "drop"] | None
    show: Sequence[int | str] | None


@dataclass(frozen=True)
class Key(KeyLevels):
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

    Examples
    --------
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
            `tree`, `nulls`, `outside` and `show`, as for every `Key`.

        Examples
        --------
        >>> Key.columns("region", "county", "city").depth
        4

        """
        if not names:
            raise ValueError("names must hold at least one column")
        used = tuple(check_column(name) for name in names)
        if len(set(used)) < len(used):
            raise ValueError(f"names {used} must differ")
        return cls("columns", used, len(used) + 1, **options)

    @classmethod
    def path(cls, column: str, *, separator: str = "/", depth: int, **options: Unpack[Options]) -> Key:
        """One column of texts such as "a/b/c", split as `OpenTree.paths` splits them.

        Parameters
        ----------
        column
            The column.
        separator
            What stands between labels. By default "/".
        depth
            The most levels that are counted, the root's among them: what is below belongs to the last one.
        **options
            `tree`, `nulls`, `outside` and `show`, as for every `Key`.

        Examples
        --------
        >>> Key.path("file", separator="/", depth=4).columns_used
        ('file',)

        """
        split = OpenTree.paths(separator, depth=depth)
        return cls("path", (check_column(column),), split.depth, separator=split.separator, **options)

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
            `tree`, `nulls`, `outside` and `show`, as for every `Key`.

        Examples
        --------
        >>> Key.url("page").depth
        6

        """
        split = OpenTree.paths(_BETWEEN_URL, depth=depth)
        return cls("url", (check_column(column),), split.depth, separator=split.separator, **options)

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
            `tree`, whose labels are integers of `stride` bits, `nulls`, `outside` and `show`, as for every `Key`.
            Without a tree, null is outside, as are numbers that are negative or too wide.

        Examples
        --------
        >>> Key.bits("number", width=32, stride=8).depth
        5

        """
        split = OpenTree.bits(width, stride)
        used = (check_column(column),)
        return cls("bits", used, split.depth, width=split.width, stride=split.stride, **options)

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
            `tree`, `nulls`, `outside` and `show`, as for every `Key`. Without a tree, what is no such address is
            outside; for "both" it counts as null.

        Examples
        --------
        >>> Key.ip("address", version=6).depth, Key.ip("address", version="both").depth
        (9, 10)

        """
        if not isinstance(version, (int, str)):
            raise TypeError(f"version ({type(version).__name__}) must be 4, 6 or 'both'. Hint: version=6")
        if version == "both":
            each = (cls.ip(column, version=4, stride=stride), cls.ip(column, version=6, stride=stride))
            return cls("addresses", each[0].columns_used, max(key.depth for key in each) + 1, inner=each, **options)
        if version not in _IP_WIDTHS:
            raise ValueError(f"version ({version!r}) must be 4, 6 or 'both'. Hint: version=6")
        step = _IP_STRIDES[version] if stride is None else stride
        return replace(cls.bits(column, width=_IP_WIDTHS[version], stride=step, **options), kind="ip")

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
            `tree`, `nulls`, `outside` and `show`, as for every `Key`.

        Examples
        --------
        >>> Key.calendar("departure", levels=("month", "weekday", "hour")).depth
        4

        """
        chosen = (levels,) if isinstance(levels, str) else tuple(levels)
        for part in chosen:
            check_choice(part, name="levels", choices=PARTS)
        if not chosen or list(chosen) != sorted(set(chosen), key=PARTS.index):
            raise ValueError(f"levels {chosen} must be some of {PARTS}, in this order")
        if "week" in chosen and {"quarter", "month"} & set(chosen):
            raise ValueError(
                f"levels {chosen} must not have weeks below quarters or months, which cut them. Hint: year"
            )
        return cls("calendar", (check_column(column),), len(chosen) + 1, parts=chosen, **options)

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
        if (bins is None) == (width is None):
            raise ValueError("bins or width must be given, and not both. Hint: bins=100")
        ranges = NumberRange(low, high, bins) if bins is not None else NumberRange.of_width(low, high, width)
        check_choice(outside, name="outside", choices=("leaf", "drop", "ends"))
        if outside == "drop" and nulls == "label":
            raise ValueError("nulls ('label') must be 'drop' where outside is: null is outside of all ranges")
        has_leaf = outside == "leaf" or (outside == "ends" and nulls != "drop")
        used = (check_column(column),)
        tree = ranges.tree(branching=branching, outside=has_leaf, name=column)
        return cls("number", used, tree.depth, tree=tree, nulls=nulls, outside=outside, show=show)

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
            `tree`, `nulls`, `outside` and `show`, as for every `Key`.

        Examples
        --------
        >>> Key.nested(Key.columns("country"), Key.ip("address")).names
        ('country', 'address_8', 'address_16', 'address_24', 'address_32')

        """
        if len(keys) < 2 or not all(isinstance(key, Key) for key in keys):
            raise TypeError(
                "keys must be two keys or more. Hint: Key.nested(Key.columns('country'), Key.ip('address'))"
            )
        for place, key in enumerate(keys, start=1):
            own = key.nulls or key.show or (key.kind != "number" and (key.tree or key.outside))
            if own or key.kind == "nested":
                raise ValueError(f"keys: key {place} must have no options of its own. Hint: give them to Key.nested")
            if key.kind == "number" and key.outside == "drop":
                raise ValueError(f"keys: key {place} must have outside='leaf' or 'ends'")
            if key.kind in ("path", "url", "addresses") and place < len(keys):
                raise ValueError(f"keys: key {place} must be last: its texts may end early")
        used = tuple(chain.from_iterable(key.columns_used for key in keys))
        return cls("nested", used, sum(key.depth - 1 for key in keys) + 1, inner=keys, **options)

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
