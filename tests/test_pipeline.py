import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Auto, Key, Tree, plan, release_tree
from opendp_tree.pipeline import unit_words

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
        assert release_tree(frame, by="country", epsilon=1.0, delta=1e-6).to_frame(other=False).height == 3


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
