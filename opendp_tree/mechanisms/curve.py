"""Curves of how many lie below each value of a line, from the counts of its bins; alone, or one for each group.

Groups are found and counted first, and their labels matched by type and value, as texts that contain both. So the group
of a row does not depend on other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_integer, check_positive, check_probability, check_type, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Array, Ints
from opendp_tree.budget import PrivacyStatement, amounts_of_loss
from opendp_tree.mechanisms.find import find_in_fringe, pure_fringe
from opendp_tree.releases.curve import ROUNDING, Found, MeasuredCurve, line_edges, range_edges
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import Interval, round_down, round_up
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta
from opendp_tree.theorems.sums import found_epsilon, grouped_epsilon
from opendp_tree.trees.domains import CountSpace, check_metric, leaf_reader, tree_of_leaves
from opendp_tree.trees.labels import label_series
from opendp_tree.trees.least_squares import SegmentTree, tail_reach
from opendp_tree.trees.nodes import LabelKeys, SparseCounts, count_tuples
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

BRANCHING = 16
SCALES = 2.0**-20, 2.0**40
"""Outside of this range, noise is none or does not fit into int64."""
_ROOT_WEIGHT = Fraction(1, 2)
_FALSE_CELLS = 10.0
_MOST_BINS = 2**22
_NANOSECONDS = {"ms": 10**6, "us": 10**3, "ns": 1}
_MARKS = {str: "t", int: "i", bool: "b", date: "d"}


def make_segment_curve(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    finding: float = 0.2,
    branching: int = BRANCHING,
    confidence: float = 0.95,
) -> Measurement:
    """How many lie below each value of a line of many bins: a `TreeRelease` with `quantiles`, `cdf` and `between`.

    A private partition finds where people are, in a binary tree over the bins, all of whose nodes are public. The line
    is cut at both ends of each cell. A fresh balanced tree over these segments is measured with integer Laplace noise,
    and least squares gives the count below each cut. Segments of many bins hold few people, so little is lost.

    `max_divergence()`: at distance k, epsilon is k/scale, or less by rounding. Proof: docs/proofs/quantiles.md.

    :param input_domain: `leaf_domain(tree)` of a tree whose leaves in order are the bins; or a vector of integers, with
        the tree.
    :param input_metric: `l1_distance`, of an integer type or f64.
    :param scale: One over epsilon at distance 1, from 2**-20 to 2**40.
    :param tree: The tree, where `input_domain` does not carry it.
    :param finding: The share of epsilon that finds the segments; 0.2 did best over 2**10 to 2**20 bins.
    :param branching: The most children of a node of the tree over the segments: fewer levels leave more for each.
    :param confidence: The probability with which each interval holds.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> bins = Tree.balanced(branching=2, depth=13)
    >>> curve = (leaf_domain(bins), dp.l1_distance(T="i64")) >> then_segment_curve(1.0)
    >>> 1 - 1e-9 < curve.map(1) <= 1.0
    True
    >>> release = curve(np.repeat([0, 30, 0], [1024, 1024, 2048]))
    >>> bool(abs(release.quantiles([0.5])["estimate"][0] - 1536) < 10)
    True
    """
    if check_probability(finding, name="finding") < Fraction(1, 1000):
        raise ValueError(f"finding ({finding}) must be at least 0.001. Hint: 0.2, or make_bin_curve")
    return _make(input_domain, input_metric, tree, scale, finding=finding, branching=branching, confidence=confidence)


def make_bin_curve(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    branching: int = BRANCHING,
    confidence: float = 0.95,
) -> Measurement:
    """How many lie below each value of a line of few bins: a `TreeRelease` with `quantiles`, `cdf` and `between`.

    A balanced tree over the bins is measured with integer Laplace noise, and least squares gives the count below each
    edge. From about a thousand bins on, `make_segment_curve` errs less. Its map is the same, and tight.
    Proof: docs/proofs/quantiles.md.

    Other parameters: as for `make_segment_curve`.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> curve = (leaf_domain(Tree.balanced(branching=16, depth=3)), dp.l1_distance(T="i64")) >> then_bin_curve(1.0)
    >>> curve.map(1), curve.map(2)
    (1.0, 2.0)
    """
    return _make(input_domain, input_metric, tree, scale, finding=0, branching=branching, confidence=confidence)


then_segment_curve = to_then(make_segment_curve)
then_bin_curve = to_then(make_bin_curve)


def _make(input_domain: Domain, input_metric: Metric, tree: Tree | None, scale: float, **options: Any) -> Measurement:
    """The measurement of a `MeasuredLine`, which checks its options."""
    space, public = CountSpace.of_leaves(input_domain, input_metric, tree)
    if public._depth_first is not None:
        raise ValueError("tree must have its leaves numbered depth-first. Hint: sort the paths, or the node ids")
    if public.leaf_count > _MOST_BINS:
        raise ValueError(f"tree must have at most 2**22 leaves, found {public.leaf_count}. Hint: fewer, wider bins")
    edges = line_edges(public)
    line = MeasuredLine.of(edges.size - 1, scale, **options)

    def release(data: Any) -> TreeRelease:
        return line.release(public, edges, space.read_people(data))

    return make_measurement(input_domain, input_metric, max_divergence(), release, line.epsilon)


@dataclass(frozen=True)
class MeasuredLine:
    """How the counts of bins become a curve; all of it is public."""

    bins: int
    scale: float
    """That of the tree over the segments: one over what it costs."""
    fringe: Fringe | None
    """How segments are found; None where bins are segments."""
    branching: int
    confidence: float
    asked: float

    @classmethod
    def of(cls, bins: int, scale: float, *, finding: float, branching: int, confidence: float) -> MeasuredLine:
        """Checks all arguments; a share of one over the scale goes to finding."""
        exact = check_positive(scale, name="scale")
        if not SCALES[0] <= exact <= SCALES[1]:
            raise ValueError(f"scale ({scale}) must be from 2**-20 to 2**40. Hint: 1/epsilon")
        if check_integer(branching, name="branching", least=2) > 2**16:
            raise ValueError(f"branching ({branching}) must be at most 2**16. Hint: 16")
        if check_probability(confidence, name="confidence") > 1 - Fraction(1, 2**50):
            raise ValueError(f"confidence ({confidence}) must be at most 1 - 2**-50. Hint: 0.95")
        levels = 1 + (bins - 1).bit_length()
        fringe, left = None, 1 / exact
        if finding > 0:
            spent = round_down(Fraction(finding) / exact)
            fringe = pure_fringe(levels, Fraction(spent), nodes=2**levels - 1, false_cells=_FALSE_CELLS)
            left -= Fraction(spent)
        made = cls(bins, round_up(1 / left), fringe, branching, float(confidence), float(scale))
        if max(max(scales) for scales in made._level_scales()) > noise.LARGEST_SCALE:
            raise ValueError(f"scale ({scale}) must be smaller: what finding leaves needs more noise than can be drawn")
        return made

    def segment_tree(self, segments: int) -> SegmentTree:
        """The tree over this many segments."""
        return SegmentTree.of(segments, scale=self.scale, branching=self.branching, root_weight=_ROOT_WEIGHT)

    def _level_scales(self) -> Iterator[tuple[float, ...]]:
        """The scales of the levels, for each number of levels that segments can lead to."""
        fewest = 1 if self.fringe is not None else self.bins
        while fewest <= self.bins:
            scales = self.segment_tree(fewest).scales
            yield scales
            fewest = self.branching ** (len(scales) - 1) + 1

    def epsilon(self, d_in: int | float) -> float:
        """The privacy map, rounded up."""
        finding = Interval.of(0) if self.fringe is None else find_epsilon_delta([self.fringe], k=1)[0]
        # The tree over the segments has one of these costs; a count outside of the line is not in that tree.
        costs = [1 / Fraction(self.scale)]
        costs += [laplace_epsilon(1, scales=list(map(Fraction, scales))) for scales in self._level_scales()]
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        return round_up(found_epsilon(people, finding=finding, measuring=map(Interval.of, costs)))

    @property
    def statement(self) -> PrivacyStatement:
        """What a curve costs at distance 1."""
        parameters: dict[str, int | float | str | None] = {"scale": self.asked, "branching": self.branching}
        name = "bin_curve"
        if self.fringe is not None:
            name, parameters["finding"] = "segment_curve", round_up(1 / self.fringe.test_scale)
            parameters["threshold"] = self.fringe.thresholds[0]
        return PrivacyStatement(name, measure_name(max_divergence()), 1, {"epsilon": self.epsilon(1)}, parameters)

    def release(self, tree: Tree, edges: Array, counts: Ints) -> TreeRelease:
        """One run of the mechanism on the leaf counts of a tree: the bins', and perhaps one of what is outside."""
        curve = self.curve(edges, counts[: self.bins])
        first, last = (np.minimum(places, self.bins) for places in tree.leaf_ranges)
        found = curve.counts(first, last)
        if counts.size > self.bins:
            noisy = saturate.add(counts[self.bins :], noise.laplace(self.scale, counts.size - self.bins))
            self._count_outside(found, tree, curve, float(noisy[0]))
        return TreeRelease(tree, *found, confidence=self.confidence, statement=self.statement, curve=curve)

    def _count_outside(self, found: Found, tree: Tree, curve: MeasuredCurve, outside: float) -> None:
        """Write the count of the leaf outside of the line, and add it to the root's."""
        own, total = 2 * self.scale**2, float(curve.tree.variances(np.array(0), np.array(curve.cuts.size - 1)))
        for node, inside, known, variance, step in (
            (int(tree.leaves[-1]), 0.0, 0.0, own, self.scale),
            (tree.root, curve.unbiased_total, curve.totals[-1], own + total, max(self.scale, curve.tree.largest_step)),
        ):
            tail = tail_reach(np.array(variance), largest_step=step, chance=(1 - self.confidence) / 2)
            reach = float(tail) + ROUNDING * (abs(outside) + abs(inside))
            found.lower[node], found.upper[node] = (max(0.0, inside + outside + part) for part in (-reach, reach))
            found.estimate[node] = min(max(known + max(outside, 0.0), found.lower[node]), found.upper[node])

    def curve(self, edges: Array, counts: Ints) -> MeasuredCurve:
        """One run of the mechanism on the counts of bins, none below 0."""
        cuts = np.arange(self.bins + 1) if self.fringe is None else self._find_cuts(counts, self.fringe)
        tree = self.segment_tree(cuts.size - 1)
        parts = []
        for starts, scale in zip(tree.starts, tree.scales, strict=True):
            ends = cuts[starts]
            true = saturate.range_sums(counts, ends[:-1], ends[1:])
            parts.append(saturate.add(true, noise.laplace(scale, true.size)))
        return MeasuredCurve(edges, cuts, tree, np.concatenate(parts), self.confidence)

    def _find_cuts(self, counts: Ints, fringe: Fringe) -> Ints:
        """Both ends of every cell of a binary tree over the bins; empty bins fill up to a power of 2."""
        depth = len(fringe.levels)
        tree = _binary_tree(depth)
        filled = np.zeros(tree.leaf_count, dtype=np.int64)
        filled[: self.bins] = counts
        places, levels, _ = find_in_fringe(tree.occupied(filled, every=True), tuple(range(depth)), fringe)
        bits = depth - 1 - levels
        first = places >> bits << bits
        return np.unique(np.concatenate(([0, self.bins], first, first + (1 << bits))).clip(max=self.bins))


@lru_cache(maxsize=4)
def _binary_tree(depth: int) -> Tree:
    return Tree.balanced(branching=2, depth=depth)


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

    A row is in one group, so the curves of all groups cost as much as one. The measure is that of `groups`,
    `max_divergence()` or `approximate(max_divergence())`; at distance k, epsilon is that of `groups` and that of one
    curve, at most k/scale. Proof: docs/proofs/quantiles.md.

    :param input_domain: `leaf_domain` of an open tree of columns: those of the groups, then the labels of `ranges`.
    :param scale: One over the epsilon of one curve at distance 1, from 2**-20 to 2**40.
    :param groups: From the leaf counts of the groups' columns, of an `OpenTree` or of a public tree, to a
        `TreeRelease`.
    :param levels: How many of the columns are groups.
    :param ranges: The bins of the number. What lies outside of them is counted with its group, and in no curve.
    :param finding: The share of a curve's epsilon that finds segments; 0 for a tree over all bins.

    Other parameters: as for `make_segment_curve`.

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
    tree, read = leaf_reader(input_domain, input_metric, None)
    if not isinstance(tree, OpenTree) or tree.kind != "columns":
        raise ValueError("input_domain must be leaf_domain of an open tree of columns. Hint: Key.nested")
    check_type(groups, Measurement, name="groups", hint="plan(...).best.make(leaf_domain(tree))")
    check_metric(groups.input_metric, l1_distance, name="groups: input_metric")
    check_type(ranges, NumberRange, name="ranges", hint="Key.number(...).tree.ranges")
    if not 1 <= check_integer(levels, name="levels", least=1) < tree.depth - 1:
        raise ValueError(f"levels ({levels}) must leave a level of the {tree.depth - 1} to the number")
    schema = tree_of_leaves(groups.input_domain, None)
    ragged = isinstance(schema, Tree) and (schema.labels is None or schema.node_levels[schema.leaves].min() < levels)
    if schema.depth != levels + 1 or ragged:
        raise ValueError(f"groups must be of a tree whose leaves are {levels} labels deep, one for each column")
    leaf_labels = leaf_groups(schema) if isinstance(schema, Tree) else pl.DataFrame()
    measure = groups.output_measure
    pure = measure == max_divergence()
    if not pure and measure != approximate(max_divergence()):
        raise ValueError("groups must have the measure max_divergence() or approximate(max_divergence())")
    line = MeasuredLine.of(ranges.bins, scale, finding=finding, branching=BRANCHING, confidence=confidence)
    edges, labels = range_edges(ranges), [ranges.label(place, place + 1) for place in range(ranges.bins)]

    def privacy_map(d_in: int | float) -> Any:
        people = math.floor(read_distance(d_in))  # counts that are 1.5 apart are 1 apart
        found = groups.map(people)  # type: ignore[no-untyped-call]
        epsilon, delta = (found, 0.0) if pure else found
        if not math.isfinite(epsilon):
            return math.inf if pure else (math.inf, 1.0)
        total = round_up(grouped_epsilon(Fraction(epsilon), Fraction(line.epsilon(people))))
        return total if pure else (total, delta)

    def release(data: Any) -> TreeRelease:
        counts = read(data)
        rows, keys = counts.keys.rows, counts.keys.columns
        plain = [each.gather(rows) if isinstance(each, pl.Series) else [each[row] for row in rows] for each in keys]
        columns, people, depths = [typed_texts(each) for each in plain], counts.occupied.counts, counts.occupied.levels
        typed = isinstance(schema, OpenTree) and not isinstance(plain[0], pl.Series)
        if isinstance(schema, OpenTree):
            found: TreeRelease = groups(count_groups(schema, plain[:levels], np.minimum(depths, levels), people))
        else:
            owners = owners_of(columns[:levels], depths, leaf_labels)
            found = groups(next(_histograms(owners, people, 1, schema.leaf_count)))
        shown = shown_groups(found, levels, typed=typed)
        bins = np.full(people.size, -1)
        if len(columns) == tree.depth - 1:
            bins = np.where(depths == tree.depth - 1, places_among(columns[-1], labels), -1)
        owners = owners_of(columns[:levels], depths, shown)
        cells = np.where((owners >= 0) & (bins >= 0), owners * line.bins + bins, -1)
        histograms = _histograms(cells, people, shown.height, line.bins)
        curves = {node: line.curve(edges, each) for node, each in zip(shown["node"], histograms, strict=True)}
        parameters = {**line.statement.parameters, "groups": levels}
        spent = amounts_of_loss(measure, privacy_map(1))
        statement = PrivacyStatement("grouped_curves", measure_name(measure), 1, spent, parameters)
        return replace(plain_labels(found) if typed else found, curves=curves, statement=statement)

    return make_measurement(input_domain, input_metric, measure, release, privacy_map)


then_grouped_curves = to_then(make_grouped_curves)


def _histograms(cells: Ints, counts: Ints, groups: int, bins: int) -> Iterator[Ints]:
    """The counts of all bins, group by group; `cells` says where each count belongs, -1 for nowhere."""
    inside = np.flatnonzero(cells >= 0)
    order = inside[np.argsort(cells[inside], kind="stable")]
    cells, people = cells[order], counts[order].clip(0, saturate.LIMIT)
    for group in range(groups):
        ends = np.searchsorted(cells, np.arange(group * bins, (group + 1) * bins + 1))
        own = people[ends[0] : ends[-1]]
        yield saturate.range_sums(own, ends[:-1] - ends[0], ends[1:] - ends[0])


def typed_texts(labels: Any) -> pl.Series:
    """Labels as texts that are equal if and only if type and value are; null stays null."""
    if not isinstance(labels, pl.Series):
        texts = (str(label).lower() if type(label) is bool else label for label in labels)
        marked = [
            None if text is None else f"{_MARKS[type(label)]}{text}" for label, text in zip(labels, texts, strict=True)
        ]
        return pl.Series(marked, dtype=pl.String)
    kind, values = labels.dtype, labels
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        ticks = pl.lit(_NANOSECONDS[kind.time_unit], pl.Int128)
        values = pl.select(labels.to_physical().cast(pl.Int128) * ticks).to_series()
    return pl.select(pl.lit(_mark(kind)) + values.cast(pl.String)).to_series()


def _mark(kind: pl.DataType) -> str:
    """The prefix of a label's typed text that stands for its type; no prefix begins another."""
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "t"
    if kind.is_integer():
        return "i"
    if isinstance(kind, pl.Datetime):
        return "n" if kind.time_zone is None else "z"
    return {"Boolean": "b", "Date": "d", "Time": "c", "Duration": "u"}.get(str(kind.base_type()), f"({kind})")


def _untyped(text: str | None) -> Any:
    """The label of a typed text."""
    if text is None:
        return None
    mark, value = text[0], text[1:]
    if mark == "b":
        return value == "true"
    return int(value) if mark == "i" else date.fromisoformat(value) if mark == "d" else value


def count_groups(tree: OpenTree, columns: list[Any], lengths: Ints, people: Ints) -> SparseCounts:
    """The counts of groups. Labels in lists, which tuples have, may be of several types and become typed texts."""
    if isinstance(columns[0], pl.Series):
        return SparseCounts.of_labels(tree, columns, lengths, people)
    keys = [row[:length] for row, length in zip(zip(*columns, strict=True), lengths.tolist(), strict=True)]
    made = count_tuples(tree, keys, people)
    assert isinstance(made.keys, LabelKeys)
    return replace(made, keys=LabelKeys(tuple(map(typed_texts, made.keys.columns)), made.keys.rows))


def plain_labels(release: TreeRelease) -> TreeRelease:
    """A release of typed texts with the labels themselves."""
    if release.nodes is None:
        return release
    labels = tuple(label_series([_untyped(text) for text in own.to_list()]) for own in release.nodes.labels)
    return replace(release, nodes=replace(release.nodes, labels=labels))


def shown_groups(release: TreeRelease, levels: int, *, typed: bool = False) -> pl.DataFrame:
    """The labels of the shown groups as typed texts, and the index of each in the release's arrays."""
    frame = release.to_frame(other=False).with_columns(node=release.row_order)
    found = frame.filter((pl.col("level") == levels) & pl.col("shown"))
    labels = {name: f"label_{at}" for at, name in enumerate(release.tree.names)}
    found = found.select(*labels, "node").rename(labels)
    if not typed:
        found = found.with_columns(typed_texts(found[label]).alias(label) for label in labels.values())
    return found.unique(list(labels.values()), keep="none", maintain_order=True)  # a row is in one group


def leaf_groups(tree: Tree) -> pl.DataFrame:
    """The labels of the leaves of a public tree, as typed texts; those of a level have one type, as a column has."""
    paths = [tree.path(int(node)) for node in tree.leaves]
    columns = {}
    for level, labels in enumerate(zip(*paths, strict=True)):
        kinds = sorted({type(label).__name__ for label in labels if label is not None})
        if len(kinds) > 1:
            raise ValueError(
                f"groups must have labels of one type on each level, found {' and '.join(kinds)} on level {level + 1}. "
                "Hint: the type of the column"
            )
        columns[f"label_{level}"] = typed_texts(label_series(list(labels)))
    return pl.DataFrame(columns)


def owners_of(columns: Sequence[pl.Series], levels: Ints, groups: pl.DataFrame) -> Ints:
    """The row of each key's group; -1 for keys that are in none."""
    names = [f"label_{at}" for at in range(len(columns))]
    left = pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
    right = groups.select(names).with_row_index("group")
    found = left.join(right, on=names, how="left", nulls_equal=True, maintain_order="left")["group"]
    owners: Ints = found.cast(pl.Int64).fill_null(-1).to_numpy().copy()
    owners[levels < len(columns)] = -1
    return owners


def places_among(labels: pl.Series, names: Sequence[str]) -> Ints:
    """The index of each label among some names; -1 for other labels."""
    known = pl.Enum(typed_texts(pl.Series(names, dtype=pl.String)))
    found: Ints = labels.cast(known, strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return found
