"""Arguments that make no sense: each of these once hung, took gigabytes, or ended in another kind of error."""

import json
import math

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

import opendp_tree as ot
from opendp_tree.cli import main

TREE = ot.Tree.balanced(branching=2, depth=3)
PLACED = ot.Tree.from_paths([("a", "x"), ("b",)])
SPACE = ot.leaf_domain(TREE), dp.l1_distance(T="i64")


def release():
    return ot.TreeRelease(PLACED, *np.ones((3, 4)), 0.9, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ot.Tree.balanced(branching=2, depth=2**31), "at most 2\\*\\*28 nodes"),
        (lambda: ot.Tree.balanced(branching=1, depth=2**31), "at most 2\\*\\*28 nodes"),
        (lambda: ot.Tree.balanced(branching=2**60, depth=2**60), "at most 2\\*\\*28 nodes"),
        (lambda: ot.OpenTree.columns(10**9), r"depth \(1000000001\) must be at most 1000"),
        (lambda: ot.OpenTree.paths("/", depth=10**6), r"depth \(1000000\) must be at most 1000"),
        (lambda: ot.Key.path("a", depth=10**6), r"depth \(1000000\) must be at most 1000"),
        (lambda: ot.OpenTree("columns", 10**12), "must be at most 1000"),
    ],
)
def test_trees_that_fill_memory_are_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("depth", ["1001", "999999"])
def test_the_command_line_refuses_paths_that_are_too_deep(depth, capsys):
    assert main(["plan", "--by", f"path(p, depth={depth})", "--epsilon", "1"]) == 2
    assert "must be at most 1000" in capsys.readouterr().err


def test_levels_that_no_path_reaches_take_no_memory():
    """One code of 8 bytes for each of 20,000 keys and 999 levels would be 160 MB."""
    paths = pl.DataFrame({"p": [f"a/{number}" for number in range(20_000)]})
    key = ot.Key.path("p", depth=1000)
    count = ot.make_leaf_counts(ot.frame_domain(paths), dp.symmetric_distance(), by=key)
    for found in (count(paths), key.open_tree().count(paths["p"])):
        assert len(found.keys.columns) == 2
    shown = ot.release_tree(paths, by=key, epsilon=1.0, delta=1e-6, method="pruned_laplace")
    assert shown.to_frame().columns[4:6] == ["level", "prefix"]
    assert ot.TreeRelease.from_json(shown.to_json()).tree == shown.tree


HUGE = 10**400


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ot.make_tree_estimator(*SPACE, epsilon=2.0, delta=HUGE), "delta"),
        (lambda: ot.make_tree_estimator(*SPACE, epsilon=2.0, delta=0.01, levels="a"), "levels"),
        (lambda: ot.make_tree_estimator(*SPACE, epsilon=2.0, delta=0.01, levels=[HUGE]), "levels"),
        (lambda: ot.mechanisms.truncated_laplace_radius(1e300, delta=1e-300), "scale"),
        (lambda: ot.mechanisms.truncated_laplace_radius(1e18, delta=1e-300, d_in=2**62 - 1), "scale"),
        (lambda: ot.paper.multiplicative_threshold(alpha=HUGE, epsilon=1.0, delta=0.1, eta=0.1, depth=3), "alpha"),
        (
            lambda: ot.paper.multiplicative_threshold(alpha=5e-324, epsilon=5e-324, delta=5e-324, eta=5e-324, depth=9),
            "epsilon",
        ),
        (lambda: ot.planning.smallest_epsilon(5, error=1.0, nodes="open", alpha=-1), "alpha"),
        (lambda: ot.planning.smallest_epsilon(5, error=1.0, nodes="open", alpha="a"), "alpha"),
        (lambda: ot.plan(3, epsilon=1.0, alpha="a", nodes="open"), "alpha"),
        (lambda: ot.plan(3, epsilon=1.0, delta=pl.DataFrame({"a": ["x"]}), nodes="open"), "delta"),
        (lambda: ot.plan(3, epsilon=1.0, aim=pl.DataFrame({"a": [1]}), nodes="open"), "aim"),
        (lambda: ot.make_tree_laplace(SPACE[0], 3, 1.0), "input_metric"),
        (lambda: ot.mechanisms.make_above_threshold(ot.trees.node_domain(TREE), [1.0], 1.0, threshold=3), "metric"),
        (lambda: ot.make_sparse_vector(TREE, dp.hamming_distance(), 1.0, threshold=3), "input_domain"),
        (lambda: ot.make_tree_estimator(*SPACE, epsilon=1.0, delta=1e-6, parameters="a"), "parameters"),
        (lambda: ot.Tree([-1, 0, 0, 9], None), "parents"),
        (lambda: ot.Tree(np.array([-1, 0]), (None,)), "labels"),
        (lambda: ot.Tree(np.array([0.5, math.inf]), None), "parents"),
        (lambda: ot.Tree.from_paths([("\ud800",)]), "labels"),
        (lambda: ot.TreeRelease(3, *np.ones((3, 4)), 0.9, None), "tree"),
        (lambda: ot.TreeRelease(PLACED, [1] * 4, *np.ones((2, 4)), 0.9, None), "estimates"),
        (lambda: ot.mechanisms.range_counts("a", 0, 1), "release"),
        (lambda: ot.plot_tree(3), "release"),
        (lambda: ot.plot_level(3, 1), "release"),
        (lambda: ot.plot_plan(3), "plan"),
        (lambda: ot.plot_tree(release(), title=NotImplemented), "title"),
        (lambda: ot.plots.write_html(3, "a.html"), "figure"),
        (
            lambda: ot.frame_context(
                pl.DataFrame({"a": [1]}), privacy_unit=(b"a", 1), privacy_loss=dp.loss_of(epsilon=1.0)
            ),
            "unit",
        ),
        (lambda: ot.Ledger.open("a", total={"epsilon": 1}, unit=pl.DataFrame()), "unit"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_argument(call, message):
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        call()
    assert type(raised.value) in (TypeError, ValueError)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tree", "names"), [None, "two"]),
        (("tree", "names"), [["a"], {}]),
        (("tree", "labels"), [None, "\ud800", "x", "b"]),
        (("statement", "loss"), {"epsilon": 10**400}),
        (("statement", "loss"), {"epsilon": -1}),
        (("statement", "loss"), {"epsilon": {"number": "nan"}}),
        (("statement", "parameters"), {"scale": -(10**400)}),
        (("statement", "d_in"), -1),
        (("hidden",), 10**400),
    ],
)
def test_hostile_releases_are_value_errors(place, value):
    statement = ot.releases.PrivacyStatement("tree_laplace", "max_divergence", 1, {"epsilon": 1.0}, {})
    noisy = np.ones((3, 4))
    parts = json.loads(ot.TreeRelease(PLACED, *noisy, 0.9, statement).to_json())
    *way, last = place
    holder = parts
    for step in way:
        holder = holder[step]
    holder[last] = value
    with pytest.raises(ValueError, match=r"must|too large") as raised:
        ot.TreeRelease.from_json(json.dumps(parts))
    assert type(raised.value) is ValueError
