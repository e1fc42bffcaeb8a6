"""Which theorem backs which constructor: `python -m docs.proof_map` writes the table on docs/researchers.md."""

import re
from pathlib import Path

import opendp_tree as ot
from docs.theorem_tables import pages

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "researchers.md"
BEGIN, END = "<!-- proof map: python -m docs.proof_map -->\n\n", "\n<!-- end of proof map -->"
HEAD = "| proof | constructors | theorem functions |\n|---|---|---|\n"


def makers():
    """The public constructors of each proof page, which their docstrings name."""
    found = {}
    for module in (ot, *(getattr(ot, name) for name in ot._SUBMODULES)):
        for name in module.__all__:
            if name.startswith("make_"):
                proof = getattr(module, name).__doc__.split("Proof: ")[1].split(".md")[0]
                found.setdefault(Path(proof).name, set()).add(name)
    return found


def text():
    """The page with a new table."""
    functions = {page.stem: re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for page, table in pages().items()}
    rows = ""
    for proof, names in sorted(makers().items()):
        lists = [
            ", ".join(f"`{each}`" for each in each_list) for each_list in (sorted(names), functions.get(proof, []))
        ]
        rows += f"| [{proof.replace('_', ' ')}](proofs/{proof}.md) | {lists[0]} | {lists[1] or '–'} |\n"
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + HEAD + rows + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(text())
