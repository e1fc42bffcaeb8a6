"""Temporary."""

import numpy as np


def _law(noise, scale):
    reach = int((40 if noise == "laplace" else 9) * scale) + 2
    step = max(1, reach // 20000)
    z = np.arange(-reach, reach + 1, step).astype(float)
    p = np.exp(-np.abs(z) / scale) if noise == "laplace" else np.exp(-z * z / (2 * scale**2))
    return z, p / p.sum()


def shown_chance(weights, *, noise, scales, thresholds):
    total = np.ones(len(weights))
    for s, t in zip(scales.tolist(), thresholds.tolist()):
        z, p = _law(noise, s)
        c = np.append(np.cumsum(p[::-1])[::-1], 0)
        total *= c[np.searchsorted(z, t - weights)]
    return total


def pruned_rmse(weights, *, noise, scales, thresholds, alpha):
    weights = np.asarray(weights, float)
    if len(set(scales)) == 1:
        one = shown_chance(weights, noise=noise, scales=scales[:1], thresholds=thresholds[:1])
        above = one ** (len(scales) - 1)
        shown = above * one
    z, p = _law(noise, float(scales[-1]))
    out = []
    for w, a, s in zip(weights, above, shown):
        k = z >= thresholds[-1] - w
        out.append(a * (np.maximum(np.abs(z[k]) - alpha * w, 0) ** 2 * p[k]).sum() + (1 - s) * ((1 - alpha) * w) ** 2)
    return np.sqrt(np.array(out))


def worst_pruned_rmse(*, noise, scales, thresholds, alpha):
    w = np.linspace(1, thresholds.max() * 3, 80)
    return float(pruned_rmse(w, noise=noise, scales=scales, thresholds=thresholds, alpha=alpha).max())
