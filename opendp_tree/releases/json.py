"""Releases as JSON and back: the one place that writes and reads them. The format: docs/release_format.md."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn, get_args, get_origin

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Array, Ints
from opendp_tree.budget import PrivacyStatement
from opendp_tree.releases.curve import MeasuredCurve
from opendp_tree.releases.values import NodeValues
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.labels import FIGURES, tagged_label
from opendp_tree.trees.least_squares import SegmentTree
from opendp_tree.trees.nodes import ShownNodes
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree, node_levels

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

FORMAT, VERSION = "opendp-tree release", 1
_NULL = type(None)
_OBJECTS = list[dict[str, Any]]
_LISTS: dict[Any, str] = {
    list[int]: "integers",
    list[bool]: "true or false",
    list[float]: "numbers",
    _OBJECTS: "objects",
}
_WORDS: dict[Any, str] = {dict: "an object", list: "a list", str: "a text", int: "an integer", float: "a number"}
_WORDS |= {bool: "true or false", _NULL: "null", **dict.fromkeys(_LISTS, "a list"), Fraction: '{"number": "1/3"}'}
_WORDS |= {date: '{"date": "2026-01-31"}', datetime: '{"datetime": "2026-01-31T12:00:00"}'}

Fields = dict[str, Any]
"""The fields of an object with their types: lists of numbers are read as arrays."""
_STATEMENT: Fields = {"mechanism": str, "measure": str, "d_in": int, "loss": dict, "parameters": dict}
_STATEMENT |= {"unit": str | None, "counted": str | None}
_NODES: Fields = {"estimates": list[float], "lower": list[float], "upper": list[float]}
_NODES |= {"cells": list[int] | None, "shown": list[bool] | None}
_RELEASE: Fields = {"confidence": int | float, "hidden": int | float | str | None, **_NODES}
_RELEASE |= {"adds_up": bool, "whole": bool}
_OPEN: Fields = {"kind": str, "depth": int, "width": int, "stride": int, "separator": str, "shown_as": str}
_OPEN |= {"outside": bool, "ordered": bool, "names": list}
_PUBLIC: Fields = {"names": list, "ordered": bool, "ranges": dict | None, "parents": list[int], "labels": list | None}
_CURVE: Fields = {"confidence": float, "cuts": list[int], "sizes": list[int], "scales": list[float]}
_CURVE |= {"noisy": list[int]}
_VALUES: Fields = {"name": str, "low": int | float, "high": int | float, **dict.fromkeys(FIGURES, list[float])}
_EDGES = {"number": "f8", "date": "M8[D]", "datetime": "M8[us]"}
_LABELS: dict[str, Any] = {"text": pl.String, "boolean": pl.Boolean, "date": pl.Date, "time": pl.Time}
_LABELS |= {f"{sign}int{8 << n}".lower(): getattr(pl, f"{sign}Int{8 << n}") for sign in ("", "U") for n in range(5)}
_TREE_LABEL = (str, int, bool, _NULL, date, datetime)
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-40, 2.0**80
"""All mechanisms' scales are within these limits, whose squares are exact floats."""


def _read_text(text: str) -> dict[str, Any]:
    """The fields of a JSON text of this format and version."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"text ({type(text).__name__}) must be a JSON text")
    try:
        parts = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text must be JSON: {error}") from None
    is_release = isinstance(parts, dict) and parts.get("format") == FORMAT
    require(is_release, f'text must be an object whose "format" is {FORMAT!r}')
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


def part(parts: Mapping[str, Any], name: str, kind: Any, *, size: int | None = None) -> Any:
    """A field of an object, which must be there and of this type; lists of numbers are read as arrays."""
    require(name in parts, f'text must have the field "{name}"')
    kinds, value = get_args(kind) if isinstance(kind, UnionType) else (kind,), parts[name]
    for each in kinds if type(value) is list else ():
        if get_origin(each) is list:
            return _read_list(value, name, each, size)
    return _read_scalar(value, name, kinds)


def _read_list(values: list[Any], name: str, kind: Any, size: int | None) -> Any:
    is_full = size is None or len(values) == size
    require(is_full, f'"{name}" must hold {size} entries, one for each node; found {len(values)}')
    kinds, (inner,) = {type(value) for value in values}, get_args(kind)
    if inner is not float:
        require(kinds <= {get_origin(inner) or inner}, f'"{name}" must hold {_LISTS[kind]}')
    elif not kinds <= {int, float}:
        values = [read_number(value, name) for value in values]
    try:
        return values if kind == _OBJECTS else np.array(values, dtype=inner)
    except OverflowError:
        raise ValueError(f'"{name}" holds numbers that are too large') from None


def read_fields(parts: Mapping[str, Any], fields: Fields, *, size: int | None = None) -> dict[str, Any]:
    """Some fields of an object."""
    return {name: part(parts, name, kind, size=size) for name, kind in fields.items()}


def _write(value: Any, *names: str) -> dict[str, Any]:
    """Attributes as JSON values: arrays and tuples are lists, infinities and NaN are texts."""
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, np.ndarray)):
        is_exact = isinstance(value, np.ndarray) and (value.dtype.kind != "f" or np.isfinite(value).all())
        return value.tolist() if is_exact else [_plain(each) for each in value]  # type: ignore[union-attr]
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain


def _write_scalar(value: Any) -> Any:
    """A label, an end of ranges or a field of a statement: what JSON does not have is an object."""
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) in (date, datetime):
        return {type(plain).__name__: plain.isoformat()}
    if type(plain) in (Fraction, Decimal):
        return {"number": str(Fraction(plain))}
    if type(plain) is float and not math.isfinite(plain):
        return {"number": str(plain)}
    if type(plain) in (str, int, bool, float, _NULL):
        return plain
    raise TypeError(f"labels of type {type(value).__name__} cannot be written. Hint: texts, integers, dates")


def _read_scalar(written: Any, name: str, kinds: tuple[Any, ...]) -> Any:
    """What `_write_scalar` wrote, if it is of one of these types."""
    value, message = written, f'"{name}" must be {" or ".join(_WORDS[each] for each in kinds)}'
    if isinstance(written, dict) and dict not in kinds:
        try:
            ((kind, text),) = written.items()
            value = {"date": date.fromisoformat, "datetime": datetime.fromisoformat, "number": _read_exact}[kind](text)
        except (KeyError, TypeError, ValueError):
            raise ValueError(message) from None
    require(type(value) in kinds, message)
    return read_number(value, name) if float in kinds and type(value) is int else value


def _read_exact(text: str) -> float | Fraction:
    """A number that JSON cannot write."""
    if text in ("inf", "-inf", "nan"):
        return float(text)
    if not re.fullmatch(r"-?[0-9]{1,400}(/[1-9][0-9]{0,400})?", text, re.ASCII):
        raise ValueError
    return Fraction(text)


def read_number(value: Any, name: str) -> int | float:
    """A number, or the text of one that is not finite."""
    if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
        return value
    require(value in ("inf", "-inf", "nan"), f'"{name}" must hold numbers, or the texts "inf", "-inf" and "nan"')
    return float(value)


def write_release(release: TreeRelease) -> str:
    """The JSON text of a release."""
    parts = {
        "format": FORMAT,
        "version": VERSION,
        "statement": None if release.statement is None else write_statement(release.statement),
        "confidence": float(release.confidence),
        "tree": write_tree(release.tree),
        "nodes": None if release.nodes is None else _write_nodes(release.nodes),
        **_write(release, *_NODES),
        "hidden": None if release.hidden is None else _plain(float(release.hidden)),
        "line": _write_curves(release.curve, release.curves),
        **({} if release.adds_up else {"adds_up": False}),
        **({"whole": True} if release.whole else {}),
        "values": [_write(each, *_VALUES) for each in release.values],
    }
    return json.dumps(parts, allow_nan=False, separators=(",", ":"))


def read_release(text: str) -> dict[str, Any]:
    """The fields of the release that `write_release` wrote."""
    # Earlier versions of the package did not write these.
    parts = {"line": None, "adds_up": True, "whole": False, "values": [], **_read_text(text)}
    tree = read_tree(part(parts, "tree", dict))
    described = part(parts, "nodes", dict if isinstance(tree, OpenTree) else _NULL)
    nodes = _read_nodes(tree, described) if isinstance(tree, OpenTree) else None
    size = tree.node_count if isinstance(tree, Tree) else nodes.size if nodes else 0
    fields = read_fields(parts, _RELEASE, size=size)
    require(0 < fields["confidence"] <= 1, '"confidence" must be above 0 and at most 1')
    statement, hidden = part(parts, "statement", dict | None), fields["hidden"]
    curve, curves = _read_curves(part(parts, "line", dict | None), tree, size)
    return fields | {
        **{"tree": tree, "nodes": nodes, "curve": curve, "curves": curves, "values": _read_values(parts, size)},
        "confidence": float(fields["confidence"]),
        "statement": None if statement is None else read_statement(statement),
        "hidden": None if hidden is None else float(read_number(hidden, "hidden")),
    }


def write_statement(statement: PrivacyStatement) -> dict[str, Any]:
    """A privacy statement as JSON values."""
    fields = statement.to_dict()
    inner = ("loss", "parameters")
    return fields | {name: {key: _write_scalar(each) for key, each in fields[name].items()} for name in inner}


def read_statement(described: Mapping[str, Any]) -> PrivacyStatement:
    """The privacy statement that `write_statement` wrote."""
    # Earlier versions of the package did not write what is counted.
    fields = read_fields({"counted": None, **described}, _STATEMENT)
    for name, kinds in (("loss", (int, float)), ("parameters", (int, float, str, _NULL))):
        fields[name] = {key: _read_scalar(value, name, kinds) for key, value in fields[name].items()}
    is_unicode = is_text(json.dumps(described, ensure_ascii=False))
    require(is_unicode, '"statement" must hold texts that can be written as UTF-8')
    require(all(value >= 0 for value in fields["loss"].values()), '"loss" must hold non-negative numbers')
    require(fields["d_in"] >= 0, '"d_in" must not be negative')
    return PrivacyStatement(**fields)


def _write_nodes(nodes: ShownNodes) -> dict[str, Any]:
    """The nodes of an open tree: the parent of each, and its label or its prefix in hexadecimal digits."""
    parents = _write(nodes, "parents")
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
    parents = part(described, "parents", list[int])
    rising = (parents[1:] >= np.maximum(parents[:-1], 0)).all() and (parents < np.arange(parents.size)).all()
    begins = not parents.size or parents[0] == -1
    require(rising and begins, '"parents" must begin with -1 for the root and never decrease')
    levels = node_levels(parents) if parents.size else parents
    is_within = not levels.size or levels[-1] < tree.depth
    require(is_within, f'"parents" must not go deeper than the tree, whose depth is {tree.depth}')
    if tree.kind == "bits":
        return _read_prefixes(tree, part(described, "prefixes", list), levels, parents)
    columns, count = part(described, "labels", _OBJECTS), tree.depth - 1
    require(len(columns) == count, f'"labels" must hold {count} objects, one for each level below the root')
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
    described: dict[str, Any] = {"type": "text" if kind == pl.String else str(kind.base_type()).lower()}
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        described["unit"] = kind.time_unit
    if isinstance(kind, pl.Datetime):
        described["zone"] = kind.time_zone
    return {**described, "values": labels.to_physical().to_list()}


def read_labels(described: Mapping[str, Any]) -> pl.Series:
    """The series that `write_labels` wrote."""
    name, unit, zone = (described.get(key) for key in ("type", "unit", "zone"))
    kind = _LABELS.get(str(name))
    if unit in ("ns", "us", "ms") and isinstance(zone, (str, _NULL)):
        kind = {"duration": pl.Duration(unit), "datetime": pl.Datetime(unit, zone)}.get(str(name), kind)
    require(kind is not None, f"labels: {name!r} is not a known type")
    values = described.get("values")
    require(isinstance(values, list), "labels must have a list of values")
    in_zone = f", and {zone!r} a known time zone" if zone else ""
    message = f"labels of type {name!r} must be of that type{in_zone}"
    allowed = {"text": str, "boolean": bool}.get(str(name), int)
    require({type(value) for value in values or ()} <= {allowed, _NULL}, message)
    try:
        return pl.Series(values, dtype=pl.Series([], dtype=kind).to_physical().dtype).cast(kind)  # type: ignore[arg-type]
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
        raise ValueError(message) from None


def write_tree(tree: Tree | OpenTree) -> dict[str, Any]:
    """The description of a tree: all nodes of a public tree, the parameters of an open tree."""
    if isinstance(tree, OpenTree):
        return _write(tree, *_OPEN)
    ranges = None
    if tree.ranges is not None:
        ranges = {name: _write_scalar(getattr(tree.ranges, name)) for name in ("low", "high", "bins")}
    labels = None if tree.labels is None else [_write_scalar(label) for label in tree.labels]
    return {"kind": "public", **_write(tree, "names", "ordered", "parents"), "ranges": ranges, "labels": labels}


def read_tree(described: Mapping[str, Any]) -> Tree | OpenTree:
    """The tree that `write_tree` described."""
    # Earlier versions of the package did not write these.
    described = {"outside": False, "ordered": False, "ranges": None, **described}
    kind = part(described, "kind", str)
    fields = read_fields(described, _PUBLIC if kind == "public" else _OPEN)
    names = fields["names"] = tuple(fields["names"])
    require(all(type(name) is str for name in names), '"names" must be texts')
    if kind != "public":
        fits = kind != "columns" or len(names) == fields["depth"] - 1  # names for a huge depth would fill the memory
        is_separated = (kind == "paths") == bool(fields["separator"])
        is_valid = fits and fields["stride"] >= 1 and 0 <= fields["width"] <= 128 and is_separated
        require(is_valid, '"tree" must describe a valid open tree')
        return OpenTree(**fields)
    parents, plain = fields["parents"], Tree.from_parents(fields["parents"])
    if fields["labels"] is None:
        return plain
    labels = tuple(_read_scalar(label, "labels", _TREE_LABEL) for label in fields["labels"])
    is_full = len(labels) == plain.node_count and labels[plain.root] is None
    require(is_full, '"labels" must have one entry for each node, and null for the root')
    distinct = {(parent, tagged_label(label)) for parent, label in zip(parents.tolist(), labels, strict=True)}
    require(len(distinct) == len(labels), '"labels" of the children of a node must be distinct')
    if fields["ranges"] is None:
        return Tree(parents, labels, names, ordered=fields["ordered"])
    return _read_ranges(fields["ranges"], Tree(parents, labels, names))


def _read_ranges(described: Mapping[str, Any], tree: Tree) -> Tree:
    """The tree with its ranges, which must be the ranges of this tree."""
    low, high = (part(described, name, int | float | Fraction | date | datetime) for name in ("low", "high"))
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


def _write_curves(curve: MeasuredCurve | None, curves: Mapping[int, MeasuredCurve] | None) -> dict[str, Any] | None:
    """The line of a release: the edges of its bins, and its curve or the curves of its groups."""
    if curve is None and curves is None:
        return None
    by_node: dict[Any, MeasuredCurve] = dict(curves or {}) if curve is None else {None: curve}
    edges = next((each.edges for each in by_node.values()), np.zeros(0))
    written = [
        {"node": node, **_write(each, "confidence", "cuts", "noisy"), **_write(each.tree, "sizes", "scales")}
        for node, each in by_node.items()
    ]
    kind = next(name for name, dtype in _EDGES.items() if edges.dtype == np.dtype(dtype))
    numbers = edges if kind == "number" else edges.astype(np.int64)  # dates count from 1970
    return {"edges": {"type": kind, "values": numbers.tolist()}, "curves": written}


def _read_curves(
    described: Mapping[str, Any] | None, tree: Tree | OpenTree, size: int
) -> tuple[MeasuredCurve | None, dict[int, MeasuredCurve] | None]:
    """The curve, or the curves of groups, that `_write_curves` wrote."""
    if described is None:
        return None, None
    objects = part(described, "curves", _OBJECTS)
    edges = _read_edges(part(described, "edges", dict))
    nodes, curves = [part(each, "node", int | None) for each in objects], [_read_curve(each, edges) for each in objects]
    if nodes == [None]:
        return curves[0], None
    labelled = tree.kind == "columns" if isinstance(tree, OpenTree) else tree.labels is not None and tree.ranges is None
    require(labelled, '"curves" of groups must have a tree whose nodes are labels')
    distinct = None not in nodes and len(set(nodes)) == len(nodes) and all(0 <= node < size for node in nodes)
    require(distinct, '"node" must be null for a single curve, or a different node for each curve')
    return None, dict(zip(nodes, curves, strict=True))


def _read_curve(described: Mapping[str, Any], edges: Array) -> MeasuredCurve:
    confidence, cuts, sizes, scales, noisy = read_fields(described, _CURVE).values()
    bins, segments = edges.size - 1, cuts.size - 1
    is_cut = segments > 0 and (cuts[1:] > cuts[:-1]).all() and (cuts[0], cuts[-1]) == (0, bins)
    require(is_cut, f'"cuts" must increase from 0 to the number of bins, {bins}')
    is_tree = sizes.size and sizes[0] == 1 and (sizes[1:] >= sizes[:-1]).all() and sizes[-1] == segments
    require(is_tree, f'"sizes" must increase from 1 to the number of segments, {segments}')
    require(scales.size == sizes.size, '"scales" must hold one number for each of the "sizes"')
    is_scale = ((scales >= _LEAST_SCALE) & (scales <= _LARGEST_SCALE)).all()
    require(is_scale, '"scales" must be from 2**-40 to 2**80')
    is_full = noisy.size == sum(sizes.tolist())
    require(is_full, '"noisy" must hold one count for each node of the tree with these "sizes"')
    require(0 < confidence < 1, '"confidence" of a curve must be above 0 and below 1')
    return MeasuredCurve(edges, cuts, SegmentTree(tuple(sizes.tolist()), tuple(scales.tolist())), noisy, confidence)


def _read_edges(described: Mapping[str, Any]) -> Array:
    """The edges of bins, which must be sorted; dates count from 1970."""
    kind = part(described, "type", str)
    require(kind in _EDGES, f'"type" of "edges" must be one of {", ".join(_EDGES)}')
    values = part(described, "values", list[float] if kind == "number" else list[int])
    is_sorted = np.isfinite(values).all() and (values[1:] >= values[:-1]).all()
    require(is_sorted, '"edges" must be finite numbers that never decrease')
    if values.size and kind != "number":
        years = np.array([datetime.min, datetime.max], dtype=_EDGES[kind]).astype(np.int64)
        in_years = years[0] <= values[0] <= values[-1] <= years[1]
        require(in_years, '"edges" must be dates of the years 1 to 9999')
    return values.astype(_EDGES[kind])  # type: ignore[no-any-return]


def _read_values(parts: Mapping[str, Any], size: int) -> tuple[NodeValues, ...]:
    """The sums and means of this number of nodes."""
    objects = [read_fields(described, _VALUES, size=size) for described in part(parts, "values", _OBJECTS)]
    require(len({each["name"] for each in objects}) == len(objects), '"values" must have different names')
    return tuple(NodeValues(**each | {end: float(each[end]) for end in ("low", "high")}) for each in objects)
