"""Rows to a release, in one call; the one road from leaf counts to a release within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from opendp.metrics import symmetric_distance, symmetric_id_distance
from opendp.mod import Domain, ExtrinsicDomain, Measurement, Metric, Transformation, assert_features

from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._show import progress
from opendp_tree.budget import Budget
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, spend
from opendp_tree.planning.candidates import means_candidate, weighs_people
from opendp_tree.planning.methods import Auto, Curve, Method, Partition, PeopleLayers, Quantiles, read_method
from opendp_tree.planning.plan import check_alpha, planned_candidate, planned_people
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.domains import frame_domain
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.leaf_values import LeafValueSpace, make_leaf_values
from opendp_tree.rows.people import PeopleSpace, make_people_records
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.tables import measured
from opendp_tree.rows.unit import Unit, protected_unit, unit_words
from opendp_tree.rows.value import Value, read_values, values_counted
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

__all__ = ["release_tree"]

Space = tuple[Domain, Metric]
Made = TypeVar("Made")


@interrupts_deferred
@progress("counting")
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
    value: Value | Sequence[Value] | None = None,
    ledger: Ledger | str | Path | None = None,
    memory: int | str | None = None,
) -> TreeRelease:
    """A private count of every node of a hierarchy, from the rows of a frame of any library, or of files.

    Everything is checked before a row is counted. One call is one release: it knows nothing of others. To account for
    several, give each the same `ledger`, or use OpenDP's Context and `tree_counts`.

    Parameters
    ----------
    data
        The rows: a frame of Polars or of any library, a list of rows, or files, as `read_source` takes them. A Polars
        frame, lazy or not, in memory or on disk, is passed by reference, never copied. Where types would have to be
        guessed from rows, declare them: `read_source(rows, schema={"age": int})`.
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
        Who is protected, and what of people is counted: `Unit("user", rows=5)` for rows, those of each user weighed
        down to 5 in all; `Unit("user", count="people", nodes=5)` for people; `Unit("user", count="shares")` for shares
        of people. Estimates and intervals are of that, as the statement's `counted` says. With `leaves`, or a method
        for leaf counts, rows are kept up to the bounds instead. By default None: one row.
    method
        How the release is made: "auto" (the default: the first of `plan`, which knows public facts alone), another
        method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.
    value
        What is summed, `Value("amount", bounds=(0, 500))`, or a list of several: sums and means at every node that is
        shown, of numbers clipped to the bounds, with intervals of their own. Rows without a number are then left out
        of counts, too. Several values share what is spent on sums. By default None: rows are counted alone.
    ledger
        A `Ledger`, or the path of one that is there; the command line keeps the same. What it cannot pay is refused
        before a row is read. The finished release and its cost are committed together before this call returns: one
        that fails or is interrupted costs nothing. By default None: nobody counts.
    memory
        How much memory people's rows may take while they are weighed, or cut to the unit's bounds: bytes, or a text
        such as "2GiB". By default None: an eighth of the machine's memory, and at most 2 GiB. Where there are more
        rows, the data are read several times, a part of the people each time; without a unit, keys of bits and
        addresses of one version, a range of keys each time. A lazy frame whose plan does more than read, choose rows
        by their values and compute from them is run once, and what is needed of it is held in memory.

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
    >>> spent = visits.with_columns(amount=pl.when(pl.col("city") == "ghent").then(40.0).otherwise(90.0))
    >>> release = release_tree(spent, by="city", epsilon=1.0, delta=1e-6, value=Value("amount", bounds=(0, 100)))
    >>> release.to_frame(other=False).select("city", (pl.col("mean") / 10).round()).rows()
    [(None, 6.0), ('ghent', 4.0), ('liege', 9.0)]

    """
    assert_features("contrib")
    key = Key.of(by)
    values = read_values(value)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    asked: dict[str, Any] = {"unit": unit, "method": method, "values": values, "memory": memory}
    measurement = make_frame_release(frame, key, account.budget, **asked, alpha=alpha, confidence=confidence)
    columns = [*key.columns_used, *(each.column for each in values)]
    release: TreeRelease = account.spend(lambda: measured(measurement, frame), note={"columns": columns})
    return release


@dataclass(frozen=True)
class Account:
    """What a release may cost, and the ledger that counts it, if there is one."""

    ledger: Ledger | None
    budget: Budget
    cost: Mapping[str, Fraction]
    disjoint: str | None = None
    """What releases of disjoint rows share, of which the dearest counts."""

    @classmethod
    def of(
        cls,
        ledger: Ledger | str | Path | None,
        unit: Unit | None,
        *,
        epsilon: float | None,
        delta: float,
        rho: float | None,
        disjoint: str | None = None,
    ) -> Account:
        """An account of checked arguments; what its ledger cannot pay is refused before anything is read."""
        budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho)
        book, person = Ledger.of(ledger), Unit.of(unit)
        if book is None:
            return cls(None, budget, {})
        cost, below = budget.written()
        book.check(cost, unit=unit_words(None if person is None else person.column), disjoint=disjoint)
        return cls(book, below, cost, disjoint)

    def spend(self, make: Callable[[], Made], *, note: Mapping[str, Any], name: str | None = None) -> Made:
        """Make the release, and commit it to the ledger with its cost before it is given away."""
        return spend(self.ledger, self.cost, make, note=note, name=name, disjoint=self.disjoint)


def make_frame_release(
    frame: Any,
    key: Key,
    budget: Budget,
    *,
    unit: Unit | None,
    method: Method | str,
    values: tuple[Value, ...],
    memory: int | str | None = None,
    alpha: float,
    confidence: float,
) -> Measurement:
    """The measurement of what `read_source` gives: `release_tree` makes one, `release_trees` one for each hierarchy."""
    return make_release(
        count_rows(frame, by=key, unit=unit, method=method, values=values, memory=memory),
        1,
        counted=counted_of(key, unit, method, values),
        person=unit,
        method=method_for(key, method, values, unit=unit),
        budget=budget,
        alpha=alpha,
        confidence=confidence,
    )


def count_rows(
    data: Any,
    *,
    by: Key,
    unit: Unit | None,
    method: Method | str = "auto",
    values: tuple[Value, ...] = (),
    memory: int | str | None = None,
) -> Transformation:
    """What a method needs of a frame that is passed by reference: leaf counts or values, or records of people."""
    person = Unit.of(unit)
    metric = symmetric_distance() if person is None else symmetric_id_distance(identifier=person.column)
    if values:
        return make_leaf_values(frame_domain(data), metric, values=values, by=by, unit=person)
    if person is not None and weighs_people(person, method):
        return make_people_records(frame_domain(data), metric, by=by, unit=person, memory=memory)
    return make_leaf_counts(frame_domain(data), metric, by=by, unit=person, memory=memory)


def counted_of(
    key: Key, unit: Unit | None, method: Method | str = "auto", values: tuple[Value, ...] = (), *, of: str = "rows"
) -> str:
    """What a release of rows counts, in words."""
    person, of = Unit.of(unit), key.counted(of)
    if values:
        return values_counted(of if person is None else person.counted(of=of), values)
    return of if person is None else person.counted(of=of, weighed=weighs_people(person, method))


def make_release(
    counts: Transformation | Space,
    d_in: Any,
    *,
    method: Method | str,
    budget: Budget,
    alpha: float,
    confidence: float,
    tree: Tree | None = None,
    counted: str | None = None,
    person: Unit | None = None,
) -> Measurement:
    """From where leaf counts come from to a release within a budget at distance `d_in`, with its whole statement."""
    space = counts if isinstance(counts, tuple) else (counts.output_domain, counts.output_metric)
    metric = counts[1] if isinstance(counts, tuple) else counts.input_metric
    most = d_in if isinstance(counts, tuple) else counts.map(d_in)  # type: ignore[no-untyped-call]
    amounts = budget.at(most)
    held = space[0].descriptor if isinstance(space[0], ExtrinsicDomain) else None
    unit = protected_unit(metric, d_in, None if isinstance(held, PeopleSpace) else most)
    if isinstance(held, PeopleSpace):
        assert person is not None
        candidate = planned_people(held.tree, person, amounts, alpha=check_alpha(alpha), method=method)
    elif isinstance(held, LeafValueSpace):
        candidate = means_candidate(held, amounts, method=method)
    else:
        candidate = planned_candidate(tree_of_leaves(space[0], tree), amounts, alpha=alpha, method=method)
    released = candidate.make(*space, tree=tree, confidence=confidence, unit=unit, counted=counted)
    return released if isinstance(counts, tuple) else counts >> released


def method_for(key: Key, method: Method | str, values: tuple[Value, ...] = (), *, unit: Unit | None = None) -> Method:
    """The method, for the levels that the key shows. Refused where a method would count the others all the same."""
    chosen, person = read_method(method), Unit.of(unit)
    if key.known is not None:
        raise ValueError("by: known names cannot be honoured yet. Hint: make_tree_estimator(known=...)")
    line = key.line_below
    if line is not None and isinstance(chosen, Quantiles):
        raise ValueError(
            f"method ({chosen.name}) must not be given where the number is below groups: there is a curve for each. "
            "Hint: method=Curve(), and release.quantiles([0.5])"
        )
    weighed = person is not None and weighs_people(person, chosen)
    if line is not None and not values and not weighed and (chosen == Auto() or isinstance(chosen, Curve)):
        curve = chosen if isinstance(chosen, Curve) else Curve()
        chosen = replace(curve, groups=line[0], ranges=line[1])
    shown = key.shown_levels
    if len(shown) == key.hierarchy.depth:
        return chosen
    if not isinstance(chosen, (Auto, Partition, PeopleLayers)):
        raise ValueError(
            f"by: show cannot be honoured for method ({chosen.name}). Hint: leave show out and read those levels of "
            "the frame; a larger stride, or fewer columns, makes fewer levels"
        )
    if chosen.levels not in (None, shown):
        raise ValueError(f"method: levels {chosen.levels} must be those that the key shows, {shown}")
    return replace(chosen, levels=shown)
