"""Post-processing: what is done to a release costs no privacy. One step a file."""

from opendp_tree.postprocess.consistent import make_consistent, then_consistent
from opendp_tree.postprocess.linear import LinearCounts, linear_counts
from opendp_tree.postprocess.ranges import RangeCounts, prefix_counts, range_counts

__all__ = [
    "LinearCounts",
    "RangeCounts",
    "linear_counts",
    "make_consistent",
    "prefix_counts",
    "range_counts",
    "then_consistent",
]
