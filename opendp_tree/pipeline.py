"""Rows to a release, in one call; the one road from leaf counts to a release within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opendp.metrics import symmetric_distance, symmetric_id_distance
from opendp.mod import Domain, Measurement, Metric, Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._progress import shows_progress
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.methods import Auto, Method, Partition, read_method
from opendp_tree.planning.ranking import planned_candidate
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.unit import Unit, protected_unit
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

__all__ = ["release_tree"]

Space = tuple[Domain, Metric]


@interrupts_deferred
@shows_progress("counting")
def release_tree(
    data: Any,
    *,
    by: Key | str | Sequence[str],
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    unit: Unit | None = None,
    method: Method | str = "auto",
    confidence: float = 0.95,
    schema: Mapping[str, Any] | None = None,
    memory: int | str | None = None,
) -> TreeRelease:
    """A private count of every node of a hierarchy, from the rows of a frame of any library, or of files.

    Everything is checked before a row is counted. One call is one release: it knows nothing of others. To account for
    several, use OpenDP's Context and `tree_counts`, or a `Ledger`.

    Parameters
    ----------
    data
        The rows: a frame of Polars or of any library, a list of rows, or files, as `read_source` takes them. A Polars
        frame, lazy or not, in memory or on disk, is passed by reference, never copied.
    by
        Where a row belongs: the names of columns from the coarsest to the finest, or a `Key`, which carries a public
        tree and all else that there is to say.
    epsilon
        The privacy loss. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Without it nothing can be found in open trees.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that an error may have and be forgiven, when mechanisms are compared; from 0 to
        below 1. By default a tenth.
    unit
        Who is protected: `Unit("user", rows=5)` for all rows that share a value of a column, of which at most 5 are
        counted; estimates and intervals are then of the rows that are kept, as the statement's `counted` says. By
        default None: one row.
    method
        How the release is made: "auto" (the default: the first of `plan`, which knows public facts alone), another
        method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.
    schema
        Declared types of columns, as in `read_source`; by default those of the data. Needed where types would have to
        be guessed from rows.
    memory
        How much memory people's rows may take while they are cut to the unit's bounds: bytes, or a text such as "2GiB".
        By default None: an eighth of the machine's memory, and at most 2 GiB. Where there are more rows, the data are
        read several times, a part of the people each time.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> release = release_tree(visits, by=["country", "city"], epsilon=1.0, delta=1e-6)
    >>> release.to_frame(other=False).select("level", "country").rows()[:3]
    [(0, None), (1, 'be'), (1, 'lu')]
    >>> release.statement.unit, release.statement.counted, release.statement.loss["epsilon"] <= 1.0
    ('one row', 'rows', True)

    """
    assert_features("contrib")
    frame = read_source(data, schema=schema)
    key = Key.of(by)
    measurement = make_release(
        count_rows(frame, by=key, unit=unit, memory=memory),
        1,
        counted=counted_of(unit),
        method=method_for(key, method),
        budget={"epsilon": epsilon, "delta": delta, "rho": rho},
        alpha=alpha,
        confidence=confidence,
    )
    release: TreeRelease = measurement(frame)
    return release


def count_rows(data: Any, *, by: Key, unit: Unit | None, memory: int | str | None = None) -> Transformation:
    """Leaf counts of a frame that is passed by reference, at distances in rows or in people."""
    person = Unit.of(unit)
    metric = symmetric_distance() if person is None else symmetric_id_distance(identifier=person.column)
    return make_leaf_counts(frame_domain(data), metric, by=by, unit=person, memory=memory)


def counted_of(unit: Unit | None) -> str:
    """What a release of all rows of a frame counts, in words."""
    person = Unit.of(unit)
    return "rows" if person is None else person.counted()


def make_release(
    counts: Transformation | Space,
    d_in: Any,
    *,
    method: Method | str,
    budget: dict[str, Any],
    alpha: float,
    confidence: float,
    tree: Tree | None = None,
    counted: str | None = None,
) -> Measurement:
    """From where leaf counts come from to a release within a budget at distance `d_in`, with its whole statement.

    `counts` is a transformation to leaf counts, or their space. `d_in` is a distance of what goes into it: how many
    leaf counts that can change, and what it protects, follows from it here and nowhere else. `counted` says in words
    what the figures are counts of; None where nobody knows.
    """
    space = counts if isinstance(counts, tuple) else (counts.output_domain, counts.output_metric)
    metric = counts[1] if isinstance(counts, tuple) else counts.input_metric
    most = d_in if isinstance(counts, tuple) else counts.map(d_in)  # type: ignore[no-untyped-call]
    amounts = Budget.of(**{"epsilon": None, "delta": 0.0, "rho": None, **budget}, d_in=most)
    candidate = planned_candidate(tree_of_leaves(space[0], tree), amounts, alpha=alpha, method=method)
    unit = protected_unit(metric, d_in, most)
    released = candidate.make(*space, tree=tree, confidence=confidence, unit=unit, counted=counted)
    return released if isinstance(counts, tuple) else counts >> released


def method_for(key: Key, method: Method | str) -> Method:
    """The method, for the levels that the key shows. Refused where a method would count the others all the same."""
    chosen = read_method(method)
    shown = key.shown_levels
    if len(shown) == key.hierarchy.depth:
        return chosen
    if not isinstance(chosen, (Auto, Partition)):
        raise ValueError(
            f"by: show cannot be honoured for method ({chosen.name}). Hint: leave show out and read those levels of "
            "the frame; a larger stride, or fewer columns, makes fewer levels"
        )
    if chosen.levels not in (None, shown):
        raise ValueError(f"method: levels {chosen.levels} must be those that the key shows, {shown}")
    return replace(chosen, levels=shown)
