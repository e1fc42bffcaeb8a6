"""A chi-square test with a stated false-alarm rate, used both ways: right laws pass, wrong ones fail."""

import math

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-9
"""A correct sampler fails one test in a billion."""


def laplace_masses(scale, support):
    """The masses, up to a factor, of a Laplace law on a support."""
    return np.exp(-np.abs(np.asarray(support, dtype=float)) / scale)


def p_value(drawn, support, masses):
    """The chi-square p-value of a sample against masses on consecutive integers; no draw may lie outside.

    Neighbours are pooled into at most a hundred cells, each of which expects at least 25 draws.
    """
    support = np.asarray(support)
    assert drawn.min() >= support[0]
    assert drawn.max() <= support[-1]
    expected = np.asarray(masses) / math.fsum(masses) * len(drawn)
    observed = np.bincount(drawn - support[0], minlength=support.size)
    least = max(25, len(drawn) / 100)
    cells = np.minimum(np.cumsum(expected) - expected / 2, len(drawn) - least) // least
    cells = cells.astype(int) - int(cells.min())
    observed, expected = np.bincount(cells, observed), np.bincount(cells, expected)
    observed, expected = observed[expected > 0], expected[expected > 0]
    if expected.size < 2:
        return 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, expected.size - 1))


def fit(observed, expected):
    """The chi-square p-value of counts against what is expected of them, cell by cell."""
    observed, expected = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1))
