"""Web addresses to labels, a whole column at a time: the host from its last name, then the path."""

from __future__ import annotations

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.rows.addresses import IPV4


def split_urls(texts: pl.Series, count: int) -> tuple[list[pl.Series], Ints]:
    """Texts as columns of labels, and how many labels each has; a null text is one label, null.

    Any text is read: what has no scheme begins with its host, or with its path if it begins with "/". Labels of the
    path begin with "/", so that none is a host's.

    >>> texts = pl.Series(["https://me@www.Example.com:80/a/b?q#f", "http://10.0.0.1/a", "/a/"])
    >>> columns, lengths = split_urls(texts, 4)
    >>> [column.to_list() for column in columns], lengths
    ([['com', '10.0.0.1', '/a'], ['example', '/a', None], ['www', None, None], ['/a', None, None]], array([4, 2, 1]))
    """
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
