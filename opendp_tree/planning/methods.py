"""Methods: values that carry the options of a mechanism, predict its error, and make its measurement.

A method has the same name everywhere: in plans, in statements of releases, in pictures, and in `--method`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._arguments import (
    check_choice,
    check_flags,
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    check_type,
    shortened,
)
from opendp_tree._opendp import make_function, measure_name
from opendp_tree.budget import NO_DELTA, Budget, Priced, amounts_of_loss, level_scales
from opendp_tree.keys.key import Key
from opendp_tree.mechanisms.consistent import polished
from opendp_tree.mechanisms.curve import SCALES, make_bin_curve, make_grouped_curves, make_segment_curve
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, choose_parameters, closed_parameters, variance
from opendp_tree.mechanisms.means import OpenMeans, choose_shares, make_tree_means, root_fringe
from opendp_tree.mechanisms.people import PeopleDesign, choose_design, make_people_estimator
from opendp_tree.mechanisms.pruned_descent import Pruning, make_pruned_descent
from opendp_tree.mechanisms.tree_estimator import check_levels, describe, make_tree_estimator, public_rmses
from opendp_tree.mechanisms.tree_noise import LAWS, check_weights, make_tree_gaussian, make_tree_laplace
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.planning import laws
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.unit import Unit, Value
from opendp_tree.theorems.interval import round_down
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.domains import leaf_domain, tree_of_leaves
from opendp_tree.trees.level_weights import ROOT_EVEN, balanced_level_weights, level_variances
from opendp_tree.trees.nodes import KnownNodes
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

Aim: TypeAlias = Literal["error", "keys"]
Noise: TypeAlias = Literal["laplace", "gaussian"]
Weights: TypeAlias = tuple[float, ...]

DEEPEST = 2**20
_UNWANTED = 0.05  # the weight of a level whose error does not count, but which is released
_FEW_BINS = 1024  # up to this number, all bins are measured
_TOO_SMALL = "the budget is so small that noise of its scale cannot be drawn"


class InfeasibleError(ValueError):
    """The mechanism that was asked for, or every mechanism, is impossible with this budget."""


@dataclass(frozen=True)
class Setting:
    """What a method is asked for: a hierarchy, a budget, and what is counted. All of it is public.

    `tree` is None where nodes are open, or only the depth is known; `levels` are those that count, or are shown, and
    `known` the public nodes of an open tree. `line` says how many levels of groups are above the ranges of a number.
    `unit` is whose rows are weighed.
    """

    depth: int
    public: bool
    tree: Tree | None
    budget: Budget
    alpha: float = 0.1
    levels: tuple[int, ...] | None = None
    known: KnownNodes | None = None
    line: tuple[int, NumberRange] | None = None
    unit: Unit | None = None
    values: tuple[Value, ...] = ()

    @classmethod
    def of(
        cls,
        tree_or_depth: Tree | OpenTree | Key | str | Sequence[str] | int,
        budget: Budget,
        *,
        nodes: str | None = None,
        alpha: float = 0.1,
        levels: Iterable[int] | None = None,
        unit: Unit | None = None,
        values: tuple[Value, ...] = (),
    ) -> Setting:
        """A setting of checked arguments."""
        known, line = None, None
        if isinstance(tree_or_depth, (Key, str, list, tuple)):
            key = Key.of(tree_or_depth)
            tree_or_depth = key.hierarchy
            known, line = key.known, key.line_below
            levels = key.shown_levels if levels is None and key.show is not None else levels
        if nodes is not None:
            check_choice(nodes, name="nodes", choices=("public", "open"))
        tree = tree_or_depth if isinstance(tree_or_depth, Tree) else None
        if isinstance(tree_or_depth, (Tree, OpenTree)):
            depth = tree_or_depth.depth
            if tree is None and nodes == "public":
                raise ValueError("nodes ('public') must be 'open' for an OpenTree. Hint: pass a Tree, or a depth")
        else:
            depth = check_integer(tree_or_depth, name="tree_or_depth", least=1)
            if depth > DEEPEST:
                raise ValueError(f"tree_or_depth ({depth}) must be at most 2**20")
            if nodes is None:
                raise ValueError("nodes must be 'public' or 'open', because a depth alone does not tell")
        if check_scale(alpha, name="alpha") >= 1:
            raise ValueError(f"alpha ({shortened(alpha)}) must be at least 0 and below 1")
        public = nodes == "public" or (nodes is None and tree is not None)
        some = None if levels is None else check_levels(depth, levels, root=False)
        some = None if some is not None and len(some) == depth else some
        return cls(depth, public, tree if public else None, budget, float(alpha), some, known, line, unit, values)

    @property
    def closed(self) -> bool:
        """Whether known nodes have no children but known ones, so that nothing needs to be found."""
        return self.public or (self.known is not None and all(self.known.closed))

    @property
    def leaves_out(self) -> bool:
        """Whether a level below the root is left out."""
        return self.levels is not None and not set(range(1, self.depth)) <= set(self.levels)

    def by_level(self, levels: Iterable[int], errors: Iterable[float]) -> list[laws.LevelError]:
        """Predicted errors of counts, with the sizes of levels where these are known."""
        pairs, tree = zip(levels, errors, strict=False), self.tree
        return [laws.LevelError(i, each, nodes=None if tree is None else tree.levels[i].size) for i, each in pairs]


class Space(NamedTuple):
    """The input of a measurement: leaf counts, leaf values or records, and the arguments of the caller."""

    domain: Domain
    metric: Metric
    tree: Tree | None
    confidence: float

    def bind(self, make: Callable[..., Measurement], **options: Any) -> Callable[..., Measurement]:
        """A constructor with all arguments but the scale."""
        if self.tree is not None:
            options["tree"] = self.tree
        return partial(make, self.domain, self.metric, confidence=self.confidence, **options)


class _Options:
    """Checks the options that methods share.

    To the package a method has `needs`, in words; `_refusal`, why it is not possible in a setting, or None; `_build`,
    its measurement and the loss; and `_predict`, the fields of its `Candidate`.
    """

    def __post_init__(self) -> None:
        for name, default in ((each.name, each.default) for each in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None and default is None:
                continue
            if isinstance(default, bool):
                check_flags(**{name: value})
            elif name in ("aim", "noise"):
                check_choice(value, name=name, choices=get_args(Aim if name == "aim" else Noise))
            elif name == "measuring":
                check_probability(value, name=name)
            elif name == "levels":
                object.__setattr__(self, name, check_levels(DEEPEST, value, root=False))
            else:
                check = check_scale if isinstance(self, TreeNoise) else check_positive
                object.__setattr__(self, name, check_weights(value, check=check))


@dataclass(frozen=True)
class Auto(_Options):
    """The mechanism that suits a hierarchy and a budget, chosen from public facts only: the first of `plan`.

    With epsilon it is `TreeEstimator`, with rho Gaussian noise; for deep public trees with a delta, the one with the
    smaller predicted error. For numbers it is a `Curve`, for people `PeopleLayers`. The whole rule: docs/planning.md.

    :param aim: How `plan` ranks the others: by "error" (the default) or "keys", the count from which a node is shown.
    :param levels: The levels of interest, 0 for the root's. By default all. `TreeEstimator` shows only these, and the
        others cost nothing; other mechanisms release all levels, and are compared by the errors of these.
    :param nonnegative: Whether no estimate may be negative. By default they may, because that leaves sums unbiased.
    :param integers: Whether estimates must be whole. By default they need not be: rounding adds error.

    >>> Auto(levels=[1, 2])
    Auto(aim='error', levels=(1, 2), nonnegative=False, integers=False)
    """

    aim: Aim = "error"
    levels: Sequence[int] | None = None
    nonnegative: bool = False
    integers: bool = False

    name = "auto"

    def _choose(self, setting: Setting) -> Mechanism:
        """The method of a release. Where nodes must be found, nothing is predicted."""
        budget, tree = setting.budget, setting.tree
        if setting.values:
            return TreeMeans(self.levels)
        if setting.unit is not None:
            both = (PeopleLayers(noise, levels=self.levels) for noise in get_args(Noise))
            return min(both, key=lambda each: each._worst(setting))
        if self == Auto(self.aim) and (setting.line is not None or (tree is not None and tree.ranges is not None)):
            return Curve(segments=bins_of(setting) > _FEW_BINS)
        gaussian = TreeNoise("gaussian", nonnegative=self.nonnegative, integers=self.integers)
        if budget.rho is not None and setting.public:
            return gaussian
        if budget.rho is not None and setting.known is None and not setting.leaves_out:
            return PrunedDescent("gaussian")
        estimator = TreeEstimator(levels=self.levels)
        if not setting.public or budget.delta == 0 or len(estimator._shown(setting)) <= NAMED:
            return estimator
        return gaussian if gaussian._predict(setting)["error"] < estimator._predict(setting)["error"] else estimator

    def _polish(self, chosen: Mechanism, release: TreeRelease) -> TreeRelease:
        """The release, with estimates made non-negative or whole if that was asked for."""
        if isinstance(chosen, TreeNoise) or not (self.nonnegative or self.integers):
            return release
        keeps = isinstance(chosen, (TreeEstimator, PrunedDescent))  # these are never negative
        return polished(release, nonnegative=self.nonnegative or keeps, integers=self.integers)


@dataclass(frozen=True)
class TreeNoise(_Options):
    """Noise on every node of a public tree, then least squares: `tree_laplace` or `tree_gaussian`.

    :param noise: "laplace" (the default, because it needs no delta) or "gaussian", which is better in deep trees.
    :param weights: A share of the budget for each level, from the root's down; only ratios matter. A level of weight 0
        is estimated from the others. By default those that make the worst node's error least.
    :param nonnegative: Whether estimates are made non-negative. Not by default: it biases small counts upwards.
    :param integers: Whether estimates are made whole. Not by default: it adds error.
    """

    noise: Noise = "laplace"
    weights: Sequence[float] | None = None
    nonnegative: bool = False
    integers: bool = False

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"tree_{self.noise}"

    @property
    def needs(self) -> str:
        """What must be known or given."""
        return "public nodes" if self.noise == "laplace" else "public nodes, and delta or rho"

    def _refusal(self, setting: Setting) -> str | None:
        if not setting.public:
            hint = "method='auto', or Key.columns(..., tree=Tree.from_paths(...))"
            return f"noise on every node requires public nodes. Hint: {hint}"
        if self.noise == "gaussian" and setting.budget.rho is None and setting.budget.delta == 0:
            return "Gaussian noise has no epsilon without a delta. Hint: delta=1e-6"
        return _TOO_SMALL if self._scale(setting) > LARGEST_SCALE else None

    def _scale(self, setting: Setting) -> float:
        """The scale of the noise at a level of weight 1."""
        return setting.budget.noise_scale(self.noise, setting.depth)

    def _weights(self, setting: Setting) -> Weights:
        """The weights of the levels, which sum to the depth."""
        if self.weights is None and setting.tree is not None and setting.levels is None:
            return balanced_level_weights(setting.tree, noise=self.noise)[0]
        return _normal_weights(self.weights, setting.depth, setting.levels)

    def _predict(self, setting: Setting) -> dict[str, Any]:
        variance, scale, weights = LAWS[self.noise].variance, self._scale(setting), self._weights(setting)
        if setting.tree is None:  # before least squares, which lowers them
            first, variances = 0, [variance(each) for each in level_scales(self.noise, scale, weights)]
        else:  # the root is left out: it is the sum of what is below it
            ratios = laws.level_maxima(setting.tree, level_variances(setting.tree, weights, noise=self.noise))
            first, variances = min(1, setting.depth - 1), [variance(scale) * ratio for ratio in ratios]
        deviations = [math.sqrt(each) for each in variances]
        error = max(deviations[level] for level in setting.levels or range(first, setting.depth))
        return {
            "reason": "levels are made to add up, which lowers the error of every node",
            "error": error,
            "bound": setting.tree is None,
            "guarantee": "pure epsilon" if self.noise == "laplace" else "zCDP",
            "parameters": {
                "scale": scale,
                "weights": "equal" if len(set(weights)) == 1 else ", ".join(f"{each:.3g}" for each in weights),
            },
            "curve": partial(laws.deviation_curve, error, setting.alpha),
            "by_level": setting.by_level(range(setting.depth), deviations),
        }

    def _build(self, setting: Setting, space: Space) -> Priced:
        make = make_tree_laplace if self.noise == "laplace" else make_tree_gaussian
        options: dict[str, Any] = {"nonnegative": self.nonnegative, "integers": self.integers}
        return setting.budget.fit(space.bind(make, weights=self._weights(setting), **options), self._scale(setting))


def _normal_weights(weights: Sequence[float] | None, depth: int, levels: tuple[int, ...] | None = None) -> Weights:
    """Weights that sum to the depth, in the ratios of these; by default equal ones, and little for unwanted levels."""
    if weights is None:
        weights = [1.0 if levels is None or level in levels else _UNWANTED for level in range(depth)]
    shares = check_weights(weights, depth)
    return tuple(share * depth / sum(shares) for share in shares)


@dataclass(frozen=True)
class PrunedDescent(_Options):
    """Noise on the nodes whose parents are shown, and a threshold: `pruned_laplace` or `pruned_gaussian`.

    :param noise: "laplace" (the default) or "gaussian", which is better in deep trees.
    :param weights: A share of the budget for each level, from the root's down, all positive; only their ratios matter.
        By default equal ones.
    """

    noise: Noise = "laplace"
    weights: Sequence[float] | None = None

    needs = "nothing but the depth; delta above 0"

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"pruned_{self.noise}"

    def _refusal(self, setting: Setting) -> str | None:
        if setting.budget.delta == 0:
            return NO_DELTA
        if self.noise == "laplace" and setting.budget.rho is not None:
            return "OpenDP cannot convert (epsilon, delta) into rho. Hint: PrunedDescent('gaussian')"
        if self._pruning(setting) is None:
            return _TOO_SMALL
        return "it cannot leave out levels. Hint: levels=None" if setting.leaves_out else None

    def _pruning(self, setting: Setting) -> tuple[float, float, Pruning] | None:
        weights = _normal_weights(self.weights, setting.depth)
        return laws.choose_pruning(self.noise, weights, setting.budget, setting.alpha)

    def _predict(self, setting: Setting) -> dict[str, Any]:
        best = self._pruning(setting)
        assert best is not None
        error, scale, levels = best
        return {
            "reason": "large nodes are found from the root down; nodes below the threshold are estimated as 0",
            "error": error,
            "bound": setting.levels is not None,
            "guarantee": "epsilon and delta" if self.noise == "laplace" else "zCDP and delta",
            "parameters": {
                "scale": scale,
                "threshold": max(levels.thresholds),
                "threshold_delta": float(levels.promised),
            },
            "shown_from": laws.pruned_shown_from(levels),
            "curve": lambda at: laws.pruned_rmse(levels, at, setting.alpha),
        }

    def _build(self, setting: Setting, space: Space) -> Priced:
        best = self._pruning(setting)
        assert best is not None
        _, scale, levels = best
        options = {"noise": self.noise, "weights": self.weights and _normal_weights(self.weights, setting.depth)}
        make = space.bind(make_pruned_descent, delta=float(levels.promised), d_in=setting.budget.d_in, **options)
        return setting.budget.fit(make, scale)


class _Finder(_Options):
    """A method that finds nodes, or knows them all, and shows some levels."""

    levels: Sequence[int] | None

    def _shown(self, setting: Setting) -> tuple[int, ...]:
        """The levels that are shown, with the root's."""
        levels = setting.levels if self.levels is None else check_levels(setting.depth, self.levels)
        if levels is None or (setting.public and not isinstance(self, TreeEstimator)):
            return tuple(range(setting.depth))
        return tuple(sorted({0, *levels}))

    def _tests(self, setting: Setting, parameters: PartitionParameters) -> Fringe:
        """The tests below the highest open node; what is below others has fewer levels, and lower thresholds."""
        levels, known = self._shown(setting), setting.known
        highest = 0 if known is None else sum(level <= known.highest_open for level in levels) - 1
        return parameters.fringes[max(min(highest, len(levels) - 2), 0)]

    def _made(self, make: Callable[..., Measurement], setting: Setting, space: Space, **options: Any) -> Priced:
        budget, levels = setting.budget, self._shown(setting)
        amounts = {"epsilon": budget.pure_epsilon, "delta": 0.0 if setting.closed else budget.delta}
        shown = {"known": setting.known, "levels": None if len(levels) == setting.depth else levels}
        return budget.priced(space.bind(make, d_in=budget.d_in, **(amounts | shown | options))())


@dataclass(frozen=True)
class TreeEstimator(_Finder):
    """Nodes are found and measured, or all levels get noise where nodes are public: `tree_estimator`.

    :param measuring: The share of epsilon that measures what was found: less finds more keys, more gives better totals.
        By default, every level errs about as much as in a release of its own. No effect where nodes are public.
    :param weights: How much each shown level above the deepest matters, from the root's down, for at most nine levels;
        a level of twice the weight errs by about half as much. By default all levels matter about equally.
    :param levels: The levels that are shown, 0 for the root's, which always is; others cost nothing. By default all.

    >>> TreeEstimator(measuring=0.3).name
    'tree_estimator'
    """

    measuring: float | None = None
    weights: Sequence[float] | None = None
    levels: Sequence[int] | None = None

    name = "tree_estimator"
    needs = "nothing but the depth and a delta; or public nodes, and then no delta"

    def _refusal(self, setting: Setting) -> str | None:
        if setting.closed:
            return None
        if len(self._shown(setting)) == 1:
            return "a tree of one level has no node to find"
        if setting.budget.delta == 0:
            return NO_DELTA
        if setting.budget.rho is not None:
            hint = "epsilon=1.0, delta=1e-6; or leave levels and known names out, for pruned_gaussian"
            return f"finding nodes costs (epsilon, delta), which OpenDP cannot convert into rho. Hint: {hint}"
        return None

    def _closed_errors(self, setting: Setting) -> list[laws.LevelError]:
        """About the deviation of the worst node of each shown level, where all nodes are known."""
        levels, budget, tree = self._shown(setting), setting.budget, setting.tree
        if setting.known is not None:
            parameters = closed_parameters(len(levels), Fraction(budget.pure_epsilon), d_in=budget.d_in)
            return laws.known_errors(setting.known, parameters, levels)
        if tree is not None:
            errors = public_rmses(tree, levels, budget.pure_epsilon, budget.d_in, self.weights)
            return setting.by_level(errors.keys(), errors.values())
        share = (1 - ROOT_EVEN) / (len(levels) - 1) if len(levels) > 1 else 1.0
        even = math.sqrt(2 * variance(budget.d_in / (budget.pure_epsilon * share)))
        return setting.by_level(levels[1:] or levels, [even] * len(levels))

    def _predict(self, setting: Setting) -> dict[str, Any]:
        levels, budget, known = self._shown(setting), setting.budget, setting.known
        if setting.closed:
            shown = "all" if len(levels) == setting.depth else ", ".join(map(str, levels))
            errors, reason = self._closed_errors(setting), "noise on each level, then adjusted to add up"
            # The root of a public tree has a small share on purpose.
            below = [each.error for each in errors if each.level or not setting.public]
            error = max(below or [each.error for each in errors])
            return {
                "reason": reason if known is None else f"all nodes are known: {reason}",
                "error": error,
                "bound": setting.tree is None,
                "guarantee": "pure epsilon",
                "parameters": {"levels": shown},
                "curve": partial(laws.deviation_curve, error, setting.alpha),
                "by_level": errors,
            }
        depth, measuring = len(levels), None if self.measuring is None else float(self.measuring)
        chosen = choose_parameters(depth, *budget.exact, d_in=budget.d_in, measuring=measuring)
        tests = self._tests(setting, chosen)
        left, names = float(chosen.alphas + chosen.betas) / 2, 1 if known is None else len(known.paths)
        described = describe(replace(chosen, fringes=(tests,)), levels, setting.depth, names)
        return {
            "reason": "finding names and counting them costs the same for any number of names; "
            "the rest of the budget measures totals",
            "error": laws.estimator_error(tests, left, setting.alpha),
            "guarantee": "epsilon and delta",
            "parameters": {"measuring": round(left * budget.d_in / budget.pure_epsilon, 3), **described},
            "shown_from": laws.cell_shown_from(tests),
            "curve": partial(laws.estimator_curve, tests, left, setting.alpha),
            "by_level": [] if known is None else laws.known_errors(known, chosen, levels),
        }

    def _build(self, setting: Setting, space: Space) -> Priced:
        return self._made(make_tree_estimator, setting, space, measuring=self.measuring, weights=self.weights)


@dataclass(frozen=True)
class PeopleLayers(_Finder):
    """For a unit: nodes found with one row per person, and layers in which people are weighed: `people_laplace`, ...

    Other parameters: as for `TreeEstimator`.

    :param noise: "laplace", or "gaussian", for people at many nodes. By default None: the better one by prediction.
    """

    noise: Noise | None = None
    measuring: float | None = None
    levels: Sequence[int] | None = None

    needs = "a unit; where nodes must be found, epsilon and delta; for Gaussian noise, delta or rho"

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"people_{self.noise or 'layers'}"

    def _design(self, setting: Setting) -> PeopleDesign:
        """Scales, thresholds and layers; a ValueError where none fits."""
        unit = setting.unit
        if unit is None:
            raise ValueError("it requires a unit with a bound per person. Hint: unit=Unit('user', rows=5)")
        options: dict[str, Any] = {"noise": self.noise, "measuring": self.measuring, "finds": not setting.closed}
        return choose_design(unit.count, unit.bounds(len(self._shown(setting))), setting.budget, **options)

    def _worst(self, setting: Setting) -> float:
        """The worst standard deviation of the noise of a level; infinite where no design fits."""
        return math.inf if self._refusal(setting) else max(self._design(setting).deviations())

    def _refusal(self, setting: Setting) -> str | None:
        try:
            self._design(setting)
        except ValueError as error:
            return str(error)
        return None

    def _predict(self, setting: Setting) -> dict[str, Any]:
        design = self._design(setting)
        deviations, noise = design.deviations(), design.noise
        tests = None if design.parameters is None else design.parameters.fringes[0]
        return {
            "reason": f"layers with {noise.title()} noise, in which the weight of each person is bounded",
            "error": max(deviations),
            "guarantee": "epsilon and delta" if tests else "zCDP" if noise == "gaussian" else "pure epsilon",
            "parameters": design.described | {"threshold": design.threshold or "none"},
            "shown_from": laws.cell_shown_from(tests),
            "curve": partial(laws.deviation_curve, max(deviations), setting.alpha),
            "by_level": setting.by_level(self._shown(setting), deviations),
        }

    def _build(self, setting: Setting, space: Space) -> Priced:
        unit, budget = setting.unit, setting.budget
        assert unit is not None
        options: dict[str, Any] = {name: getattr(unit, name) for name in ("count", "rows", "nodes")}
        options |= {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta if budget.rho is None else 0.0}
        options |= {"noise": self.noise, "measuring": self.measuring}
        return self._made(make_people_estimator, setting, space, **options)


@dataclass(frozen=True)
class TreeMeans(_Finder):
    """Counts, sums and means: the method of every release with a value."""

    levels: Sequence[int] | None = None

    name = "tree_means"
    needs = "nothing but the depth and a delta; or public nodes, or known names that are all closed, and then no delta"

    def _refusal(self, setting: Setting) -> str | None:
        if setting.closed or (setting.budget.delta > 0 and setting.budget.rho is None):
            return None
        if setting.budget.rho is None:
            return NO_DELTA
        return "epsilon and delta must both be given where nodes must be found. Hint: epsilon=1.0, delta=1e-6"

    def _predict(self, setting: Setting) -> dict[str, Any]:
        levels, budget, known = self._shown(setting), setting.budget, setting.known
        source: Tree | OpenMeans | None = setting.tree
        tests: Fringe | None = None
        if known is not None:
            amounts = replace(budget, epsilon=budget.pure_epsilon)
            source = OpenMeans.of(known, levels, setting.values, amounts, None, 0.95)
            tests = self._tests(setting, source.parameters)  # of no levels where all are closed
        elif not setting.closed:
            tests = root_fringe(len(levels), choose_shares(len(levels), budget).finding, budget)
        errors = laws.means_errors(levels, budget, setting.values, source)
        return {
            "shown_from": laws.cell_shown_from(tests),
            "reason": "pairs of sums give counts and sums at the price of one, and gaps give the counts of cells",
            "error": max(each.error for each in errors if each.quantity == "count"),
            "guarantee": "pure epsilon" if setting.closed else "epsilon and delta",
            "by_level": errors,
        }

    def _build(self, setting: Setting, space: Space) -> Priced:
        return self._made(make_tree_means, setting, space)


@dataclass(frozen=True)
class Curve:
    """How many lie below each value of a number or a date: `segment_curve`, `bin_curve`, or `curve` for the better one.

    For `Key.number`, and for one below other columns, whose groups are found first: each that is shown has a curve.

    :param segments: Whether a partition first finds where people are. By default None: from 1,025 bins on.
    :param finding: The share of a curve's epsilon that finds segments, above 0 and below 1. By default a fifth.
    :param grouping: The share of epsilon that finds and counts groups, where there are any. By default a fifth.
    :param public_groups: A tree of the labels of all groups, if these are public. By default None: groups are found.

    >>> Curve().name, Curve(segments=False).name
    ('curve', 'bin_curve')
    """

    segments: bool | None = None
    finding: float = 0.2
    grouping: float = 0.2
    public_groups: Tree | None = None

    needs = "a line of bins, such as Key.number"

    def __post_init__(self) -> None:
        if self.segments is not None:
            check_flags(segments=self.segments)
        for name in ("finding", "grouping"):
            if not Fraction(1, 1000) <= check_probability(getattr(self, name), name=name) <= Fraction(999, 1000):
                raise ValueError(f"{name} ({getattr(self, name)}) must be from 0.001 to 0.999. Hint: 0.2")
        if self.public_groups is not None:
            check_type(self.public_groups, Tree, name="public_groups", hint="Tree.from_paths([('AA',), ('UA',)])")

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return "curve" if self.segments is None else "segment_curve" if self.segments else "bin_curve"

    def _share(self, bins: int) -> float:
        """The share of epsilon that finds segments; 0 where all bins are measured."""
        finds = bins > _FEW_BINS if self.segments is None else self.segments
        return self.finding if finds else 0.0

    def _refusal(self, setting: Setting) -> str | None:
        if setting.line is not None:
            if self.public_groups is not None or setting.budget.rho is None:
                return NO_DELTA if self.public_groups is None and setting.budget.delta == 0 else None
            return "rho must not be given where groups are found. Hint: epsilon and delta, or Curve(public_groups=...)"
        if not setting.public:
            hint = "for curves by group, release_tree with by=Key.nested(Key.columns(...), Key.number(...))"
            return f"nodes of an open tree have no order. Hint: {hint}"
        if not SCALES[0] <= setting.budget.noise_scale("laplace", 1) <= SCALES[1] / 2:
            return "the budget is beyond what noise can be drawn for"
        return None

    def _build(self, setting: Setting, space: Space) -> Priced:
        if setting.line is not None:
            return self._grouped(*setting.line, setting, space)
        finding = self._share(bins_of(setting))
        make = space.bind(make_segment_curve, finding=finding) if finding else space.bind(make_bin_curve)
        return setting.budget.fit(make, setting.budget.noise_scale("laplace", 1))

    def _grouped(self, levels: int, ranges: NumberRange, setting: Setting, space: Space) -> Priced:
        """Groups are counted by the best method with a share of epsilon; each has a curve with the rest."""
        _, first, left = self._groups(tree_of_leaves(space.domain, None).names[:levels], setting, space.confidence)
        options: dict[str, Any] = {"groups": first, "levels": levels, "ranges": ranges}
        make = space.bind(make_grouped_curves, finding=self._share(ranges.bins), **options)
        return setting.budget.fit(make, float(setting.budget.d_in / left))

    def _groups(
        self, names: Sequence[str] | int, setting: Setting, confidence: float = 0.95
    ) -> tuple[Setting, Measurement, Fraction]:
        """What is asked of the method for groups, its measurement, and the epsilon that it leaves for curves."""
        budget, groups = setting.budget, self.public_groups or OpenTree.columns(names)
        whole = Fraction(budget.pure_epsilon)
        epsilon, delta = round_down(Fraction(self.grouping) * whole), 0.0 if self.public_groups else budget.delta
        asked = Setting.of(groups, Budget.of(epsilon=epsilon, delta=delta, d_in=budget.d_in), alpha=setting.alpha)
        first = make_planned(Auto(), asked, Space(leaf_domain(groups), l1_distance(T="i64"), None, confidence))
        spent = first.map(budget.d_in)  # type: ignore[no-untyped-call]
        return asked, first, whole - Fraction(spent[0] if isinstance(spent, tuple) else spent)

    def _predict(self, setting: Setting) -> dict[str, Any]:
        bins, budget = bins_of(setting), setting.budget
        predicted, finding = {"guarantee": "pure epsilon"}, self._share(bins)
        if setting.line is not None:
            asked, _, left = self._groups(setting.line[0], setting)
            groups = choose_method(Auto(), asked)._predict(asked)
            predicted = {name: groups[name] for name in ("guarantee", "shown_from") if name in groups}
            budget = Budget(float(left), d_in=budget.d_in)
        where = "segments where people are" if finding else "a tree over all bins"
        error = laws.curve_rank_error(bins, budget, finding=finding)
        return predicted | {"reason": f"{where}, all quantiles with intervals", "error": error}


def bins_of(setting: Setting) -> int:
    """How many bins a line has."""
    if setting.line is not None:
        return setting.line[1].bins
    assert setting.tree is not None
    return setting.tree.leaf_count if setting.tree.ranges is None else setting.tree.ranges.bins


Mechanism: TypeAlias = TreeNoise | PrunedDescent | TreeEstimator | PeopleLayers | TreeMeans | Curve
Method: TypeAlias = Auto | Mechanism

MECHANISMS: tuple[Mechanism, ...] = (
    *(TreeNoise(noise) for noise in get_args(Noise)),
    *(PrunedDescent(noise) for noise in get_args(Noise)),
    TreeEstimator(),
)
"""The methods for every tree."""
METHODS: dict[str, Method] = {
    method.name: method for method in (Auto(), *MECHANISMS, Curve(), Curve(segments=True), Curve(segments=False))
}
"""The methods by name, with their default options; those for people are not listed."""
PEOPLE_METHODS: tuple[Mechanism, ...] = tuple(PeopleLayers(noise) for noise in get_args(Noise))


def read_method(method: Method | str) -> Method:
    """A method, or the one of this name with its default options."""
    if isinstance(method, str):
        people = {each.name: each for each in PEOPLE_METHODS}
        return people.get(method) or METHODS[check_choice(method, name="method", choices=tuple(METHODS))]
    if not isinstance(method, Method) or isinstance(method, TreeMeans):
        raise TypeError(
            f"method ({type(method).__name__}) must be a name, or one of Auto, TreeNoise, PrunedDescent, "
            "TreeEstimator, PeopleLayers, Curve. Hint: TreeNoise('gaussian')"
        )
    return method


def method_text(method: Method) -> str:
    """A method as Python code, with the options that differ from the defaults."""
    options = ((each.name, getattr(method, each.name), each.default) for each in fields(method))
    said = ", ".join(f"{name}={value!r}" for name, value, usual in options if value != usual)
    return f"{type(method).__name__}({said})"


def method_of_key(key: Key, method: Method) -> Method:
    """The method for the levels that a key shows; refused if it would release other levels."""
    shown = key.shown_levels
    if len(shown) == key.hierarchy.depth:
        return method
    if not isinstance(method, (Auto, TreeEstimator, PeopleLayers)):
        raise ValueError(
            f"by: show is not possible with method ({method.name}). Hint: leave show out and read those levels of "
            "the frame; a larger stride, or fewer columns, makes fewer levels"
        )
    if method.levels not in (None, shown):
        raise ValueError(f"method: levels {method.levels} must be the levels that the key shows, {shown}")
    return replace(method, levels=shown)


def refusal(method: Mechanism, setting: Setting) -> str | None:
    """Why a method is not possible, or None."""
    if setting.known is not None and not isinstance(method, _Finder):
        return f"{method.name} cannot use known names. Hint: method='tree_estimator', or leave known out"
    return method._refusal(setting)


def choose_method(method: Method, setting: Setting) -> Mechanism:
    """The method that a release uses; an error says why there is none."""
    if setting.values:
        levels = None if setting.public else getattr(method, "levels", None)
        other = TreeNoise() if setting.public else TreeEstimator(levels=levels)
        if method not in (Auto(levels=levels), TreeMeans(levels), other):
            raise InfeasibleError(
                f"method ({method.name}) must be left out where there is a value; only levels of an open tree may be "
                "given. Hint: method='auto'"
            )
        method = Auto(levels=levels)
    chosen = method._choose(setting) if isinstance(method, Auto) else method
    reason = refusal(chosen, setting)
    if reason is not None:
        what = "" if isinstance(method, Auto) else f"method ({method.name}) is not possible: "
        raise InfeasibleError(f"{what}{reason}" + ("" if "Hint: " in reason else ". Hint: plan(...).describe()"))
    return chosen


def make_planned(
    method: Method, setting: Setting, space: Space, *, unit: str | None = None, counted: str | None = None
) -> Measurement:
    """The measurement from the input to a release within the budget, with a complete statement."""
    chosen, budget = choose_method(method, setting), setting.budget
    measurement, spent = chosen._build(setting, space)
    if not budget.covers(spent):
        raise InfeasibleError(f"{chosen.name} would spend {spent}, more than {budget.amounts}")
    measure, loss = measure_name(budget.measure), amounts_of_loss(budget.measure, spent)

    def finish(release: TreeRelease) -> TreeRelease:
        """Adds the cost in terms of the budget."""
        if isinstance(method, Auto):
            release = method._polish(chosen, release)
        assert release.statement is not None
        words = {"measure": measure, "d_in": budget.d_in, "loss": loss, "unit": unit, "counted": counted}
        return replace(release, statement=replace(release.statement, **words))  # type: ignore[arg-type]

    return measurement >> make_function(finish)


def make_counts(
    space: Space, budget: Budget, *, method: Method | str = "auto", alpha: float = 0.1, **words: str | None
) -> Measurement:
    """The same from leaf counts, whose domain carries the tree."""
    chosen = read_method(method)
    levels = chosen.levels if isinstance(chosen, Auto) else None
    setting = Setting.of(tree_of_leaves(space.domain, space.tree), budget, alpha=alpha, levels=levels)
    return make_planned(chosen, setting, space, **words)
