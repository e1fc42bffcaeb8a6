"""What is public is listed, documented, and shown working."""

import importlib
import inspect
import pkgutil
import re
from functools import partial
from pathlib import Path

import pytest
from opendp.mod import _PartialConstructor

import opendp_tree as ot

ROOT = Path(__file__).parents[2]
MODULES = [name for _, name, _ in pkgutil.walk_packages(ot.__path__, "opendp_tree.")]
POSTPROCESSORS = ["make_consistent"]
"""What works on releases has no input domain and no privacy map."""
PUBLIC = {name: getattr(ot, name) for name in ot.__all__}
PUBLIC.update(
    (name, getattr(room, name)) for room in map(partial(getattr, ot), ot._SUBMODULES) for name in room.__all__
)
"""Everything public, at the root or in its room."""
MAKERS = [name for name in PUBLIC if name.startswith("make_") and name not in POSTPROCESSORS]


def test_all_is_sorted_and_true():
    assert ot.__all__ == sorted(ot.__all__)
    assert all(hasattr(ot, name) for name in ot.__all__)
    public = {name for name, value in vars(ot).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(ot.__all__)


def test_the_root_is_what_a_person_can_hold():
    assert len(ot.__all__) <= 46
    assert dir(ot) == sorted([*ot.__all__, "__version__"])


def test_the_reference_says_in_which_room_a_name_is():
    lines = (ROOT / "docs" / "reference.md").read_text().splitlines()
    for room in ot._SUBMODULES:
        (line,) = [line for line in lines if line.startswith(f"| `opendp_tree.{room}` |")]
        assert set(re.findall(r"`(\w+)`", line)) == set(getattr(ot, room).__all__) - set(ot.__all__)


def test_no_public_name_hides_a_module_of_its_room():
    for name in (*ot._SUBMODULES, ""):
        room = importlib.import_module(f"opendp_tree.{name}".rstrip("."))
        paths = getattr(room, "__path__", [])
        modules = {module for _, module, _ in pkgutil.iter_modules(paths)}
        assert not modules & set(room.__all__), name


@pytest.mark.parametrize("name", MAKERS)
def test_every_constructor_has_a_partial_an_example_and_a_proof(name):
    make = PUBLIC[name]
    parameters = list(inspect.signature(make).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["input_domain", "input_metric"]
    for parameter in parameters[2:]:
        assert parameter.kind is parameter.KEYWORD_ONLY or parameter.name in ("scale", "tree")
    then = PUBLIC[name.replace("make_", "then_")]
    assert list(inspect.signature(then).parameters.values()) == parameters[2:]
    assert ".map(1)" in make.__doc__
    page = make.__doc__.split("Proof: ")[1].split(".md")[0] + ".md"
    assert (ROOT / page).is_file(), page
    assert f"`{name}`" in (ROOT / "docs" / "reference.md").read_text()


@pytest.mark.parametrize("name", POSTPROCESSORS)
def test_every_postprocessor_has_a_partial_an_example_and_a_proof(name):
    make = PUBLIC[name]
    assert PUBLIC[name.replace("make_", "then_")] is make
    assert ">>>" in make.__doc__
    page = make.__doc__.split("Proof: ")[1].split(".md")[0] + ".md"
    assert (ROOT / page).is_file(), page
    assert f"`{name}`" in (ROOT / "docs" / "reference.md").read_text()


def test_partials_are_opendps():
    assert isinstance(ot.then_truncated_laplace(1.0, radius=2), _PartialConstructor)


def test_the_version_is_in_the_changelog():
    assert f"## {ot.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_citation_is_of_this_version():
    assert f"\nversion: {ot.__version__}\n" in (ROOT / "CITATION.cff").read_text()
