"""What OpenDP's searches for a parameter need of a constructor: an answer at 0, and pairs that they can compare.

`dp.binary_search_param` and `dp.binary_search_chain` probe a constructor at 0, and stop at pairs (epsilon, delta) of
which neither is the larger. So a constructor that is told an epsilon accepts 0, and reports the delta that it promises
where it would lose a little less.
"""

from __future__ import annotations

from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._arguments import is_zero, read_distance
from opendp_tree._opendp import make_measurement

__all__ = ["make_unfunded", "with_promised_delta"]

Loss = tuple[float, float]


def make_unfunded(input_domain: Domain, input_metric: Metric, *, delta: float) -> Measurement:
    """A measurement that may spend no epsilon: it has a map, for searches to compare, and releases nothing."""

    def refuse(data: Any) -> Any:
        raise ValueError("epsilon (0) must be positive for a release. Hint: 0 is there for OpenDP's searches alone")

    def privacy_map(d_in: int | float) -> float | Loss:
        loss = (0.0, float(delta) if read_distance(d_in) else 0.0)
        return 0.0 if is_zero(delta) else loss

    measure = max_divergence() if is_zero(delta) else approximate(max_divergence())
    return make_measurement(input_domain, input_metric, measure, refuse, privacy_map)


def with_promised_delta(loss: Loss, promised: float) -> Loss:
    """The loss with the delta that was promised, if that is more. At distance 0 nothing is lost."""
    epsilon, delta = loss
    return (epsilon, max(delta, float(promised))) if loss != (0.0, 0.0) else loss
