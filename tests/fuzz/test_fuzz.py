"""A short run of every subject with a fixed seed, and that each would notice what it is there to notice."""

import hashlib

import numpy as np
import polars as pl
import pytest

from opendp_tree import Tree, TreeRelease
from opendp_tree.rows import row_counts
from tests.fuzz import Violation, constructors, frames, releases, reported, subjects

CASES = {"constructors": 400, "frames": 60, "ledgers": 300, "releases": 500}
"""A part of what `make fuzz` tries."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(subjects()))
def test_a_short_run_finds_nothing(name):
    assert subjects()[name](0, CASES.get(name, 100)) > 0


def test_every_subject_is_found_and_a_case_is_named():
    assert {"constructors", "frames", "ledgers", "releases"} <= subjects().keys()
    with pytest.raises(Violation, match="seed 7, case 3: KeyError: 'a'"), reported(7, 3):
        raise KeyError("a")


def test_mutant_that_keeps_one_row_too_many_is_found(monkeypatch):
    truncate = row_counts.truncate
    monkeypatch.setattr(row_counts, "truncate", lambda *given: truncate(*given) + 1)
    with pytest.raises(Violation, match="the map says"):
        frames.fuzz(0, 300)


def test_mutant_that_raises_on_a_value_is_found(monkeypatch):
    read = row_counts.read_labels

    def strict(groups, key):
        groups.select(column.cast(pl.Int8) for column in groups if column.dtype == pl.String)
        return read(groups, key)

    monkeypatch.setattr(row_counts, "read_labels", strict)
    with pytest.raises(Violation, match="OpenDPException"):
        frames.fuzz(0, 300)


def test_mutant_that_counts_by_the_order_of_rows_is_found(monkeypatch):
    grouped = row_counts.group_rows
    monkeypatch.setattr(row_counts, "group_rows", lambda frame, key: grouped(frame.slice(0, 5), key))
    with pytest.raises(Violation, match="is not"):
        frames.fuzz(0, 300)


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (lambda depth: 1 // 0, "ZeroDivisionError"),
        (lambda depth: np.ones(40_000_000), "MB"),
        (lambda depth: [hashlib.sha256(b"a" * 10**8) for _ in range(30)], r"\d s"),
    ],
)
def test_mutants_that_crash_or_take_too_much_are_found(mutant, message, monkeypatch):
    monkeypatch.setattr(constructors, "targets", lambda: [("mutant", mutant)])
    with pytest.raises(Violation, match=message):
        constructors.fuzz(0, 1)


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (lambda text: {}["tree"], "KeyError: 'tree'"),
        (lambda text: balanced_release(2 + (text == "{}")), "another tree"),
    ],
)
def test_mutants_that_crash_on_a_release_or_change_it_are_found(mutant, message, monkeypatch):
    monkeypatch.setattr(TreeRelease, "from_json", mutant)
    with pytest.raises(Violation, match=message):
        releases.check("{}")


def balanced_release(branching):
    tree = Tree.balanced(branching=branching, depth=2)
    return TreeRelease(tree, *[np.ones(tree.node_count)] * 3, 0.9, None)
