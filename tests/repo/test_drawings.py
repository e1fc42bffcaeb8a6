"""The site's drawings are what their code draws, and its pictures show the release that is kept beside them."""

import importlib.util
import re
from pathlib import Path

import pytest

from opendp_tree import TreeRelease

DOCS = Path(__file__).parents[2] / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWINGS = load("drawings")


@pytest.mark.parametrize("name", DRAWINGS.DRAWINGS)
def test_drawings_are_what_their_code_draws(name):
    """Mended by `python docs/drawings.py`."""
    assert (DRAWINGS.FOLDER / f"{name}.svg").read_text() == DRAWINGS.DRAWINGS[name]().svg()


def test_the_walk_that_is_drawn_is_one_that_the_mechanism_can_take():
    """Tests at or above the threshold are cells, and only they; what is passed up adds up."""
    walk = DRAWINGS.Walk()
    results = walk.steps()
    for name, (x, y, noise, gap) in results.items():
        children = [child for child, (_, _, parent) in DRAWINGS.PLACES.items() if parent == name]
        passed = [results[child][1] for child in children if results[child][3] is None]
        assert x == DRAWINGS.PEOPLE.get(name, 0) + sum(passed)
        assert (gap is not None) == (y + noise >= walk.threshold)
        assert max(passed, default=0) <= y <= x
        assert noise < walk.threshold  # an empty node is never a cell


@pytest.mark.parametrize("name", load("release_pictures").PICTURES)
def test_pictures_show_the_stored_release(name):
    """Both are written by `python docs/release_pictures.py`."""
    release = TreeRelease.from_json((DOCS / "images" / "flights.json").read_text())
    words = " ".join(re.findall(r">([^<>]+)<", (DOCS / "images" / name).read_text()))
    frame = release.to_frame(other=False)
    level, shown = (1, "origin") if "tree" in name else (2, "carrier")
    largest = frame.filter(frame["level"] == level).sort("estimate", descending=True)
    assert largest[shown][0] in words
    assert "epsilon 1, delta 1e-06" in words
    if "tree" in name:
        assert f"{round(largest['estimate'][0]):,}" in words


def test_the_front_page_prints_the_stored_release():
    """Both are written by `python docs/release_pictures.py`."""
    release = TreeRelease.from_json((DOCS / "images" / "flights.json").read_text())
    assert f"```text\n{release}\n```" in (DOCS / "index.md").read_text()
