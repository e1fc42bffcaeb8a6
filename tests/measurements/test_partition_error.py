import numpy as np
import pytest

from opendp_tree import noise
from opendp_tree.measurements.partition_error import Settings, chains, mean_square, worst_mean_square
from opendp_tree.measurements.partition_plan import largest_error, worst_rmse
from opendp_tree.theorems.tree_partition import PartitionShape


def settings(*, depth=6, scale=2.0, threshold=40, radius=30, margin=9, count_scale=8.0, fill=0.0):
    values = (scale, threshold, radius, margin, count_scale, fill)
    return Settings(depth, *(np.array([value], dtype=np.float64) for value in values))


def drawn_tests(shape, scale, residual, size, token):
    """The mechanism's test, drawn as it is defined."""
    return residual + noise.truncated_geometric(scale, shape.radius, size) >= shape.threshold + token


@pytest.mark.parametrize("scale", [0.6, 2.0, 9.0])
def test_chains_have_cells_as_often_as_simulation_finds(scale):
    """Within 3 %: tokens are taken at a few quantiles."""
    shape = PartitionShape(depth=6, threshold=40, radius=30, margin=9)
    weights, marked = chains(settings(scale=scale))
    for weight, chance in list(zip(weights[0], marked[0], strict=True))[::3]:
        token = noise.geometric(scale, 40_000)
        top = np.zeros(40_000, dtype=bool)
        for _ in range(5):
            top |= drawn_tests(shape, scale, int(weight), 40_000, token)
        assert abs(top.mean() - chance) < 0.03


@pytest.mark.parametrize("cells", [0, 1, 6])
@pytest.mark.parametrize("residual", [0, 36, 42])
@pytest.mark.parametrize("fill", [0.0, 14.5])
def test_mean_squares_are_what_simulation_finds(cells, residual, fill):
    """Within 4 % and six standard errors of the mean."""
    shape, size = PartitionShape(depth=6, threshold=40, radius=30, margin=9), 100_000
    top = drawn_tests(shape, 2.0, residual, size, noise.geometric(2.0, size))
    drawn = noise.laplace(8.0, (cells + 1) * size).reshape(cells + 1, size)
    held = cells * 41 + drawn[:cells].sum(axis=0) + np.where(top, residual + drawn[-1], 0)
    estimate = np.maximum(held, (cells + top) * shape.doubt) + np.where(top, 0, fill)
    truth = cells * 41 + residual
    found = np.maximum(np.abs(estimate - truth) - 0.1 * truth, 0) ** 2
    at = settings(fill=fill)
    predicted = mean_square(at, np.array([cells]), np.array([41.0]), np.array([float(residual)]), 0.1)[0]
    assert abs(found.mean() - predicted) <= 0.04 * predicted + 6 * found.std() / size**0.5


def test_many_settings_at_once_are_each_one_alone():
    single = [settings(scale=1.5, fill=10.0), settings(scale=3.0, count_scale=20.0)]
    fields = ("scale", "threshold", "radius", "margin", "count_scale", "fill")
    both = Settings(6, *(np.concatenate([getattr(one, name) for one in single]) for name in fields))
    alone = [worst_mean_square(one, alpha=0.1)[0] for one in single]
    np.testing.assert_allclose(worst_mean_square(both, alpha=0.1), alone, rtol=1e-12)


def test_more_cells_err_more_where_nothing_is_forgiven():
    shape = PartitionShape(depth=6, threshold=40, radius=30, margin=9)
    errors = [worst_rmse(2.0, shape, 8.0, alpha=0.0, fill=0.0, most_cells=most) for most in (0, 1, 16, 256, 4096)]
    assert errors == sorted(errors)
    assert errors[-1] > 3 * errors[0]
    # An unmarked residual alone, without counts: a little less than the threshold.
    assert 30 < errors[0] < 40


def test_largest_errors_grow_with_the_number_of_nodes():
    shape = PartitionShape(depth=6, threshold=40, radius=30, margin=9)
    errors = [largest_error(2.0, shape, 8.0, alpha=0.1, fill=0.0, nodes=10**power) for power in (2, 4, 8)]
    assert errors == sorted(errors)
    assert errors[0] > 36
