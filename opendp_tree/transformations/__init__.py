"""Transformations: stable functions between spaces."""
