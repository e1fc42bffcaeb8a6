"""Documents say what exists: links resolve, proof pages open with their card, every theorem has its page."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROOFS = sorted((ROOT / "docs" / "proofs").glob("*.md"))
CARD = ["Claim", "Source", "Neighbours", "Code", "Numerics", "Checked by", "Not claimed"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_proofs_open_with_their_card(page):
    text = page.read_text()
    assert [line.split("**")[1] for line in text.splitlines() if line.startswith("| **")][: len(CARD)] == CARD
    for path in re.findall(r"`((?:opendp_tree|tests)/[\w/]+\.py)`", text):
        assert (ROOT / path).is_file(), path


def test_every_theorem_names_its_proof():
    for path in (ROOT / "opendp_tree" / "theorems").glob("*.py"):
        if path.stem not in ("__init__", "bisection", "interval"):
            page = re.search(r"Proof: (docs/proofs/\w+\.md)", ast.get_docstring(ast.parse(path.read_text())) or "")
            assert page, path.name
            assert (ROOT / page.group(1)).is_file()
            assert f"theorems/{path.name}" in (ROOT / page.group(1)).read_text()


def test_make_help_lists_every_target_that_the_readme_uses():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
