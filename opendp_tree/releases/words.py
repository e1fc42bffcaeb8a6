"""A release in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.releases.values import NodeValues
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

_MECHANISMS = {
    "partition_estimator": "the private tree partition",
    "people_laplace": "one row a person finds nodes, and layers with Laplace noise weigh people",
    "people_gaussian": "one row a person finds nodes, and layers with Gaussian noise weigh people",
    "pruned_laplace": "Laplace noise from the root down to a threshold",
    "pruned_gaussian": "Gaussian noise from the root down to a threshold",
    "tree_laplace": "Laplace noise on every node and least squares",
    "tree_gaussian": "Gaussian noise on every node and least squares",
    "raw_laplace": "Laplace noise on every node",
    "raw_gaussian": "Gaussian noise on every node",
    "multiplicative_estimator": "the paper's rounds of sparse vectors",
    "ladder_estimator": "a ladder of sparse vectors",
    "tree_means": "counts, sums and means from pairs of sums, and cells where nodes had to be found",
    "bin_curve": "a balanced tree over all bins, Laplace noise and least squares",
    "segment_curve": "segments where people are, a tree over them, Laplace noise and least squares",
    "grouped_curves": "groups first, and a curve for each that is shown",
    "chosen_quantiles": "the exponential mechanism",
    "clipped_estimator": "estimates clipped into intervals that always hold",
}
"""What each method's name stands for."""
NO_SUMS = "Counts of nodes do not add up to that of the node above them."
"""Said of releases in which one person may be counted at several nodes of a level, or weighed by level."""


def tree_words(tree: Tree | OpenTree, shown: int, mechanism: str | None) -> list[str]:
    """What was released."""
    by = []
    if mechanism is not None:
        by = [f"Mechanism: {mechanism}" + (f" ({_MECHANISMS[mechanism]})." if mechanism in _MECHANISMS else ".")]
    names = f" ({' / '.join(tree.names)})" if tree.names else ""
    if isinstance(tree, OpenTree):
        kinds = {"columns": names, "bits": f" ({_prefixes(tree)})", "paths": f" (paths split at {tree.separator!r})"}
        return [f"Counts of {_number(shown, 'node')} of an open tree of depth {tree.depth}{kinds[tree.kind]}.", *by]
    if tree.ranges is not None:
        names = f" ({_number(tree.ranges.bins, 'range')} from {tree.ranges.low} to {tree.ranges.high})"
    which = _number(tree.node_count, "node")
    which = f"all {which}" if shown == tree.node_count else f"{shown} of {which}"
    said = f"Counts of {which} of a public tree of depth {tree.depth}{names}."
    return [said if shown == tree.node_count else said + " The others are hidden, and estimated as 0.", *by]


def value_words(values: Sequence[NodeValues], *, shown: Any) -> list[str]:
    """What is summed, and how far intervals of means reach."""
    said = []
    for each in values:
        reach = np.maximum(each.mean_upper - each.mean, each.mean - each.mean_lower)[shown]
        reach = reach[np.isfinite(reach)]
        words = f"Sums and means: of {each.words()}"
        far = f"; means reach {np.median(reach):.4g} from the estimate at the median node" if reach.size else ""
        said.append(f"{words}{far}.")
    return said


def cost_words(statement: Mapping[str, Any] | None) -> str:
    """What it cost."""
    if statement is None:
        return "Privacy: not known here. What the noisy counts cost, this release cost, and no more."
    loss = ", ".join(f"{name} {value:.10g}" for name, value in statement["loss"].items())
    measure = statement["measure"].replace("()", "").replace("_", " ").replace("(", " ").replace(")", "")
    rows = "one row" if statement["d_in"] == 1 else f"up to {statement['d_in']} rows"
    return f"Privacy: {loss} ({measure}) for adding or removing {statement['unit'] or rows}."


def counted_words(statement: Mapping[str, Any] | None) -> str | None:
    """What the figures are counts of; None where nobody said."""
    counted = None if statement is None else statement.get("counted")
    return f"Counted: {counted}." if counted else None


def footer_words(statement: Mapping[str, Any] | None) -> list[str]:
    """What stands under a picture: what is counted, where somebody said it, and the cost."""
    counted = counted_words(statement)
    return [*([counted] if counted else []), cost_words(statement)]


def error_words(confidence: float, reach: Floats, hidden: float | None, *, counted: str | None = None) -> list[str]:
    r"""How wrong it can be."""
    sure = "always" if confidence == 1 else f"with probability at least {confidence:.10g}"
    whose = "every" if confidence == 1 else "a node's"
    said = [f"Error: {whose} true count{' of these' if counted else ''} is in its interval, {sure}."]
    if reach.size:
        median, widest = (f"{value:.4g}" for value in (np.median(reach), reach.max()))
        said.append(f"Intervals reach {median} from the estimate at the median node, {widest} at the widest.")
    if hidden is not None and np.isfinite(hidden):
        also = "" if confidence == 1 else ", with the same probability"
        said.append(f"A node that is not shown holds at most {hidden:.4g}{' of these' if counted else ''}{also}.")
    return said


def _prefixes(tree: OpenTree) -> str:
    kind = {"integer": f"{tree.width}-bit integers", "ipv4": "IPv4 addresses", "ipv6": "IPv6 addresses"}[tree.shown_as]
    outside = "; what is no such key is outside" if tree.outside else ""
    return f"prefixes of {kind}, {_number(tree.stride, 'bit')} a level{outside}"


def _number(count: int, noun: str) -> str:
    plural = {"leaf": "leaves"}.get(noun, f"{noun}s")
    return f"{count} {noun if count == 1 else plural}"
