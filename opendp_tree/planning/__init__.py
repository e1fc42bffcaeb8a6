"""Choosing a mechanism before anything is spent."""
