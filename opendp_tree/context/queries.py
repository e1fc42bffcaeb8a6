"""Queries within OpenDP's Context: the counts of a hierarchy, and leaf counts, of frames and of leaf counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opendp.mod import Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree.budget import Budget, amounts_of_loss
from opendp_tree.keys.key import Key
from opendp_tree.planning.methods import Curve, Method
from opendp_tree.prepare import Question, make_release
from opendp_tree.rows.steps import STEPS, FrameSteps, stable_leaf_counts
from opendp_tree.rows.unit import Unit, identifier_of
from opendp_tree.rows.value import Value
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    from opendp.context import Query

__all__ = ["FrameQuery", "tree_counts"]


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
    memory: int | str | None = None,
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
        What of people is counted, if the Context's privacy unit is an identifier, as in `release_tree`:
        `Unit("user", rows=5)`, `Unit("user", count="people", nodes=5)`, `Unit("user", count="shares")`. By default
        None: the Context protects rows, or OpenDP's truncations among the steps bound people.
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
    memory
        How much memory people's rows may take while they are weighed or cut to the unit's bounds, as in
        `release_tree`: bytes, or a text such as "2GiB". By default None: an eighth of the machine's memory, and
        at most 2 GiB.

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
    if _is_of_frame(query):
        if by is None or isinstance(by, Tree):
            raise ValueError("by must say where rows belong. Hint: by=['region', 'city']")
        question = Question.of(by, unit=unit, method=method, value=value)
        plain, counts = _counted(query, **question.counting(memory))
        people = question.unit is None and identifier_of(plain._chain[1]) is not None
        kept = ", which keeps a bounded number of each privacy unit" if people else ""
        counted = question.counted("rows of the query", kept=kept)
        share = share_of(plain)
        _check_delta(question, share)
        return then(
            plain,
            question.release_from(counts, plain._d_in, share, alpha=alpha, confidence=confidence, counted=counted),
        )
    plain, counts = at_leaf_counts(query), query._chain
    if unit is not None or memory is not None or value is not None or not isinstance(by, (Tree, type(None))):
        raise ValueError(
            "by, unit, value and memory must not be given: the query is not of a frame. "
            "Hint: dp.Context.compositor(data=frame)"
        )
    tree_of_leaves(counts[0] if isinstance(counts, tuple) else counts.output_domain, by)
    options: dict[str, Any] = {"alpha": alpha, "confidence": confidence, "tree": by}
    return then(plain, make_release(counts, plain._d_in, method=method, budget=share_of(plain), **options))


def leaf_counts(query: Any, *, by: Key | str | Sequence[str], unit: Unit | None = None) -> Query:
    """A query of a frame, once it has come to leaf counts: all that is made from leaf counts may follow."""
    plain, counts = _counted(query, by=Key.of(by), unit=unit)
    return then(plain, counts)


def _is_of_frame(query: Any) -> bool:
    from opendp.extras.polars import LazyFrameQuery

    return isinstance(query, (FrameQuery, LazyFrameQuery))


def _check_delta(question: Question, share: Budget) -> None:
    key, method = question.key, question.method
    is_open = key.tree is None and (key.known is None or not all(key.known.closed))
    if is_open and share.delta == 0 and not (isinstance(method, Curve) and method.public_groups is not None):
        raise ValueError(
            "the query must have a delta above 0 where nodes are unknown: without one, none can be found. Hint: "
            "dp.loss_of(epsilon=1.0, delta=1e-6), or a public tree: Key.columns(..., tree=Tree.from_paths(...))"
        )


def _check_unit(query: Any, unit: Unit | None) -> None:
    metric = query._chain[1]
    if Unit.of(unit) is not None and identifier_of(metric) is None:
        raise ValueError(
            "unit must be left out, because the Context protects rows. "
            f"Hint: privacy_unit=dp.unit_of(contributions=1, identifier={unit.column!r})"  # type: ignore[union-attr]
        )


def _counted(query: Any, *, unit: Unit | None, **options: Any) -> tuple[Any, Transformation]:
    """A query of a frame as OpenDP has it, and the leaf counts, leaf values or records after its steps."""
    _check_unit(query.query if isinstance(query, FrameQuery) else object.__getattribute__(query, "_query"), unit)
    if isinstance(query, FrameQuery):
        return query.query, query.steps.leaf_counts(*query.query._chain, unit=unit, **options)
    plain = object.__getattribute__(query, "_query")
    plan = object.__getattribute__(query, "polars_plan")
    domain, metric = plain._chain
    return plain, stable_leaf_counts(domain, metric, plan, unit=unit, **options)


def at_leaf_counts(query: Any) -> Any:
    """A query that has come to leaf counts, or a refusal."""
    from opendp.context import Query

    if not isinstance(query, Query):
        raise TypeError(f"query ({type(query).__name__}) must be what context.query() gives")
    if not isinstance(query._chain, (tuple, Transformation)):
        raise ValueError("query must be at leaf counts, before any measurement")
    return query


def then(query: Any, chain: Any) -> Query:
    """The query, gone on to the end of a chain."""
    made: Query = query.new_with(chain=chain)
    return made


def share_of(query: Any) -> Budget:
    """A query's share of the budget."""
    if query._d_in is None or query._d_out is None:
        raise ValueError("query must have a budget. Hint: context.query(epsilon=..., delta=...)")
    return Budget.of(**amounts_of_loss(query._output_measure, query._d_out))


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
