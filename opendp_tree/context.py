"""Releases within OpenDP's Context, which splits and keeps the budget, and a Context over a frame by reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import Any

from opendp.combinators import make_adaptive_composition
from opendp.context import Context, Query, constructors
from opendp.context import register as register_with_opendp
from opendp.extras.polars import LazyFrameQuery
from opendp.mod import Measure, Measurement, Metric, Transformation, assert_features, binary_search

from opendp_tree._interrupts import deferred_interrupts
from opendp_tree._opendp import to_then
from opendp_tree._show import html_table, table
from opendp_tree.budget import Budget, amounts_of_loss, as_written, short_above
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, spend
from opendp_tree.planning.methods import Method, Space, make_counts
from opendp_tree.prepare import Question
from opendp_tree.rows.domains import frame_domain, read_source, snapshot_of
from opendp_tree.rows.steps import STEPS, FrameSteps, stable_leaf_counts
from opendp_tree.rows.unit import Unit, Value, identifier_of, protected_unit
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.tree import Tree

__all__ = ["FrameContext", "FrameQuery", "frame_context", "register", "tree_counts"]


@deferred_interrupts()
def tree_counts(
    query: Any,
    *,
    by: Key | Tree | str | Sequence[str] | None = None,
    unit: Unit | None = None,
    alpha: float = 0.1,
    method: Method | str = "auto",
    confidence: float = 0.95,
    value: Value | Sequence[Value] | None = None,
    memory: int | str | None = None,
) -> Query:
    """A query for the counts of all nodes of a hierarchy, within the budget of a Context; `.release()` runs it.

    The mechanism is planned for the query's share of the budget and for as many rows as the privacy unit may change.
    Other parameters: as for `release_tree`.

    :param query: What `context.query()` gives, of `dp.Context` or of `frame_context`, with Polars steps after it:
        filter, select and with_columns of expressions that are row-wise and never fail (docs/proofs/counting.md);
        others are refused by name. Or a query that has come to leaf counts already.
    :param by: Where a row belongs: the names of columns from the coarsest to the finest, or a `Key`. By default None,
        for a query that is at leaf counts; where these are vectors, which carry no tree, it is the `Tree`.
    :param unit: What is counted per person, if the Context's privacy unit is an identifier. By default None: it
        protects rows, or OpenDP's truncations among the steps bound people.
    """
    assert_features("contrib")
    if not isinstance(query, (FrameQuery, LazyFrameQuery)):
        chain = _chain_of(query)
        if unit is not None or memory is not None or value is not None or not isinstance(by, (Tree, type(None))):
            raise ValueError(
                "by, unit, value and memory must not be given: the query is not of a frame. "
                "Hint: dp.Context.compositor(data=frame)"
            )
        budget, is_space = _share_at(query, chain), isinstance(chain, tuple)
        domain, metric = chain if is_space else (chain.output_domain, chain.output_metric)
        words = protected_unit(chain[1] if is_space else chain.input_metric, query._d_in)
        release = make_counts(Space(domain, metric, by, confidence), budget, method=method, alpha=alpha, unit=words)
        return query.new_with(chain=release if is_space else chain >> release)  # type: ignore[no-any-return]
    if by is None or isinstance(by, Tree):
        raise ValueError("by must say where rows belong. Hint: by=['region', 'city']")
    options: dict[str, Any] = {"unit": unit, "method": method, "value": value, "memory": memory}
    question = Question.of(by, alpha=alpha, confidence=confidence, **options)
    plain, counts = _counted(query, **question.counting())
    people = question.unit is None and identifier_of(plain._chain[1]) is not None
    kept = ", which keeps a bounded number of each privacy unit" if people else ""
    counted = question.counted("rows of the query", kept=kept)
    release = question.release_from(counts, plain._d_in, _share_of(plain), counted)
    return plain.new_with(chain=release)  # type: ignore[no-any-return]


def leaf_counts(query: Any, *, by: Key | str | Sequence[str], unit: Unit | None = None) -> Query:
    """The leaf counts after the steps, as a query of OpenDP's, which the methods that `register` adds may follow.

    :param query: A query of a frame.
    :param by: Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
    :param unit: How much of one person is counted, if the privacy unit is an identifier. By default None.
    """
    plain, counts = _counted(query, by=Key.of(by), unit=unit)
    return plain.new_with(chain=counts)  # type: ignore[no-any-return]


def _counted(query: Any, *, unit: Unit | None, **options: Any) -> tuple[Any, Transformation]:
    """OpenDP's own query of a frame, and the leaf counts, leaf values or records after its steps."""
    plain = query.query if isinstance(query, FrameQuery) else object.__getattribute__(query, "_query")
    person = Unit.of(unit)
    if person is not None and identifier_of(plain._chain[1]) is None:
        raise ValueError(
            "unit must be left out, because the Context protects rows. "
            f"Hint: privacy_unit=dp.unit_of(contributions=1, identifier={person.column!r})"
        )
    if isinstance(query, FrameQuery):
        return plain, query.steps.leaf_counts(*plain._chain, unit=person, **options)
    (domain, metric), plan = plain._chain, object.__getattribute__(query, "polars_plan")
    return plain, stable_leaf_counts(domain, metric, plan, unit=person, **options)


def _chain_of(query: Any) -> Any:
    """The chain of a query that may be at leaf counts."""
    if not isinstance(query, Query):
        raise TypeError(f"query ({type(query).__name__}) must be what context.query() gives")
    if not isinstance(query._chain, (tuple, Transformation)):
        raise ValueError("query must be at leaf counts, before any measurement")
    return query._chain


def _share_of(query: Any) -> Budget:
    """A query's share of the budget."""
    if query._d_in is None or query._d_out is None:
        raise ValueError("query must have a budget. Hint: context.query(epsilon=..., delta=...)")
    return Budget.of(**amounts_of_loss(query._output_measure, query._d_out))


def _share_at(query: Any, chain: Any) -> Budget:
    """The same, at the distance of the leaf counts that the query has come to."""
    share = _share_of(query)
    return share.at(query._d_in if isinstance(chain, tuple) else chain.map(query._d_in))


class FrameQuery:
    """A query of a frame that is passed by reference.

    Row-wise Polars steps, and then `tree_counts` or `leaf_counts`.
    """

    def __init__(self, query: Any, steps: FrameSteps) -> None:
        self.query = query
        self.steps = steps

    def __getattr__(self, name: str) -> Any:
        if name not in STEPS:
            raise AttributeError(f"{name!r} must be tree_counts, leaf_counts, or one of {', '.join(STEPS)}")
        return lambda *args, **kwargs: FrameQuery(self.query, self.steps.then(name)(*args, **kwargs))

    tree_counts = tree_counts
    leaf_counts = leaf_counts


class FrameContext:
    """A Context over a frame that is passed by reference; made by `frame_context`."""

    def __init__(
        self, context: Context, data: Any, ledger: Ledger | None, unit: str | None, total: Mapping[str, Fraction]
    ) -> None:
        self.context, self.data, self.ledger, self.unit, self.total = context, data, ledger, unit, total
        self.lost = self.booked = dict.fromkeys(total, Fraction(0))

    def query(self, **share: Any) -> FrameQuery:
        """A query with its share of the budget, as in OpenDP's Context.

        :param share: Of a filter, what the query may cost: `epsilon`, `delta` or `rho`. A Context with a split knows.
        """
        if self.context.d_mids == [] and not share:
            raise ValueError(
                f"the Context's budget is spent: all {len(self.context.d_mids_consumed)} of its queries were released. "
                "Hint: a larger split_evenly_over, before the first query"
            )
        if self.ledger is not None and all(isinstance(each, Real) and math.isfinite(each) for each in share.values()):
            share = as_written(share)[1]
        query: Any = self.context.query(**share)
        query._context = self
        return FrameQuery(query, FrameSteps())

    @deferred_interrupts()
    def __call__(self, measurement: Measurement) -> Any:
        """Release what a measurement of the frame gives, on this budget, once a ledger, if any, has committed it."""
        if measurement.output_measure != self.context.accountant.output_measure:
            return self.context(measurement)  # which refuses it

        def measured() -> Any:
            with snapshot_of(self.data):
                return self.context(measurement)

        losses = _payable(self.context, measurement)
        if self.ledger is None:
            return measured()
        # Differences of rounded sums: shares that are each rounded up may exceed the total.
        lost = {name: self.lost[name] + Fraction(loss) for name, loss in losses.items()}
        sums = {name: max(self.booked[name], short_above(loss, self.total[name])) for name, loss in lost.items()}
        cost = {name: amount - self.booked[name] for name, amount in sums.items()}
        answer = spend(self.ledger, cost, measured, note={"by": "a query of a Context"}, unit=self.unit)
        self.lost, self.booked = lost, sums
        return answer

    def __repr__(self) -> str:
        """What was spent and what is left."""
        title, heads, rows = _accounts(self.context)
        return f"{title}\n\n{table(heads, rows)}" if rows else title

    def _repr_html_(self) -> str:
        title, heads, rows = _accounts(self.context)
        return html_table(heads, rows, title=title)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)


def _payable(context: Context, measurement: Measurement) -> dict[str, float]:
    """What a query is counted for, if the budget can pay it: its share of a split, its own loss otherwise."""
    measure = context.accountant.output_measure
    cost = amounts_of_loss(measure, measurement.map(context.d_in))  # type: ignore[no-untyped-call]
    if context.d_mids is not None:
        counted = left = amounts_of_loss(measure, context.d_mids[0]) if context.d_mids else dict.fromkeys(cost, 0.0)
        fits = all(amount <= left[name] for name, amount in cost.items())
    elif context.d_out is not None:
        total = amounts_of_loss(measure, context.d_out)
        spent = amounts_of_loss(measure, context.current_privacy_loss())  # type: ignore[no-untyped-call]
        counted, left = cost, {name: total[name] - spent[name] for name in total}
        fits = all(round_up(Fraction(spent[name]) + Fraction(cost[name])) <= total[name] for name in total)
    else:
        return cost
    if not fits:
        is_spent = not any(amount > 0 for amount in left.values())
        hint = "the Context's budget is spent" if is_spent else f"ask for at most {_words(left)}"
        raise ValueError(f"the query would cost {_words(cost)}, but {_words(left)} are left for it. Hint: {hint}")
    return counted


def _words(amounts: dict[str, float]) -> str:
    return ", ".join(f"{name} {amount:.6g}" for name, amount in amounts.items())


def _accounts(context: Context) -> tuple[str, list[str], list[list[str]]]:
    """The budget of a Context, as a sentence and a table: of each query, or of all of them, if there is no split."""

    def words(loss: Any) -> str:
        try:
            return _words(amounts_of_loss(context.accountant.output_measure, loss))
        except (TypeError, ValueError):  # a measure that has no such names
            return str(loss)

    if context.d_mids is not None:
        states = [("spent", loss) for loss in context.d_mids_consumed] + [("left", loss) for loss in context.d_mids]
        rows = [[str(number), words(loss), state] for number, (state, loss) in enumerate(states, start=1)]
        return "A Context over a frame, with a budget of its own for each query.", ["query", "budget", "state"], rows
    figures = [["spent", words(context.current_privacy_loss())]]  # type: ignore[no-untyped-call]
    if context.d_out is not None:
        figures.append(["left", words(context.remaining_privacy_loss())])  # type: ignore[no-untyped-call]
    return "A Context over a frame, with one budget for all queries.", ["", "budget"], figures


def frame_context(
    data: Any,
    *,
    privacy_unit: tuple[Metric, Any],
    privacy_loss: tuple[Measure, Any],
    split_evenly_over: int | None = None,
    split_by_weights: list[float] | None = None,
    ledger: Ledger | str | Path | None = None,
) -> FrameContext:
    """OpenDP's `Context.compositor` for a frame in memory, which is never copied.

    OpenDP copies frames in memory each time that they cross into it; here it accounts for a reference. Polars steps are
    judged on an empty frame of the same schema and then taken on the data, with the answers that OpenDP's own Context
    gives; all values are taken to be nullable. OpenDP's own queries, such as `select(dp.len())`, need OpenDP's own
    domain: `dp.Context.compositor(data=lazyframe)`, in which `tree_counts` works as well.

    :param data: The rows, as `read_source` takes them: a Polars frame, lazy or not, is passed on as it is.
    :param privacy_unit: Who is protected: `dp.unit_of(contributions=1)`, also with `identifier="user"`.
    :param privacy_loss: What all queries may cost together, as `dp.loss_of(epsilon=1.0, delta=1e-6)` says.
    :param split_evenly_over: How many queries share the budget evenly. By default None: see `split_by_weights`.
    :param split_by_weights: A weight for each query's share. By default None; with neither split, each query says what
        it costs, and the Context is a privacy filter.
    :param ledger: A `Ledger`, or the path of one, to which each query is committed before its answer is given: its
        share of a split, else its own loss. What it cannot pay is refused unread. By default None.
    """
    assert_features("contrib")
    for name, given, kind, hint in (
        ("privacy_unit", privacy_unit, Metric, "dp.unit_of(contributions=1)"),
        ("privacy_loss", privacy_loss, Measure, "dp.loss_of(epsilon=1.0)"),
    ):
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], kind)):
            raise TypeError(f"{name} ({type(given).__name__}) must be a {kind.__name__} and a number. Hint: {hint}")
    book, unit = Ledger.of(ledger), None
    total: Mapping[str, Fraction] = {}
    if book is not None:
        unit, declared = protected_unit(*privacy_unit), amounts_of_loss(*privacy_loss)
        if not all(math.isfinite(amount) for amount in declared.values()):
            raise ValueError("privacy_loss must be finite with a ledger. Hint: dp.loss_of(epsilon=1.0, delta=1e-6)")
        total, below = as_written(declared)  # a ledger counts the amounts exactly as they are written
        book.check(total, unit=unit)
        amounts = tuple(below.values())
        privacy_loss = privacy_loss[0], amounts if len(amounts) > 1 else amounts[0]
    data = read_source(data)
    split = {"split_evenly_over": split_evenly_over, "split_by_weights": split_by_weights}
    if isinstance(privacy_loss[1], tuple) and list(split.values()).count(None) == 1:
        weights = [1.0] * split_evenly_over if split_by_weights is None else split_by_weights  # type: ignore[operator]
        context = _context_of_pairs(data, privacy_unit, privacy_loss, weights)
    else:
        units: dict[str, Any] = {"privacy_unit": privacy_unit, "privacy_loss": privacy_loss}
        context = Context.compositor(data=data, domain=frame_domain(data), **units, **split)  # type: ignore[arg-type]
    return FrameContext(context, data, book, unit, total)


def _context_of_pairs(
    data: Any, privacy_unit: tuple[Metric, Any], privacy_loss: tuple[Measure, Any], weights: Sequence[float]
) -> Context:
    """`Context.compositor` with a split of two amounts; OpenDP's own search fails at pairs that it cannot compare."""
    (metric, d_in), (measure, total) = privacy_unit, privacy_loss
    space = frame_domain(data), metric, measure

    def shares(scale: float) -> list[tuple[float, ...]]:
        return [tuple(amount * weight * scale for amount in total) for weight in weights]

    def fits(scale: float) -> bool:
        loss = make_adaptive_composition(*space, d_in=d_in, d_mids=shares(scale)).map(d_in)  # type: ignore[no-untyped-call]
        return all(part <= whole for part, whole in zip(loss, total, strict=True))

    d_mids = shares(binary_search(fits, T=float))
    accountant = make_adaptive_composition(*space, d_in=d_in, d_mids=d_mids)
    return Context(accountant=accountant, queryable=accountant(data), d_in=d_in, d_mids=d_mids)  # type: ignore[arg-type]


def register() -> None:
    """Make this package's constructors methods of OpenDP's Context queries. Calling it again changes nothing.

    `tree_counts` becomes a method of all queries, and `leaf_counts` one of those of Polars frames, after which all
    others are there. What takes an epsilon and a delta takes by default the query's share of the budget.

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
    for queries in (Query, LazyFrameQuery):
        setattr(queries, "tree_counts", tree_counts)  # noqa: B010 - mypy knows no such method
    setattr(LazyFrameQuery, "leaf_counts", leaf_counts)  # noqa: B010
    modules = [import_module(name) for name in ("opendp_tree", "opendp_tree.mechanisms", "opendp_tree.paper")]
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    for name, make in public.items():
        parameters = signature(make).parameters.keys() if name.startswith("make_") else set()
        if "input_domain" not in parameters:
            continue
        if name.removeprefix("make_") not in constructors:
            register_with_opendp(make)
        if {"epsilon", "delta"} <= parameters:
            setattr(Query, name.removeprefix("make_"), _with_share(make))


def _with_share(make: Callable[..., Measurement]) -> Callable[..., Query]:
    """A constructor that takes epsilon and delta at distance 1, as a method of queries: by default, their share."""
    name, partial = make.__name__.removeprefix("make_"), to_then(make)

    def method(query: Any, **options: Any) -> Query:
        chain = _chain_of(query)
        if options.get("epsilon") is None and options.get("delta") is None:
            # Group privacy then keeps the query within its share at its own distance.
            one = _share_at(query, chain).one_person
            if one is None:
                hint = "Hint: dp.loss_of(epsilon=1.0, delta=1e-6)"
                raise ValueError(f"{name} must have a share of epsilon and delta. {hint}")
            options |= {"epsilon": one[0], "delta": one[1]}
        return query.new_with(chain=chain >> partial(**options))  # type: ignore[no-any-return]

    method.__name__ = name
    method.__doc__ = f"`then_{name}` after this query; epsilon and delta are by default its share of the budget."
    return method
