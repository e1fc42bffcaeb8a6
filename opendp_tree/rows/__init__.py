"""Rows of a frame to the counts of leaves: keys, grouping, bounding, steps."""
