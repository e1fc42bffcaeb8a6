"""Releases within OpenDP's Context, which splits and keeps the budget."""

from opendp_tree.context.frames import FrameContext, frame_context
from opendp_tree.context.queries import FrameQuery, register, tree_counts

__all__ = ["FrameContext", "FrameQuery", "frame_context", "register", "tree_counts"]
