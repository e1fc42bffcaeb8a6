"""Releases in sentences and small tables, in terminals and notebooks."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, TreeRelease, Unit, leaf_domain, release_tree
from opendp_tree.budget import cost_words
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.releases.values import NodeValues
from opendp_tree.releases.words import ROOT, tree_words
from tests.pictures import HOSTILE, STATEMENT, release


@pytest.mark.parametrize(
    ("tree", "shown", "words"),
    [
        (Tree.from_parents([-1]), 1, "Counts of all 1 node of a public tree of 1 level."),
        (Tree.from_paths([("a",)]), 2, "Counts of all 2 nodes of a public tree of 2 levels (total / label_1)."),
        (
            OpenTree.bits(32, 8, shown_as="ipv4"),
            1,
            "1 node of 5 levels (prefixes of IPv4 addresses, 8 bits",
        ),
        (OpenTree.paths("/", depth=3), 0, "0 nodes of 3 levels (paths split at '/'); names were found from the data."),
    ],
)
def test_trees_in_words(tree, shown, words):
    assert words in tree_words(tree, shown)


def test_costs_in_words():
    pair = replace(STATEMENT, loss={"epsilon": 1.0, "delta": 1e-6}, measure="approximate(max_divergence())")
    said = "Privacy: epsilon 1, delta 1e-06 for adding or removing one row."
    assert cost_words(pair) == said
    for unit, said in (
        ("one person with at most 5 rows", "one person with at most 5 rows"),
        ("2 values of 'user'", "2 values of 'user'"),
        ("one value of 'user'", "one user with all rows of that user"),
        ('one value of "o\'clock", in each period', 'one "o\'clock" with all rows of that "o\'clock", in each period'),
    ):
        assert cost_words(replace(pair, unit=unit)).endswith(f"for adding or removing {said}.")


@pytest.mark.parametrize(
    ("median", "widest", "words"), [(1872.01, 9.391, ("1,873", "9.4")), (0.0123, 42.0, ("0.0123", "42"))]
)
def test_the_widths_of_intervals_are_rounded_up(median, widest, words):
    counts, tree = np.zeros(3), Tree.from_paths([("a",), ("b",)])
    reach = np.sort([median, median, max(widest, median)])
    said = TreeRelease(tree, counts, counts - reach, counts + reach, 0.95, STATEMENT).describe()
    assert f"Half of the intervals reach at most {words[0]} from their estimates" in said
    assert widest < median or f"and all at most {words[1]}." in said


def large():
    tree = Tree.balanced(branching=10, depth=6)
    counts = np.arange(tree.node_count, 0, -1.0)
    return TreeRelease(tree, counts, counts - 3, counts + 3, 0.95, STATEMENT)


def test_a_release_prints_as_a_short_table_with_its_words():
    given = release()
    lines = repr(given).splitlines()
    assert str(given) == repr(given)
    assert len(lines) < 25
    assert lines[0].split() == ["path", "estimate", "lower", "upper"]
    assert lines[1].split() == [ROOT, *(f"{part[0]:,.0f}" for part in (given.estimates, given.lower, given.upper))]
    assert lines[-5:] == given.describe().splitlines()[-5:]


def test_the_largest_are_shown_and_the_others_counted():
    given = large()
    lines = repr(given).splitlines()
    assert [line.split()[0] for line in lines[1:13]] == [ROOT, *map(str, range(1, 12))]
    assert lines[13] == "... and 111,099 smaller rows: see to_frame()."
    assert max(map(len, lines)) < 120


def test_the_root_is_shown_whatever_noise_says():
    given = large()
    estimates = given.estimates.copy()
    estimates[0] = -5.0
    noisy = replace(given, estimates=estimates, lower=estimates - 3, upper=estimates + 3)
    assert repr(noisy).splitlines()[1].split() == [ROOT, "-5", "-8", "-2"]


def test_a_notebook_shows_bars_with_intervals():
    given = release()
    page = ElementTree.fromstring(given._repr_html_())
    rows = page.findall("./table/tbody/tr")
    assert len(rows) == len(page.findall("./table/tbody/tr/td/svg")) == 20
    assert rows[0].find("td").text == ROOT
    # A row "(other)" has no interval: its picture has only the line at zero.
    other = [row for row in rows if row.find("td").text.endswith("(other)")]
    assert all(len(row.findall(".//path")) == 1 for row in other)
    assert all(len(row.findall(".//path")) == 2 for row in rows if row not in other)
    words = [line.text for line in page.findall("./p")]
    assert [
        page.find("./div").text,
        *(line for line in words if not line.startswith("...")),
    ] == given.describe().splitlines()
    table = list(page).index(page.find("./table"))
    assert [line.text.split(":")[0] for line in list(page)[2:table]] == ["Privacy"]
    assert len(large()._repr_html_()) < 30_000


def test_hostile_labels_are_text_in_terminals_and_notebooks():
    given = release((8,), label=lambda level, number: HOSTILE[number], hide=False)
    shown = repr(given)
    assert not set(shown) & set("\x1b\r\u202e\u202c")
    page = given._repr_html_()
    assert "<img" not in page
    assert "<script" not in page
    assert "<a " not in page
    texts = [cell.text for cell in ElementTree.fromstring(page).findall("./table/tbody/tr/td[1]")]
    assert "<script>window.hacked = 1</script>" in texts


@pytest.mark.parametrize("tree", [OpenTree.columns(["a", "b"]), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_a_release_of_nothing_prints_too(tree):
    empty = make_pruned_descent(leaf_domain(tree), dp.l1_distance(T="i64"), 1.0, delta=1e-6)(tree.count([]))
    assert "0 nodes" in repr(empty)
    assert "0 nodes" in empty._repr_html_()


def test_what_is_counted_is_told_where_people_look():
    given = release()
    cut = replace(
        given,
        statement=replace(
            given.statement, counted="rows. At most 5 rows of each user count in total (others are dropped)"
        ),
    )
    for shown in (repr(cut), cut._repr_html_()):
        assert "Counted: rows. At most 5 rows of each user count in total (others are dropped)." in shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("America/New_York / General Edward Lawrence Logan Intl", "America/Ne… / General Edward Lawrence Logan Intl"),
        ("be / " + "y" * 60, "be / " + "y" * 42 + "…"),
        ("x" * 60, "x" * 47 + "…"),
        ("a / b / c", "a / b / c"),
    ],
)
def test_of_a_long_path_the_last_label_is_kept(path, shown):
    tree = Tree.from_paths([tuple(path.split(" / "))])
    ones = np.ones(tree.node_count)
    lines = repr(TreeRelease(tree, ones, ones, ones, 0.95, STATEMENT)).splitlines()
    assert any(line.startswith(shown + " ") for line in lines)


@pytest.mark.parametrize(
    ("mean", "reach", "shown"),
    [
        (40.0444, 0.1445, "40.04"),
        (40.0444, 1.445, "40.0"),
        (0.49961, 0.0026, "0.4996"),
        (2067.4, 2475.0, "2,067"),
        (-0.00001, 0.5, "0.00"),
        (0.5, 0.0, "0.5"),
        (np.nan, np.nan, "nan"),
        (12.25, np.inf, "12"),
    ],
)
def test_means_have_the_decimals_that_their_intervals_support(mean, reach, shown):
    tree = Tree.from_paths([("a",)])
    counts, means, reaches = (np.full(2, each) for each in (100.0, mean, reach))
    ends = means - reaches, means + reaches
    values = NodeValues("age", -1e4, 1e4, counts * 40, counts, counts, means, *ends)
    given = TreeRelease(tree, counts, counts - 3, counts + 3, 0.95, STATEMENT, values=(values,))
    first, row = repr(given).splitlines()[:2]
    assert (first.split()[-1], row.split()[-1]) == ("mean", shown)
    assert row.split()[-2] == "4,000"
    assert len(first) == len(row)  # figures end below their head
    assert re.search(rf'"opendp-tree-number">{shown}</td><td', given._repr_html_())


@pytest.mark.parametrize(("tree", "finds"), [(Tree.from_paths([("a",), ("b",)]), False), (None, True)])
@pytest.mark.parametrize("unit", [None, Unit("user", rows=3), Unit("user", count="people", nodes=2)], ids=str)
def test_only_a_release_that_finds_nodes_says_how(tree, finds, unit):
    rows = pl.DataFrame({"user": range(200), "city": ["a", "b"] * 100})
    key = Key.columns("city", tree=tree)
    words = release_tree(rows, by=key, unit=unit, epsilon=1.0, delta=1e-6).describe()
    assert ("unknown nodes are found" in words) == finds
