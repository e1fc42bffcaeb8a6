"""Keys of bits: integers, and network addresses as texts or integers, of one version or of both."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import KEY, Key, Labels, Level, Options, brief
from opendp_tree.trees.bits import BitKeys, fitting, prefix_texts, words_of
from opendp_tree.trees.nodes import check_path
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
IPV4 = rf"^{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}$"
_IPV6 = r"^(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$"


@dataclass(frozen=True, kw_only=True)
class BitKey(Key):
    """Integers, or addresses of one version; each level adds `stride` bits of prefix."""

    has_room = True

    width: int
    stride: int
    shown_as: Literal["integer", "ipv4", "ipv6"] = "integer"
    as_texts: bool = False
    """Whether labels are the prefixes as texts, instead of the bits of each level as integers."""

    @property
    def takes(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("integer",) if self.shown_as == "integer" else ("text", "integer")

    @property
    def levels(self) -> tuple[Level, ...]:
        name, kind = self.columns_used[0], "text" if self.as_texts else "integer"
        bits = [self._bits(level) for level in range(1, self.depth)]
        return tuple(Level(f"{name}_{count}", kind, accepts=partial(self.is_prefix, count)) for count in bits)

    def open_tree(self) -> OpenTree:
        return OpenTree.bits(self.width, self.stride, shown_as=self.shown_as, outside=not self.drops_nulls)

    def below(self) -> BitKey:
        return replace(self, as_texts=True)

    def words(self, groups: pl.DataFrame) -> tuple[Words, Words, Bools]:
        values = groups[f"{KEY}_0"]
        if values.dtype.is_integer():
            return _integer_words(values, self.width)
        return (read_ipv6 if self.width == 128 else read_ipv4)(values.cast(pl.String))

    def labels(self, groups: pl.DataFrame) -> Labels:
        high, low, valid = self.words(groups)
        aligned, columns = BitKeys.of_integers(high, low, self.width), []
        for level in range(1, self.depth):
            bits = self._bits(level)
            if self.as_texts:
                label = self._texts(aligned, np.full(high.size, bits))
            else:
                last = np.uint64((1 << (bits - self._bits(level - 1))) - 1)
                label = pl.Series((BitKeys.to_the_right(aligned, bits)[1] & last).astype(np.int64))
            columns.append(pl.select(pl.when(pl.Series(valid)).then(label)).to_series())
        # What is no key has one label, null, and no more.
        return Labels(tuple(columns), np.where(valid, self.depth - 1, 1))

    def known_path(self, name: Any) -> Path:
        prefix = self.read_prefix(name) if isinstance(name, str) else name
        try:
            return check_path(self.open_tree(), prefix)
        except (TypeError, ValueError):
            raise ValueError(
                f"known: {brief(name)} must be a prefix of one of the levels {', '.join(self.names[:5])}, with no bits "
                f"after it. Hint: {'0/8' if self.shown_as == 'integer' else '10.0.0.0/8'!r}"
            ) from None

    def prefix_of(self, path: Path) -> Path:
        bits, prefix = self._bits(len(path)), 0
        for level, label in enumerate(path, start=1):
            count = self._bits(level) - self._bits(level - 1)
            if type(label) is not int or not 0 <= label < 2**count:
                raise ValueError(f"known: a tree's label {brief(label)} must be an integer of {count} bits")
            prefix = prefix << count | label
        return prefix << (self.width - bits), bits

    def read_prefix(self, text: str) -> tuple[int, int] | None:
        """The least integer or address of a prefix that a text names, and its bits; None for any other text."""
        if self.shown_as == "integer":
            match = re.fullmatch("([0-9]{1,39})/([0-9]{1,3})", text)
            return None if match is None else (int(match[1]), int(match[2]))
        try:
            network = (IPv4Network if self.width == 32 else IPv6Network)(text)
        except ValueError:
            return None
        return int(network.network_address), network.prefixlen

    def prefixes_above(self, prefix: int, bits: int) -> tuple[str, ...]:
        """The texts of the prefixes of all levels down to one of so many bits."""
        lengths = np.minimum(np.arange(1, -(-bits // self.stride) + 1) * self.stride, bits)
        high, low = (np.repeat(word, lengths.size) for word in words_of([prefix]))
        return tuple(self._texts(BitKeys.of_integers(high, low, self.width), lengths))

    def is_prefix(self, bits: int, text: str) -> bool:
        """Below another key, or below a version: whether a text is that of a prefix of so many bits."""
        prefix = self.read_prefix(text)
        if prefix is None or prefix[1] != bits or prefix[0] >> self.width:
            return False
        return text in self.prefixes_above(*prefix)

    def _bits(self, level: int) -> int:
        return min(level * self.stride, self.width)

    def _texts(self, keys: BitKeys, bits: Ints) -> pl.Series:
        return prefix_texts(keys.first(bits), bits, self.open_tree())

    def _read_tree(self, tree: Tree) -> None:
        if min(self.stride, self.width) > 63:
            raise ValueError(f"stride ({self.stride}) must be at most 63 for a public tree, whose labels are int64")
        super()._read_tree(tree)


@dataclass(frozen=True, kw_only=True)
class BothAddressKey(Key):
    """Addresses of both versions: the version, then the prefixes; null for what is no address."""

    takes = ("text",)
    ends_early = True

    versions: tuple[tuple[str, BitKey], ...]

    @property
    def levels(self) -> tuple[Level, ...]:
        names = [f"{self.columns_used[0]}_{level}" for level in ("version", *range(1, self.depth - 1))]
        return tuple(Level(name, accepts=partial(self._accepts, level)) for level, name in enumerate(names))

    def known_path(self, name: Any) -> Path:
        for version, part in self.versions:
            prefix = part.read_prefix(name) if isinstance(name, str) else None
            if prefix is not None:
                return version, *part.prefixes_above(*prefix)
        return super().known_path(name)

    def _accepts(self, level: int, label: str) -> bool:
        if level == 0:
            return label in dict(self.versions)
        parts = [(part, min(level * part.stride, part.width)) for _, part in self.versions if level < part.depth]
        return any(part.is_prefix(bits, label) for part, bits in parts)

    def labels(self, groups: pl.DataFrame) -> Labels:
        texts = groups[f"{KEY}_0"].cast(pl.String)
        nothing = pl.Series([None], dtype=pl.String).new_from_index(0, texts.len())
        columns, lengths = [nothing] * (self.depth - 1), np.ones(texts.len(), dtype=np.int64)
        has_colon = texts.str.contains(":", literal=True).fill_null(False).to_numpy()
        for (version, part), likely in zip(self.versions, (~has_colon, has_colon), strict=True):
            prefixes = part.labels(texts.filter(pl.Series(likely)).alias(f"{KEY}_0").to_frame())
            valid = prefixes.columns[0].is_not_null()
            rows = np.flatnonzero(likely)[valid.to_numpy()]
            kept = (column.filter(valid) for column in prefixes.columns)
            for level, labels in enumerate((pl.Series([version]).new_from_index(0, rows.size), *kept)):
                columns[level] = columns[level].clone().scatter(rows, labels)
            lengths[rows] = part.depth
        return Labels(tuple(columns), lengths)


def bit_key(column: str, width: int, stride: int, options: Options, **shown: Any) -> BitKey:
    """The key of integers or addresses of so many bits."""
    split = OpenTree.bits(width, stride)
    return BitKey(columns_used=(column,), depth=split.depth, width=split.width, stride=split.stride, **shown, **options)


def address_key(column: str, version: Any, stride: int | None, options: Options) -> Key:
    """The key of addresses of version 4, 6 or both."""
    if not isinstance(version, (int, str)) or version not in (4, 6, "both"):
        raise ValueError(f"version ({brief(version)}) must be 4, 6 or 'both'. Hint: version=6")
    if version != "both":
        width, usual, shown_as = (32, 8, "ipv4") if version == 4 else (128, 16, "ipv6")
        return bit_key(column, width, usual if stride is None else stride, options, shown_as=shown_as)
    versions: Any = tuple((f"IPv{each}", address_key(column, each, stride, {}).below()) for each in (4, 6))
    depth = max(part.depth for _, part in versions) + 1
    return BothAddressKey(columns_used=(column,), depth=depth, versions=versions, **options)


def read_ipv4(texts: pl.Series) -> tuple[Words, Words, Bools]:
    """Each IPv4 address as high and low words, and which texts are such addresses, without leading zeros."""
    valid = texts.str.contains(IPV4).fill_null(False).to_numpy()
    numbers = np.zeros(texts.len(), dtype=np.uint64)
    parts = texts.filter(pl.Series(valid)).str.split(".").explode().str.to_integer(dtype=pl.UInt64)
    octets = parts.to_numpy().reshape(-1, 4) if valid.any() else np.zeros((0, 4), dtype=np.uint64)
    numbers[valid] = octets @ np.array([2**24, 2**16, 2**8, 1], dtype=np.uint64)
    return np.zeros_like(numbers), numbers, valid


def read_ipv6(texts: pl.Series) -> tuple[Words, Words, Bools]:
    """Each IPv6 address as high and low words, and which texts are such addresses."""
    text, frame = pl.col("text"), texts.alias("text").to_frame()
    # An IPv4 address at the end stands for two groups, which are filled in last.
    _, number, is_ipv4 = read_ipv4(frame.select(text.str.extract(r":([0-9.]*\.[0-9.]*)$")).to_series())
    frame = frame.with_columns(pl.when(pl.Series(is_ipv4)).then(text.str.replace(r"[^:]*$", "0:0")).otherwise(text))
    # "::" stands for as many zeros as there is room for, one at least; that at an end of the text is written first.
    at_end = text.str.starts_with("::") | text.str.ends_with("::")
    frame = frame.with_columns(text.str.replace("^::", "0::").str.replace("::$", "::0"), at_end=at_end.cast(pl.Int64))
    zeros = 8 - text.str.count_matches(":", literal=True).cast(pl.Int64)
    fill = pl.lit(":" + "0:" * 8).str.slice(0, 2 * zeros.clip(0) + 1)
    filled = pl.when(zeros + pl.col("at_end") > 0).then(text.str.replace("::", fill, literal=True))
    frame = frame.select(pl.when(text.str.contains("::", literal=True)).then(filled).otherwise(text))
    valid = frame["text"].str.contains(_IPV6).fill_null(False).to_numpy()
    split = frame.select(pl.when(pl.Series(valid)).then(text).otherwise(pl.lit("0:0:0:0:0:0:0:0"))).to_series()
    columns = split.str.split_exact(":", 7).struct.unnest().get_columns()
    groups = np.stack([column.str.to_integer(base=16, dtype=pl.UInt64).to_numpy() for column in columns], axis=1)
    last = is_ipv4 & valid
    groups[last, 6], groups[last, 7] = number[last] >> np.uint64(16), number[last] & np.uint64(2**16 - 1)
    weights = np.array([2**48, 2**32, 2**16, 1], dtype=np.uint64)
    return groups[:, :4] @ weights, groups[:, 4:] @ weights, valid


def _integer_words(integers: pl.Series, width: int) -> tuple[Words, Words, Bools]:
    is_wide = integers.dtype in (pl.Int128, pl.UInt128)
    numbers = integers.cast(pl.UInt128 if is_wide else pl.UInt64, strict=False)
    valid, low = numbers.is_not_null().to_numpy(), numbers.fill_null(0)
    high = np.zeros(low.len(), np.uint64)
    if is_wide:
        base = pl.lit(2**64, dtype=pl.UInt128)
        words = low.alias("low").to_frame().select(pl.col("low") % base, high=pl.col("low") // base).cast(pl.UInt64)
        high, low = words["high"].to_numpy(), words["low"]
    return high, low.to_numpy(), valid & fitting(high, low.to_numpy(), width)
