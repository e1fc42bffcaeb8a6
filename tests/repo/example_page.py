"""What the examples print, for the docs: `python -m tests.repo.example_page` runs them and writes docs/examples.md."""

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = ROOT / "docs" / "examples.md"
HEAD = """# Examples

Each file of [examples](../examples) runs as it is, and a test runs all of them. What they print is below; noise is
drawn anew in each run, so that numbers differ. The page is made by `python -m tests.repo.example_page`.
"""


def run(example):
    """What an example prints, in a folder of its own and a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(example)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "PATH": "", "POLARS_FMT_MAX_ROWS": "20"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def section(example, shown):
    """A file's name, what it says of itself, and what it printed."""
    said = ast.get_docstring(ast.parse(example.read_text()))
    return f"\n## {example.name}\n\n{said}\n\n```text\n{shown.rstrip()}\n```\n"


def masked(text):
    """What is left of a text without its numbers, and without the space that numbers of other lengths take."""
    return re.sub(r"[\s─┬┴┼]+", " ", re.sub(r"-?\d[\d.,]*(?:e-?\d+)?", "#", text))


if __name__ == "__main__":
    PAGE.write_text(HEAD + "".join(section(each, run(each)) for each in EXAMPLES if each.name != "demo.py"))
