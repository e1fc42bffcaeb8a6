"""The private tree partition: heavy cells of a tree, each with its count, at one price whatever their number.

* `parameters.choose_parameters(depth, epsilon, delta, *, d_in=1, public_nodes=None) -> GapParameters` with `scale`,
  `token_scale` and `shape`, a `theorems.tree_partition.GapShape`.
* `walk.find_cells(occupied, parameters) -> Cells` over occupied places, for open trees and public ones alike.
* `walk.find_cells_of_tree(tree, leaf_counts, parameters) -> TreeCells` for a public tree: it tests every node where
  the shape says so.
* `tree_partition.make_tree_partition`: the measurement.
"""
