"""Releases within OpenDP's Context, which splits and keeps the budget; the one place that registers with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Measure, Metric, Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._tables import html_table, table
from opendp_tree.measurements.above_threshold import make_above_threshold
from opendp_tree.measurements.partition_estimator import make_partition_estimator
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.sparse_vector import make_sparse_vector
from opendp_tree.measurements.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.measurements.tree_partition import make_tree_partition
from opendp_tree.measurements.tree_sum import make_tree_sum
from opendp_tree.measurements.truncated_laplace import make_truncated_laplace, make_truncated_laplace_profile
from opendp_tree.paper.clipped_estimator import make_clipped_estimator
from opendp_tree.paper.ladder_estimator import make_ladder_estimator
from opendp_tree.paper.multiplicative_estimator import make_multiplicative_estimator
from opendp_tree.paper.tree_classifier import make_tree_classifier
from opendp_tree.pipeline import then_release
from opendp_tree.planning.methods import Method
from opendp_tree.releases.words import kept_words
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.steps import STEPS, FrameSteps, stable_leaf_counts
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Path, Tree

if TYPE_CHECKING:
    import polars as pl
    from opendp.context import Context, Query

__all__ = ["FrameContext", "FrameQuery", "frame_context", "register", "tree_counts"]

_CONSTRUCTORS = (
    make_above_threshold,
    make_leaf_counts,
    make_partition_estimator,
    make_sparse_vector,
    make_tree_partition,
    make_clipped_estimator,
    make_ladder_estimator,
    make_multiplicative_estimator,
    make_tree_classifier,
    make_pruned_descent,
    make_tree_gaussian,
    make_tree_laplace,
    make_tree_sum,
    make_truncated_laplace,
    make_truncated_laplace_profile,
)


@interrupts_deferred
def tree_counts(
    query: Any,
    *,
    by: Key | str | Sequence[str] | None = None,
    method: Method | str = "auto",
    alpha: float = 0.1,
    tree: Tree | None = None,
    nulls: Literal["label", "drop"] | None = None,
    other: Path | None = None,
    rows_per_unit: int | None = None,
    leaves_per_unit: int | None = None,
    rows_per_leaf: int = 1,
    confidence: float = 0.95,
) -> Query:
    """A query for the counts of all nodes of a hierarchy, within the budget of a Context; `.release()` runs it.

    `query` is what `context.query()` gives, with Polars steps after it: filter, select and with_columns of expressions
    that are row-wise and never fail, by OpenDP's judgement and by the list in docs/proofs/leaf_counts.md; others are
    refused by name. If the privacy unit is an identifier, people are bounded by OpenDP's truncations, or here, by
    `rows_per_unit` or `leaves_per_unit`. The query may be one of `dp.Context`, of `frame_context`, or one that has come
    to leaf counts already, in which case `by` is left out.

    The mechanism is planned for the query's share of the budget and for as many rows as the privacy unit may change.
    The arguments are those of `release_tree`.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> dp.enable_features("contrib")
    >>> visits = pl.LazyFrame({"country": ["be"] * 900 + ["lu"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> context = dp.Context.compositor(
    ...     data=visits,
    ...     privacy_unit=dp.unit_of(contributions=2),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    ...     split_evenly_over=2,
    ... )
    >>> query = tree_counts(context.query().filter(pl.col("country") != "fr"), by=["country", "city"])
    >>> query.release().statement.unit
    '2 rows'
    """
    assert_features("contrib")
    counting = {
        "by": by,
        "tree": tree,
        "nulls": nulls,
        "other": other,
        "rows_per_unit": rows_per_unit,
        "leaves_per_unit": leaves_per_unit,
        "rows_per_leaf": rows_per_leaf,
    }
    plain, counts = _leaf_counts(query, counting)
    if plain._d_in is None or plain._d_out is None:
        raise ValueError("query must have a budget. Hint: context.query(epsilon=..., delta=...)")
    most = plain._d_in if isinstance(counts, tuple) else counts.map(plain._d_in)
    measurement = then_release(
        counts,
        most,
        _unit_words(plain, most),
        counted=None if by is None else _counted_words(plain, counting),
        **_budget(plain._output_measure, plain._d_out),
        tree=tree if by is None else None,
        alpha=alpha,
        method=method,
        confidence=confidence,
    )
    made: Query = plain.new_with(chain=measurement)
    return made


def _leaf_counts(query: Any, counting: dict[str, Any]) -> tuple[Any, Any]:
    """The query as OpenDP has it, and its leaf counts: a transformation, or the space of what are leaf counts."""
    from opendp.context import Query
    from opendp.extras.polars import LazyFrameQuery

    if isinstance(query, FrameQuery):
        plain: Any = query.query
        return plain, query.steps.leaf_counts(*plain._chain, **_with_key(counting))
    if isinstance(query, LazyFrameQuery):
        plain = object.__getattribute__(query, "_query")
        domain, metric = plain._chain
        return plain, stable_leaf_counts(
            domain, metric, object.__getattribute__(query, "polars_plan"), **_with_key(counting)
        )
    if not isinstance(query, Query):
        raise TypeError(f"query ({type(query).__name__}) must be what context.query() gives")
    if counting["by"] is not None:
        raise ValueError("by must not be given: the query is not of a frame. Hint: dp.Context.compositor(data=frame)")
    chain = query._chain
    if not isinstance(chain, (tuple, Transformation)):
        raise ValueError("query must be at leaf counts, before any measurement")
    tree_of_leaves(chain[0] if isinstance(chain, tuple) else chain.output_domain, counting["tree"])
    return query, chain


def _with_key(counting: dict[str, Any]) -> dict[str, Any]:
    if counting["by"] is None:
        raise ValueError("by must say where rows belong. Hint: by=['region', 'city']")
    return counting


def _budget(measure: Measure, loss: Any) -> dict[str, Any]:
    """A query's share of the budget, as `make_tree_counts` takes it."""
    for kind, name in ((max_divergence(), "epsilon"), (zero_concentrated_divergence(), "rho")):
        if measure == kind:
            return {name: loss}
        if measure == approximate(kind):
            return {name: loss[0], "delta": loss[1]}
    raise ValueError(f"the Context's measure ({measure}) must be of epsilon, of epsilon and delta, or of rho")


def _unit_words(query: Any, most: int) -> str:
    """What the Context's privacy unit is, in words."""
    rows = "1 row" if most == 1 else f"{most} rows"
    return f"the Context's privacy unit, with at most {rows}" if _counts_people(query) else rows


def _counted_words(query: Any, counting: dict[str, Any]) -> str:
    """What is counted, in words: steps may leave rows out, and people are bounded by them or here."""
    rows, leaves, each = (counting[name] for name in ("rows_per_unit", "leaves_per_unit", "rows_per_leaf"))
    if rows is None and leaves is None:
        return "rows of the query" + (", which keeps a bounded number of each privacy unit" * _counts_people(query))
    return kept_words("privacy unit", rows=rows, leaves=leaves, rows_per_leaf=each, of="rows of the query")


def _counts_people(query: Any) -> bool:
    metric = query._chain[1] if isinstance(query._chain, tuple) else query._chain.input_metric
    return "Id" in type(metric).__name__ or "IdDistance" in str(metric)


class FrameQuery:
    """A query of a frame that is passed by reference: stable Polars steps, then `tree_counts`."""

    def __init__(self, query: Any, steps: FrameSteps) -> None:
        self.query = query
        self.steps = steps

    def __getattr__(self, name: str) -> Any:
        if name not in STEPS:
            raise AttributeError(f"{name!r} must be tree_counts, or a step: {', '.join(STEPS)}")

        def step(*args: Any, **kwargs: Any) -> FrameQuery:
            return FrameQuery(self.query, self.steps.then(name)(*args, **kwargs))

        return step

    def tree_counts(self, **options: Any) -> Query:
        """The function `tree_counts` on this query."""
        return tree_counts(self, **options)


class FrameContext:
    """A Context over a frame that is passed by reference; made by `frame_context`."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def query(self, **share: Any) -> FrameQuery:
        """A query with its share of the budget, as in OpenDP's Context."""
        return FrameQuery(self.context.query(**share), FrameSteps())

    def __repr__(self) -> str:
        """What was spent and what is left."""
        title, heads, rows = _accounts(self.context)
        return f"{title}\n\n{table(heads, rows)}" if rows else title

    def _repr_html_(self) -> str:
        title, heads, rows = _accounts(self.context)
        return html_table(heads, rows, title=title)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)


def _accounts(context: Context) -> tuple[str, list[str], list[list[str]]]:
    """The budget of a Context, as a sentence and a table: of each query, or of all of them, if there is no split."""
    measure = context.accountant.output_measure

    def words(loss: Any) -> str:
        try:
            return ", ".join(f"{name} {amount:.6g}" for name, amount in _budget(measure, loss).items())
        except (TypeError, ValueError):  # a measure that has no such names
            return str(loss)

    title = "A Context over a frame, with a budget of its own for each query."
    if context.d_mids is not None:
        states = [("spent", loss) for loss in context.d_mids_consumed] + [("left", loss) for loss in context.d_mids]
        rows = [[str(number), words(loss), state] for number, (state, loss) in enumerate(states, start=1)]
        return title, ["query", "budget", "state"], rows
    title = "A Context over a frame, with one budget for all queries."
    figures = [("spent", context.current_privacy_loss), ("left", context.remaining_privacy_loss)]
    return title, ["", "budget"], [[name, words(figure())] for name, figure in figures]  # type: ignore[no-untyped-call]


def frame_context(
    data: pl.LazyFrame | pl.DataFrame,
    *,
    privacy_unit: tuple[Metric, Any],
    privacy_loss: tuple[Measure, Any],
    split_evenly_over: int | None = None,
    split_by_weights: list[float] | None = None,
) -> FrameContext:
    """OpenDP's `Context.compositor` for a frame in memory, which is never copied.

    OpenDP copies frames in memory each time that they cross into it, some microseconds for every row. Here it accounts
    for a reference. Polars steps are judged on an empty frame of the same schema and then taken on the data, with the
    answers that OpenDP's own Context gives; all values are taken to be nullable. The arguments are OpenDP's; without a
    split it is a privacy filter.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": range(1300), "country": ["be"] * 900 + ["lu"] * 400})
    >>> context = frame_context(
    ...     visits,
    ...     privacy_unit=dp.unit_of(contributions=1, identifier="user"),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    ...     split_evenly_over=2,
    ... )
    >>> release = context.query().filter(pl.col("user") >= 100).tree_counts(by="country", rows_per_unit=1).release()
    >>> release.to_frame()["path"].to_list()
    ['', 'be', 'lu']
    """
    assert_features("contrib")
    for name, given, kind, hint in (
        ("privacy_unit", privacy_unit, Metric, "dp.unit_of(contributions=1)"),
        ("privacy_loss", privacy_loss, Measure, "dp.loss_of(epsilon=1.0)"),
    ):
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], kind)):
            raise TypeError(f"{name} ({type(given).__name__}) must be a {kind.__name__} and a number. Hint: {hint}")
    from opendp.context import Context

    context = Context.compositor(
        data=data,
        domain=frame_domain(data),
        privacy_unit=privacy_unit,
        privacy_loss=privacy_loss,
        split_evenly_over=split_evenly_over,
        split_by_weights=split_by_weights,
    )
    return FrameContext(context)


def register() -> None:
    """Make this package's constructors methods of OpenDP's Context queries. Calling it again changes nothing.

    `tree_counts` becomes a method of all queries, those of Polars frames among them.

    >>> import opendp.prelude as dp
    >>> import opendp_tree
    >>> opendp_tree.register()
    >>> dp.enable_features("contrib")
    >>> context = dp.Context.compositor(
    ...     data=[40, 2, 1, 0],
    ...     domain=dp.vector_domain(dp.atom_domain(T="i64"), size=4),
    ...     privacy_unit=dp.unit_of(l1=1, U="i64"),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    ...     split_evenly_over=1,
    ... )
    >>> tree = opendp_tree.Tree.balanced(branching=2, depth=3)
    >>> len(context.query().tree_sum(tree=tree).truncated_laplace(delta=1e-6, d_in=3).release())
    7
    """
    from opendp.context import Query, constructors
    from opendp.context import register as register_with_opendp
    from opendp.extras.polars import LazyFrameQuery

    for queries in (Query, LazyFrameQuery):
        setattr(queries, "tree_counts", tree_counts)  # noqa: B010 - mypy knows no such method

    for constructor in _CONSTRUCTORS:
        if constructor.__name__.removeprefix("make_") not in constructors:
            register_with_opendp(constructor)
