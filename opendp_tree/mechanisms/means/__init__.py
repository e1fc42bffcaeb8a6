"""Sums and means at every node: pairs above the leaves, centred sums in the cells, counts from gaps.

* `tree_means.make_tree_means`: the measurement, on the leaf values that `rows.leaf_values.make_leaf_values` makes.
* `layers`: what is measured. `estimates`, `intervals`: what is said of it. `release`: both for open and public trees.
* `prediction`: the errors to expect, and the shares of epsilon that they ask for.
"""
