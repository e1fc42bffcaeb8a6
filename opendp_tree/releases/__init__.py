"""What a mechanism gives: estimates and intervals, in words, files and frames."""

from opendp_tree.releases.release import PrivacyStatement, TreeRelease

__all__ = [
    "PrivacyStatement",
    "TreeRelease",
]
