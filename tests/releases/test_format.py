"""The JSON format: exact both ways, and clear about what is wrong."""

import copy
import json
import math
from datetime import date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, TreeRelease
from opendp_tree.releases import PrivacyStatement
from tests.releases.test_frame import release_of

STATEMENT = PrivacyStatement("m", "d", 1, {"epsilon": math.inf}, {"a": -math.inf, "b": "inf", "c": None, "d": 2})


def again(release):
    return TreeRelease.from_json(release.to_json())


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
    odd = st.sampled_from([None, True, -1, 10**30, 1.5, "x", [], {}, [[]], {"number": "inf"}, "-inf"])
    for _ in range(data.draw(st.integers(1, 2))):
        inner, last = parts, None
        while isinstance(inner, (dict, list)) and inner:
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            last = inner, data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()):
                break
            inner = inner[last[1]]
        last[0][last[1]] = data.draw(odd)
    try:
        release = TreeRelease.from_json(json.dumps(parts))
    except (ValueError, TypeError):
        return
    release.to_frame()
    release.describe()
