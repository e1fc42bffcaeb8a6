import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import (
    OpenTree,
    Tree,
)
from opendp_tree.planning.candidate import TreeFacts
from opendp_tree.trees.least_squares import LeastSquares

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])


def test_a_tree_tells_whether_its_nodes_are_public():
    assert TreeFacts.of(PUBLIC).public
    assert not TreeFacts.of(OPEN).public
    hidden = TreeFacts.of(PUBLIC, nodes="open")
    assert (hidden.public, hidden.tree, hidden.depth) == (False, None, 4)


@pytest.mark.parametrize("tree", [OPEN, 3, PUBLIC])
def test_levels_of_open_nodes_are_those_that_are_shown(tree):
    assert TreeFacts.of(tree, nodes="open", levels=[2, 1]).levels == (1, 2)
    with pytest.raises(ValueError, match="levels"):
        TreeFacts.of(tree, nodes="open", levels=[9])


def test_weights_sum_to_the_depth():
    facts = TreeFacts.of(PUBLIC, levels=[1, 3])
    assert sum(facts.base_weights) == pytest.approx(4)
    assert facts.base_weights[0] < facts.base_weights[1] == facts.base_weights[3]
    assert facts.least_weight(facts.base_weights) == facts.base_weights[1]
    assert facts.least_weight(None) == 1
    assert TreeFacts.of(PUBLIC).base_weights is None
    assert facts.normal_weights((2, 2, 2, 2)) == (1, 1, 1, 1)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("tree", [PUBLIC, RAGGED])
def test_the_worst_deviation_is_that_of_least_squares(tree, noise):
    facts = TreeFacts.of(tree)
    weights, ratio = facts.least_squares(noise)
    power = 1 if noise == "gaussian" else 2
    by_level = np.ones(tree.depth) if weights is None else np.array(weights) ** -float(power)
    assert ratio == pytest.approx(math.sqrt(LeastSquares.of(tree, by_level[tree.node_levels]).variances.max()))
    equal = (1.0,) * tree.depth
    assert ratio <= facts.least_squares(noise, equal)[1] * (1 + 1e-12)


def test_a_tree_is_solved_once_for_each_noise():
    facts = TreeFacts.of(PUBLIC)
    assert facts.least_squares("laplace") is facts.least_squares("laplace")


def test_a_mere_depth_cannot_be_solved():
    with pytest.raises(ValueError, match="tree itself"):
        TreeFacts.of(3, nodes="public").least_squares("laplace")


def test_leaves_alone_get_noise_where_their_sums_err_least():
    weights, error = TreeFacts.of(Tree.balanced(branching=2, depth=3)).least_squares("laplace")
    assert weights == (0.0, 0.0, 3.0)
    assert error == pytest.approx(2 / 3)  # four leaves, each of a third of the noise
    deeper, _ = TreeFacts.of(Tree.balanced(branching=2, depth=6)).least_squares("laplace")
    assert min(deeper) > 0
    ragged, _ = TreeFacts.of(Tree.from_paths([("a", "x"), ("b",)])).least_squares("laplace")
    assert min(ragged) > 0
