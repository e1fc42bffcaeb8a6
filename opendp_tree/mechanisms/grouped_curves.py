"""A curve for every group: numbers below categories, which are found and counted first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import saturate
from opendp_tree._arguments import check_integer, check_type, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Array, Ints
from opendp_tree.mechanisms.curve import MeasuredLine
from opendp_tree.releases.curve import range_edges
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.quantiles import grouped_epsilon
from opendp_tree.trees.domains import check_metric, read_occupied, tree_of_leaves
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import LabelKeys, SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["make_grouped_curves", "then_grouped_curves"]


def make_grouped_curves(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    groups: Measurement,
    levels: int,
    ranges: NumberRange,
    finding: float = 0.2,
    confidence: float = 0.95,
) -> Measurement:
    """A curve for every group that another measurement shows: a `TreeRelease` of groups, whose `quantiles` name them.

    A row is in one group, so the curves of all groups cost as much as one.

    The measure is that of `groups`, `max_divergence()` or `approximate(max_divergence())`; at distance k, epsilon is
    that of `groups` and that of one curve, at most k/scale. Proof: docs/proofs/quantiles.md.

    Parameters
    ----------
    input_domain
        `leaf_domain` of an open tree of columns: those of the groups, and below them the labels of `ranges`.
    input_metric
        `l1_distance`, of an integer type or f64.
    scale
        One over the epsilon of one curve at distance 1, from 2**-20 to 2**40.
    groups
        From the leaf counts of the groups' columns, as an `OpenTree` of these, or of a public tree, to a `TreeRelease`.
    levels
        How many of the columns are groups.
    ranges
        The bins of the number. What lies outside of them is counted with its group, and in no curve.
    finding
        The share of a curve's epsilon that finds segments; 0 for a tree over all bins. By default a fifth.
    confidence
        The probability with which an interval of a curve holds, each for itself; 0.95, as people expect.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Key, OpenTree, leaf_domain, plan
    >>> dp.enable_features("contrib")
    >>> delay = Key.number("delay", low=0, high=60, bins=60)
    >>> tree = Key.nested(Key.columns("carrier"), delay).open_tree()
    >>> l1 = dp.l1_distance(T="i64")
    >>> carriers = plan(OpenTree.columns(["carrier"]), epsilon=0.5, delta=1e-6).best.make
    >>> groups = carriers(leaf_domain(OpenTree.columns(["carrier"])))
    >>> curves = make_grouped_curves(leaf_domain(tree), l1, 2.0, groups=groups, levels=1, ranges=delay.tree.ranges)
    >>> curves.map(1) <= (1.0, 1e-6)
    True

    """
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    line = GroupedLine.of(input_domain, scale, groups, levels, ranges, finding, confidence)
    pure = groups.output_measure == max_divergence()
    if not pure and groups.output_measure != approximate(max_divergence()):
        raise ValueError("groups must have the measure max_divergence() or approximate(max_divergence())")

    def statement() -> PrivacyStatement:
        loss = privacy_map(1)
        terms = {"epsilon": loss} if pure else dict(zip(("epsilon", "delta"), loss, strict=True))
        parameters = {**line.line.statement.parameters, "groups": levels}
        return PrivacyStatement("grouped_curves", measure_name(groups.output_measure), 1, terms, parameters)

    def privacy_map(d_in: int | float) -> Any:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        found = groups.map(people)  # type: ignore[no-untyped-call]
        epsilon, delta = (found, 0.0) if pure else found
        if not math.isfinite(epsilon):
            return math.inf if pure else (math.inf, 1.0)
        total = round_up(grouped_epsilon(Fraction(epsilon), Fraction(line.line.epsilon(people))))
        return total if pure else (total, delta)

    def release(data: Any) -> TreeRelease:
        return replace(line.release(data), statement=statement())

    return make_measurement(input_domain, input_metric, groups.output_measure, release, privacy_map)


then_grouped_curves = to_then(make_grouped_curves)


@dataclass(frozen=True)
class GroupedLine:
    """How counts by group and bin become a release; all of it is public."""

    tree: OpenTree
    groups: Measurement
    levels: int
    edges: Array
    labels: tuple[str, ...]
    """Those of the bins, in order."""
    line: MeasuredLine
    read: Any
    public: Any
    """The labels of the groups, where these are public; None where they are found."""

    @classmethod
    def of(
        cls,
        input_domain: Domain,
        scale: float,
        groups: Measurement,
        levels: int,
        ranges: NumberRange,
        finding: float,
        confidence: float,
    ) -> GroupedLine:
        """Checks all arguments."""
        tree = tree_of_leaves(input_domain, None)
        if not isinstance(tree, OpenTree) or tree.kind != "columns":
            raise ValueError("input_domain must be leaf_domain of an open tree of columns. Hint: Key.nested")
        check_type(groups, Measurement, name="groups", hint="plan(...).best.make(leaf_domain(tree))")
        check_metric(groups.input_metric, l1_distance, name="groups: input_metric")
        check_type(ranges, NumberRange, name="ranges", hint="Key.number(...).tree.ranges")
        if not 1 <= check_integer(levels, name="levels", least=1) < tree.depth - 1:
            raise ValueError(f"levels ({levels}) must leave a level of the {tree.depth - 1} to the number")
        known = tree_of_leaves(groups.input_domain, None)
        ragged = isinstance(known, Tree) and (known.labels is None or known.node_levels[known.leaves].min() < levels)
        if known.depth != levels + 1 or ragged:
            raise ValueError(f"groups must be of a tree whose leaves are {levels} labels deep, one for each column")
        public = _public_groups(known) if isinstance(known, Tree) else None
        line = MeasuredLine.of(ranges.bins, scale, finding=finding, branching=16, confidence=confidence)
        labels = tuple(ranges.label(place, place + 1) for place in range(ranges.bins))
        read = read_occupied(input_domain, None)[1]
        return cls(tree, groups, levels, range_edges(ranges), labels, line, read, public)

    def release(self, data: Any) -> TreeRelease:
        """One run of the mechanism."""
        from opendp_tree.releases.group_labels import has_lists, owners_of, place_labels, plain_labels, shown_groups

        counts = self.read(data)
        assert isinstance(counts.keys, LabelKeys)
        columns = place_labels(counts)
        found: TreeRelease = self.groups(self._group_counts(counts, columns))
        typed = has_lists(counts) and isinstance(found.tree, OpenTree)
        shown = shown_groups(found, self.levels, typed=typed)
        owners = owners_of(columns[: self.levels], counts.occupied.levels, shown)
        histograms = self._histograms(owners, self._bins(counts, columns), counts.occupied.counts)
        curves = {node: self.line.curve(self.edges, histograms(at)) for at, node in enumerate(shown["node"].to_list())}
        return replace(plain_labels(found) if typed else found, curves=curves)

    def _histograms(self, owners: Ints, places: Ints, counts: Ints) -> Callable[[int], Ints]:
        """The counts of all bins for any group: sums, so that a place changes no bin but its own."""
        inside = np.flatnonzero((owners >= 0) & (places >= 0))
        cells = owners[inside] * self.line.bins + places[inside]
        order = np.argsort(cells, kind="stable")
        known, firsts = np.unique(cells[order], return_index=True)
        people = counts[inside][order].clip(0, saturate.LIMIT)
        sums = saturate.range_sums(people, firsts, np.append(firsts[1:], people.size)[: firsts.size])

        def histogram(group: int) -> Ints:
            first, last = np.searchsorted(known, (group * self.line.bins, (group + 1) * self.line.bins))
            filled = np.zeros(self.line.bins, dtype=np.int64)
            filled[known[first:last] - group * self.line.bins] = sums[first:last]
            return filled

        return histogram

    def _group_counts(self, counts: SparseCounts, columns: Sequence[Any]) -> Any:
        """The leaf counts of the groups' tree, public or open."""
        from opendp_tree.releases.group_labels import count_groups, owners_of

        tree = tree_of_leaves(self.groups.input_domain, None)
        if isinstance(tree, OpenTree):
            return count_groups(tree, counts)
        owners = owners_of(columns[: self.levels], counts.occupied.levels, self.public)
        inside = owners >= 0
        order = np.argsort(owners[inside], kind="stable")
        ends = np.searchsorted(owners[inside][order], np.arange(tree.leaf_count + 1))
        return saturate.range_sums(counts.occupied.counts[inside][order], ends[:-1], ends[1:])

    def _bins(self, counts: SparseCounts, columns: Sequence[Any]) -> Ints:
        """The bin of each place; -1 for what has none."""
        from opendp_tree.releases.group_labels import places_among

        if len(columns) < self.tree.depth - 1:
            return np.full(counts.occupied.counts.size, -1)
        return np.where(counts.occupied.levels == self.tree.depth - 1, places_among(columns[-1], self.labels), -1)


def _public_groups(tree: Tree) -> Any:
    """The labels of the leaves; refused where those of a level have several types, as no column has."""
    from opendp_tree.releases.group_labels import leaf_groups

    assert tree.labels is not None
    for level in range(1, tree.depth):
        own = (tree.labels[node] for node in np.flatnonzero(tree.node_levels == level).tolist())
        kinds = sorted({type(label).__name__ for label in own if label is not None})
        if len(kinds) > 1:
            raise ValueError(
                f"groups must have labels of one type on each level, found {' and '.join(kinds)} on level {level}. "
                "Hint: the type of the column"
            )
    return leaf_groups(tree)
