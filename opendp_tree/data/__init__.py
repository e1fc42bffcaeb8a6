"""Public data to try things on, with their sources beside them."""

from opendp_tree.data.flights import example_flights

__all__ = ["example_flights"]
