"""Everything that a user can reach says what each of its parameters is, in OpenDP's style, `:param name:`."""

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
    """The parameters that neither a field explains nor, where it says "Other parameters: as for `f`.", those of f."""
    return sorted(set(inspect.signature(function).parameters) - explained(function) - {"self", "cls"})


def explained(function):
    text = inspect.cleandoc(function.__doc__ or "")
    others = re.findall(r"Other parameters: as\s+for\s+`(\w+)`\.", text)
    fields = set(re.findall(r"^:param \*{0,2}(\w+): \S", text, re.M))
    return fields.union(*(explained(PUBLIC[other]) for other in others))


def public_functions():
    for name, value in public_names():
        if inspect.isclass(value):
            yield name.rpartition(".")[2], value
        yield from ((each.__name__, each) for each in functions(value))


PUBLIC = dict(public_functions())


@pytest.mark.parametrize(("name", "value"), list(public_names()), ids=[name for name, _ in public_names()])
def test_every_parameter_is_explained(name, value):
    missing = {each.__name__: undocumented(each) for each in functions(value)}
    assert {each: left for each, left in missing.items() if left} == {}
