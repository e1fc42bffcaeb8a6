"""Documents say what exists: links resolve, proof pages open with their card, every theorem has its page."""

import re
from pathlib import Path

import pytest

from docs import proof_map, readme_table, theorem_tables

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
def test_every_claim_opens_with_its_card(page):
    text = page.read_text()
    rows = [line.split("**")[1] for line in text.splitlines() if line.startswith("| **")]
    assert rows == CARD * text.count("| **Claim**") != []
    for path in re.findall(r"`((?:opendp_tree|tests)/[\w/]+\.py)`", text):
        assert (ROOT / path).is_file(), path


def test_every_theorem_function_is_on_its_proof_page_and_no_other():
    """The tables are those of `python -m docs.theorem_tables`."""
    for page, table in theorem_tables.pages().items():
        assert page.read_text().endswith("\n\n" + table), page.name


def test_the_map_of_proofs_is_that_of_the_constructors():
    """Made by `python -m docs.proof_map`."""
    assert proof_map.PAGE.read_text() == proof_map.text()


def test_the_readme_has_the_benchmarks_table():
    """Made by `python -m docs.readme_table`."""
    assert readme_table.README.read_text() == readme_table.text()


def test_make_help_lists_every_target_that_the_readme_uses():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
