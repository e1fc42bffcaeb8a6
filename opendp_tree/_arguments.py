"""Checks of arguments. Each names the argument, what it was, and what was expected."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeVar

import numpy as np

from opendp_tree.saturate import LIMIT

Kind = TypeVar("Kind")


def check_type(value: object, kind: type[Kind], *, name: str, hint: str) -> Kind:
    """An object of one class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} ({type(value).__name__}) must be a {kind.__name__}. Hint: {hint}")
    return value


def check_column(name: str) -> str:
    """The name of one column: Polars takes "^...$" and "*" for patterns, which may be several."""
    if not isinstance(name, str):
        raise TypeError(f"a column's name ({name!r}) must be a text")
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise ValueError(
            f"a column's name ({name!r}) must not look like '^...$' or '*', which Polars takes for a pattern. "
            "Hint: rename the column"
        )
    return name


def check_scale(scale: float, *, name: str = "scale") -> Fraction:
    """A non-negative finite noise scale, exactly."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} ({scale!r}) must be a number")
    plain = (
        float(scale) if isinstance(scale, np.floating) else scale
    )  # a short float cannot be compared with a long one
    if not 0 <= plain <= sys.float_info.max:
        raise ValueError(f"{name} ({shortened(scale)}) must be finite and non-negative")
    return Fraction(float(plain))


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
        raise ValueError(f"{name} ({shortened(value)}) must be an integer from {least} to 2**62 - 1")
    return int(value)


def check_probability(value: float, *, name: str) -> Fraction:
    """A number strictly between 0 and 1, exactly."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        raise TypeError(f"{name} ({value!r}) must be a number")
    if not 0 < value < 1:
        raise ValueError(f"{name} ({shortened(value)}) must be above 0 and below 1")
    return Fraction(float(value))


def is_zero(value: float) -> bool:
    """Whether something is the number 0: a delta that was not given."""
    return not isinstance(value, bool) and isinstance(value, (int, float, np.number)) and value == 0


def check_choice(value: str, *, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, choices))}")
    return value


def check_flags(**flags: bool) -> None:
    """Truth values, each under its name."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} ({value!r}) must be True or False")


def float_below(amount: Fraction) -> float:
    """The nearest float that is no larger: a budget of 0.1 is a tenth, and the float 0.1 is more."""
    near = float(amount)
    return near if Fraction(near) <= amount else math.nextafter(near, -math.inf)


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8; lone surrogates cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def shortened(number: float) -> str:
    """A number as a text of a few digits; Python refuses to write integers of thousands."""
    if isinstance(number, int) and number.bit_length() > 256:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


@contextmanager
def computable(names: str) -> Iterator[None]:
    """Refuse arguments that are so extreme that no decimal and no float can hold what is computed from them."""
    try:
        yield
    except ArithmeticError:
        raise ValueError(f"{names} must be less extreme: what follows from them is beyond all numbers") from None


def read_distance(d_in: int | float) -> Fraction:
    """A distance as OpenDP hands it to a map, exactly."""
    if not (math.isfinite(d_in) and d_in >= 0):
        raise ValueError(f"d_in ({d_in}) must be finite and non-negative")
    return Fraction(d_in)
