"""Rows of a Polars frame, or a vector of records, to the counts of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
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
    FrameDistance,
    Metric,
    SymmetricIdDistance,
    Transformation,
    VectorDomain,
    assert_features,
)

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree._opendp import make_transformation, to_then, total_bound
from opendp_tree.rows.bounding import Limits
from opendp_tree.rows.frame_domain import column_kinds
from opendp_tree.rows.key import Key
from opendp_tree.theorems.leaf_counts import leaf_counts_l1, per_person
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

__all__ = ["make_leaf_counts", "then_leaf_counts"]


def make_leaf_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str] | Tree | OpenTree,
    tree: Tree | None = None,
    nulls: Literal["label", "drop"] | None = None,
    other: Path | None = None,
    rows_per_unit: int | None = None,
    leaves_per_unit: int | None = None,
    rows_per_leaf: int = 1,
) -> Transformation:
    """How many rows of a frame belong to each leaf: `leaf_domain` of a public tree, or of the key's open tree.

    `input_domain` is OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory. `by` says
    where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.

    - `tree`: a public tree of label paths. A row counts at the leaf that its labels lead to or lead through. Rows that
      lead to none count at the leaf with the path `other`, or nowhere. Without it, the nodes are not known in advance.
    - `nulls`: "label" counts null like any other label, "drop" leaves such rows out. The default is "label", except
      for bits and addresses in an open tree, which have no room for it.

    A *vector of records* is counted too: `input_domain` is then OpenDP's `vector_domain` of texts, integers or truth
    values, with or without a size, and `by` the tree itself. A record is the label of a leaf (its node id, in a tree
    without labels), or a key of an `OpenTree`: an integer for bits, a text for paths, a label for one column. Records
    that are no leaf's count at `other` or nowhere. A vector that is not as long as its domain declares is refused. This
    is what `make_population_amplification` needs: it takes the size of the *records* for the size of the sample. Never
    amplify a measurement on vectors of leaf counts, whose size is the number of leaves: OpenDP does not notice.

    Stability in L1, exact, at distance `d_in`:

    - `symmetric_distance`, `insert_delete_distance`: `d_in`; `change_one_distance`, `hamming_distance`: twice that.
    - `symmetric_id_distance`: `d_in` times the rows of one person that are counted; `change_one_id_distance`: twice
      that. At most `rows_per_unit` rows are, and with `leaves_per_unit` at most that many leaves with `rows_per_leaf`
      rows each; at least one bound must be given. Which are kept is drawn at random. Rows without an identifier are
      left out, because nothing bounds how many of them one person has.
    - `frame_distance` of these: the bound on the whole frame in the place of `d_in`. Bounds by columns are not used.

    Proof: docs/proofs/leaf_counts.md. Nothing that is raised depends on values in the data, only on its schema. The
    cost is that of one Polars group-by.

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
        given = (tree, nulls, rows_per_unit, leaves_per_unit)
        return _count_vectors(input_domain, input_metric, by, other, unused=given, rows_per_leaf=rows_per_leaf)
    if isinstance(by, (Tree, OpenTree)):
        raise TypeError("by must be a Key or names of columns where input_domain holds frames. Hint: tree=...")
    counting = LeafCounting.of(
        input_domain,
        input_metric,
        by=by,
        tree=tree,
        nulls=nulls,
        other=other,
        rows_per_unit=rows_per_unit,
        leaves_per_unit=leaves_per_unit,
        rows_per_leaf=rows_per_leaf,
    )
    return make_transformation(
        input_domain,
        input_metric,
        leaf_domain(counting.tree),
        l1_distance(T="i64"),
        counting.count,
        counting.stability_map,
    )


then_leaf_counts = to_then(make_leaf_counts)


def _count_vectors(
    input_domain: VectorDomain, input_metric: Metric, by: Any, other: Path | None, *, unused: Any, rows_per_leaf: int
) -> Transformation:
    from opendp_tree.rows.vectors import VectorCounting

    if any(value is not None for value in unused) or rows_per_leaf != 1:
        raise ValueError(
            "a vector of records takes by= and other= alone. Hint: by=tree; a frame knows more of its rows"
        )
    counting = VectorCounting.of(input_domain, input_metric, by=by, other=other)
    output = leaf_domain(counting.tree)
    return make_transformation(
        input_domain, input_metric, output, l1_distance(T="i64"), counting.count, counting.stability_map
    )


@dataclass(frozen=True)
class LeafCounting:
    """The parts of the transformation, checked."""

    tree: Tree | OpenTree
    count: Callable[[Any], Any]
    stability_map: Callable[[Any], int]

    @classmethod
    def of(
        cls,
        input_domain: Domain,
        input_metric: Metric,
        *,
        by: Key | str | Sequence[str],
        tree: Tree | None = None,
        nulls: str | None = None,
        other: Path | None = None,
        rows_per_unit: int | None = None,
        leaves_per_unit: int | None = None,
        rows_per_leaf: int = 1,
    ) -> LeafCounting:
        """Checks the arguments of `make_leaf_counts`."""
        key, kinds = Key.of(by), column_kinds(input_domain)
        key.check_kinds(kinds)
        metric, distance = _read_metric(input_metric)
        unit, changed = _read_unit(metric, kinds)
        limits = _read_limits(unit, rows_per_unit, leaves_per_unit, rows_per_leaf)
        most = 1
        if limits is not None:
            most = per_person(rows=limits.rows, leaves=limits.leaves, rows_per_leaf=limits.rows_per_leaf)
        lookup, place = _read_tree(key, tree, other, kinds)
        drop = _read_nulls(nulls, key, tree) == "drop"
        used = dict.fromkeys(key.columns_used if unit is None else (*key.columns_used, unit))

        from opendp_tree.rows.row_counts import RowCounter

        counter = RowCounter(key, {name: kinds[name] for name in used}, drop, unit, limits, lookup, place)

        def stability_map(d_in: Any) -> int:
            return leaf_counts_l1(distance(d_in), per_unit=most, changed=changed)

        return cls(key.open_tree() if tree is None else tree, counter.count, stability_map)


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


def _read_unit(metric: Metric, kinds: dict[str, str]) -> tuple[str | None, bool]:
    """The column that tells people apart, if the metric counts people; and whether units are changed."""
    if metric in (symmetric_distance(), insert_delete_distance()):
        return None, False
    if metric in (change_one_distance(), hamming_distance()):
        return None, True
    if isinstance(metric, (SymmetricIdDistance, ChangeOneIdDistance)):
        from opendp_tree.trees.label_keys import column_name

        name = column_name(metric.identifier)
        if name not in kinds:
            raise ValueError(f"input_metric ({metric}) must have a column of input_domain as its identifier")
        if kinds[name].startswith("Object"):
            raise ValueError(f"input_metric ({metric}): Polars cannot tell the objects of its identifier apart")
        return name, isinstance(metric, ChangeOneIdDistance)
    raise ValueError(
        f"input_metric ({metric}) must be symmetric_distance, insert_delete_distance, change_one_distance, "
        "hamming_distance, symmetric_id_distance, change_one_id_distance, or frame_distance of one of them"
    )


def _read_limits(unit: str | None, rows: int | None, leaves: int | None, rows_per_leaf: int) -> Limits | None:
    bounds = {"rows_per_unit": rows, "leaves_per_unit": leaves}
    if unit is None:
        for name, bound in bounds.items():
            if bound is not None:
                raise ValueError(f"{name} needs an input_metric with an identifier, such as symmetric_id_distance")
    elif rows is None and leaves is None:
        raise ValueError("rows_per_unit or leaves_per_unit must be given, because input_metric counts people")
    for name, bound in bounds.items():
        if bound is not None:
            check_integer(bound, name=name, least=1)
    if check_integer(rows_per_leaf, name="rows_per_leaf", least=1) != 1 and leaves is None:
        raise ValueError("rows_per_leaf needs leaves_per_unit")
    return None if unit is None else Limits(rows, leaves, rows_per_leaf)


def _read_nulls(nulls: str | None, key: Key, tree: Tree | None) -> str:
    fits = tree is not None or key.holds_null
    if nulls is None:
        return "label" if fits else "drop"
    if check_choice(nulls, name="nulls", choices=("label", "drop")) == "label" and not fits:
        raise ValueError("nulls ('label') must be 'drop': an open tree of bits has no room for null")
    return nulls


def _read_tree(key: Key, tree: Tree | None, other: Path | None, kinds: dict[str, str]) -> tuple[Any, int]:
    """How to find leaves in a public tree, and the place among them for all that is not found."""
    if tree is None:
        if other is not None:
            raise ValueError("other needs a public tree. Hint: tree=Tree.from_paths(...)")
        return None, -1
    if not isinstance(tree, Tree):
        raise TypeError(f"tree ({type(tree).__name__}) must be a Tree, whose nodes are public")
    if tree.labels is None:
        raise ValueError("tree must have labels. Hint: Tree.from_paths")
    if key.kind in ("bits", "ip") and min(key.stride, key.width) > 63:
        raise ValueError(f"by: stride ({key.stride}) must be at most 63 for a public tree, whose labels are int64")
    place = -1
    if other is not None:
        places = np.flatnonzero(tree.count([other])) if isinstance(other, tuple) else ()
        if len(places) == 0:
            raise ValueError(f"other ({other!r}) must be the path of a leaf of tree, a tuple of labels")
        place = int(places[0])
    from opendp_tree.rows.lookup import Lookup

    return Lookup(tree, key.label_kinds(kinds)), place
