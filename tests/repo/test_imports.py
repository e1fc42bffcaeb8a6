"""What import-linter cannot see: private parts of OpenDP and randomness live in one module each."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "opendp_tree"
RANDOM = ("np.random", "import random", "secrets", "urandom", "default_rng")


def imported(path):
    """The dotted names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_private_parts_of_opendp_and_randomness_are_in_one_module_each():
    for path in PACKAGE.rglob("*.py"):
        names, text = list(imported(path)), path.read_text()
        if path.name != "_opendp.py":
            assert not [name for name in names if name.startswith("opendp.") and "._" in name], path
        if path.name != "noise.py":
            assert not [word for word in RANDOM if word in text], path
            assert path.name == "_opendp.py" or "secure_bytes" not in text, path
        if any(name.startswith("opendp.context") for name in names):
            assert path.parent.name in ("context", "opendp_tree"), path


def test_importing_the_package_imports_neither_plotly_nor_the_prelude():
    code = "import sys, opendp_tree; print(*(name in sys.modules for name in ('opendp.prelude', 'plotly')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.split() == ["False", "False"]
