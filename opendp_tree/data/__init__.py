"""Public data to try things on, with their sources beside them."""
