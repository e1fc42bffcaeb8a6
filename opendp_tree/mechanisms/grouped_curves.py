"""A curve for every group: numbers below categories, which are found and counted first.

Labels are matched by type and value, as texts that contain both. So the group of a row does not depend on other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import saturate
from opendp_tree._arguments import check_integer, check_type, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Ints
from opendp_tree.budget import PrivacyStatement, amounts_of_loss
from opendp_tree.mechanisms.curve import BRANCHING, MeasuredLine
from opendp_tree.releases.curve import range_edges
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.sums import grouped_epsilon
from opendp_tree.trees.domains import check_metric, leaf_reader, tree_of_leaves
from opendp_tree.trees.labels import label_series
from opendp_tree.trees.nodes import LabelKeys, SparseCounts, count_tuples
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

_NANOSECONDS = {"ms": 10**6, "us": 10**3, "ns": 1}
_MARKS = {str: "t", int: "i", bool: "b", date: "d"}


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
