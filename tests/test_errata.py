"""The printed paper, followed literally, fails; what is built here does not. The numbers are on docs/errata.md."""

import math
import warnings
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from opendp_tree import Tree, leaf_domain
from opendp_tree.paper import make_tree_classifier
from opendp_tree.paper.classification import forest_below
from opendp_tree.paper.estimation import reduce_to_rungs
from opendp_tree.theorems.paper import (
    Classifier,
    Ladder,
    Round,
    classification_threshold,
    classifier,
    geometric_ladder,
    ladder_ratio,
)

HALF = Fraction(1, 2)
BUDGET = {"epsilon": Fraction(1), "delta": Fraction(1e-6), "eta": Fraction(0.1)}


def ladder(alpha, tau_min, mass):
    return geometric_ladder(alpha=alpha, tau_min=tau_min, mass=mass, largest_scale=Fraction(2**50), **BUDGET)


# 5 and 6. The forest and the ancestors, without noise.


def printed_reduction(tree, counts, thresholds, masses, *, all_below=False, whole_ancestry=True):
    """Algorithm Reduction as printed; None where it sets no estimate. The two flags undo one erratum each."""
    weights = tree.sum(np.array(counts))
    children = {node: np.flatnonzero(tree.parents == node).tolist() for node in range(tree.node_count)}
    estimates = [None] * tree.node_count

    def below(node):
        return [node, *(deeper for child in children[node] for deeper in below(child))]

    forest = [tree.root]
    for place in range(len(thresholds), 0, -1):
        following = []
        for root in forest:
            above = {node for node in below(root) if weights[node] >= thresholds[place - 1]}
            for node in above:
                if not any(child in above for child in children[node]):
                    higher = node
                    while higher >= 0 and (whole_ancestry or higher in above):
                        estimates[higher] = masses[place]
                        higher = int(tree.parents[higher])
                    following += [] if all_below else children[node]
            if all_below:
                left = set(below(root)) - above
                following += [node for node in left if node == root or int(tree.parents[node]) in above]
        forest = following
    for root in forest:
        for node in below(root):
            estimates[node] = masses[0]
    return estimates


def ours(tree, counts, thresholds, masses):
    order = tree.level_order
    silent = [Classifier(threshold, 1000, 0.0, 0.0, 0, 0) for threshold in thresholds]
    weights = tree.sum(np.array(counts))[order.nodes]
    return [masses[rung] for rung in reduce_to_rungs(order, forest_below(order), weights, silent)]


TWO_LEAVES = Tree.from_parents([-1, 0, 0])


def test_the_printed_forest_forgets_what_hangs_off_the_path():
    case = TWO_LEAVES, [600, 30], [500], [100, 700]
    assert printed_reduction(*case) == [700, 700, None]
    assert printed_reduction(*case, all_below=True) == ours(*case) == [700, 700, 100]


def test_the_printed_forest_forgets_trees_in_which_nothing_is_above():
    case = TWO_LEAVES, [60, 30], [50, 500], [10, 100, 700]
    assert printed_reduction(*case) == [None, None, None]
    assert ours(*case) == [100, 100, 10]


def test_the_printed_ancestors_overwrite_a_larger_estimate():
    case = TWO_LEAVES, [600, 400], [500, 800], [450, 700, 1000]
    assert printed_reduction(*case, all_below=True) == [700, 700, 450]
    assert printed_reduction(*case, all_below=True, whole_ancestry=False) == ours(*case) == [1000, 700, 450]


def test_both_corrections_together_are_what_is_built():
    rng = np.random.default_rng(4)
    thresholds, masses = [20, 80, 320, 1280], [19, 79, 319, 1279, 5119]
    for _ in range(50):
        parents = [-1, *(int(rng.integers(node)) for node in range(1, 12))]
        tree = Tree.from_parents(parents)
        counts = rng.integers(0, 300, tree.leaf_count).tolist()
        case = tree, counts, thresholds, masses
        assert printed_reduction(*case, all_below=True, whole_ancestry=False) == ours(*case)


# 7. The exponent.


def test_the_printed_exponent_disconnects_the_ladder():
    right = ladder(HALF, Fraction(1000), Fraction(10**5))
    ratio = ladder_ratio(HALF)
    steps = tuple(
        Round(step.mass, step.eta, step.alpha, step.threshold * ratio, step.epsilon, step.delta)
        for step in right.rounds
    )
    assert right.is_connected()
    assert not Ladder(right.base, steps).is_connected()
    one = Tree.from_parents([-1])

    def estimate(rounds):
        thresholds = [math.ceil(step.threshold) for step in rounds]
        return ours(one, [600], thresholds, [math.floor(mass) for mass in right.masses])

    assert estimate(steps) == [500]
    assert estimate(right.rounds) == [666]


# 8. A large alpha.


def test_a_large_alpha_is_not_held_to_a_half():
    """The printed condition, met with alpha = 0.9 and not with 1/2, suffices and gives no warning."""
    budget = {"alpha": 0.9, "epsilon": 1.0, "delta": 1e-30, "eta": 0.1}
    wanted = Round(*map(Fraction, (1000, 0.1, 0.9, 1000, 1.0, 1e-30)))
    threshold = math.ceil(classification_threshold(wanted, depth=3) ** 2 / 1000)  # a mass of just the threshold
    wanted = Round(*map(Fraction, (threshold, 0.1, 0.9, threshold, 1.0, 1e-30)))
    assert classifier(wanted, depth=3).error > wanted.threshold / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = Tree.balanced(branching=2, depth=3)
        space = leaf_domain(tree), dp.l1_distance(T="i64")
        make_tree_classifier(*space, threshold=threshold, mass=threshold, **budget)
