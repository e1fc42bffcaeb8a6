"""Texts that were JSON, changed a little: in their structure, or letter by letter."""

import copy
import json

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

HOSTILE = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 2, 2**31, 2**63, 2**64, 10**400, -(10**400), 10**4000, 0.5, -0.0, 1e308, 5e-324),
        *(float("nan"), float("inf"), "", "a", "\ud800", "\0", "a" * 5000, "nan", "1e999999999", "0x1", "-1", "=1+1"),
        *([], {}, [[]], [None], [0] * 50, ["\ud800"]),
        *({"number": "nan"}, {"date": "9999-99-99"}, {"\ud800": 1}, {"": ""}),
        *({"type": "int8", "values": [300]}, {"type": "datetime", "unit": "ns", "zone": "\0", "values": [2**63]}),
        *("public", "columns", "bits", "paths", "text", "int128", "datetime", "Europe/Brussels", "ipv6", "level"),
    ]
).map(copy.deepcopy)
LETTERS = st.sampled_from(
    [*'{}[]",:0-9eE.', "\\", "\n", "\ud800", "\\ud800", "\0", "é", "null", "NaN", "1e999", "[" * 3000]
)


def places(value, here=()):
    """The way to each part of a JSON value."""
    yield here
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from places(part, (*here, name))


@st.composite
def structures(draw, values):
    """A JSON value of which up to three parts are replaced, left out, or there twice."""
    value = copy.deepcopy(draw(st.sampled_from(values)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(places(value))))
        if not place:
            continue
        *way, last = place
        holder = value
        for step in way:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "replace", "drop", "double"])):
            case "replace":
                holder[last] = draw(HOSTILE)
            case "drop":
                del holder[last]
            case "double" if isinstance(holder, list):
                holder.insert(last, copy.deepcopy(holder[last]))
            case _:
                holder[draw(st.text(max_size=3)) if isinstance(holder, dict) else last] = draw(HOSTILE)
    return value


@st.composite
def letters(draw, texts):
    """A text of which up to four pieces are cut out, or have others in their place."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 4)))
        text = text[:start] + draw(LETTERS | st.just("")) + text[end:]
    return text


def as_json(value):
    """JSON, with what Python writes beyond it: NaN, Infinity and integers of any length."""
    return json.dumps(value)


def run(check, strategy, *, seed_number, cases):
    """Try `check` on that many examples, and give how many there were. A failing one is shrunk, and printed."""
    tried = 0

    @seed(seed_number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(strategy)
    def each(example):
        nonlocal tried
        tried += 1
        check(example)

    each()
    return tried
