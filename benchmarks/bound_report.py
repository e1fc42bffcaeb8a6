"""Which bound: the error of the report on rows per person, in one run.

People have from 1 to 200 rows, with a heavy tail. Off: how far the estimated share is from the true one, at the bound
that keeps 95 % and at the worst bound. Half-width: of the interval at the first of these. Held: reports all of whose
intervals hold. What is not useful recommends nothing.
"""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import best_of, print_table
from opendp_tree import frame_domain
from opendp_tree.mechanisms import make_bound_report

MOST, SCALE, RUNS = 200, 20.0, 40
PEOPLE = (2_000, 20_000, 200_000)


def run() -> None:
    dp.enable_features("contrib")
    generator = np.random.default_rng(16)
    print(f"epsilon {1 / SCALE:g}, at most {MOST} rows a person, confidence 0.95, {RUNS} runs\n")
    rows = []
    for people in PEOPLE:
        each = np.minimum(np.floor(generator.pareto(0.9, people) + 1).astype(np.int64), MOST)
        frame = pl.DataFrame({"user": np.repeat(np.arange(people), each)})
        measurement = make_bound_report(frame_domain(frame), dp.symmetric_id_distance("user"), SCALE, most=MOST)
        seconds = best_of(3, lambda measurement=measurement, frame=frame: measurement(frame))
        reports = [measurement(frame) for _ in range(RUNS)]
        truth = np.minimum(each, reports[0].bounds[:, None]).sum(axis=1) / each.sum()
        at = int(np.argmax(truth >= 0.95))
        off = np.array([np.abs(report.shares - truth) for report in reports])
        half = np.mean([(report.upper[at] - report.lower[at]) / 2 for report in reports])
        held = [((report.lower <= truth) & (truth <= report.upper)).all() for report in reports]
        useful = sum(report.useful for report in reports)
        assert np.mean(held) >= 0.8, "intervals miss too often"
        figures = (f"{off[:, at].mean():.4f}", f"{off.max(axis=1).mean():.4f}", f"{half:.4f}", f"{np.mean(held):.3f}")
        recommended = [report.recommended for report in reports if report.useful]
        shown = f"{np.median(recommended):.0f}" if recommended else "-"
        rows.append(
            (f"{people:,}", f"{each.sum():,}", f"{useful} of {RUNS}", *figures, shown, f"{1000 * seconds:.0f} ms")
        )
    print_table(
        ("people", "rows", "useful", "off at 95 %", "off at worst", "half-width", "held", "recommended", "time"), rows
    )
