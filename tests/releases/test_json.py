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
from opendp_tree.releases.json import read_labels, read_tree, write_labels, write_tree
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


def test_how_prefixes_are_shown_comes_back():
    release = release_of(OpenTree.bits(32, 8, shown_as="ipv4"), [10 << 24])
    assert again(release).to_frame()["prefix"].to_list()[1] == "10.0.0.0/8"
    paths = release_of(OpenTree.paths("/", depth=3), ["a/b"])
    assert again(paths).to_frame().equals(paths.to_frame())


def test_what_is_outside_of_bits_comes_back():
    for keys in ([0, 3, 300, -1, None], [-1], [7]):
        release = release_of(OpenTree.bits(8, 4, outside=True), keys)
        back = again(release)
        assert back.to_frame().equals(release.to_frame())
        assert back.tree == release.tree
        assert back.nodes.outside == release.nodes.outside
    assert again(release_of(OpenTree.columns(["month"], ordered=True), [(1,)])).tree.ordered


@pytest.mark.parametrize(
    ("keys", "change"),
    [
        ([0, 16], lambda parts: parts["nodes"]["prefixes"].__setitem__(1, None)),  # not the last below the root
        ([0, 16], lambda parts: parts["nodes"]["prefixes"].__setitem__(2, None)),  # has a node below it
        ([0, -1], lambda parts: parts["tree"].__setitem__("outside", False)),
        ([0, -1], lambda parts: parts["tree"].__setitem__("outside", 1)),
        ([0, -1], lambda parts: parts["nodes"]["prefixes"].__setitem__(0, None)),
    ],
)
def test_what_cannot_be_outside_is_refused(keys, change):
    parts = json.loads(release_of(OpenTree.bits(8, 4, outside=True), keys).to_json())
    change(parts)
    with pytest.raises(ValueError, match=r"prefixes|outside"):
        TreeRelease.from_json(json.dumps(parts))


def test_labels_that_have_no_text_are_refused():
    class Word(str):
        __slots__ = ()

    tree = Tree.from_paths([(Word("a"),)])
    with pytest.raises(TypeError, match="labels of type Word cannot be written"):
        TreeRelease(tree, *np.ones((3, 2)), confidence=0.5, statement=None).to_json()


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
        ("{", "text must be JSON"),
        ("[" * 100_000, "text must be JSON"),
        ('{"format": NaN}', "text must be JSON: NaN is not a JSON number"),
        ('{"format": ' + "1" * 5000 + "}", "text must be JSON"),
        ("[]", 'an object whose "format" is'),
        ("{}", 'an object whose "format" is'),
        (wrong(PUBLIC, ["version"], 2), 'of "version" 2; this package reads version 1'),
        (wrong(PUBLIC, ["version"], True), 'of "version" True'),
        (wrong(PUBLIC, ["tree"], "del"), 'must have the field "tree"'),
        (wrong(PUBLIC, ["tree"], []), '"tree" must be an object'),
        (wrong(PUBLIC, ["tree", "kind"], "hedge"), 'must have the field "depth"'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 0, 1, "1"]), '"parents" must hold integers'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 0, 1, 10**30]), '"parents" holds numbers that are too large'),
        (wrong(PUBLIC, ["tree", "parents"], [-1, 2, 1, 1]), "cycle"),
        (wrong(PUBLIC, ["tree", "parents"], []), "at least one node"),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x"]), '"labels" must have one entry for each node'),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", "x"]), '"labels" of the children of a node must be'),
        (wrong(PUBLIC, ["tree", "labels"], ["r", "a", "x", "y"]), "null for the root"),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", 1.5]), '"labels" must be texts, integers'),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", {"date": "today"}]), '"labels" must be texts, integers'),
        (wrong(PUBLIC, ["tree", "labels"], [None, "a", "x", {"date": 5}]), '"labels" must be texts, integers'),
        (wrong(PUBLIC, ["tree", "names"], ["one"]), r"names \(one\) must be 2"),
        (wrong(PUBLIC, ["tree", "names"], ["one", "level"]), "names: 'level' must not be one of"),
        (wrong(PUBLIC, ["tree", "names"], ["one", 5]), '"names" must be texts'),
        (wrong(PUBLIC, ["nodes"], {}), '"nodes" must be null'),
        (wrong(PUBLIC, ["estimates"], [1, 2, 3]), '"estimates" must hold 4 entries, one for each node; found 3'),
        (wrong(PUBLIC, ["estimates"], None), '"estimates" must be a list'),
        (wrong(PUBLIC, ["lower"], [1, 2, 3, True]), '"lower" must hold numbers'),
        (wrong(PUBLIC, ["lower"], [1, 2, 3, "many"]), '"lower" must hold numbers'),
        (wrong(PUBLIC, ["upper"], [1, 2, 3, None]), '"upper" must hold numbers'),
        (wrong(PUBLIC, ["upper"], [1, 2, 3, 10**400]), '"upper" holds numbers that are too large'),
        (wrong(PUBLIC, ["cells"], [1, 2, 3, 4.0]), '"cells" must hold integers'),
        (wrong(PUBLIC, ["shown"], [1, 1, 1, 0]), '"shown" must hold true or false'),
        (wrong(PUBLIC, ["confidence"], 0), '"confidence" must be above 0'),
        (wrong(PUBLIC, ["confidence"], "high"), '"confidence" must be an integer or a number'),
        (wrong(PUBLIC, ["hidden"], "many"), '"hidden" must hold numbers'),
        (wrong(PUBLIC, ["statement"], 5), '"statement" must be an object or null'),
        (wrong(PUBLIC, ["statement", "mechanism"], 5), '"mechanism" must be a text'),
        (wrong(PUBLIC, ["statement", "loss"], {"epsilon": "low"}), '"loss" must hold non-negative'),
        (wrong(PUBLIC, ["statement", "loss"], {"epsilon": {"number": "low"}}), '"loss" must hold numbers'),
        (wrong(PUBLIC, ["statement", "parameters"], {"a": [1]}), '"parameters" must hold numbers, texts and nulls'),
        (wrong(PUBLIC, ["statement", "d_in"], 1.5), '"d_in" must be an integer'),
        (wrong(COLUMNS, ["nodes"], None), '"nodes" must be an object'),
        (wrong(COLUMNS, ["tree", "depth"], 1), "must describe a valid open tree"),
        (wrong(COLUMNS, ["tree"], {**COLUMNS["tree"], "depth": 10**12, "names": []}), "describe a valid open tree"),
        (wrong(COLUMNS, ["tree", "separator"], "/"), "must describe a valid open tree"),
        (wrong(COLUMNS, ["nodes", "parents"], [0, 0, 0, 1, 2]), '"parents" must begin with -1 for the root'),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 0, 2, 1]), "and never decrease"),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, -1, 0, 1, 2]), "and never decrease"),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 1, 2, 3]), "must not go deeper than the tree"),
        (wrong(COLUMNS, ["nodes", "parents"], [-1, 0, 0, 0, 1]), "one label for each node of a level"),
        (wrong(COLUMNS, ["nodes", "labels"], []), '"labels" must hold 2 objects'),
        (wrong(COLUMNS, ["nodes", "labels", 0, "type"], "int8"), "labels of type 'int8' must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0, "type"], "word"), "labels of type 'word' must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "word", "values": [1, 2]}), "'word' is not a known type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": "int8", "values": [1, 999]}), "must be of that type"),
        (wrong(COLUMNS, ["nodes", "labels", 0], {"type": 5, "values": [1, 2]}), "labels must have a type"),
        (wrong(COLUMNS, ["nodes", "labels", 0, "values"], "ab"), "labels must have a list of values"),
        (wrong(COLUMNS, ["nodes", "labels", 0, "values"], ["a", "\ud800"]), "must be of that type"),
        (
            wrong(
                COLUMNS, ["nodes", "labels", 0], {"type": "datetime", "unit": "ns", "zone": "Moon", "values": [1, 2]}
            ),
            "'Moon' is not a known time zone",
        ),
        (wrong(BITS, ["tree", "stride"], 0), "must describe a valid open tree"),
        (wrong(BITS, ["tree", "width"], 129), "must describe a valid open tree"),
        (wrong(BITS, ["tree", "shown_as"], "ipv4"), r"width \(8\) must be 32 to be shown as ipv4"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12"]), "one number of 8 bits for each node"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "x"]), "hexadecimal digits"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", 5]), "hexadecimal digits"),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "134"]), "one number of 8 bits for each node"),
        (
            wrong(BITS, ["nodes", "prefixes"], ["0", "10", "30", "12", "44"]),
            "must begin with the prefix of their parent",
        ),
        (wrong(BITS, ["nodes", "prefixes"], ["0", "11", "30", "12", "34"]), "0 beyond their own bits"),
    ],
    ids=lambda part: part if len(part) < 80 else part[:20] + "...",
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TreeRelease.from_json(text)


def test_text_is_asked_for():
    with pytest.raises(TypeError, match=r"text \(dict\) must be a JSON text"):
        TreeRelease.from_json({})
    assert TreeRelease.from_json(json.dumps(PUBLIC).encode()).estimates.tolist() == [1.0] * 4


@given(st.data())
def test_no_damaged_text_raises_anything_but_a_clear_error(data):
    """Cut, doubled and exchanged pieces, and other values anywhere: a release, or a ValueError or TypeError."""
    parts = copy.deepcopy(data.draw(st.sampled_from([PUBLIC, COLUMNS, BITS])))
    for _ in range(data.draw(st.integers(1, 2))):
        damage(data, parts)
    try:
        release = TreeRelease.from_json(json.dumps(parts))
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


def test_values_are_not_bent_into_a_type():
    for kind, value in (
        ("int8", True),
        ("int8", 300),
        ("text", 5),
        ("boolean", 1),
        ("date", "1970-01-01"),
        ("uint8", -1),
    ):
        with pytest.raises(ValueError, match=f"labels of type '{kind}' must be of that type"):
            read_labels({"type": kind, "values": [value]})


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


@pytest.mark.parametrize(
    "ranges",
    [
        5,
        {"low": 0, "high": 10},
        {"low": 0, "high": 11, "bins": 5},
        {"low": 0, "high": 10, "bins": 4},
        {"low": 0, "high": 10, "bins": 2**19},
        {"low": "0", "high": 10, "bins": 5},
        {"low": {"number": "1e999999999"}, "high": 10, "bins": 5},
        {"low": {"number": "1/0"}, "high": 10, "bins": 5},
        {"low": {"date": "2024-01-01"}, "high": 10, "bins": 5},
    ],
)
def test_ranges_of_another_tree_are_refused(ranges):
    tree = NumberRange(0, 10, 5).tree(branching=2, outside=True)
    parts = json.loads(TreeRelease(tree, *np.ones((3, tree.node_count)), confidence=0.5, statement=None).to_json())
    parts["tree"]["ranges"] = ranges
    with pytest.raises(ValueError, match=r"ranges|low|bins"):
        TreeRelease.from_json(json.dumps(parts))


def test_trees_of_earlier_texts_are_read():
    for tree in (Tree.from_paths([("a", 1), ("b",)], names=["one", "two"]), OpenTree.bits(8, 2), OpenTree.columns(2)):
        written = write_tree(tree)
        assert read_tree(written) == tree
        earlier = {name: value for name, value in written.items() if name not in ("ordered", "ranges", "outside")}
        assert read_tree(earlier) == tree


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


def test_texts_without_lines_are_read():
    parts = json.loads(line_release("few bins").to_json())
    del parts["line"]
    with pytest.raises(ValueError, match="quantiles requires a release over the bins of a line"):
        TreeRelease.from_json(json.dumps(parts)).quantiles([0.5])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([], 5, '"line" must be an object or null'),
        (["edges"], [], '"edges" must be an object'),
        (["edges", "type"], "text", '"type" of "edges" must be one of number, date, datetime'),
        (["edges", "type"], "date", '"values" must hold integers'),
        (["edges", "values", 3], "inf", '"edges" must be finite numbers that never decrease'),
        (["edges", "values", 3], 0.5, '"edges" must be finite numbers that never decrease'),
        (["curves"], [5], '"curves" must hold objects'),
        (["curves"], [], "must have a tree whose nodes are labels"),
        (["curves", 0, "cuts", 1], 0, '"cuts" must increase from 0 to the number of bins, 50'),
        (["curves", 0, "cuts", -1], 51, '"cuts" must increase'),
        (["curves", 0, "sizes", 0], 2, '"sizes" must increase from 1 to the number of segments, 50'),
        (["curves", 0, "sizes", -1], 10**18, '"sizes" must increase'),
        (["curves", 0, "scales", 0], 0.0, '"scales" must be from'),
        (["curves", 0, "scales"], [1.0], '"scales" must hold'),
        (["curves", 0, "noisy"], [1], '"noisy" must hold one count for each node'),
        (["curves", 0, "confidence"], 1.0, '"confidence" of a curve'),
    ],
    ids=str,
)
def test_what_is_no_curve_is_refused(path, value, message):
    parts = json.loads(line_release("few bins").to_json())
    inner, last = parts, "line"
    for key in path:
        inner, last = inner[last], key
    inner[last] = value
    with pytest.raises(ValueError, match=message):
        TreeRelease.from_json(json.dumps(parts))


@pytest.mark.parametrize("node", [10**6, -1, None, 1])
def test_curves_of_no_group_or_of_one_twice_are_refused(node):
    parts = json.loads(line_release("groups").to_json())
    first, second = parts["line"]["curves"]
    first["node"], second["node"] = node, 1
    with pytest.raises(ValueError, match='"node" must be'):
        TreeRelease.from_json(json.dumps(parts))


@given(st.data())
def test_no_damaged_line_raises_anything_but_a_clear_error(data):
    """Other values anywhere: a release whose quantiles can be read, or a ValueError or TypeError."""
    parts = json.loads(line_release(data.draw(st.sampled_from(["dates", "groups"]))).to_json())
    damage(data, parts["line"])
    try:
        release = TreeRelease.from_json(json.dumps(parts))
        release.quantiles(SHARES)
        release.cdf()
    except (ValueError, TypeError):
        return
