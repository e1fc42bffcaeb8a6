"""Hierarchies whose nodes are not known in advance: only the depth is public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_choice, check_integer, check_names
from opendp_tree.saturate import range_sums
from opendp_tree.trees.occupied import Occupied

__all__ = ["OpenTree", "SparseCounts"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


MOST_LEVELS = 1000
"""Of a tree of labels, the root's with them: every level is a column of the release."""


@dataclass(frozen=True)
class OpenTree:
    """A tree that grows with its keys.

    Build one with `OpenTree.columns`, `OpenTree.bits` or `OpenTree.paths`. `depth` counts the nodes from the root to
    the deepest possible key, as for `Tree`. Nothing but this description is public: which keys occur is private.

    >>> OpenTree.bits(32, stride=8)
    OpenTree(kind='bits', depth=5, width=32, stride=8, separator='')
    """

    kind: Literal["columns", "bits", "paths"]
    depth: int
    width: int = 0
    stride: int = 1
    separator: str = ""
    # How nodes are shown says nothing of what the data are: trees that differ only in this are equal, and so are their
    # domains, so that a chain fits whether or not both of its ends were told the names.
    names: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """What frames call the label of each level below the root, for keys that are tuples of labels."""
    shown_as: Literal["integer", "ipv4", "ipv6"] = field(default="integer", repr=False, compare=False)
    """How frames show prefixes of bits."""

    def __post_init__(self) -> None:
        check_choice(self.kind, name="kind", choices=("columns", "bits", "paths"))
        for name, least in (("depth", 2), ("width", 0), ("stride", 1)):
            check_integer(getattr(self, name), name=name, least=least)
        if self.kind != "bits" and self.depth > MOST_LEVELS:
            raise ValueError(f"depth ({self.depth}) must be at most {MOST_LEVELS}; deeper keys count at that level")
        if self.kind == "bits" and self.depth != -(-self.width // self.stride) + 1:
            raise ValueError(f"depth ({self.depth}) must fit width and stride. Hint: OpenTree.bits")
        count = self.depth - 1 if self.kind == "columns" else 0
        object.__setattr__(self, "names", check_names(self.names or None, count=count))
        check_choice(self.shown_as, name="shown_as", choices=("integer", "ipv4", "ipv6"))
        width = {"integer": self.width, "ipv4": 32, "ipv6": 128}[self.shown_as]
        if self.width != width:
            raise ValueError(f"width ({self.width}) must be {width} to be shown as {self.shown_as}")

    @classmethod
    def columns(cls, names: int | Iterable[str]) -> OpenTree:
        """Keys are tuples of labels, one for each level below the root: give their names, or just their number.

        Shorter tuples stop at an inner node.

        >>> OpenTree.columns(["country", "city"]).count([("be", "ghent"), ("be", "ghent"), ("lu",)]).occupied.counts
        array([2, 1])
        >>> OpenTree.columns(2).names
        ('label_1', 'label_2')
        """
        if isinstance(names, (int, np.integer)):
            return cls("columns", check_integer(names, name="names", least=1) + 1)
        found = check_names(names)
        if not found:
            raise ValueError("names must hold at least one name")
        return cls("columns", len(found) + 1, names=found)

    @classmethod
    def bits(cls, width: int, stride: int = 1, *, shown_as: Literal["integer", "ipv4", "ipv6"] = "integer") -> OpenTree:
        """Keys are integers of `width` bits, up to 128; each level below the root adds `stride` bits of prefix.

        Up to 64 bits, keys are one array of integers; beyond, an array of shape (n, 2) of high and low words.
        Releases show a prefix as the least integer that it begins, or, as "ipv4" or "ipv6", as a text: `10.0.0.0/8`.

        >>> OpenTree.bits(128, stride=4).depth
        33
        """
        width = check_integer(width, name="width", least=1)
        stride = check_integer(stride, name="stride", least=1)
        if width > 128:
            raise ValueError(f"width ({width}) must be at most 128")
        return cls("bits", -(-width // stride) + 1, width, stride, shown_as=shown_as)

    @classmethod
    def paths(cls, separator: str, *, depth: int) -> OpenTree:
        """Keys are texts, split at a separator into at most depth - 1 labels; what is deeper counts at that level.

        A separator at the very start or end of a key is ignored.

        >>> OpenTree.paths("/", depth=3).count(["/a/b/c", "a/b/", "a"]).occupied.levels
        array([1, 2])
        """
        if not isinstance(separator, str) or not separator:
            raise ValueError(f"separator ({separator!r}) must be a non-empty text")
        return cls("paths", check_integer(depth, name="depth", least=2), separator=separator)

    def count(self, keys: Iterable[Any]) -> SparseCounts:
        """How often each key occurs: a member of `leaf_domain(tree)`.

        Keys that the tree cannot hold (of another type, null, or too wide) count nowhere, so that nothing raised here
        depends on the data.
        """
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a collection of keys, found one string. Hint: pass [key]")
        if self.kind == "bits":
            return _count_bits(self, keys)
        from opendp_tree.trees.label_codes import code_columns, code_paths

        if self.kind == "columns":
            return SparseCounts.of_labels(self, *code_columns(keys, self.names))
        coded, people = code_paths(keys, self.separator, self.depth - 1)
        return SparseCounts.of_labels(self, *coded, people=people)

    def bits_at(self, levels: Ints) -> Ints:
        """How many bits of prefix a node at each level has."""
        return np.minimum(levels * self.stride, self.width)


@dataclass(frozen=True)
class BitKeys:
    """Sorted keys as two words, aligned to the left."""

    high: Words
    low: Words

    def to_the_right(self, width: int) -> tuple[Words, Words]:
        """High and low words of the integers of `width` bits that they came from."""
        shift = 128 - width
        if shift >= 64:
            return np.zeros_like(self.high), self.high >> np.uint64(shift - 64)
        if shift == 0:
            return self.high, self.low
        right, left = np.uint64(shift), np.uint64(64 - shift)
        return self.high >> right, (self.low >> right) | (self.high << left)

    @classmethod
    def of_integers(cls, high: Words, low: Words, width: int) -> BitKeys:
        """The other way round."""
        return cls(*_align(high, low, 128 - width))

    def first(self, bits: Ints) -> BitKeys:
        """The words with all but their first bits cleared."""
        return BitKeys(self.high & _mask(bits.clip(0, 64)), self.low & _mask((bits - 64).clip(0, 64)))

    def common_bits(self, other: BitKeys) -> Ints:
        """How many bits each key begins with that are those of the other key in its place."""
        upper, lower = self.high ^ other.high, self.low ^ other.low
        return np.where(upper != 0, 64 - bit_length(upper), 128 - bit_length(lower))

    def __getitem__(self, rows: Ints | slice) -> BitKeys:
        return BitKeys(self.high[rows], self.low[rows])


@dataclass(frozen=True)
class LabelKeys:
    """Sorted keys as rows of codes, with the labels that the codes stand for; -1 ends a key.

    There is one column a level, down to the deepest that a key reaches.
    """

    codes: npt.NDArray[np.int64]
    labels: tuple[Any, ...]


@dataclass(frozen=True)
class SparseCounts:
    """The counts of the keys that occur, in the order of the tree."""

    tree: OpenTree
    occupied: Occupied
    keys: BitKeys | LabelKeys

    @classmethod
    def of_labels(
        cls, tree: OpenTree, codes: Ints, labels: tuple[Any, ...], *, people: Ints | None = None
    ) -> SparseCounts:
        """Counts from rows of codes, for one person each or `people`; codes must be in the order of their labels."""
        rows, counts = _sorted_rows(codes, np.ones(len(codes), dtype=np.int64) if people is None else people)
        levels = (rows >= 0).sum(axis=1)
        differ = rows[1:] != rows[:-1]
        occupied = Occupied(levels, np.argmax(differ, axis=1), counts, np.arange(counts.size))
        return cls(tree, occupied, LabelKeys(rows, labels))

    @classmethod
    def of_sorted(
        cls, tree: OpenTree, new: npt.NDArray[np.bool_], lengths: Ints, labels: tuple[Any, ...], people: Ints
    ) -> SparseCounts:
        """Counts from rows of labels that are in order, for `people` each.

        `new[i, level]` says that row i differs from the row before at that level or above; a key has `lengths` labels.
        A label's code is the first row of its node, where the label stands.
        """
        firsts = np.flatnonzero(new[:, -1])
        rows = np.arange(len(new))
        codes = np.empty((firsts.size, new.shape[1]), dtype=np.int64)
        for level in range(new.shape[1]):
            codes[:, level] = np.maximum.accumulate(np.where(new[:, level], rows, 0))[firsts]
        levels = lengths[firsts]
        codes[np.arange(new.shape[1]) >= levels[:, None]] = -1
        meets = np.argmax(new[firsts[1:]], axis=1)
        counts = range_sums(people, firsts, np.append(firsts, len(new))[1:])
        return cls(tree, Occupied(levels, meets, counts, np.arange(counts.size)), LabelKeys(codes, labels))

    @classmethod
    def of_words(cls, tree: OpenTree, high: Words, low: Words, people: Ints) -> SparseCounts:
        """Counts from integers of the tree's width, as high and low words, for `people` each."""
        high, low = _align(high, low, 128 - tree.width)
        if not (high[1:] > high[:-1]).all():  # else they are in order, as after a sorted group-by
            order = np.argsort(high) if tree.width <= 64 else np.lexsort((low, high))
            high, low, people = high[order], low[order], people[order]
        new = np.ones(high.size, dtype=np.bool_)
        np.logical_or(high[1:] != high[:-1], low[1:] != low[:-1], out=new[1:])
        firsts = np.flatnonzero(new)
        counts = range_sums(people, firsts, np.append(firsts, high.size)[1:])
        return _of_sorted_words(tree, BitKeys(high[firsts], low[firsts]), counts)


def _sorted_rows(codes: Ints, people: Ints) -> tuple[Ints, Ints]:
    """The distinct rows in lexicographic order, and how many people have each."""
    sizes = codes.max(axis=0, initial=-1) + 2 if codes.size else np.ones(codes.shape[1], dtype=np.int64)
    if np.log2(sizes.astype(float)).sum() < 62:  # one integer holds a whole row
        joined = np.zeros(codes.shape[0], dtype=np.int64)
        for column, size in zip(codes.T, sizes.tolist(), strict=True):
            joined = joined * size + (column + 1)
        order = np.argsort(joined)
        distinct, firsts = np.unique(joined[order], return_index=True)
        rows = np.empty((distinct.size, codes.shape[1]), dtype=np.int64)
        for column in reversed(range(codes.shape[1])):
            distinct, rows[:, column] = np.divmod(distinct, sizes[column])
        rows -= 1
    else:
        order = np.lexsort(codes.T[::-1])
        ordered = codes[order]
        firsts = np.flatnonzero(np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1))))
        rows = ordered[firsts]
    return rows, range_sums(people[order], firsts, np.append(firsts, len(codes))[1:])


def _count_bits(tree: OpenTree, keys: Iterable[Any]) -> SparseCounts:
    high, low = _read_words(tree, keys)
    new = np.ones(high.size, dtype=np.bool_)
    if tree.width <= 64:  # one word: values can be sorted, many times faster than places
        high = np.sort(high)
        np.not_equal(high[1:], high[:-1], out=new[1:])
    else:
        order = np.argsort(high)
        high, low = high[order], low[order]
        _sort_ties(high, low)
        np.logical_or(high[1:] != high[:-1], low[1:] != low[:-1], out=new[1:])
    places = np.flatnonzero(new)
    counts = np.diff(np.append(places, high.size))
    if places.size < high.size:
        high, low = high[places], low[places]
    return _of_sorted_words(tree, BitKeys(high, low), counts)


def _of_sorted_words(tree: OpenTree, keys: BitKeys, counts: Ints) -> SparseCounts:
    meets = keys[1:].common_bits(keys[:-1]) // tree.stride
    full = np.full(counts.size, tree.depth - 1)
    return SparseCounts(tree, Occupied(full, meets, counts, np.arange(counts.size)), keys)


def _sort_ties(high: Words, low: Words) -> None:
    """Put the low words in order wherever high words repeat."""
    same = high[1:] == high[:-1]
    if low.any() and same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        low[tied] = low[tied][np.lexsort((low[tied], high[tied]))]


def bit_length(words: Words) -> Ints:
    """The position of the highest bit set, from 1; 0 for 0. Halves of 32 bits are exact as floats."""
    upper, lower = (words >> np.uint64(32)).astype(np.float64), (words & np.uint64(2**32 - 1)).astype(np.float64)
    return np.where(upper > 0, np.frexp(upper)[1] + 32, np.frexp(lower)[1]).astype(np.int64)


def _read_words(tree: OpenTree, keys: Iterable[Any]) -> tuple[Words, Words]:
    """Keys as high and low words, aligned to the left; those outside the tree's width are dropped."""
    array = keys if isinstance(keys, np.ndarray) else None
    if array is not None and array.dtype.kind not in "iuO":
        raise TypeError(f"keys ({array.dtype}) must be integers")
    if array is None or array.dtype.kind == "O":
        whole = [int(key) for key in (keys if array is None else array.tolist()) if _is_key(key, tree.width)]
        high = np.array([key >> 64 for key in whole], dtype=np.uint64)
        low = np.array([key & (2**64 - 1) for key in whole], dtype=np.uint64)
    elif array.ndim == 1:
        low = (array if array.dtype.kind == "u" else array[array >= 0]).astype(np.uint64)
        if tree.width < 64 and low.size and low.max() >= np.uint64(1 << tree.width):
            low = low[low < np.uint64(1 << tree.width)]
        high = np.zeros_like(low)
    elif array.ndim == 2 and array.shape[1] == 2 and array.dtype == np.uint64:
        high, low = np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
        if tree.width < 128:
            inside = high < np.uint64(1 << max(tree.width - 64, 0))
            if tree.width < 64:
                inside &= low < np.uint64(1 << tree.width)
            high, low = high[inside], low[inside]
    else:
        raise TypeError("keys must be a one-dimensional array of integers, or a uint64 array of shape (n, 2)")
    return _align(high, low, 128 - tree.width)


def _is_key(key: Any, width: int) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= int(key) < (1 << width)


def _mask(bits: Ints) -> Words:
    """Words whose first bits are set. A shift by 64 is undefined, so none is made."""
    shifted = np.uint64(2**64 - 1) << (64 - bits).clip(0, 63).astype(np.uint64)
    return np.where(bits > 0, shifted, np.uint64(0))


def _align(high: Words, low: Words, shift: int) -> tuple[Words, Words]:
    if shift >= 64:
        return low << np.uint64(shift - 64), np.zeros_like(low)
    if shift == 0:
        return high, low
    return (high << np.uint64(shift)) | (low >> np.uint64(64 - shift)), low << np.uint64(shift)
