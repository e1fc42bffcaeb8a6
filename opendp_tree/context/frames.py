"""A Context over a frame that is passed by reference, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp.mod import Measure, Measurement, Metric, assert_features

from opendp_tree._interrupts import deferred_interrupts
from opendp_tree._show import html_table, table
from opendp_tree.budget import amounts_of_loss, as_written, short_above
from opendp_tree.context.queries import FrameQuery
from opendp_tree.ledger import Ledger, spend
from opendp_tree.rows.domains import frame_domain, snapshot_of
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.steps import FrameSteps
from opendp_tree.rows.unit import protected_unit
from opendp_tree.theorems.interval import round_up

if TYPE_CHECKING:
    from opendp.context import Context


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
    from opendp.context import Context

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
    context = Context.compositor(
        data=data,
        domain=frame_domain(data),
        privacy_unit=privacy_unit,
        privacy_loss=privacy_loss,
        split_evenly_over=split_evenly_over,
        split_by_weights=split_by_weights,
    )
    return FrameContext(context, data, book, unit, total)
