"""Find, then measure: estimates for every node of a tree from its private partition with gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, ExtrinsicDomain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_positive, check_probability, check_scale, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.measurements.partition.parameters import GapParameters, choose_parameters
from opendp_tree.measurements.partition.prediction import worst_alpha_rmse
from opendp_tree.measurements.partition.release import FindThenMeasure
from opendp_tree.measurements.partition.shares import NAMED, LevelWeights, default_measuring
from opendp_tree.measurements.searches import make_unfunded, with_promised_delta
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.theorems.gap_partition import gap_delta, gap_epsilon
from opendp_tree.theorems.interval import Interval, exp, round_down, round_up
from opendp_tree.trees.domains import CountSpace, SparseLeafCounts, check_metric, sparse_reader
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_partition_estimator", "then_partition_estimator"]


def make_partition_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float,
    delta: float,
    alpha: float = 0.1,
    tree: Tree | None = None,
    confidence: float = 0.95,
    measuring: float | None = None,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    parameters: GapParameters | None = None,
) -> Measurement:
    """Estimates and intervals for every node of a tree: first find heavy cells, then measure what was found.

    The cells of the private tree partition come with their gaps, at one price whatever their number. The rest of
    epsilon measures layers of disjoint sets above them, chosen by cells and gaps alone; least squares joins both.
    The map is the exact sum of what cells and layers lose. Proof: docs/proofs/gap_partition_estimator.md.

    Gives a `TreeRelease`: of an `OpenTree`, about which nothing but its depth needs to be known, the nodes with a cell
    at or below them; of a `Tree` all nodes.

    Parameters
    ----------
    input_domain
        Leaf counts of a tree: `leaf_domain(tree)`, or a vector domain and `tree`.
    input_metric
        `l1_distance`: by how many people inputs differ.
    epsilon, delta
        What one person's presence may reveal: the map at distance 1 is at most this. `delta` may be 0 for a public
        tree, and the measure is then `max_divergence()`; it is `approximate(max_divergence())` otherwise. The map
        reports `delta` itself where a little less is lost, so that OpenDP's searches for `epsilon` can compare; they
        also try an epsilon of 0, with which there is a map and no release.
    alpha
        The part of a count that the predicted error in the release's statement forgives: the largest alpha-RMSE of a
        node over the worst inputs that are known. 0.1 by default. The mechanism does not depend on it.
    tree
        The public tree, if `input_domain` does not carry it. None by default.
    confidence
        A node that was fixed beforehand is shown with an interval that misses it with a chance of at most one less
        this. 0.95 by default. Intervals of all nodes but leaves hold with this chance given that they are shown.
    measuring
        The dial between more keys and better totals: the share of epsilon that measures. A larger share makes totals of
        the upper levels more exact; a smaller one finds smaller nodes and makes leaf counts more exact. None, the
        default, keeps every level near what a release of that level alone would give: 0.4 to 0.55 by the number of
        levels, about a third for trees of more than nine.
    weights
        Which levels matter, for trees of at most nine: by level name, or one number for each level from the root to the
        one above the deepest. A level of twice the weight may err by half as much. None, the default, treats levels
        alike, and the root as a sum of the level below it.
    parameters
        Those of the cells, instead of the best for what `measuring` leaves. None by default.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import OpenTree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = OpenTree.columns(2)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_partition_estimator(epsilon=1.0, delta=1e-6)
    >>> counts.map(1) <= (1.0, 1e-6)
    True
    >>> release = counts(tree.count([("be", "ghent")] * 500 + [("be", "liege")] * 400 + [("lu", "lux")]))
    >>> release.to_frame(other=False).select("level", "label_1", "label_2").rows()
    [(0, None, None), (1, 'be', None), (2, 'be', 'ghent'), (2, 'be', 'liege')]

    OpenDP's searches find the epsilon for a budget:

    >>> space = leaf_domain(tree), dp.l1_distance(T="i64")
    >>> found = dp.binary_search_chain(
    ...     lambda epsilon: make_partition_estimator(*space, epsilon=epsilon, delta=1e-6), d_in=1, d_out=(0.5, 1e-6)
    ... )
    >>> round(found.map(1)[0], 9), found.map(1)[1]
    (0.5, 1e-06)
    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    found: Tree | OpenTree
    if isinstance(described, SparseLeafCounts):
        found, read = sparse_reader(described, tree)
    else:
        space, found = CountSpace.of_leaves(input_domain, tree)
        read = space.read  # type: ignore[assignment]
    if is_zero(epsilon):
        _Setting.of(found, 1.0, delta, alpha, confidence, measuring, weights, parameters)
        return make_unfunded(input_domain, input_metric, delta=delta)
    setting = _Setting.of(found, epsilon, delta, alpha, confidence, measuring, weights, parameters)

    def function(data: Any) -> Any:
        if isinstance(found, OpenTree):
            return setting.mechanism.open_release(read(data), setting.statement())
        return setting.mechanism.public_release(found, read(data), setting.statement())  # type: ignore[arg-type]

    measure = approximate(max_divergence()) if setting.approximate else max_divergence()
    return make_measurement(input_domain, input_metric, measure, function, setting.privacy_map)


then_partition_estimator = to_then(make_partition_estimator)


_LARGEST_PREDICTED = 100
"""The worst error is told with a release for thresholds up to this; beyond, summing its law takes seconds."""
_worst = lru_cache(maxsize=64)(worst_alpha_rmse)


@dataclass(frozen=True)
class _Setting:
    """All that is decided before data: what is run is what the map is computed from."""

    tree: Tree | OpenTree
    mechanism: FindThenMeasure
    alpha: float
    delta: float
    """What was promised; 0 where the measure is pure."""

    @classmethod
    def of(
        cls,
        tree: Tree | OpenTree,
        epsilon: float,
        delta: float,
        alpha: float,
        confidence: float,
        measuring: float | None,
        weights: Mapping[str, float] | Sequence[float] | None,
        parameters: GapParameters | None,
    ) -> _Setting:
        budget, public = check_positive(epsilon, name="epsilon"), isinstance(tree, Tree)
        pure = public and check_scale(delta, name="delta") == 0
        lost = Fraction(0) if pure else check_probability(delta, name="delta")
        check_probability(confidence, name="confidence")
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha ({alpha}) must be at least 0 and below 1")
        share = default_measuring(tree.depth) if measuring is None else check_probability(measuring, name="measuring")
        levels = _check_weights(tree, weights)
        if parameters is None:
            nodes = tree.node_count if isinstance(tree, Tree) and pure else None
            parameters = choose_parameters(
                tree.depth, round_down(budget * (1 - Fraction(share))), float(lost), public_nodes=nodes
            )
        used = gap_epsilon(Fraction(parameters.scale), Fraction(parameters.token_scale), parameters.shape)
        # A float, and a little less than is left, so that the sum of both is within epsilon however it is rounded.
        left = Fraction(round_down((budget - Fraction(used.hi)) * (1 - Fraction(1, 2**48))))
        if left <= 0 or gap_delta(exp(-1 / Fraction(parameters.scale)), parameters.shape).hi > lost:
            raise ValueError(
                f"parameters must leave some of epsilon ({epsilon}) and keep to delta ({delta}). "
                "Hint: larger scales, or a larger radius"
            )
        mechanism = FindThenMeasure(parameters, left, levels, float(confidence))
        return cls(tree, mechanism, float(alpha), float(lost))

    @property
    def approximate(self) -> bool:
        """Whether the measure has a delta."""
        return self.delta > 0

    def privacy_map(self, d_in: int | float) -> float | tuple[float, float]:
        """What cells and layers lose together."""
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        spent = self._spent(people) if people else (0.0, 0.0)
        return spent if self.approximate else spent[0]

    def _spent(self, people: int) -> tuple[float, float]:
        given = self.mechanism.parameters
        scale, token_scale = Fraction(given.scale), Fraction(given.token_scale)
        epsilon = (gap_epsilon(scale, token_scale, given.shape) + Interval.of(self.mechanism.epsilon)) * people
        lost = min(1.0, round_up(gap_delta(exp(-1 / scale), given.shape, k=people)))
        return with_promised_delta((round_up(epsilon), lost), self.delta)

    def _predicted(self) -> float | None:
        given = self.mechanism.parameters
        if max(given.shape.thresholds) > _LARGEST_PREDICTED:
            return None
        return _worst(given, self.alpha)

    def statement(self) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        epsilon, delta = self._spent(1)
        given = self.mechanism.parameters
        shape = given.shape
        return PrivacyStatement(
            mechanism="partition_estimator",
            measure="approximate(max_divergence())" if self.approximate else "max_divergence",
            d_in=1,
            loss={"epsilon": epsilon, "delta": delta} if self.approximate else {"epsilon": epsilon},
            parameters={
                "scale": given.scale,
                "token_scale": given.token_scale,
                "threshold": max(shape.thresholds),
                "radius": None if None in shape.radii else max(radius for radius in shape.radii if radius is not None),
                "margin": max(shape.margins),
                "depth": self.tree.depth,
                "measuring_epsilon": round_up(self.mechanism.epsilon),
                "alpha": self.alpha,
                "predicted_alpha_rmse": self._predicted(),
            },
        )


def _check_weights(tree: Tree | OpenTree, weights: Mapping[str, float] | Sequence[float] | None) -> LevelWeights:
    """One weight for each level above the deepest, or None for what is usual."""
    if weights is None:
        return None
    count = max(tree.depth - 1, 1)
    if tree.depth > NAMED:
        raise ValueError(f"weights must not be given for a tree of more than {NAMED} levels, found {tree.depth}")
    if isinstance(weights, Mapping):
        names = tuple(tree.names)[: count - 1]
        wrong = [name for name in weights if name not in names]
        if wrong:
            hint = "Hint: measuring= is the dial between the deepest level and the others"
            raise ValueError(f"weights ({wrong[0]!r}) must name a level among {', '.join(map(repr, names))}. {hint}")
        given = [None, *(weights.get(name) for name in names)]
    else:
        given = list(weights)
        if len(given) != count:
            raise ValueError(f"weights ({len(given)} numbers) must be {count}, one for each level above the deepest")
    checked = (None if one is None else float(check_positive(one, name="weights")) for one in given)
    return tuple(checked)
