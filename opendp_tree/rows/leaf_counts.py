"""Rows of a Polars frame, or a vector of records, to the counts of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opendp.metrics import (
    change_one_distance,
    hamming_distance,
    insert_delete_distance,
    l1_distance,
    symmetric_distance,
)
from opendp.mod import (
    ChangeOneIdDistance,
    Domain,
    ExtrinsicDomain,
    FrameDistance,
    Metric,
    Transformation,
    VectorDomain,
    assert_features,
)

from opendp_tree._arguments import check_integer
from opendp_tree._opendp import make_transformation, to_then, total_bound
from opendp_tree.keys.key import Key
from opendp_tree.rows.domains import check_rows_are_here, column_kinds
from opendp_tree.rows.leaf_values import leaf_values_domain
from opendp_tree.rows.unit import Unit, identifier_of
from opendp_tree.rows.value import Value, value_unit
from opendp_tree.theorems.distances import leaf_counts_l1
from opendp_tree.theorems.people_layers import people_apart
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["make_leaf_counts", "then_leaf_counts"]


def make_leaf_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str] | Tree | OpenTree,
    unit: Unit | None = None,
    memory: int | str | None = None,
) -> Transformation:
    """How many rows of a frame belong to each leaf: `leaf_domain` of a public tree, or of the key's open tree.

    A *vector of records* is counted too: `input_domain` is then OpenDP's `vector_domain` of texts, integers or truth
    values, with or without a size, and `by` the tree itself. A record is the label of a leaf (its node id, in a tree
    without labels), or a key of an `OpenTree`: an integer for bits, a text for paths, a label for one column. Records
    that are no leaf's count nowhere. A vector that is not as long as its domain declares is refused. This
    is what `make_population_amplification` needs: it takes the size of the *records* for the size of the sample. Never
    amplify a measurement on vectors of leaf counts, whose size is the number of leaves: OpenDP does not notice.

    Stability in L1, exact, at distance `d_in`:

    - `symmetric_distance`, `insert_delete_distance`: `d_in`; `change_one_distance`, `hamming_distance`: twice that.
    - `symmetric_id_distance`: `d_in` times the rows of one person that are counted; `change_one_id_distance`: twice
      that.
    - `frame_distance` of these: the bound on the whole frame in the place of `d_in`. Bounds by columns are not used.

    Proof: docs/proofs/leaf_counts.md. Nothing that is raised depends on values in the data, only on its schema. The
    cost is that of one Polars group-by.

    Parameters
    ----------
    input_domain
        OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    input_metric
        How far frames are apart, in rows or in people: one of those above.
    by
        Where a row belongs: a `Key`, which carries a public tree and all else that there is to say, or the names of
        columns from the coarsest to the finest.
    unit
        How much of one person is counted, where the metric has an identifier: `Unit("user", rows=5)`. By default None:
        the metric counts rows.
    memory
        How much memory the rows of people may take while they are cut to the unit's bounds: bytes, or a text such as
        "2GiB". By default None: an eighth of the machine's memory, and at most 2 GiB. Where there are more rows, the
        data are read several times, a part of the people each time, if they are in memory or files that `read_source`
        opened; any other plan is run once, and its rows are held. What is released has the same law.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain, then_leaf_counts
    >>> dp.enable_features("contrib")
    >>> frame = pl.DataFrame({"region": ["be", "be", "lu"], "city": ["ghent", "ghent", None]})
    >>> space = frame_domain(frame), dp.symmetric_distance()
    >>> counts = space >> then_leaf_counts(by=["region", "city"])
    >>> counts(frame).occupied.counts, counts.map(1)
    (array([2, 1]), 1)
    >>> records = dp.vector_domain(dp.atom_domain(T=str)), dp.change_one_distance()
    >>> counts = records >> then_leaf_counts(by=Tree.from_paths([("be", "ghent"), ("lu",)]))
    >>> counts(["lu", "ghent", "ghent", "nowhere"]), counts.map(1)
    (array([2, 1]), 2)

    """
    assert_features("contrib")
    if isinstance(input_domain, VectorDomain):
        if unit is not None:
            raise ValueError("unit must not be given for a vector of records, which tells no people apart")
        return _count_vectors(input_domain, input_metric, by)
    if isinstance(by, (Tree, OpenTree)):
        raise TypeError(
            "by must be a Key or names of columns where input_domain holds frames. Hint: Key.columns(..., tree=...)"
        )
    return make_counting(input_domain, input_metric, by=by, unit=unit, memory=memory)


then_leaf_counts = to_then(make_leaf_counts)


def make_counting(input_domain: Domain, input_metric: Metric, **options: Any) -> Transformation:
    """Leaf counts of frames; leaf values where there are `values`; records of people where `records` is true."""
    counting = LeafCounting.of(input_domain, input_metric, **options)
    return make_transformation(input_domain, input_metric, *counting.space, counting.count, counting.stability_map)


def _count_vectors(input_domain: VectorDomain, input_metric: Metric, by: Any) -> Transformation:
    from opendp_tree.rows.vectors import VectorCounting

    counting = VectorCounting.of(input_domain, input_metric, by=by)
    output = leaf_domain(counting.tree)
    return make_transformation(
        input_domain, input_metric, output, l1_distance(T="i64"), counting.count, counting.stability_map
    )


@dataclass(frozen=True)
class LeafCounting:
    """The parts of the transformation, checked."""

    space: tuple[Domain, Metric]
    """What comes out: leaf counts, leaf values, or records of people."""
    count: Callable[[Any], Any]
    stability_map: Callable[[Any], int]

    @classmethod
    def of(
        cls,
        input_domain: Domain,
        input_metric: Metric,
        *,
        by: Key | str | Sequence[str],
        unit: Unit | None = None,
        memory: int | str | None = None,
        records: bool = False,
        values: tuple[Value, ...] = (),
    ) -> LeafCounting:
        """Checks the arguments of `make_leaf_counts`, `make_leaf_values`, or (`records`) `make_people_records`."""
        key, kinds, person = Key.of(by), column_kinds(input_domain), value_unit(unit) if values else Unit.of(unit)
        if values and isinstance(input_domain, ExtrinsicDomain):
            check_rows_are_here("value", input_domain.descriptor)
        key.check_kinds(kinds)
        for each in values:
            each.check_kinds(kinds)
        metric, distance = _read_metric(input_metric)
        changed = _check_unit(metric, kinds, person)
        most = 1 if person is None or records else person.most_rows
        used = dict.fromkeys((*key.columns_used, *([] if person is None else [person.column])))
        used |= dict.fromkeys(each.column for each in values)

        from opendp_tree.rows.counting import RowCounter, ValueCounter
        from opendp_tree.rows.people import people_domain

        counter = RowCounter.of(key, kinds, {name: kinds[name] for name in used}, person, memory)

        def stability_map(d_in: Any) -> int:
            if records:
                return people_apart(distance(d_in), changed=changed)
            return leaf_counts_l1(distance(d_in), per_unit=most, changed=changed)

        tree = key.hierarchy
        if records:
            if person is None:
                raise ValueError("unit must say who a person is. Hint: Unit('user', count='shares')")
            return cls((people_domain(tree), symmetric_distance()), counter.people, stability_map)
        if values:
            counts = ValueCounter(counter, values).count
            return cls((leaf_values_domain(tree, values), symmetric_distance()), counts, stability_map)
        return cls((leaf_domain(tree), l1_distance(T="i64")), counter.count, stability_map)


def _read_metric(metric: Metric) -> tuple[Metric, Callable[[Any], int]]:
    """What counts the distance between two frames, and how to read that number from a distance."""
    if not isinstance(metric, FrameDistance):
        return metric, lambda d_in: check_integer(d_in, name="d_in", least=0)

    def whole(bounds: Any) -> int:
        total = total_bound(bounds)
        if total is None:
            raise ValueError("d_in must bound the whole frame. Hint: a Bound without `by`; truncate_per_group(k)")
        return check_integer(total, name="d_in", least=0)

    return metric.inner_metric, whole


def are_changed(metric: Metric) -> bool | None:
    """Whether a metric counts rows that are changed, rather than added or removed; None if it counts something else."""
    if metric in (symmetric_distance(), insert_delete_distance()):
        return False
    return True if metric in (change_one_distance(), hamming_distance()) else None


def _check_unit(metric: Metric, kinds: dict[str, str], unit: Unit | None) -> bool:
    """That the metric counts what the unit is; whether units are changed, not added or removed."""
    name = identifier_of(metric)
    if name is None:
        if unit is not None:
            raise ValueError("unit needs an input_metric with an identifier. Hint: symmetric_id_distance('user')")
        changed = are_changed(metric)
        if changed is None:
            raise ValueError(
                f"input_metric ({metric}) must be symmetric_distance, insert_delete_distance, change_one_distance, "
                "hamming_distance, symmetric_id_distance, change_one_id_distance, or frame_distance of one of them"
            )
        return changed
    if name not in kinds:
        raise ValueError(f"unit: there is no column {name!r}. Hint: the column that tells people apart")
    if kinds[name].startswith(("Object", "Unknown")):
        raise ValueError(f"unit: values of the identifier {name!r} cannot be told apart, by their type. Hint: text")
    if unit is None:
        raise ValueError(
            f"unit must say how much of one person is counted, because people are told apart by {name!r}. "
            f"Hint: unit=Unit({name!r}, rows=5)"
        )
    if unit.column != name:
        raise ValueError(
            f"unit ({unit.column!r}) must be {name!r}, which tells people apart. Hint: unit=Unit({name!r}, ...)"
        )
    return isinstance(metric, ChangeOneIdDistance)
