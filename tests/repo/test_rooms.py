"""Data flows one way: the rooms form a graph without cycles, and what is delicate lives in one place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.rooms import MAP, PACKAGE, arrows, components, imported, layers, page

ROOT = Path(__file__).parents[2]
MODULES = sorted(PACKAGE.rglob("*.py"))
POLARS_ROOMS = ("keys", "rows", "releases", "engines")
POLARS_ELSEWHERE = ("trees/label_keys.py", "trees/bits.py")
TYPES_ONLY = (
    "spending.py",
    "bounds.py",
    "context.py",
    "curve.py",
    "dial.py",
    "flights.py",
    "line_candidates.py",
    "nodes.py",
    "prepare.py",
    "plan.py",
    "series.py",
    "source.py",
    "which_bound.py",
)
"""These name Polars in annotations."""


def test_rooms_form_a_graph_without_cycles():
    graph = arrows()
    assert [sorted(group) for group in components(graph) if len(group) > 1] == []
    assert len(layers(graph)) <= 12


def test_a_cycle_would_be_seen():
    assert len(components({"a": {"b"}, "b": {"a"}, "c": {"a"}})) == 2
    assert layers({"a": set(), "b": {"a"}, "c": {"b", "a"}}) == [["a"], ["b"], ["c"]]


def test_the_map_of_the_house_is_true():
    assert MAP.read_text() == page(), "python -m tests.repo.rooms --page"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_are_absolute(path):
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.ImportFrom) or node.level == 0


def test_theorems_are_pure_mathematics():
    for path in (PACKAGE / "theorems").glob("*.py"):
        roots = {name.split(".")[0] for name in imported(path)}
        assert roots <= {"opendp_tree", *sys.stdlib_module_names}


def test_private_parts_of_opendp_are_imported_in_one_place():
    for path in MODULES:
        if path.name != "_opendp.py":
            for name in imported(path):
                private = name.startswith("opendp.") and any(step.startswith("_") for step in name.split("."))
                assert not private, f"{path.name} imports {name}"


def test_randomness_is_drawn_in_one_place():
    for path in MODULES:
        if path.name != "noise.py":
            text = path.read_text()
            for word in ("np.random", "import random", "secrets", "urandom", "default_rng"):
                assert word not in text, f"{path.name} mentions {word}"
            if path.name != "_opendp.py":
                assert "secure_bytes" not in text


def test_polars_is_used_in_few_rooms_and_only_the_context_registers():
    for path in MODULES:
        here, names = str(path.relative_to(PACKAGE)), set(imported(path))
        allowed = path.parent.name in POLARS_ROOMS or here in POLARS_ELSEWHERE or path.name in TYPES_ONLY
        assert ("polars" in names) <= allowed, here
        assert ("opendp.context" in names) <= (path.parent.name == "context" or path.name == "_opendp.py"), here


def test_importing_the_package_does_not_import_the_prelude():
    loaded = "import sys, opendp_tree; print('opendp.prelude' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False"]
