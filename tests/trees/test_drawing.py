import pytest

from opendp_tree import Tree
from opendp_tree.trees.drawing import draw_tree


def test_drawing_shows_values_and_stops():
    tree = Tree.balanced(branching=3, depth=3)
    assert tree.draw(max_nodes=4).splitlines() == ["0", "├── 1", "│   ├── 4", "│   ├── 5", "… 9 more nodes"]
    with pytest.raises(ValueError, match="values must have one entry for each of the 13 nodes"):
        tree.draw([1])


def test_siblings_are_drawn_by_id_under_their_parent():
    tree = Tree.from_paths([("b", "y"), ("a",), ("b", "x")])
    assert draw_tree(tree, None, 60).splitlines() == ["(root)", "├── b", "│   ├── y", "│   └── x", "└── a"]
