"""Keys of one column of texts that are split into labels: paths and web addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Ints
from opendp_tree.keys.addresses import IPV4
from opendp_tree.keys.key import KEY, Key, Labels, Level
from opendp_tree.trees.labels import split_paths
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path


@dataclass(frozen=True, kw_only=True)
class PathKey(Key):
    """Texts such as "a/b/c"."""

    takes = ("text",)
    ends_early = True

    separator: str

    def __post_init__(self) -> None:
        self.open_tree()  # which checks separator and depth
        super().__post_init__()

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(replace(level, accepts=lambda label: self.separator not in label) for level in super().levels)

    def open_tree(self) -> OpenTree:
        return OpenTree.paths(self.separator, depth=self.depth)

    def labels(self, groups: pl.DataFrame) -> Labels:
        columns, lengths = self._split(groups[f"{KEY}_0"].cast(pl.String))
        return Labels(tuple(columns), lengths)

    def known_path(self, name: Any) -> Path:
        """A text as rows have it, split as theirs are."""
        if not isinstance(name, str) or not is_text(name):
            return super().known_path(name)
        columns, lengths = self._split(pl.Series([name]))
        return tuple(column[0] for column in columns[: int(lengths[0])])

    def _split(self, texts: pl.Series) -> tuple[list[pl.Series], Ints]:
        return split_paths(texts, self.separator, self.depth - 1)


@dataclass(frozen=True, kw_only=True)
class UrlKey(PathKey):
    """Web addresses: the names of the host from the last, then the parts of the path."""

    def _split(self, texts: pl.Series) -> tuple[list[pl.Series], Ints]:
        return split_urls(texts, self.depth - 1)


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
