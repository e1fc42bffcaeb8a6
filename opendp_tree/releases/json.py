"""Releases as JSON and back: the one place that writes and reads them. The format: docs/release_format.md."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import polars as pl

from opendp_tree._types import Array, Ints
from opendp_tree.releases.curve import MeasuredCurve
from opendp_tree.releases.values import NodeValues
from opendp_tree.trees.arrays import node_levels
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.labels import FIGURES, tagged_label
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.segment_tree import SegmentTree
from opendp_tree.trees.shown_nodes import ShownNodes
from opendp_tree.trees.tree import Label, Tree

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

FORMAT, VERSION = "opendp-tree release", 1
_STATEMENT_OBJECTS = ("loss", "parameters")
_INTEGERS = {
    str(kind).lower(): kind
    for kind in (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128),
        *(pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128),
    )
}
_UNITS = ("ns", "us", "ms")
_KINDS = {"number": "f8", "date": "M8[D]", "datetime": "M8[us]"}
_ENDS = {"date": (date.min, date.max), "datetime": (datetime.min, datetime.max)}
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-40, 2.0**80
"""All mechanisms' scales are within these limits, whose squares are exact floats."""


def write_release(release: TreeRelease) -> str:
    """The JSON text of a release."""
    statement = None if release.statement is None else write_statement(release.statement.to_dict())
    return write_text(
        {
            "statement": statement,
            "confidence": float(release.confidence),
            "tree": write_tree(release.tree),
            "nodes": None if release.nodes is None else write_nodes(release.nodes),
            **{name: write_array(getattr(release, name)) for name in ("estimates", "lower", "upper", "cells", "shown")},
            "hidden": None if release.hidden is None else write_number(float(release.hidden)),
            "line": write_curves(release.curve, release.curves),
            **({} if release.adds_up else {"adds_up": False}),
            "values": write_values(release.values),
        }
    )


def read_release(text: str) -> dict[str, Any]:
    """The fields of the release that `write_release` wrote; those of its statement in a dictionary."""
    parts = read_text(text)
    tree = read_tree(part(parts, "tree", dict))
    described = part(parts, "nodes", dict if isinstance(tree, OpenTree) else type(None))
    nodes = read_nodes(tree, described) if isinstance(tree, OpenTree) else None
    size = tree.node_count if isinstance(tree, Tree) else nodes.size if nodes else 0
    arrays: dict[str, Any] = {}
    for name, kind in (("estimates", float), ("lower", float), ("upper", float), ("cells", int), ("shown", bool)):
        optional = (type(None),) if kind is not float else ()
        values = part(parts, name, list, *optional)
        arrays[name] = None if values is None else read_array(values, name, kind, size)
    confidence = part(parts, "confidence", int, float)
    if not 0 < confidence <= 1:
        raise ValueError('"confidence" must be above 0 and at most 1')
    statement = part(parts, "statement", dict, type(None))
    hidden = part(parts, "hidden", int, float, str, type(None))
    # Earlier versions of the package wrote no line.
    curve, curves = read_curves(part({"line": None, **parts}, "line", dict, type(None)), tree, size)
    return {
        "tree": tree,
        "confidence": float(confidence),
        "statement": None if statement is None else read_statement(statement),
        "nodes": nodes,
        "hidden": None if hidden is None else float(read_number(hidden, "hidden")),
        "curve": curve,
        "curves": curves,
        "adds_up": part({"adds_up": True, **parts}, "adds_up", bool),
        "values": read_values(part(parts, "values", list), size) if "values" in parts else (),
        **arrays,
    }


def write_text(parts: Mapping[str, Any], *, kind: str = FORMAT) -> str:
    """The parts as one JSON text."""
    return json.dumps({"format": kind, "version": VERSION, **parts}, allow_nan=False, separators=(",", ":"))


def write_statement(statement: Mapping[str, Any]) -> dict[str, Any]:
    """A privacy statement as JSON values."""
    inner = {name: {key: _write_value(value) for key, value in statement[name].items()} for name in _STATEMENT_OBJECTS}
    return {**statement, **inner}


def read_statement(described: Mapping[str, Any]) -> dict[str, Any]:
    """The checked fields of a privacy statement."""
    inner = {
        name: {key: _read_value(value, name) for key, value in part(described, name, dict).items()}
        for name in _STATEMENT_OBJECTS
    }
    if not all(type(value) in (int, float) and value >= 0 for value in inner["loss"].values()):
        raise ValueError('"loss" must hold non-negative numbers')
    if part(described, "d_in", int) < 0:
        raise ValueError('"d_in" must not be negative')
    texts = {name: part(described, name, str) for name in ("mechanism", "measure")}
    # Earlier versions of the package did not write what is counted.
    said = {name: part({"counted": None, **described}, name, str, type(None)) for name in ("unit", "counted")}
    return {**texts, "d_in": described["d_in"], **inner, **said}


def _read_value(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return read_number(value.get("number"), name)
    if type(value) not in (int, float, str, type(None)):
        raise ValueError(f'"{name}" must hold numbers, texts and nulls')
    return read_number(value, name) if type(value) is int else value


def _write_value(value: Any) -> Any:
    """A number, a text or null; infinities and NaN are objects, so that they differ from texts."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"number": str(plain)}
    return plain


def read_text(text: str, *, kind: str = FORMAT) -> dict[str, Any]:
    """The fields of a JSON text of this format and version."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"text ({type(text).__name__}) must be a JSON text")
    try:
        parts = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text must be JSON: {error}") from None
    if not isinstance(parts, dict) or parts.get("format") != kind:
        raise ValueError(f'text must be an object whose "format" is {kind!r}')
    if parts.get("version") != VERSION or isinstance(parts["version"], bool):
        raise ValueError(f'text is of "version" {parts.get("version")!r}; this package reads version {VERSION}')
    return parts


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def part(parts: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """A field of an object, which must be there and of one of these types."""
    if name not in parts:
        raise ValueError(f'text must have the field "{name}"')
    if type(parts[name]) not in kinds:
        raise ValueError(f'"{name}" must be {" or ".join(_JSON[kind] for kind in kinds)}')
    return parts[name]


_JSON = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def write_number(value: float) -> int | float | str:
    """A number as a JSON value: infinities and NaN are texts."""
    return value if math.isfinite(value) else str(float(value))


def read_number(value: Any, name: str) -> int | float:
    """A number that `write_number` wrote."""
    if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
        return value
    if value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f'"{name}" must hold numbers, or the texts "inf", "-inf" and "nan"')


def write_array(array: Array | None) -> list[Any] | None:
    """Numbers or booleans as a list."""
    if array is None:
        return None
    values: list[Any] = array.tolist()
    finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
    return values if finite else [write_number(value) for value in values]


def read_array(values: list[Any], name: str, kind: type, size: int | None = None) -> Array:
    """A list as an array."""
    if size is not None and len(values) != size:
        raise ValueError(f'"{name}" must hold {size} entries, one for each node; found {len(values)}')
    kinds = {type(value) for value in values}
    if kind is float:
        if str in kinds:
            values = [read_number(value, name) for value in values]
        elif not kinds <= {int, float}:
            read_number(None, name)
    elif not kinds <= {kind}:
        raise ValueError(f'"{name}" must hold {"integers" if kind is int else "true or false"}')
    try:
        return np.array(values, dtype={float: np.float64, int: np.int64, bool: np.bool_}[kind])
    except OverflowError:
        raise ValueError(f'"{name}" holds numbers that are too large') from None


def write_nodes(nodes: ShownNodes) -> dict[str, Any]:
    """The nodes of an open tree: the parent of each, and its label or its prefix in hexadecimal digits."""
    parents = {"parents": nodes.parents.tolist()}
    if nodes.words is None:
        return {**parents, "labels": [write_labels(labels) for labels in nodes.labels]}
    assert isinstance(nodes.tree, OpenTree)
    high, low = (word.tolist() for word in nodes.words.to_the_right(nodes.tree.width))
    prefixes: list[str | None] = [f"{(upper << 64) | lower:x}" for upper, lower in zip(high, low, strict=True)]
    if nodes.outside >= 0:
        prefixes[nodes.outside] = None
    return {**parents, "prefixes": prefixes}


def read_nodes(tree: OpenTree, described: Mapping[str, Any]) -> ShownNodes:
    """The nodes that `write_nodes` wrote, checked against the tree."""
    parents = read_array(part(described, "parents", list), "parents", int)
    rising = bool((parents[1:] >= np.maximum(parents[:-1], 0)).all() and (parents < np.arange(parents.size)).all())
    if not rising or (parents.size and parents[0] != -1):
        raise ValueError('"parents" must begin with -1 for the root and never decrease')
    levels = node_levels(parents) if parents.size else parents
    if levels.size and levels[-1] >= tree.depth:
        raise ValueError(f'"parents" must not go deeper than the tree, whose depth is {tree.depth}')
    if tree.kind == "bits":
        prefixes = part(described, "prefixes", list)
        outside = prefixes.index(None) if None in prefixes else -1
        if outside >= 0:
            alone = outside < levels.size and levels[outside] == 1 and not (parents == outside).any()
            if not (tree.outside and alone and (outside + 1 == levels.size or levels[outside + 1] > 1)):
                raise ValueError('"prefixes" may be null only for the last node of level 1, if "outside" is true')
            prefixes = [*prefixes[:outside], "0", *prefixes[outside + 1 :]]
        words = _read_prefixes(tree, prefixes, levels, parents)
        return ShownNodes(tree, levels, parents, words=words, outside=outside)
    columns = part(described, "labels", list)
    if len(columns) != tree.depth - 1 or not all(isinstance(labels, dict) for labels in columns):
        raise ValueError(f'"labels" must hold {tree.depth - 1} objects, one for each level below the root')
    series = tuple(read_labels(labels) for labels in columns)
    if [labels.len() for labels in series] != np.bincount(levels, minlength=tree.depth)[1:].tolist():
        raise ValueError('"labels" must hold one label for each node of a level')
    return ShownNodes(tree, levels, parents, series)


def _read_prefixes(tree: OpenTree, texts: list[Any], levels: Ints, parents: Ints) -> BitKeys:
    try:
        keys = [int(text, 16) for text in texts]
    except (TypeError, ValueError):
        raise ValueError('"prefixes" must be texts of hexadecimal digits') from None
    if len(keys) != levels.size or any(not 0 <= key < 1 << tree.width for key in keys):
        raise ValueError(f'"prefixes" must hold one number of {tree.width} bits for each node')
    words = BitKeys.of_integers(*words_of(keys), tree.width)
    below = np.flatnonzero(parents >= 0)
    inside = words[below].common_bits(words[parents[below]]) >= tree.bits_at(levels[parents[below]])
    exact = words.first(tree.bits_at(levels))
    if not inside.all() or (exact.high != words.high).any() or (exact.low != words.low).any():
        raise ValueError('"prefixes" must begin with the prefix of their parent, and be 0 beyond their own bits')
    return words


def write_labels(labels: pl.Series) -> dict[str, Any]:
    """A series as its type and its values; times as their physical integers."""
    kind = labels.dtype
    if kind in (pl.String, pl.Boolean):
        return {"type": "text" if kind == pl.String else "boolean", "values": labels.to_list()}
    described: dict[str, Any] = {"type": str(kind.base_type()).lower()}
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        described["unit"] = kind.time_unit
    if isinstance(kind, pl.Datetime):
        described["zone"] = kind.time_zone
    return {**described, "values": labels.to_physical().to_list()}


def read_labels(described: Mapping[str, Any]) -> pl.Series:
    """The series that `write_labels` wrote."""
    name, values = described.get("type"), described.get("values")
    if not isinstance(values, list):
        raise ValueError("labels must have a list of values")
    allowed = {"text": str, "boolean": bool}.get(str(name), int)
    if not {type(value) for value in values} <= {allowed, type(None)}:
        raise ValueError(f"labels of type {name!r} must be of that type")
    kind = _dtype(described)
    physical = pl.Series([], dtype=kind).to_physical().dtype
    try:
        return pl.Series(values, dtype=physical).cast(kind)
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
        raise ValueError(f"labels of type {name!r} must be of that type") from None


def _dtype(described: Mapping[str, Any]) -> Any:
    name, unit, zone = (described.get(key) for key in ("type", "unit", "zone"))
    if not isinstance(name, str):
        raise ValueError("labels must have a type")
    plain = {"text": pl.String, "boolean": pl.Boolean, "date": pl.Date, "time": pl.Time, **_INTEGERS}
    if name in plain:
        return plain[name]
    if unit in _UNITS and name == "duration":
        return pl.Duration(unit)
    if unit in _UNITS and name == "datetime" and isinstance(zone, (str, type(None))):
        try:
            return pl.Series([], dtype=pl.Int64).cast(pl.Datetime(unit, zone)).dtype
        except (pl.exceptions.PolarsError, ValueError):
            raise ValueError(f"labels: {zone!r} is not a known time zone") from None
    raise ValueError(f"labels: {name!r} is not a known type")


def write_tree(tree: Tree | OpenTree) -> dict[str, Any]:
    """The description of a tree: all nodes of a public tree, the parameters of an open tree."""
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
        fits = kind != "columns" or len(names) == depth - 1  # default names for a huge depth would fill the memory
        if not fits or stride < 1 or not 0 <= width <= 128 or (kind == "paths") != bool(separator):
            raise ValueError('"tree" must describe a valid open tree')
        outside, ordered = (_flag(described, name) for name in ("outside", "ordered"))
        return OpenTree(kind, depth, width, stride, separator, outside, names, shown_as, ordered)
    parents = read_array(part(described, "parents", list), "parents", int)
    labels = part(described, "labels", list, type(None))
    plain = Tree.from_parents(parents)
    if labels is None:
        return plain
    own = tuple(_read_label(label) for label in labels)
    if len(own) != plain.node_count or own[plain.root] is not None:
        raise ValueError('"labels" must have one entry for each node, and null for the root')
    distinct = {(parent, tagged_label(label)) for parent, label in zip(parents.tolist(), own, strict=True)}
    if len(distinct) < len(own):
        raise ValueError('"labels" of the children of a node must be distinct')
    ranges = described.get("ranges")
    if ranges is None:
        return Tree(parents, own, names, ordered=_flag(described, "ordered"))
    return _read_ranges(ranges, Tree(parents, own, names))


def _flag(described: Mapping[str, Any], name: str) -> bool:
    """A boolean field that earlier versions of the package did not write."""
    return bool(part({name: False, **described}, name, bool))


def _write_bound(bound: Any) -> Any:
    """An end of ranges: an exact number, a date or a time."""
    if isinstance(bound, date):
        return _write_label(bound)
    return bound if type(bound) in (int, float) else {"number": str(Fraction(bound))}


def _read_ranges(described: Any, tree: Tree) -> Tree:
    """The tree with its ranges, which must be the ranges of this tree."""
    if not isinstance(described, dict):
        raise ValueError('"ranges" must be an object or null')
    ends = [_read_bound(part(described, name, int, float, dict)) for name in ("low", "high")]
    try:
        ranges = NumberRange(ends[0], ends[1], part(described, "bins", int))
    except TypeError as error:
        raise ValueError(f'"ranges": {error}') from None
    outside = tree.leaf_count - ranges.bins
    if outside in (0, 1) and tree.depth > 1:  # otherwise do not build a tree of so many ranges
        widest = int(np.bincount(tree.parents[tree.parents >= 0]).max())
        for branching in (widest, widest - outside):  # the leaf outside is one more child of the root
            if ranges.tree(branching=max(branching, 2), outside=bool(outside)) == tree:
                return Tree(tree.parents, tree.labels, tree.names, ranges=ranges)
    raise ValueError('"ranges" must be the ranges of the tree')


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


def write_curves(curve: MeasuredCurve | None, curves: Mapping[int, MeasuredCurve] | None) -> dict[str, Any] | None:
    """The line of a release: the edges of its bins, and its curve or the curves of its groups."""
    if curve is None and curves is None:
        return None
    every: list[tuple[int | None, MeasuredCurve]] = [*(curves or {}).items()] if curve is None else [(None, curve)]
    edges = every[0][1].edges if every else np.zeros(0)
    return {"edges": write_edges(edges), "curves": [_write_curve(node, each) for node, each in every]}


def write_edges(edges: Array) -> dict[str, Any]:
    """The edges of bins: their type and their numbers, which for dates count from 1970."""
    kind = next(name for name, dtype in _KINDS.items() if edges.dtype == np.dtype(dtype))
    return {"type": kind, "values": (edges if kind == "number" else edges.astype(np.int64)).tolist()}


def _write_curve(node: int | None, curve: MeasuredCurve) -> dict[str, Any]:
    tree = {"sizes": list(curve.tree.sizes), "scales": list(curve.tree.scales)}
    noisy = {"cuts": curve.cuts.tolist(), **tree, "noisy": curve.noisy.tolist()}
    return {"node": node, "confidence": curve.confidence, **noisy}


def read_curves(
    described: Mapping[str, Any] | None, tree: Tree | OpenTree, size: int
) -> tuple[MeasuredCurve | None, dict[int, MeasuredCurve] | None]:
    """The curve, or the curves of groups, that `write_curves` wrote."""
    if described is None:
        return None, None
    every = part(described, "curves", list)
    if not all(isinstance(each, dict) for each in every):
        raise ValueError('"curves" must hold objects')
    edges = read_edges(part(described, "edges", dict))
    nodes = [part(each, "node", int, type(None)) for each in every]
    curves = [_read_curve(each, edges) for each in every]
    if nodes == [None]:
        return curves[0], None
    labelled = tree.kind == "columns" if isinstance(tree, OpenTree) else tree.labels is not None and tree.ranges is None
    if not labelled:
        raise ValueError('"curves" of groups must have a tree whose nodes are labels')
    if None in nodes or len(set(nodes)) < len(nodes) or not all(0 <= node < size for node in nodes):
        raise ValueError('"node" must be null for a single curve, or a different node for each curve')
    return None, dict(zip(nodes, curves, strict=True))


def read_edges(described: Mapping[str, Any]) -> Array:
    """The edges that `write_edges` wrote, which must be sorted."""
    kind = part(described, "type", str)
    if kind not in _KINDS:
        raise ValueError(f'"type" of "edges" must be one of {", ".join(_KINDS)}')
    values = read_array(part(described, "values", list), "values", float if kind == "number" else int)
    if not np.isfinite(values).all() or (values[1:] < values[:-1]).any():
        raise ValueError('"edges" must be finite numbers that never decrease')
    if values.size and kind != "number":
        first, last = np.array(_ENDS[kind], dtype=_KINDS[kind]).astype(np.int64)
        if not first <= values[0] <= values[-1] <= last:
            raise ValueError('"edges" must be dates of the years 1 to 9999')
    return values.astype(_KINDS[kind])


def _read_curve(described: Mapping[str, Any], edges: Array) -> MeasuredCurve:
    cuts, noisy, sizes = (read_array(part(described, name, list), name, int) for name in ("cuts", "noisy", "sizes"))
    bins = edges.size - 1
    if cuts.size < 2 or (cuts[1:] <= cuts[:-1]).any() or (cuts[0], cuts[-1]) != (0, bins):
        raise ValueError(f'"cuts" must increase from 0 to the number of bins, {bins}')
    if not sizes.size or sizes[0] != 1 or (sizes[1:] < sizes[:-1]).any() or sizes[-1] != cuts.size - 1:
        raise ValueError(f'"sizes" must increase from 1 to the number of segments, {cuts.size - 1}')
    scales = read_array(part(described, "scales", list), "scales", float, sizes.size)
    if not ((scales >= _LEAST_SCALE) & (scales <= _LARGEST_SCALE)).all():
        raise ValueError('"scales" must be from 2**-40 to 2**80')
    if noisy.size != sum(sizes.tolist()):
        raise ValueError('"noisy" must hold one count for each node of the tree with these "sizes"')
    confidence = part(described, "confidence", float)
    if not 0 < confidence < 1:
        raise ValueError('"confidence" of a curve must be above 0 and below 1')
    tree = SegmentTree(tuple(sizes.tolist()), tuple(scales.tolist()))
    return MeasuredCurve(edges, cuts, tree, noisy, confidence)


def write_values(values: Sequence[NodeValues]) -> list[dict[str, Any]]:
    """Sums and means as JSON values."""
    return [
        {
            **{"name": each.name, "low": each.low, "high": each.high},
            **{name: write_array(getattr(each, name)) for name in FIGURES},
        }
        for each in values
    ]


def read_values(written: list[Any], size: int) -> tuple[NodeValues, ...]:
    """The values that `write_values` wrote, for this number of nodes."""
    found = []
    for described in written:
        if not isinstance(described, dict):
            raise ValueError('"values" must hold objects')
        low, high = (float(part(described, name, int, float)) for name in ("low", "high"))
        arrays = [read_array(part(described, name, list), name, float, size) for name in FIGURES]
        found.append(NodeValues(part(described, "name", str), low, high, *arrays))
    if len({each.name for each in found}) < len(found):
        raise ValueError('"values" must have different names')
    return tuple(found)
