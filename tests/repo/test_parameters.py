"""Every public function and method says what each of its parameters is, in NumPy's style."""

import ast
import re

import pytest

from tests.repo.rooms import PACKAGE

ROOMS = ("bounds", "measurements", "paper", "planning", "plots", "postprocess", "releases", "trees")
MODULES = sorted(path for room in ROOMS for path in (PACKAGE / room).glob("*.py"))


def functions(body):
    """The public functions of a module, and the public methods of its public classes, with the text that says more."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body)
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            yield node


def undocumented(function):
    """The parameters that no line under "Parameters" names."""
    given = function.args
    names = [
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if each
    ]
    section = (ast.get_docstring(function) or "").partition("Parameters\n----------\n")[2]
    told = {name for line in re.findall(r"^(\w+(?:, \w+)*)$", section, re.M) for name in line.split(", ")}
    return sorted(set(names) - told - {"self", "cls"})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_parameter_is_explained(path):
    missing = {node.name: undocumented(node) for node in functions(ast.parse(path.read_text()).body)}
    assert {name: left for name, left in missing.items() if left} == {}


def test_a_parameter_without_a_word_is_seen():
    text = '"""F.\n\nParameters\n----------\na, b\n    Two.\n"""'
    (node,) = functions(ast.parse(f"def f(a, b, *, c=1):\n    {text!r}\n").body)
    assert undocumented(node) == ["c"]
