"""Error against depth, epsilon, delta and alpha, and where one mechanism overtakes another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import opendp.prelude as dp

from benchmarks.paper_numbers import lower_bounds, paper_error
from benchmarks.planner_grid import Setting, measure
from benchmarks.timing import print_table, write_lines
from benchmarks.worst_case import level_battery, measured_error
from opendp_tree import Tree, leaf_domain, plan, then_tree_sum

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
DEPTHS = (2, 3, 4, 6, 9, 12, 17, 24, 33, 65, 129, 257, 1025)
L2 = dp.l2_distance(T="f64")
USUAL = {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1}
AXES = {
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0),
    "delta": (1e-12, 1e-9, 1e-6, 1e-3),
    "alpha": (0.0, 0.05, 0.1, 0.2, 0.5, 0.8),
}
CROSSINGS = [(1.0, 1e-6, 0.1), (1.0, 1e-6, 0.5), (0.3, 1e-6, 0.1), (1.0, 1e-9, 0.1)]
"""Epsilon, delta and alpha for which the crossover is measured."""


def run() -> None:
    dp.enable_features("contrib")
    against_depth()
    for axis, values in AXES.items():
        against(axis, values)
    crossovers()


def against_depth() -> None:
    """For a depth alone, where the error of least squares is bounded by that of the noise before it."""
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for depth in DEPTHS:
        known = {nodes: plan(depth, nodes=nodes, **USUAL) for nodes in ("public", "open")}
        picked = {
            "Laplace, public": known["public"].candidate("tree_laplace"),
            "Gaussian, public": known["public"].candidate("tree_gaussian"),
            "partition, public": known["public"].candidate("tree_estimator"),
            "pruned Laplace, open": known["open"].candidate("pruned_laplace"),
            "pruned Gaussian, open": known["open"].candidate("pruned_gaussian"),
            "partition, open": known["open"].candidate("tree_estimator"),
        }
        errors = {name: candidate.error for name, candidate in picked.items()}
        errors |= {"the paper's, public": paper_error(depth, **USUAL), **lower_bounds(depth, **USUAL)}
        for name, error in errors.items():
            lines.setdefault(name, []).append((depth, error))
        rows.append((depth, *(f"{error:.3g}" for error in errors.values())))
    print_table(("depth", *lines), rows)
    print(
        "\nThe paper's: alpha * tau_min, which it has on an empty tree. Lower bounds are those of complete binary "
        "trees: packing, for all mechanisms and for pure ones; and gamma_2, for Gaussian noise."
    )
    title = "Worst alpha-RMSE against depth, predicted; epsilon 1, delta 1e-6, alpha 0.1"
    write_lines(FOLDER / "error_against_depth.svg", lines, title=title, x="depth")


def against(axis: str, values: tuple[float, ...]) -> None:
    """Depth 12, everything else as usual."""
    rows = []
    for value in values:
        setting = {**USUAL, axis: value}
        found = [plan(12, nodes=nodes, **setting) for nodes in ("public", "open")]
        errors = [(one.best.name, f"{one.best.error:.3g}") for one in found]
        rows.append((f"{value:g}", *errors[0], *errors[1]))
    print(f"\nDepth 12, against {axis}:\n")
    print_table((axis, "best, public", "error", "best, open", "error"), rows)


def crossovers() -> None:
    """From which depth the partition errs less than Gaussian noise as it is, on public trees."""
    rows = []
    for epsilon, delta, alpha in CROSSINGS:  # crossings are read off a line through the same depths
        budget = {"epsilon": epsilon, "delta": delta, "alpha": alpha}
        first = next(depth for depth in range(2, 400) if gap(depth, budget) <= 1)
        near = sorted({max(2, round(first * factor)) for factor in (0.6, 0.75, 0.85, 0.93, 1.0, 1.08, 1.2, 1.4)})
        predicted = crossing(near, [gap(depth, budget) for depth in near])
        measured = crossing(near, [measured_gap(depth, budget) for depth in near])
        rows.append((epsilon, delta, alpha, first, f"{predicted:.1f}", f"{measured:.1f}"))
    print("\nDepth from which the partition errs less than Gaussian noise on every node (public, no least squares):\n")
    print_table(("epsilon", "delta", "alpha", "first depth predicted", "crossing predicted", "crossing measured"), rows)


def gap(depth: int, budget: dict[str, float]) -> float:
    found = plan(depth, nodes="public", **budget)
    return found.candidate("tree_estimator").error / found.candidate("tree_gaussian").error


def measured_gap(depth: int, budget: dict[str, float]) -> float:
    """The same, measured."""
    setting = Setting(depth, budget["epsilon"], budget["delta"], budget["alpha"], "public")
    found = plan(depth, nodes="public", **budget)
    star = Tree.from_parents(np.concatenate([[-1], np.zeros(200, dtype=np.int64), *_chains(depth)]))
    sums = (leaf_domain(star), dp.l1_distance(T="i64")) >> then_tree_sum(output_metric=L2, carrier="vector")
    noisy = sums >> dp.m.then_gaussian(found.candidate("tree_gaussian").parameters["scale"])
    empty = level_battery(star, np.zeros(star.leaf_count, dtype=np.int64))
    gaussian = measured_error(noisy, empty, alpha=budget["alpha"], repeats=40)
    return measure(setting, found.candidate("tree_estimator"), 4000).error / gaussian.error


def _chains(depth: int) -> list[np.ndarray]:
    """200 chains below the star's rays, to the full depth."""
    return [1 + 200 * (level - 2) + np.arange(200) for level in range(2, depth)]


def crossing(depths: list[int], ratios: list[float]) -> float:
    """Where a line through the logarithms of the ratios passes 0."""
    slope, height = np.polyfit(np.log(depths), np.log(ratios), 1)
    return float(np.exp(-height / slope))
