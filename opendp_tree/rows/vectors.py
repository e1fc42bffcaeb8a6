"""Vectors of records to the counts of leaves: OpenDP's own vectors, of labels, numbers or truth values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl
from opendp.mod import AtomDomain, Metric, VectorDomain

from opendp_tree._arguments import check_integer
from opendp_tree._types import Ints
from opendp_tree.rows.leaf_counts import are_changed
from opendp_tree.theorems.distances import leaf_counts_l1
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Label, Tree

_LABEL_TYPES = {"String": str, "bool": bool, "i32": int, "i64": int, "u32": int, "u64": int, "usize": int}
"""OpenDP's types of records, and the labels that they can be."""


@dataclass(frozen=True)
class VectorCounting:
    """How a vector of records is counted, and how stably; all checked."""

    tree: Tree | OpenTree
    count: Callable[[Any], Any]
    stability_map: Callable[[Any], int]

    @classmethod
    def of(cls, input_domain: VectorDomain, input_metric: Metric, *, by: Any) -> VectorCounting:
        """Checks the arguments of `make_leaf_counts` on a vector domain."""
        if not isinstance(by, (Tree, OpenTree)):
            raise TypeError(
                f"by ({type(by).__name__}) must be a tree where input_domain is a vector of records. "
                "Hint: by=Tree.from_paths(...), or an OpenTree"
            )
        kind, size, changed = _record_type(input_domain), input_domain.size, are_changed(input_metric)
        if changed is None:
            raise ValueError(
                f"input_metric ({input_metric}) must be symmetric_distance, insert_delete_distance, "
                "change_one_distance or hamming_distance where input_domain is a vector of records"
            )
        read = _leaf_reader(by, kind) if isinstance(by, Tree) else _open_reader(by, kind)

        def count(records: Any) -> Any:
            if size is not None and len(records) != size:
                raise ValueError(f"the data must have exactly {size} records, as input_domain says")
            return read(records)

        def stability_map(d_in: Any) -> int:
            return leaf_counts_l1(check_integer(d_in, name="d_in", least=0), changed=changed)

        return cls(by, count, stability_map)


def _record_type(domain: VectorDomain) -> str:
    element = domain.element_domain
    kind = str(element.carrier_type) if isinstance(element, AtomDomain) else ""
    if kind not in _LABEL_TYPES:
        raise ValueError(f"input_domain ({domain}) must hold records of one of the types {', '.join(_LABEL_TYPES)}")
    return kind


def _leaf_reader(tree: Tree, kind: str) -> Callable[[Any], Ints]:
    """Records that name leaves: by their labels, or by node id in a tree without labels."""
    if tree.labels is None and _LABEL_TYPES[kind] is not int:
        raise ValueError(f"by must be a tree with labels, because records are of type {kind}. Hint: Tree.from_paths")
    names: list[Label] = tree.leaves.tolist() if tree.labels is None else [tree.labels[leaf] for leaf in tree.leaves]
    # A vector's records are all of one type, so that only labels of that very type are meant: True is not 1.
    places = {name: place for place, name in enumerate(names) if type(name) is _LABEL_TYPES[kind]}
    if len(places) < sum(type(name) is _LABEL_TYPES[kind] for name in names):
        raise ValueError("by must have a label of its own for each leaf, or records could not tell leaves apart")

    def read(records: Any) -> Ints:
        found = np.fromiter(map(places.get, records, repeat(-1)), dtype=np.int64, count=len(records))
        return np.bincount(found[found >= 0], minlength=tree.leaf_count)

    return read


def _open_reader(tree: OpenTree, kind: str) -> Callable[[Any], SparseCounts]:
    """Records that are keys of an open tree: integers for bits, texts for paths, labels for a tree of one column."""
    if tree.kind == "bits":
        if _LABEL_TYPES[kind] is not int or tree.width > 64:
            raise ValueError(f"by ({tree}) must have at most 64 bits, and records must be integers, not {kind}")
        dtype = np.int64 if kind[0] == "i" else np.uint64
        return lambda records: tree.count(np.array(records, dtype=dtype))
    if tree.kind == "paths":
        if kind != "String":
            raise ValueError(f"by ({tree}) must be of bits or one column, because records are of type {kind}, not text")
        return lambda records: tree.count(pl.Series(records, dtype=pl.String))
    if tree.depth != 2:
        raise ValueError(f"by ({tree}) must have one column, because a record has one label. Hint: OpenTree.columns(1)")
    dtypes = {"String": pl.String, "bool": pl.Boolean}
    whole = pl.Int64 if kind[0] == "i" else pl.UInt64
    return lambda records: tree.count(pl.DataFrame({"label": pl.Series(records, dtype=dtypes.get(kind, whole))}))
