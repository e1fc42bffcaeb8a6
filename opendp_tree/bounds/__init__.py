"""What no mechanism can beat."""

from opendp_tree.bounds.factorization import FactorizationBound, factorization_bound, unbiased_error_lower_bound
from opendp_tree.bounds.lower_bounds import error_lower_bound, packing_bound

__all__ = [
    "FactorizationBound",
    "error_lower_bound",
    "factorization_bound",
    "packing_bound",
    "unbiased_error_lower_bound",
]
