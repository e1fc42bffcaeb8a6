"""Exact: all small inputs of rows with values, all rows that can come or go, every outcome, in rational numbers.

M is 2 or 3 instead of 2**20; 1/scale is ln 2, so that the mass of an integer z is proportional to 2**-|z|, and epsilon
over ln 2 is a power of 2. What is summed where is asked of the code that releases it, with its noise set to 0.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import polars as pl
import pytest

from opendp_tree import noise
from opendp_tree.mechanisms import means as means_layers
from opendp_tree.mechanisms.layers import ShownTree, cut_by_level, make_layers
from opendp_tree.mechanisms.means import measure_value, value_scales
from opendp_tree.rows.counting import step_of
from opendp_tree.rows.unit import Value
from opendp_tree.theorems.sums import centred_l1, found_epsilon, pair_l1, sums_epsilon
from tests.frame_truth import steps_of
from tests.privacy.divergence import hockey_stick, joint, largest_ratio, on_window, worst_ratio
from tests.privacy.partition_law import Part, lumped, tree_law
from tests.privacy.people_law import noisy_rests

HALF = Fraction(1, 2)
STEPS = 3
PARENTS = np.array([-1, 0, 0, 1, 1, 2])
"""A root, two nodes below it, three leaves."""
LEVELS = np.array([0, 1, 1, 2, 2, 2])
SHOWN = [
    ShownTree(LEVELS, PARENTS, 3, np.array(cells) > 0, np.array(cells) == 2, np.zeros(6, dtype=np.int64))
    for cells in ([2, 2, 0, 2, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1])
]
"""The same nodes, with different cells: nested and known ones among them."""
ROWS = list(product((0, 1, 2, 3, 4, 5), range(STEPS + 1)))
"""A row is a node and a step."""


@pytest.fixture(autouse=True)
def small_steps_without_noise(monkeypatch):
    monkeypatch.setattr(means_layers, "STEPS", STEPS)
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))


def node_sums(rows):
    """All rows at or below each node."""
    counts, steps = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64)
    for place, step in rows:
        node = place
        while node >= 0:
            counts[node] += 1
            steps[node] += step
            node = PARENTS[node]
    return steps, counts


def released(shown, rows):
    """Every number that is released, layer by layer, before its noise."""
    marked, cuts = cut_by_level(shown, [0, 1])
    layers = make_layers(shown, marked, cuts, np.ones(len(cuts)), Fraction(1), Fraction(1))
    measured = measure_value(shown, layers, *value_scales(layers, [Fraction(1)], Fraction(1)), *node_sums(rows))
    return [np.concatenate((part.high.sums, part.low.sums)) for part in measured.pairs], measured.centred


def moved(one, other):
    return [int(np.abs(a - b).sum()) for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("count", [1, 2])
def test_pairs_and_centred_sums_move_by_what_the_theorem_says_and_no_less(shown, count):
    for others in ([], [(3, 1), (1, 2)]):
        pairs, centred = released(shown, others)
        most_pair, most_centred = 0, 0
        for added in combinations_with_replacement(ROWS, count):
            more_pairs, more_centred = released(shown, [*others, *added])
            # Every row moves every layer of pairs by the same, wherever it is and whatever its step.
            assert moved(pairs, more_pairs) == [pair_l1(count, steps=STEPS)] * len(pairs)
            most_pair = max(most_pair, *moved(pairs, more_pairs))
            most_centred = max(most_centred, *moved([centred], [more_centred]))
        assert most_pair == pair_l1(count, steps=STEPS)
        assert most_centred == centred_l1(count, steps=STEPS)


WINDOW = range(-4, 5)


def one_set(rows, steps=2):
    return [sum(rows), sum(steps - step for step in rows)]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_epsilon_of_a_pair_is_tight(count):
    pairs = [((), rows) for rows in product(range(3), repeat=count)]
    found = worst_ratio(lambda rows: on_window(one_set(rows), WINDOW), pairs)
    assert found == Fraction(2) ** int(sums_epsilon(count, pairs=[Fraction(1)], steps=2))


def test_epsilon_adds_over_layers_values_and_rows():
    scales = [Fraction(3), Fraction(7, 2)]
    for k in range(4):
        whole = sums_epsilon(k, pairs=scales, centred=scales[:1])
        assert whole == k * sums_epsilon(1, pairs=scales, centred=scales[:1])
        assert whole == sum(sums_epsilon(k, pairs=[scale]) for scale in (*scales, scales[0]))
        assert found_epsilon(k, finding=Fraction(1, 3), measuring=[Fraction(1, 6)]) == Fraction(k, 2)


def moving(shift):
    """The laws of one noisy number before and after it moves, exactly: beyond both, all outcomes have one ratio."""
    return [dict(lumped(HALF, HALF, count, *sorted((0, shift)))) for count in (0, shift)]


def released_law(own, moves, side, parts):
    """Cells, gaps and rests of a root with two leaves, and every noisy number that one more row moves."""
    numbers, found = joint([moving(shift)[side] for shift in moves]), defaultdict(Fraction)
    for (cells, rests), chance in tree_law((-1, 0, 0), own, parts).items():
        for told, mass in noisy_rests(rests, parts):
            found[cells, told] += chance * mass
    return {(cells, told): chance * mass for cells, chance in found.items() for told, mass in numbers.items()}, found


@pytest.mark.parametrize("known", [(0,), (0, 1)], ids=str)
def test_cells_and_sums_together_lose_no_more_than_the_sum_of_both(known):
    parts = {node: Part(HALF, HALF, HALF, HALF, ((4, 3, 1),) if node == 0 else ()) for node in known}
    layers = Fraction(2) ** int(sums_epsilon(1, pairs=[Fraction(1)], centred=[Fraction(1)], steps=2))
    tight = False
    for first, second, leaf, step in product(range(4), range(2), (1, 2), range(3)):
        own = (0, first, second)
        larger = tuple(count + (place == leaf) for place, count in enumerate(own))
        moves = (step, 2 - step, 2 * step - 2)  # P, Q, and the centred sum of the deepest node shown, whichever it is
        before, found = released_law(own, moves, 0, parts)
        after, found_after = released_law(larger, moves, 1, parts)
        for ratio in (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(5, 2)):
            for p, q, of_p, of_q in ((before, after, found, found_after), (after, before, found_after, found)):
                assert hockey_stick(p, q, ratio * layers) <= hockey_stick(of_p, of_q, ratio)
        lost = hockey_stick(found_after, found, Fraction(2))
        # At an end of the bounds all layers move as far as they can, and no smaller epsilon would do.
        tight |= step == 2 and hockey_stick(after, before, 2 * layers * Fraction(99, 100)) > lost
    assert tight


# Steps: exact, and the same in the program.


EXTREMES = [0.0, -0.0, 1e-300, 24.999999, 25.0, 250.0, 499.9999, 500.0, 1e308, -1e308, float("inf"), float("-inf")]


@pytest.mark.parametrize("bounds", [(0, 500), (-30, 180), (-1e290, 1e290), (0.1, 0.3), (-7, -5)])
def test_steps_of_the_program_are_those_of_the_theorem_up_to_a_tie(bounds):
    value = Value("x", bounds=bounds)
    rng = np.random.default_rng(3)
    numbers = EXTREMES + rng.uniform(*bounds, 300).tolist()
    found = pl.DataFrame({"x": numbers}).select(step_of(value))["x"].to_list()
    low, high = Fraction(value.low), Fraction(value.high)
    for number, step in zip(numbers, found, strict=True):
        exact = steps_of(number, low=low, high=high)
        assert 0 <= step <= 2**20
        assert abs(step - exact) <= 1, number
    exact = [steps_of(number, low=low, high=high) for number in numbers]
    assert sum(a != b for a, b in zip(found, exact, strict=True)) <= 2


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (pl.Float64, [None, float("nan"), float("inf"), 3.5]),
        (pl.Float32, [None, float("nan"), float("-inf"), 3.5]),
        (pl.Int64, [None, 2**63 - 1, -(2**63), 3]),
        (pl.UInt64, [None, 2**64 - 1, 0, 3]),
        (pl.Int128, [None, 2**127 - 1, -(2**127), 3]),
        (pl.Int8, [None, 127, -128, 3]),
        (pl.Decimal(38, 5), [None, "99999999999999999999999999999999.99999", "-1", "3.5"]),
    ],
)
def test_a_step_is_a_function_of_its_row_alone_and_never_fails(dtype, numbers):
    value = Value("x", bounds=(-1, 5))
    column = (
        pl.Series("x", numbers, dtype=pl.String, strict=False).cast(dtype) if isinstance(dtype, pl.Decimal) else None
    )
    frame = pl.DataFrame({"x": pl.Series(numbers, dtype=dtype) if column is None else column})
    together = frame.select(step_of(value))["x"].to_list()
    alone = [frame[place : place + 1].select(step_of(value))["x"].item() for place in range(len(numbers))]
    assert together == alone
    assert all(step is None or 0 <= step <= 2**20 for step in together)
    assert together[0] is None


# Mutants: each is a plausible mistake, and the exact comparisons above must reject it.


def test_mutant_sums_over_whole_subtrees_of_nested_cells_is_rejected():
    def whole(rows):
        steps, counts = node_sums(rows)
        return (2 * steps - STEPS * counts)[SHOWN[2].is_cell]

    assert np.abs(whole([(3, STEPS)]) - whole([])).sum() > centred_l1(1, steps=STEPS)


def test_mutant_even_split_declared_as_a_pair_is_rejected():
    def split(rows):
        """The sum of steps, and as many times 2 the count, with the noise of a pair."""
        return [sum(rows), 2 * len(rows)]

    laws = on_window(split([2]), WINDOW), on_window(split([]), WINDOW)
    assert largest_ratio(*laws) > Fraction(2) ** int(sums_epsilon(1, pairs=[Fraction(1)], steps=2))


@pytest.mark.parametrize("step", [-1, STEPS + 1])
def test_mutant_clipping_on_one_side_is_rejected(step):
    pairs, _ = released(SHOWN[0], [])
    assert max(moved(pairs, released(SHOWN[0], [(3, step)])[0])) > pair_l1(1, steps=STEPS)


def test_mutant_floats_that_accumulate_are_rejected():
    rows = [2.0**53, 1.0, 1.0]
    forth, back = np.float64(0), np.float64(0)
    for row in rows:
        forth += row
    for row in reversed(rows):
        back += row
    # In one order or another, the same rows come to sums that are apart, and a row of 1 moves one by 2, or by nothing.
    assert forth != back
    assert np.float64(2.0**53 + 2) - (np.float64(2.0**53) + 1.0) > 1


def test_mutant_many_rows_of_a_person_declared_as_one_is_rejected():
    pairs, _ = released(SHOWN[0], [])
    person = [(3, 1), (5, 2)]
    assert max(moved(pairs, released(SHOWN[0], person)[0])) > pair_l1(1, steps=STEPS)


def test_mutant_nulls_dropped_after_finding_counts_other_rows_than_it_sums():
    from opendp_tree import Key
    from opendp_tree.rows.counting import RowCounter

    frame = pl.DataFrame({"city": ["a", "a", "b", "b"], "x": [1.0, None, float("nan"), 2.0]})
    values = (Value("x", bounds=(0, 2)),)
    counter = RowCounter.of(Key.of("city"), {"city": "text", "x": "float"}, None, values=values)
    right, sums = counter.values(frame, values)
    assert right.occupied.counts.tolist() == [1, 1]
    assert sums[0].tolist() == [2**19, 2**20]
    found_first = counter.count(frame).occupied.counts
    assert found_first.tolist() != right.occupied.counts.tolist()
