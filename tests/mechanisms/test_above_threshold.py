import math

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from opendp_tree import Tree
from opendp_tree.mechanisms import make_above_threshold
from opendp_tree.trees import node_domain

VECTOR = dp.vector_domain(dp.atom_domain(T="i64"))
LINF = dp.linf_distance(T="i64")


def test_maps_follow_the_metric():
    options = {"threshold": 5, "cutoff": 2, "query_scale": 8.0}
    plain = make_above_threshold(VECTOR, LINF, 4.0, **options)
    monotonic = make_above_threshold(VECTOR, dp.linf_distance(T="i64", monotonic=True), 4.0, **options)
    refreshed = make_above_threshold(VECTOR, LINF, 4.0, **options, threshold_noise="refreshed")
    assert [plain.map(k) for k in range(3)] == [0.0, 0.75, 1.5]
    assert monotonic.map(1) == 0.5
    assert refreshed.map(1) == 1.0
    floats = make_above_threshold(VECTOR, dp.linf_distance(T="f64"), 4.0, **options)
    assert floats.map(0.5) == 0.375
    assert make_above_threshold(VECTOR, LINF, 0.0, threshold=5).map(1) == math.inf


def test_answers_in_order_until_the_cutoff():
    above = make_above_threshold(VECTOR, LINF, 1.0, threshold=500, cutoff=2)
    assert above([0, 1000, 0, 1000, 1000]) == [False, True, False, True, False]
    assert above([]) == []


def test_arrays_stay_arrays():
    tree = Tree.balanced(branching=2, depth=2)
    above = make_above_threshold(node_domain(tree), LINF, 1.0, threshold=500)
    answers = above(np.array([0, 1000, 0]))
    assert answers.dtype == np.bool_
    assert answers.tolist() == [False, True, False]


def test_wrong_spaces_are_named():
    with pytest.raises(ValueError, match=r"input_metric \(.*\) must be linf_distance"):
        make_above_threshold(VECTOR, dp.l1_distance(T="i64"), 1.0, threshold=5)
    with pytest.raises(ValueError, match=r"input_domain \(.*\) must hold vectors. Hint: vector_domain"):
        make_above_threshold(dp.atom_domain(T="i64"), LINF, 1.0, threshold=5)
    with pytest.raises(OpenDPException, match=r"d_in \(-1\) must be finite and non-negative"):
        make_above_threshold(VECTOR, LINF, 1.0, threshold=5).map(-1)
