"""Trees as plain data and back, for JSON. The format is told in docs/release_format.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_tree.releases.format import part, read_array
from opendp_tree.trees.labels import tagged_label
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Label, Tree


def write_tree(tree: Tree | OpenTree) -> dict[str, Any]:
    """The description of a tree: all of a public one, and how an open one is grown."""
    if isinstance(tree, Tree):
        labels = None if tree.labels is None else [_write_label(label) for label in tree.labels]
        ranges = None
        if tree.ranges is not None:
            ends = [_write_bound(end) for end in (tree.ranges.low, tree.ranges.high)]
            ranges = {"low": ends[0], "high": ends[1], "bins": tree.ranges.bins}
        drawn = {"names": list(tree.names), "ordered": tree.ordered, "ranges": ranges}
        return {"kind": "public", **drawn, "parents": tree.parents.tolist(), "labels": labels}
    fields = ("kind", "depth", "width", "stride", "separator", "shown_as", "outside", "ordered")
    return {**{name: getattr(tree, name) for name in fields}, "names": list(tree.names)}


def read_tree(described: Mapping[str, Any]) -> Tree | OpenTree:
    """The tree that `write_tree` described."""
    names = tuple(part(described, "names", list))
    if not all(type(name) is str for name in names):
        raise ValueError('"names" must be texts')
    kind = part(described, "kind", str)
    if kind != "public":
        numbers = (part(described, name, int) for name in ("depth", "width", "stride"))
        texts = (part(described, name, str) for name in ("separator", "shown_as"))
        (depth, width, stride), (separator, shown_as) = numbers, texts
        fits = kind != "columns" or len(names) == depth - 1  # or default names for a made-up depth would fill memory
        if not fits or stride < 1 or not 0 <= width <= 128 or (kind == "paths") != bool(separator):
            raise ValueError('"tree" must be a tree that OpenTree can make')
        outside, ordered = (_flag(described, name) for name in ("outside", "ordered"))
        return OpenTree(kind, depth, width, stride, separator, outside, names, shown_as, ordered)
    parents = read_array(part(described, "parents", list), "parents", int)
    labels = part(described, "labels", list, type(None))
    plain = Tree.from_parents(parents)
    if labels is None:
        return plain
    own = tuple(_read_label(label) for label in labels)
    if len(own) != plain.node_count or own[plain.root] is not None:
        raise ValueError('"labels" must hold one for each node, null for the root')
    distinct = {(parent, tagged_label(label)) for parent, label in zip(parents.tolist(), own, strict=True)}
    if len(distinct) < len(own):
        raise ValueError('"labels" of the children of a node must be distinct')
    ranges = described.get("ranges")
    if ranges is None:
        return Tree(parents, own, names, ordered=_flag(described, "ordered"))
    return _read_ranges(ranges, Tree(parents, own, names))


def _flag(described: Mapping[str, Any], name: str) -> bool:
    """A field that texts of earlier releases lack."""
    return bool(part({name: False, **described}, name, bool))


def _write_bound(bound: Any) -> Any:
    """An end of ranges: a number, exactly, or a date or a time."""
    if isinstance(bound, date):
        return _write_label(bound)
    return bound if type(bound) in (int, float) else {"number": str(Fraction(bound))}


def _read_ranges(described: Any, tree: Tree) -> Tree:
    """The tree of ranges, once it is sure to be that of these ranges."""
    if not isinstance(described, dict):
        raise ValueError('"ranges" must be an object or null')
    ends = [_read_bound(part(described, name, int, float, dict)) for name in ("low", "high")]
    try:
        ranges = NumberRange(ends[0], ends[1], part(described, "bins", int))
    except TypeError as error:
        raise ValueError(f'"ranges": {error}') from None
    outside = tree.leaf_count - ranges.bins
    if outside in (0, 1) and tree.depth > 1:  # else there is no need to make the tree of so many ranges
        widest = int(np.bincount(tree.parents[tree.parents >= 0]).max())
        for branching in (widest, widest - outside):  # the leaf outside is one more child of the root
            if ranges.tree(branching=max(branching, 2), outside=bool(outside)) == tree:
                return Tree(tree.parents, tree.labels, tree.names, ranges=ranges)
    raise ValueError('"ranges" must be those of the tree')


def _read_bound(written: Any) -> Any:
    if isinstance(written, dict) and "number" in written:
        text = written["number"]
        if not (isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,400}(/[1-9][0-9]{0,400})?", text, re.ASCII)):
            raise ValueError('"ranges": {"number": …} must be a fraction')
        return Fraction(text)
    return _read_label(written) if isinstance(written, dict) else written


def _write_label(label: Label) -> Any:
    if type(label) in (date, datetime):
        return {type(label).__name__: label.isoformat()}  # type: ignore[union-attr]
    if type(label) in (str, int, bool, type(None)):
        return label
    raise TypeError(f"labels of type {type(label).__name__} cannot be written. Hint: texts, integers, dates")


def _read_label(written: Any) -> Label:
    if type(written) in (str, int, bool, type(None)):
        return written  # type: ignore[no-any-return]
    try:
        ((kind, text),) = written.items()
        return {"date": date, "datetime": datetime}[kind].fromisoformat(text)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(
            '"labels" must be texts, integers, true, false, null, {"date": …} or {"datetime": …}'
        ) from None
