"""Leaf counts by plain Python, one row at a time: what `make_leaf_counts` must give."""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections import Counter
from datetime import date, datetime
from fractions import Fraction
from math import floor, isnan

from opendp_tree import Key
from opendp_tree.theorems.sums import STEPS


def path_of(row, key):
    """The labels of one row; None in the place of all labels where the row holds no key."""
    values, kind = [row[name] for name in key.columns_used], type(key).__name__
    if kind == "ColumnKey":
        return tuple(values)
    if kind == "NestedKey":
        return nested_path(row, key)
    (value,) = values
    if value is None:
        return (None,)
    if kind == "UrlKey":
        return url_path(value)[: key.depth - 1]
    if kind == "BothAddressKey":
        return address_path(value, key)
    if kind == "PathKey":
        text = value.removeprefix(key.separator)
        text = text.removesuffix(key.separator)
        return tuple(text.split(key.separator)[: key.depth - 1])
    if kind == "CalendarKey":
        return tuple(calendar_part(value, part, iso="week" in key.parts) for part in key.parts)
    if kind == "NumberKey":
        return range_path(value, key)
    number = address(value, key.width) if isinstance(value, str) else value
    if number is None or not 0 <= number < 2**key.width:
        return (None,)
    bits = format(number, f"0{key.width}b")
    return tuple(int(bits[start : start + key.stride], 2) for start in range(0, key.width, key.stride))


def calendar_part(value, part, *, iso):
    week = value.isocalendar()
    return {
        "year": week.year if iso else value.year,
        "quarter": f"Q{(value.month + 2) // 3}",
        "week": f"W{week.week:02}",
        "weekday": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][value.weekday()],
    }.get(part, getattr(value, part, None))


def range_path(value, key):
    """The range of every level that holds a number; "(outside)" for none."""
    ranges, tree = key.tree.ranges, key.tree
    if isinstance(value, float) and isnan(value):
        return (None,)
    place = place_of(value, ranges)
    if key.outside == "ends":
        place = min(max(place, 0), ranges.bins - 1)
    return tree.path(int(tree.leaves[place])) if 0 <= place < ranges.bins else ("(outside)",)


def place_of(value, ranges):
    numerators, under = ranges.exact_edges
    if isinstance(value, float):
        edges = [float(Fraction(number, under)) for number in numerators]
    else:
        edges, value = [Fraction(number, under) for number in numerators], exact(value)
    return ranges.bins - 1 if value == edges[-1] else bisect_right(edges, value) - 1


def exact(value):
    if isinstance(value, datetime):
        since = value - datetime(1970, 1, 1)
        return since.days + Fraction(since.seconds * 10**6 + since.microseconds, 86_400 * 10**6)
    return Fraction(value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value)


def url_path(text):
    before, found, after = text.partition("//")
    scheme = before[:-1]
    plain = scheme[:1].isalpha() and all(letter.isalnum() or letter in "+-." for letter in scheme) and scheme.isascii()
    if found and (not before or (before.endswith(":") and plain)):
        text = after
    text = text.split("#")[0].split("?")[0]
    host, slash, path = text.partition("/")
    host = host.split("@")[-1]
    name, colon, port = host.rpartition(":")
    is_port = all(digit in "0123456789" for digit in port)
    if colon and is_port and (not host.startswith("[") or "]" not in name or name.endswith("]")):
        host = name
    host = host.lower().removesuffix(".")
    whole = address(host, 32) is not None or host.startswith("[")
    path = path.removesuffix("/")
    steps = tuple(f"/{step}" for step in path.split("/")) if slash and path else ()
    if not host and steps:
        return steps
    return ((host,) if whole else tuple(reversed(host.split(".")))) + steps


def address_path(text, key):
    for version, part in key.versions:
        if address(text, part.width) is not None:
            return version, *prefixes(address(text, part.width), part)
    return (None,)


def prefixes(number, key):
    lengths = [min(level * key.stride, key.width) for level in range(1, key.depth)]
    shown = {"integer": int, "ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address}[key.shown_as]
    cut = [number >> (key.width - bits) << (key.width - bits) for bits in lengths]
    return tuple(f"{shown(each)}/{bits}" for each, bits in zip(cut, lengths, strict=True))


def nested_path(row, key):
    path = ()
    for place, part in enumerate(key.inner, start=1):
        if type(part).__name__ == "BitKey":
            value = row[part.columns_used[0]]
            number = address(value, part.width) if isinstance(value, str) else value
            fits = number is not None and 0 <= number < 2**part.width
            own = prefixes(number, part) if fits else (None,)
        else:
            own = path_of(row, part)
        path += own if place == len(key.inner) else own + (None,) * (part.depth - 1 - len(own))
    return path


def address(text, width):
    try:
        found = (ipaddress.IPv4Address if width == 32 else ipaddress.IPv6Address)(text)
    except ValueError:
        return None
    return None if getattr(found, "scope_id", None) else int(found)


def leaf_of(path, tree, outside):
    """The leaf of a public tree that a path leads to or through."""
    leaves = {tuple((type(label), label) for label in leaf): leaf for leaf in tree.paths()}
    for length in range(len(path) + 1):
        found = leaves.get(tuple((type(label), label) for label in path[:length]))
        if found is not None:
            return found
    return outside


def open_counts(frame, key, *, drop=False):
    """Each path and its number of rows."""
    key = Key.of(key)
    paths = Counter(path_of(row, key) for row in frame.iter_rows(named=True))
    return {path: count for path, count in paths.items() if not (drop and None in path)}


def public_counts(frame, key, tree, *, drop=False, outside=None):
    """The number of rows of each leaf, in the order of leaves."""
    key = Key.of(key)
    counts = Counter()
    for row in frame.iter_rows(named=True):
        path = path_of(row, key)
        if not (drop and None in path):
            counts[leaf_of(path, tree, outside)] += 1
    return [counts[leaf] for leaf in tree.paths()]


def as_paths(counts):
    """Sparse counts as each path and its number of rows."""
    found, tree = {}, counts.tree
    for place, count in enumerate(counts.occupied.counts.tolist()):
        if counts.outside and place == counts.occupied.counts.size - 1:
            path = (None,)
        elif tree.kind == "bits":
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


def steps_of(value, *, low, high, steps=STEPS):
    """The step of a row's value: 0 at the lower bound and below, `steps` at the upper one and above."""
    if value <= low or value >= high:
        return 0 if value <= low else steps
    return min(steps, max(0, floor((Fraction(value) - low) / (high - low) * steps + Fraction(1, 2))))
