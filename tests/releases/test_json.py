"""The JSON format: exact both ways, and clear about what is wrong."""

import copy
import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, OpenTree, Tree, TreeRelease, release_tree
from opendp_tree.planning import Curve
from opendp_tree.releases import PrivacyStatement
from opendp_tree.releases.json import read_labels, write_labels
from opendp_tree.trees.number_range import NumberRange
from tests.releases.test_frame import release_of

STATEMENT = PrivacyStatement("m", "d", 1, {"epsilon": math.inf}, {"a": -math.inf, "b": "inf", "c": None, "d": 2})


def again(release):
    return TreeRelease.from_json(release.to_json())


ODD = [None, True, -1, 2**62, 10**30, 1.5, 1e308, "x", [], {}, [[]], {"number": "inf"}, "-inf"]


def damage(data, parts):
    """Another value somewhere in nested objects and lists."""
    inner = parts
    while True:
        key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
        if not isinstance(inner[key], (dict, list)) or not inner[key] or data.draw(st.booleans()):
            inner[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
            return
        inner = inner[key]


@given(st.lists(st.floats() | st.floats(0, 1e6), min_size=3, max_size=3))
def test_numbers_come_back_to_the_last_bit(values):
    array = np.array(values)
    release = TreeRelease(Tree.from_parents([-1, 0, 0]), array, -array, array[::-1].copy(), 0.1 + 0.2, STATEMENT)
    back = again(release)
    for name in ("estimates", "lower", "upper"):
        ours, theirs = getattr(release, name), getattr(back, name)
        assert np.array_equal(ours, theirs, equal_nan=True)
        numbers = ~np.isnan(ours)
        assert ours[numbers].tobytes() == theirs[numbers].tobytes()  # -0.0 too
    assert back.confidence == 0.1 + 0.2
    assert back.statement == STATEMENT
    json.loads(release.to_json(), parse_constant=pytest.fail)


label = (
    st.text(max_size=3)
    | st.integers()
    | st.booleans()
    | st.none()
    | st.dates()
    | st.datetimes(timezones=st.sampled_from([None, timezone.utc, timezone(timedelta(minutes=-90))]))
)


@given(st.lists(label, min_size=1, max_size=6, unique_by=lambda x: (type(x), x)))
def test_public_labels_keep_their_types(labels):
    tree = Tree.from_paths([(label,) for label in labels], names=["key"])
    back = again(TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.5, statement=None)).tree
    assert back == tree
    assert back.names == ("key",)
    assert [(type(a), a) for a in back.labels] == [(type(a), a) for a in tree.labels]


SERIES = [
    pl.Series(["a", "é", '"', ""]),
    pl.Series([True, False]),
    *(pl.Series([1, 2], dtype=kind) for kind in (pl.Int8, pl.Int64, pl.UInt16, pl.UInt64, pl.Int128)),
    pl.Series([2**64 - 1], dtype=pl.UInt64),
    pl.Series([date(1969, 1, 1), date(2026, 1, 1), None]),
    pl.Series([1, 10**18 + 1]).cast(pl.Datetime("ns", "Europe/Berlin")),
    pl.Series([datetime(2026, 1, 1)]),
    pl.Series([1, 5]).cast(pl.Duration("ms")),
    pl.Series([1, 5]).cast(pl.Time),
]


@pytest.mark.parametrize("labels", SERIES, ids=lambda labels: str(labels.dtype))
def test_open_labels_keep_their_types(labels):
    release = release_of(OpenTree.columns(["key", "after"]), pl.DataFrame({"key": labels, "after": labels}))
    frame = again(release).to_frame()
    assert frame.schema["key"] == labels.dtype
    assert frame.equals(release.to_frame())


@given(st.lists(st.integers(0, 2**128 - 1), max_size=5), st.sampled_from([(128, 1), (128, 16), (100, 7), (65, 64)]))
def test_wide_prefixes_are_exact(keys, shape):
    width, stride = shape
    release = release_of(OpenTree.bits(width, stride), [key >> (128 - width) for key in keys])
    assert again(release).to_frame().equals(release.to_frame())


def test_what_is_outside_of_bits_comes_back():
    for keys in ([0, 3, 300, -1, None], [-1], [7]):
        release = release_of(OpenTree.bits(8, 4, outside=True), keys)
        back = again(release)
        assert back.to_frame().equals(release.to_frame())
        assert back.tree == release.tree
        assert back.nodes.outside == release.nodes.outside
    assert again(release_of(OpenTree.columns(["month"], ordered=True), [(1,)])).tree.ordered


PUBLIC = json.loads(
    TreeRelease(
        Tree.from_paths([("a", "x"), ("a", "y")]),
        *np.ones((3, 4)),
        confidence=0.5,
        statement=PrivacyStatement("m", "d", 1, {"epsilon": 1.0}, {"a": 1}),
        cells=np.ones(4, dtype=np.int64),
        shown=np.ones(4, dtype=np.bool_),
    ).to_json()
)
COLUMNS = json.loads(release_of(OpenTree.columns(2), [("a", "x"), ("b", "y")]).to_json())
BITS = json.loads(release_of(OpenTree.bits(8, 4), [0x12, 0x34]).to_json())
OUTSIDE = json.loads(release_of(OpenTree.bits(8, 4, outside=True), [0, -1]).to_json())
RANGES_TREE = NumberRange(0, 10, 5).tree(branching=2, outside=True)
RANGES_TEXT = json.loads(
    TreeRelease(RANGES_TREE, *np.ones((3, RANGES_TREE.node_count)), confidence=0.5, statement=None).to_json()
)


def wrong(parts, path, value):
    """The parts with another value at a path of keys; `del` leaves it out."""
    changed = copy.deepcopy(parts)
    *way, last = path
    inner = changed
    for step in way:
        inner = inner[step]
    if value == "del":
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text must be JSON"),
        ("[" * 100_000, "text must be JSON"),
        ('{"format": NaN}', "text must be JSON: NaN is not a JSON number"),
        ('{"format": ' + "1" * 5000 + "}", "text must be JSON"),
        ("[]", 'an object whose "format" is'),
        (wrong(PUBLIC, ["version"], 2), 'of "version" 2; this package reads version 1'),
        (wrong(PUBLIC, ["version"], True), 'of "version" True'),
        (wrong(PUBLIC, ["tree"], "del"), 'must have the field "tree"'),
        (wrong(PUBLIC, ["tree", "kind"], "hedge"), 'must have the field "depth"'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 0, 1, "1"]), '"parents" must hold integers'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 0, 1, 10**30]), '"parents" holds numbers that are too large'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 2, 1, 1]), "cycle"),
        (wrong(PUBLIC, ["tree", "parents"], []), "with 1 to 2"),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x"]), '"labels" must have one entry for each node'),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", "x"]), '"labels" of the children of a node must be'),
        (wrong(PUBLIC, ["tree", "labels"], ["r", "a", "x", "y"]), "null for the root"),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", 1.5]), '"labels" must be a text or an integer'),
        (
            wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", {"date": "today"}]),
            '"labels" must be a text or an integer',
        ),
        (wrong(PUBLIC, ["tree", "names"], ["one"]), r"names \(one\) must be 2"),
        (wrong(PUBLIC, ["tree", "names"], ["one", "level"]), "names: 'level' must not be one of"),
        (wrong(PUBLIC, ["tree", "names"], ["one", 5]), '"names" must be texts'),
        (wrong(PUBLIC, ["nodes"], {}), '"nodes" must be null'),
        (wrong(PUBLIC, ["estimates"], [1, 2, 3]), '"estimates" must hold 4 entries, one for each node; found 3'),
        (wrong(PUBLIC, ["lower"], [1, 2, 3, True]), '"lower" must hold numbers'),
        (wrong(PUBLIC, ["upper"], [1, 2, 3, 10**400]), '"upper" holds numbers that are too large'),
        (wrong(PUBLIC, ["cells"], [1, 2, 3, 4.0]), '"cells" must hold integers'),
        (wrong(PUBLIC, ["shown"], [1, 1, 1, 0]), '"shown" must hold true or false'),
        (wrong(PUBLIC, ["confidence"], 0), '"confidence" must be above 0'),
        (wrong(PUBLIC, ["confidence"], "high"), '"confidence" must be an integer or a number'),
        (wrong(PUBLIC, ["hidden"], "many"), '"hidden" must hold numbers'),
        (wrong(PUBLIC, ["hidden"], 10**400), '"hidden" must hold numbers'),
        (wrong(PUBLIC, ["confidence"], 10**400), '"confidence" must hold numbers'),
        (wrong(PUBLIC, ["statement", "counted"], "\ud800"), '"statement" must hold texts that can be written'),
        (wrong(PUBLIC, ["statement"], 5), '"statement" must be an object or null'),
        (wrong(PUBLIC, ["statement", "loss"], {"epsilon": "low"}), '"loss" must be an integer or a number'),
        (wrong(PUBLIC, ["statement", "loss"], {"epsilon": {"number": "low"}}), '"loss" must be an integer or a number'),
        (
            wrong(PUBLIC, ["statement", "parameters"], {"a": [1]}),
            '"parameters" must be an integer or a number or a text or null',
        ),
        (wrong(COLUMNS, ["tree", "depth"], 1), "must describe a valid open tree"),
        (wrong(COLUMNS, ["tree"], {**COLUMNS["tree"], "depth": 10**12, "names": []}), "describe a valid open tree"),
        (wrong(COLUMNS, ["tree", "separator"], "/"), "must describe a valid open tree"),
        (wrong(COLUMNS, ["nodes", "parents"], [0, 0, 0, 1, 2]), '"parents" must begin with -1 for the root'),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 0, 2, 1]), "and never decrease"),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 1, 2, 3]), "must not go deeper than the tree"),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 0, 0, 1]), "one label for each node of a level"),
        (wrong(COLUMNS, ["nodes", "labels"], []), '"labels" must hold 2 objects'),
        (wrong(COLUMNS, ["nodes", "labels", 0, "type"], "int8"), "labels of type 'int8' must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0, "type"], "word"), "'word' is not a known type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "int8", "values": [1, 999]}), "must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": 5, "values": [1, 2]}), "labels: 5 is not a known type"),
        (wrong(COLUMNS, ["nodes", "labels", 0, "values"], "ab"), "labels must have a list of values"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "int8", "values": [1, True]}), "must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "boolean", "values": [1, 0]}), "must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "date", "values": ["1970-01-01"]}), "must be of that type"),
        (wrong(OUTSIDE, ["nodes", "prefixes", 0], None), '"prefixes" may be null only for the last node of level 1'),
        (wrong(OUTSIDE, ["nodes", "prefixes", 2], "zz"), "hexadecimal digits"),
        (wrong(OUTSIDE, ["tree", "outside"], False), '"prefixes" may be null only'),
        (wrong(RANGES_TEXT, ["tree", "ranges"], 5), '"ranges" must be an object or null'),
        (wrong(RANGES_TEXT, ["tree", "ranges", "high"], 11), '"ranges" must be the ranges of the tree'),
        (wrong(RANGES_TEXT, ["tree", "ranges", "bins"], 2**19), '"ranges" must be the ranges of the tree'),
        (wrong(RANGES_TEXT, ["tree", "ranges", "low"], "0"), '"low" must be an integer or a number or {'),
        (
            wrong(RANGES_TEXT, ["tree", "ranges", "low"], {"number": "1e999999999"}),
            '"low" must be an integer or a number or {',
        ),
        (wrong(RANGES_TEXT, ["tree", "ranges", "low"], {"number": "1/0"}), '"low" must be an integer or a number or {'),
        (wrong(RANGES_TEXT, ["tree", "ranges", "low"], {"date": "2024-01-01"}), '"ranges": low and high must be two'),
        (wrong(COLUMNS, ["nodes", "labels", 0, "values"], ["a", "\ud800"]), "must be of that type"),
        (
            wrong(
                COLUMNS, ["nodes", "labels", 0], {"type": "datetime", "unit": "ns", "zone": "Moon", "values": [1, 2]}
            ),
            "and 'Moon' a known time zone",
        ),
        (wrong(BITS, ["tree", "stride"], 0), "must describe a valid open tree"),
        (wrong(BITS, ["tree", "width"], 129), "must describe a valid open tree"),
        (wrong(BITS, ["tree", "shown_as"], "ipv4"), r"width \(8\) must be 32 to be shown as ipv4"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12"]), "one number of 8 bits for each node"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "x"]), "hexadecimal digits"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "134"]), "one number of 8 bits for each node"),
        (
            wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "44"]),
            "must begin with the prefix of their parent",
        ),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "11", "30", "12", "34"]), "0 beyond their own bits"),
    ],
    ids=lambda part: part if len(part) < 80 else part[:20] + "...",
)
def test_errors_name_what_is_wrong(text, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TreeRelease.from_json(text)


def test_texts_are_read_and_other_objects_and_labels_refused():
    assert TreeRelease.from_json(json.dumps(PUBLIC).encode()).estimates.tolist() == [1.0] * 4
    with pytest.raises(TypeError, match=r"text \(dict\) must be a JSON text"):
        TreeRelease.from_json({})
    tree = Tree.from_paths([(type("Word", (str,), {})("a"),)])
    with pytest.raises(TypeError, match="labels of type Word cannot be written"):
        TreeRelease(tree, *np.ones((3, 2)), confidence=0.5, statement=None).to_json()


def test_texts_of_earlier_versions_are_read():
    for parts in (PUBLIC, COLUMNS, BITS):
        earlier = {name: value for name, value in parts.items() if name not in ("line", "values")}
        left = ("ordered", "ranges", "outside")
        earlier["tree"] = {name: value for name, value in parts["tree"].items() if name not in left}
        assert json.loads(TreeRelease.from_json(json.dumps(earlier)).to_json()) == parts


@given(st.data())
def test_no_damaged_text_raises_anything_but_a_clear_error(data):
    """Other values anywhere: a release that can be shown, or a ValueError or TypeError."""
    lines = [curve_parts("dates"), curve_parts("groups")]
    parts = copy.deepcopy(data.draw(st.sampled_from([PUBLIC, COLUMNS, BITS, *lines])))
    for _ in range(data.draw(st.integers(1, 2))):
        inside = isinstance(parts.get("line"), dict) and data.draw(st.booleans())
        damage(data, parts["line"] if inside else parts)
    try:
        release = TreeRelease.from_json(json.dumps(parts))
        if release.curve is not None or release.curves is not None:
            release.quantiles(SHARES)
            release.cdf()
    except (ValueError, TypeError):
        return
    release.to_frame()
    release.describe()


@pytest.mark.parametrize(
    ("labels", "written"),
    [
        (pl.Series(["a", None]), {"type": "text", "values": ["a", None]}),
        (pl.Series([True]), {"type": "boolean", "values": [True]}),
        (pl.Series([1], dtype=pl.UInt8), {"type": "uint8", "values": [1]}),
        (pl.Series([date(1970, 1, 2)]), {"type": "date", "values": [1]}),
        (
            pl.Series([7]).cast(pl.Datetime("ms", "UTC")),
            {"type": "datetime", "unit": "ms", "zone": "UTC", "values": [7]},
        ),
        (pl.Series([7]).cast(pl.Duration("us")), {"type": "duration", "unit": "us", "values": [7]}),
        (pl.Series([7]).cast(pl.Time), {"type": "time", "values": [7]}),
    ],
)
def test_each_type_has_its_text(labels, written):
    assert write_labels(labels) == written
    assert read_labels(written).equals(labels, check_dtypes=True)


RANGES = [
    NumberRange(0, 10, 5),
    NumberRange(-(2**100), 2**101, 1),
    NumberRange(0.1, 0.7, 33),
    NumberRange(Decimal("0.25"), Fraction(1, 3), 7),
    NumberRange(date(2024, 1, 1), date(2025, 1, 1), 12),
    NumberRange(datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 6), 4),
]


@pytest.mark.parametrize("ranges", RANGES, ids=str)
@pytest.mark.parametrize("branching", [2, 3, 16])
@pytest.mark.parametrize("outside", [True, False])
def test_ranges_come_back_with_their_ends(ranges, branching, outside):
    tree = ranges.tree(branching=branching, outside=outside, name="value")
    release = TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.5, statement=None)
    back = again(release)
    assert back.tree == tree
    assert back.tree.ordered
    assert back.tree.ranges.exact_edges == ranges.exact_edges
    assert back.to_frame().equals(release.to_frame())
    assert back.to_json() == release.to_json()


SHARES = [0.0, 0.1, 0.5, 0.9, 1.0]
RNG = np.random.default_rng(0)
PEOPLE = pl.DataFrame(
    {
        "age": RNG.uniform(0, 100, 4000),
        "day": np.datetime64("2024-01-01") + RNG.integers(0, 28, 4000).astype("m8[D]"),
        "time": np.datetime64("2024-01-01", "us") + RNG.integers(0, 10**11, 4000).astype("m8[us]"),
        "kind": np.where(RNG.random(4000) < 0.5, "a", "b"),
    }
)
AGE = Key.number("age", low=0, high=100, bins=50)
DAY = Key.number("day", low=date(2024, 1, 1), high=date(2024, 1, 29), bins=28)
TIME = Key.number("time", low=datetime(2024, 1, 1), high=datetime(2024, 1, 3), bins=48)
CASES = {
    "few bins": (AGE, {}, (20, 33.5)),
    "segments": (Key.number("age", low=0, high=100, bins=5000), {}, (20, 33.5)),
    "dates": (DAY, {}, (date(2024, 1, 3), date(2024, 1, 9))),
    "times": (TIME, {}, (datetime(2024, 1, 1, 3), datetime(2024, 1, 2))),
    "groups": (Key.nested(Key.columns("kind"), AGE), {"delta": 1e-6, "method": Curve()}, (20, 33.5)),
    "groups of dates": (
        Key.nested(Key.columns("kind"), DAY),
        {"delta": 1e-6, "method": Curve()},
        DAY.tree.ranges.edges[:2],
    ),
}


@cache
def line_release(name):
    by, more, _ = CASES[name]
    return release_tree(PEOPLE, by=by, epsilon=2.0, **more)


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_off_a_line_comes_back(name):
    release, between = line_release(name), CASES[name][2]
    again = TreeRelease.from_json(release.to_json())
    assert release.quantiles(SHARES).height >= len(SHARES)
    assert again.quantiles(SHARES).equals(release.quantiles(SHARES))
    assert again.cdf().equals(release.cdf())
    assert again.between(*between).equals(release.between(*between))
    assert again.quantiles(SHARES).schema == release.quantiles(SHARES).schema
    assert again.to_json() == release.to_json()


def test_groups_of_which_none_is_shown_come_back():
    release = release_tree(PEOPLE.head(2), by=CASES["groups"][0], epsilon=0.01, delta=1e-9, method=Curve())
    assert release.curves == {}
    assert TreeRelease.from_json(release.to_json()).curves == {}


def curve_parts(name="few bins"):
    return json.loads(line_release(name).to_json())


@pytest.mark.parametrize(
    ("name", "path", "value", "message"),
    [
        ("few bins", ["line"], 5, '"line" must be an object or null'),
        ("few bins", ["line", "edges", "type"], "text", '"type" of "edges" must be one of number, date, datetime'),
        ("few bins", ["line", "edges", "type"], "date", '"values" must hold integers'),
        ("few bins", ["line", "edges", "values", 3], "inf", '"edges" must be finite numbers that never decrease'),
        ("few bins", ["line", "edges", "values", 3], 0.5, '"edges" must be finite numbers that never decrease'),
        ("dates", ["line", "edges", "values", 0], -719_163, "dates of the years 1 to 9999"),
        ("dates", ["line", "edges", "values", -1], 2_932_897, "dates of the years 1 to 9999"),
        ("few bins", ["line", "edges", "values"], [], '"cuts" must increase'),
        ("few bins", ["line", "curves"], [5], '"curves" must hold objects'),
        ("few bins", ["line", "curves"], [], "must have a tree whose nodes are labels"),
        ("few bins", ["line", "curves", 0, "cuts", 1], 0, '"cuts" must increase from 0 to the number of bins, 50'),
        ("few bins", ["line", "curves", 0, "cuts", -1], 51, '"cuts" must increase'),
        ("few bins", ["line", "curves", 0, "sizes", 0], 2, '"sizes" must increase from 1 to the number of segments'),
        ("few bins", ["line", "curves", 0, "sizes", -1], 10**18, '"sizes" must increase'),
        ("few bins", ["line", "curves", 0, "scales", 0], 0.0, '"scales" must be from'),
        ("few bins", ["line", "curves", 0, "scales"], [1.0], '"scales" must hold'),
        ("few bins", ["line", "curves", 0, "noisy"], [1], '"noisy" must hold one count for each node'),
        ("few bins", ["line", "curves", 0, "confidence"], 1.0, '"confidence" of a curve'),
        ("groups", ["line", "curves", 0, "node"], 10**6, '"node" must be'),
        ("groups", ["line", "curves", 0, "node"], -1, '"node" must be'),
        ("groups", ["line", "curves", 0, "node"], None, '"node" must be'),
        ("groups", ["line", "curves", 0, "node"], 2, '"node" must be'),
    ],
    ids=str,
)
def test_what_is_no_curve_is_refused(name, path, value, message):
    with pytest.raises(ValueError, match=message):
        TreeRelease.from_json(wrong(curve_parts(name), path, value))
