"""Curves as plain data and back, for JSON. The format is told in docs/release_format.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import numpy as np

from opendp_tree._types import Array
from opendp_tree.releases.curve import MeasuredCurve
from opendp_tree.releases.format import part, read_array
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.segment_tree import SegmentTree
from opendp_tree.trees.tree import Tree

_KINDS = {"number": "f8", "date": "M8[D]", "datetime": "M8[us]"}
_ENDS = {"date": (date.min, date.max), "datetime": (datetime.min, datetime.max)}
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-40, 2.0**80
"""No mechanism's scales lie beyond: the squares of these are exact floats."""


def write_curves(curve: MeasuredCurve | None, curves: Mapping[int, MeasuredCurve] | None) -> dict[str, Any] | None:
    """The line of a release: the borders of its bins, and its curve, or those of its groups."""
    if curve is None and curves is None:
        return None
    every: list[tuple[int | None, MeasuredCurve]] = [*(curves or {}).items()] if curve is None else [(None, curve)]
    edges = every[0][1].edges if every else np.zeros(0)
    return {"edges": write_edges(edges), "curves": [_write(node, each) for node, each in every]}


def write_edges(edges: Array) -> dict[str, Any]:
    """The borders of bins: their type, and numbers; of dates, those since 1970."""
    kind = next(name for name, dtype in _KINDS.items() if edges.dtype == np.dtype(dtype))
    return {"type": kind, "values": (edges if kind == "number" else edges.astype(np.int64)).tolist()}


def _write(node: int | None, curve: MeasuredCurve) -> dict[str, Any]:
    tree = {"sizes": list(curve.tree.sizes), "scales": list(curve.tree.scales)}
    noisy = {"cuts": curve.cuts.tolist(), **tree, "noisy": curve.noisy.tolist()}
    return {"node": node, "confidence": curve.confidence, **noisy}


def read_curves(
    described: Mapping[str, Any] | None, tree: Tree | OpenTree, size: int
) -> tuple[MeasuredCurve | None, dict[int, MeasuredCurve] | None]:
    """The curve and the curves that `write_curves` wrote, once they are sure to be such."""
    if described is None:
        return None, None
    every = part(described, "curves", list)
    if not all(isinstance(each, dict) for each in every):
        raise ValueError('"curves" must hold objects')
    edges = read_edges(part(described, "edges", dict))
    nodes = [part(each, "node", int, type(None)) for each in every]
    curves = [_read(each, edges) for each in every]
    if nodes == [None]:
        return curves[0], None
    labelled = tree.kind == "columns" if isinstance(tree, OpenTree) else tree.labels is not None and tree.ranges is None
    if not labelled:
        raise ValueError('"curves" of groups must have a tree whose nodes are labels')
    if None in nodes or len(set(nodes)) < len(nodes) or not all(0 <= node < size for node in nodes):
        raise ValueError('"node" must be null for the only curve, or for each curve the place of another node')
    return None, dict(zip(nodes, curves, strict=True))


def read_edges(described: Mapping[str, Any]) -> Array:
    """The borders that `write_edges` wrote, once they are sure to be in order."""
    kind = part(described, "type", str)
    if kind not in _KINDS:
        raise ValueError(f'"type" of "edges" must be one of {", ".join(_KINDS)}')
    values = read_array(part(described, "values", list), "values", float if kind == "number" else int)
    if not np.isfinite(values).all() or (values[1:] < values[:-1]).any():
        raise ValueError('"edges" must be numbers that never fall')
    if values.size and kind != "number":
        first, last = np.array(_ENDS[kind], dtype=_KINDS[kind]).astype(np.int64)
        if not first <= values[0] <= values[-1] <= last:
            raise ValueError('"edges" must be dates of the years 1 to 9999')
    return values.astype(_KINDS[kind])


def _read(described: Mapping[str, Any], edges: Array) -> MeasuredCurve:
    cuts, noisy, sizes = (read_array(part(described, name, list), name, int) for name in ("cuts", "noisy", "sizes"))
    bins = edges.size - 1
    if cuts.size < 2 or (cuts[1:] <= cuts[:-1]).any() or (cuts[0], cuts[-1]) != (0, bins):
        raise ValueError(f'"cuts" must rise from 0 to the number of bins, {bins}')
    if not sizes.size or sizes[0] != 1 or (sizes[1:] < sizes[:-1]).any() or sizes[-1] != cuts.size - 1:
        raise ValueError(f'"sizes" must rise from 1 to the number of segments, {cuts.size - 1}')
    scales = read_array(part(described, "scales", list), "scales", float, sizes.size)
    if not ((scales >= _LEAST_SCALE) & (scales <= _LARGEST_SCALE)).all():
        raise ValueError('"scales" must be from 2**-40 to 2**80')
    if noisy.size != sum(sizes.tolist()):
        raise ValueError('"noisy" must hold one count for each node of the tree that "sizes" says')
    confidence = part(described, "confidence", float)
    if not 0 < confidence < 1:
        raise ValueError('"confidence" of a curve must be above 0 and below 1')
    tree = SegmentTree(tuple(sizes.tolist()), tuple(scales.tolist()))
    return MeasuredCurve(edges, cuts, tree, noisy, confidence)
