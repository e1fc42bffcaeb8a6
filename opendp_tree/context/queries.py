"""Queries within OpenDP's Context: the counts of a hierarchy, and leaf counts, of frames and of leaf counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from opendp.mod import Measurement, Transformation, assert_features

from opendp_tree._interrupts import deferred_interrupts
from opendp_tree._opendp import to_then
from opendp_tree.budget import Budget, amounts_of_loss
from opendp_tree.keys.key import Key
from opendp_tree.planning.methods import Method, Space, make_counts
from opendp_tree.prepare import Question
from opendp_tree.rows.steps import STEPS, FrameSteps, stable_leaf_counts
from opendp_tree.rows.unit import Unit, Value, identifier_of, protected_unit
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    from opendp.context import Query


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
    from opendp.extras.polars import LazyFrameQuery

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
    """The leaf counts after the steps, as a query of OpenDP's: what `register` registers may follow.

    :param query: A query of a frame.
    :param by: Where a row belongs: a `Key`, or the names of columns from the coarsest to the finest.
    :param unit: How much of one person is counted, if the privacy unit is an identifier. By default None.
    """
    plain, counts = _counted(query, by=Key.of(by), unit=unit)
    return plain.new_with(chain=counts)  # type: ignore[no-any-return]


def _counted(query: Any, *, unit: Unit | None, **options: Any) -> tuple[Any, Transformation]:
    """A query of a frame as OpenDP has it, and the leaf counts, leaf values or records after its steps."""
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
    from opendp.context import Query

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
    from opendp.context import Query, constructors
    from opendp.context import register as register_with_opendp
    from opendp.extras.polars import LazyFrameQuery

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
