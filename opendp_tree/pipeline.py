"""Rows to a release, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from opendp.metrics import symmetric_distance, symmetric_id_distance
from opendp.mod import Domain, Measurement, Metric, Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._opendp import make_function
from opendp_tree._progress import shows_progress
from opendp_tree.planning.methods import Method
from opendp_tree.planning.tree_counts import make_tree_counts
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import kept_words
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.trees.tree import Path, Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["release_tree"]


@interrupts_deferred
@shows_progress("counting")
def release_tree(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    by: Key | str | Sequence[str],
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    method: Method | str = "auto",
    unit: str | None = None,
    rows_per_unit: int | None = None,
    leaves_per_unit: int | None = None,
    rows_per_leaf: int = 1,
    tree: Tree | None = None,
    nulls: Literal["label", "drop"] | None = None,
    other: Path | None = None,
    confidence: float = 0.95,
) -> TreeRelease:
    """A private count of every node of a hierarchy, from the rows of a Polars frame.

    `by`, `tree`, `nulls` and `other` say where rows belong, as in `make_leaf_counts`; the budget, `alpha`, `method` and
    `confidence` are those of `make_tree_counts`. Everything is checked before a row is read.

    The budget protects one row, or, with `unit`, all rows that share a value of that column: one person. Then
    `rows_per_unit` or `leaves_per_unit` bounds what is counted of each; estimates and intervals are of the rows that
    are kept: the statement's `counted` says so. The frame is passed by reference, never copied.

    One call is one release: it knows nothing of others. To account for several, use OpenDP's Context and `tree_counts`.

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
    metric = symmetric_distance() if unit is None else symmetric_id_distance(identifier=unit)
    counts = make_leaf_counts(
        frame_domain(frame),
        metric,
        by=by,
        tree=tree,
        nulls=nulls,
        other=other,
        rows_per_unit=rows_per_unit,
        leaves_per_unit=leaves_per_unit,
        rows_per_leaf=rows_per_leaf,
    )
    most = counts.map(1)  # type: ignore[no-untyped-call]
    measurement = then_release(
        counts,
        most,
        unit_words(unit, most),
        counted=kept_words(unit, rows=rows_per_unit, leaves=leaves_per_unit, rows_per_leaf=rows_per_leaf),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        alpha=alpha,
        method=method,
        confidence=confidence,
    )
    found: TreeRelease = measurement(frame)
    return found


def then_release(
    counts: Transformation | tuple[Domain, Metric], d_in: int, unit: str, *, counted: str | None, **options: Any
) -> Measurement:
    """Leaf counts at distance `d_in`, and the release from them; its statement says what was protected and counted."""

    def told(release: TreeRelease) -> TreeRelease:
        assert release.statement is not None
        return replace(release, statement=replace(release.statement, unit=unit, counted=counted))

    space = counts if isinstance(counts, tuple) else (counts.output_domain, counts.output_metric)
    released = make_tree_counts(*space, d_in=d_in, **options)
    chained = released if isinstance(counts, tuple) else counts >> released
    return chained >> make_function(told)


def unit_words(unit: str | None, most: int) -> str:
    """What a budget protects, in words.

    >>> unit_words("user", 5)
    "one value of 'user', with at most 5 rows"
    """
    if unit is None:
        return "one row" if most == 1 else f"{most} rows"
    return f"one value of {unit!r}, with at most {most} {'row' if most == 1 else 'rows'}"
