"""Whole releases of made-up rows: what is shown holds the truth as often as it says."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, Value, frame_domain, release_tree
from opendp_tree.mechanisms import make_leaf_values, then_tree_means
from opendp_tree.mechanisms.means import PublicMeans
from opendp_tree.rows.value import value_shares
from opendp_tree.theorems.tree_means import STEPS
from opendp_tree.trees.known_nodes import KnownNodes

dp.enable_features("contrib")
RNG = np.random.default_rng(21)
DELAY = Value("delay", bounds=(-30, 180))
BY = ["origin", "carrier"]


def made_up(size=30_000):
    origin = RNG.integers(0, 4, size)
    carrier = np.minimum(RNG.geometric(0.12, size), 30)
    delay = RNG.normal(20 + 10 * origin, 60, size)
    return pl.DataFrame(
        {"origin": [f"o{each}" for each in origin], "carrier": [f"c{each}" for each in carrier], "delay": delay}
    )


FRAME = made_up()


def truth(frame, level):
    clipped = frame.with_columns(pl.col("delay").clip(*DELAY.bounds))
    groups = clipped.group_by(BY[:level]) if level else clipped.group_by(pl.lit(0).alias("root"))
    return groups.agg(true_count=pl.len(), true_sum=pl.col("delay").sum(), true_mean=pl.col("delay").mean())


def joined(release, level):
    shown = release.to_frame(other=False).filter(pl.col("level") == level)
    if level == 0:
        return shown.join(truth(FRAME, 0), how="cross")
    return shown.join(truth(FRAME, level), on=BY[:level], how="left")


def held(rows, figure, true):
    return ((rows[f"{figure}lower"] <= rows[true]) & (rows[true] <= rows[f"{figure}upper"])).to_numpy()


def tree_of(frame):
    return Tree.from_paths(frame.select(BY).unique().sort(BY).rows(), names=BY)


NAMES = FRAME.select(BY).unique().sort(BY).rows()
OPEN = OpenTree.columns(BY)
KNOWN = {
    "open": KnownNodes.of(OPEN, ()),
    "known": KnownNodes.of(OPEN, [*NAMES[::3], ("o0", "c99"), ("o9",)]),
    "closed": KnownNodes.of(OPEN, NAMES, closed=[(), *((name,) for name, _ in NAMES), *NAMES]),
}


@pytest.mark.parametrize("kind", ["public", *KNOWN])
def test_every_interval_holds_as_often_as_it_says(kind):
    """30 runs; 7 standard deviations below what is promised: a chance below 1e-8 to fail by accident."""
    public = kind == "public"
    by = Key.columns(*BY, tree=tree_of(FRAME), outside="drop") if public else Key.columns(*BY)
    made = make_leaf_values(frame_domain(FRAME), dp.symmetric_distance(), values=DELAY, by=by)
    leaves = made(FRAME)
    delta = 1e-6 if kind in ("open", "known") else 0.0
    means = (made.output_domain, made.output_metric) >> then_tree_means(epsilon=1.0, delta=delta, known=KNOWN.get(kind))
    assert means.output_measure == (dp.approximate(dp.max_divergence()) if delta else dp.max_divergence())
    covered = {(level, figure): [] for level in range(3) for figure in ("", "sum_", "mean_")}
    for _ in range(30):
        release = means(leaves)
        for level in range(3):
            rows = joined(release, level).filter(pl.col("true_count") > 0)  # of no rows there is no mean
            if level == 2:
                rows = rows.filter(pl.col("true_count") > 60)  # small leaves miss more often given that they are shown
            for figure, true in (("", "true_count"), ("sum_", "true_sum"), ("mean_", "true_mean")):
                covered[level, figure].extend(held(rows, figure, true))
                lower, upper = rows[f"{figure}lower"], rows[f"{figure}upper"]
                estimate = rows[figure.removesuffix("_") or "estimate"]
                assert ((lower <= estimate) & (estimate <= upper)).all()
    for hits in covered.values():
        assert np.mean(hits) > 0.95 - 7 * np.sqrt(0.05 * 0.95 / len(hits))


def test_sums_of_children_and_rest_are_their_parents():
    frame = release_tree(FRAME, by=BY, epsilon=1.0, delta=1e-6, value=DELAY).to_frame()
    root = frame["sum"][0]
    assert frame.filter(pl.col("level") == 1)["sum"].sum() == pytest.approx(root)
    assert frame.filter("other")["mean_lower"].null_count() == frame.filter("other").height
    for figure in ("sum", "mean"):
        assert frame.filter(~pl.col("other"))[figure].null_count() == 0


def test_levels_that_are_not_shown_cost_nothing_and_have_no_row():
    by = Key.columns(*BY, show=["carrier"])
    release = release_tree(FRAME, by=by, epsilon=1.0, delta=1e-6, value=DELAY)
    frame = release.to_frame(other=False)
    assert set(frame["level"]) == {0, 2}
    assert np.isfinite(frame["mean"].to_numpy()).all()
    assert type(release).from_json(release.to_json()).to_frame().equals(release.to_frame())


def test_deep_trees_have_means_too():
    """Two intervals, each of which misses with a chance of at most 1e-9."""
    size = 20_000
    keys = RNG.integers(0, 2**12, size) // 16 * 16
    frame = pl.DataFrame({"key": keys.astype(np.uint32), "x": (keys % 100).astype(float)})
    by = Key.bits("key", width=16)
    value = Value("x", bounds=(0, 100))
    release = release_tree(frame, by=by, epsilon=2.0, delta=1e-6, value=value, confidence=1 - 1e-9)
    shown = release.to_frame(other=False)
    assert shown["level"].max() > 9
    root = shown.row(0, named=True)
    assert root["mean_lower"] <= frame["x"].mean() <= root["mean_upper"]
    assert root["sum_lower"] <= frame["x"].sum() <= root["sum_upper"]
    assert ((shown["mean"] >= 0) & (shown["mean"] <= 100)).all()


def test_levels_of_a_public_tree_spend_all_and_no_more():
    tree = tree_of(FRAME)
    values = (DELAY, Value("b", bounds=(0, 1), weight=2.0))
    for weights in ((1.0, 1.0, 1.0), (0.2, 0.5, 2.3)):
        made = PublicMeans.of(tree, Fraction(1), weights, values, value_shares(values), 0.95)
        assert 1 - Fraction(1, 10**4) < made.spent() <= 1
        assert made.scales[0][0] > 1.9 * made.scales[0][1]
        assert made.scales[0][0] * weights[0] == pytest.approx(made.scales[2][0] * weights[2])
        assert made.scales[0][0] >= STEPS


def test_nobody_at_all_still_has_a_release():
    frame = FRAME.clear()
    open_release = release_tree(frame, by=BY, epsilon=1.0, delta=1e-6, value=DELAY)
    assert open_release.to_frame().height <= 1
    public = release_tree(frame, by=Key.columns(*BY, tree=tree_of(FRAME)), epsilon=1.0, value=DELAY)
    assert public.to_frame()["mean"].is_between(-30, 180).all()


def test_known_names_have_means_too():
    key = Key.columns(*BY, known=[("o0", "c99"), ("o9",)])
    frame = release_tree(FRAME, by=key, epsilon=1.0, delta=1e-6, value=DELAY).to_frame(other=False)
    assert {("o0", "c99"), ("o9", None), ("o0", "c1")} <= set(frame.select(BY).rows())
    assert frame["mean"].is_between(-30, 180).all()
