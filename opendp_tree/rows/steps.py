"""Polars steps before leaf counts: OpenDP bounds their stability, and `row_wise` says which are admitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
from opendp.mod import Domain, LazyFrameDomain, Metric, SymmetricIdDistance, Transformation
from opendp.transformations import make_stable_lazyframe

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._opendp import empty_lazyframe, inferred_domain, lazy_query, make_transformation
from opendp_tree.noise import uniform_words
from opendp_tree.rows.counting import Counting, make_counting, read_counting
from opendp_tree.rows.domains import FrameColumns, check_rows_are_here, narrowed, read_again_like
from opendp_tree.rows.row_wise import check_steps, plan_steps
from opendp_tree.rows.unit import inner_metric

STEPS = ("filter", "select", "truncate_num_groups", "truncate_per_group", "with_columns")
"""The methods of OpenDP's queries of frames that may be steps."""
Step = tuple[str, tuple[Any, ...], Mapping[str, Any]]
"""A method of a lazy frame and its arguments."""


def stable_leaf_counts(
    input_domain: Domain, input_metric: Metric, plan: pl.LazyFrame, **options: Any
) -> Transformation:
    """Leaf counts after the steps of a plan, or with `records=True` records of people, from OpenDP's own frames."""
    if not plan_steps(plan):
        return make_counting(input_domain, input_metric, **options)
    steps, counting = _judged(plan, empty_lazyframe(input_domain), input_domain, input_metric, options)
    names, space = input_domain.columns, (input_domain, input_metric)
    unflagged = make_transformation(*space, *space, lambda data: narrowed(data, names), lambda d_in: d_in)
    return unflagged >> steps >> make_transformation(steps.output_domain, steps.output_metric, *counting)


def _judged(
    plan: pl.LazyFrame, empty: pl.LazyFrame, domain: Domain, metric: Metric, options: Mapping[str, Any]
) -> tuple[Transformation, Counting]:
    """The steps of a plan, once OpenDP and `row_wise` admit them, and the counting of their result."""
    written = plan_steps(plan)
    check_steps(written, empty)
    if options.get("unit") is not None and not isinstance(inner_metric(metric), SymmetricIdDistance):
        hint = "Hint: truncate_per_group among the steps"
        raise ValueError(f"unit after Polars steps needs symmetric_id_distance, not {metric}. {hint}")
    # Steps are stable in rows, or in people where these are still to be bounded.
    apart = "SymmetricDistance" if options.get("unit") is None else "SymmetricIdDistance"
    steps = make_stable_lazyframe(domain, metric, lazyframe=plan, MO=f"FrameDistance<{apart}>")
    if _without_zones(plan_steps(steps(empty))) != _without_zones(written):
        raise ValueError("a step must be run as it is written, but OpenDP rewrites it. Hint: cast(strict=False)")
    _check_on_made_up_rows(steps, empty)
    assert isinstance(steps.output_domain, LazyFrameDomain)
    counting = read_counting(steps.output_domain, steps.output_metric, **options)
    if "Random" not in str(written):
        return steps, counting

    def count(data: Any) -> Any:
        """Polars' generator is seeded from secure bits before it draws which rows are kept."""
        pl.set_random_seed(int(uniform_words(1)[0]))
        return counting.count(data)

    return steps, counting._replace(count=count)


def _without_zones(steps: Any) -> str:
    """Steps as text, to be compared. The rule for ambiguous times has no effect without a time zone."""
    ambiguous = "{'Literal': {'Scalar': {'String': '%s'}}}], 'function': {'StringExpr': {'Strptime': "
    return str(steps).replace(ambiguous % "raise", ambiguous % "null")


def _check_on_made_up_rows(steps: Callable[[pl.LazyFrame], Any], empty: pl.LazyFrame) -> None:
    """Runs steps on made-up rows, so that steps that always fail do so before a row of the data is read."""
    for rows in (0, 1, 2):
        try:
            steps(made_up_rows(empty, rows)).collect()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            reason = " ".join(str(error).split())
        else:
            continue
        stop_if_interrupted()
        raise ValueError(f"the steps must suit the columns that they are used on. Polars says: {reason}")


def made_up_rows(frame: pl.LazyFrame, rows: int) -> pl.LazyFrame:
    """Up to two rows with the schema of a frame: the first of zeros, the second of nulls."""
    zeros = [pl.lit(0).cast(dtype, strict=False).alias(name) for name, dtype in frame.collect_schema().items()]
    first = pl.select(zeros)
    return pl.concat([first, first.clear(1)]).head(rows).lazy()


@dataclass(frozen=True)
class FrameSteps:
    """Recorded steps, run first on an empty frame, for OpenDP to judge, and then on the data."""

    steps: tuple[Step, ...] = ()

    def then(self, name: str) -> Callable[..., FrameSteps]:
        """Adds a step. Its arguments are frozen, so that what is judged is what is run."""
        check_choice(name, name="step", choices=STEPS)

        def step(*args: Any, **kwargs: Any) -> FrameSteps:
            if name.startswith("truncate"):
                check_integer(args[0] if args else kwargs.get("k"), name="k", least=1)
            frozen = {key: frozen_argument(value) for key, value in kwargs.items()}
            return FrameSteps((*self.steps, (name, frozen_argument(args), frozen)))

        return step

    def take(self, frame: pl.LazyFrame, space: tuple[Domain, Metric]) -> pl.LazyFrame:
        """The frame after all steps, as OpenDP's queries run them."""
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
        check_rows_are_here("steps of a query", described)
        empty = pl.LazyFrame(schema=dict(described.types))
        domain = inferred_domain(empty)  # OpenDP's own, in which every value may be null
        plan = self.take(empty, (domain, input_metric))
        steps, counting = _judged(plan, empty, domain, input_metric, options)
        row_wise = "Over" not in str(plan_steps(plan))

        def count(data: Any) -> Any:
            if not described.holds(data):
                raise TypeError(
                    "the data must be a Polars frame with the columns and data types of input_domain. "
                    "Hint: read_source makes one of other frames"
                )
            taken = self.take(narrowed(data, dict(described.types)), (domain, input_metric))
            return counting.count(read_again_like(taken, data) if row_wise else taken)

        def stability_map(d_in: Any) -> int:
            return counting.stability_map(steps.map(d_in))  # type: ignore[no-untyped-call]

        return make_transformation(
            input_domain, input_metric, *counting._replace(count=count, stability_map=stability_map)
        )


def frozen_argument(value: Any) -> Any:
    """An argument of a step that cannot be changed later: an expression, a plain value, or a tuple of them."""
    if value is None or isinstance(value, (str, int, float, timedelta, date, pl.Expr, pl.DataType)):
        return value
    if isinstance(value, type) and issubclass(value, pl.DataType):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return tuple(frozen_argument(each) for each in value)
    kind = type(value).__name__
    raise TypeError(f"a step's argument ({kind}) must be an expression, a plain value, or a list of them")
