"""The results of mechanisms: estimates and intervals as frames, files and words."""

from opendp_tree.releases.release import PrivacyStatement, TreeRelease

__all__ = ["PrivacyStatement", "TreeRelease"]
