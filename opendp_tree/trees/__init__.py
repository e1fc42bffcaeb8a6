"""Public and open trees, where their people are, and least squares on them."""
