"""The best Gaussian mechanism for a tree: how small the worst node's error can be, by the gamma-2 norm.

Any weights of nodes and leaves give a lower bound, and the best ones give the norm itself. The number that is returned
is checked anew: it holds whatever the search and the decomposition did. Proof: docs/proofs/bounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.timing import print_table
from opendp_tree._types import Floats
from opendp_tree.theorems.interval import sqrt_down, sqrt_up
from opendp_tree.theorems.packing import balanced_gamma_squared
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import Tree, check_tree

MOST_NODES = 4096
"""Of trees that are not complete; a decomposition takes time with the third power of this."""
_MOST_ROUNDS, _CLOSE = 40, 2e-3
_ROUNDING = 2.0**-52


@dataclass(frozen=True)
class FactorizationBound:
    """The worst node's RMSE under Gaussian noise, in units of the noise that a single count would need.

    No unbiased linear mechanism with Gaussian noise is below `lower`.
    """

    lower: float
    """A lower bound on gamma_2 of the tree, certified."""
    upper: float
    """The best factorization found: gamma_2 is between the two."""
    equal_weights: float
    """What equal noise on all nodes reaches after least squares: `make_tree_gaussian` without level weights."""

    @property
    def ratio(self) -> float:
        """How far equal noise is, at most, from the best."""
        return self.equal_weights / self.lower


def factorization_bound(tree: Tree) -> FactorizationBound:
    """gamma_2 of a tree, from below and above, next to what equal noise on all nodes reaches.

    Exact for complete trees of any size; for others by a search over dual solutions, up to 4096 nodes, which takes
    seconds at 1000 nodes and a minute at 4000. Proof: docs/proofs/bounds.md.

    Parameters
    ----------
    tree
        A public tree: complete, or of at most 4096 nodes.

    Examples
    --------
    >>> bound = factorization_bound(Tree.balanced(branching=2, depth=10))
    >>> bound.lower, bound.upper, round(bound.equal_weights, 2)
    (2.0, 2.0, 2.46)
    """
    check_tree(tree)
    variances = LeastSquares.of(tree, np.ones(tree.node_count)).variances
    equal = math.sqrt(tree.depth * float(variances.max()))
    branching = _branching(tree)
    if branching is not None:
        square = balanced_gamma_squared(branching=branching, depth=tree.depth)
        return FactorizationBound(sqrt_down(square), sqrt_up(square), equal)
    if tree.node_count > MOST_NODES:
        raise ValueError(
            f"tree ({tree.node_count} nodes) must be complete or have at most {MOST_NODES} nodes. "
            "Hint: give a part of it; every part's bound holds for the whole"
        )
    lower, upper = _search(_incidence(tree))
    return FactorizationBound(lower, min(upper, equal), equal)


def run() -> None:
    """How far equal noise on all nodes, made consistent by least squares, is from the best Gaussian mechanism."""
    rows = [
        (branching, depth, f"{factorization_bound(Tree.balanced(branching=branching, depth=depth)).ratio:.3f}")
        for branching, depths in ((2, (3, 6, 10, 16)), (10, (3, 5)))
        for depth in depths
    ]
    print_table(("children", "depth", "equal noise / best"), rows)


def certified_nuclear_norm(matrix: Floats) -> float:
    """A number that the sum of the singular values of a matrix, at least as high as wide, is surely not below.

    Examples
    --------
    >>> round(certified_nuclear_norm(np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])), 9)
    7.0

    """
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    near = left @ right
    height, width = near.shape
    rounding = (height + 8) * _ROUNDING
    excess = near.T @ near - np.eye(width)
    size = float(np.sum(near**2)) * (1 + 2 * height * width * _ROUNDING)
    # |Y'Y - I| in the Frobenius norm, as computed, and what computing it may have lost.
    beyond = float(np.sqrt(np.sum(excess**2))) * (1 + 2 * width**2 * _ROUNDING) + rounding * (size + width)
    product = matrix * near  # the slack is twice what the sum can lose, which leaves some for the matrix's own rounding
    total = float(product.sum()) - (height * width + 8) * _ROUNDING * float(np.abs(product).sum())
    return max(0.0, float(total / math.sqrt(1 + beyond) * (1 - 4 * _ROUNDING)))


def _search(incidence: Floats) -> tuple[float, float]:
    """A certified lower bound on gamma_2, and the value of a factorization, by multiplicative steps on the weights."""
    height, width = incidence.shape
    nodes: Floats = np.full(height, 1 / height)
    leaves: Floats = np.full(width, 1 / width)
    upper, best, chosen = math.inf, 0.0, (nodes, leaves)
    for _ in range(_MOST_ROUNDS):
        weighted = _weighted(incidence, nodes, leaves)
        # Squares are quicker to decompose, and the digits that they lose matter to the search alone.
        squares, columns = np.linalg.eigh(weighted.T @ weighted)
        singular = np.sqrt(np.maximum(squares, 1e-24))
        value = float(singular.sum())
        if value > best:
            best, chosen = value, (nodes, leaves)
        by_node = (weighted @ columns) ** 2 @ (1 / singular) / nodes
        by_leaf = columns**2 @ singular / leaves
        upper = min(upper, math.sqrt(float(by_node.max()) * float(by_leaf.max())))
        if upper <= (1 + _CLOSE) * best:
            break
        nodes, leaves = _step(nodes, by_node / value), _step(leaves, by_leaf / value)
    # A share more than what rounding can have added to the sum of the weights, which must not exceed 1.
    slack = 1 - 4 * (height + width) * _ROUNDING
    return certified_nuclear_norm(_weighted(incidence, *chosen)) * slack, upper


def _step(weights: Floats, gain: Floats) -> Floats:
    moved = np.maximum(weights * gain**2, 1e-30)
    step: Floats = moved / moved.sum()
    return step


def _weighted(incidence: Floats, nodes: Floats, leaves: Floats) -> Floats:
    weighted: Floats = np.sqrt(nodes)[:, None] * incidence * np.sqrt(leaves)
    return weighted


def _incidence(tree: Tree) -> Floats:
    """Which leaves lie under which nodes, as ones and zeros."""
    first, last = tree.leaf_ranges
    places = first[tree.leaves]
    under: Floats = ((places >= first[:, None]) & (places < last[:, None])).astype(np.float64)
    return under


def _branching(tree: Tree) -> int | None:
    """The number of children of every inner node, if the tree is complete; for a chain 1."""
    if tree.node_count == 1:
        return 1
    sizes = np.array([ids.size for ids in tree.levels])
    children = np.bincount(tree.parents[tree.parents >= 0])
    branching = int(children.max())
    complete = (sizes[1:] == branching * sizes[:-1]).all() and set(np.unique(children).tolist()) <= {0, branching}
    return branching if complete else None


if __name__ == "__main__":
    run()
