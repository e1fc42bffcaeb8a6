"""Above threshold: sparse vector over a vector that is there at once."""

from __future__ import annotations

from typing import Any, Literal

from opendp.measures import max_divergence
from opendp.metrics import linf_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.mechanisms.running_sparse_vector import BELOW, Calibration, SparseVector
from opendp_tree.trees.domains import CountSpace, check_metric, is_metric

__all__ = ["make_above_threshold", "then_above_threshold"]


def make_above_threshold(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    threshold: int,
    cutoff: int = 1,
    query_scale: float | None = None,
    threshold_noise: Literal["once", "refreshed"] = "once",
) -> Measurement:
    """For each integer of a vector, in order, whether it is above a threshold; False for all after `cutoff` were.

    Pure `max_divergence()` from `linf_distance`, with the loss of `make_sparse_vector` at a sensitivity of `d_in`;
    `linf_distance(monotonic=True)` halves what the answers "above" cost. Proof: docs/proofs/sparse_vector.md.

    Parameters
    ----------
    input_domain
        A vector of integers, or arrays by `leaf_domain` or `node_domain`.
    input_metric
        `linf_distance`; with `monotonic=True` if all entries move the same way between neighbours.
    scale
        Of the noise on the threshold. A scale of 0 adds no noise and promises nothing.
    threshold
        What entries are compared with.
    cutoff
        How many answers "above" are given at most; 1, the least that tells anything.
    query_scale
        Of the noise on each entry; by default the one that gives the least error for `scale`.
    threshold_noise
        "once" draws the threshold's noise once, which is better; "refreshed" draws it anew after each "above".

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    >>> above = space >> then_above_threshold(4.0, threshold=500, cutoff=1)
    >>> above.map(1), above([0, 0, 1000, 0, 1000])
    (0.5, [False, False, True, False, False])
    """
    assert_features("contrib")
    space = CountSpace.of(input_domain)
    if space.scalar:
        raise ValueError(f"input_domain ({input_domain}) must hold vectors. Hint: vector_domain")
    monotonic = is_metric(input_metric, linf_distance, monotonic=True)
    if not monotonic:
        check_metric(input_metric, linf_distance)
    calibration = Calibration.of(
        threshold=threshold,
        scale=scale,
        query_scale=query_scale,
        cutoff=cutoff,
        monotonic=monotonic,
        threshold_noise=threshold_noise,
    )

    def function(data: Any) -> Any:
        answers = SparseVector(calibration).answer(space.read(data)) != BELOW
        return answers if space.carries_arrays else answers.tolist()

    return make_measurement(
        input_domain,
        input_metric,
        max_divergence(),
        function,
        lambda d_in: calibration.epsilon(read_distance(d_in)),
        "ExtrinsicObject" if space.carries_arrays else "Vec<bool>",
    )


then_above_threshold = to_then(make_above_threshold)
