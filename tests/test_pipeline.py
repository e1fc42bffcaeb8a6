import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from scipy.stats import binom

from opendp_tree import Auto, Key, Tree, TreeRelease, frame_domain, make_leaf_counts, plan, release_tree
from opendp_tree.pipeline import then_release, unit_words

VISITS = pl.DataFrame(
    {
        "user": [row % 300 for row in range(1300)],
        "country": ["be"] * 900 + ["lu"] * 400,
        "city": ["ghent"] * 800 + ["liege"] * 100 + ["lux"] * 400,
    }
)


def test_one_call_from_rows_to_a_release():
    release = release_tree(VISITS, by=["country", "city"], epsilon=1.0, delta=1e-6)
    frame = release.to_frame(other=False)
    truth = {(): 1300, ("be",): 900, ("lu",): 400, ("be", "ghent"): 800, ("be", "liege"): 100, ("lu", "lux"): 400}
    for country, city, lower, upper in frame.select("country", "city", "lower", "upper").rows():
        path = tuple(label for label in (country, city) if label is not None)
        assert lower - 60 <= truth[path] <= upper + 60
    assert release.statement.unit == "one row"
    assert release.statement.loss["epsilon"] <= 1.0
    assert release.statement.loss["delta"] <= 1e-6


def test_lazy_frames_and_frames_on_disk_are_alike(tmp_path):
    VISITS.write_parquet(tmp_path / "visits.parquet")
    for frame in (VISITS, VISITS.lazy(), pl.scan_parquet(tmp_path / "visits.parquet")):
        assert release_tree(frame, by="country", epsilon=1.0, delta=1e-6).to_frame().height == 3


def test_a_unit_is_protected_with_all_its_rows():
    release = release_tree(VISITS, by=["country", "city"], epsilon=1.0, delta=1e-6, unit="user", rows_per_unit=3)
    assert release.statement.unit == "one value of 'user', with at most 3 rows"
    assert release.statement.d_in == 3
    best = plan(Key.of(["country", "city"]).open_tree(), epsilon=1.0, delta=1e-6, d_in=3).best
    assert release.statement.parameters["scale"] == best.parameters["scale"]
    assert abs(release.estimates[0] - 900) < 400  # 300 users, 3 rows of each


def test_a_public_tree_is_counted_without_delta():
    tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux"), ("fr", "metz")], names=["country", "city"])
    method = Auto(nonnegative=True, integers=True)
    release = release_tree(VISITS, by=["country", "city"], tree=tree, epsilon=1.0, method=method)
    assert release.estimates.size == tree.node_count
    assert release.statement.loss == {"epsilon": pytest.approx(1.0)}
    assert abs(release.estimates[0] - 1300) < 60


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"by": "planet"}, "planet"),
        ({"by": "country", "unit": "user"}, "rows_per_unit"),
        ({"by": "country", "unit": "nobody", "rows_per_unit": 1}, "identifier"),
        ({"by": "country", "epsilon": -1.0}, "epsilon"),
        ({"by": "country", "delta": 0.0}, "nothing is possible"),
        ({"by": "country", "method": "magic"}, "method"),
        ({"by": "country", "confidence": 2.0}, "confidence"),
    ],
)
def test_arguments_are_checked_before_a_row_is_read(options, named):
    def read(batch):
        raise AssertionError("data was touched")

    unread = VISITS.lazy().map_batches(read, schema=VISITS.schema)
    with pytest.raises(ValueError, match=named):
        release_tree(unread, **{"epsilon": 1.0, "delta": 1e-6, **options})


def test_what_is_no_frame_is_refused():
    with pytest.raises(TypeError, match="columns"):
        release_tree([1, 2], by="country", epsilon=1.0, delta=1e-6)


def test_words_for_units():
    assert unit_words(None, 2) == "2 rows"
    assert unit_words("user", 1) == "one value of 'user', with at most 1 row"


def test_contrib_is_asked_for():
    dp.disable_features("contrib")
    try:
        with pytest.raises(Exception, match="contrib"):
            release_tree(VISITS, by="country", epsilon=1.0, delta=1e-6)
    finally:
        dp.enable_features("contrib")


def test_a_statement_says_what_is_counted():
    assert release_tree(VISITS, by="country", epsilon=1.0, delta=1e-6).statement.counted == "rows"
    budget = {"epsilon": 1.0, "delta": 1e-6, "unit": "user"}
    cut = release_tree(VISITS, by="country", **budget, rows_per_unit=3)
    said = "rows after keeping at most 3 of each user, and none without a user"
    assert cut.statement.counted == said
    assert f"Counted: {said}." in cut.describe()
    assert "true count of these" in cut.describe()
    assert TreeRelease.from_json(cut.to_json()).statement.counted == said
    leaves = release_tree(VISITS, by="country", **budget, leaves_per_unit=2, rows_per_leaf=4)
    assert leaves.statement.counted.startswith("rows after keeping at most 4 in each of at most 2 leaves of each user")


def test_intervals_hold_the_rows_that_are_kept_and_claim_no_others():
    """At each level, one fixed node in each of 300 runs; a true claim fails here in fewer than one of 10^7 runs."""
    regions, cities = ("north", "south", "west"), ("a", "b", "c")
    tree = Tree.from_paths([(region, city) for region in regions for city in cities], names=["region", "city"])
    rows = [(user, regions[(user + turn) % 3], cities[turn % 3]) for user in range(120) for turn in range(12)]
    rows += [(None, "north", "a")] * 500  # nobody's: not counted
    frame = pl.DataFrame(rows, schema=["user", "region", "city"], orient="row")
    metric = dp.symmetric_id_distance(identifier="user")
    counts = make_leaf_counts(frame_domain(frame), metric, by=["region", "city"], tree=tree, rows_per_unit=5)
    space, most = (counts.output_domain, counts.output_metric), counts.map(1)
    released = then_release(space, most, "a user", counted="kept rows", epsilon=1.0, tree=tree, confidence=0.95)
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
