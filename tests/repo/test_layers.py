"""Data flows one way: each module imports only what lies below it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "opendp_tree"

LAYERS = [
    {"theorems", "files", "frames"},
    {"saturate", "_opendp", "occupied", "truncation", "ledger", "frames.files", "frames.tables"},
    {"tree_arrays", "tree_paths", "arguments", "data"},
    {"tree", "noise", "errors"},
    {"frames.coding"},
    {"open_tree"},
    {"open_nodes"},
    {"frames.nodes", "frames.labels", "release_words"},
    {"forest", "open_cells", "spaces", "release_format", "keys"},
    {"frames.addresses", "frames.groups"},
    {"frames.key_columns", "frames.spaces"},
    {"frames.lookup"},
    {"frames.row_counts"},
    {"least_squares"},
    {"release", "prediction", "level_weights"},
    {"postprocess"},
    {"transformations", "measurements"},
    {"frames.steps", "planning"},
    {"tree_counts", "plots"},
    {"pipeline"},
    {"context"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]


TYPES_ONLY = (
    "context.py",
    "flights.py",
    "nodes.py",
    "open_cells.py",
    "pipeline.py",
    "plan.py",
    "release.py",
    "source.py",
)
"""These name Polars in annotations."""


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def imports(path):
    """The modules that a file imports, each with all its parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def part(path):
    """What has a layer of its own: a module or a folder, and in the folder of frames each module."""
    steps = path.relative_to(PACKAGE).with_suffix("").parts
    return part_of(steps)


def part_of(steps):
    return ".".join(steps[:2]) if steps[0] == "frames" and steps[1:2] != ("__init__",) else steps[0]


def level(name):
    return next(height for height, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path):
    here = level(part(path))
    for name in imports(path):
        steps = name.split(".")
        if steps[0] == "opendp_tree" and len(steps) > 1:
            other = part_of(steps[1:])
            if any(other in layer for layer in LAYERS):
                assert level(other) < here or other == part(path), f"{path.name} imports {name}"


def test_theorems_are_pure_mathematics():
    for path in (PACKAGE / "theorems").glob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= {"opendp_tree", *sys.stdlib_module_names}


def test_private_parts_of_opendp_are_imported_in_one_place():
    for path in modules():
        if path.name != "_opendp.py":
            for name in imports(path):
                private = name.startswith("opendp.") and any(step.startswith("_") for step in name.split("."))
                assert not private, f"{path.name} imports {name}"


def test_randomness_is_drawn_in_one_place():
    for path in modules():
        if path.name != "noise.py":
            text = path.read_text()
            for word in ("np.random", "import random", "secrets", "urandom", "default_rng"):
                assert word not in text, f"{path.name} mentions {word}"
            if path.name != "_opendp.py":
                assert "secure_bytes" not in text


def test_polars_is_used_in_frame_modules_and_only_the_context_registers():
    for path in modules():
        names = set(imports(path))
        assert ("polars" in names) <= (path.parent.name == "frames" or path.name in TYPES_ONLY)
        assert ("opendp.context" in names) == (path.name in ("context.py", "_opendp.py"))


def test_importing_the_package_does_not_import_the_prelude():
    loaded = "import sys, opendp_tree; print(*(name in sys.modules for name in ('opendp.prelude', 'polars')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "False"]
