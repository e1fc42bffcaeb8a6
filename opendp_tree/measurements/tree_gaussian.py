"""Gaussian noise on every node of a tree, made consistent: zero-concentrated privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from opendp.measures import zero_concentrated_divergence
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise
from opendp_tree._arguments import read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.measurements.tree_noise import LevelNoise, statement_of
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.tree_noise import tree_gaussian_rho
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_gaussian", "then_tree_gaussian"]


def make_tree_gaussian(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    weights: Sequence[float] | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts: discrete Gaussian noise on every node, then least squares: a `TreeRelease`.

    `zero_concentrated_divergence()`: at distance k, rho is k**2 / 2 times the sum over the levels of 1/scale**2. Tight.
    For (epsilon, delta) pass it through OpenDP's `make_zCDP_to_approxDP` and `make_fix_delta`.
    Proof: docs/proofs/tree_noise.md.

    `weights`, one for each level from the root's down, say how the privacy loss is shared: a level of weight w gets
    noise of scale/sqrt(w); weight 0 leaves it out. The other options are those of `make_consistent`. With
    `consistent=False` there is no least squares, and the noisy counts are released as they are.

    `input_domain` is `leaf_domain(tree)`, or a vector of i64 with the tree as an argument. A scale of 0 adds no noise
    and promises nothing. The cost is the noise, and two passes over the nodes.

    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=8)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_gaussian(4.0)
    >>> counts.map(1)
    0.25
    >>> dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(counts), delta=1e-6).map(1)
    (3.542291300477016, 1e-06)
    >>> release = counts(np.full(tree.leaf_count, 100))
    >>> bool(abs(release.estimates[0] - 12800) < 50)
    True
    """
    assert_features("contrib")
    options = {"confidence": confidence, "nonnegative": nonnegative, "integers": integers}
    work = LevelNoise.of(
        input_domain,
        input_metric,
        noise="gaussian",
        scale=scale,
        tree=tree,
        weights=weights,
        consistent=consistent,
        **options,
    )
    exact = [Fraction(level) for level in work.measured]

    @lru_cache(maxsize=8)  # a release's statement asks again
    def privacy_map(d_in: int | float) -> float:
        distance = read_distance(d_in)
        if distance == 0:
            return 0.0
        return math.inf if 0 in exact else round_up(tree_gaussian_rho(distance, scales=exact))

    function = work.function(
        noise.gaussian,
        lambda: statement_of(work, scale=scale, measure="zero_concentrated_divergence()", loss={"rho": privacy_map(1)}),
    )
    return make_measurement(input_domain, input_metric, zero_concentrated_divergence(), function, privacy_map)


then_tree_gaussian = to_then(make_tree_gaussian)
