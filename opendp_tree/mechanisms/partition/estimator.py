"""Find, then measure: estimates for every node of a tree from its private partition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, ExtrinsicDomain, Measurement, Metric, assert_features

from opendp_tree._arguments import (
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    is_zero,
    read_distance,
)
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.mechanisms.partition.layers import NAMED, SHARES, LevelWeights, default_measuring
from opendp_tree.mechanisms.partition.parameters import GapParameters, choose_parameters, shown_levels
from opendp_tree.mechanisms.partition.prediction import worst_alpha_rmse
from opendp_tree.mechanisms.partition.release import FindThenMeasure
from opendp_tree.mechanisms.partition.walk import hides_empty_nodes
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.theorems.interval import Interval, exp, round_down, round_up
from opendp_tree.theorems.tree_partition import gap_delta, gap_epsilon
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
    levels: Sequence[int] | None = None,
    d_in: int = 1,
    parameters: GapParameters | None = None,
) -> Measurement:
    """Estimates and intervals for every node of a tree: first find heavy cells, then measure what was found.

    The cells of the private tree partition come with their gaps, at one price whatever their number. The rest of
    epsilon measures layers of disjoint sets above them, chosen by cells and gaps alone; least squares joins both.
    The map is the exact sum of what cells and layers lose. Proof: docs/proofs/partition_estimator.md.

    Gives a `TreeRelease`: of an `OpenTree`, about which nothing but its depth needs to be known, the nodes with a cell
    at or below them; of a `Tree` all nodes.

    Parameters
    ----------
    input_domain
        Leaf counts of a tree: `leaf_domain(tree)`, or a vector domain and `tree`.
    input_metric
        `l1_distance`: by how many people inputs differ.
    epsilon, delta
        What one person's presence may reveal: the map at distance `d_in` is at most this. `delta` may be 0 for a public
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
        this. 0.95 by default. On trees of at most nine levels, intervals of all nodes but leaves hold with this chance
        given that they are shown.
    measuring
        The dial between more keys and better totals: the share of epsilon that measures. A larger share makes totals of
        the upper levels more exact; a smaller one finds smaller nodes and makes leaf counts more exact. None, the
        default, keeps every level near what a release of that level alone would give: 0.4 to 0.55 by the number of
        levels that are shown, a third for more than 64.
    weights
        Which levels matter, if at most nine are shown: by level name, or one number for each shown level from the root
        to the one above the deepest. A level of twice the weight may err by half as much. None, the default, treats
        levels alike, and the root as a sum of the level below it.
    levels
        Which levels are shown, the root's being 0; the root always is. The others cost nothing, so that fewer levels
        find smaller nodes: nodes of levels that are not shown have no row, and those of a public tree are estimated
        from the others. None, the default, shows all.
    d_in
        How many rows of one person `epsilon` and `delta` are for. 1 by default: one person, one row.
    parameters
        Those of the cells, instead of the best for what `measuring` leaves; they also say which levels are tested. None
        by default.

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
    unfunded = is_zero(epsilon)
    budget = _Budget.of(found, 1.0 if unfunded else epsilon, delta, d_in)
    if parameters is None:
        parameters = _best_parameters(found, budget, measuring, check_levels(found.depth, levels))
    elif levels is not None:
        raise ValueError("levels must be left out where parameters are given, which say what levels are tested")
    used, left = budget.split(found, parameters)
    mechanism = FindThenMeasure(
        parameters,
        left,
        _check_weights(found, shown_levels(parameters), weights),
        float(check_probability(confidence, name="confidence")),
    )
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha ({alpha}) must be at least 0 and below 1")
    setting = _Setting(found, mechanism, used, float(alpha), budget)
    if unfunded:
        return make_unfunded(input_domain, input_metric, delta=delta)

    def function(data: Any) -> Any:
        if isinstance(found, OpenTree):
            return setting.mechanism.open_release(read(data), setting.statement())
        return setting.mechanism.public_release(found, read(data), setting.statement())  # type: ignore[arg-type]

    measure = max_divergence() if budget.pure else approximate(max_divergence())
    return make_measurement(input_domain, input_metric, measure, function, setting.privacy_map)


then_partition_estimator = to_then(make_partition_estimator)


@dataclass(frozen=True)
class _Budget:
    """What may be lost at distance `d_in`, checked."""

    epsilon: Fraction
    delta: Fraction
    d_in: int

    @classmethod
    def of(cls, tree: Tree | OpenTree, epsilon: float, delta: float, d_in: int) -> _Budget:
        pure = isinstance(tree, Tree) and check_scale(delta, name="delta") == 0
        lost = Fraction(0) if pure else check_probability(delta, name="delta")
        return cls(check_positive(epsilon, name="epsilon"), lost, check_integer(d_in, name="d_in", least=1))

    @property
    def pure(self) -> bool:
        return self.delta == 0

    def split(self, tree: Tree | OpenTree, parameters: GapParameters) -> tuple[Interval, Fraction]:
        """What the cells use of one person's epsilon, and what they leave to the layers."""
        if not isinstance(parameters, GapParameters):
            raise TypeError(f"parameters ({type(parameters).__name__}) must be those of choose_parameters")
        shape, scale = parameters.shape, Fraction(parameters.scale)
        if shape.levels[-1] >= tree.depth:
            raise ValueError(f"parameters must test levels below depth ({tree.depth}), found {shape.levels[-1]}")
        if parameters.scale == 0 or parameters.token_scale == 0:
            raise ValueError("parameters must have a scale and a token_scale above 0")
        if isinstance(tree, OpenTree) and not hides_empty_nodes(shape):
            raise ValueError("parameters must have thresholds above their radius where nodes are unknown")
        used = gap_epsilon(scale, Fraction(parameters.token_scale), shape)
        # A float, and a little less than is left, so that the sum of both is within epsilon however it is rounded.
        left = Fraction(round_down((self.epsilon / self.d_in - Fraction(used.hi)) * (1 - Fraction(1, 2**48))))
        if left <= 0 or gap_delta(exp(-1 / scale), shape, k=self.d_in).hi > self.delta:
            raise ValueError(
                f"parameters must leave some of epsilon ({float(self.epsilon)}) and keep to delta "
                f"({float(self.delta)}). Hint: larger scales, or a larger radius"
            )
        if left * Fraction(LARGEST_SCALE) < SHARES:
            raise ValueError(
                f"measuring must leave more to the layers than {float(left):.3g} of epsilon: noise of such a scale "
                "cannot be drawn. Hint: a larger share"
            )
        return used, left


def _best_parameters(
    tree: Tree | OpenTree, budget: _Budget, measuring: float | None, levels: tuple[int, ...]
) -> GapParameters:
    share = default_measuring(len(levels)) if measuring is None else check_probability(measuring, name="measuring")
    chosen = choose_parameters(
        len(levels),
        round_down(budget.epsilon * (1 - Fraction(share))),
        float(budget.delta),
        d_in=budget.d_in,
        public_nodes=tree.node_count if isinstance(tree, Tree) and budget.pure else None,
    )
    return replace(chosen, shape=replace(chosen.shape, levels=levels))


@dataclass(frozen=True)
class _Setting:
    """All that is decided before data: what is run is what the map is computed from."""

    tree: Tree | OpenTree
    mechanism: FindThenMeasure
    used: Interval
    alpha: float
    budget: _Budget

    def privacy_map(self, d_in: int | float) -> float | tuple[float, float]:
        """What cells and layers lose together."""
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        spent = self._spent(people) if people else (0.0, 0.0)
        return spent[0] if self.budget.pure else spent

    def _spent(self, people: int) -> tuple[float, float]:
        given = self.mechanism.parameters
        epsilon = (self.used + Interval.of(self.mechanism.epsilon)) * people
        lost = min(1.0, round_up(gap_delta(exp(-1 / Fraction(given.scale)), given.shape, k=people)))
        promised = float(self.budget.delta) if people <= self.budget.d_in else 0.0
        return with_promised_delta((round_up(epsilon), lost), promised)

    def statement(self) -> PrivacyStatement:
        """What a release cost, and the parameters that it was made with."""
        epsilon, delta = self._spent(self.budget.d_in)
        given = self.mechanism.parameters
        shape = given.shape
        return PrivacyStatement(
            mechanism="partition_estimator",
            measure="max_divergence()" if self.budget.pure else "approximate(max_divergence())",
            d_in=self.budget.d_in,
            loss={"epsilon": epsilon} if self.budget.pure else {"epsilon": epsilon, "delta": delta},
            parameters={
                "scale": given.scale,
                "token_scale": given.token_scale,
                "threshold": max(shape.thresholds),
                "radius": None if None in shape.radii else max(radius for radius in shape.radii if radius is not None),
                "margin": max(shape.margins),
                "depth": self.tree.depth,
                "levels": ", ".join(map(str, self.mechanism.levels)) if shape.depth < self.tree.depth else "all",
                "measuring_epsilon": round_up(self.mechanism.epsilon),
                "alpha": self.alpha,
                "predicted_alpha_rmse": worst_alpha_rmse(given, self.alpha),
            },
        )


def check_levels(depth: int, levels: Sequence[int] | None) -> tuple[int, ...]:
    """The levels that are shown, the root's among them."""
    if levels is None:
        return tuple(range(depth))
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise TypeError(f"levels ({levels!r}) must be a sequence of levels. Hint: [1, 3], where the root's level is 0")
    wanted = {check_integer(level, name="levels", least=0) for level in levels}
    if not wanted or max(wanted) >= depth:
        raise ValueError(f"levels ({list(levels)}) must be some of 0 to {depth - 1}. Hint: the root's level is 0")
    return tuple(sorted(wanted | {0}))


def _check_weights(
    tree: Tree | OpenTree, levels: tuple[int, ...], weights: Mapping[str, float] | Sequence[float] | None
) -> LevelWeights:
    """One weight for each shown level above the deepest, or None for what is usual."""
    if weights is None:
        return None
    count = max(len(levels) - 1, 1)
    if len(levels) > NAMED:
        raise ValueError(f"weights must not be given for a tree of more than {NAMED} levels, found {len(levels)}")
    if isinstance(weights, Mapping):
        names = [tree.names[level - 1] if level <= len(tree.names) else None for level in levels[1:count]]
        wrong = [name for name in weights if name not in names]
        if wrong:
            hint = "Hint: measuring= is the dial between the deepest level and the others"
            raise ValueError(f"weights ({wrong[0]!r}) must name a level among {', '.join(map(repr, names))}. {hint}")
        given = [None, *(None if name is None else weights.get(name) for name in names)]
    else:
        given = list(weights)
        if len(given) != count:
            raise ValueError(f"weights ({len(given)} numbers) must be {count}, one for each level above the deepest")
    checked = tuple(None if one is None else float(check_positive(one, name="weights")) for one in given)
    if any(one is not None and not 1e-6 <= one <= 1e6 for one in checked):
        raise ValueError("weights must be from 1e-6 to 1e6. Hint: they say how levels compare, not what they cost")
    return checked
