import numpy as np
import pytest

from opendp_tree import Tree, TreeRelease
from opendp_tree.trees.level_names import RESERVED, check_names


def test_names_are_numbered_by_default():
    assert check_names(None, count=2) == ("label_1", "label_2")
    assert check_names(None) == ()


@pytest.mark.parametrize("name", RESERVED)
def test_columns_of_a_frame_are_no_names(name):
    with pytest.raises(ValueError, match=f"names: '{name}' must not be one of"):
        check_names([name])


def test_every_column_of_a_frame_is_reserved():
    ones = [1.0, 1.0]
    tree = Tree.from_parents([-1, 0])
    release = TreeRelease(tree, *(np.array(ones) for _ in range(3)), confidence=0.9, statement=None)
    assert set(release.to_frame().columns) <= set(RESERVED)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("city", TypeError, r"names \('city'\) must be a collection of texts. Hint: wrap"),
        (["a", 1], TypeError, "names: 1 must be a text"),
        ([""], ValueError, "names: '' must be a text of at least one letter"),
        (["a", "a"], ValueError, r"names \(a, a\) must be distinct"),
    ],
)
def test_wrong_names_are_named(names, error, message):
    with pytest.raises(error, match=message):
        check_names(names)
