"""Network and web addresses as texts to numbers and labels, a whole column at a time."""

from __future__ import annotations

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words

_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
IPV4 = rf"^{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}$"
_IPV6 = r"^[0-9A-Fa-f:.]{2,45}$"
_GROUPS = 8


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


def split_urls(texts: pl.Series, count: int) -> tuple[list[pl.Series], Ints]:
    """Texts as columns of labels, and how many labels each has; a null text is one label, null."""
    text = pl.col("text")
    frame = texts.alias("text").to_frame().lazy()
    bare = text.str.replace(r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//", "").str.replace(r"(?s)[?#].*$", "")
    frame = frame.with_columns(text=bare)
    frame = frame.select(
        host=text.str.extract(r"(?s)^([^/]*)")
        .str.replace(r"(?s)^.*@", "")
        .str.replace(r"(?s)^(\[[^\]]*\]|.*?):[0-9]*$", "${1}")
        .str.to_lowercase()
        .str.strip_suffix("."),
        path=text.str.replace(r"(?s)^[^/]*", "").str.strip_prefix("/").str.strip_suffix("/"),
    )
    host, path = pl.col("host"), pl.col("path")
    single = host.str.contains(IPV4) | host.str.starts_with("[")
    none = pl.lit([], dtype=pl.List(pl.String))
    # No more labels than are wanted: one text of a million must not take so much memory.
    names = pl.when(single).then(pl.concat_list(host)).otherwise(host.str.split(".").list.tail(count).list.reverse())
    steps = path.str.split("/").list.head(count).list.eval(pl.concat_str(pl.lit("/"), pl.element()))
    frame = frame.select(
        labels=pl.concat_list(
            pl.when((host == "") & (path != "")).then(none).otherwise(names),
            pl.when(path != "").then(steps).otherwise(none),
        )
    )
    labels = frame.collect()["labels"]
    lengths = np.minimum(labels.list.len().fill_null(1).to_numpy().astype(np.int64), count)
    deepest = int(lengths.max(initial=1))
    return [labels.list.get(level, null_on_oob=True) for level in range(deepest)], lengths
