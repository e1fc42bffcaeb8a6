"""Releases and plans to draw."""

import numpy as np

from opendp_tree import Tree, TreeRelease, plan
from opendp_tree.releases import PrivacyStatement

STATEMENT = PrivacyStatement("tree_laplace", "max_divergence()", 1, {"epsilon": 1.0}, {})
NAMES = ("region", "county", "city")
WORDS = ("North", "South", "East", "West", "Upper", "Lower", "Old", "New")
HOSTILE = (
    "<script>window.hacked = 1</script>",
    "<b>bold</b> & <i>more</i>",
    "<img src=x onerror=window.hacked=1>",
    '<a href="javascript:window.hacked=1">a link</a>',
    "&lt;u&gt; %{x} {y} $x^2$ \\u003c",
    "long " * 40,
    "Ж日本語🙂é\u202eright to left\u202c\nnew line " * 6,
    "x" * 200,
)
"""Labels that are markup to somebody, or too long."""


def label(level, number):
    return f"{WORDS[number % 8]} {NAMES[level]} {number + 1:,}"


def release(shape=(8, 6, 4), *, label=label, noise=10.0, total=2e5, hide=True, **more):
    """A skewed hierarchy with noise of the test's own, in which small nodes are hidden."""
    generator = np.random.default_rng(7)
    paths = [tuple(label(level, number) for level, number in enumerate(place)) for place in np.ndindex(*shape)]
    tree = Tree.from_paths(paths, names=list(NAMES[: len(shape)]))
    counts = np.zeros(tree.node_count)
    counts[tree.leaves] = generator.lognormal(0, 1.3, len(paths))
    counts *= total / counts.sum()
    for nodes in reversed(tree.levels[1:]):
        np.add.at(counts, tree.parents[nodes], counts[nodes])
    noisy = np.round(counts + generator.laplace(0, noise, counts.size))
    shown = counts > 3 * noise if hide else None
    return TreeRelease(tree, noisy, noisy - 3 * noise, noisy + 3 * noise, 0.95, STATEMENT, shown=shown, **more)


def mechanisms(nodes="public"):
    """A plan in which some mechanisms are possible."""
    return plan(8, epsilon=1.0, delta=1e-6, alpha=0.1, nodes=nodes)
