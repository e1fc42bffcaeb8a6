"""The vectorised walks against the node-by-node law: every run, exactly, and samples of real noise."""

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from opendp_tree import OpenTree, Tree, noise
from opendp_tree.mechanisms.partition import walk
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.mechanisms.partition.walk import find_cells, find_cells_of_tree
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.partition import noise_tail
from opendp_tree.theorems.tree_partition import GapShape
from opendp_tree.trees.occupied import Occupied
from tests.goodness_of_fit import FALSE_ALARM
from tests.privacy.tree_partition_claim import shape_of
from tests.privacy.tree_partition_law import FAR, Mechanism, Rules, far_from, noise_law, tree_law
from tests.thoroughness import thinned

Q, T = Fraction(1, 2), Fraction(1, 3)
SCALE, TOKEN_SCALE = 1 / math.log(2), 1 / math.log(3)  # at which the ratios are Q and T, to the last bit of a float

U43 = (4, 3, 1)
# Where people are, and what is tested.
OPEN = {
    "one person": ({("a", "b"): 1}, (U43,) * 3),
    "chain": ({("a", "b", "c"): 3}, (U43,) * 4),
    "chain of a crowd": ({("a", "b"): 6}, (U43,) * 3),
    "branches": ({("a", "x"): 1, ("a", "y"): 2, ("b",): 1}, ((3, 2, 1),) * 3),
    "people at an inner node": ({("a",): 2, ("a", "x"): 3}, ((4, 2, 1),) * 3),
    "people at the root": ({(): 2, ("a",): 3}, (U43,) * 2),
    "star of heavy leaves": ({(c,): 3 for c in "ab"}, ((3, 2, 1),) * 2),
    "star of heavy leaves, exact": ({(c,): 3 for c in "abc"}, ((4, 2, 0),) * 2),
    "caterpillar": ({("a", "b", "c"): 2, ("a", "b"): 1, ("a",): 1, (): 1}, ((4, 2, 1),) * 4),
    "thresholds by level": ({("a", "b", "c"): 3, ("d",): 1}, ((5, 3, 1), (4, 3, 1), (4, 2, 1), (3, 1, 0))),
    "radii by level on a chain": ({("a", "b", "c"): 2}, ((4, 2, 1), (4, 3, 1), (4, 3, 1), (4, 2, 2))),
    "untested in the middle": ({("a", "b"): 2, ("a", "c"): 2, ("d", "e"): 1}, (U43, None, (3, 2, 0))),
    "untested leaves": ({("a", "b"): 2, ("a", "c"): 3, ("d",): 1}, (U43, U43, None)),
    "untested root": ({("a", "b"): 3, ("c", "d"): 2, (): 5}, (None, (4, 2, 1), U43)),
    "untested but one": ({("a", "b"): 3, ("a", "c"): 2, ("d", "e"): 5}, (None, U43, None)),
    "nobody": ({}, (U43,) * 2),
}
DENSE = {
    "below the radius": ([-1, 0, 0], [1, 2], ((2, 3, 1),) * 2),
    "without end": ([-1, 0, 0], [0, 1], ((2, None, 0),) * 2),
    "without end, blurred": ([-1, 0], [3], ((3, None, 1),) * 2),
    "by level": ([-1, 0, 0, 1], [1, 1], ((3, 2, 0), (2, 2, 0), (2, None, 0))),
    "untested": ([-1, 0, 0, 1, 1], [1, 2, 0], ((2, 2, 0), None, (2, 3, 1))),
    "ids in any order": ([2, 2, -1, 0, 0], [3, 1, 2], ((3, 3, 1), (2, 2, 1), None)),
}


class Tape:
    """Noise that goes through all its values: `runs` repeats a run until every choice has been taken."""

    def __init__(self, monkeypatch, people, far=None):
        self.ends = {TOKEN_SCALE: (T, people), SCALE: (Q, far)}
        for name in ("geometric", "truncated_geometric", "first_reach", "truncated_geometric_from"):
            monkeypatch.setattr(noise, name, getattr(self, name))

    def runs(self, run):
        """{result: probability}, exactly."""
        law, self.choices = defaultdict(Fraction), []
        while True:
            self.place, self.mass = 0, Fraction(1)
            law[run()] += self.mass
            while self.choices and self.choices[-1][0] == self.choices[-1][1] - 1:
                self.choices.pop()
            if not self.choices:
                return law
            self.choices[-1][0] += 1

    def _one(self, outcomes):
        if self.place == len(self.choices):
            self.choices.append([0, len(outcomes)])
        value, mass = outcomes[self.choices[self.place][0]]
        self.place, self.mass = self.place + 1, self.mass * mass
        return value

    def _draws(self, laws):
        return np.array([self._one(outcomes) for outcomes in laws], dtype=np.int64)

    def geometric(self, scale, size):
        """A token, or noise without end: beyond all people, or gaps, it makes no difference how large it is."""
        ratio, end = self.ends[scale]
        law = [(end if z == FAR else z, mass) for z, mass in noise_law(ratio, None, end)]
        return self._draws([law] * size)

    def truncated_geometric(self, scale, radius, size):
        assert scale == SCALE
        return self._draws([noise_law(Q, radius, None)] * size)

    def first_reach(self, scale, radius, least, *, limit):
        assert scale == SCALE
        assert least.min() >= 1
        assert least.max() <= radius
        laws = []
        for need in least.tolist():
            success = noise_tail(Q, radius=radius, least=need)
            waits = [(wait, success * (1 - success) ** (wait - 1)) for wait in range(1, limit + 1)]
            laws.append([*waits, (limit + 1, (1 - success) ** limit)])
        return self._draws(laws)

    def truncated_geometric_from(self, scale, radius, least):
        assert scale == SCALE
        laws = []
        for need in least.tolist():
            kept = [(z, mass) for z, mass in noise_law(Q, radius, None) if z >= need]
            laws.append([(z, mass / sum(mass for _, mass in kept)) for z, mass in kept])
        return self._draws(laws)


def spanned(paths):
    """Parents, own counts and prefixes of the tree that the paths span."""
    prefixes = {path[:length] for path in paths for length in range(len(path) + 1)} | {()}
    prefixes = sorted(prefixes, key=lambda prefix: (len(prefix), prefix))
    number = {prefix: node for node, prefix in enumerate(prefixes)}
    up = [-1 if not prefix else number[prefix[:-1]] for prefix in prefixes]
    return up, [paths.get(prefix, 0) for prefix in prefixes], prefixes


def parameters_of(mechanism):
    return GapParameters(SCALE, TOKEN_SCALE, shape_of(mechanism))


def exact_open(paths, mechanism):
    up, own, prefixes = spanned(paths)
    law = tree_law(mechanism, up, own, far_from(mechanism, sum(own)))
    return {frozenset((prefixes[node], gap) for node, gap in cells): mass for cells, mass in law.items()}


def open_run(paths, mechanism):
    """A run on an open tree: cells as prefixes with their gaps."""
    tree = OpenTree.columns(len(mechanism.levels) - 1)
    counts = tree.count([path for path, people in paths.items() for _ in range(people)])
    rows, parameters = sorted(paths), parameters_of(mechanism)

    def run():
        cells = find_cells(counts.occupied, parameters)
        triples = zip(cells.places.tolist(), cells.levels.tolist(), cells.gaps.tolist(), strict=True)
        return frozenset((rows[place][:level], gap) for place, level, gap in triples)

    return run


def dense_run(parents, leaf_counts, mechanism, far):
    tree, parameters = Tree.from_parents(parents), parameters_of(mechanism)
    counts = np.array(leaf_counts, dtype=np.int64)

    def run():
        cells = find_cells_of_tree(tree, counts, parameters)
        assert (np.diff(cells.nodes) > 0).all()
        pairs = zip(cells.nodes.tolist(), cells.gaps.tolist(), strict=True)
        return frozenset((node, FAR if gap >= far else gap) for node, gap in pairs)

    return run


def exact_dense(parents, leaf_counts, mechanism, far):
    """The law by node id; the oracle wants parents before children."""
    tree = Tree.from_parents(parents)
    order = np.concatenate(tree.levels)
    place = {int(node): number for number, node in enumerate(order)}
    up = [-1 if parents[node] < 0 else place[parents[node]] for node in order]
    own = [0] * len(parents)
    for leaf, people in zip(tree.leaves.tolist(), leaf_counts, strict=True):
        own[place[leaf]] = people
    law = tree_law(mechanism, up, own, far)
    return {frozenset((int(order[node]), gap) for node, gap in cells): mass for cells, mass in law.items()}


def beyond(mechanism, counts):
    """A gap that only noise without end reaches."""
    return far_from(mechanism, sum(counts) + max((numbers[1] or 0) for numbers in mechanism.levels if numbers))


def nonzero(law):
    return {outcome: mass for outcome, mass in law.items() if mass}


@pytest.mark.parametrize("name", OPEN)
def test_every_run_over_occupied_places_has_the_chance_of_the_mechanism(name, monkeypatch):
    paths, levels = OPEN[name]
    mechanism = Mechanism(Q, T, levels)
    tape = Tape(monkeypatch, sum(paths.values()))
    assert nonzero(tape.runs(open_run(paths, mechanism))) == nonzero(exact_open(paths, mechanism))


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("block", thinned([1, 2, 3], 3))
def test_the_law_is_the_same_whatever_the_blocks(name, block, monkeypatch):
    """Blocks of single places and of several, and cuts at every level that these trees have."""
    monkeypatch.setattr(walk, "_BLOCK", block)
    paths, levels = OPEN[name]
    mechanism = Mechanism(Q, T, levels)
    tape = Tape(monkeypatch, sum(paths.values()))
    assert nonzero(tape.runs(open_run(paths, mechanism))) == nonzero(exact_open(paths, mechanism))


def test_heavy_keys_of_many_blocks_are_all_found(monkeypatch):
    """Keys of a thousand people are cells, whatever is drawn, and keys of one person never are.

    A token takes a hundred off some gap with a chance below 1e-15.
    """
    monkeypatch.setattr(walk, "_BLOCK", 16)
    heavy = np.random.default_rng(4).random(2000) < 0.3
    keys = np.repeat(np.arange(2000, dtype=np.uint64), np.where(heavy, 1000, 1))
    shape = GapShape.uniform(12, threshold=10, radius=5, margin=2)
    cells = find_cells(OpenTree.bits(11).count(keys).occupied, GapParameters(2.0, 2.0, shape))
    leaves = cells.levels == 11
    assert sorted(cells.places[leaves].tolist()) == np.flatnonzero(heavy).tolist()
    assert (np.abs(cells.gaps[leaves] - 1000) < 100).all()


def test_blocks_part_what_they_should(monkeypatch):
    """Power of the test above: there are several blocks, and groups are left for the top."""
    made = []
    monkeypatch.setattr(walk, "_BLOCK", 1)
    walked = walk._Walk.__init__
    monkeypatch.setattr(walk._Walk, "__init__", lambda self, *given: made.append(given[2].size) or walked(self, *given))
    paths, levels = OPEN["untested in the middle"]
    open_run(paths, Mechanism(Q, T, levels))()
    assert len(made) > 2
    assert made[-1] > 1


@pytest.mark.parametrize("name", DENSE)
def test_every_run_over_all_nodes_has_the_chance_of_the_mechanism(name, monkeypatch):
    parents, counts, levels = DENSE[name]
    mechanism = Mechanism(Q, T, levels)
    far = beyond(mechanism, counts)
    tape = Tape(monkeypatch, sum(counts), far)
    found = nonzero(tape.runs(dense_run(parents, counts, mechanism, far)))
    assert found == nonzero(exact_dense(parents, counts, mechanism, far))


def test_public_trees_may_leave_empty_nodes_out_where_they_are_never_cells(monkeypatch):
    """The walk over occupied places, and its law with the empty nodes."""
    parents, counts, mechanism = [-1, 0, 0, 1, 1], [0, 3, 0], Mechanism(Q, T, (U43,) * 3)
    tape = Tape(monkeypatch, 3)
    assert nonzero(tape.runs(dense_run(parents, counts, mechanism, 99))) == exact_dense(parents, counts, mechanism, 8)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("chain", {"skips_idle": True}),
        ("people at an inner node", {"keeps_largest": False}),
        ("star of heavy leaves, exact", {"token": False}),
        ("caterpillar", {"passes_x": True}),
        ("untested but one", {"floor": False}),
    ],
)
def test_laws_of_other_mechanisms_differ(name, rules, monkeypatch):
    """Power: the same runs do not have the chances of a mechanism that breaks one rule."""
    paths, levels = OPEN[name]
    mechanism = Mechanism(Q, T, levels)
    tape = Tape(monkeypatch, sum(paths.values()))
    wrong = exact_open(paths, Mechanism(Q, T, levels, Rules(**rules)))
    assert nonzero(tape.runs(open_run(paths, mechanism))) != nonzero(wrong)


def p_value(seen, exact, runs):
    """Chi-square of outcomes against a law; rare outcomes are pooled."""
    assert set(seen) <= set(exact)
    common = [(seen[o], runs * float(m)) for o, m in exact.items() if runs * m >= 10]
    rare = [(seen[o], runs * float(m)) for o, m in exact.items() if runs * m < 10]
    cells = [*common, *([tuple(map(sum, zip(*rare, strict=True)))] if rare else [])]
    observed, expected = (np.array(part) for part in zip(*[cell for cell in cells if cell[1] > 0], strict=True))
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1)


RUNS = 1500


@pytest.mark.parametrize("name", ["branches", "caterpillar", "star of heavy leaves"])
def test_samples_over_occupied_places_follow_the_law(name):
    """Chi-square with real noise; a false alarm in 1e9 runs."""
    paths, levels = OPEN[name]
    mechanism = Mechanism(Q, T, levels)
    run = open_run(paths, mechanism)
    assert p_value(Counter(run() for _ in range(RUNS)), exact_open(paths, mechanism), RUNS) > FALSE_ALARM


@pytest.mark.parametrize("name", ["by level", "untested"])
def test_samples_over_all_nodes_follow_the_law(name):
    parents, counts, levels = DENSE[name]
    mechanism = Mechanism(Q, T, levels)
    far = beyond(mechanism, counts)
    run = dense_run(parents, counts, mechanism, far)
    seen = Counter(run() for _ in range(RUNS))
    assert p_value(seen, exact_dense(parents, counts, mechanism, far), RUNS) > FALSE_ALARM


def test_samples_of_another_scale_are_rejected():
    """Power: at this size a token scale that is a third off does not pass."""
    paths, levels = OPEN["star of heavy leaves"]
    run = open_run(paths, Mechanism(Q, T, levels))
    wrong = exact_open(paths, Mechanism(Q, Fraction(1, 2), levels))
    assert p_value(Counter(run() for _ in range(RUNS)), wrong, RUNS) < FALSE_ALARM


def test_long_chains_are_drawn_beyond_one_table():
    """One key under 128 levels: its cell's level is geometric from the bottom up, its gap independent of it."""
    shape = GapShape.uniform(129, threshold=9, radius=8, margin=2)
    occupied = OpenTree.bits(128).count([7] * 3).occupied
    parameters = GapParameters(SCALE, TOKEN_SCALE, shape)
    runs = [find_cells(occupied, parameters) for _ in range(RUNS)]
    waits = np.array([129 - cells.levels[0] if cells.levels.size else 130 for cells in runs])
    success = float(noise_tail(Q, radius=8, least=6))
    edges = np.array([5, 15, 40, 64, 65, 66, 90, 129, 130])
    below = np.concatenate(([0], 1 - (1 - success) ** (edges - 1), [1]))
    expected, observed = np.diff(below) * RUNS, np.bincount(np.digitize(waits, edges), minlength=edges.size + 1)
    keep = expected > 5
    assert stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue > 1e-9
    gaps = np.bincount([cells.gaps[0] - 9 for cells in runs if cells.gaps.size], minlength=3)
    law = np.array([float(mass) for z, mass in noise_law(Q, 8, None) if z >= 6])
    assert stats.chisquare(gaps, law / law.sum() * gaps.sum()).pvalue > 1e-9


def test_the_largest_counts_neither_wrap_nor_raise():
    occupied = Occupied(np.array([2, 2, 1]), np.array([1, 0]), np.array([LIMIT, LIMIT, -5]), np.arange(3))
    for levels in ((0, 1, 2), (0,), (0, 1)):
        shape = GapShape(levels, (5,) * len(levels), (4,) * len(levels), (1,) * len(levels))
        cells = find_cells(occupied, GapParameters(1.0, 2.0, shape))
        assert cells.gaps.min() > LIMIT - 1000
        assert cells.gaps.max() <= LIMIT
    tree = Tree.from_parents([-1, 0, 0])
    pure = GapShape((0,), (5,), (None,), (1,), every_node=True)
    found = find_cells_of_tree(tree, np.array([LIMIT, LIMIT]), GapParameters(1.0, 2.0, pure))
    assert found.nodes.tolist() == [0]
    assert LIMIT - 1000 < found.gaps[0] <= LIMIT


def test_occupied_places_alone_are_no_walk_where_empty_nodes_may_be_cells():
    occupied = Tree.from_parents([-1, 0]).occupied(np.array([3]))
    shape = GapShape.uniform(2, threshold=3, radius=None, margin=0, every_node=True)
    with pytest.raises(ValueError, match="each threshold must exceed its radius"):
        find_cells(occupied, GapParameters(1.0, 1.0, shape))


def test_nobody_is_never_a_cell_at_scale_zero():
    tree = Tree.balanced(branching=2, depth=3)
    shape = GapShape.uniform(3, threshold=5, radius=4, margin=1)
    found = find_cells_of_tree(tree, np.array([9, 0, 2, 3]), GapParameters(0.0, 0.0, shape))
    assert found.nodes.tolist() == [2, 3]
    assert found.gaps.tolist() == [5, 9]


TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b",)])


def cells(counts, *, threshold, radius):
    shape = GapShape.uniform(3, threshold=threshold, radius=radius, margin=2, every_node=True)
    return find_cells_of_tree(TREE, np.array(counts), GapParameters(1.0, 1.0, shape))


def test_heavy_leaves_are_cells_and_their_gaps_hold_their_people_less_a_token():
    """A token above 400 has a chance below e**-400."""
    found = cells([1000, 0, 1000], threshold=30, radius=20)
    assert set(TREE.leaves[[0, 2]]) <= set(found.nodes.tolist())
    assert (found.gaps[np.isin(found.nodes, TREE.leaves)] > 600).all()
    assert (np.diff(found.nodes) > 0).all()


def test_empty_nodes_are_tested_where_noise_may_reach_the_threshold():
    """With threshold 3 and noise of scale 1 an empty node is a cell with a chance of about e**-3: in 400 runs often."""
    shown = sum(cells([0, 0, 0], threshold=3, radius=None).nodes.size for _ in range(400))
    assert shown > 0
