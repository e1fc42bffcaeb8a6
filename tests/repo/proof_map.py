"""Which theorem backs which constructor: `python -m tests.repo.proof_map` writes docs/proof_map.md anew."""

import re
from pathlib import Path

import opendp_tree as ot
from tests.repo.theorem_tables import pages

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "proof_map.md"
HEAD = """# Which theorem backs which constructor

Every constructor names its proof in its docstring; every proof page ends in the theorem functions that compute its
maps. This page is made from both by `python -m tests.repo.proof_map`.

| constructor | where | proof | theorem functions |
|---|---|---|---|
"""


def makers():
    """Every public constructor, by name, with the room that it is imported from."""
    found = {}
    for room in ("", *ot._SUBMODULES):
        module = getattr(ot, room) if room else ot
        for name in module.__all__:
            if name.startswith("make_"):
                found.setdefault(name, (getattr(module, name), f"opendp_tree.{room}".rstrip(".")))
    return found


def text():
    """The whole page."""
    functions = {page.stem: re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for page, table in pages().items()}
    lines = []
    for name, (make, room) in sorted(makers().items()):
        proof = Path(make.__doc__.split("Proof: ")[1].split(".md")[0]).name
        theorems = ", ".join(f"`{each}`" for each in functions.get(proof, []))
        lines.append(f"| `{name}` | `{room}` | [{proof.replace('_', ' ')}](proofs/{proof}.md) | {theorems or '–'} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
