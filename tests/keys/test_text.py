from datetime import date, timedelta
from decimal import Decimal

import pytest

from opendp_tree import Key
from opendp_tree.keys.text import read_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("country", Key.columns("country")),
        (" country ,big city", Key.columns("country", "big city")),
        ("\"a, b\", 'c(d)'", Key.columns("a, b", "c(d)")),
        ("ip(address, version=6)", Key.ip("address", version=6)),
        ("ip(address, version=both)", Key.ip("address", version="both")),
        ("country, ip(address)", Key.nested(Key.columns("country"), Key.ip("address"))),
        ("a, b, url(page, depth=3)", Key.nested(Key.columns("a", "b"), Key.url("page", depth=3))),
        ("path(file, separator='.', depth=3)", Key.path("file", separator=".", depth=3)),
        ("path(file, separator=/, depth=3)", Key.path("file", depth=3)),
        ("bits(n, width=40, stride=7)", Key.bits("n", width=40, stride=7)),
        ("calendar(day, levels=(year, week))", Key.calendar("day", levels=("year", "week"))),
        ("calendar(day, levels='year')", Key.calendar("day", levels="year")),
        ("number(n, low=-1, high=10.5, bins=4)", Key.number("n", low=-1, high=Decimal("10.5"), bins=4)),
        (
            "number(d, low=2024-01-01, high=2024-01-15, width=7d, branching=2, outside=ends)",
            Key.number(
                "d", low=date(2024, 1, 1), high=date(2024, 1, 15), width=timedelta(days=7), branching=2, outside="ends"
            ),
        ),
        (
            "calendar(a, levels=year), calendar(b, levels=year)",
            Key.nested(Key.calendar("a", levels="year"), Key.calendar("b", levels="year")),
        ),
    ],
)
def test_a_key_is_what_its_text_says(text, key):
    assert read_key(text) == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a name or value \(''\) must stand in quotes .* Hint"),
        ("a,,b", r"a name or value \(''\) must stand in quotes .* Hint"),
        ("a,a", "must differ"),
        ("ip(address", "must close each parenthesis. Hint"),
        ("ip(address))", "must .* open each parenthesis that it closes. Hint"),
        ("ip(address, versoin=6)", r"an option of ip \('versoin=6'\) must be one of version=.* Hint"),
        ("ip(address, stride=8, stride=9)", "each once"),
        ("ip(address, stride 8)", r"an option of ip \('stride 8'\)"),
        ("ip(address, stride)", r"an option of ip \('stride'\) must be one of version=.* Hint"),
        ("ip(address, version=)", r"a name or value \(''\) must stand in quotes .* Hint"),
        ("nest(address)", r"a kind of key \('nest'\) must be one of path, url, bits, ip, calendar, number. Hint"),
        ("'a", "must close each quote, .* Hint"),
        ("ip(address), country", "must name columns before other kinds of keys. Hint"),
        ("number(n)", r"must have low and high. Hint: number\(n, low=\.\.\., high="),
        ("ip(address, version=x)", r"version \('x'\) must be 4, 6 or 'both'"),
        ("number(n, low=1_0, high=20, bins=2)", r"low .* must be"),
    ],
)
def test_a_text_that_is_no_key_is_refused_with_a_hint(text, message):
    with pytest.raises(ValueError, match=message):
        read_key(text)
