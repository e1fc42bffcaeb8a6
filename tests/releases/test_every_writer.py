"""Whatever a release shows, it can be written, drawn and read again: by then it may have been paid for."""

import polars as pl
import pytest

from opendp_tree import Key, TreeRelease, release_tree
from opendp_tree.plots import plot_tree
from tests.rows.test_totality import DATES, KEYS, NUMBERS, PAIRS, TREES, frame_of, takes
from tests.thoroughness import slow

ENDINGS = ("csv", "parquet", "ndjson", "json", "xlsx")
LINES = {"-".join(name): key for name, key in (NUMBERS | DATES).items()}
QUICK = ("text", "UInt128", "date")


def shown(frame, **options):
    """A release that shows nearly everything in the frame, with all rows 40 times."""
    return release_tree(pl.concat([frame] * 40), epsilon=900.0, delta=1e-3, **options)


def check_writers(release, folder):
    frame = release.to_frame()
    for ending in ENDINGS:
        for safe in (False, True):
            release.write(folder / f"counts.{ending}", spreadsheet_safe=safe)
    assert TreeRelease.from_json(release.to_json()).to_frame().equals(frame)
    assert release.to_arrow().num_rows == len(release.to_pandas()) == frame.height
    assert repr(release)
    assert release._repr_html_()
    assert plot_tree(release).to_json()


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("width", [*slow([1, 63]), 64, 65, *slow([100, 127]), 128])
def test_integers_of_any_width_are_written_with_and_without_rows_outside(width, nulls, tmp_path):
    frame = pl.DataFrame({"k": [0, 2**width - 1] + [None] * nulls}, schema={"k": pl.UInt128})
    release = shown(frame, by=Key.bits("k", width=width, stride=40))
    assert ("(outside)" in release.to_frame()["path"]) is nulls
    check_writers(release, tmp_path)


@pytest.mark.parametrize(("way", "name"), slow(PAIRS, unless=lambda pair: pair[1] in QUICK))
def test_releases_of_every_key_and_type_are_written(way, name, tmp_path):
    check_writers(shown(frame_of(name), by=KEYS[way]), tmp_path)


@pytest.mark.parametrize("labels", [labels for labels in TREES if TREES[labels] is not None])
def test_releases_of_every_public_tree_are_written(labels, tmp_path):
    tree = TREES[labels]
    by = Key.columns("k", "also", tree=tree, outside=tree.path(int(tree.leaves[0])))
    names = [name for name in ("text", "truth", "date", "Int64", "UInt128") if takes(by, name)]
    assert names
    for name in names:
        check_writers(shown(frame_of(name), by=by), tmp_path)


@pytest.mark.parametrize(
    ("way", "name"),
    slow([(way, name) for way in LINES for name in ("Float64", "date", "Decimal 2") if takes(LINES[way], name)]),
)
def test_lines_of_every_key_and_type_are_written(way, name, tmp_path):
    check_writers(shown(frame_of(name), by=LINES[way]), tmp_path)
