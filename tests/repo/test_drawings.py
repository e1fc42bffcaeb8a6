"""The site's drawings are what their code draws, and its pictures show the release that is kept beside them."""

import re

import pytest

from docs.drawings import DRAWINGS, FOLDER, PEOPLE, PLACES, Walk
from docs.release_pictures import PICTURES, STATIC
from opendp_tree import TreeRelease


@pytest.fixture
def release():
    return TreeRelease.from_json((FOLDER / "flights.json").read_text())


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_what_their_code_draws(name):
    """Mended by `python docs/drawings.py`."""
    assert (FOLDER / f"{name}.svg").read_text() == DRAWINGS[name]().svg()


def test_the_walk_that_is_drawn_is_one_that_the_mechanism_can_take():
    """Tests at or above the threshold are cells, and only they; what is passed up adds up."""
    walk = Walk()
    results = walk.steps()
    for name, (x, y, noise, gap) in results.items():
        children = [child for child, (_, _, parent) in PLACES.items() if parent == name]
        passed = [results[child][1] for child in children if results[child][3] is None]
        assert x == PEOPLE.get(name, 0) + sum(passed)
        assert (gap is not None) == (y + noise >= walk.threshold)
        assert max(passed, default=0) <= y <= x
        assert noise < walk.threshold  # an empty node is never a cell


@pytest.mark.parametrize("folder", [FOLDER, STATIC])
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_show_the_stored_release(name, folder, release):
    """Both are written by `python docs/release_pictures.py`."""
    words = " ".join(re.findall(r">([^<>]+)<", (folder / name).read_text()))
    level, shown = (1, "origin") if "tree" in name else (2, "carrier")
    largest = release.to_frame(other=False).filter(level=level).sort("estimate", descending=True)
    assert largest[shown][0] in words
    assert "epsilon 1, delta 1e-06" in words
    assert "tree" not in name or f"{round(largest['estimate'][0]):,}" in words


def test_the_front_page_prints_the_stored_release(release):
    """Both are written by `python docs/release_pictures.py`."""
    assert f"```text\n{release}\n```" in (FOLDER.parent / "index.md").read_text()
