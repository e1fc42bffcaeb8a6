import pytest

from opendp_tree import OpenTree, Tree, plan
from opendp_tree.planning import smallest_epsilon


@pytest.mark.parametrize(
    ("tree", "options", "error"),
    [
        (4, {"nodes": "public"}, 50.0),
        (4, {"nodes": "public", "delta": 1e-6}, 3.0),
        (OpenTree.columns(5), {"delta": 1e-6}, 40.0),
        (Tree.balanced(branching=2, depth=6), {"delta": 1e-6, "d_in": 2}, 5.0),
    ],
)
def test_the_smallest_epsilon_reaches_the_error_and_a_smaller_one_does_not(tree, options, error):
    found = smallest_epsilon(tree, error=error, **options)
    assert found.best.error <= error
    less = plan(tree, epsilon=found.budget.epsilon / 1.002, **options)
    assert less.best.error > error


def test_no_epsilon_finds_open_nodes_without_delta():
    assert smallest_epsilon(3, error=100.0, nodes="open") is None


@pytest.mark.parametrize("error", [0.0, -1.0, float("nan")])
def test_errors_must_be_positive(error):
    with pytest.raises(ValueError, match="error"):
        smallest_epsilon(3, error=error, nodes="public")
