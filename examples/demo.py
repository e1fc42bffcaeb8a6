"""A first look: a tree, a chain with its privacy map, and a release beside the truth."""

from __future__ import annotations

import opendp.prelude as dp
import polars as pl

from opendp_tree import (
    OpenTree,
    Tree,
    leaf_domain,
    then_partition_estimator,
    then_sparse_vector,
    then_tree_sum,
    then_truncated_laplace,
)

PEOPLE = {
    ("europe", "be", "ghent"): 5120,
    ("europe", "be", "liege"): 1930,
    ("europe", "lu"): 650,
    ("asia", "jp", "osaka"): 8800,
    ("asia", "jp", "kobe"): 41,
    ("asia", "bt"): 0,
}


def main() -> None:
    dp.enable_features("contrib")
    tree = Tree.from_paths(list(PEOPLE))
    data = tree.count([path for path, people in PEOPLE.items() for _ in range(people)])
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    print(f"{tree}: invented counts of people by continent, country and city\n")

    counts = space >> then_tree_sum()
    noisy = counts >> then_truncated_laplace(8.0, delta=1e-6, d_in=tree.depth)
    print("leaf counts -> all node counts -> truncated Laplace noise of scale 8")
    for people in (1, 2):
        epsilon, delta = noisy.map(people)
        print(f"  if {people} row(s) may change: epsilon = {epsilon:g}, delta = {delta:.2g}")

    released, truth = noisy(data), counts(data)
    print("\nThe release (and, because this is a demo, the truth):\n")
    print(tree.draw([f"{a}  ({b})" for a, b in zip(released, truth, strict=True)]))

    above = space >> then_sparse_vector(4.0, threshold=1000, cutoff=3, monotonic=True)
    ask = above(data)
    print(f"\nSparse vector: which leaves hold more than 1000? epsilon = {above.map(1):.3g}, at most 3 answers 'above'")
    for leaf in tree.leaves.tolist():
        print(f"  {' / '.join(map(str, tree.path(leaf))):24} {'above' if ask(leaf) else 'below'}")

    # The same people, if it were not known which places there are.
    places = OpenTree.columns(3)
    rows = places.count([path for path, people in PEOPLE.items() for _ in range(people)])
    estimator = (leaf_domain(places), dp.l1_distance(T="i64")) >> then_partition_estimator(epsilon=1.0, delta=1e-6)
    epsilon, delta = estimator.map(1)
    print(f"\nTree partition: places not known in advance. epsilon = {epsilon:g}, delta = {delta:.2g}")
    with pl.Config(tbl_rows=20, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(estimator(rows).to_frame())


if __name__ == "__main__":
    main()
