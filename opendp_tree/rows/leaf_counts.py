"""Constructors of transformations of rows: to leaf counts, counts and sums, records of people, and rows per person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl
from opendp.domains import atom_domain, vector_domain
from opendp.metrics import l1_distance
from opendp.mod import AtomDomain, Domain, FrameDistance, Metric, Transformation, VectorDomain, assert_features

from opendp_tree._arguments import check_integer
from opendp_tree._opendp import make_transformation, to_then
from opendp_tree._types import Ints
from opendp_tree.keys.key import Key
from opendp_tree.rows.counting import RowCounter, are_changed, make_counting, read_unit
from opendp_tree.rows.domains import PEOPLE, UNIT, Table, column_kinds, guarded
from opendp_tree.rows.unit import LARGEST_BOUND, Unit, Value, read_values
from opendp_tree.theorems.noise import leaf_counts_l1
from opendp_tree.theorems.tails import bin_ends
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.nodes import SparseCounts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Label, Tree

_DTYPES: dict[str, Any] = {"String": pl.String, "bool": pl.Boolean, "i32": pl.Int64, "i64": pl.Int64}
_DTYPES |= dict.fromkeys(("u32", "u64", "usize"), pl.UInt64)
"""The data types of OpenDP's types of records."""


def make_leaf_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str] | Tree | OpenTree,
    unit: Unit | None = None,
    memory: int | str | None = None,
) -> Transformation:
    """The number of rows of a frame at each leaf: `leaf_domain` of a public tree, or of the key's open tree.

    A *vector of records* is counted too: `input_domain` is then OpenDP's `vector_domain` of texts, integers or truth
    values, and `by` the tree itself. A record is the label of a leaf (its node id, in a tree without labels), or a key
    of an `OpenTree`: an integer for bits, a text for paths, a label for one column. Records that belong to no leaf are
    not counted. `make_population_amplification` needs such vectors. Never amplify a measurement on vectors of leaf
    counts: their size is the number of leaves, not of records, and OpenDP does not notice.

    Stability in L1, exact, at distance `d_in`:

    - `symmetric_distance`, `insert_delete_distance`: `d_in`; `change_one_distance`, `hamming_distance`: twice that.
    - `symmetric_id_distance`: `d_in` times the rows of one person that are counted; `change_one_id_distance`: twice
      that.
    - `frame_distance` of these: the bound on the whole frame instead of `d_in`. Bounds by columns are not used.

    Proof: docs/proofs/counting.md. Errors depend only on the schema of the data, never on its values.

    :param input_domain: OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    :param input_metric: The distance between frames, in rows or in people: one of those above.
    :param by: Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
    :param unit: How much of one person is counted, where the metric has an identifier: `Unit("user", rows=5)`. By
        default None: the metric counts rows.
    :param memory: How much memory people's rows may take, as for `release_tree`. It does not change the law of the
        result.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain, then_leaf_counts
    >>> dp.enable_features("contrib")
    >>> frame = pl.DataFrame({"region": ["be", "be", "lu"], "city": ["ghent", "ghent", None]})
    >>> space = frame_domain(frame), dp.symmetric_distance()
    >>> counts = space >> then_leaf_counts(by=["region", "city"])
    >>> counts(frame).occupied.counts, counts.map(1)
    (array([2, 1]), 1)
    """
    assert_features("contrib")
    if not isinstance(input_domain, VectorDomain):
        if isinstance(by, (Tree, OpenTree)):
            raise TypeError(
                "by must be a Key or names of columns where input_domain holds frames. Hint: Key.columns(..., tree=...)"
            )
        return make_counting(input_domain, input_metric, by=by, unit=unit, memory=memory)
    if unit is not None:
        raise ValueError("unit must not be given for a vector of records, which does not tell people apart")
    count, changed = _vector_counter(input_domain, by), are_changed(input_metric)  # type: ignore[arg-type]
    if changed is None:
        raise ValueError(
            f"input_metric ({input_metric}) must be symmetric_distance, insert_delete_distance, "
            "change_one_distance or hamming_distance where input_domain is a vector of records"
        )
    space = leaf_domain(by), l1_distance(T="i64")  # type: ignore[arg-type]
    return make_transformation(input_domain, input_metric, *space, count, _l1_map(changed))


then_leaf_counts = to_then(make_leaf_counts)


def make_leaf_values(
    input_domain: Domain,
    input_metric: Metric,
    *,
    values: Value | Sequence[Value],
    by: Key | str | Sequence[str],
    unit: Unit | None = None,
) -> Transformation:
    """The number of rows of a frame at each leaf, and the sums of their values, in steps between the bounds.

    A row without a number in one of the columns is left out of everything, counts included. The output metric is
    `symmetric_distance`: how many of the counted rows differ. Its map is that of `make_leaf_counts` with this unit,
    exact. Proof: docs/proofs/people_and_means.md. Other parameters: as for `make_leaf_counts`.

    :param values: What is summed: `Value("amount", bounds=(0, 500))`, or a list of several.
    :param unit: How many rows of one person are kept, drawn at random, where the metric has an identifier. By default
        None: the metric counts rows.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> frame = pl.DataFrame({"city": ["ghent", "ghent", "lux"], "amount": [125.0, None, 900.0]})
    >>> space = frame_domain(frame), dp.symmetric_distance()
    >>> leaves = space >> then_leaf_values(values=Value("amount", bounds=(0, 500)), by="city")
    >>> leaves(frame).people, leaves(frame).sums, leaves.map(1)
    (array([1, 1]), (array([ 262144, 1048576]),), 1)
    """
    assert_features("contrib")
    return make_counting(input_domain, input_metric, by=by, unit=unit, values=read_values(values))


then_leaf_values = to_then(make_leaf_values)


def make_people_records(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str],
    unit: Unit,
    memory: int | str | None = None,
) -> Transformation:
    """The number of rows of each person at each leaf: `people_domain`, under `symmetric_distance`.

    Stability, exact: `d_in` people under `symmetric_id_distance`, twice as many under `change_one_id_distance`, where
    one person replaces another; under `frame_distance` of these, the bound on the whole frame instead of `d_in`.
    Proof: docs/proofs/people_and_means.md. Records are read when a measurement asks for them, part by part if memory
    requires it. Other parameters: as for `make_leaf_counts`.

    :param unit: Who a person is. Only its column is used here: all rows of a person are recorded.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [1, 1, 1, 2, None], "city": ["ghent", "ghent", "liege", "liege", "ghent"]})
    >>> space = frame_domain(visits), dp.symmetric_id_distance("user")
    >>> records = space >> then_people_records(by="city", unit=Unit("user", count="shares"))
    >>> [part] = records(visits).each()
    >>> part.rows, part.leaves, records.map(1)
    (array([2, 1, 1]), array([0, 1, 1]), 1)
    """
    assert_features("contrib")
    return make_counting(input_domain, input_metric, by=by, unit=unit, memory=memory, records=True)


then_people_records = to_then(make_people_records)


def make_rows_per_unit(input_domain: Domain, input_metric: Metric, *, most: int) -> Transformation:
    """The number of people by their number of rows: a vector of i64 with a count for each bin of `bin_ends(most)`."""
    assert_features("contrib")
    unit, changed = read_unit(input_metric, column_kinds(input_domain))
    if unit is None or isinstance(input_metric, FrameDistance):
        raise ValueError(
            f"input_metric ({input_metric}) must be symmetric_id_distance or change_one_id_distance. Hint: without "
            "people there is nothing to bound"
        )
    if not 2 <= check_integer(most, name="most") <= LARGEST_BOUND:
        raise ValueError(f"most ({most}) must be from 2 to {LARGEST_BOUND}. Hint: the largest bound that may be useful")
    ends = np.array(bin_ends(int(most)), dtype=np.int64)
    counter = RowCounter.of(Key.columns(unit), column_kinds(input_domain), None)
    space = vector_domain(atom_domain(T="i64"), size=ends.size), l1_distance(T="i64")
    count = partial(histogram, counter, ends=ends)
    return make_transformation(input_domain, input_metric, *space, count, _l1_map(changed))


def histogram(counter: RowCounter, data: Any, ends: Ints) -> Ints:
    """The number of people in each bin of numbers of rows; rows without an identifier are left out."""
    (unit,) = counter.key.columns_used
    source = counter.source(data)
    # By the identifier itself, as people are bounded: as a key, Spark's texts that are not UTF-8 are all null.
    people = source.rows_per_person(counter.key, unit, 0, 1).group_by(UNIT)
    total = pl.col(PEOPLE).sum() if isinstance(source, Table) else pl.len()
    rows = guarded(lambda: people.agg(total.alias(PEOPLE)).collect(engine="streaming"))[PEOPLE].to_numpy()
    bins = np.searchsorted(ends, np.minimum(rows, ends[-1]), side="left")
    return np.bincount(bins, minlength=ends.size).astype(np.int64)


def _l1_map(changed: bool) -> Callable[[Any], int]:
    """The map of counts to which each row, or each person, adds 1."""
    return lambda d_in: leaf_counts_l1(check_integer(d_in, name="d_in", least=0), changed=changed)


def _vector_counter(input_domain: VectorDomain, by: Tree | OpenTree) -> Callable[[Any], Ints | SparseCounts]:
    """The function that counts the records of a vector at the leaves of a tree."""
    if not isinstance(by, (Tree, OpenTree)):
        raise TypeError(
            f"by ({type(by).__name__}) must be a tree where input_domain is a vector of records. "
            "Hint: by=Tree.from_paths(...), or an OpenTree"
        )
    element, size = input_domain.element_domain, input_domain.size
    kind = str(element.carrier_type) if isinstance(element, AtomDomain) else ""
    if kind not in _DTYPES:
        raise ValueError(f"input_domain ({input_domain}) must hold records of one of the types {', '.join(_DTYPES)}")
    read = _leaf_reader(by, kind) if isinstance(by, Tree) else _open_reader(by, kind)

    def count(records: Any) -> Ints | SparseCounts:
        if size is not None and len(records) != size:
            raise ValueError(f"the data must have exactly {size} records, as input_domain says")
        return read(records)

    return count


def _leaf_reader(tree: Tree, kind: str) -> Callable[[Any], Ints]:
    """Records that name leaves: by their labels, or by node id in a tree without labels."""
    label_type = {"String": str, "bool": bool}.get(kind, int)
    if tree.labels is None and label_type is not int:
        raise ValueError(f"by must be a tree with labels, because records are of type {kind}. Hint: Tree.from_paths")
    names: list[Label] = tree.leaves.tolist() if tree.labels is None else [tree.labels[leaf] for leaf in tree.leaves]
    # Records of a vector are all of one type, and only labels of that type are meant: True is not 1.
    indices = {name: index for index, name in enumerate(names) if type(name) is label_type}
    if len(indices) < sum(type(name) is label_type for name in names):
        raise ValueError("by must have a different label for each leaf, because records are labels")

    def read(records: Any) -> Ints:
        leaves = np.fromiter(map(indices.get, records, repeat(-1)), dtype=np.int64, count=len(records))
        return np.bincount(leaves[leaves >= 0], minlength=tree.leaf_count)

    return read


def _open_reader(tree: OpenTree, kind: str) -> Callable[[Any], SparseCounts]:
    """Records that are keys of an open tree: integers for bits, texts for paths, labels for a tree of one column."""
    dtype = _DTYPES[kind]
    if tree.kind == "bits" and (not dtype.is_integer() or tree.width > 64):
        raise ValueError(f"by ({tree}) must have at most 64 bits, and records must be integers, not {kind}")
    if tree.kind == "paths" and kind != "String":
        raise ValueError(f"by ({tree}) must be of bits or one column, because records are of type {kind}, not text")
    if tree.kind == "columns" and tree.depth != 2:
        raise ValueError(f"by ({tree}) must have one column, because a record has one label. Hint: OpenTree.columns(1)")

    def read(records: Any) -> SparseCounts:
        column = pl.Series("label", records, dtype=dtype)
        if tree.kind == "bits":
            return tree.count(column.to_numpy())
        return tree.count(column if tree.kind == "paths" else column.to_frame())

    return read
