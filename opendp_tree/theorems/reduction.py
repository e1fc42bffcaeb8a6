"""Reduction: estimates from a ladder of classifications.

Proof: docs/proofs/reduction.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from opendp_tree.theorems.classification import Classifier, Round
from opendp_tree.theorems.interval import Interval


@dataclass(frozen=True)
class Ladder:
    """Rounds of classification from the lowest up, and the estimate of what no round finds above."""

    base: Fraction
    """The estimate of nodes that no round finds above: M_0 of the paper."""
    rounds: tuple[Round, ...]

    @property
    def masses(self) -> tuple[Fraction, ...]:
        """M_0, M_1, ...: the estimates, of which M_i is given to the nodes that round i finds above."""
        return self.base, *(step.mass for step in self.rounds)

    @property
    def alpha(self) -> Fraction:
        """The relative error that the ladder allows a node that some round finds above."""
        return max((_spread(step) - 1 for step in self.rounds), default=Fraction(0))

    @property
    def eta(self) -> Fraction:
        """The probability with which a node's estimate may fail."""
        return sum((step.eta for step in self.rounds), Fraction(0))

    def is_connected(self) -> bool:
        """Whether each round's mass covers what the round above it leaves: M_i >= (1 + alpha) * tau of the next.

        >>> half, one = Fraction(1, 2), Fraction(1)
        >>> step = Round(Fraction(30), half, half, Fraction(10), one, half)
        >>> Ladder(Fraction(15), (step,)).is_connected(), Ladder(Fraction(14), (step,)).is_connected()
        (True, False)
        """
        covered = zip(self.masses, self.rounds, strict=False)
        return all(mass >= (1 + step.alpha) * step.threshold for mass, step in covered) and all(
            step.mass >= (1 - step.alpha) * step.threshold for step in self.rounds
        )


def _spread(step: Round) -> Fraction:
    return step.mass / ((1 - step.alpha) * step.threshold)


def reduction_loss(classifiers: Iterable[Classifier]) -> tuple[Fraction, Interval]:
    """What a ladder's classifications reveal together: the sums, by basic composition.

    >>> reduction_loss([Classifier(800, 1, 8.0, 4.0, 47, 62)])[0], reduction_loss([])[0]
    (Fraction(1, 2), Fraction(0, 1))
    """
    epsilon, delta = Fraction(0), Interval.of(0)
    for run in classifiers:
        more_epsilon, more_delta = run.loss()
        epsilon, delta = epsilon + more_epsilon, delta + more_delta
    return epsilon, delta
