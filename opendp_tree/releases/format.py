"""A release's parts as JSON and back. The format is told in docs/release_format.md."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from opendp_tree._types import Array, Ints
from opendp_tree.trees.arrays import node_levels
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownNodes

_INNER = ("loss", "parameters")
FORMAT, VERSION = "opendp-tree release", 1


def write_text(parts: Mapping[str, Any], *, kind: str = FORMAT) -> str:
    """The parts as one JSON text."""
    return json.dumps({"format": kind, "version": VERSION, **parts}, allow_nan=False, separators=(",", ":"))


def write_statement(statement: Mapping[str, Any]) -> dict[str, Any]:
    """A privacy statement as JSON has room for it."""
    inner = {name: {key: _write_value(value) for key, value in statement[name].items()} for name in _INNER}
    return {**statement, **inner}


def read_statement(described: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a privacy statement that `write_statement` wrote, once they are sure to be such."""
    inner = {
        name: {key: _read_value(value, name) for key, value in part(described, name, dict).items()} for name in _INNER
    }
    if not all(type(value) in (int, float) and value >= 0 for value in inner["loss"].values()):
        raise ValueError('"loss" must hold numbers that are not negative')
    if part(described, "d_in", int) < 0:
        raise ValueError('"d_in" must not be negative')
    texts = {name: part(described, name, str) for name in ("mechanism", "measure")}
    # Texts of earlier releases do not say what is counted.
    said = {name: part({"counted": None, **described}, name, str, type(None)) for name in ("unit", "counted")}
    return {**texts, "d_in": described["d_in"], **inner, **said}


def _read_value(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return read_number(value.get("number"), name)
    if type(value) not in (int, float, str, type(None)):
        raise ValueError(f'"{name}" must hold numbers, texts and nulls')
    return read_number(value, name) if type(value) is int else value


def _write_value(value: Any) -> Any:
    """A number, a text or null; what is no finite number is told from a text of that name."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"number": str(plain)}
    return plain


def read_text(text: str, *, kind: str = FORMAT) -> dict[str, Any]:
    """The parts of a JSON text, once it is sure to be a release of this version."""
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
    raise ValueError(f"{constant} is no JSON number")


def part(parts: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """A field of an object, once it is sure to be there."""
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
    """A number as JSON holds it."""
    return value if math.isfinite(value) else str(float(value))


def read_number(value: Any, name: str) -> int | float:
    """A number that `write_number` wrote."""
    if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
        return value
    if value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f'"{name}" must hold numbers, or the texts "inf", "-inf" and "nan"')


def write_array(array: Array | None) -> list[Any] | None:
    """Numbers or truth values as a list."""
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
    """The nodes of an open tree: each one's parent, and its own label or its prefix in hexadecimal digits."""
    parents = {"parents": nodes.parents.tolist()}
    if nodes.words is None:
        from opendp_tree.releases.labels import write_labels

        return {**parents, "labels": [write_labels(labels) for labels in nodes.labels]}
    assert isinstance(nodes.tree, OpenTree)
    high, low = (word.tolist() for word in nodes.words.to_the_right(nodes.tree.width))
    prefixes: list[str | None] = [f"{(upper << 64) | lower:x}" for upper, lower in zip(high, low, strict=True)]
    if nodes.outside >= 0:
        prefixes[nodes.outside] = None
    return {**parents, "prefixes": prefixes}


def read_nodes(tree: OpenTree, described: Mapping[str, Any]) -> ShownNodes:
    """The nodes that `write_nodes` wrote, once they are sure to be nodes of the tree."""
    parents = read_array(part(described, "parents", list), "parents", int)
    rising = bool((parents[1:] >= np.maximum(parents[:-1], 0)).all() and (parents < np.arange(parents.size)).all())
    if not rising or (parents.size and parents[0] != -1):
        raise ValueError('"parents" must be -1 for the root, which is first, and never fall after it')
    levels = node_levels(parents) if parents.size else parents
    if levels.size and levels[-1] >= tree.depth:
        raise ValueError(f'"parents" must not go deeper than the tree, whose depth is {tree.depth}')
    if tree.kind == "bits":
        prefixes = part(described, "prefixes", list)
        outside = prefixes.index(None) if None in prefixes else -1
        if outside >= 0:
            alone = outside < levels.size and levels[outside] == 1 and not (parents == outside).any()
            if not (tree.outside and alone and (outside + 1 == levels.size or levels[outside + 1] > 1)):
                raise ValueError('"prefixes" must be null for the last node below the root alone, if "outside" is true')
            prefixes = [*prefixes[:outside], "0", *prefixes[outside + 1 :]]
        words = _read_prefixes(tree, prefixes, levels, parents)
        return ShownNodes(tree, levels, parents, words=words, outside=outside)
    from opendp_tree.releases.labels import read_labels

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
        raise ValueError('"prefixes" must begin as those of their parents, and be 0 beyond their own bits')
    return words
