"""Which function is which statement: the table at the end of each proof page, made from the theorems themselves.

`python -m tests.repo.theorem_tables` writes the tables anew.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## The theorem functions\n"
NO_PAGE = ("__init__", "interval")
"""Arithmetic, on which all pages rest."""


def pages():
    """For each proof page, its table."""
    tables = {}
    for path in sorted((ROOT / "opendp_tree" / "theorems").glob("*.py")):
        module = ast.parse(path.read_text())
        if path.stem in NO_PAGE:
            continue
        page = re.search(r"Proof: (docs/proofs/\w+\.md)", ast.get_docstring(module) or "")
        assert page, f"{path.name} must name its proof"
        rows = [
            f"| `{node.name}` | {sentence(node)} |"
            for node in module.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        ]
        head = [f"\nIn `opendp_tree/theorems/{path.name}`:\n", "| function | what it says |", "|---|---|"]
        tables.setdefault(ROOT / page.group(1), []).extend(head + rows)
    return {page: HEADING + "\n".join(lines) + "\n" for page, lines in tables.items()}


def sentence(node):
    """The first paragraph of a docstring, as one line of a table."""
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()).replace("|", "\\|")


def main():
    for page, table in pages().items():
        text = page.read_text().split(HEADING)[0].rstrip("\n")
        page.write_text(f"{text}\n\n{table}")


if __name__ == "__main__":
    main()
