"""What import-linter cannot see: private parts of OpenDP and randomness live in one module each."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "opendp_tree"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path):
    """The dotted names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_parts_of_opendp_and_randomness_are_in_one_module_each(path):
    names = list(imported(path))
    if path.name != "_opendp.py":
        private = [name for name in names if name.startswith("opendp.") and "._" in name]
        assert private == []
    if path.name != "noise.py":
        text = path.read_text()
        assert not [
            word for word in ("np.random", "import random", "secrets", "urandom", "default_rng") if word in text
        ]
        assert path.name == "_opendp.py" or "secure_bytes" not in text


def test_only_the_context_registers_with_opendp():
    users = {path.parent.name for path in MODULES if any(name.startswith("opendp.context") for name in imported(path))}
    assert users <= {"context", "opendp_tree"}


def test_importing_the_package_imports_neither_plotly_nor_the_prelude():
    code = "import sys, opendp_tree; print(*(name in sys.modules for name in ('opendp.prelude', 'plotly')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.split() == ["False", "False"]
