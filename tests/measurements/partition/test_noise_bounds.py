import math

import numpy as np
import pytest

from opendp_tree import noise
from opendp_tree.measurements.partition.noise_bounds import noise_bounds


def convolved(scale, cells, reach):
    """The law of the sum of `cells` noises by plain convolution."""
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    law = one
    for _ in range(cells - 1):
        law = np.convolve(law, one)
    return law


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("cells", [1, 2, 5, 30])
@pytest.mark.parametrize("chance", [0.2, 0.01, 1e-6])
def test_noise_bounds_are_the_exact_quantiles(scale, cells, chance):
    bound = int(noise_bounds(np.array([cells]), scale, chance)[0])
    law = convolved(scale, cells, int(60 * scale))
    middle = law.size // 2
    assert law[middle + bound + 1 :].sum() <= chance * (1 + 1e-6)
    assert law[middle + bound :].sum() > chance * (1 - 1e-6)


def test_noise_bounds_beyond_sixty_four_cells_are_no_smaller_and_hardly_larger():
    cells = np.array([64, 65, 100, 1000, 20_000])
    bounds = noise_bounds(cells, 6.0, 0.0125)
    normal = 6.0 * np.sqrt(2 * cells) * 2.2414  # the normal quantile; noise of scale 6 varies slightly less than 2 * 36
    assert (bounds >= 0.99 * normal).all()
    assert (bounds <= 1.03 * normal + 1).all()
    assert (np.diff(bounds) > 0).all()


def test_noise_bounds_without_noise():
    assert noise_bounds(np.array([0, 3]), 6.0, 0.01)[0] == 0
    assert noise_bounds(np.array([0, 3]), 0.0, 0.01).tolist() == [0, 0]


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_sums_of_noise_stay_within_their_bounds(confidence):
    """A binomial test at six standard errors: a false alarm in 5e8 runs."""
    chance, runs = 1 - confidence, 100_000
    for cells in (1, 4, 100):
        bound = noise_bounds(np.array([cells]), 4.0, chance)[0]
        sums = noise.laplace(4.0, runs * cells).reshape(runs, cells).sum(axis=1)
        assert (sums > bound).mean() <= chance + 6 * math.sqrt(chance / runs)
