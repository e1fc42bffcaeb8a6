"""Which function is which statement: the table at the end of each proof page, made from the theorems themselves.

`python -m docs.theorem_tables` writes the tables anew.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADING = "## The theorem functions\n"
PROOF = re.compile(r"Proof: (docs/proofs/\w+\.md)")
NO_PAGE = ("__init__", "interval")
"""Arithmetic and search, on which all pages rest."""


def pages():
    """For each proof page, its table: a function belongs to the last page that its module names above it."""
    tables = {}
    for path in sorted((ROOT / "opendp_tree" / "theorems").glob("*.py")):
        text = path.read_text()
        if path.stem in NO_PAGE:
            continue
        proofs = {text.count("\n", 0, match.start()) + 1: match[1] for match in PROOF.finditer(text)}
        rows = {}
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                above = [line for line in proofs if line < node.lineno]
                assert above, f"{path.name} must name the proof of {node.name} above it"
                rows.setdefault(proofs[max(above)], []).append(f"| `{node.name}` | {sentence(node)} |")
        for page, lines in rows.items():
            head = [f"\nIn `opendp_tree/theorems/{path.name}`:\n", "| function | what it says |", "|---|---|"]
            tables.setdefault(ROOT / page, []).extend(head + lines)
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
