"""The command `opendp-tree`."""

from opendp_tree.cli.main import main

__all__ = ["main"]
