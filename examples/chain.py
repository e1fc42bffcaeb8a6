"""Parts for OpenDP's chains: a tree, a chain with its privacy map, a release beside the truth, and sparse vector."""

from __future__ import annotations

import opendp.prelude as dp

from opendp_tree import (
    Tree,
    leaf_domain,
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


if __name__ == "__main__":
    main()
