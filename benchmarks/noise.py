"""Noise: time per draw against OpenDP's own sampler of the same law, in one run."""

from __future__ import annotations

import opendp.prelude as dp

from benchmarks.timing import best_of, print_table
from opendp_tree import noise

DRAWS, THEIR_DRAWS = 1_000_000, 20_000


def run() -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    rows = []
    for scale in (1.0, 10.0, 100.0, 1000.0):
        theirs = dp.m.make_laplace(*space, scale)
        zeros = [0] * THEIR_DRAWS
        their_time = best_of(3, lambda theirs=theirs, zeros=zeros: theirs(zeros)) / THEIR_DRAWS
        radius = int(30 * scale)
        for name, draw in (
            ("Laplace", lambda scale=scale: noise.laplace(scale, DRAWS)),
            ("truncated Laplace", lambda scale=scale, radius=radius: noise.truncated_laplace(scale, radius, DRAWS)),
            ("geometric", lambda scale=scale, radius=radius: noise.truncated_geometric(scale, radius, DRAWS)),
        ):
            our_time = best_of(5, draw) / DRAWS
            rows.append(
                (
                    f"{scale:g}",
                    name,
                    f"{our_time * 1e6:.3f}",
                    f"{their_time * 1e6:.2f}",
                    f"{their_time / our_time:.0f}",
                )
            )
    print_table(("scale", "law", "µs a draw", "OpenDP's Laplace, µs a draw", "times faster"), rows)
