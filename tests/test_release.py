import json

import numpy as np

from opendp_tree import PrivacyStatement, Tree, TreeRelease

STATEMENT = PrivacyStatement("none", "max_divergence()", 1, {"epsilon": 1.0}, {"scale": 2.0, "people": None})


def test_statements_are_plain_data():
    assert json.loads(json.dumps(STATEMENT.to_dict())) == {
        "mechanism": "none",
        "measure": "max_divergence()",
        "d_in": 1,
        "loss": {"epsilon": 1.0},
        "parameters": {"scale": 2.0, "people": None},
    }


def test_frames_of_public_trees():
    labelled = Tree.from_paths([("a", "x"), (2,)])
    three = np.array([3.0, 2.0, 2.0, 1.0])
    frame = TreeRelease(labelled, three, three - 1, three + 1, 0.9, STATEMENT).to_frame()
    assert frame.columns == ["level", "label_1", "label_2", "estimate", "lower", "upper"]
    assert frame.rows()[2] == (1, "2", None, 1.0, 0.0, 2.0)
    plain = Tree.from_parents([1, -1])
    two = np.array([5.0, 7.0])
    frame = TreeRelease(plain, two, two, two, 1.0, STATEMENT, cells=np.array([1, 1])).to_frame()
    assert frame.rows() == [(0, 1, 7.0, 7.0, 7.0, 1), (1, 0, 5.0, 5.0, 5.0, 1)]
