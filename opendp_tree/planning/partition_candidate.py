"""The tree partition, which needs to know nothing but the depth: what it can promise for a budget."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from opendp_tree.measurements.partition_curve import partition_rmse
from opendp_tree.measurements.partition_error import MOST_CELLS
from opendp_tree.measurements.partition_estimator import make_partition_estimator
from opendp_tree.measurements.partition_plan import plan_partition, unmarked_chance
from opendp_tree.planning.budget import Budget, Priced
from opendp_tree.planning.candidate import Candidate, Space, shown_from
from opendp_tree.planning.methods import Partition
from opendp_tree.planning.tree_facts import TreeFacts

NEEDS = "nothing but the depth; delta above 0"


def partition_candidate(method: Partition, facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """The private tree partition and noisy counts of its cells.

    Parameters
    ----------
    method
        The partition's options.
    facts
        The hierarchy.
    budget
        What may be spent.
    alpha
        The share of a count that an error may have and be forgiven.

    """
    no = partial(Candidate.infeasible, method.name, needs=NEEDS)
    if budget.delta == 0:
        return no(reason="the partition needs a delta")
    one = budget.one_person
    if one is None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho")
    epsilon, delta = one
    cells = MOST_CELLS if facts.tree is None else min(MOST_CELLS, facts.tree.leaf_count)
    reason = "only heavy parts of the tree get noise, once on every path"
    if alpha == 0:  # nothing is forgiven, so noise adds up for as long as cells do
        reason += f"; alpha is 0, so this is for at most {cells:,} of them below a node"
    try:
        planned = plan_partition(
            depth=facts.depth,
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            public=facts.public,
            count_share=method.measuring,
            most_cells=cells,
        )
        plan = planned.fitted(epsilon=Fraction(epsilon), delta=Fraction(delta))
    except ValueError:
        return no(reason=f"epsilon and delta are too small for a partition of depth {facts.depth}")

    def build(space: Space) -> Priced:
        made = make_partition_estimator(
            space.domain,
            space.metric,
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            tree=space.tree,
            confidence=space.confidence,
            plan=plan,
        )
        return budget.priced(made)

    return Candidate(
        method.name,
        feasible=True,
        reason=reason,
        needs=NEEDS,
        error=plan.error,
        bound=facts.levels is not None,
        guarantee="epsilon and delta",
        parameters={
            "scale": plan.scale,
            "count_scale": plan.count_scale,
            "threshold": plan.shape.threshold,
            "radius": plan.shape.radius,
            "margin": plan.shape.margin,
            "fill": plan.fill,
        },
        shown_from=shown_from(lambda at: 1 - unmarked_chance(plan.scale, plan.shape, at), plan.shape.threshold),
        nonnegative=True,
        integers=plan.fill == 0,
        curve=lambda at: partition_rmse(at, plan, alpha=alpha),
        builder=build,
        budget=budget,
    )
