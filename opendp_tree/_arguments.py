"""Checks of arguments. Each names the argument, what it was, and what was expected."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from opendp_tree.saturate import LIMIT

RESERVED = ("level", "estimate", "lower", "upper", "cells", "shown", "path", "other", "node", "prefix", "bits", "gap")
"""What a release's frame calls its own columns."""


def check_scale(scale: float, *, name: str = "scale") -> Fraction:
    """A non-negative finite noise scale, exactly."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} ({scale!r}) must be a number")
    if not 0 <= scale <= sys.float_info.max:
        raise ValueError(f"{name} ({scale}) must be finite and non-negative")
    return Fraction(float(scale))


def check_positive(value: float, *, name: str) -> Fraction:
    """A positive finite number, exactly."""
    exact = check_scale(value, name=name)
    if exact == 0:
        raise ValueError(f"{name} ({value}) must be positive")
    return exact


def check_integer(value: int, *, name: str, least: int = -LIMIT) -> int:
    """An integer from `least` to 2**62 - 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} ({value!r}) must be an integer")
    if not least <= value <= LIMIT:
        raise ValueError(f"{name} ({value}) must be an integer from {least} to 2**62 - 1")
    return int(value)


def check_probability(value: float, *, name: str) -> Fraction:
    """A number strictly between 0 and 1, exactly."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        raise TypeError(f"{name} ({value!r}) must be a number")
    if not 0 < float(value) < 1:
        raise ValueError(f"{name} ({value}) must be above 0 and below 1")
    return Fraction(float(value))


def check_choice(value: str, *, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in choices:
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, choices))}")
    return value


def check_names(names: Iterable[str] | None, *, count: int | None = None) -> tuple[str, ...]:
    """Names of label columns, `count` of them if that is known; by default `label_1`, `label_2`, ...

    >>> check_names(None, count=2)
    ('label_1', 'label_2')
    """
    if names is None:
        return tuple(f"label_{number}" for number in range(1, (count or 0) + 1))
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names ({names!r}) must be a collection of texts. Hint: wrap a single name: [name]")
    found = tuple(names)
    for name in found:
        if type(name) is not str:
            raise TypeError(f"names: {name!r} must be a text")
        if not name or not is_text(name):
            raise ValueError(f"names: {name!r} must be a text of at least one letter that can be written as UTF-8")
        if name in RESERVED:
            raise ValueError(f"names: {name!r} must not be one of {', '.join(RESERVED)}: columns of every release")
    if len(set(found)) < len(found):
        raise ValueError(f"names ({', '.join(found)}) must be distinct")
    if count is not None and len(found) != count:
        raise ValueError(f"names ({', '.join(found)}) must be {count}, one for each level below the root")
    return found


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8; lone surrogates cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def read_distance(d_in: int | float) -> Fraction:
    """A distance as OpenDP hands it to a map, exactly."""
    if not (math.isfinite(d_in) and d_in >= 0):
        raise ValueError(f"d_in ({d_in}) must be finite and non-negative")
    return Fraction(d_in)
