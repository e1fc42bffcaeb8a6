import numpy as np
import pytest

from opendp_tree import OpenTree, Tree
from opendp_tree.releases.words import cost_words, counted_words, error_words, tree_words


@pytest.mark.parametrize(
    ("tree", "shown", "words"),
    [
        (Tree.from_parents([-1]), 1, "Counts of all 1 node of a public tree of depth 1."),
        (Tree.from_paths([("a",)]), 2, "Counts of all 2 nodes of a public tree of depth 2 (label_1)."),
        (
            OpenTree.bits(32, 8, shown_as="ipv4"),
            1,
            "1 node of an open tree of depth 5 (prefixes of IPv4 addresses, 8 bits",
        ),
        (OpenTree.paths("/", depth=3), 0, "0 nodes of an open tree of depth 3 (paths split at '/')."),
    ],
)
def test_trees_in_words(tree, shown, words):
    assert words in tree_words(tree, shown)


def test_costs_in_words():
    pair = {"loss": {"epsilon": 1.0, "delta": 1e-6}, "measure": "approximate(max_divergence())", "d_in": 1}
    said = cost_words({**pair, "unit": None})
    assert said == "Privacy: epsilon 1, delta 1e-06 (approximate max divergence) for adding or removing one row."
    assert cost_words({**pair, "d_in": 5, "unit": "one person with at most 5 rows"}).endswith(
        "for adding or removing one person with at most 5 rows."
    )


def test_errors_in_words():
    assert error_words(0.95, np.zeros(0)) == [
        "Accuracy: each node's interval contains its true count with probability at least 0.95."
    ]
    assert error_words(1.0, np.array([1.0, 2.0, 9.0]), counted="rows") == [
        "Accuracy: each node's interval contains its true count, as counted above, always.",
        "The median interval extends 2 from its estimate, the widest 9.",
    ]


def test_what_is_counted_is_said_where_somebody_knows_it():
    assert counted_words(None) is None
    assert counted_words({"counted": None}) is None
