"""Values of every sort, sensible and not, for arguments of every name."""

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import polars as pl

import opendp_tree as ot

NUMBERS = (
    *(0, 1, -1, 2, 3, 5, 7, 64, 100, 1000, 2**31 - 1, 2**31, 2**32, 2**62 - 1, 2**62, 2**63, 2**64, 2**200),
    *(-(2**31), -(2**63), -(10**30), 10**400, -(10**400), 10**5000),
    *(0.0, -0.0, 0.1, 0.25, 0.5, 0.999, 1.0, 1.5, 2.0, 3.7, -1.0, 1e-6, 1e-9, 1e-50, 1e-300, 5e-324),
    *(1e6, 1e15, 1e300, 1.7e308, -1e308, math.inf, -math.inf, math.nan),
    *(np.int64(3), np.int8(-1), np.uint64(2**64 - 1), np.float64(0.5), np.float32(0.1), np.float64("nan")),
    *(np.float16(1.0), np.bool_(True), np.datetime64("2020-01-01"), np.str_("a")),
    *(Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), Decimal("0.5"), Decimal("1e999999"), Decimal("nan")),
    *(1j, True, False),
)
TEXTS = (
    *("", "a", "b", "/", "laplace", "gaussian", "error", "keys", "auto", "paper", "partition", "public", "open"),
    *("label", "drop", "^a$", "\ud800", "\0", "a" * 10_000, "é", "level", "columns", "bits", "ip", "1", "1e999"),
    *("once", "vector", "array", "rmse", "hour", "{}", "[]", "nan", "(other)", b"a", b"", bytearray(b"x")),
)


def collections():
    return (
        *([], (), {}, set(), frozenset(), range(3), [1], [0, 1], [-1, 0], [-1, 0, 0], [0, 0], [1, -1]),
        *(["a"], ["a", "b"], ["a", "a"], [("a",)], [("a", "b"), ("c",)], [["a"], []], [None], [math.nan], [math.inf]),
        *([1.0, 2.0], [[1, 2], [3]], [10**400], ["\ud800"], [("\ud800",)], ("a",), ("a", "b"), (1, "b"), {1, 2}),
        *({"a": 1}, {"a": pl.String}, {"epsilon": 1}, {"epsilon": "1", "delta": "1e-6"}, {"rho": 0.1}, {1: 2}),
        *({"epsilon": "nan"}, {"epsilon": 10**400}, {"epsilon": [], "delta": {}}, (x for x in "ab"), iter([1, 2])),
        *(["year", "day"], ["day", "year"], [[]], [object()], {"epsilon": object()}, [("a",), ("a",)], [(1.5,)]),
    )


def arrays():
    return (
        *(np.array([]), np.array([1, 2, 3]), np.array([0, 1, -1]), np.array([1.0, 2.0, math.nan]), np.array(5)),
        *(np.zeros((2, 2)), np.array(["a", "b"]), np.array([None, 1], dtype=object), np.array([2**63], np.uint64)),
        *(np.array([True, False]), np.array([-1, 0, 0]), np.ones(5), np.zeros(5, dtype=np.int64), np.array([1j])),
        *(
            np.array([-(2**63), 2**63 - 1]),
            np.array([1e308, -1e308, math.inf]),
            np.ma.array([1, 2], mask=[True, False]),
        ),
    )


def frames():
    frame = pl.DataFrame({"a": ["x", None, "y"], "b": [1, 2, None], "user": [1, 1, 2]})
    return (
        *(frame, frame.lazy(), frame.clear(), pl.DataFrame()),
        *(frame["a"], pl.col("a"), pl.String, pl.Int64(), pl.lit(1)),
        pl.DataFrame({"depth": [1, 2], "mechanism": ["laplace"] * 2, "error": [1.0, 2.0]}),
        pl.DataFrame({"^a$": [1], "depth": [None]}),
    )


def others():
    return (
        *(None, ..., object(), NotImplemented, lambda: 0, len, print, int, type, ot, Exception("a")),
        *(Path("a"), Path("/")),
        *(date(2020, 1, 1), datetime(2020, 1, 1), time(3), timedelta(1), slice(1), memoryview(b"a")),
    )


@cache
def trees():
    return (
        *(ot.Tree.balanced(branching=2, depth=3), ot.Tree.balanced(branching=1, depth=1)),
        *(ot.Tree.balanced(branching=1, depth=50), ot.Tree.from_parents([-1, 0, 0, 1, 1])),
        ot.Tree.from_paths([("a", "x"), ("a", "y"), ("(other)",)], names=["one", "two"]),
        ot.Tree.from_paths([(1, None), (date(2020, 1, 1),), (True,)]),
        *(ot.OpenTree.columns(["a", "b"]), ot.OpenTree.paths("/", depth=4)),
        *(ot.OpenTree.bits(32, 8), ot.OpenTree.bits(128)),
    )


@cache
def keys():
    return (
        *(ot.Key.columns("a"), ot.Key.columns("a", "b"), ot.Key.path("a", depth=3), ot.Key.bits("b", width=8)),
        *(ot.Key.url("a"), ot.Key.number("b", low=0, high=9, bins=3), ot.Key.ip("a", version="both")),
        *(ot.Key.ip("a"), ot.Key.ip("b", version=6), ot.Key.calendar("a"), ot.Key.columns("nowhere")),
        ot.Key.nested(ot.Key.columns("a"), ot.Key.bits("b", width=8)),
    )


@cache
def spaces():
    """Domains, metrics and measures."""
    atom = dp.atom_domain(T="i64")
    domains = (
        *(atom, dp.atom_domain(T=float, nan=False), dp.atom_domain(T=str), dp.vector_domain(atom)),
        *(dp.vector_domain(atom, size=4), dp.vector_domain(dp.atom_domain(T="u32"), size=3)),
        *(ot.leaf_domain(tree) for tree in trees()),
        *(ot.trees.node_domain(tree) for tree in trees() if isinstance(tree, ot.Tree)),
        ot.frame_domain({"a": pl.String, "b": pl.Int64, "user": pl.Int64}),
        ot.frame_domain({"a": pl.Float64}),
    )
    metrics = (
        *(dp.l1_distance(T="i64"), dp.l1_distance(T="f64"), dp.l1_distance(T="f32"), dp.l2_distance(T="f64")),
        *(dp.linf_distance(T="i64"), dp.absolute_distance(T="i64"), dp.discrete_distance()),
        *(dp.symmetric_distance(), dp.hamming_distance(), dp.change_one_distance(), dp.insert_delete_distance()),
        *(dp.symmetric_id_distance("user"), dp.change_one_id_distance("nowhere")),
        dp.frame_distance(dp.symmetric_distance()),
    )
    measures = (dp.max_divergence(), dp.approximate(dp.max_divergence()), dp.zero_concentrated_divergence())
    return domains, metrics, measures


@cache
def made():
    """Objects that the package makes."""
    tree = trees()[4]
    noisy = np.array([9.0, 6.0, 4.0, 2.0, 3.0])
    statement = ot.releases.PrivacyStatement("tree_laplace", "max_divergence", 1, {"epsilon": 1.0}, {})
    estimator = ot.make_tree_laplace(ot.leaf_domain(tree), dp.l1_distance(T="i64"), 1.0)
    third = Fraction(1, 3)
    step = ot.paper.Round(mass=Fraction(9), eta=third, alpha=third, threshold=Fraction(2), epsilon=third, delta=third)
    release = ot.TreeRelease(tree, noisy, noisy - 3, noisy + 3, 0.95, statement)
    open_release = ot.release_tree(
        pl.DataFrame({"a": ["x"] * 900 + ["y"] * 400}), by="a", epsilon=1.0, delta=1e-6, method="pruned_laplace"
    )
    return (
        *(release, open_release, statement, estimator, step, ot.paper.Ladder(base=third, rounds=(step,))),
        *(ot.plan(3, epsilon=1.0, delta=1e-6, nodes="open"), ot.plan(trees()[0], rho=0.1), release.to_json()),
        ot.bound_report(pl.DataFrame({"user": list(range(900)) * 2}), most=3, epsilon=1.0),
        *(ot.plot_tree(release), ot.paper.NodeClasses(np.array([True]), np.array([1])), ot.data.example_flights),
        *(dp.unit_of(contributions=1), dp.loss_of(epsilon=1.0), dp.loss_of(rho=0.1, delta=1e-6)),
    )


def sensible(name, random):
    """A plausible value for an argument of this name; None for unknown names."""
    domains, metrics, _ = spaces()
    pick = random.choice
    releases = [value for value in made() if isinstance(value, ot.TreeRelease)]
    pools = {
        **dict.fromkeys(("tree", "tree_or_depth"), trees()),
        **dict.fromkeys(("by", "key"), (*keys(), "a", ["a", "b"])),
        **dict.fromkeys(("epsilon", "scale", "error", "query_scale"), (0.5, 1.0, 2.0)),
        **dict.fromkeys(("delta", "eta", "alpha"), (1e-6, 0.01, 0.1)),
        **dict.fromkeys(("confidence",), (0.9, 0.95)),
        **dict.fromkeys(("d_in", "cutoff", "branching", "stride"), (1, 2, 3)),
        **dict.fromkeys(("depth", "level", "levels", "depths", "width"), (2, 3, 4, [1, 2])),
        **dict.fromkeys(("radius", "threshold", "margin", "mass", "mass_bound"), (10, 20, 50)),
        **dict.fromkeys(("column", "dataset"), ("a", "b", "user")),
        "unit": (
            *("a", ot.Unit("a", rows=1), ot.Unit("a", rows=(3, 2)), ot.Unit("b", leaves=2)),
            *(ot.Unit("a", count="shares"), ot.Unit("b", count="people", nodes=2)),
        ),
        "count": ("rows", "people", "shares"),
        **dict.fromkeys(("frame", "data", "columns"), frames()),
        **dict.fromkeys(("estimates", "truth", "lower", "upper", "variances"), (np.ones(5), np.arange(9.0, 4.0, -1))),
        "input_domain": domains,
        "input_metric": metrics,
        "output_metric": metrics,
        "release": releases,
        "report": [value for value in made() if type(value).__name__ == "BoundReport"],
        "most": (2, 5, 200),
        "estimator": [value for value in made() if isinstance(value, dp.Measurement)],
        "ladder": [value for value in made() if isinstance(value, ot.paper.Ladder)],
        "plan": [value for value in made() if isinstance(value, ot.planning.Plan)],
        "rho": (0.1, 1.0),
        "ledger": (None,),
        "schema": (None, {"a": pl.String}, {"a": int, "b": pl.Date}),
        "nodes": ("public", "open", 10),
        "noise": ("laplace", "gaussian"),
        "total": ({"epsilon": 1}, {"epsilon": "1", "delta": "1e-6"}, {"rho": 1}),
        "cost": ({"epsilon": "0.1"}, {"epsilon": 0.1, "delta": 0}),
        "paths": ([("a", "x"), ("b",)],),
        "parents": ([-1, 0, 0], np.array([-1, 0, 1])),
        "path": ("ledger.db", Path("file")),
    }
    return pick(pools[name]) if name in pools else None


def nonsense(random):
    """Anything at all."""
    domains, metrics, measures = spaces()
    pools = (NUMBERS, NUMBERS, TEXTS, collections(), arrays(), frames(), others(), trees(), keys(), domains, metrics)
    return random.choice(random.choice((*pools, measures, made())))
