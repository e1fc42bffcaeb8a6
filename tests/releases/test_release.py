import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import (
    OpenTree,
    Tree,
    TreeRelease,
    leaf_domain,
    make_tree_estimator,
    make_tree_gaussian,
    make_tree_laplace,
)
from opendp_tree.mechanisms import make_pruned_descent, range_counts
from opendp_tree.releases import PrivacyStatement
from opendp_tree.releases.values import NodeValues
from opendp_tree.releases.writing import frame_bytes
from opendp_tree.trees.nodes import ShownNodes
from tests.thoroughness import examples

L1 = dp.l1_distance(T="i64")
STATEMENT = PrivacyStatement("none", "max_divergence()", 1, {"epsilon": 1.0}, {"scale": 2.0, "people": None})


AMOUNT = NodeValues("amount", 0.0, 5.0, np.ones(4), *np.ones((5, 3)))


def test_frames_of_public_trees():
    labelled = Tree.from_paths([("a", "x"), (2,)])
    three = np.array([3.0, 2.0, 2.0, 1.0])
    frame = TreeRelease(labelled, three, three - 1, three + 1, 0.9, STATEMENT).to_frame()
    assert frame.columns == [
        "path",
        "estimate",
        "lower",
        "upper",
        "level",
        "label_1",
        "label_2",
        "shown",
        "other",
        "counted",
    ]
    assert frame.rows()[2] == ("2", 1.0, 0.0, 2.0, 1, "2", None, True, False, STATEMENT.counted)
    plain = Tree.from_parents([1, -1])
    two = np.array([5.0, 7.0])
    frame = TreeRelease(plain, two, two, two, 1.0, STATEMENT, cells=np.array([1, 1])).to_frame(other=False)
    assert frame.columns == ["path", "estimate", "lower", "upper", "level", "node", "cells", "shown", "counted"]
    assert frame.rows() == [("", 7.0, 7.0, 7.0, 0, 1, 1, True, None), ("0", 5.0, 5.0, 5.0, 1, 0, 1, True, None)]


def test_every_written_form_says_what_is_counted():
    said = replace(STATEMENT, counted="rows. At most 5 rows of each user count in total (more are scaled down)")
    tree, two = Tree.from_paths([("a",)]), np.array([5.0, 5.0])
    release = TreeRelease(tree, two, two, two, 1.0, said)
    assert release.to_frame()["counted"].to_list() == [said.counted] * 2
    for form in ("csv", "ndjson", "parquet"):
        assert said.counted.encode() in frame_bytes(release.to_frame(), file_format=form)
    assert release.to_pandas()["counted"].to_list() == release.to_arrow()["counted"].to_pylist() == [said.counted] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": np.zeros(2)}, r"lower \(of shape \(2,\)\) must have one entry for each of the 3 nodes"),
        ({"shown": np.ones((3, 1), dtype=bool)}, r"shown \(of shape \(3, 1\)\) must have one entry for each of the 3"),
        ({"tree": OpenTree.bits(4)}, "nodes .NoneType. must be ShownNodes for an open tree"),
        (
            {"nodes": ShownNodes(OpenTree.bits(1), np.zeros(1, int), np.zeros(1, int))},
            "must be ShownNodes for an open tree, else None",
        ),
        *(({"values": each}, r"values \(\w+\) must be a tuple of NodeValues\. Hint") for each in ({1, 2}, (1,), None)),
        ({"values": (AMOUNT,)}, r"values: sum .*3 nodes"),
        ({"values": (replace(AMOUNT, sum=np.ones(3), mean=[1.0]),)}, "NumPy array"),
    ],
)
def test_wrong_parts_are_named(changes, message):
    three = np.ones(3)
    parts = {"tree": Tree.from_parents([-1, 0, 0]), "estimates": three, "lower": three, "upper": three}
    with pytest.raises((TypeError, ValueError), match=message):
        TreeRelease(**{**parts, **changes}, confidence=0.9, statement=None)


PUBLIC = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
OPEN = OpenTree.columns(["country", "city"])
ROWS = [("be", "ghent")] * 4000 + [("be", "liege")] * 30 + [("lu",)]
RELEASES = {
    "laplace": lambda: make_tree_laplace(leaf_domain(PUBLIC), L1, 3.0)(PUBLIC.count(ROWS)),
    "gaussian": lambda: make_tree_gaussian(leaf_domain(PUBLIC), L1, 3.0)(PUBLIC.count(ROWS)),
    "pruned": lambda: make_pruned_descent(leaf_domain(PUBLIC), L1, 3.0, delta=1e-6)(PUBLIC.count(ROWS)),
    "pruned, open": lambda: make_pruned_descent(leaf_domain(OPEN), L1, 3.0, delta=1e-6)(OPEN.count(ROWS)),
    "partition": lambda: make_tree_estimator(leaf_domain(OPEN), L1, epsilon=1.0, delta=1e-6)(OPEN.count(ROWS)),
    "certain": lambda: replace(RELEASES["partition"](), confidence=1.0),
}
each = pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES)


@each
def test_descriptions_say_what_at_what_cost_and_how_wrong(make):
    release = make()
    lines = release.describe().split("\n")
    shown = release.estimates.size if release.shown is None else release.shown.sum()
    assert lines[0].startswith("Counts of ")
    assert str(shown) in lines[0]
    assert "of 3 levels (total / country / city)" in lines[0]
    assert lines[-1].startswith("Mechanism: ")
    name, value = next(iter(release.statement.loss.items()))
    assert f"{name} {value:.10g}" in lines[1]
    assert lines[1].endswith("for adding or removing one row.")
    reach = np.maximum(release.upper - release.estimates, release.estimates - release.lower)
    widest = reach.max() if release.shown is None else reach[release.shown].max()
    (told,) = re.findall(r"and all at most ([0-9.,]+)\.\n", release.describe())
    assert widest <= float(told.replace(",", "")) <= 1.01 * widest + 1e-9
    assert ("always" in lines[2]) == (release.confidence == 1)
    assert ("Not shown: " in release.describe()) == (release.shown is not None or release.hidden is not None)


def test_open_releases_bound_what_they_do_not_show():
    """A node that is not shown holds less than its bound: here nobody is near it, and it is near the threshold."""
    for name in ("pruned, open", "partition", "certain"):
        release = RELEASES[name]()
        assert 20 < release.hidden < 100
    assert RELEASES["certain"]().hidden >= RELEASES["certain"]().statement.parameters["threshold"]


def test_descriptions_of_what_is_not_known():
    two = np.array([5.0, 7.0])
    words = TreeRelease(Tree.from_parents([1, -1]), two, two - math.inf, two + 1, 1.0, None).describe()
    assert "Privacy: not known here." in words
    assert "and some have no upper end." in words
    empty = make_pruned_descent(leaf_domain(OpenTree.bits(4)), L1, 1.0, delta=1e-6)(OpenTree.bits(4).count([]))
    assert empty.describe().startswith("Counts of 0 nodes of 5 levels (prefixes of 4-bit integers, 1 bit")
    nobody = make_pruned_descent(leaf_domain(PUBLIC), L1, 1.0, delta=1e-6)(np.zeros(3, dtype=np.int64))
    assert "0 of 5 nodes" in nobody.describe()
    assert "Not shown: 5 nodes, estimated as 0, with few rows, at most " in nobody.describe()


def test_ranges_of_a_release_from_json_join_the_nodes():
    release = RELEASES["laplace"]()
    joined = range_counts(TreeRelease.from_json(release.to_json()), 0, 2)
    assert joined.estimates == range_counts(release, 0, 2).estimates
    assert joined.confidence <= release.confidence


KEYS = {
    "columns": (OpenTree.columns(2), st.lists(st.sampled_from(["a", "b", None, 7]), max_size=3).map(tuple)),
    "bits": (OpenTree.bits(100, 40), st.sampled_from([0, 1, 2**99, 2**100 - 1, 2**60])),
    "ipv6": (OpenTree.bits(128, 48, shown_as="ipv6"), st.sampled_from([0, 1, 2**127, 2**64])),
    "paths": (OpenTree.paths("/", depth=3), st.sampled_from(["", "/", "a", "a/b", "a/b/c", "//"])),
}


@cache
def measurements_of(tree):
    return (
        make_pruned_descent(leaf_domain(tree), L1, 4.0, threshold=10),
        make_tree_estimator(leaf_domain(tree), L1, epsilon=2.0, delta=0.01),
    )


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
@examples(25)
def test_no_data_makes_a_release_fail(kind, data):
    """Nobody, the root alone, nodes here and there: frames, words and JSON follow."""
    tree, key = KEYS[kind]
    keys = [
        key for key, times in data.draw(st.lists(st.tuples(key, st.integers(1, 40)), max_size=5)) for _ in range(times)
    ]
    for measurement in measurements_of(tree):
        release = measurement(tree.count(keys))
        frame = release.to_frame()
        assert frame.filter(~frame["other"]).height == release.estimates.size
        assert TreeRelease.from_json(release.to_json()).to_frame().equals(frame)
        assert release.describe()
