import math

import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, leaf_domain
from opendp_tree.mechanisms.partition.estimator import make_partition_estimator
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.theorems.tree_partition import GapShape

TREE = OpenTree.columns(2)


def estimator(**options):
    given = {"epsilon": 3.0, "delta": 1e-3, **options}
    return make_partition_estimator(leaf_domain(TREE), dp.l1_distance(T="i64"), **given)


def uniform(threshold, radius, *, every_node=False):
    return GapShape.uniform(3, threshold=threshold, radius=radius, margin=4, every_node=every_node)


@pytest.mark.parametrize(
    ("scale", "token_scale", "shape"),
    [
        (1.0, -1.5, (120, 119)),  # the map charges no token, and drawing one never ends
        (1.0, 1.7e15, (120, 119)),  # 116 people at a leaf raise another error than 115
        (1.0, math.inf, (120, 119)),
        (1.0, math.nan, (120, 119)),
        (1.0, 0.0, (120, 119)),
        (1.0, 1.1, (2**64 + 1, 2**64)),  # one person raises, nobody does not
    ],
)
def test_scales_and_thresholds_beyond_the_mechanism_are_refused_before_data(scale, token_scale, shape):
    with pytest.raises(ValueError, match=r"scale|threshold"):
        estimator(parameters=GapParameters(scale, token_scale, uniform(*shape)))


@pytest.mark.parametrize("radius", [None, 20])
def test_parameters_that_could_show_empty_nodes_are_refused_for_an_open_tree(radius):
    with pytest.raises(ValueError, match="radius"):
        estimator(parameters=GapParameters(1.0, 1.1, uniform(5, radius, every_node=True)))


@pytest.mark.parametrize(
    "options", [{"measuring": 1e-15}, {"weights": [1e200, 1.0]}, {"weights": [1.0, 1e-200]}], ids=str
)
def test_what_measuring_cannot_serve_is_refused_before_data(options):
    with pytest.raises(ValueError, match=r"measuring|weights"):
        estimator(**options)
