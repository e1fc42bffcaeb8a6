"""Subtrees first, then the top: every run has the chance of the whole mechanism, exactly, and no person is lost."""

from dataclasses import replace

import numpy as np
import pytest

from opendp_tree import OpenTree
from opendp_tree.mechanisms.partition import subtrees
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.mechanisms.partition.release import people_at
from opendp_tree.mechanisms.partition.subtrees import NO_ROOT, cut_levels, find_above, find_below
from opendp_tree.mechanisms.partition.walk import Cells, find_cells
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.tree_partition import GapShape
from opendp_tree.trees.occupied import Occupied, meets_between
from opendp_tree.trees.shown_nodes import ShownCells
from opendp_tree.trees.sparse_counts import SparseCounts
from tests.mechanisms.partition.test_walk import (
    OPEN,
    SCALE,
    TOKEN_SCALE,
    Q,
    T,
    Tape,
    exact_open,
    nonzero,
    parameters_of,
)
from tests.privacy.partition_law import Mechanism, Rules
from tests.thoroughness import thinned

U43, U32, U21 = (4, 3, 1), (3, 2, 1), (2, 1, 0)
# Several subtrees that meet above the cut, at every level at which they can.
MEETING = {
    "two subtrees at the root": ({("a", "x"): 3, ("b", "y"): 2}, (U43,) * 3),
    "three subtrees at one node": ({("a", "x"): 2, ("a", "y"): 1, ("a", "z"): 1}, (U21,) * 3),
    "heavy subtrees": ({("a", "x"): 2, ("a", "y"): 2}, ((3, 2, 1), (3, 1, 1), (3, 1, 1))),
    "a heavy one alone": ({("a", "x"): 3}, ((4, 2, 2),) * 3),
    "people above the cut": ({(): 1, ("a",): 1, ("a", "x"): 2, ("b", "y"): 1}, (U21,) * 3),
    "a chain above": ({("a", "b", "c"): 2, ("a", "b", "d"): 2}, (U43,) * 4),
    "wide below": ({("a", "x"): 1, ("a", "y"): 1, ("b", "z"): 2, ("b",): 1}, (U21,) * 3),
    "untested between": ({("a", "b", "c"): 2, ("a", "d", "e"): 2}, (U43, U43, None, U32)),
    "untested root": ({("a", "b"): 2, ("a", "c"): 3, ("d", "e"): 1}, (None, U43, U43)),
}
SLOW = ("branches", "star of heavy leaves", "caterpillar")  # of those that take the other paths of the walk
CASES = {**{name: case for name, case in OPEN.items() if name not in SLOW}, **MEETING}
CUTS = [
    (name, cut)
    for name, (_, levels) in CASES.items()
    if name != "nobody"
    for cut in [level for level, numbers in enumerate(levels) if numbers is not None][1:]
]


def counts_of(paths, depth):
    return OpenTree.columns(depth - 1).count([path for path, people in paths.items() for _ in range(people)])


def sliced(occupied, places):
    """Some of the places by themselves."""
    meets = meets_between(occupied.meets, places)
    return Occupied(occupied.levels[places], meets, occupied.counts[places], places)


def subtrees_of(occupied, cut):
    """Places by subtree; each place above the cut by itself."""
    bounds = np.flatnonzero(occupied.meets < cut) + 1
    return np.split(np.arange(occupied.levels.size), bounds)


def run_in_parts(occupied, parameters, cut, *, below=find_below, above=find_above):
    """Each subtree by itself, as if the others were elsewhere; then the top. Kept places, their people, and cells."""
    kept, people, passed, cells = [], [], [], []
    for places in subtrees_of(occupied, cut):
        found = below(sliced(occupied, places), parameters, cut)
        kept.append(places[found.kept])
        people.append(found.people)
        passed.append(found.passed)
        cells.append((places[found.kept][found.cells.places], found.cells.levels, found.cells.gaps))
    at, counts, ups = (np.concatenate(part) for part in (kept, people, passed))
    left = replace(sliced(occupied, at), counts=counts)
    top = above(left, ups, parameters, cut)
    cells.append((at[top.places], top.levels, top.gaps))
    return left, Cells(*(np.concatenate(part) for part in zip(*cells, strict=True)))


def labelled(cells, rows):
    triples = zip(cells.places.tolist(), cells.levels.tolist(), cells.gaps.tolist(), strict=True)
    return frozenset((rows[place][:level], gap) for place, level, gap in triples)


def laws(name, cut, monkeypatch, **parts):
    """The law of the runs in parts, and that of the mechanism."""
    paths, levels = CASES[name]
    mechanism = Mechanism(Q, T, levels)
    occupied, parameters, rows = counts_of(paths, len(levels)).occupied, parameters_of(mechanism), sorted(paths)
    tape = Tape(monkeypatch, sum(paths.values()))
    found = tape.runs(lambda: labelled(run_in_parts(occupied, parameters, cut, **parts)[1], rows))
    return nonzero(found), nonzero(exact_open(paths, mechanism))


@pytest.mark.parametrize(("name", "cut"), thinned(CUTS, 7))
def test_every_run_in_parts_has_the_chance_of_the_whole_mechanism(name, cut, monkeypatch):
    found, exact = laws(name, cut, monkeypatch)
    assert found == exact


@pytest.mark.parametrize(("name", "cut"), thinned([("heavy subtrees", 1), ("wide below", 1), ("a chain above", 2)], 3))
def test_subtrees_may_share_a_run(name, cut, monkeypatch):
    """Which subtrees are handled together does not matter."""
    paths, levels = CASES[name]
    mechanism = Mechanism(Q, T, levels)
    occupied, parameters, rows = counts_of(paths, len(levels)).occupied, parameters_of(mechanism), sorted(paths)

    def run():
        found = find_below(occupied, parameters, cut)
        left = replace(sliced(occupied, found.kept), counts=found.people)
        top = find_above(left, found.passed, parameters, cut)
        both = (
            np.concatenate(pair) for pair in zip(*(vars(part).values() for part in (found.cells, top)), strict=True)
        )
        places, levels_, gaps = both
        return labelled(Cells(found.kept[places], levels_, gaps), rows)

    tape = Tape(monkeypatch, sum(paths.values()))
    assert nonzero(tape.runs(run)) == nonzero(exact_open(paths, mechanism))


# Mutants: what is wrong in the joint must show in the law.


def passes_people(occupied, passed, parameters, cut):
    """What a root passes up counts as people: the node above blurs it by a further token."""
    people = np.where(passed == NO_ROOT, 0, passed)
    is_above = occupied.levels < cut
    flat = replace(
        occupied,
        counts=np.where(is_above, occupied.counts, people),
        levels=np.minimum(occupied.levels, cut - 1),
        meets=np.minimum(occupied.meets, cut - 1),
    )
    return find_cells(flat, subtrees._part(parameters, cut, below=False))


def draws_again(occupied, passed, parameters, cut):
    """The roots of the subtrees draw once more."""
    people = np.where(occupied.levels < cut, occupied.counts, np.where(passed == NO_ROOT, 0, passed))
    levels = parameters.shape.levels
    upto = levels.index(cut) + 1
    shape = GapShape(
        levels[:upto], *(getattr(parameters.shape, part)[:upto] for part in ("thresholds", "radii", "margins"))
    )
    return find_cells(replace(occupied, counts=people), replace(parameters, shape=shape))


def leaves_a_level_out(occupied, passed, parameters, cut):
    """The level just above the cut is not tested."""
    shape = parameters.shape
    gone = shape.levels.index(cut) - 1
    kept = {
        part: getattr(shape, part)[:gone] + getattr(shape, part)[gone + 1 :]
        for part in ("levels", "thresholds", "radii", "margins")
    }
    return find_above(occupied, passed, replace(parameters, shape=GapShape(**kept)), cut)


def passes_exact(occupied, parameters, cut):
    """A root that is no cell passes its exact count up."""
    found = find_below(occupied, parameters, cut)
    return replace(found, passed=np.where(found.passed > 0, found.people.sum(), found.passed))


def cells_pass(occupied, parameters, cut):
    """A root that is a cell passes its people up too."""
    found = find_below(occupied, parameters, cut)
    return replace(found, passed=np.where(found.passed == 0, found.people.sum(), found.passed))


@pytest.mark.parametrize(
    ("name", "cut", "parts"),
    [
        ("heavy subtrees", 2, {"above": passes_people}),
        ("a heavy one alone", 2, {"above": passes_people}),
        ("heavy subtrees", 1, {"above": passes_people}),
        ("two subtrees at the root", 1, {"above": draws_again}),
        ("three subtrees at one node", 2, {"above": draws_again}),
        ("heavy subtrees", 2, {"above": leaves_a_level_out}),
        ("a chain above", 3, {"above": leaves_a_level_out}),
        ("heavy subtrees", 2, {"below": passes_exact}),
        ("two subtrees at the root", 1, {"below": cells_pass}),
    ],
)
def test_mutant_joints_are_rejected(name, cut, parts, monkeypatch):
    found, exact = laws(name, cut, monkeypatch, **parts)
    assert sum(found.values()) == 1
    assert found != exact


def test_laws_of_other_mechanisms_differ(monkeypatch):
    """Power: the runs in parts do not have the chances of a mechanism without the largest child."""
    paths, levels = CASES["heavy subtrees"]
    found, _ = laws("heavy subtrees", 2, monkeypatch)
    assert found != nonzero(exact_open(paths, Mechanism(Q, T, levels, Rules(keeps_largest=False))))


# What is kept.


def random_counts(rng, depth, keys):
    paths = [tuple(rng.integers(0, 3, size=rng.integers(1, depth)).tolist()) for _ in range(keys)]
    return OpenTree.columns(depth - 1).count([path for path in paths for _ in range(int(rng.integers(1, 9)))])


@pytest.mark.parametrize("seed", range(20))
def test_every_shown_node_has_its_people_exactly(seed):
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(3, 7))
    counts = random_counts(rng, depth, int(rng.integers(1, 60)))
    parameters = GapParameters(SCALE, TOKEN_SCALE, GapShape.uniform(depth, threshold=6, radius=5, margin=2))
    for cut in cut_levels(parameters):
        left, cells = run_in_parts(counts.occupied, parameters, cut)
        assert left.counts.sum() == counts.occupied.counts.sum()
        assert left.levels.size <= counts.occupied.levels.size
        shown = ShownCells.of(counts, cells.places, cells.levels).nodes
        number = {place: here for here, place in enumerate(left.ids.tolist())}
        fewer = SparseCounts(counts.tree, left, replace(counts.keys, rows=counts.keys.rows[left.ids]))
        listed = ShownCells.of(fewer, np.array([number[place] for place in cells.places.tolist()], int), cells.levels)
        assert [part.to_list() for part in listed.nodes.labels] == [part.to_list() for part in shown.labels]
        everything = []
        for these, cells_of in ((counts.occupied, ShownCells.of(counts, cells.places, cells.levels)), (left, listed)):
            places = these.first_places(_any_place(these, cells_of, cells, number), cells_of.nodes.levels)
            everything.append(people_at(these, shown.levels, places, np.ones(shown.size, dtype=np.bool_)))
        assert np.array_equal(everything[0], everything[1])


def _any_place(occupied, listed, cells, number):
    at = cells.places[listed.order][listed.firsts]
    return (
        at if occupied.counts.size > len(number) else np.array([number[place] for place in at.tolist()], dtype=np.int64)
    )


def test_no_more_leaves_a_subtree_than_its_shown_nodes():
    """A thousand light leaves are one number; so are those around a heavy one, at each shown node."""
    keys = [("a", "b", str(leaf)) for leaf in range(1000)] + [("a", "b", "heavy")] * 500
    parameters = GapParameters(0.0, 0.0, GapShape.uniform(4, threshold=40, radius=9, margin=2))
    found = find_below(OpenTree.columns(3).count(keys[:1000]).occupied, parameters, 3)
    assert (found.people == 1).all()  # a thousand subtrees
    found = find_below(OpenTree.columns(3).count(keys[:1000]).occupied, parameters, 1)
    assert found.people.tolist() == [1000]
    assert found.cells.levels.tolist() == [2]
    found = find_below(OpenTree.columns(3).count(keys).occupied, parameters, 1)
    assert sorted(found.people.tolist()) == [500, 1000]
    assert sorted(found.cells.levels.tolist()) == [2, 3]
    assert found.passed.max() == 0


def test_nobody_is_in_no_subtree():
    nobody = OpenTree.columns(2).count([]).occupied
    parameters = GapParameters(1.0, 1.0, GapShape.uniform(3, threshold=4, radius=3, margin=1))
    found = find_below(nobody, parameters, 1)
    assert found.kept.size == found.cells.places.size == 0
    assert find_above(nobody, found.passed, parameters, 1).places.size == 0


def test_the_largest_counts_neither_wrap_nor_raise():
    occupied = Occupied(np.array([2, 2, 1]), np.array([1, 0]), np.array([LIMIT, LIMIT, -5]), np.arange(3))
    parameters = GapParameters(1.0, 2.0, GapShape((0, 1, 2), (5,) * 3, (4,) * 3, (1,) * 3))
    for cut in (1, 2):
        _, cells = run_in_parts(occupied, parameters, cut)
        assert LIMIT - 1000 < cells.gaps.min() <= cells.gaps.max() <= LIMIT


@pytest.mark.parametrize("cut", [0, 2, 4])
def test_only_tested_levels_below_the_topmost_can_be_cut(cut):
    parameters = GapParameters(1.0, 1.0, GapShape((0, 1, 3), (5,) * 3, (4,) * 3, (1,) * 3))
    with pytest.raises(ValueError, match="must be one of the tested levels"):
        find_below(OpenTree.columns(3).count([("a",)]).occupied, parameters, cut)
