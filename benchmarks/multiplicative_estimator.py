"""The paper's estimator: the additive error that it guarantees against that of noise on every node, and its speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from benchmarks.timing import print_table
from opendp_tree import Tree, leaf_domain, make_multiplicative_estimator
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.paper import multiplicative_threshold
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.paper import classifier, geometric_ladder

EPSILON, DELTA, ETA = 1.0, 1e-6, 0.01
ALPHAS = (0.1, 0.5)


def run() -> None:
    dp.enable_features("contrib")
    scale = gaussian_scale()
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g}, eta = {ETA:g}; the root's count is released for half of both")
    rows = []
    for k in range(3, 21):
        depth = 2**k
        cells = [f"2^{k}"]
        for alpha in ALPHAS:
            cells += [f"{alpha * formula(alpha, depth):.3g}", f"{alpha * smallest(alpha, depth):.3g}"]
        rows.append((*cells, f"{scale * math.sqrt(depth):.3g}", f"{laplace_error(depth):.3g}"))
    header = ["depth"]
    for alpha in ALPHAS:
        header += [f"alpha*tau_min, alpha={alpha}", "smallest it can promise"]
    print_table((*header, "Gaussian mRMSE", "Laplace mRMSE"), rows)
    for alpha in ALPHAS:
        for name, error in (("Gaussian", lambda d: scale * math.sqrt(d)), ("Laplace", laplace_error)):
            print(
                f"alpha = {alpha}: alpha*tau_min is below {name} noise from depth {crossover(alpha, error, formula)}; "
                f"the smallest that can be promised, from depth {crossover(alpha, error, smallest)}"
            )
    print()
    print_table(("tree", "nodes", "depth", "seconds to make", "seconds to release"), list(timings()))


def formula(alpha: float, depth: int) -> float:
    return multiplicative_threshold(alpha=alpha, epsilon=EPSILON, delta=DELTA, eta=ETA, depth=depth)


def smallest(alpha: float, depth: int) -> float:
    """The smallest tau_min for which no round of the ladder that is run warns, up to a fixed point in its length."""
    tau_min = Fraction(formula(alpha, depth))
    for _ in range(3):
        ladder = geometric_ladder(
            alpha=Fraction(alpha),
            tau_min=tau_min,
            epsilon=Fraction(EPSILON) / 2,
            delta=Fraction(DELTA) / 2,
            eta=Fraction(ETA),
            mass=Fraction(LIMIT),
            largest_scale=Fraction(LARGEST_SCALE),
        )
        # A round's noise does not depend on tau_min, and its threshold is proportional to it. High rounds have room.
        tau_min *= max(classifier(step, depth=depth).error / step.slack for step in ladder.rounds[:25])
    return float(tau_min)


def gaussian_scale() -> float:
    """The scale of OpenDP's Gaussian noise for a sensitivity of 1 at this epsilon and delta."""
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")

    def cast(scale: float) -> dp.Measurement:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), DELTA)

    return float(dp.binary_search_param(cast, d_in=1.0, d_out=(EPSILON, DELTA), bounds=(1.0, 100.0)))


def laplace_error(depth: float) -> float:
    return math.sqrt(2) * depth / EPSILON


def crossover(alpha: float, error: Callable[[float], float], threshold: Callable[[float, int], float]) -> str:
    k = 3
    while k < 200 and alpha * threshold(alpha, 2**k) > error(2.0**k):
        k += 1
    return f"2^{k}"


def timings() -> list[tuple[object, ...]]:
    rng = np.random.default_rng(7)  # data, not noise
    rows: list[tuple[object, ...]] = []
    for name, tree in (
        ("binary", Tree.balanced(branching=2, depth=20)),
        ("star", Tree.from_parents(np.concatenate(([-1], np.zeros(10**6, dtype=np.int64))))),
        ("chain", Tree.from_parents(np.arange(10**6) - 1)),
    ):
        counts = np.exp(rng.uniform(0, math.log(1e9), tree.leaf_count)).astype(np.int64)
        start = time.perf_counter()
        estimator = make_multiplicative_estimator(
            leaf_domain(tree), dp.l1_distance(T="i64"), alpha=0.5, epsilon=EPSILON, delta=DELTA, eta=ETA
        )
        made = time.perf_counter()
        estimator(counts)
        done = time.perf_counter()
        rows.append((name, f"{tree.node_count:,}", tree.depth, f"{made - start:.1f}", f"{done - made:.1f}"))
    return rows
