import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import (
    Auto,
    OpenTree,
    PrunedDescent,
    Tree,
    TreeEstimator,
    TreeNoise,
    leaf_domain,
    plan,
)
from opendp_tree.planning import make_tree_counts
from opendp_tree.planning.methods import METHODS, REFERENCES, Line, MultiplicativeEstimator, read_method

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])


def test_names_are_one_vocabulary():
    lines = {name for name, method in METHODS.items() if isinstance(method, Line)}
    assert lines == {"curve", "segment_curve", "bin_curve", "chosen_quantiles"}
    assert set(METHODS) - lines == {"auto"} | {candidate.name for candidate in plan(PUBLIC, epsilon=1.0).candidates}
    assert all(method.name == name and name.isidentifier() for name, method in METHODS.items())
    assert set(REFERENCES) < set(METHODS)


@pytest.mark.parametrize("tree", [PUBLIC, OPEN], ids=["public", "open"])
def test_a_release_says_the_name_of_its_method(tree):
    counts = np.full(27, 50) if tree is PUBLIC else OPEN.count([("a", "b", "c")] * 300)
    for candidate in plan(tree, epsilon=1.0, delta=1e-6, alpha=0.5).candidates:
        if candidate.feasible:
            release = make_tree_counts(
                leaf_domain(tree), L1, epsilon=1.0, delta=1e-6, alpha=0.5, method=candidate.name
            )(counts)
            assert release.statement.mechanism == candidate.name
            assert f"Mechanism: {candidate.name} (" in release.describe()


def test_a_name_is_a_method_with_its_defaults():
    assert read_method("pruned_gaussian") == PrunedDescent("gaussian")
    assert read_method(TreeEstimator(measuring=0.3)) == TreeEstimator(measuring=0.3)


def test_methods_are_values():
    assert TreeNoise(weights=[1, 2]) == TreeNoise(weights=(1.0, 2.0))
    assert hash(Auto(levels=[2, 1, 1])) == hash(Auto(levels=(1, 2)))


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: read_method("laplace, least squares"), ValueError, "must be one of 'auto', 'tree_laplace'"),
        (lambda: read_method(3), TypeError, "method"),
        (lambda: read_method(TreeNoise), TypeError, "method"),
        (lambda: Auto(aim="fame"), ValueError, "aim"),
        (lambda: Auto(levels=[-1]), ValueError, "levels"),
        (lambda: Auto(nonnegative=1), TypeError, "nonnegative"),
        (lambda: TreeNoise("normal"), ValueError, "noise"),
        (lambda: TreeNoise(integers="yes"), TypeError, "integers"),
        (lambda: TreeNoise(weights=[0, 0]), ValueError, "weights"),
        (lambda: TreeNoise(weights=[1, -1]), ValueError, r"weights\[1\]"),
        (lambda: TreeNoise(consistent=False, weights=[0, 1]), ValueError, r"weights\[0\]"),
        (lambda: TreeNoise(weights="12"), TypeError, "weights"),
        (lambda: PrunedDescent(weights=[1, 0]), ValueError, r"weights\[1\]"),
        (lambda: PrunedDescent("normal"), ValueError, "noise"),
        (lambda: TreeEstimator(measuring=1.0), ValueError, "measuring"),
        (lambda: TreeEstimator(weights=[1, 0]), ValueError, "weights"),
        (lambda: TreeEstimator(levels=[-1]), ValueError, "levels"),
        (lambda: TreeEstimator(levels=3), TypeError, "levels"),
        (lambda: MultiplicativeEstimator(eta=0), ValueError, "eta"),
        (lambda: PrunedDescent(nonnegative=True), TypeError, "nonnegative"),
    ],
)
def test_what_a_method_does_not_take_is_refused_by_name(make, error, named):
    with pytest.raises(error, match=named):
        make()
