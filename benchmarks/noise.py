"""Noise: time per draw against OpenDP's own sampler of the same law, in one run.

Asserts that a million Laplace or Gaussian numbers come at least twenty times faster.
"""

from __future__ import annotations

import opendp.prelude as dp

from benchmarks.timing import best_of, print_table
from opendp_tree import noise

DRAWS, THEIR_DRAWS = 1_000_000, 20_000


def run() -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    rows = []
    for scale in (1.0, 10.0, 100.0, 1000.0):
        zeros = [0] * THEIR_DRAWS
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale)
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale)
        laplace_time, gaussian_time = (
            best_of(3, lambda theirs=theirs, zeros=zeros: theirs(zeros)) / THEIR_DRAWS for theirs in (laplace, gaussian)
        )
        radius = int(30 * scale)
        for name, their_time, draw in (
            ("Laplace", laplace_time, lambda scale=scale: noise.laplace(scale, DRAWS)),
            (
                "truncated Laplace",
                laplace_time,
                lambda scale=scale, radius=radius: noise.truncated_laplace(scale, radius, DRAWS),
            ),
            (
                "geometric",
                laplace_time,
                lambda scale=scale, radius=radius: noise.truncated_geometric(scale, radius, DRAWS),
            ),
            ("Gaussian", gaussian_time, lambda scale=scale: noise.gaussian(scale, DRAWS)),
        ):
            our_time = best_of(5, draw) / DRAWS
            assert our_time * 20 <= their_time, f"{name}, scale {scale:g}: {their_time / our_time:.0f} times"
            rows.append(
                (
                    f"{scale:g}",
                    name,
                    f"{our_time * 1e6:.3f}",
                    f"{their_time * 1e6:.2f}",
                    f"{their_time / our_time:.0f}",
                )
            )
    print_table(("scale", "law", "µs a draw", "OpenDP's Laplace or Gaussian, µs a draw", "times faster"), rows)
