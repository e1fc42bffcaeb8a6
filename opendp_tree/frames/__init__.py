"""Polars enters and leaves here, and nowhere else."""
