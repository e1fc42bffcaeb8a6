"""Every measurement on nobody, on the largest counts, on counts below zero: a whole release, which JSON brings back."""

import math
from itertools import pairwise

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_tree as ot
from opendp_tree.saturate import LIMIT
from tests.mechanisms.combinators import FRAME, KEYS, LEAVES, MEASUREMENTS, OPEN, measurement

pytestmark = pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
COUNTS = {
    "nobody": [0, 0, 0, 0],
    "below zero": [-5, -(10**9), 3, -(2**62)],
    "largest": [LIMIT] * 4,
    "one leaf": [0, 0, 10**6, 0],
    "both ends": [LIMIT, -LIMIT, 0, 1],
}
SPARSE = {"nobody": [], "one leaf": [7] * 10_000, "one person": [3], "even": [*range(256)] * 40}


def awkward(made):
    """Data for a measurement, by name."""
    if made.input_domain == LEAVES[0]:
        return {name: np.array(counts) for name, counts in COUNTS.items()}
    if made.input_domain == KEYS[0]:
        return {name: OPEN.count(keys) for name, keys in SPARSE.items()}
    return {"nobody": FRAME.clear(), "one person": FRAME.head(1), "everybody": FRAME}


def ordered(release):
    return (release.lower <= release.estimates).all() and (release.estimates <= release.upper).all()


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_any_data_gives_a_whole_release(name):
    dp.enable_features("honest-but-curious")
    made = MEASUREMENTS[name]()
    loss = made.map(1)
    for data in awkward(made).values():
        release = made(data)
        if not isinstance(release, ot.TreeRelease):
            continue
        assert np.isfinite(release.estimates).all()
        assert ordered(release)
        assert tuple(release.statement.loss.values()) == (loss if isinstance(loss, tuple) else (loss,))
        again = ot.TreeRelease.from_json(release.to_json())
        assert again.to_json() == release.to_json()
        assert again.describe() == release.describe()
        assert again.to_frame().equals(release.to_frame())


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_maps_begin_at_nothing_and_rise(name):
    """Of a profile, its delta at an epsilon of 1."""
    made = measurement(name)
    losses = [made.map(k) for k in range(5)]
    if not isinstance(losses[0], (tuple, float)):
        losses = [loss.delta(1.0) for loss in losses]
    assert losses[0] in (0.0, (0.0, 0.0))
    parts = [loss if isinstance(loss, tuple) else (loss,) for loss in losses]
    assert all(a <= b for less, more in pairwise(parts) for a, b in zip(less, more, strict=True))


SCALED = [name for name, made in MEASUREMENTS.items() if "scale" in getattr(made, "keywords", {})]


def loss_at(made, scale):
    """What one person more costs; None where the scale is refused by name, or where the loss is a profile."""
    try:
        loss = made.func(*made.args, **{**made.keywords, "scale": scale}).map(1)
    except ValueError as error:
        if "scale" not in str(error):
            raise
        return None
    return loss if isinstance(loss, tuple) else (loss,) if isinstance(loss, float) else None


@pytest.mark.parametrize("name", SCALED)
def test_without_noise_nothing_is_promised_and_extreme_scales_have_maps(name):
    """A scale of 1e-10 once took for ever: a tiny delta as a fraction has billions of digits."""
    dp.enable_features("honest-but-curious")
    for scale in (0.0, 5e-324, 1e-300, 1e-10, 2.0**40, 1e300, 1.7e308):
        loss = loss_at(MEASUREMENTS[name], scale)
        assert loss is None or loss[0] > 0
        assert loss is None or all(0 <= delta <= 1 for delta in loss[1:])
        assert scale or loss in (None, (math.inf,), (math.inf, 1.0))


@pytest.mark.parametrize("epsilon", [1e8, 1e12, 1e300])
def test_a_huge_epsilon_has_an_estimator(epsilon):
    spent, delta = ot.make_tree_estimator(*KEYS, epsilon=epsilon, delta=1e-7).map(1)
    assert 0.999 * epsilon < spent <= epsilon
    assert delta == 1e-7
