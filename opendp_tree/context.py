"""Releases within OpenDP's Context, which splits and keeps the budget; the one place that registers with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from opendp.measures import approximate, max_divergence, zero_concentrated_divergence
from opendp.mod import Measure, Measurement, Metric, Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._opendp import to_then
from opendp_tree._tables import html_table, table
from opendp_tree.measurements.above_threshold import make_above_threshold
from opendp_tree.measurements.partition.estimator import make_partition_estimator
from opendp_tree.measurements.partition.tree_partition import make_tree_partition
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.sparse_vector import make_sparse_vector
from opendp_tree.measurements.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.measurements.tree_sum import make_tree_sum
from opendp_tree.measurements.truncated_laplace import make_truncated_laplace, make_truncated_laplace_profile
from opendp_tree.paper.clipped_estimator import make_clipped_estimator
from opendp_tree.paper.ladder_estimator import make_ladder_estimator
from opendp_tree.paper.multiplicative_estimator import make_multiplicative_estimator
from opendp_tree.paper.tree_classifier import make_tree_classifier
from opendp_tree.pipeline import make_release, method_for
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.methods import Method
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.steps import STEPS, FrameSteps, stable_leaf_counts
from opendp_tree.rows.unit import Unit, identifier_of
from opendp_tree.rows.value import Value, read_values, values_counted
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
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
    by: Key | Tree | str | Sequence[str] | None = None,
    unit: Unit | None = None,
    alpha: float = 0.1,
    method: Method | str = "auto",
    confidence: float = 0.95,
    value: Value | Sequence[Value] | None = None,
) -> Query:
    """A query for the counts of all nodes of a hierarchy, within the budget of a Context; `.release()` runs it.

    The mechanism is planned for the query's share of the budget and for as many rows as the privacy unit may change.

    Parameters
    ----------
    query
        What `context.query()` gives, of `dp.Context` or of `frame_context`, with Polars steps after it: filter, select
        and with_columns of expressions that are row-wise and never fail, by OpenDP's judgement and by the list in
        docs/proofs/leaf_counts.md; others are refused by name. Or a query that has come to leaf counts already.
    by
        Where a row belongs: the names of columns from the coarsest to the finest, or a `Key`. By default None, for a
        query that is at leaf counts; where these are vectors, which carry no tree, it is the `Tree`.
    unit
        How much of one person is counted, if the Context's privacy unit is an identifier: `Unit("user", rows=5)`. By
        default None: the Context protects rows, or OpenDP's truncations among the steps bound people.
    alpha
        The share of a node's own count that an error may have and be forgiven, when mechanisms are compared; from 0 to
        below 1. By default a tenth.
    method
        How the release is made: "auto" (the default: the first of `plan`), another method's name, or a value with its
        own options, such as `TreeNoise("gaussian")`.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.
    value
        What is summed at every node, too: `Value("amount", bounds=(0, 500))`, or a list of several, as in
        `release_tree`. By default None: rows are counted alone.

    Examples
    --------
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
    tree, values = None, read_values(value)
    if _is_of_frame(query):
        if by is None or isinstance(by, Tree):
            raise ValueError("by must say where rows belong. Hint: by=['region', 'city']")
        key = Key.of(by)
        plain, counts = _counted(query, by=key, unit=unit, **({"values": values} if values else {}))
        method = method_for(key, method)
    else:
        plain, counts = _at_leaf_counts(query), query._chain
        if unit is not None or values or not isinstance(by, (Tree, type(None))):
            raise ValueError(
                "by, unit and value must not be given: the query is not of a frame. "
                "Hint: dp.Context.compositor(data=frame)"
            )
        tree = by
        tree_of_leaves(counts[0] if isinstance(counts, tuple) else counts.output_domain, tree)
    measurement = make_release(
        counts,
        plain._d_in,
        budget=_share(plain),
        tree=tree,
        alpha=alpha,
        method=method,
        confidence=confidence,
        counted=_counted_words(plain, unit, values) if _is_of_frame(query) else None,
    )
    return _then(plain, measurement)


def leaf_counts(query: Any, *, by: Key | str | Sequence[str], unit: Unit | None = None) -> Query:
    """A query of a frame, once it has come to leaf counts: all that is made from leaf counts may follow.

    Parameters
    ----------
    query
        What `context.query()` gives for a frame, with Polars steps after it, as in `tree_counts`.
    by
        Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
    unit
        How much of one person is counted, if the Context's privacy unit is an identifier. By default None.

    """
    plain, counts = _counted(query, by=Key.of(by), unit=unit)
    return _then(plain, counts)


def _is_of_frame(query: Any) -> bool:
    from opendp.extras.polars import LazyFrameQuery

    return isinstance(query, (FrameQuery, LazyFrameQuery))


def _counted(query: Any, **options: Any) -> tuple[Any, Transformation]:
    """A query of a frame as OpenDP has it, and the leaf counts, or leaf values, after its steps."""
    if isinstance(query, FrameQuery):
        return query.query, query.steps.leaf_counts(*query.query._chain, **options)
    plain = object.__getattribute__(query, "_query")
    plan = object.__getattribute__(query, "polars_plan")
    domain, metric = plain._chain
    return plain, stable_leaf_counts(domain, metric, plan, **options)


def _at_leaf_counts(query: Any) -> Any:
    from opendp.context import Query

    if not isinstance(query, Query):
        raise TypeError(f"query ({type(query).__name__}) must be what context.query() gives")
    if not isinstance(query._chain, (tuple, Transformation)):
        raise ValueError("query must be at leaf counts, before any measurement")
    return query


def _then(query: Any, chain: Any) -> Query:
    made: Query = query.new_with(chain=chain)
    return made


def _share(query: Any) -> dict[str, Any]:
    """A query's share of the budget, as `make_tree_counts` takes it."""
    if query._d_in is None or query._d_out is None:
        raise ValueError("query must have a budget. Hint: context.query(epsilon=..., delta=...)")
    return _amounts(query._output_measure, query._d_out)


def _amounts(measure: Measure, loss: Any) -> dict[str, Any]:
    """A loss by the names of its parts."""
    for kind, name in ((max_divergence(), "epsilon"), (zero_concentrated_divergence(), "rho")):
        if measure == kind:
            return {name: loss}
        if measure == approximate(kind):
            return {name: loss[0], "delta": loss[1]}
    raise ValueError(f"the Context's measure ({measure}) must be of epsilon, of epsilon and delta, or of rho")


def _with_share(make: Callable[..., Measurement]) -> Callable[..., Query]:
    """A constructor that takes epsilon and delta at distance 1, as a method of queries: by default, their share."""
    name, then = make.__name__.removeprefix("make_"), to_then(make)

    def method(query: Any, **options: Any) -> Query:
        chain = _at_leaf_counts(query)._chain
        if options.get("epsilon") is None and options.get("delta") is None:
            options = {**options, **_share_of_one(query, name)}
        return _then(query, chain >> then(**options))

    method.__name__ = name
    method.__doc__ = f"`then_{name}` after this query; epsilon and delta are by default its share of the budget."
    return method


def _share_of_one(query: Any, name: str) -> dict[str, float]:
    """What a query may spend at distance 1, so that group privacy keeps it within its share at its own distance."""
    chain = query._chain
    most = query._d_in if isinstance(chain, tuple) else chain.map(query._d_in)
    budget = Budget.of(**{"epsilon": None, "delta": 0.0, "rho": None, **_share(query)}, d_in=most)
    if budget.one_person is None:
        raise ValueError(f"{name} must have a share of epsilon and delta. Hint: dp.loss_of(epsilon=1.0, delta=1e-6)")
    return dict(zip(("epsilon", "delta"), budget.one_person, strict=True))


def _counted_words(query: Any, unit: Unit | None, values: tuple[Value, ...] = ()) -> str:
    """What is counted, in words: steps may leave rows out, and people are bounded by them or here."""
    if values:
        return values_counted(_counted_words(query, unit), values)
    if unit is not None:
        return unit.counted(of="rows of the query")
    metric = query._chain[1] if isinstance(query._chain, tuple) else query._chain.input_metric
    people = identifier_of(metric) is not None
    return "rows of the query" + (", which keeps a bounded number of each privacy unit" if people else "")


class FrameQuery:
    """A query of a frame that is passed by reference: stable Polars steps, then `tree_counts` or `leaf_counts`."""

    def __init__(self, query: Any, steps: FrameSteps) -> None:
        self.query = query
        self.steps = steps

    def __getattr__(self, name: str) -> Any:
        if name not in STEPS:
            raise AttributeError(f"{name!r} must be tree_counts, leaf_counts, or a step: {', '.join(STEPS)}")

        def step(*args: Any, **kwargs: Any) -> FrameQuery:
            return FrameQuery(self.query, self.steps.then(name)(*args, **kwargs))

        return step

    def tree_counts(self, **options: Any) -> Query:
        """The function `tree_counts` on this query.

        Parameters
        ----------
        **options
            The keywords of `tree_counts`: `by`, `unit`, `alpha`, `method`, `confidence`, `value`.

        """
        return tree_counts(self, **options)

    def leaf_counts(self, *, by: Key | str | Sequence[str], unit: Unit | None = None) -> Query:
        """The leaf counts after the steps, as a query of OpenDP's: what `register` registers may follow.

        Parameters
        ----------
        by
            Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
        unit
            How much of one person is counted, if the privacy unit is an identifier. By default None.

        """
        return leaf_counts(self, by=by, unit=unit)


class FrameContext:
    """A Context over a frame that is passed by reference; made by `frame_context`."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def query(self, **share: Any) -> FrameQuery:
        """A query with its share of the budget, as in OpenDP's Context.

        Parameters
        ----------
        **share
            Of a filter, what the query may cost: `epsilon`, `delta` or `rho`. A Context with a split knows.

        """
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
            return ", ".join(f"{name} {amount:.6g}" for name, amount in _amounts(measure, loss).items())
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
    data: Any,
    *,
    privacy_unit: tuple[Metric, Any],
    privacy_loss: tuple[Measure, Any],
    split_evenly_over: int | None = None,
    split_by_weights: list[float] | None = None,
    schema: Mapping[str, Any] | None = None,
) -> FrameContext:
    """OpenDP's `Context.compositor` for a frame in memory, which is never copied.

    OpenDP copies frames in memory each time that they cross into it, some microseconds for every row. Here it accounts
    for a reference. Polars steps are judged on an empty frame of the same schema and then taken on the data, with the
    answers that OpenDP's own Context gives; all values are taken to be nullable.

    Parameters
    ----------
    data
        The rows: a Polars frame, lazy or not.
    privacy_unit
        Who is protected, as `dp.unit_of(contributions=1)` or `dp.unit_of(contributions=1, identifier="user")` says.
    privacy_loss
        What all queries may cost together, as `dp.loss_of(epsilon=1.0, delta=1e-6)` says.
    split_evenly_over
        How many queries share the budget evenly. By default None: see `split_by_weights`.
    split_by_weights
        A weight for each query's share. By default None; with neither split, each query says what it costs, and the
        Context is a privacy filter.
    schema
        Declared types of columns, as in `read_source`; by default those of the data.

    Examples
    --------
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
    >>> query = context.query().filter(pl.col("user") >= 100)
    >>> release = query.tree_counts(by="country", unit=Unit("user", rows=1)).release()
    >>> release.to_frame(other=False)["path"].to_list()
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

    data = read_source(data, schema=schema)
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

    `tree_counts` becomes a method of all queries, and `leaf_counts` one of those of Polars frames, after which all
    others are there. What takes an epsilon and a delta takes by default the query's share of the budget.

    Examples
    --------
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
    setattr(LazyFrameQuery, "leaf_counts", leaf_counts)  # noqa: B010
    for constructor in _CONSTRUCTORS:
        if constructor.__name__.removeprefix("make_") not in constructors:
            register_with_opendp(constructor)
        if {"epsilon", "delta"} <= signature(constructor).parameters.keys():
            shared = _with_share(constructor)
            setattr(Query, shared.__name__, shared)
