"""Keys written as text, in the words of Key's own constructors: `country, ip(address, version=6)`."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from opendp_tree.keys.key import Key

_OPTIONS = {
    "path": ("separator", "depth"),
    "url": ("depth",),
    "bits": ("width", "stride"),
    "ip": ("version", "stride"),
    "calendar": ("levels",),
    "number": ("low", "high", "bins", "width", "branching", "outside"),
}
_TOKEN = re.compile(r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<mark>[(),=])|(?P<plain>[^"'(),=]+))""")
_HINT = "Hint: country, ip(address, version=6); a name with any of ,()='\" stands in quotes"


def read_key(text: str) -> Key:
    """The key that a text describes: columns from the coarsest, and at most one run of other kinds below them."""
    reader = _Reader(text)
    parts = [reader.part()]
    while reader.takes(","):
        parts.append(reader.part())
    if reader.tokens:
        raise reader.error("a comma")
    columns = [part for part in parts if isinstance(part, str)]
    keys = [part for part in parts if isinstance(part, Key)]
    if columns and parts[: len(columns)] != columns:
        raise ValueError(f"by ({text!r}) must name columns before other kinds of keys. {_HINT}")
    if columns:
        keys.insert(0, Key.columns(*columns))
    return keys[0] if len(keys) == 1 else Key.nested(*keys)


class _Reader:
    """The tokens of a text, from the first: a mark, or a name or value with whether it stood in quotes."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, end = text, list[tuple[str, bool]](), 0
        while match := _TOKEN.match(text, end):
            end, quoted = match.end(), match["quoted"]
            word = match[0].strip() if quoted is None else quoted[1:-1]
            if word or quoted is not None:
                self.tokens.append((word, quoted is not None))
        if text[end:].strip():
            raise ValueError(f"by ({text!r}) must close each quote. {_HINT}")

    def error(self, expected: str) -> ValueError:
        """What is wrong at the next token."""
        given = repr(self.tokens[0][0]) if self.tokens else "its end"
        return ValueError(f"by ({self.text!r}) must have {expected} where it has {given}. {_HINT}")

    def takes(self, mark: str) -> bool:
        """Whether a mark is next, which is then taken."""
        if self.tokens[:1] != [(mark, False)]:
            return False
        del self.tokens[0]
        return True

    def word(self, expected: str) -> tuple[str, bool]:
        """The next name or value."""
        if not self.tokens or (self.tokens[0][0] in "(),=" and not self.tokens[0][1]):
            raise self.error(expected)
        return self.tokens.pop(0)

    def part(self) -> str | Key:
        """A column's name, or a key."""
        name, quoted = self.word("a column's name")
        if quoted or not self.takes("("):
            return name
        if name not in _OPTIONS:
            raise ValueError(f"by: a kind of key ({name!r}) must be one of {', '.join(_OPTIONS)}. {_HINT}")
        column, options = self.word("a column's name")[0], dict[str, Any]()
        while self.takes(","):
            option = self.word("an option's name")[0]
            if option not in _OPTIONS[name] or option in options:
                allowed = ", ".join(_OPTIONS[name])
                raise ValueError(f"by: an option of {name} ({option!r}) must be one of {allowed}, each once. {_HINT}")
            if not self.takes("="):
                raise self.error("=")
            options[option] = self.value()
        if not self.takes(")"):
            raise self.error(")")
        try:
            made: Key = getattr(Key, name)(column, **options)
        except TypeError as error:
            needed = f"{name}({column}, {', '.join(f'{option}=...' for option in _OPTIONS[name])})"
            raise ValueError(f"by: {str(error).replace('Key.', '')}. Hint: {needed}") from None
        return made

    def value(self) -> Any:
        """A value, or several in parentheses."""
        if not self.takes("("):
            word, quoted = self.word("a value")
            return word if quoted else _value(word)
        values = [self.value()]
        while self.takes(","):
            values.append(self.value())
        if not self.takes(")"):
            raise self.error(")")
        return tuple(values)


def _value(word: str) -> Any:
    """A number exactly as written, a date or time of ISO 8601, days (7d) or hours (6h); else the text."""
    if re.fullmatch(r"[+-]?[0-9]{1,40}", word):
        return int(word)
    if re.fullmatch(r"[+-]?[0-9]{1,40}\.[0-9]{1,40}", word):
        return Decimal(word)
    if match := re.fullmatch(r"([1-9][0-9]{0,5})([dh])", word):
        return int(match[1]) * timedelta(**{{"d": "days", "h": "hours"}[match[2]]: 1})
    try:
        if re.match(r"[0-9]{4}-[0-9]{2}-", word):
            return datetime.fromisoformat(word) if len(word) > 10 else date.fromisoformat(word)
    except ValueError:
        pass
    return word
