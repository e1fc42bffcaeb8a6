"""Keys written as text, in the words of Key's own constructors: `country, ip(address, version=6)`."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from inspect import signature
from typing import Any

from opendp_tree.keys.key import Key

_KINDS = ("path", "url", "bits", "ip", "calendar", "number")
_QUOTED = r""" "[^"]*" | '[^']*' """
_TOKENS = re.compile(rf"{_QUOTED} | .", re.DOTALL | re.VERBOSE)
_CALL = re.compile(r"""([^"'(),=]+)\((.*)\)""", re.DOTALL)
_HINT = "Hint: country, ip(address, version=6), 'name, in quotes'"


def read_key(text: str) -> Key:
    """The key that a text describes: columns from the coarsest, and at most one run of other kinds below them."""
    parts = [_read_part(part) for part in _split(text)]
    columns = [part for part in parts if isinstance(part, str)]
    keys = [part for part in parts if isinstance(part, Key)]
    if columns and parts[: len(columns)] != columns:
        raise ValueError(f"by ({text!r}) must name columns before other kinds of keys. {_HINT}")
    if columns:
        keys.insert(0, Key.columns(*columns))
    return keys[0] if len(keys) == 1 else Key.nested(*keys)


def _split(text: str) -> list[str]:
    """The parts of a text between commas that are neither in quotes nor in parentheses."""
    parts, depth = [""], 0
    for token in _TOKENS.findall(text):
        depth += (token == "(") - (token == ")")
        if token in ("'", '"') or depth < 0:
            raise ValueError(f"by: {text!r} must close each quote, and open each parenthesis that it closes. {_HINT}")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    if depth:
        raise ValueError(f"by: {text!r} must close each parenthesis. {_HINT}")
    return [part.strip() for part in parts]


def _read_part(text: str) -> str | Key:
    """A column's name, or a key."""
    call = _CALL.fullmatch(text)
    if call is None:
        return _read_name(text)
    kind, (column, *options) = call[1].strip(), _split(call[2])
    if kind not in _KINDS:
        raise ValueError(f"by: a kind of key ({kind!r}) must be one of {', '.join(_KINDS)}. {_HINT}")
    make, values = getattr(Key, kind), dict[str, Any]()
    parameters = {name: each for name, each in signature(make).parameters.items() if each.kind is each.KEYWORD_ONLY}
    allowed = ", ".join(f"{each}=..." for each in parameters)
    for option in options:
        name, equals, value = (part.strip() for part in option.partition("="))
        if name not in parameters or name in values or not equals:
            raise ValueError(f"by: an option of {kind} ({option!r}) must be one of {allowed}, each once. {_HINT}")
        is_list = value.startswith("(") and value.endswith(")")
        values[name] = tuple(map(_read_value, _split(value[1:-1]))) if is_list else _read_value(value)
    if missing := [name for name, each in parameters.items() if each.default is each.empty and name not in values]:
        raise ValueError(f"by: {kind}({column}) must have {' and '.join(missing)}. Hint: {kind}({column}, {allowed})")
    try:
        made: Key = make(_read_name(column), **values)
    except TypeError as error:
        raise ValueError(f"by: {error}") from None
    return made


def _read_name(text: str) -> str:
    """A name or value, in quotes or without any mark."""
    if re.fullmatch(_QUOTED, text, re.VERBOSE):
        return text[1:-1]
    if not text or re.search("[\"'(),=]", text):
        raise ValueError(f"by: a name or value ({text!r}) must stand in quotes if it is empty or has marks. {_HINT}")
    return text


def _read_value(text: str) -> Any:
    """A number exactly as written, a date or time of ISO 8601, days (7d) or hours (6h); else the text."""
    if re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]{1,40}\.[0-9]{1,40}", text):
        return Decimal(text)
    if match := re.fullmatch(r"([1-9][0-9]{0,5})([dh])", text):
        return int(match[1]) * timedelta(**{{"d": "days", "h": "hours"}[match[2]]: 1})
    try:
        if re.match(r"[0-9]{4}-[0-9]{2}-", text):
            return datetime.fromisoformat(text) if len(text) > 10 else date.fromisoformat(text)
    except ValueError:
        pass
    return _read_name(text)
