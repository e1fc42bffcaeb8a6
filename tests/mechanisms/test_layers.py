"""Layers are partitions whose price is exact; shares balance levels."""

from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import saturate
from opendp_tree.mechanisms import layers as made
from opendp_tree.mechanisms.layers import ShownTree, choose_layers, final_variances, measure


def random_tree(rng, depth, wide=4):
    """A shown tree of random shape, some of whose nodes end early."""
    levels, parents, frontier = [0], [-1], [0]
    for level in range(1, depth):
        following = []
        for node in frontier:
            for _ in range(int(rng.integers(0 if level > 1 else 1, wide))):
                following.append(len(levels))
                levels.append(level)
                parents.append(node)
        frontier = following
    size = len(levels)
    inner = np.bincount(np.array(parents[1:], dtype=int), minlength=size) > 0
    cells = ~inner | (rng.random(size) < 0.3)
    cells[0] = False
    known = np.arange(size) == 0
    gaps = np.where(cells, rng.integers(30, 300, size), 0)
    return ShownTree(np.array(levels), np.array(parents), depth, cells, known, gaps)


@pytest.mark.parametrize("depth", [2, 3, 5, 9, 12])
@pytest.mark.parametrize("seed", range(4))
def test_every_person_is_in_exactly_one_set_of_each_layer(depth, seed):
    rng = np.random.default_rng(seed)
    shown = random_tree(rng, depth)
    chosen = choose_layers(shown, np.full(shown.levels.size, 20.0), Fraction(1, 3), Fraction(1, 2))
    for layer in chosen.layers:
        cut, above = np.zeros(shown.levels.size, dtype=bool), np.zeros(shown.levels.size, dtype=bool)
        cut[layer.nodes], above[layer.rests] = True, True
        assert not (cut & above).any()
        assert chosen.marked[cut | above].all()
        for place in range(shown.levels.size):
            way = [place]
            while shown.parents[way[-1]] >= 0:
                way.append(int(shown.parents[way[-1]]))
            whole = sum(cut[node] for node in way)
            deepest = next(node for node in way if chosen.marked[node])
            assert whole + (above[deepest] and not whole) == 1


@pytest.mark.parametrize("depth", [2, 4, 12])
def test_layers_cost_what_was_set_aside_and_no_more(depth):
    rng = np.random.default_rng(depth)
    for alphas, betas in (
        (Fraction(1, 3), Fraction(1, 2)),
        (Fraction(1, 10**6), Fraction(7)),
        (Fraction(1e-9), Fraction(40)),
    ):
        shown = random_tree(rng, depth)
        right, left = choose_layers(shown, np.full(shown.levels.size, 20.0), alphas, betas).spent()
        assert alphas * Fraction(98, 100) <= right <= alphas
        assert betas * Fraction(98, 100) <= left <= betas


def test_measured_sums_are_exact_without_noise(monkeypatch):
    rng = np.random.default_rng(3)
    monkeypatch.setattr(made.noise, "skewed_geometric", lambda right, left, size: np.zeros(size, dtype=np.int64))
    shown = random_tree(rng, 4)
    own = rng.integers(0, 50, shown.levels.size)
    people = shown.totals(own.astype(float)).astype(np.int64)
    chosen = choose_layers(shown, np.full(shown.levels.size, 20.0), Fraction(1), Fraction(1))
    for part in measure(chosen, *saturate.split(people)):
        assert part.sums.sum() == people[0]
        assert (part.sums[: part.nodes.size] == people[part.nodes]).all()


def test_sets_of_huge_counts_are_clamped_one_by_one(monkeypatch):
    """A parent's sum beyond int64 must not take its rest along: neighbours would differ in two sets."""
    monkeypatch.setattr(made.noise, "skewed_geometric", lambda right, left, size: np.zeros(size, dtype=np.int64))
    shown = random_tree(np.random.default_rng(1), 3)
    own = np.full(shown.levels.size, saturate.LIMIT // 3)
    own[0] = 7
    halves = [shown.totals(half.astype(float)).astype(np.int64) for half in saturate.split(own)]
    chosen = choose_layers(shown, np.full(shown.levels.size, 20.0), Fraction(1), Fraction(1))
    rests = [part.sums[part.nodes.size] for part in measure(chosen, *halves) if 0 in part.rests.tolist()]
    assert rests
    assert set(rests) == {7}


def test_variances_are_those_of_least_squares():
    rng = np.random.default_rng(5)
    shown = random_tree(rng, 4)
    size = shown.levels.size
    rest, precision = rng.uniform(1, 9, size), rng.uniform(0, 1, size)
    holds = np.zeros((size, size))  # node by rest
    for place in range(size):
        node = place
        while node >= 0:
            holds[node, place] = 1
            node = int(shown.parents[node])
    information = np.diag(1 / rest) + holds.T @ np.diag(precision) @ holds
    exact = np.diag(holds @ np.linalg.inv(information) @ holds.T)
    assert np.allclose(final_variances(shown, rest, precision), exact)
