"""The walk over occupied places against the enumerated law of the node-by-node mechanism."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from opendp_tree import OpenTree, Tree
from opendp_tree.measurements.partition_walk import PartitionWalk
from opendp_tree.theorems.tree_partition import PartitionShape
from tests.goodness_of_fit import FALSE_ALARM
from tests.privacy.partition_law import RIGHT, Rules, law

HALF = 1 / math.log(2)  # the scale at which exp(-1/scale) is 1/2, to the last bit of a float
RUNS = 2000

# Paths of the leaves (or inner nodes) with people: branches, chains, short keys, wide stars, nested cells.
CASES = {
    "chain": ({("a", "b", "c", "d"): 6}, (5, 7, 4, 2)),
    "chain, shared token": ({("a", "b", "c", "d"): 8}, (5, 9, 3, 3)),
    "two carriers meet": ({("a", "x"): 6, ("a", "y"): 6, ("b",): 3}, (3, 7, 4, 2)),
    "people at an inner node": ({("a",): 6, ("a", "x"): 5, ("a", "y", "z"): 4}, (4, 7, 4, 2)),
    "people at the root": ({(): 4, ("a",): 5, ("b", "c"): 6}, (3, 7, 4, 2)),
    "star of heavy leaves": ({(c,): 9 for c in "abcde"}, (2, 7, 3, 1)),
    "star with people at its centre": ({(): 5, **{(c,): 7 for c in "abc"}}, (2, 7, 4, 2)),
    "chains that meet": ({("a", "b", "x"): 5, ("a", "b", "y"): 3, ("c", "d", "e"): 6}, (4, 7, 4, 2)),
    "light leaves": ({(c, d): 2 for c in "ab" for d in "xyz"}, (3, 7, 4, 2)),
}


def spanned(paths):
    """Parents and own counts of the tree that the paths span, and each node's prefix."""
    prefixes = sorted(
        {path[:length] for path in paths for length in range(len(path) + 1)} | {()}, key=lambda p: (len(p), p)
    )
    number = {prefix: node for node, prefix in enumerate(prefixes)}
    up = [-1 if not prefix else number[prefix[:-1]] for prefix in prefixes]
    return up, [paths.get(prefix, 0) for prefix in prefixes], number


def walk_open(paths, shape):
    """One run on an open tree: the cells as prefixes."""
    tree = OpenTree.columns(shape.depth - 1)
    counts = tree.count([path for path, people in paths.items() for _ in range(people)])
    rows = sorted(paths)

    def run():
        cells = PartitionWalk(counts.occupied, HALF, shape).run()
        pairs = zip(cells.places.tolist(), cells.levels.tolist(), strict=True)
        return frozenset(rows[place][:level] for place, level in pairs)

    return run


def walk_public(paths, shape):
    """One run on a public tree with empty leaves besides; only for people at leaves."""
    empty = [(*path[:-1], "empty") for path in paths]
    tree = Tree.from_paths([*paths, *dict.fromkeys(empty)])
    occupied = tree.occupied(tree.count([path for path, people in paths.items() for _ in range(people)]))

    def run():
        cells = PartitionWalk(occupied, HALF, shape).run()
        return frozenset(tree.path(node) for node in tree.ancestors_at(occupied.names[cells.places], cells.levels))

    return run


def p_value(seen, exact, runs):
    """Chi-square of outcomes against a law; rare outcomes are pooled."""
    assert set(seen) <= set(exact)
    common = [(seen[o], runs * float(m)) for o, m in exact.items() if runs * m >= 10]
    rare = [(seen[o], runs * float(m)) for o, m in exact.items() if runs * m < 10]
    cells = [*common, *([tuple(map(sum, zip(*rare, strict=True)))] if rare else [])]
    observed, expected = (np.array(part) for part in zip(*[cell for cell in cells if cell[1] > 0], strict=True))
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1)


def exact_law(paths, shape, rules=RIGHT):
    up, own, number = spanned(paths)
    prefix = {node: path for path, node in number.items()}
    return {
        frozenset(prefix[node] for node in cells): mass
        for cells, mass in law(up, own, Fraction(1, 2), shape, rules).items()
    }


@pytest.mark.parametrize("name", CASES)
def test_cells_follow_the_exact_law(name):
    """A false alarm in 1e9 runs for each; open trees, and public ones where people sit at leaves only."""
    paths, numbers = CASES[name]
    shape = PartitionShape(*numbers)
    exact = exact_law(paths, shape)
    assert sum(exact.values()) == 1
    at_leaves = not any(other[: len(path)] == path for path in paths for other in paths if other != path)
    for walk in (walk_open, walk_public) if at_leaves else (walk_open,):
        run = walk(paths, shape)
        seen = Counter(run() for _ in range(RUNS))
        assert p_value(seen, exact, RUNS) > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("chain, shared token", Rules(fresh_tokens=True)),
        ("chains that meet", Rules(light_tested=False)),
        ("people at an inner node", Rules(tops_pass=True)),
    ],
)
def test_wrong_laws_are_rejected(name, rules):
    """Power: the same sample does not pass for a mechanism that breaks one rule."""
    paths, numbers = CASES[name]
    shape = PartitionShape(*numbers)
    run = walk_open(paths, shape)
    seen = Counter(run() for _ in range(RUNS))
    wrong = exact_law(paths, shape, rules)
    assert not set(seen) <= set(wrong) or p_value(seen, wrong, RUNS) < FALSE_ALARM


def test_long_chains_are_drawn_beyond_one_table():
    """One key under 128 levels: the level of its cell is geometric from the bottom up; a false alarm in 1e9 runs."""
    shape = PartitionShape(129, 9, 6, 2)
    counts = OpenTree.bits(128).count([7] * 5)
    success = float(_top_chance(shape, 5))
    levels = []
    for _ in range(RUNS):
        cells = PartitionWalk(counts.occupied, HALF, shape).run()
        levels.append(int(cells.levels[0]) if cells.levels.size else -1)
    waits = np.where(np.array(levels) >= 0, 129 - np.array(levels), 130)
    edges = np.array([5, 15, 40, 64, 65, 66, 90, 129, 130])
    below = np.concatenate(([0], 1 - (1 - success) ** (edges - 1), [1]))
    expected, observed = np.diff(below) * RUNS, np.bincount(np.digitize(waits, edges), minlength=edges.size + 1)
    keep = expected > 5
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > FALSE_ALARM


def _top_chance(shape, residual):
    from opendp_tree.theorems.tree_partition import top_chance

    return top_chance(Fraction(1, 2), radius=shape.radius, missing=shape.threshold - residual)


def test_residuals_of_unmarked_nodes_follow_the_stated_tail():
    """P(r >= T + x) <= (w / L) q**(x + 1), as a binomial test at six standard errors."""
    shape = PartitionShape(2, 9, 5, 2)
    runs = 3000
    tree = Tree.from_parents([-1, 0])
    for excess in (0, 2, 4):
        people = shape.threshold + excess
        occupied = tree.occupied(np.array([people]))
        unmarked = sum(PartitionWalk(occupied, HALF, shape).run().places.size == 0 for _ in range(runs))
        bound = people / shape.carrier * 0.5 ** (excess + 1)
        assert unmarked <= runs * bound + 6 * math.sqrt(runs * bound)
