"""Counts that are elsewhere are members of a tree's domain, and are read by those alone who can send work there."""

import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from opendp_tree import OpenTree, leaf_domain, make_partition_estimator, make_tree_partition
from opendp_tree.trees.distant_counts import DistantCounts, Excerpt

TREE = OpenTree.columns(["region", "city"])
COUNTS = TREE.count([("be", "ghent")] * 900 + [("be", "liege")] * 400 + [("lu",)] * 50)


def here(task):
    """One part, which is here after all."""
    found = task(COUNTS.occupied)
    assert isinstance(found, Excerpt)
    assert found.places.size == COUNTS.occupied.levels.size  # every key is shown, or a subtree of its own
    return COUNTS, found


DISTANT = DistantCounts(TREE, 1, here)
SPACE = leaf_domain(TREE), dp.l1_distance(T="i64")


def test_distant_counts_are_members_of_their_tree_alone():
    assert leaf_domain(TREE).member(DISTANT)
    assert not leaf_domain(OpenTree.columns(3)).member(DISTANT)


def test_the_estimator_takes_them_as_those_that_are_here():
    release = make_partition_estimator(*SPACE, epsilon=4.0, delta=1e-6)(DISTANT)
    assert abs(release.to_frame(other=False)["estimate"][0] - 1350) < 100


def test_others_refuse_them():
    partition = make_tree_partition(*SPACE, 1.0, token_scale=1.0, threshold=20, radius=19, margin=3)
    with pytest.raises(OpenDPException, match="only the partition's estimator"):
        partition(DISTANT)


def test_a_level_below_all_that_are_shown_is_refused():
    measurement = make_partition_estimator(*SPACE, epsilon=1.0, delta=1e-6, levels=[0, 1])
    with pytest.raises(OpenDPException, match="must not be below all levels"):
        measurement(DistantCounts(TREE, 2, here))
