"""Polars steps before leaf counts: OpenDP says how stable they are, whatever road the frame takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opendp.metrics import l1_distance
from opendp.mod import Domain, FrameDistance, LazyFrameDomain, Metric, SymmetricIdDistance, Transformation
from opendp.transformations import make_stable_lazyframe

from opendp_tree._arguments import check_choice
from opendp_tree._opendp import lazy_query, make_transformation
from opendp_tree.rows.frame_domain import FrameColumns
from opendp_tree.rows.leaf_counts import LeafCounting, make_leaf_counts, then_leaf_counts
from opendp_tree.trees.domains import leaf_domain

if TYPE_CHECKING:
    import polars as pl

STEPS = ("filter", "select", "truncate_num_groups", "truncate_per_group", "with_columns")
"""The methods of OpenDP's queries of frames that OpenDP may find stable and that keep rows apart."""
Step = tuple[str, tuple[Any, ...], Mapping[str, Any]]
"""A method of a lazy frame and its arguments."""


def stable_leaf_counts(
    input_domain: Domain, input_metric: Metric, plan: pl.LazyFrame, **options: Any
) -> Transformation:
    """Leaf counts after the steps of a plan, from OpenDP's own frames.

    People are bounded by the options, or by OpenDP's truncations among the steps. A plan without steps is left out:
    OpenDP takes fewer metrics than leaf counts do.
    """
    if "\n" not in plan.explain(optimized=False).strip():
        return make_leaf_counts(input_domain, input_metric, **options)
    steps = make_stable_lazyframe(input_domain, input_metric, lazyframe=plan, MO=_metric_name(input_metric, options))
    return steps >> then_leaf_counts(**options)


def _metric_name(metric: Metric, options: Mapping[str, Any]) -> str:
    """What the steps must keep apart: rows, or people, if these are still to be bounded."""
    if options.get("rows_per_unit") is None and options.get("leaves_per_unit") is None:
        return "FrameDistance<SymmetricDistance>"
    inner = metric.inner_metric if isinstance(metric, FrameDistance) else metric
    if not isinstance(inner, SymmetricIdDistance):
        raise ValueError(
            f"rows_per_unit and leaves_per_unit after Polars steps need symmetric_id_distance, found {metric}. "
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
            from opendp_tree.rows.groups import frozen_argument

            if kwargs.get("keep", "sample") != "sample":
                raise ValueError("keep must be 'sample': which rows come first is no fact about a set of rows")
            frozen = {key: frozen_argument(value) for key, value in kwargs.items()}
            return FrameSteps((*self.steps, (name, tuple(frozen_argument(value) for value in args), frozen)))

        return step

    def take(self, frame: pl.LazyFrame, space: tuple[Domain, Metric]) -> pl.LazyFrame:
        """The frame after all steps, as OpenDP's queries take them."""
        query = lazy_query(frame, space)
        for name, args, kwargs in self.steps:
            query = getattr(query, name)(*args, **kwargs)
        found: pl.LazyFrame = object.__getattribute__(query, "polars_plan")
        return found

    def leaf_counts(self, input_domain: Domain, input_metric: Metric, **options: Any) -> Transformation:
        """Leaf counts after these steps, from frames that are passed by reference.

        OpenDP's stability map for the steps is used as it is: it is a fact about the plan, and the plan that is run on
        the data is the same, method by method.
        """
        if not self.steps:
            return make_leaf_counts(input_domain, input_metric, **options)
        described = input_domain.descriptor
        assert isinstance(described, FrameColumns)
        empty, judged = described.empty(), described.opendp_domain()
        plan = self.take(empty, (judged, input_metric))
        steps = make_stable_lazyframe(judged, input_metric, lazyframe=plan, MO=_metric_name(input_metric, options))
        assert isinstance(steps.output_domain, LazyFrameDomain)
        counting = LeafCounting.of(steps.output_domain, steps.output_metric, **options)
        return make_transformation(
            input_domain,
            input_metric,
            leaf_domain(counting.tree),
            l1_distance(T="i64"),
            lambda data: counting.count(self.take(described.read(data), (judged, input_metric))),
            lambda d_in: counting.stability_map(steps.map(d_in)),  # type: ignore[no-untyped-call]
        )
