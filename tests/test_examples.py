"""The examples run, all of them, and print what the docs show but for the noise."""

import pytest

from docs.example_page import EXAMPLES, HEAD, PAGE, masked, run, section

SHORT = [each for each in EXAMPLES if each.name != "demo.py"]
LINES = {"first_hour": 200}
"""The demo prints frames of many noisy rows: it is run, and not shown."""


def test_the_page_has_a_section_for_each_example_and_nothing_else():
    text = PAGE.read_text()
    assert text.startswith(HEAD)
    assert text.count("\n## ") == len(SHORT)
    assert {"chain.py", "polars_context.py", "accounted_system.py", "first_hour.py"} <= {each.name for each in SHORT}


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_is_short_and_prints_what_the_docs_show(example):
    assert len(example.read_text().splitlines()) < LINES.get(example.stem, 60)
    assert masked(section(example, run(example))) in masked(PAGE.read_text())


def test_the_demo_plans_releases_and_compares():
    shown = run(EXAMPLES[0].parent / "demo.py")
    assert "Best: " in shown
    assert "336776" in shown
    assert "rmse" in shown


def test_what_an_example_says_wrong_would_be_seen():
    assert masked("epsilon = 0.5 in all") == masked("epsilon = 1.25 in all") != masked("epsilon = 0.5, all")
