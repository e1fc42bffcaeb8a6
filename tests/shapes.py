"""Trees of every awkward shape, and leaf counts that spread over many orders of magnitude."""

import numpy as np

from opendp_tree import Tree


def caterpillar(length):
    """A spine with one leaf at each of its nodes, and two at its end."""
    parents = [-1]
    spine = 0
    for _ in range(length):
        parents += [spine, spine]
        spine = len(parents) - 1
    return Tree.from_parents(parents)


def random_tree(nodes, seed):
    """Each node below a random earlier one, with the ids shuffled."""
    rng = np.random.default_rng(seed)
    parents = (rng.random(nodes) * np.arange(nodes)).astype(np.int64)
    names = rng.permutation(nodes)
    shuffled = np.empty(nodes, dtype=np.int64)
    shuffled[names] = names[parents]
    shuffled[names[0]] = -1
    return Tree.from_parents(shuffled)


SHAPES = {
    "chain": Tree.from_parents(np.arange(12) - 1),
    "star": Tree.from_parents([-1, *[0] * 30]),
    "caterpillar": caterpillar(10),
    "complete": Tree.balanced(branching=2, depth=6),
    "random": random_tree(60, seed=5),
}


def spread_counts(tree, top, seed):
    """Leaf counts whose logarithms are uniform up to that of `top`, a fifth of them zero."""
    rng = np.random.default_rng(seed)
    counts = np.exp(rng.uniform(0, np.log(top), tree.leaf_count)).astype(np.int64)
    counts[rng.random(tree.leaf_count) < 0.2] = 0
    return counts


def ancestors(tree, node):
    """The nodes on the way from a node up to the root, both included."""
    out = []
    while node >= 0:
        out.append(node)
        node = int(tree.parents[node])
    return out


def copies(tree, count):
    """A root above many copies of a tree: as a forest, as many independent runs in one."""
    offsets = 1 + tree.node_count * np.arange(count)
    parents = offsets[:, None] + tree.parents
    parents[:, tree.root] = 0
    return Tree.from_parents(np.concatenate(([-1], parents.ravel()))), offsets + tree.root
