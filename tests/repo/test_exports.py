"""What is public is listed, shown working, and documented with each of its parameters, in OpenDP's style."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from opendp.mod import _PartialConstructor

import opendp_tree as ot

ROOT = Path(__file__).parents[2]
POSTPROCESSORS = ["make_consistent"]
"""What works on releases has no input domain and no privacy map."""
MODULES = {name: importlib.import_module(f"opendp_tree.{name}".rstrip(".")) for name in ("", *ot._SUBMODULES)}
PUBLIC = {name: getattr(module, name) for module in MODULES.values() for name in module.__all__}
REFERENCE = (ROOT / "docs" / "reference.md").read_text()


def test_the_root_holds_what_it_lists_and_little_enough_to_remember():
    public = {name for name, value in vars(ot).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert sorted(public) == ot.__all__
    assert len(ot.__all__) <= 46
    assert dir(ot) == sorted([*ot.__all__, "__version__"])


@pytest.mark.parametrize("name", ot._SUBMODULES)
def test_the_reference_lists_what_a_module_adds_and_no_name_hides_another_module(name):
    module = MODULES[name]
    (line,) = [line for line in REFERENCE.splitlines() if line.startswith(f"| `opendp_tree.{name}` |")]
    assert set(re.findall(r"`(\w+)`", line)) == set(module.__all__) - set(ot.__all__)
    inner = {inner for _, inner, _ in pkgutil.iter_modules(getattr(module, "__path__", []))}
    assert not inner & set(module.__all__)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.startswith("make_")])
def test_every_constructor_has_a_partial_an_example_and_a_proof(name):
    make, then = PUBLIC[name], PUBLIC[name.replace("make_", "then_")]
    if name in POSTPROCESSORS:
        assert then is make
        assert ">>>" in make.__doc__
    else:
        parameters = list(inspect.signature(make).parameters.values())
        assert [parameter.name for parameter in parameters[:2]] == ["input_domain", "input_metric"]
        for parameter in parameters[2:]:
            assert parameter.kind is parameter.KEYWORD_ONLY or parameter.name in ("scale", "tree")
        assert list(inspect.signature(then).parameters.values()) == parameters[2:]
        assert ".map(1)" in make.__doc__
    page = make.__doc__.split("Proof: ")[1].split(".md")[0] + ".md"
    assert (ROOT / page).is_file(), page
    assert f"`{name}`" in REFERENCE


def test_partials_are_opendps():
    assert isinstance(ot.then_truncated_laplace(1.0, radius=2), _PartialConstructor)


def test_the_version_is_in_the_changelog_and_in_the_citation():
    assert f"## {ot.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {ot.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def functions(value):
    """A function itself; of a class, its public methods that the package wrote."""
    if not inspect.isclass(value):
        return [value] if callable(value) else []
    members = {name: getattr(member, "__func__", member) for name, member in vars(value).items()}
    return [member for name, member in members.items() if not name.startswith("_") and inspect.isfunction(member)]


WRITTEN = [each for value in PUBLIC.values() for each in functions(value)]
NAMED = {each.__name__: each for each in WRITTEN} | PUBLIC | {each.__qualname__: each for each in WRITTEN}


def explained(function):
    """The parameters that a field explains or, where it says "Other parameters: as for `f`.", a field of f."""
    text = inspect.cleandoc(function.__doc__ or "")
    others = re.findall(r"Other parameters: as\s+for\s+`(\w+)`\.", text)
    fields = set(re.findall(r"^:param \*{0,2}(\w+): \S", text, re.M))
    owner = function.__qualname__.rpartition(".")[0]
    return fields.union(*(explained(NAMED.get(f"{owner}.{other}", NAMED.get(other))) for other in others))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_explained(name):
    for function in functions(PUBLIC[name]):
        assert set(inspect.signature(function).parameters) <= explained(function) | {"self", "cls"}, function.__name__
