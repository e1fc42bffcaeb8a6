"""A measurement chain from records to nodes; a sparse vector and an estimator, adaptively composed; an odometer."""

from __future__ import annotations

import opendp.prelude as dp

from opendp_tree import Tree, then_leaf_counts, then_sparse_vector, then_tree_laplace, then_tree_sum

PEOPLE = {
    ("europe", "be", "ghent"): 5120,
    ("europe", "be", "liege"): 1930,
    ("europe", "lu", "lux"): 650,
    ("asia", "jp", "osaka"): 8800,
    ("asia", "jp", "kobe"): 41,
    ("asia", "bt", "paro"): 0,
}


def main() -> None:
    dp.enable_features("contrib")
    tree = Tree.from_paths(list(PEOPLE))
    records = [path[-1] for path, people in PEOPLE.items() for _ in range(people)]
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()

    counts = space >> then_leaf_counts(by=tree)
    nodes = counts >> then_tree_sum(carrier="vector")
    noisy = nodes >> dp.m.then_laplace(scale=8.0)
    print(f"{tree}: one record changes the leaf counts by {counts.map(1)} and all counts by {nodes.map(1)} in L1.")
    print(f"With OpenDP's own noise of scale 8 that costs epsilon = {noisy.map(1)}.\n")

    above = counts >> then_sparse_vector(20.0, threshold=1000, cutoff=3, monotonic=True, gaps=True)
    estimates = counts >> then_tree_laplace(scale=16.0)
    d_mids = [above.map(1), estimates.map(1)]
    adaptive = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=d_mids)
    print(f"Adaptive composition of a sparse vector and an estimator: epsilon = {adaptive.map(1):.3f} in total.")

    ask = adaptive(records)
    heavy = ask(above)
    for path in [("europe",), ("europe", "be"), ("asia", "bt"), ("europe", "be", "ghent"), ("asia",)]:
        gap = heavy(path)  # later questions may depend on this answer; after three answers "above", all are "below"
        print(f"  {' / '.join(path):20}", "below" if gap < 0 else f"above 1000, by about {gap}")
    release = ask(estimates)
    for path in [(), ("europe",), ("asia", "jp", "osaka")]:
        place = tree.node(path)
        width = release.upper[place] - release.estimates[place]
        print(f"  {' / '.join(path) or 'all':20} {release.estimates[place]:.0f} ± {width:.0f}")

    odometer = dp.c.make_fully_adaptive_composition(*space, dp.max_divergence())(records)
    for query in (noisy, estimates, noisy):
        odometer(query)
        print(f"The odometer reads epsilon = {odometer.privacy_loss(1):.4f}.")


if __name__ == "__main__":
    main()
