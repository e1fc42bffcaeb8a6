"""Measurements: one private mechanism a file."""
