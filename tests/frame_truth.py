"""Leaf counts by plain Python, one row at a time: what `make_leaf_counts` must give."""

from __future__ import annotations

import ipaddress
from collections import Counter

from opendp_tree import Key


def path_of(row, key):
    """The labels of one row; None in the place of all labels where the row holds no key."""
    values = [row[name] for name in key.columns_used]
    if key.kind == "columns":
        return tuple(values)
    (value,) = values
    if value is None:
        return (None,)
    if key.kind == "path":
        text = value.removeprefix(key.separator)
        text = text.removesuffix(key.separator)
        return tuple(text.split(key.separator)[: key.depth - 1])
    if key.kind == "date":
        return tuple(getattr(value, part) for part in key.parts)
    number = address(value, key.width) if isinstance(value, str) else value
    if number is None or not 0 <= number < 2**key.width:
        return (None,)
    bits = format(number, f"0{key.width}b")
    return tuple(int(bits[start : start + key.stride], 2) for start in range(0, key.width, key.stride))


def address(text, width):
    try:
        found = (ipaddress.IPv4Address if width == 32 else ipaddress.IPv6Address)(text)
    except ValueError:
        return None
    return None if getattr(found, "scope_id", None) else int(found)


def leaf_of(path, tree, other):
    """The leaf of a public tree that a path leads to or through."""
    leaves = {tuple((type(label), label) for label in leaf): leaf for leaf in tree.paths()}
    for length in range(len(path) + 1):
        found = leaves.get(tuple((type(label), label) for label in path[:length]))
        if found is not None:
            return found
    return other


def open_counts(frame, key, *, drop=False):
    """Each path and its number of rows."""
    key = Key.of(key)
    paths = Counter(path_of(row, key) for row in frame.iter_rows(named=True))
    bits = key.kind in ("bits", "ip")
    return {path: count for path, count in paths.items() if not ((drop or bits) and None in path)}


def public_counts(frame, key, tree, *, drop=False, other=None):
    """The number of rows of each leaf, in the order of leaves."""
    key = Key.of(key)
    counts = Counter()
    for row in frame.iter_rows(named=True):
        path = path_of(row, key)
        if not (drop and None in path):
            counts[leaf_of(path, tree, other)] += 1
    return [counts[leaf] for leaf in tree.paths()]


def as_paths(counts):
    """Sparse counts as each path and its number of rows."""
    found, tree = {}, counts.tree
    for place, count in enumerate(counts.occupied.counts.tolist()):
        if tree.kind == "bits":
            number = (int(counts.keys.high[place]) << 64 | int(counts.keys.low[place])) >> (128 - tree.width)
            bits = format(number, f"0{tree.width}b")
            path = tuple(int(bits[start : start + tree.stride], 2) for start in range(0, tree.width, tree.stride))
        else:
            row, length = int(counts.keys.rows[place]), int(counts.occupied.levels[place])
            path = tuple(column[row] for column in counts.keys.columns[:length])
        assert path not in found
        assert count > 0
        found[path] = count
    return found
