"""What a ladder's estimates imply: an interval for each of its rungs, and a release of them.

`make_multiplicative_estimator`, `make_ladder_estimator` and `make_clipped_estimator` give a `TreeRelease`. The
classifier does not: it tells yes from no, has no estimate to show, and gives `NodeClasses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_tree._types import Floats, Ints
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import round_down, round_up
from opendp_tree.theorems.paper import Classifier, Ladder
from opendp_tree.trees.tree import Tree


@dataclass(frozen=True)
class Rungs:
    """For each rung of a ladder, from the lowest up, its estimate and the counts that the guarantee allows there."""

    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: float

    @classmethod
    def of(cls, ladder: Ladder, classifiers: Sequence[Classifier], *, accurate: bool = True) -> Rungs:
        """The rungs of a ladder."""
        runs = zip(ladder.rounds, classifiers, strict=True)
        holds = accurate and ladder.is_connected() and all(run.is_accurate(step) for step, run in runs)
        bounds = [min(LIMIT, math.floor(mass)) for mass in ladder.masses]
        lower = [0, *(math.ceil((1 - step.alpha) * step.threshold) for step in ladder.rounds)]
        return cls(
            estimates=np.array(bounds, dtype=np.float64),
            # Floats do not hold all integers beyond 2**53: outward.
            lower=np.array([round_down(Fraction(count)) if holds else 0.0 for count in lower]),
            upper=np.array([round_up(Fraction(bound)) if holds else math.inf for bound in bounds]),
            confidence=max(0.0, round_down(1 - ladder.eta)),
        )

    def release(self, tree: Tree, places: Ints, statement: PrivacyStatement) -> TreeRelease:
        """A release of nodes, each on its rung."""
        return TreeRelease(
            tree, self.estimates[places], self.lower[places], self.upper[places], self.confidence, statement
        )


def paper_statement(
    mechanism: str, loss: tuple[float, float], parameters: Mapping[str, int | float | str | None]
) -> PrivacyStatement:
    """What one of the paper's estimators costs one person."""
    epsilon, delta = loss
    return PrivacyStatement(
        mechanism, "approximate(max_divergence())", 1, {"epsilon": epsilon, "delta": delta}, parameters
    )
