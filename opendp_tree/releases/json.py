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
_NULL = type(None)
_JSON = {dict: "an object", list: "a list", str: "a text", int: "an integer", float: "a number"}
_JSON |= {bool: "true or false", _NULL: "null"}
_ARRAYS = {"estimates": float, "lower": float, "upper": float, "cells": int, "shown": bool}
_DTYPES: dict[str, Any] = {"text": pl.String, "boolean": pl.Boolean, "date": pl.Date, "time": pl.Time}
_DTYPES |= {
    f"{sign}int{8 << size}": getattr(pl, f"{sign.upper()}Int{8 << size}") for sign in ("", "u") for size in range(5)
}
_KINDS = {"number": "f8", "date": "M8[D]", "datetime": "M8[us]"}
_ENDS = {"date": (date.min, date.max), "datetime": (datetime.min, datetime.max)}
_OPEN = {"depth": int, "width": int, "stride": int, "separator": str, "shown_as": str}
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-40, 2.0**80
"""All mechanisms' scales are within these limits, whose squares are exact floats."""


def write_text(parts: Mapping[str, Any], *, kind: str = FORMAT) -> str:
    """The parts as one JSON text."""
    return json.dumps({"format": kind, "version": VERSION, **parts}, allow_nan=False, separators=(",", ":"))


def read_text(text: str, *, kind: str = FORMAT) -> dict[str, Any]:
    """The fields of a JSON text of this format and version."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"text ({type(text).__name__}) must be a JSON text")
    try:
        parts = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text must be JSON: {error}") from None
    is_kind = isinstance(parts, dict) and parts.get("format") == kind
    require(is_kind, f'text must be an object whose "format" is {kind!r}')
    version = parts.get("version")
    is_known = version == VERSION and not isinstance(version, bool)
    require(is_known, f'text is of "version" {version!r}; this package reads version {VERSION}')
    return parts  # type: ignore[no-any-return]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def require(valid: Any, message: str) -> None:
    """Refuse a text that is not valid."""
    if not valid:
        raise ValueError(message)


def part(parts: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """A field of an object, which must be there and of one of these types."""
    require(name in parts, f'text must have the field "{name}"')
    require(type(parts[name]) in kinds, f'"{name}" must be {" or ".join(_JSON[kind] for kind in kinds)}')
    return parts[name]


def array_part(parts: Mapping[str, Any], name: str, kind: type, size: int | None = None) -> Array:
    """A field that is a list of numbers, of integers or of booleans, as an array."""
    values = part(parts, name, list)
    is_full = size is None or len(values) == size
    require(is_full, f'"{name}" must hold {size} entries, one for each node; found {len(values)}')
    kinds = {type(value) for value in values}
    if kind is not float:
        require(kinds <= {kind}, f'"{name}" must hold {"integers" if kind is int else "true or false"}')
    elif not kinds <= {int, float}:
        values = [read_number(value, name) for value in values]
    try:
        return np.array(values, dtype={float: np.float64, int: np.int64, bool: np.bool_}[kind])
    except OverflowError:
        raise ValueError(f'"{name}" holds numbers that are too large') from None


def _objects(parts: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    objects: list[Any] = part(parts, name, list)
    require(all(isinstance(each, dict) for each in objects), f'"{name}" must hold objects')
    return objects


def write_array(array: Array | None) -> list[Any] | None:
    """Numbers or booleans as a list."""
    if array is None:
        return None
    values: list[Any] = array.tolist()
    finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
    return values if finite else [write_number(value) for value in values]


def write_number(value: float) -> int | float | str:
    """A number as a JSON value: infinities and NaN are texts."""
    return value if math.isfinite(value) else str(float(value))


def read_number(value: Any, name: str) -> int | float:
    """A number that `write_number` wrote."""
    if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
        return value
    require(value in ("inf", "-inf", "nan"), f'"{name}" must hold numbers, or the texts "inf", "-inf" and "nan"')
    return float(value)


def write_release(release: TreeRelease) -> str:
    """The JSON text of a release."""
    return write_text(
        {
            "statement": None if release.statement is None else write_statement(release.statement.to_dict()),
            "confidence": float(release.confidence),
            "tree": write_tree(release.tree),
            "nodes": None if release.nodes is None else _write_nodes(release.nodes),
            **{name: write_array(getattr(release, name)) for name in _ARRAYS},
            "hidden": None if release.hidden is None else write_number(float(release.hidden)),
            "line": _write_curves(release.curve, release.curves),
            **({} if release.adds_up else {"adds_up": False}),
            "values": write_values(release.values),
        }
    )


def read_release(text: str) -> dict[str, Any]:
    """The fields of the release that `write_release` wrote; those of its statement in a dictionary."""
    # Earlier versions of the package did not write these.
    parts = {"line": None, "adds_up": True, "values": [], **read_text(text)}
    tree = read_tree(part(parts, "tree", dict))
    described = part(parts, "nodes", dict if isinstance(tree, OpenTree) else _NULL)
    nodes = _read_nodes(tree, described) if isinstance(tree, OpenTree) else None
    size = tree.node_count if isinstance(tree, Tree) else nodes.size if nodes else 0
    arrays = {
        name: None if kind is not float and parts.get(name, 0) is None else array_part(parts, name, kind, size)
        for name, kind in _ARRAYS.items()
    }
    confidence = part(parts, "confidence", int, float)
    require(0 < confidence <= 1, '"confidence" must be above 0 and at most 1')
    statement = part(parts, "statement", dict, _NULL)
    hidden = part(parts, "hidden", int, float, str, _NULL)
    curve, curves = _read_curves(part(parts, "line", dict, _NULL), tree, size)
    return {
        "tree": tree,
        "confidence": float(confidence),
        "statement": None if statement is None else read_statement(statement),
        "nodes": nodes,
        "hidden": None if hidden is None else float(read_number(hidden, "hidden")),
        "curve": curve,
        "curves": curves,
        "adds_up": part(parts, "adds_up", bool),
        "values": read_values(parts, size),
        **arrays,
    }


def write_statement(statement: Mapping[str, Any]) -> dict[str, Any]:
    """A privacy statement as JSON values."""
    inner = {
        name: {key: _write_value(value) for key, value in statement[name].items()} for name in ("loss", "parameters")
    }
    return {**statement, **inner}


def read_statement(described: Mapping[str, Any]) -> dict[str, Any]:
    """The checked fields of a privacy statement."""
    loss, parameters = (
        {key: _read_value(value, name) for key, value in part(described, name, dict).items()}
        for name in ("loss", "parameters")
    )
    is_loss = all(type(value) in (int, float) and value >= 0 for value in loss.values())
    require(is_loss, '"loss" must hold non-negative numbers')
    require(part(described, "d_in", int) >= 0, '"d_in" must not be negative')
    texts = {name: part(described, name, str) for name in ("mechanism", "measure")}
    # Earlier versions of the package did not write what is counted.
    words = {name: part({"counted": None, **described}, name, str, _NULL) for name in ("unit", "counted")}
    return {**texts, "d_in": described["d_in"], "loss": loss, "parameters": parameters, **words}


def _write_value(value: Any) -> Any:
    """A number, a text or null; infinities and NaN are objects, so that they differ from texts."""
    plain = value.item() if isinstance(value, np.generic) else value
    return {"number": str(plain)} if isinstance(plain, float) and not math.isfinite(plain) else plain


def _read_value(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return read_number(value.get("number"), name)
    require(type(value) in (int, float, str, _NULL), f'"{name}" must hold numbers, texts and nulls')
    return read_number(value, name) if type(value) is int else value


def _write_nodes(nodes: ShownNodes) -> dict[str, Any]:
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


def _read_nodes(tree: OpenTree, described: Mapping[str, Any]) -> ShownNodes:
    """The nodes that `_write_nodes` wrote, checked against the tree."""
    parents = array_part(described, "parents", int)
    rising = bool((parents[1:] >= np.maximum(parents[:-1], 0)).all() and (parents < np.arange(parents.size)).all())
    begins = not parents.size or parents[0] == -1
    require(rising and begins, '"parents" must begin with -1 for the root and never decrease')
    levels = node_levels(parents) if parents.size else parents
    is_within = not levels.size or levels[-1] < tree.depth
    require(is_within, f'"parents" must not go deeper than the tree, whose depth is {tree.depth}')
    if tree.kind == "bits":
        return _read_prefixes(tree, part(described, "prefixes", list), levels, parents)
    columns, count = part(described, "labels", list), tree.depth - 1
    is_list = len(columns) == count and all(isinstance(labels, dict) for labels in columns)
    require(is_list, f'"labels" must hold {count} objects, one for each level below the root')
    series = tuple(read_labels(labels) for labels in columns)
    is_full = [labels.len() for labels in series] == np.bincount(levels, minlength=tree.depth)[1:].tolist()
    require(is_full, '"labels" must hold one label for each node of a level')
    return ShownNodes(tree, levels, parents, series)


def _read_prefixes(tree: OpenTree, texts: list[Any], levels: Ints, parents: Ints) -> ShownNodes:
    outside = texts.index(None) if None in texts else -1
    if outside >= 0:
        alone = outside < levels.size and levels[outside] == 1 and not (parents == outside).any()
        is_last = alone and (outside + 1 == levels.size or levels[outside + 1] > 1)
        message = '"prefixes" may be null only for the last node of level 1, if "outside" is true'
        require(tree.outside and is_last, message)
        texts = [*texts[:outside], "0", *texts[outside + 1 :]]
    try:
        keys = [int(text, 16) for text in texts]
    except (TypeError, ValueError):
        raise ValueError('"prefixes" must be texts of hexadecimal digits') from None
    is_full = len(keys) == levels.size and all(0 <= key < 1 << tree.width for key in keys)
    require(is_full, f'"prefixes" must hold one number of {tree.width} bits for each node')
    words = BitKeys.of_integers(*words_of(keys), tree.width)
    below = np.flatnonzero(parents >= 0)
    inside = words[below].common_bits(words[parents[below]]) >= tree.bits_at(levels[parents[below]])
    exact = words.first(tree.bits_at(levels))
    is_nested = inside.all() and (exact.high == words.high).all() and (exact.low == words.low).all()
    require(is_nested, '"prefixes" must begin with the prefix of their parent, and be 0 beyond their own bits')
    return ShownNodes(tree, levels, parents, words=words, outside=outside)


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
    fields: tuple[Any, ...] = tuple(described.get(key) for key in ("type", "unit", "zone", "values"))
    name, unit, zone, values = fields
    require(isinstance(values, list), "labels must have a list of values")
    allowed, message = (
        {"text": str, "boolean": bool}.get(str(name), int),
        f"labels of type {name!r} must be of that type",
    )
    require({type(value) for value in values or ()} <= {allowed, _NULL}, message)
    require(isinstance(name, str), "labels must have a type")
    kind: Any = _DTYPES.get(str(name))
    is_timed = unit in ("ns", "us", "ms") and isinstance(zone, (str, _NULL))
    if is_timed and name == "duration":
        kind = pl.Duration(unit)
    elif is_timed and name == "datetime":
        try:
            kind = pl.Series([], dtype=pl.Int64).cast(pl.Datetime(unit, zone)).dtype
        except (pl.exceptions.PolarsError, ValueError):
            raise ValueError(f"labels: {zone!r} is not a known time zone") from None
    require(kind is not None, f"labels: {name!r} is not a known type")
    try:
        return pl.Series(values, dtype=pl.Series([], dtype=kind).to_physical().dtype).cast(kind)
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
        raise ValueError(message) from None


def write_tree(tree: Tree | OpenTree) -> dict[str, Any]:
    """The description of a tree: all nodes of a public tree, the parameters of an open tree."""
    if isinstance(tree, OpenTree):
        fields = ("kind", *_OPEN, "outside", "ordered")
        return {**{name: getattr(tree, name) for name in fields}, "names": list(tree.names)}
    labels = None if tree.labels is None else [_write_label(label) for label in tree.labels]
    ranges: dict[str, Any] | None = None
    if tree.ranges is not None:
        ranges = {name: _write_bound(getattr(tree.ranges, name)) for name in ("low", "high")}
        ranges["bins"] = tree.ranges.bins
    drawn = {"names": list(tree.names), "ordered": tree.ordered, "ranges": ranges}
    return {"kind": "public", **drawn, "parents": tree.parents.tolist(), "labels": labels}


def read_tree(described: Mapping[str, Any]) -> Tree | OpenTree:
    """The tree that `write_tree` described."""
    # Earlier versions of the package did not write these.
    described = {"outside": False, "ordered": False, "ranges": None, **described}
    names = tuple(part(described, "names", list))
    require(all(type(name) is str for name in names), '"names" must be texts')
    kind = part(described, "kind", str)
    if kind != "public":
        fields = {name: part(described, name, of) for name, of in _OPEN.items()}
        fits = kind != "columns" or len(names) == fields["depth"] - 1  # names for a huge depth would fill the memory
        is_separated = (kind == "paths") == bool(fields["separator"])
        is_valid = fits and fields["stride"] >= 1 and 0 <= fields["width"] <= 128 and is_separated
        require(is_valid, '"tree" must describe a valid open tree')
        flags = {name: part(described, name, bool) for name in ("outside", "ordered")}
        return OpenTree(kind, names=names, **fields, **flags)
    parents = array_part(described, "parents", int)
    labels = part(described, "labels", list, _NULL)
    plain = Tree.from_parents(parents)
    if labels is None:
        return plain
    own = tuple(_read_label(label) for label in labels)
    is_full = len(own) == plain.node_count and own[plain.root] is None
    require(is_full, '"labels" must have one entry for each node, and null for the root')
    distinct = {(parent, tagged_label(label)) for parent, label in zip(parents.tolist(), own, strict=True)}
    require(len(distinct) == len(own), '"labels" of the children of a node must be distinct')
    if described["ranges"] is None:
        return Tree(parents, own, names, ordered=part(described, "ordered", bool))
    return _read_ranges(described["ranges"], Tree(parents, own, names))


def _read_ranges(described: Any, tree: Tree) -> Tree:
    """The tree with its ranges, which must be the ranges of this tree."""
    require(isinstance(described, dict), '"ranges" must be an object or null')
    low, high = (_read_bound(part(described, name, int, float, dict)) for name in ("low", "high"))
    try:
        ranges = NumberRange(low, high, part(described, "bins", int))
    except TypeError as error:
        raise ValueError(f'"ranges": {error}') from None
    outside = tree.leaf_count - ranges.bins
    if outside in (0, 1) and tree.depth > 1:  # otherwise do not build a tree of so many ranges
        widest = int(np.bincount(tree.parents[tree.parents >= 0]).max())
        for branching in (widest, widest - outside):  # the leaf outside is one more child of the root
            if ranges.tree(branching=max(branching, 2), outside=bool(outside)) == tree:
                return Tree(tree.parents, tree.labels, tree.names, ranges=ranges)
    raise ValueError('"ranges" must be the ranges of the tree')


def _write_bound(bound: Any) -> Any:
    """An end of ranges: an exact number, a date or a time."""
    if isinstance(bound, date):
        return _write_label(bound)
    return bound if type(bound) in (int, float) else {"number": str(Fraction(bound))}


def _read_bound(written: Any) -> Any:
    if not isinstance(written, dict) or "number" not in written:
        return _read_label(written) if isinstance(written, dict) else written
    text = written["number"]
    is_fraction = isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,400}(/[1-9][0-9]{0,400})?", text, re.ASCII)
    require(is_fraction, '"ranges": {"number": …} must be a fraction')
    return Fraction(text)


def _write_label(label: Label) -> Any:
    if type(label) in (date, datetime):
        return {type(label).__name__: label.isoformat()}  # type: ignore[union-attr]
    if type(label) in (str, int, bool, _NULL):
        return label
    raise TypeError(f"labels of type {type(label).__name__} cannot be written. Hint: texts, integers, dates")


def _read_label(written: Any) -> Label:
    if type(written) in (str, int, bool, _NULL):
        return written  # type: ignore[no-any-return]
    try:
        ((kind, text),) = written.items()
        return {"date": date, "datetime": datetime}[kind].fromisoformat(text)
    except (AttributeError, KeyError, TypeError, ValueError):
        allowed = 'texts, integers, true, false, null, {"date": …} or {"datetime": …}'
        raise ValueError(f'"labels" must be {allowed}') from None


def _write_curves(curve: MeasuredCurve | None, curves: Mapping[int, MeasuredCurve] | None) -> dict[str, Any] | None:
    """The line of a release: the edges of its bins, and its curve or the curves of its groups."""
    if curve is None and curves is None:
        return None
    every: dict[Any, MeasuredCurve] = dict(curves or {}) if curve is None else {None: curve}
    edges = next((each.edges for each in every.values()), np.zeros(0))
    written = [
        {
            **{"node": node, "confidence": each.confidence, "cuts": each.cuts.tolist()},
            **{"sizes": list(each.tree.sizes), "scales": list(each.tree.scales), "noisy": each.noisy.tolist()},
        }
        for node, each in every.items()
    ]
    return {"edges": write_edges(edges), "curves": written}


def _read_curves(
    described: Mapping[str, Any] | None, tree: Tree | OpenTree, size: int
) -> tuple[MeasuredCurve | None, dict[int, MeasuredCurve] | None]:
    """The curve, or the curves of groups, that `_write_curves` wrote."""
    if described is None:
        return None, None
    every = _objects(described, "curves")
    edges = read_edges(part(described, "edges", dict))
    nodes = [part(each, "node", int, _NULL) for each in every]
    curves = [_read_curve(each, edges) for each in every]
    if nodes == [None]:
        return curves[0], None
    labelled = tree.kind == "columns" if isinstance(tree, OpenTree) else tree.labels is not None and tree.ranges is None
    require(labelled, '"curves" of groups must have a tree whose nodes are labels')
    distinct = None not in nodes and len(set(nodes)) == len(nodes) and all(0 <= node < size for node in nodes)
    require(distinct, '"node" must be null for a single curve, or a different node for each curve')
    return None, dict(zip(nodes, curves, strict=True))


def _read_curve(described: Mapping[str, Any], edges: Array) -> MeasuredCurve:
    cuts, noisy, sizes = (array_part(described, name, int) for name in ("cuts", "noisy", "sizes"))
    bins, segments = edges.size - 1, cuts.size - 1
    is_cut = segments > 0 and (cuts[1:] > cuts[:-1]).all() and (cuts[0], cuts[-1]) == (0, bins)
    require(is_cut, f'"cuts" must increase from 0 to the number of bins, {bins}')
    is_tree = sizes.size and sizes[0] == 1 and (sizes[1:] >= sizes[:-1]).all() and sizes[-1] == segments
    require(is_tree, f'"sizes" must increase from 1 to the number of segments, {segments}')
    scales = array_part(described, "scales", float, sizes.size)
    is_scale = ((scales >= _LEAST_SCALE) & (scales <= _LARGEST_SCALE)).all()
    require(is_scale, '"scales" must be from 2**-40 to 2**80')
    is_full = noisy.size == sum(sizes.tolist())
    require(is_full, '"noisy" must hold one count for each node of the tree with these "sizes"')
    confidence = part(described, "confidence", float)
    require(0 < confidence < 1, '"confidence" of a curve must be above 0 and below 1')
    tree = SegmentTree(tuple(sizes.tolist()), tuple(scales.tolist()))
    return MeasuredCurve(edges, cuts, tree, noisy, confidence)


def write_edges(edges: Array) -> dict[str, Any]:
    """The edges of bins: their type and their numbers, which for dates count from 1970."""
    kind = next(name for name, dtype in _KINDS.items() if edges.dtype == np.dtype(dtype))
    return {"type": kind, "values": (edges if kind == "number" else edges.astype(np.int64)).tolist()}


def read_edges(described: Mapping[str, Any]) -> Array:
    """The edges that `write_edges` wrote, which must be sorted."""
    kind = part(described, "type", str)
    require(kind in _KINDS, f'"type" of "edges" must be one of {", ".join(_KINDS)}')
    values = array_part(described, "values", float if kind == "number" else int)
    is_sorted = np.isfinite(values).all() and (values[1:] >= values[:-1]).all()
    require(is_sorted, '"edges" must be finite numbers that never decrease')
    if values.size and kind != "number":
        first, last = np.array(_ENDS[kind], dtype=_KINDS[kind]).astype(np.int64)
        require(first <= values[0] <= values[-1] <= last, '"edges" must be dates of the years 1 to 9999')
    return values.astype(_KINDS[kind])


def write_values(values: Sequence[NodeValues]) -> list[dict[str, Any]]:
    """Sums and means as JSON values."""
    return [
        {"name": each.name, "low": each.low, "high": each.high}
        | {name: write_array(getattr(each, name)) for name in FIGURES}
        for each in values
    ]


def read_values(parts: Mapping[str, Any], size: int) -> tuple[NodeValues, ...]:
    """The field "values" that `write_values` wrote, for this number of nodes."""
    values = []
    for described in _objects(parts, "values"):
        low, high = (float(part(described, name, int, float)) for name in ("low", "high"))
        arrays = [array_part(described, name, float, size) for name in FIGURES]
        values.append(NodeValues(part(described, "name", str), low, high, *arrays))
    require(len({each.name for each in values}) == len(values), '"values" must have different names')
    return tuple(values)
