import signal
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from scipy.stats import binom

from opendp_tree import (
    Auto,
    Key,
    Ledger,
    Tree,
    TreeEstimator,
    TreeNoise,
    TreeRelease,
    Unit,
    Value,
    make_leaf_counts,
    plan,
    release_tree,
)
from opendp_tree.ledger import BudgetError
from opendp_tree.planning import make_tree_counts
from opendp_tree.prepare import Question
from opendp_tree.rows.domains import frame_domain
from tests.context.shared import SURE, VISITS


def test_one_call_from_rows_to_a_release():
    """Six intervals, each of which misses with a chance of at most 1e-9."""
    release = release_tree(VISITS, by=["country", "city"], epsilon=1.0, delta=1e-6, confidence=SURE)
    frame = release.to_frame(other=False)
    truth = {(): 1300, ("be",): 900, ("lu",): 400, ("be", "ghent"): 800, ("be", "liege"): 100, ("lu", "lux"): 400}
    for country, city, lower, upper in frame.select("country", "city", "lower", "upper").rows():
        path = tuple(label for label in (country, city) if label is not None)
        assert lower <= truth[path] <= upper
        assert upper - lower < 800
    assert release.statement.unit == "one row"
    assert release.statement.loss["epsilon"] <= 1.0
    assert release.statement.loss["delta"] <= 1e-6


def test_a_unit_is_protected_with_all_its_rows():
    unit = Unit("user", rows=3)
    release = release_tree(VISITS, by=["country", "city"], epsilon=1.0, delta=1e-6, unit=unit, confidence=SURE)
    assert release.statement.unit == "one value of 'user'"
    assert (release.statement.d_in, release.statement.mechanism) == (1, "people_laplace")
    best = plan(Key.of(["country", "city"]).open_tree(), epsilon=1.0, delta=1e-6, unit=unit).best
    assert release.statement.parameters["threshold"] == best.parameters["threshold"]
    assert release.lower[0] <= 900 <= release.upper[0]  # 300 users, 3 rows of each; false alarm at most 1e-9
    kept = release_tree(VISITS, by=["country", "city"], epsilon=1.0, delta=1e-6, unit=unit, method=TreeEstimator())
    assert kept.statement.unit == "one value of 'user'"
    assert (kept.statement.d_in, kept.statement.mechanism) == (3, "tree_estimator")


UNITS = {
    "nobody's": None,
    "rows": Unit("user", rows=3),
    "rows by level": Unit("user", rows=[3, 2, 1]),
    "shares": Unit("user", count="shares"),
    "people": Unit("user", count="people", nodes=2),
}


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_estimates_are_whole_and_not_negative_where_that_is_asked_for_and_add_up_where_they_did(unit, public):
    """With rows "(other)", of which none is negative either."""
    cities = [("be", "ghent"), ("be", "liege"), ("lu", "lux"), *(("fr", f"city {n}") for n in range(30))]
    key = Key.columns("country", "city", tree=Tree.from_paths(cities)) if public else ["country", "city"]
    method, budget = Auto(nonnegative=True, integers=True), {"epsilon": 0.5, "delta": 1e-6}
    release = release_tree(VISITS, by=key, **budget, unit=UNITS[unit], method=method)
    rows = release.to_frame().filter("shown")
    assert (rows["estimate"] == rows["estimate"].round()).all()
    assert (rows["estimate"] >= 0).all()
    assert ((rows["lower"] <= rows["estimate"]) & (rows["estimate"] <= rows["upper"])).all()
    assert release.adds_up == (unit not in ("people", "rows by level"))
    if release.adds_up:
        assert rows.filter(level=1)["estimate"].sum() == rows["estimate"][0]
        first = rows.columns[rows.columns.index("level") + 1]
        for label, total in rows.filter(level=1, other=False).select(first, "estimate").rows():
            below = rows.filter((pl.col("level") == 2) & (pl.col(first) == label))
            assert below.height == 0 or below["estimate"].sum() == total


@pytest.mark.parametrize("unit", [None, Unit("user", rows=3)])
def test_the_root_of_a_public_tree_counts_all_rows_by_default(unit):
    """Nulls and labels that the tree lacks are "(outside)"; dropping them is a choice, which the statement tells."""
    keys = ["be"] * 500 + [None] * 300 + ["fr"] * 200
    frame = pl.DataFrame({"country": keys, "user": range(1000)})
    tree = Tree.from_paths([("be",), ("lu",)])
    options = {"epsilon": 1.0, "confidence": SURE, "unit": unit}  # each interval misses in at most 1e-9 of runs
    release = release_tree(frame, by=Key.columns("country", tree=tree), **options)
    assert release.to_frame()["path"].to_list() == ["", "be", "lu", "(outside)"]
    truth = np.array([1000, 500, 0, 500])
    assert ((release.lower <= truth) & (truth <= release.upper)).all()
    assert "inside the tree" not in release.statement.counted
    release = release_tree(frame, by=Key.columns("country", tree=tree, outside="drop"), **options)
    assert release.lower[0] <= 500 <= release.upper[0]
    assert release.statement.counted.startswith("rows inside the tree")


PUBLIC = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")])


def test_levels_that_are_not_shown_are_not_paid_for():
    def key(show):
        return Key.columns("country", "city", tree=PUBLIC, show=show)

    assert Question.of(key(["city"])).method == Auto(levels=(0, 2))
    assert Question.of(key(["city"]), method=Auto(levels=[0, 2])).method == Auto(levels=(0, 2))
    assert Question.of(key(["country", 2]), method="tree_gaussian").method == TreeNoise("gaussian")
    assert Question.of(key(None)).method == Auto()
    wanted = release_tree(VISITS, by=key(["country"]), epsilon=1.0).statement
    assert wanted == release_tree(VISITS, by=key(None), epsilon=1.0, method=Auto(levels=[0, 1])).statement


def test_a_statement_says_what_is_counted():
    assert release_tree(VISITS, by="country", epsilon=1.0, delta=1e-6).statement.counted == "rows"
    budget = {"epsilon": 1.0, "delta": 1e-6}
    kept = release_tree(VISITS, by="country", **budget, unit=Unit("user", rows=3), method="tree_estimator")
    assert (
        kept.statement.counted
        == "rows. At most 3 rows of each user count in total (others are dropped); rows without a user are not counted"
    )
    cut = release_tree(VISITS, by="country", **budget, unit=Unit("user", rows=3))
    said = (
        "rows. At most 3 rows of each user count in total (more are scaled down); rows without a user are not counted"
    )
    assert cut.statement.counted == said
    assert f"Counted: {said}." in cut.describe()
    assert "true count, as counted above" in cut.describe()
    assert TreeRelease.from_json(cut.to_json()).statement.counted == said
    leaves = release_tree(VISITS, by="country", **budget, unit=Unit("user", leaves=2, rows_per_leaf=4))
    assert leaves.statement.counted.startswith("rows. At most 4 rows of each user count in each of at most 2 leaves")


def test_intervals_hold_the_rows_that_are_kept_and_claim_no_others():
    """At each level, one fixed node in each of 300 runs; a true claim fails here in fewer than one of 10^7 runs."""
    regions, cities = ("north", "south", "west"), ("a", "b", "c")
    tree = Tree.from_paths([(region, city) for region in regions for city in cities], names=["region", "city"])
    rows = [(user, regions[(user + turn) % 3], cities[turn % 3]) for user in range(120) for turn in range(12)]
    rows += [(None, "north", "a")] * 500  # nobody's: not counted
    frame = pl.DataFrame(rows, schema=["user", "region", "city"], orient="row")
    metric = dp.symmetric_id_distance(identifier="user")
    key = Key.columns("region", "city", tree=tree, outside="drop")
    counts = make_leaf_counts(frame_domain(frame), metric, by=key, unit=Unit("user", rows=5))
    space = counts.output_domain, counts.output_metric
    released = make_tree_counts(*space, epsilon=1.0, d_in=counts.map(1), tree=tree)
    everything = _node_counts(tree, tree.count(frame.select("region", "city").rows()))
    nodes = [level[0] for level in tree.levels]
    runs, held, claimed = 300, np.zeros(tree.depth), np.zeros(tree.depth)
    for _ in range(runs):
        kept = counts(frame)
        release = released(kept)
        truth = _node_counts(tree, kept)
        held += ((release.lower <= truth) & (truth <= release.upper))[nodes]
        claimed += ((release.lower <= everything) & (everything <= release.upper))[nodes]
    least = binom.ppf(3e-8, runs, 0.95)
    assert (held >= least).all(), held / runs
    assert (claimed < least).all(), claimed / runs  # what was claimed of all rows was false at every level


def _node_counts(tree, leaves):
    totals = np.zeros(tree.node_count)
    totals[tree.leaves] = leaves
    for level in reversed(tree.levels[1:]):
        np.add.at(totals, tree.parents[level], totals[level])
    return totals


def refusing(batch):
    raise AssertionError("data was touched")


UNREAD = VISITS.lazy().map_batches(refusing, schema=VISITS.schema)


def test_a_ledger_refuses_unread_what_is_too_much_and_stores_what_it_counts(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": "0.3", "delta": "1e-5"}, unit="one row")
    ask = {"by": ["country", "city"], "epsilon": 0.1, "delta": 1e-6}
    for given in (ledger, str(ledger.path), ledger.path):  # 0.1 is a tenth: three times fit 0.3
        release = release_tree(VISITS, **ask, ledger=given)
        assert release.statement.loss["epsilon"] <= Fraction("0.1")
    entries = ledger.entries()
    assert [entry.cost["epsilon"] for entry in entries] == [Fraction("0.1")] * 3
    assert ledger.stored(3) == release.to_json()
    assert entries[0].about == f"columns country city, by {entries[0].statement['mechanism']}"
    with pytest.raises(BudgetError, match="Hint: the ledger is spent"):
        release_tree(UNREAD, **ask, ledger=ledger)
    assert ledger.entries() == entries


def test_a_release_that_fails_or_is_interrupted_costs_nothing(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-5"})
    ask = {"by": "country", "epsilon": 0.25, "delta": 1e-6, "ledger": ledger}
    with pytest.raises(Exception, match="details are withheld"):
        release_tree(UNREAD, **ask)
    interrupted = VISITS.lazy().map_batches(raise_interrupt, schema=VISITS.schema)
    with pytest.raises(KeyboardInterrupt):
        release_tree(interrupted, **ask)
    assert ledger.entries() == []
    assert ledger.left()["epsilon"] == 1


def raise_interrupt(batch):
    signal.raise_signal(signal.SIGINT)
    return batch


AMOUNT = Value("amount", bounds=(0, 100))
SPENT = VISITS.with_columns(amount=pl.when(pl.col("city") == "ghent").then(40.0).otherwise(90.0))


def test_sums_and_means_stand_beside_the_counts():
    """Each interval misses with a chance of at most 1e-9."""
    release = release_tree(SPENT, by="city", epsilon=2.0, delta=1e-6, value=AMOUNT, confidence=SURE)
    truth = {None: (1300, 77_000), "ghent": (800, 32_000), "liege": (100, 9_000), "lux": (400, 36_000)}
    for row in release.to_frame(other=False).rows(named=True):
        count, total = truth[row["city"]]
        assert row["lower"] <= count <= row["upper"]
        assert row["sum_lower"] <= total <= row["sum_upper"]
        assert row["mean_lower"] <= total / count <= row["mean_upper"]
    assert release.statement.mechanism == "tree_means"
    assert release.statement.counted == "rows with a number in amount"
    assert release.statement.loss["epsilon"] <= 2.0


def test_people_with_values_are_bounded_by_rows():
    release = release_tree(
        SPENT, by="country", epsilon=3.0, delta=1e-6, unit=Unit("user", rows=2), value=AMOUNT, confidence=SURE
    )
    assert release.statement.unit == "one value of 'user'"
    assert release.statement.counted.startswith(
        "rows with a number in amount. At most 2 rows of each user count in total (others are dropped)"
    )
    assert release.lower[0] <= 600 <= release.upper[0]
    with pytest.raises(ValueError, match="bound on rows alone"):
        release_tree(SPENT, by="country", epsilon=1.0, delta=1e-6, unit=Unit("user", leaves=2), value=AMOUNT)


def test_weighed_people_below_groups_and_ranges_are_counted_and_kept_ones_have_medians():
    """The median is off by more than 1 with a chance far below 1e-9: 4,000 people share one bin."""
    rows = pl.DataFrame({"user": range(4000), "carrier": ["a"] * 4000, "delay": [10] * 4000})
    by = Key.nested(Key.columns("carrier"), Key.number("delay", low=0, high=40, bins=40))
    for unit in (Unit("user", rows=2), Unit("user", count="shares"), Unit("user", count="people", nodes=2)):
        release = release_tree(rows, by=by, unit=unit, epsilon=2.0, delta=1e-6)
        assert release.statement.mechanism.startswith("people_")
        assert "a / [7, 14) / [10, 11)" in release.to_frame()["path"].to_list()
    kept = release_tree(rows, by=by, unit=Unit("user", rows=2), epsilon=2.0, delta=1e-6, method="curve")
    assert kept.quantiles([0.5])["estimate"].to_list() == pytest.approx([10.5], abs=1)


def test_a_number_has_a_curve_or_the_counts_of_its_ranges():
    frame = pl.DataFrame({"age": np.random.default_rng(0).uniform(0, 100, 2000)})
    ask = {"by": Key.number("age", low=0, high=100, bins=64), "epsilon": 1.0}
    assert release_tree(frame, **ask).statement.mechanism == "bin_curve"
    release = release_tree(frame, **ask, method=TreeNoise())
    assert release.statement.mechanism == "tree_laplace"
    with pytest.raises(ValueError, match=r"quantiles requires a release over the bins of a line\. Hint: by=Key"):
        release.quantiles([0.5])


def test_rho_for_unknown_nodes_is_refused_with_a_way_out():
    rows = pl.DataFrame({"user": [1, 2], "city": ["ghent", "liege"]})
    ask = {"by": "city", "unit": Unit("user", rows=2), "rho": 0.1, "delta": 1e-6}
    with pytest.raises(ValueError, match=r"epsilon and delta must be given where nodes must be found\. Hint: "):
        release_tree(rows, **ask)
    assert "(others are dropped)" in release_tree(rows, **ask, method="pruned_gaussian").statement.counted
