"""Checks of arguments. Each error names the argument, what it was, and what was expected."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from opendp_tree._types import Array
from opendp_tree.saturate import LIMIT

Kind = TypeVar("Kind")


def _number(value: Any, kinds: tuple[type, ...], *, name: str, expected: str) -> Any:
    """A number of one of these kinds; True and False are not numbers."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{name} ({value!r}) must be {expected}")
    return float(value) if isinstance(value, np.floating) else value  # a short float cannot be compared with a long one


def check_scale(value: object, *, name: str = "scale") -> Fraction:
    """A non-negative finite number, such as a noise scale, exactly."""
    number = _number(value, (int, float, np.integer, np.floating), name=name, expected="a number")
    if not 0 <= number <= sys.float_info.max:
        raise ValueError(f"{name} ({shortened(number)}) must be finite and non-negative")
    return Fraction(float(number))


def check_positive(value: object, *, name: str) -> Fraction:
    """A positive finite number, exactly."""
    number = _number(value, (int, float, np.integer, np.floating), name=name, expected="a number")
    if number <= 0:
        raise ValueError(f"{name} ({shortened(number)}) must be positive")
    return check_scale(number, name=name)


def check_integer(value: object, *, name: str, least: int = -LIMIT) -> int:
    """An integer from `least` to 2**62 - 1."""
    number = int(_number(value, (int, np.integer), name=name, expected="an integer"))
    if not least <= number <= LIMIT:
        raise ValueError(f"{name} ({shortened(number)}) must be an integer from {least} to 2**62 - 1")
    return number


def check_probability(value: object, *, name: str) -> Fraction:
    """A number strictly between 0 and 1, exactly."""
    number = _number(value, (int, float, np.floating), name=name, expected="a number")
    if not 0 < number < 1:
        raise ValueError(f"{name} ({shortened(number)}) must be above 0 and below 1")
    return Fraction(number)


def check_numbers(values: Any, *, name: str, hint: str, kinds: str = "iuf") -> Array:
    """An array of numbers, of any shape."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must be numbers, not {array.dtype}. Hint: {hint}")
    return array


def is_zero(value: object) -> bool:
    """Whether something is the number 0: a delta that was not given."""
    return not isinstance(value, bool) and isinstance(value, (int, float, np.number)) and value == 0


def check_choice(value: object, *, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, choices))}")
    return value


def check_flags(**flags: object) -> None:
    """Truth values, each under its name."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} ({value!r}) must be True or False")


def check_type(value: object, kind: type[Kind], *, name: str, hint: str) -> Kind:
    """An object of one class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} ({type(value).__name__}) must be a {kind.__name__}. Hint: {hint}")
    return value


def check_column(name: object) -> str:
    """The name of one column: Polars takes "^...$" and "*" for patterns, which may be several."""
    if not isinstance(name, str):
        raise TypeError(f"a column's name ({name!r}) must be a text")
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise ValueError(
            f"a column's name ({name!r}) must not look like '^...$' or '*', which Polars takes for a pattern. "
            "Hint: rename the column"
        )
    return name


def column_hint(name: str, types: Mapping[str, object]) -> str:
    """A hint about a column that is not among these, whose names are public; by their types or kinds."""
    parts = [part.strip() for part in name.replace(";", ",").split(",")]
    if len(parts) > 1 and types.keys() >= set(parts):
        return f"Hint: by={parts}"
    close = [each for each in types if each.casefold() == name.casefold()]
    # The columns of a file without a header would be its first row.
    if not close and {str(each) for each in types.values()} <= {"text", "String"}:
        return "Hint: check the name"
    shown = close or get_close_matches(name, types, n=1) or list(types)[:20]
    return f"Hint: {'one of ' * (len(shown) > 1)}{', '.join(f'{each!r:.60}' for each in shown)}"


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8; lone surrogates cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def shortened(number: float) -> str:
    """A number as a short text; Python refuses to print integers of thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 256:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


@contextmanager
def computable(names: str) -> Iterator[None]:
    """Refuse arguments so extreme that the results over- or underflow."""
    try:
        yield
    except ArithmeticError:
        raise ValueError(f"{names} must be less extreme: the results over- or underflow") from None


def read_distance(d_in: int | float) -> Fraction:
    """A distance as OpenDP hands it to a map, exactly."""
    if not (math.isfinite(d_in) and d_in >= 0):
        raise ValueError(f"d_in ({d_in}) must be finite and non-negative")
    return Fraction(d_in)
