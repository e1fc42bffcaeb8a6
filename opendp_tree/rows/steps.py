"""Polars steps before leaf counts: OpenDP says how stable they are, our own list which are row-wise and total."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from opendp.mod import Domain, FrameDistance, LazyFrameDomain, Metric, SymmetricIdDistance, Transformation
from opendp.transformations import make_stable_lazyframe

from opendp_tree._arguments import check_choice
from opendp_tree._opendp import empty_lazyframe, lazy_query, make_transformation
from opendp_tree.noise import uniform_words
from opendp_tree.rows.domains import FrameColumns
from opendp_tree.rows.grouping import frozen_argument, made_up_rows, narrowed, read_again_like
from opendp_tree.rows.leaf_counts import LeafCounting, make_counting
from opendp_tree.rows.plans import plan_steps
from opendp_tree.rows.row_wise import check_steps, shuffles

STEPS = ("filter", "select", "truncate_num_groups", "truncate_per_group", "with_columns")
"""The methods of OpenDP's queries of frames that OpenDP may find stable and that keep rows apart."""
Step = tuple[str, tuple[Any, ...], Mapping[str, Any]]
"""A method of a lazy frame and its arguments."""


def stable_leaf_counts(
    input_domain: Domain, input_metric: Metric, plan: pl.LazyFrame, **options: Any
) -> Transformation:
    """Leaf counts after the steps of a plan, or with `records=True` records of people, from OpenDP's own frames."""
    if not plan_steps(plan):
        return make_counting(input_domain, input_metric, **options)
    steps, counting = _judged(plan, empty_lazyframe(input_domain), input_domain, input_metric, options)
    names = input_domain.columns
    plain = make_transformation(
        input_domain, input_metric, input_domain, input_metric, lambda data: narrowed(data, names), lambda d_in: d_in
    )
    return (
        plain
        >> steps
        >> make_transformation(
            steps.output_domain,
            steps.output_metric,
            *counting.space,
            counting.count,
            counting.stability_map,
        )
    )


def _judged(
    plan: pl.LazyFrame, empty: pl.LazyFrame, domain: Domain, metric: Metric, options: Mapping[str, Any]
) -> tuple[Transformation, LeafCounting]:
    """The steps of a plan once OpenDP and our own list admit them, and how to count what they give."""
    written = plan_steps(plan)
    check_steps(written, empty)
    steps = make_stable_lazyframe(domain, metric, lazyframe=plan, MO=_metric_name(metric, options))
    if _without_zones(plan_steps(steps(empty))) != _without_zones(written):
        raise ValueError(
            "a step must be run as it is written, but OpenDP writes it otherwise. Hint: cast(strict=False)"
        )
    check_on_made_up_rows(steps, empty)
    assert isinstance(steps.output_domain, LazyFrameDomain)
    counting = LeafCounting.of(steps.output_domain, steps.output_metric, **options)
    return steps, replace(counting, count=_with_fresh_draws(counting.count)) if shuffles(written) else counting


def _without_zones(steps: Any) -> str:
    """Steps as text, to be compared. What is done with ambiguous times does not matter where there is no time zone."""
    ambiguous = "{'Literal': {'Scalar': {'String': '%s'}}}], 'function': {'StringExpr': {'Strptime': "
    return str(steps).replace(ambiguous % "raise", ambiguous % "null")


def check_on_made_up_rows(steps: Callable[[pl.LazyFrame], Any], empty: pl.LazyFrame) -> None:
    """Takes steps on made-up rows: what fails whatever the values are must fail before a row of the data is read."""
    for rows in (0, 1, 2):
        try:
            steps(made_up_rows(empty, rows)).collect()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            reason = " ".join(str(error).split())
        else:
            continue
        raise ValueError(f"the steps must suit the columns that they are used on. Polars says: {reason}")


def _with_fresh_draws(count: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Polars' generator starts anew, from secure bits, before it draws whose rows are kept."""

    def counted(data: Any) -> Any:
        pl.set_random_seed(int(uniform_words(1)[0]))
        return count(data)

    return counted


def _metric_name(metric: Metric, options: Mapping[str, Any]) -> str:
    """What the steps must keep apart: rows, or people, if these are still to be bounded."""
    if options.get("unit") is None:
        return "FrameDistance<SymmetricDistance>"
    inner = metric.inner_metric if isinstance(metric, FrameDistance) else metric
    if not isinstance(inner, SymmetricIdDistance):
        raise ValueError(
            f"unit after Polars steps needs symmetric_id_distance, not {metric}. "
            "Hint: truncate_per_group among the steps"
        )
    return "FrameDistance<SymmetricIdDistance>"


@dataclass(frozen=True)
class FrameSteps:
    """Steps that are written down, to be taken first on an empty frame, for OpenDP to judge, and then on the data."""

    steps: tuple[Step, ...] = ()

    def then(self, name: str) -> Callable[..., FrameSteps]:
        """One step more. Its arguments are frozen: what is judged is what is run."""
        check_choice(name, name="step", choices=STEPS)

        def step(*args: Any, **kwargs: Any) -> FrameSteps:
            frozen = {key: frozen_argument(value) for key, value in kwargs.items()}
            given = tuple(frozen_argument(value) for value in args)
            return FrameSteps((*self.steps, (name, given, frozen)))

        return step

    def take(self, frame: pl.LazyFrame, space: tuple[Domain, Metric]) -> pl.LazyFrame:
        """The frame after all steps, as OpenDP's queries take them."""
        query = lazy_query(frame, space)
        for name, args, kwargs in self.steps:
            query = getattr(query, name)(*args, **kwargs)
        plan: pl.LazyFrame = object.__getattribute__(query, "polars_plan")
        return plan

    def leaf_counts(self, input_domain: Domain, input_metric: Metric, **options: Any) -> Transformation:
        """Leaf counts after these steps, from frames that are passed by reference."""
        if not self.steps:
            return make_counting(input_domain, input_metric, **options)
        described = input_domain.descriptor
        assert isinstance(described, FrameColumns)
        empty, domain = described.empty(), described.opendp_domain()
        space = domain, input_metric
        plan = self.take(empty, space)
        steps, counting = _judged(plan, empty, domain, input_metric, options)
        row_wise = all("Over" not in str(step.nodes) for step in plan_steps(plan))

        def count(data: Any) -> Any:
            taken = self.take(described.read(data), space)
            return counting.count(read_again_like(taken, data) if row_wise else taken)

        return make_transformation(
            input_domain,
            input_metric,
            *counting.space,
            count,
            lambda d_in: counting.stability_map(steps.map(d_in)),  # type: ignore[no-untyped-call]
        )
