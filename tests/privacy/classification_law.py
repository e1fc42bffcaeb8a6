"""The exact law of classification on small forests, in rational numbers, and what the mutants change in it.

Levels are walked from the deepest up; the sparse vector's answers under one threshold draw have the closed form of
`sparse_vector_law`, and the truncated noise of a stop is enumerated.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from tests.privacy.divergence import laplace
from tests.privacy.sparse_vector_law import Mechanism as SparseVectorLaw
from tests.privacy.sparse_vector_law import epoch_chance


@dataclass(frozen=True)
class Mechanism:
    """The mechanism, and what the mutants change in it."""

    base: Fraction
    """Scales are 1/n in units in which exp(-1) is this."""
    inverse_scale: int
    inverse_count_scale: int
    radius: int
    threshold: int
    count_threshold: int
    cutoff: int
    halts: bool = True
    counts_everywhere: bool = False
    shows_counts: bool = False

    @property
    def answers(self):
        ratio = self.base**self.inverse_scale
        return SparseVectorLaw(ratio, ratio, self.cutoff, refreshed=True)

    @property
    def count_ratio(self):
        return self.base**self.inverse_count_scale


def forest_law(mechanism, tree, roots, leaf_counts):
    """Every outcome with its probability: the trees are classified independently, and a node that any of them
    finds above is above. Overlapping roots are allowed here, for the mutant.
    """
    weights = dict(enumerate(tree_weights(tree, leaf_counts)))
    laws = [tree_law(mechanism, subtree_levels(tree, root), tuple(tree.parents.tolist()), weights) for root in roots]
    total = {}
    for parts in product(*(law.items() for law in laws)):
        chance = Fraction(1)
        for _, mass in parts:
            chance *= mass
        outcome = frozenset().union(*(outcome[0] for outcome, _ in parts)), tuple(outcome[1] for outcome, _ in parts)
        total[outcome] = total.get(outcome, Fraction(0)) + chance
    return total


def tree_weights(tree, leaf_counts):
    return [int(weight) for weight in tree.sum(np.array(leaf_counts, dtype=np.int64))]


def subtree_levels(tree, root):
    """The levels of the subtree of a node, from the deepest up."""
    levels, here = [], [root]
    while here:
        levels.append(tuple(here))
        here = [node for node in range(tree.node_count) if tree.parents[node] in here]
    return tuple(reversed(levels))


def tree_law(mechanism, levels, parents, weights):
    total = {}
    nodes = {node for level in levels for node in level}

    def with_ancestors(found):
        out = set()
        for start in found:
            node = start
            while node in nodes:
                out.add(node)
                node = parents[node]
        return frozenset(out)

    def walk(level, above, epoch, stops, shown, chance):
        if level == len(levels) or (mechanism.halts and stops == mechanism.cutoff and not mechanism.counts_everywhere):
            outcome = above, shown
            total[outcome] = total.get(outcome, Fraction(0)) + chance * epoch_chance(mechanism.answers, epoch)
            return
        open_nodes = [node for node in levels[level] if node not in above]
        if not open_nodes:
            walk(level + 1, above, epoch, stops, shown, chance)
            return
        if not mechanism.counts_everywhere:
            value = max(weights[node] for node in open_nodes) - mechanism.threshold
            walk(level + 1, above, (*epoch, (value, False)), stops, shown, chance)
            chance *= epoch_chance(mechanism.answers, (*epoch, (value, True)))
        for found, seen, mass in counts(mechanism, open_nodes, weights):
            extra = (*shown, seen) if mechanism.shows_counts else ()
            walk(level + 1, above | with_ancestors(found), (), stops + 1, extra, chance * mass)

    walk(0, frozenset(), (), 0, (), Fraction(1))
    return total


def counts(mechanism, nodes, weights):
    """What a stop may find, with its probability: which nodes pass, and (if it is shown) their noisy counts."""
    law = laplace(mechanism.count_ratio, mechanism.radius)
    choices = []
    for node in nodes:
        seen = {}
        for z, mass in law.items():
            passes = weights[node] + z >= mechanism.count_threshold
            key = passes, weights[node] + z if mechanism.shows_counts else None
            seen[key] = seen.get(key, Fraction(0)) + mass
        choices.append(seen)
    for parts in product(*(choice.items() for choice in choices)):
        mass = Fraction(1)
        for _, part in parts:
            mass *= part
        found = [node for node, ((passes, _), _) in zip(nodes, parts, strict=True) if passes]
        yield found, tuple(count for (_, count), _ in parts), mass
