"""The walk against the law of the mechanism: every run, exactly; parameters against the theorem's functions."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from opendp_tree import OpenTree, Tree, noise
from opendp_tree.mechanisms.find import (
    PartitionParameters,
    choose_parameters,
    closed_parameters,
    find_cells,
    find_in_fringe,
    three_digits,
)
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.partition import Fringe, estimator_loss, noise_tail
from opendp_tree.trees.nodes import KnownNodes, Occupied
from tests.goodness_of_fit import FALSE_ALARM
from tests.privacy.partition_law import FAR, RIGHT, Part, Rules, closed_people, noise_law, tree_law
from tests.thoroughness import slow

Q, T = Fraction(1, 2), Fraction(1, 3)
SCALE, TOKEN_SCALE = 1 / math.log(2), 1 / math.log(3)  # at which the ratios are Q and T, to the last bit of a float
U43, U32 = (4, 3, 1), (3, 2, 1)
# Where people are, what is tested below the root, which nodes are known, and which of these are closed.
CASES = {
    "one person": ({("a", "b"): 1}, (U43,) * 2, [], []),
    "chain": ({("a", "b", "c"): 3}, (U43,) * 3, [], []),
    "chain of a crowd": ({("a", "b"): 6}, (U43,) * 2, [], []),
    "branches": ({("a", "x"): 1, ("a", "y"): 2, ("b",): 1}, (U32,) * 2, [], []),
    "people at an inner node": ({("a",): 2, ("a", "x"): 3}, ((4, 2, 1),) * 2, [], []),
    "people at the root": ({(): 2, ("a",): 3}, (U43,), [], []),
    "star of heavy leaves": ({(c,): 3 for c in "ab"}, (U32,), [], []),
    "star below a node": ({("s", c): 3 for c in "ab"}, ((4, 2, 0),) * 2, [], []),
    "caterpillar": ({("a", "b", "c"): 2, ("a", "b"): 1, ("a",): 1}, ((4, 2, 1),) * 3, [], []),
    "thresholds by level": ({("a", "b", "c"): 3, ("d",): 1}, ((5, 3, 1), (4, 2, 1), (3, 1, 0)), [], []),
    "radii by level": ({("a", "b", "c"): 2}, ((4, 2, 1), (4, 3, 1), (4, 2, 2)), [], []),
    "nobody": ({}, (U43,) * 2, [], []),
    "known leaf": ({("a", "x"): 3, ("a", "y"): 2}, (U32,) * 2, [("a", "x")], []),
    "known and nobody there": ({("a", "x"): 3}, (U32,) * 2, [("b", "y"), ("c",)], []),
    "known state": ({("a", "x"): 2, ("b", "y"): 3, ("a",): 1}, (U32,) * 2, [("a",)], []),
    "known chain": ({("a", "b", "c"): 2, ("a", "d", "e"): 2}, (U32,) * 3, [("a", "b", "c")], []),
    "closed root": ({("a",): 2, ("b", "y"): 3}, (U32,) * 2, [("a",)], [()]),
    "closed state": ({("a", "x"): 2, ("a", "y"): 2, ("b", "z"): 2}, (U32,) * 2, [("a", "x")], [("a",)]),
}


class Tape:
    """Noise that goes through all its values: `runs` repeats a run until every choice has been taken."""

    def __init__(self, monkeypatch, people, far=None):
        self.ends = {TOKEN_SCALE: (T, max(people, 1)), SCALE: (Q, far)}
        for name in ("geometric", "truncated_geometric", "first_reach", "truncated_geometric_from"):
            monkeypatch.setattr(noise, name, getattr(self, name))
        monkeypatch.setattr(noise, "skewed_geometric", lambda right, left, size: np.zeros(size, dtype=np.int64))

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

    def _draws(self, laws):
        drawn = []
        for outcomes in laws:
            if self.place == len(self.choices):
                self.choices.append([0, len(outcomes)])
            value, mass = outcomes[self.choices[self.place][0]]
            self.place, self.mass = self.place + 1, self.mass * mass
            drawn.append(value)
        return np.array(drawn, dtype=np.int64)

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


def parameters_of(levels):
    one = Fraction(1)
    fringes = [
        Fringe(*zip(*levels[known:], strict=True), Fraction(SCALE), Fraction(TOKEN_SCALE), (one, one))
        for known in range(len(levels))
    ]
    return PartitionParameters((*fringes, Fringe((), (), (), one, one, (one, one))), one, one)


def run_of(paths, levels, names, closed):
    """A run: cells as paths with their gaps, and the rests of known nodes."""
    tree = OpenTree.columns(len(levels))
    counts = tree.count([path for path, people in paths.items() for _ in range(people)])
    known = KnownNodes.of(tree, names, closed=closed)
    placed, is_known, is_closed = known.among(counts)
    keys = placed.keys
    rows = [
        tuple(column[row] for column in keys.columns[:level])
        for row, level in zip(keys.rows.tolist(), placed.occupied.levels.tolist(), strict=True)
    ]
    assert {rows[place] for place in np.flatnonzero(is_known)} == set(known.paths)
    parameters = parameters_of(levels)

    def run():
        *cells, noisy = find_cells(placed.occupied, is_known, is_closed, parameters)
        triples = zip(*(part.tolist() for part in cells), strict=True)
        rests = zip(np.flatnonzero(is_known).tolist(), noisy.tolist(), strict=True)
        return (
            frozenset((rows[place][:level], gap) for place, level, gap in triples),
            frozenset((rows[place], rest) for place, rest in rests),
        )

    return run


def exact_law(paths, levels, names, closed):
    every = [()] + [path[:length] for path in (*paths, *names, *closed) for length in range(1, len(path) + 1)]
    prefixes = sorted(set(every), key=lambda prefix: (len(prefix), prefix))
    number = {prefix: node for node, prefix in enumerate(prefixes)}
    parents = [-1 if not prefix else number[prefix[:-1]] for prefix in prefixes]
    known = {number[path[:length]] for path in (*names, *closed, ()) for length in range(len(path) + 1)}
    shut = {number[path] for path in closed}
    own = closed_people(parents, [paths.get(prefix, 0) for prefix in prefixes], known, shut)
    parts = {
        node: Part(Q, T, Q, Q, () if node in shut else tuple(levels[len(prefixes[node]) :])) for node in sorted(known)
    }
    kept = {node for node in range(len(prefixes)) if node in known or own[node] or _open(node, parents, known, shut)}
    law = defaultdict(Fraction)
    for (cells, rests), mass in tree_law(*_restricted(parents, own, parts, kept)).items():
        back = sorted(kept)
        found = frozenset((prefixes[back[node]], gap) for node, gap in cells)
        law[(found, frozenset((prefixes[back[node]], rest) for node, rest in rests))] += mass
    return law


def _open(node, parents, known, shut):
    """Whether an unknown node is below an open known one."""
    while node not in known:
        node = parents[node]
    return node not in shut


def _restricted(parents, own, parts, kept):
    """The tree without the unknown nodes below closed ones, where nobody is."""
    place = {node: at for at, node in enumerate(sorted(kept))}
    up = [-1 if parents[node] < 0 else place[parents[node]] for node in sorted(kept)]
    return up, [own[node] for node in sorted(kept)], {place[node]: part for node, part in parts.items()}


@pytest.mark.parametrize("name", CASES)
def test_every_run_has_the_chance_of_the_mechanism(name, monkeypatch):
    paths, levels, names, closed = CASES[name]
    tape = Tape(monkeypatch, sum(paths.values()))
    found = {outcome: mass for outcome, mass in tape.runs(run_of(paths, levels, names, closed)).items() if mass}
    assert found == {outcome: mass for outcome, mass in exact_law(paths, levels, names, closed).items() if mass}


@pytest.mark.parametrize("name", CASES)
def test_cells_hold_for_sure_what_their_gaps_exceed_radii_by(name):
    """At every node of every outcome; and no smaller radius would do."""
    paths, levels, names, closed = CASES[name]
    nodes = {path[:length] for path in paths for length in range(len(path) + 1)}
    truth = {node: sum(people for path, people in paths.items() if path[: len(node)] == node) for node in nodes}
    found = [cells for (cells, _), mass in exact_law(paths, levels, names, closed).items() if mass and cells]
    spare = []
    for cells in found:
        sure = {cell: gap - levels[len(cell) - 1][1] for cell, gap in cells}
        for node, people in truth.items():
            spare += [people - sum(each for cell, each in sure.items() if cell[: len(node)] == node)]
    assert min(spare, default=0) == 0


# Without known nodes: a tree of all of whose nodes some levels are tested, the others None.

OPEN = {
    "tested root": ({("a", "b"): 3, (): 2}, (U43,) * 3),
    "untested in the middle": ({("a", "b"): 2, ("a", "c"): 2, ("d", "e"): 1}, (U43, None, (3, 2, 0))),
    "untested leaves": ({("a", "b"): 2, ("a", "c"): 3, ("d",): 1}, (U43, U43, None)),
    "untested root": ({("a", "b"): 3, ("c", "d"): 2, (): 5}, (None, (4, 2, 1), U43)),
    "untested but one": ({("a", "b"): 3, ("a", "c"): 2, ("d", "e"): 5}, (None, U43, None)),
    "nobody": ({}, (U43,) * 2),
}
DENSE = {
    "without end": ([-1, 0, 0], [0, 1], ((2, None, 0),) * 2),
    "without end, a chain": ([-1, 0, 1], [2], ((2, None, 0),) * 3),
    "without end, blurred": ([-1, 0], [3], ((3, None, 1),) * 2),
    "by level": ([-1, 0, 0, 1], [1, 1], ((3, 2, 0), (3, 2, 0), (2, None, 0))),
    "untested": ([-1, 0, 0, 1, 1], [1, 2, 0], ((2, 1, 0), None, (2, None, 1))),
    "ids in any order": ([2, 2, -1, 0, 0], [3, 1, 2], ((3, None, 1), (2, 1, 1), None)),
}


def silent_fringe(levels):
    numbers = [level for level in levels if level is not None]
    return Fringe(*zip(*numbers, strict=True), Fraction(SCALE), Fraction(TOKEN_SCALE), None)


def levels_in_use(levels):
    return tuple(number for number, level in enumerate(levels) if level is not None)


def silent_law(parents, own, levels, rules=RIGHT):
    """The law of cells below a known silent node, which is put on top of the tree."""
    up = [-1, *(parent + 1 for parent in parents)]
    law = tree_law(up, [0, *own], {0: Part(Q, T, None, None, levels)}, rules)
    return {frozenset((node - 1, gap) for node, gap in cells): mass for (cells, _), mass in law.items() if mass}


def open_law(paths, levels, rules=RIGHT):
    prefixes = {path[:length] for path in paths for length in range(len(path) + 1)} | {()}
    prefixes = sorted(prefixes, key=lambda prefix: (len(prefix), prefix))
    up = [-1 if not prefix else prefixes.index(prefix[:-1]) for prefix in prefixes]
    law = silent_law(up, [paths.get(prefix, 0) for prefix in prefixes], levels, rules)
    return {frozenset((prefixes[node], gap) for node, gap in cells): mass for cells, mass in law.items()}


def open_run(paths, levels):
    counts = OpenTree.columns(len(levels) - 1).count([path for path, people in paths.items() for _ in range(people)])
    rows = sorted(paths)

    def run():
        found = find_in_fringe(counts.occupied, levels_in_use(levels), silent_fringe(levels))
        triples = zip(*(part.tolist() for part in found), strict=True)
        return frozenset((rows[place][:level], gap) for place, level, gap in triples)

    return run


@pytest.mark.parametrize("name", OPEN)
def test_every_run_without_known_nodes_has_the_chance_of_the_mechanism(name, monkeypatch):
    paths, levels = OPEN[name]
    found = Tape(monkeypatch, sum(paths.values())).runs(open_run(paths, levels))
    assert {outcome: mass for outcome, mass in found.items() if mass} == open_law(paths, levels)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("tested root", {"skips_idle": True}),
        ("tested root", {"token": False}),
        ("untested root", {"passes_x": True}),
        ("untested but one", {"floor": False}),
    ],
)
def test_laws_of_other_mechanisms_differ(name, rules, monkeypatch):
    """Power: the same runs do not have the chances of a mechanism that breaks one rule."""
    paths, levels = OPEN[name]
    found = Tape(monkeypatch, sum(paths.values())).runs(open_run(paths, levels))
    assert {outcome: mass for outcome, mass in found.items() if mass} != open_law(paths, levels, Rules(**rules))


@pytest.mark.parametrize("name", DENSE)
def test_every_run_over_all_nodes_has_the_chance_of_the_mechanism(name, monkeypatch):
    """Gaps that only noise without end reaches are one outcome. The law wants parents before children."""
    parents, counts, levels = DENSE[name]
    tree, far = Tree.from_parents(parents), 8
    order = np.concatenate(tree.levels).tolist()
    own = [0] * len(parents)
    for leaf, people in zip(tree.leaves.tolist(), counts, strict=True):
        own[order.index(leaf)] = people
    exact = defaultdict(Fraction)
    up = [-1 if parents[node] < 0 else order.index(parents[node]) for node in order]
    for cells, mass in silent_law(up, own, levels).items():
        exact[frozenset((order[node], min(gap, far)) for node, gap in cells)] += mass
    occupied = tree.occupied(np.array(counts), every=True)

    def run():
        places, at, gaps = find_in_fringe(occupied, levels_in_use(levels), silent_fringe(levels))
        nodes = tree.ancestors_at(occupied.ids[places], at)
        return frozenset(zip(nodes.tolist(), np.minimum(gaps, far).tolist(), strict=True))

    found = Tape(monkeypatch, sum(counts), far).runs(run)
    assert {outcome: mass for outcome, mass in found.items() if mass} == exact


def test_long_chains_are_drawn_beyond_one_table():
    """One key under 128 levels: its cell's level is geometric from the bottom up, its gap independent of it.

    Real noise; each of two tests alarms falsely once in 10**9 runs.
    """
    occupied, fringe = OpenTree.bits(128).count([7] * 3).occupied, silent_fringe(((9, 8, 2),) * 129)
    runs = [find_in_fringe(occupied, tuple(range(129)), fringe) for _ in range(1500)]
    waits = np.array([129 - levels[0] if levels.size else 130 for _, levels, _ in runs])
    success = float(noise_tail(Q, radius=8, least=6))
    edges = np.array([5, 15, 40, 64, 65, 66, 90, 129, 130])
    below = np.concatenate(([0], 1 - (1 - success) ** (edges - 1), [1]))
    expected, observed = np.diff(below) * len(runs), np.bincount(np.digitize(waits, edges), minlength=edges.size + 1)
    keep = expected > 5
    fit = stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum())
    assert fit.pvalue > FALSE_ALARM
    gaps = np.bincount([gaps[0] - 9 for _, _, gaps in runs if gaps.size], minlength=3)
    law = np.array([float(mass) for z, mass in noise_law(Q, 8, None) if z >= 6])
    assert stats.chisquare(gaps, law / law.sum() * gaps.sum()).pvalue > FALSE_ALARM


def test_the_largest_counts_neither_wrap_nor_raise():
    occupied = Occupied(np.array([2, 2, 1]), np.array([1, 0]), np.array([LIMIT, LIMIT, -5]), np.arange(3))
    for levels in (((5, 4, 1),) * 3, ((5, 4, 1), None, None), ((5, None, 1),) * 3):
        _, _, gaps = find_in_fringe(occupied, levels_in_use(levels), silent_fringe(levels))
        assert gaps.max() <= LIMIT
        assert (gaps > LIMIT - 1000).any()


def test_bits_and_labels_have_the_same_known_places():
    """The same tree as bits: places, levels, meets and counts agree."""
    tree, bits = OpenTree.columns(3), OpenTree.bits(3)
    keys = [0, 0, 3, 5, 5, 5]
    paths = [(0b010, 3), (0b100, 1), (0b110, 2)]
    one, first, _ = KnownNodes.of(bits, paths).among(bits.count(keys))
    labels = [tuple(key >> shift & 1 for shift in (2, 1, 0)) for key in keys]
    names = [tuple(prefix >> shift & 1 for shift in (2, 1, 0)[:length]) for prefix, length in paths]
    two, second, _ = KnownNodes.of(tree, names).among(tree.count(labels))
    assert first.tolist() == second.tolist()
    for name in ("levels", "meets", "counts"):
        assert getattr(one.occupied, name).tolist() == getattr(two.occupied, name).tolist()


@pytest.mark.parametrize("depth", [2, 3, 5, 9, 10, 33, *slow([4, 7, 129])])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 100.0, *slow([0.1, 10.0])])
@pytest.mark.parametrize("d_in", [1, 3])
def test_parameters_keep_to_the_budget_and_use_it(depth, epsilon, d_in):
    for measuring in (None, 0.2, 0.8):
        chosen = choose_parameters(depth, Fraction(epsilon), Fraction(1e-6), d_in=d_in, measuring=measuring)
        spent, lost = estimator_loss(chosen.fringes, alphas=chosen.alphas, betas=chosen.betas, k=d_in)
        assert epsilon * (1 - 1e-9) < round_up(spent) <= epsilon
        assert round_up(lost) <= 1e-6
        assert [len(fringe.levels) for fringe in chosen.fringes] == list(range(depth))[::-1]


def test_closed_parameters_lose_no_delta():
    for depth in (1, 2, 4):
        chosen = closed_parameters(depth, Fraction(1), d_in=2)
        spent, lost = estimator_loss(chosen.fringes, alphas=chosen.alphas, betas=chosen.betas, k=2)
        assert 1 - 1e-9 < round_up(spent) <= 1
        assert lost.hi == 0


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Fraction(1), Fraction(24301, 10000), Fraction(10) ** 14, Fraction(999, 1)]
)
def test_three_digits_round_up_by_at_most_a_hundredth(value):
    found = three_digits(value)
    assert value <= Fraction(found) <= value * Fraction(1011, 1000)
    assert len(f"{found:.15g}".replace(".", "").lstrip("0").rstrip("0")) <= 3
