"""The command `opendp-tree`."""

from opendp_tree.cli.command import main

__all__ = ["main"]
