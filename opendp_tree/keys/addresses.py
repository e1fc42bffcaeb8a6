"""Keys of bits: integers, and network addresses as texts or integers, of one version or of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

import numpy as np
import polars as pl

from opendp_tree._arguments import check_column
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key, Options
from opendp_tree.keys.kind import KEY, Labels
from opendp_tree.keys.known import brief, is_label
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.label_keys import prefix_texts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import check_path
from opendp_tree.trees.tree import Path, Tree

_VERSIONS = ("IPv4", "IPv6")
_WIDTHS, _STRIDES = {4: 32, 6: 128}, {4: 8, 6: 16}
_SLICE = 1 << 18

_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
IPV4 = rf"^{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}$"
_IPV6 = r"^[0-9A-Fa-f:.]{2,45}$"
_GROUPS = 8


@dataclass(frozen=True, kw_only=True)
class BitKey(Key):
    """Integers; each level adds `stride` bits of prefix."""

    kind = "bits"
    takes: ClassVar[tuple[str, ...]] = ("integer",)
    has_room = True

    width: int
    stride: int

    _example: ClassVar[str] = "0/8"

    def __post_init__(self) -> None:
        check_column(self.columns_used[0])
        super().__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """The column and the bits of the level's prefixes."""
        bits = (min(level * self.stride, self.width) for level in range(1, self.depth))
        return tuple(f"{self.columns_used[0]}_{count}" for count in bits)

    def open_tree(self) -> OpenTree:
        """All integers of this width."""
        return OpenTree.bits(self.width, self.stride, outside=not self.drops_nulls)

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Integers: the bits of each level."""
        return ("integer",) * (self.depth - 1)

    def label_kinds_below(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Texts: the prefixes."""
        return ("text",) * (self.depth - 1)

    def words(self, groups: pl.DataFrame) -> tuple[Words, Words, Bools]:
        """The integers, or the addresses."""
        values = groups[f"{KEY}_0"]
        if values.dtype.is_integer():
            return _integer_words(values, self.width)
        texts = values.cast(pl.String)
        if self.width == 128:
            return read_ipv6(texts)
        low, valid = read_ipv4(texts)
        return np.zeros_like(low), low, valid

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The key's bits, `stride` at a time from the first, as integers."""
        high, low, valid = self.words(groups)
        columns = []
        for start in range(0, self.width, self.stride):
            stop = min(start + self.stride, self.width)
            chunk = _bits(high, low, self.width - stop, stop - start).astype(np.int64)
            columns.append(pl.select(pl.when(pl.Series(valid)).then(pl.Series(chunk))).to_series())
        # What is no key has one label, null, and no more.
        return Labels(tuple(columns), np.where(valid, self.depth - 1, 1))

    def labels_below(self, groups: pl.DataFrame) -> Labels:
        """The prefixes of each level as texts; null for what is no key."""
        high, low, valid = self.words(groups)
        keys, tree = BitKeys.of_integers(high, low, self.width), self.open_tree()
        columns = []
        for level in range(1, self.depth):
            bits = tree.bits_at(np.full(high.size, level))
            texts = prefix_texts(keys.first(bits), bits, tree)
            columns.append(pl.select(pl.when(pl.Series(valid)).then(texts)).to_series())
        return Labels(tuple(columns), np.where(valid, self.depth - 1, 1))

    def known_path(self, name: Any) -> Path:
        """A prefix as a text, such as 10.0.0.0/8, or (prefix, bits)."""
        prefix = self.read_prefix(name) if isinstance(name, str) else name
        try:
            return check_path(self.open_tree(), prefix)
        except (TypeError, ValueError):
            raise ValueError(
                f"known: {brief(name)} must be a prefix of one of the levels {', '.join(self.names[:5])}, with no bits "
                f"after it. Hint: {self._example!r}"
            ) from None

    def prefix_of(self, path: Path) -> Path:
        """The bits of labels of `stride` bits each."""
        bits, prefix = min(len(path) * self.stride, self.width), 0
        for level, label in enumerate(path, start=1):
            count = min(level * self.stride, self.width) - (level - 1) * self.stride
            if type(label) is not int or not 0 <= label < 2**count:
                raise ValueError(f"known: a tree's label {brief(label)} must be an integer of {count} bits")
            prefix = prefix << count | label
        return prefix << (self.width - bits), bits

    def read_prefix(self, text: str) -> tuple[int, int] | None:
        """The least integer of a prefix that a text names, and its bits; None for any other text."""
        match = re.fullmatch("([0-9]{1,39})/([0-9]{1,3})", text)
        return None if match is None else (int(match[1]), int(match[2]))

    def is_label_below(self, level: int, label: Any, kind: str) -> bool:
        """Whether it is the text of a prefix of that level."""
        if not is_label(label, "text"):
            return False
        tree, prefix = self.open_tree(), self.read_prefix(label)
        bits = min(level * self.stride, self.width)
        if prefix is None or prefix[1] != bits or prefix[0] >> self.width or prefix[0] % 2 ** (self.width - bits):
            return False
        words = BitKeys.of_integers(*words_of([prefix[0]]), self.width)
        return bool(prefix_texts(words, np.array([bits]), tree)[0] == label)

    def _read_tree(self, tree: Tree) -> None:
        if min(self.stride, self.width) > 63:
            raise ValueError(f"stride ({self.stride}) must be at most 63 for a public tree, whose labels are int64")
        super()._read_tree(tree)


@dataclass(frozen=True, kw_only=True)
class AddressKey(BitKey):
    """Addresses of one version."""

    kind = "ip"
    takes = ("text", "integer")
    _example = "10.0.0.0/8"

    def open_tree(self) -> OpenTree:
        """All addresses."""
        version: Any = "ipv4" if self.width == 32 else "ipv6"
        return OpenTree.bits(self.width, self.stride, shown_as=version, outside=not self.drops_nulls)

    def read_prefix(self, text: str) -> tuple[int, int] | None:
        """The first address of a network, or an address, and the bits."""
        try:
            network = (IPv4Network if self.width == 32 else IPv6Network)(text)
        except ValueError:
            return None
        return int(network.network_address), network.prefixlen


@dataclass(frozen=True, kw_only=True)
class BothAddressKey(Key):
    """Addresses of both versions: the version, then the prefixes."""

    kind = "addresses"
    takes = ("text",)
    ends_early = True

    inner: tuple[AddressKey, AddressKey]

    @property
    def names(self) -> tuple[str, ...]:
        """The column's version, then the column and the level's number."""
        column = self.columns_used[0]
        return (f"{column}_version", *(f"{column}_{level}" for level in range(1, self.depth - 1)))

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Texts."""
        return ("text",) * (self.depth - 1)

    def known_path(self, name: Any) -> Path:
        """A prefix as a text: its version, the prefixes above it, and itself."""
        for version, part in zip(_VERSIONS, self.inner, strict=True):
            prefix = part.read_prefix(name) if isinstance(name, str) else None
            if prefix is not None:
                tree, levels = part.open_tree(), np.arange(1, -(-prefix[1] // part.stride) + 1)
                high, low = (np.repeat(word, levels.size) for word in words_of([prefix[0]]))
                bits = np.minimum(tree.bits_at(levels), prefix[1])
                return version, *prefix_texts(BitKeys.of_integers(high, low, part.width).first(bits), bits, tree)
        return super().known_path(name)

    def is_label(self, level: int, label: Any, kind: str) -> bool:
        """A version, and below it the text of a prefix."""
        if level == 1:
            return label in _VERSIONS
        return any(part.depth > level - 1 and part.is_label_below(level - 1, label, kind) for part in self.inner)

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The version of each address, then its prefixes; null for what is no address."""
        texts = groups[f"{KEY}_0"].cast(pl.String)
        nothing = pl.Series([None], dtype=pl.String).new_from_index(0, texts.len())
        columns, lengths = [nothing] * (self.depth - 1), np.ones(texts.len(), dtype=np.int64)
        has_colon = texts.str.contains(":", literal=True).fill_null(False).to_numpy()
        for part, version, likely in zip(self.inner, _VERSIONS, (~has_colon, has_colon), strict=True):
            prefixes = part.labels_below(texts.filter(pl.Series(likely)).alias(f"{KEY}_0").to_frame())
            valid = prefixes.columns[0].is_not_null()
            rows = np.flatnonzero(likely)[valid.to_numpy()]
            kept = (column.filter(valid) for column in prefixes.columns)
            for level, own in enumerate((pl.Series([version]).new_from_index(0, rows.size), *kept)):
                columns[level] = columns[level].clone().scatter(rows, own)
            lengths[rows] = part.depth
        return Labels(tuple(columns), lengths)


def address_key(column: str, version: Any, stride: int | None, options: Options) -> Key:
    """The key of addresses of version 4, 6 or both."""
    if not isinstance(version, (int, str)):
        raise TypeError(f"version ({type(version).__name__}) must be 4, 6 or 'both'. Hint: version=6")
    if version == "both":
        each = [address_key(column, one, stride, {}) for one in _WIDTHS]
        depth = max(key.depth for key in each) + 1
        return BothAddressKey(columns_used=(column,), depth=depth, inner=tuple(each), **options)  # type: ignore[arg-type]
    if version not in _WIDTHS:
        raise ValueError(f"version ({version!r}) must be 4, 6 or 'both'. Hint: version=6")
    split = OpenTree.bits(_WIDTHS[int(version)], _STRIDES[int(version)] if stride is None else stride)
    return AddressKey(columns_used=(column,), depth=split.depth, width=split.width, stride=split.stride, **options)


def read_ipv4(texts: pl.Series) -> tuple[Words, Bools]:
    """Each IPv4 address as a number, and which texts are such addresses; leading zeros are not allowed."""
    valid = texts.str.contains(IPV4).fill_null(False).to_numpy()
    numbers = np.zeros(texts.len(), dtype=np.uint64)
    parts = texts.filter(pl.Series(valid)).str.split(".").explode().str.to_integer(dtype=pl.UInt64)
    octets = parts.to_numpy().reshape(-1, 4) if valid.any() else np.zeros((0, 4), dtype=np.uint64)
    numbers[valid] = octets @ np.array([2**24, 2**16, 2**8, 1], dtype=np.uint64)
    return numbers, valid


def read_ipv6(texts: pl.Series) -> tuple[Words, Words, Bools]:
    """Each IPv6 address as high and low words, and which texts are such addresses."""
    frame = pl.DataFrame({"text": texts}).with_columns(ok=pl.col("text").str.contains(_IPV6).fill_null(False))
    frame = frame.with_columns(text=pl.when("ok").then("text").otherwise(pl.lit("")))
    # An IPv4 address at the end stands for two groups, which are filled in last.
    number, is_ipv4 = read_ipv4(frame["text"].str.extract(r"([^:]*\.[^:]*)$"))
    without = pl.col("text").str.replace(r"[^:]*$", "0:0")
    frame = frame.with_columns(text=pl.when(pl.Series(is_ipv4)).then(without).otherwise("text"))
    groups = np.zeros((texts.len(), _GROUPS), dtype=np.uint64)
    sides = frame["text"].str.split("::")
    count = sides.list.len().to_numpy()
    left, left_count, left_ok = _groups(sides.list.get(0, null_on_oob=True))
    right, right_count, right_ok = _groups(sides.list.get(1, null_on_oob=True))
    total = left_count + right_count
    fits = np.where(count == 1, total == _GROUPS, (count == 2) & (total < _GROUPS))
    valid = frame["ok"].to_numpy() & left_ok & right_ok & fits
    for values, counts, from_right in ((left, left_count, False), (right, right_count, True)):
        rows = np.repeat(np.arange(counts.size), counts)
        place = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        place += (_GROUPS - counts[rows]) if from_right else 0
        kept = valid[rows]
        groups[rows[kept], place[kept]] = values[kept]
    ends = is_ipv4 & valid
    groups[ends, 6], groups[ends, 7] = number[ends] >> np.uint64(16), number[ends] & np.uint64(2**16 - 1)
    weights = np.array([2**48, 2**32, 2**16, 1], dtype=np.uint64)
    return groups[:, :4] @ weights, groups[:, 4:] @ weights, valid


def _groups(side: pl.Series) -> tuple[Words, Ints, Bools]:
    """The groups on one side of "::" of all texts, how many each text has, and whether all of these are hexadecimal."""
    empty = (side == "").fill_null(True)
    lists = pl.select(pl.when(~empty).then(side.str.split(":"))).to_series()
    counts = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    flat = lists.filter(~empty).explode()
    good = flat.str.contains("^[0-9A-Fa-f]{1,4}$")
    values = pl.select(pl.when(good).then(flat).otherwise(pl.lit("0"))).to_series().str.to_integer(base=16)
    bad = np.zeros(counts.size, dtype=np.bool_)
    bad[np.repeat(np.arange(counts.size), counts)[~good.to_numpy()]] = True
    return values.to_numpy().astype(np.uint64), counts, ~bad


def _integer_words(given: pl.Series, width: int) -> tuple[Words, Words, Bools]:
    size = given.len()
    high, low, valid = np.zeros(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.bool_)
    number, is_wide = pl.col("number"), given.dtype in (pl.Int128, pl.UInt128)
    inside = (number >= 0).fill_null(False)
    known = pl.when(inside).then(number).otherwise(0).cast(given.dtype)
    base = pl.lit(2**64, dtype=given.dtype if is_wide else pl.UInt128)
    words = {"low": known % base, "high": known // base} if is_wide else {"low": known}
    for start in range(0, size, _SLICE):  # there may be very many
        part, frame = slice(start, start + _SLICE), given.slice(start, _SLICE).alias("number").to_frame()
        found = frame.select(inside.alias("inside"), **{name: word.cast(pl.UInt64) for name, word in words.items()})
        low[part], valid[part] = found["low"].to_numpy(), found["inside"].to_numpy()
        if is_wide:
            high[part] = found["high"].to_numpy()
    if width < 128:
        valid &= high < np.uint64(1 << max(width - 64, 0))
    if width < 64:
        valid &= low < np.uint64(1 << width)
    return high, low, valid


def _bits(high: Words, low: Words, shift: int, count: int) -> Words:
    """`count` bits that have `shift` bits below them."""
    if shift >= 64:
        moved = high >> np.uint64(shift - 64)
    elif shift == 0:
        moved = low
    else:
        moved = (low >> np.uint64(shift)) | (high << np.uint64(64 - shift))
    return moved & np.uint64((1 << count) - 1)
