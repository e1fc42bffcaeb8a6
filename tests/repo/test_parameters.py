"""Everything that a user can reach says what each of its parameters is, in NumPy's style."""

import importlib
import inspect
import re

import pytest

import opendp_tree as ot


def public_names():
    """Each public name with what it stands for."""
    yield from ((name, getattr(ot, name)) for name in ot.__all__)
    for room in ot._SUBMODULES:
        module = importlib.import_module(f"opendp_tree.{room}")
        yield from ((f"{room}.{name}", getattr(module, name)) for name in getattr(module, "__all__", ()))


def functions(value):
    """A function itself; of a class, its public methods that the package wrote."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            inner = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(inner):
                yield inner
    elif callable(value):
        yield value


def undocumented(function):
    """The parameters that no line under "Parameters" names."""
    section = inspect.cleandoc(function.__doc__ or "").partition("Parameters\n----------\n")[2]
    told = {name for line in re.findall(r"^\*{0,2}(\w+(?:, \w+)*)$", section, re.M) for name in line.split(", ")}
    return sorted(set(inspect.signature(function).parameters) - told - {"self", "cls"})


@pytest.mark.parametrize(("name", "value"), list(public_names()), ids=[name for name, _ in public_names()])
def test_every_parameter_is_explained(name, value):
    missing = {each.__name__: undocumented(each) for each in functions(value)}
    assert {each: left for each, left in missing.items() if left} == {}


def test_a_parameter_without_a_word_is_seen():
    def told(a, b, *, c=1):
        """Two of three.

        Parameters
        ----------
        a, b
            Two.
        """

    assert undocumented(told) == ["c"]
