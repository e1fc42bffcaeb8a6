"""Whatever a release shows, it can be written, drawn and read again: by then it may have been paid for."""

import polars as pl
import pytest

from opendp_tree import Key, TreeRelease, release_tree
from opendp_tree.plots import plot_tree
from tests.thoroughness import slow

ENDINGS = ("csv", "parquet", "ndjson", "json", "xlsx")


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
