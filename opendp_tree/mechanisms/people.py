"""People with many rows: nodes are found with one row per person, and counted with bounded weights per person.

Weights are integers in units of 1 / `UNITS`, so that sums are exact in any order: a row weighs at most `UNITS`, and
sums over all people stay below 2**52. Only `PeopleRelease` sees data. Proof: docs/proofs/people_and_means.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.metrics import symmetric_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_probability, is_zero, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import (
    NO_DELTA,
    Budget,
    PrivacyStatement,
    amounts_of_loss,
    best_order,
    make_unfunded,
    with_promised_delta,
    zcdp_rho,
)
from opendp_tree.mechanisms.consistent import noise_multiplier
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, choose_parameters, even_parameters, variance
from opendp_tree.mechanisms.layers import (
    LADDER,
    LEAST_SHARE,
    ShownTree,
    choose_layers,
    final_variances,
    measure,
    two_passes,
    whole_tree,
)
from opendp_tree.mechanisms.tails import Bounds, layer_bounds, leaf_reaches
from opendp_tree.mechanisms.tree_estimator import (
    Found,
    GapNoise,
    KnownPlaces,
    check_known,
    check_levels,
    describe,
    estimate_nodes,
    hidden_weight,
)
from opendp_tree.mechanisms.tree_noise import LAWS, one_or_all, single_bound
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.people import PeoplePart, PeopleRecords, read_records, tree_of_people
from opendp_tree.rows.unit import COUNTS, Unit
from opendp_tree.theorems.interval import Interval, round_down, round_up
from opendp_tree.theorems.partition import find_epsilon_delta
from opendp_tree.theorems.sums import (
    layer_l1,
    layer_l2_squared,
    layers_epsilon,
    layers_rho,
    node_units,
    node_units_squared,
    zcdp_epsilon_at,
)
from opendp_tree.trees.nodes import KnownNodes
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

UNITS = 2**20
"""Units per 1: a person with a thousand leaves loses less than a thousandth to rounding."""
MEASURING = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Shares of epsilon for measuring, among which the one of least predicted error is chosen."""
GAUSSIAN_DELTA = Fraction(1, 2)
"""The share of delta for Gaussian layers where nodes must be found as well."""
SPREAD = 0.125
"""A guess of what each person of a cell adds to the variance of its gap, since their row is drawn at random."""
_LESS = 1 - Fraction(1, 2**40)
"""Scales are made for slightly less than the budget, so that it holds after rounding."""
_EVEN = 0.5
"""The share of epsilon for measuring where gaps count people."""
_PLACED = 0.5
"""The part of the probability of missing a leaf's shares that the drawn rows get; its gap's noise gets the rest."""
_ROUNDING = 1e-9
"""Bounds that are computed in floats are moved outward by this share."""


def make_people_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    count: str = "rows",
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    rows: int | Sequence[int] | None = None,
    nodes: int | Sequence[int] | None = None,
    known: KnownNodes | None = None,
    noise: str | None = None,
    measuring: float | None = None,
    levels: Sequence[int] | None = None,
    d_in: int = 1,
    confidence: float = 0.95,
) -> Measurement:
    """Counts of every node, from records of people with many rows each: a `TreeRelease`.

    In an open tree, nodes are found with one row of each person, drawn at random. Known and found nodes, or all nodes
    of a public tree, are counted level by level, and each person's weight per level is bounded. So finding costs as
    for one row per person, however many rows they have, and each level costs its own bound.

    For k people: with Laplace noise epsilon is k times the sum of the cells' epsilon and, over the levels, of
    bound/scale; delta is the cells' at distance k. Gaussian noise has rho, k**2/2 times the sum of bound/scale**2 for
    people, of (bound/scale)**2 otherwise; in open trees it is turned into epsilon, with half of delta. The measure is
    `approximate(max_divergence())` where nodes must be found; otherwise `max_divergence()`, or
    `zero_concentrated_divergence()` with Gaussian noise. Proof: docs/proofs/people_and_means.md.

    :param input_domain: `people_domain(tree)`: what `make_people_records` gives.
    :param input_metric: `symmetric_distance`: how many people come or go.
    :param count: What is counted: "rows", each person's limited to a total weight of `rows`; "people", each person at
        every node where they have rows, limited to a total weight of `nodes` per level; "shares", all rows of a person
        together weighing 1, as "rows" with `rows=1`.
    :param epsilon: The privacy loss of `d_in` people. Give either this or `rho`.
    :param delta: The probability of a larger loss. Open trees need it, unless all known nodes are closed.
    :param rho: The privacy loss of zero-concentrated differential privacy, where no nodes must be found.
    :param rows: For "rows", the largest total weight of one person's rows: one number, or one per shown level from the
        root down. A public number that must not depend on the data.
    :param nodes: For "people", the largest total weight of one person at all nodes of a level, shown or not: one
        number, or one per shown level below the root. A public number.
    :param noise: "laplace" or "gaussian"; by default None: whichever is predicted to be less.
    :param d_in: How many people the budget is for.
    :param confidence: The probability with which each interval holds what is counted at its node, node by node. What is
        counted is rounded down to 2**-20 per person; at leaves of open trees, intervals of shares are of shares before
        that.

    Other parameters: as for `make_tree_estimator`.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import Unit, frame_domain
    >>> from opendp_tree.rows.leaf_counts import then_people_records
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [*range(900), *range(300)], "city": ["ghent"] * 900 + ["liege"] * 300})
    >>> space = frame_domain(visits), dp.symmetric_id_distance("user")
    >>> records = space >> then_people_records(by="city", unit=Unit("user", count="shares"))
    >>> people = records >> then_people_estimator(count="people", nodes=2, epsilon=1.0, delta=1e-6)
    >>> people.map(1) <= (1.0, 1e-6), people(visits).to_frame()["path"].to_list()
    (True, ['', 'ghent', 'liege'])
    """
    assert_features("contrib")
    tree = tree_of_people(input_domain)
    if tree is None:
        raise ValueError(f"input_domain ({input_domain}) must be people_domain. Hint: make_people_records")
    if input_metric != symmetric_distance():
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance, of people")
    check_choice(count, name="count", choices=COUNTS)
    if noise is not None:
        check_choice(noise, name="noise", choices=("laplace", "gaussian"))
    sure = float(check_probability(confidence, name="confidence"))
    kept = check_levels(tree.depth, levels)
    names = check_known(tree, known) if isinstance(tree, OpenTree) else None
    if names is None and (known is not None or len(kept) < tree.depth):
        raise ValueError("known and levels must be left out for a public tree, all of whose nodes are counted")
    finds = names is not None and not all(names.closed)
    person = Unit("person", count=count, rows=rows, nodes=nodes)
    bounds = person.bounds(len(kept))
    budget = Budget.declared(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    share = None if measuring is None else float(check_probability(measuring, name="measuring"))
    design = choose_design(count, bounds, budget, finds=finds, noise=noise, measuring=share)
    if rho is None and is_zero(epsilon):
        return make_unfunded(input_domain, input_metric, delta=delta)

    def privacy_map(people: int | float) -> float | tuple[float, float]:
        number = math.ceil(read_distance(people))
        loss = design.loss(number)
        return with_promised_delta(loss, budget.delta if number <= d_in else 0.0) if finds else loss[0]

    parameters = design.described
    if names is not None:
        parameters |= describe(design.parameters, kept, tree.depth, len(names.paths))
    spent, unit = amounts_of_loss(design.measure, privacy_map(d_in)), "one person" if d_in == 1 else f"{d_in} people"
    counted = person.counted(weighed=True)
    name = f"people_{design.noise}"
    statement = PrivacyStatement(name, measure_name(design.measure), d_in, spent, parameters, unit, counted)
    release = PeopleRelease(design, names, kept, sure, statement)

    def function(data: Any) -> TreeRelease:
        return release.make(read_records(data, tree=tree))

    return make_measurement(input_domain, input_metric, design.measure, function, privacy_map)


then_people_estimator = to_then(make_people_estimator)


@dataclass(frozen=True)
class PeopleDesign:
    """All that is decided before data is seen: what is counted, each person's bound per level, noise, finding."""

    count: str
    bounds: tuple[int, ...]
    noise: str
    scales: tuple[float, ...] = ()
    """The scales of the levels' noise, in units; empty where layers are chosen after finding."""
    parameters: PartitionParameters | None = None
    """How nodes are found; None if none must be found."""
    layer_delta: Fraction = Fraction(0)

    @property
    def adds_up(self) -> bool:
        """Whether children's counts add up to their parent's."""
        return self.count != "people" and len(set(self.bounds)) == 1

    @property
    def threshold(self) -> int | None:
        """How many people a leaf needs to be found for certain; None if nothing must be found."""
        tested = () if self.parameters is None else self.parameters.fringes[0].thresholds
        return tested[-1] if tested else None

    @property
    def measure(self) -> Any:
        """The privacy measure of the map."""
        if self.parameters is not None:
            return approximate(max_divergence())
        return max_divergence() if self.noise == "laplace" else zero_concentrated_divergence()

    @property
    def described(self) -> dict[str, int | float | str | None]:
        """Its parameters, as plans and statements show them."""
        deviations = one_or_all([float(f"{each:.4g}") for each in self.deviations()])
        found: dict[str, int | float | str | None] = {"count": self.count, "noise": self.noise, "units": UNITS}
        found |= {"most": one_or_all(self.bounds), "noise_deviations": deviations}
        return found | ({"level_scales": one_or_all(self.scales)} if self.scales else {})

    def distances(self, people: int) -> list[int]:
        """How far this many people move each layer: in L1, or squared in L2 for Gaussian noise."""
        if self.noise == "laplace":
            return [layer_l1(people, most=bound, units=UNITS) for bound in self.bounds]
        # People's weights are bounded in L2, those of rows and shares by their sum.
        squares = self.bounds if self.count == "people" else tuple(bound**2 for bound in self.bounds)
        return [layer_l2_squared(people, most=square, units=UNITS) for square in squares]

    def layers_loss(self, people: int) -> Fraction:
        """The epsilon of all layers for this many people, or their rho with Gaussian noise."""
        theorem = layers_epsilon if self.noise == "laplace" else layers_rho
        return theorem(self.distances(people), scales=[Fraction(scale) for scale in self.scales])

    def loss(self, people: int) -> tuple[float, float]:
        """The total cost for this many people: epsilon and delta, or rho and 0 for Gaussian noise on known nodes."""
        if people == 0:
            return 0.0, 0.0
        if self.parameters is None:
            return round_up(self.layers_loss(people)), 0.0
        if not self.scales:
            return self.parameters.loss(people)
        epsilon, delta = find_epsilon_delta(self.parameters.fringes, k=people)
        measured = Interval.of(self.layers_loss(people))
        if self.noise == "gaussian":
            measured = zcdp_epsilon_within(self.layers_loss(people), self.layer_delta)
        return round_up(epsilon + measured), min(1.0, round_up(delta + Interval.of(self.layer_delta)))

    def deviations(self) -> tuple[float, ...]:
        """The predicted standard deviation of each shown level's noise."""
        if self.scales:
            return tuple(math.sqrt(LAWS[self.noise].variance(scale)) / UNITS for scale in self.scales)
        given, size = self.parameters, len(self.bounds)
        assert given is not None
        layers, top = max(size - 2, 1) if size <= NAMED else LADDER, given.fringes[0]
        above = math.sqrt(variance(layers / float(given.alphas)) + variance(layers / float(given.betas)))
        leaf = math.sqrt(variance(float(top.test_scale)) + variance(float(top.token_scale)))
        return (above,) * (size - 1) + (leaf if size > 1 else above,)


def choose_design(
    count: str,
    bounds: Sequence[int],
    budget: Budget,
    *,
    finds: bool,
    noise: str | None = None,
    measuring: float | None = None,
) -> PeopleDesign:
    """The design of least predicted error for a budget; a ValueError if none fits."""
    if finds and budget.rho is None and budget.delta == 0:
        raise ValueError(NO_DELTA)
    if finds and budget.rho is not None:
        raise ValueError("epsilon and delta must be given where nodes must be found. Hint: epsilon=1.0, delta=1e-6")
    designs, reason = [], ""
    for kind in ("laplace", "gaussian") if noise is None else (noise,):
        empty = PeopleDesign(count, tuple(bounds), kind)
        if not finds:
            makers = [partial(_known, empty, budget)]
        elif count != "people" and set(bounds) == {1} and kind == "laplace":
            makers = [partial(_by_gaps, empty, budget, measuring)]
        else:
            shares = MEASURING if measuring is None else (measuring,)
            makers = [partial(_layered, empty, budget, Fraction(share)) for share in shares]
        for make in makers:
            try:
                designs.append(make())
            except ValueError as error:
                reason = str(error)
    if not designs:
        raise ValueError(reason)
    return min(designs, key=predicted_error)


def predicted_error(design: PeopleDesign) -> float:
    """The criterion that designs are chosen by: noise over the levels, and the weight of a node that is not found."""
    spread = sum(deviation**2 for deviation in design.deviations()) / len(design.bounds)
    # A node with half a threshold of drawn rows is not found, and the weight of these people is missing.
    weight = math.sqrt(design.bounds[-1] if design.count == "rows" else 1)
    return math.sqrt(spread + ((design.threshold or 0) / 2 * weight) ** 2)


def _known(empty: PeopleDesign, budget: Budget) -> PeopleDesign:
    """The design where no nodes must be found."""
    if empty.noise == "laplace":
        return _scaled(empty, Fraction(budget.pure_epsilon), budget.d_in)
    if budget.rho is None and budget.delta == 0:
        raise ValueError("delta must be above 0 for Gaussian noise. Hint: delta=1e-6, or noise='laplace'")
    return _scaled(empty, rho_within(*budget.exact) if budget.rho is None else Fraction(budget.rho), budget.d_in)


def _by_gaps(empty: PeopleDesign, budget: Budget, measuring: float | None) -> PeopleDesign:
    """The design where everybody weighs 1: gaps estimate leaves, and layers are those of the tree estimator."""
    (epsilon, delta), depth = budget.exact, len(empty.bounds)
    if measuring is None and 2 < depth <= NAMED:
        measuring = _EVEN
    given = choose_parameters(depth, epsilon, delta, d_in=budget.d_in, measuring=measuring)
    if min(given.alphas, given.betas) * Fraction(LARGEST_SCALE) < LEAST_SHARE * UNITS:
        raise ValueError("epsilon must be larger: noise of such a scale cannot be drawn")
    return replace(empty, parameters=given)


def _layered(empty: PeopleDesign, budget: Budget, share: Fraction) -> PeopleDesign:
    """The design with one layer per level, a share of epsilon for measuring, and silent known nodes."""
    (epsilon, delta), d_in, gaussian = budget.exact, budget.d_in, empty.noise == "gaussian"
    taken = Fraction(round_down(delta * GAUSSIAN_DELTA)) if gaussian else Fraction(0)
    given = even_parameters(len(empty.bounds), epsilon, delta - taken, finding=1 - share, d_in=d_in, silent=True)
    left = given.alphas * d_in
    empty = replace(empty, parameters=given, layer_delta=taken)
    return _scaled(empty, rho_within(left, taken) if gaussian else left, d_in)


def _scaled(empty: PeopleDesign, loss: Fraction, people: int) -> PeopleDesign:
    """The design with scales of the least sum of standard deviations that cost at most this epsilon, or rho."""
    distances, laplace = empty.distances(people), empty.noise == "laplace"
    roots = [Fraction((distance / distances[0]) ** (1 / 2 if laplace else 1 / 3)) for distance in distances]
    parts = [(distance, loss * _LESS * root / sum(roots)) for distance, root in zip(distances, roots, strict=True)]
    if laplace:
        scales = [round_up(distance / share) for distance, share in parts]
    else:
        scales = [math.sqrt(round_up(square / (2 * share))) * (1 + 2.0**-45) for square, share in parts]
    if max(scales) > (LARGEST_SCALE if laplace else LARGEST_SCALE / 2):
        raise ValueError("epsilon must be larger, or bounds smaller: noise of such a scale cannot be drawn")
    return replace(empty, scales=tuple(scales))


def zcdp_epsilon_within(rho: Fraction, delta: Fraction) -> Interval:
    """The epsilon of a rho at a delta, at nearly the best order; any order is sound."""
    return zcdp_epsilon_at(rho, delta, order=Fraction(best_order(float(rho), float(delta))))


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Nearly the largest rho that has at most this epsilon at a delta."""
    rho = min(Fraction(zcdp_rho(float(epsilon), float(delta))), epsilon)
    less = Fraction(1, 2**40)
    while rho > 0 and Fraction(zcdp_epsilon_within(rho, delta).hi) > epsilon:
        rho, less = rho * max(1 - less, Fraction(0)), 2 * less
    rho = Fraction(round_down(rho))
    if rho == 0:
        raise ValueError("epsilon and delta must be larger for Gaussian noise. Hint: noise='laplace'")
    return rho


def leaf_units(part: PeoplePart, bound: int) -> Ints:
    """The weight of all rows at each leaf: a person with more than `bound` rows weighs that in all, rounded down."""
    totals = part.totals
    weighed = totals > bound
    whole, rest = np.divmod(UNITS * bound, totals)
    whole, rest = np.where(weighed, whole, UNITS), np.where(weighed, rest, 0)
    # whole * rows + rest * rows // totals is the floor of UNITS * bound * rows / totals without overflow.
    lengths, rows = part.lengths, part.rows
    weights = np.repeat(whole, lengths) * rows
    left = np.flatnonzero(np.repeat(rest > 0, lengths))
    person = part.people[left]
    product = rest[person].astype(np.uint64) * rows[left].astype(np.uint64)
    weights[left] += (product // totals[person].astype(np.uint64)).astype(np.int64)
    return part.added(weights)


def people_units(part: PeoplePart, node_of_leaf: Ints, size: int, bound: int, *, squared: bool) -> Ints:
    """The weight of all people at each node of a level: `node_units` of everybody who has a row there."""
    nodes = node_of_leaf[part.leaves]
    inside = nodes >= 0
    pairs = part.people[inside] * np.int64(max(size, 1)) + nodes[inside]
    if (pairs[1:] < pairs[:-1]).any():
        pairs = np.sort(pairs)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    people, nodes = np.divmod(pairs, max(size, 1))
    held = np.bincount(people, minlength=part.starts.size)
    weigh: Callable[..., int] = node_units_squared if squared else node_units
    distinct, which = np.unique(held, return_inverse=True)
    table = np.array([weigh(max(each, 1), most=bound, units=UNITS) for each in distinct.tolist()], dtype=np.int64)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, nodes, table[which][people])
    return sums


@dataclass(frozen=True)
class PeopleRelease:
    """Makes a release from records."""

    design: PeopleDesign
    known: KnownNodes | None
    """None for a public tree."""
    levels: tuple[int, ...]
    confidence: float
    statement: PrivacyStatement

    def make(self, records: PeopleRecords) -> TreeRelease:
        """The release of the records, which are read once; twice if people are counted at found nodes."""
        if isinstance(records.tree, Tree):
            return self._public(records, records.tree)
        assert self.known is not None
        design, places = self.design, KnownPlaces.of(self.known, self.levels, records.sparse)
        # Where gaps count people, a row is drawn for everybody; otherwise among rows at unknown nodes only.
        drawn = places.unknown[places.place_of] if design.scales else None
        placed, *units = records.summed(partial(PeoplePart.placed, among=drawn), *self._weighings)
        found = Found.of(places.with_counts(placed), design.parameters)
        if not design.scales:
            return self._by_gaps(found, units[0])
        if design.count == "people":
            sums = self._people_of(records, found)
        else:
            by_bound = (saturate.join(*found.people(np.full(found.first.size, True), each)) for each in units)
            sums = self._by_level(by_bound, found.shown.levels)
        values, bounds = _around(*self._measured(found.shown, sums, rests=design.adds_up))
        return found.release(values, bounds, self.confidence, self.statement, adds_up=design.adds_up)

    @property
    def _weighings(self) -> list[Callable[[PeoplePart], Ints]]:
        """For each bound, the weights of rows at leaves; none for people, who are weighed at nodes."""
        bounds = () if self.design.count == "people" else dict.fromkeys(self.design.bounds)
        return [partial(leaf_units, bound=bound) for bound in bounds]

    def _by_level(self, by_bound: Iterable[Ints], levels: Ints) -> Ints:
        """The weight of each node with its own level's bound, from the weights with each bound."""
        bounds, sums = np.array(self.design.bounds)[levels], np.zeros(levels.size, dtype=np.int64)
        for bound, each in zip(dict.fromkeys(self.design.bounds), by_bound, strict=True):
            sums[bounds == bound] = each[bounds == bound]
        return sums

    def _public(self, records: PeopleRecords, tree: Tree) -> TreeRelease:
        """Every node of a public tree."""
        order, shown, adds_up = tree.level_order, whole_tree(tree), self.design.adds_up
        if self.design.count == "people":
            leaf_levels = tree.node_levels[tree.leaves]

            def owners(level: int) -> Ints:
                above = tree.ancestors_at(tree.leaves, np.full(leaf_levels.size, level))
                return np.where(leaf_levels >= level, above, -1)

            wanted = [order.nodes[shown.at(level)] for level in range(tree.depth)]
            sums = self._people(records, owners, tree.node_count, wanted)
        else:
            by_bound = (tree.sum(units)[order.nodes] for units in records.summed(*self._weighings))
            sums = self._by_level(by_bound, shown.levels)
        values, reach = self._measured(shown, sums, rests=False)
        bounds = Bounds(values - reach, values + reach)
        if not adds_up:
            values, bounds = _around(values, reach)
        values, lower, upper = (order.by_node(each) for each in (values, bounds.lower, bounds.upper))
        return TreeRelease(tree, values, lower, upper, self.confidence, self.statement, adds_up=adds_up)

    def _measured(self, shown: ShownTree, sums: Ints, *, rests: bool) -> tuple[Floats, Floats]:
        """Noisy counts and half-widths; with rests, each layer also has the leaves and the rests of nodes above it."""
        design, inner, left = self.design, shown.child_counts > 0, sums.copy()
        np.subtract.at(left, shown.parents[1:], sums[1:])
        own, precision, rest, rest_precision = (np.zeros(sums.size) for _ in range(4))
        for level, scale in enumerate(design.scales):
            above, weight = rests & (shown.levels < level), 1 / LAWS[design.noise].variance(scale)
            nodes = np.flatnonzero((shown.levels == level) | (above & ~inner))
            others = np.flatnonzero(above & inner)
            exact = np.concatenate((sums[nodes], left[others]))
            noisy = weight * saturate.add(exact, getattr(noise, design.noise)(scale, exact.size))
            own[nodes] += noisy[: nodes.size]
            rest[others] += noisy[nodes.size :]
            precision[nodes] += weight
            rest_precision[others] += weight
        own /= precision
        if not design.adds_up:
            reaches = [single_bound(design.noise, scale, self.confidence) + 1 for scale in design.scales]
            return own / UNITS, np.array(reaches)[shown.levels] / UNITS
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = 1 / rest_precision if rests else np.where(inner, 0.0, np.inf)
            rest = np.where(rest_precision > 0, rest / rest_precision, 0.0)
            variances = final_variances(shown, spread, precision)
            estimates = two_passes(shown, own, precision, rest, spread)
        measured = np.concatenate((precision, rest_precision[rest_precision > 0]))
        multiplier = noise_multiplier(design.noise, self.confidence, 1 / float(measured.max()), measured.size)
        return estimates / UNITS, multiplier * np.sqrt(variances) / UNITS

    def _by_gaps(self, found: Found, units: Ints) -> TreeRelease:
        """Everybody weighs 1, as in the gaps: layers and least squares of the tree estimator."""
        given, shown, miss = self.design.parameters, found.shown, 1 - self.confidence
        assert given is not None
        model = GapNoise.of(given, found.tops, shown)
        model = replace(model, spread=model.spread + SPREAD * np.maximum(shown.gaps, 0))
        layers = choose_layers(shown, model.rest_variance(shown), given.alphas, given.betas)
        measured = measure(layers, *found.people(layers.marked, units), units=UNITS)  # a power of two scales exactly
        estimates = np.maximum(estimate_nodes(shown, measured, model), 0)
        lower, upper = layer_bounds(shown, layers, measured, least=np.zeros(estimates.size), miss=miss * 0.99)
        leaves = np.flatnonzero((shown.levels == shown.depth - 1) & (shown.is_cell | ~layers.marked))
        below, beyond = leaf_reaches(given, found.tops[leaves], miss * (1 - _PLACED))
        lower[leaves] = least_shares(np.maximum(shown.gaps[leaves] - below, 0), miss * _PLACED / 2)
        upper[leaves] = most_shares(np.maximum(shown.gaps[leaves] + beyond, 0), miss * _PLACED / 2)
        # A node that is not shown has people whose drawn row is there, and others.
        drawn, hidden = hidden_weight(given, self.levels, found.places.counts.tree.depth, miss * (1 - _PLACED)), None
        if math.isfinite(drawn):
            hidden = float(most_shares(np.array([drawn]), miss * _PLACED)[0])
        bounds = Bounds(np.maximum(lower, 0), upper).around(estimates)
        return found.release(estimates, bounds, self.confidence, self.statement, hidden=hidden)

    def _people_of(self, records: PeopleRecords, found: Found) -> Ints:
        """The weights of people at the shown nodes of an open tree, each identified by its first place."""
        occupied, places, shown = found.places.counts.occupied, found.places.place_of, found.shown
        firsts = occupied.first_places(found.first, found.nodes.levels[found.wanted])

        def owners(level: int) -> Ints:
            starts, ends = (np.append(each, 0) for each in occupied.nodes_at(self.levels[level]))
            node = np.searchsorted(starts[:-1], places, side="right") - 1
            return np.where(places < ends[node], starts[node], -1)

        wanted = [firsts[shown.at(level)] for level in range(shown.depth)]
        return self._people(records, owners, occupied.levels.size, wanted)

    def _people(self, records: PeopleRecords, owners: Callable[[int], Ints], size: int, wanted: Sequence[Ints]) -> Ints:
        """The weights of people at the wanted nodes, level by level; `owners` gives the node of each leaf, or -1."""
        design = self.design

        def weigh(level: int, part: PeoplePart) -> Ints:
            squared = design.noise == "gaussian"
            return people_units(part, owners(level), size, design.bounds[level], squared=squared)[wanted[level]]

        return np.concatenate(records.summed(*(partial(weigh, level) for level in range(len(wanted)))))


def _around(estimates: Floats, reach: Floats) -> tuple[Floats, Bounds]:
    """Estimates and intervals, cut off at 0."""
    return np.maximum(estimates, 0), Bounds(np.maximum(estimates - reach, 0), np.maximum(estimates + reach, 0))


def most_shares(placed: Floats | Ints, chance: float) -> Floats:
    """An upper bound of the shares at a node where this many rows or fewer were drawn, missed with this chance."""
    n = np.asarray(placed, dtype=np.float64)
    far = math.log(1 / chance)
    return _crossing(n, n + 2 * far + 2 * np.sqrt(n * far) + 1, n, chance) * (1 + _ROUNDING)


def least_shares(placed: Floats | Ints, chance: float) -> Floats:
    """A lower bound of the shares at a node where this many rows or more were drawn, missed with this chance."""
    n = np.asarray(placed, dtype=np.float64)
    return _crossing(n, np.zeros(n.size), n, chance) * (1 - _ROUNDING)


def _crossing(near: Floats, far: Floats, n: Floats, chance: float) -> Floats:
    """Where Chernoff's bound for sums of independent coins, of which n are drawn, falls to a chance."""
    for _ in range(60):
        middle = (near + far) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(n > 0, n * np.log(middle / np.maximum(n, 1e-300)), 0.0)
        likely = n - middle + rest > math.log(chance)
        near, far = np.where(likely, middle, near), np.where(likely, far, middle)
    return far
