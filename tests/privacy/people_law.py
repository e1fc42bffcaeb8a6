"""The exact law of a release of people with many rows, written from its definition, in rational numbers.

A person is a tuple with their number of rows at each leaf of a tree. First everybody is put at the leaf of one of their
rows, and the partition's law (`partition_law.tree_law`) gives cells and gaps, and noisy rests of known nodes that are
not silent; then each layer of the shown nodes adds up what people weigh, with integer Laplace noise. Noise beyond all
counts has one likelihood ratio, so it is one outcome. Where all known nodes are silent, people are put at unknown
leaves alone, and nowhere who has no row there.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from opendp_tree.theorems.sums import node_units
from tests.privacy.partition_law import Part, lumped, tree_law

MOST = 5
"""At most this many people are placed at one node."""


def row_units(rows, total, *, most, units):
    """The weight at a leaf of a person with `rows` of `total` rows there: at most `most` for all rows together."""
    return units * rows if total <= most else units * rows * most // total


@dataclass(frozen=True)
class Layers:
    """What is counted ("rows", "people" or "shares"), each person's bound by level, and noise ratios by level."""

    count: str
    most: tuple
    ratios: tuple
    units: int = 2


@dataclass(frozen=True)
class Rules:
    """What each mutant changes."""

    places: int = 1  # at how many leaves a person is placed to find nodes
    held: str = "all"  # or "shown": nodes that are not shown are not among those that share a person's weight
    from_data: bool = False  # the bound of a level is the most that anybody has
    seeded: bool = False  # a person's position in the table decides where they are placed


RIGHT = Rules()


def placements(people, open_leaves, rules):
    """{people at each leaf: mass} over everybody's coins; leaves that are not open hold nobody."""
    leaves = len(open_leaves)
    law = {(0,) * leaves: Fraction(1)}
    for place, person in enumerate(people):
        held = [leaf for leaf in range(leaves) if person[leaf] and open_leaves[leaf]]
        if not held:
            continue
        if rules.seeded:
            options = [((held[place % len(held)],), Fraction(1))]
        elif rules.places > 1:
            options = [(tuple(held[: rules.places]), Fraction(1))]
        else:
            options = [((leaf,), Fraction(person[leaf], sum(person[leaf] for leaf in held))) for leaf in held]
        merged = defaultdict(Fraction)
        for counts, mass in law.items():
            for where, chance in options:
                added = tuple(count + where.count(leaf) for leaf, count in enumerate(counts))
                merged[added] += mass * chance
        law = merged
    return law


class SmallTree:
    """A tree whose leaves are all at the deepest level."""

    def __init__(self, parents):
        self.parents = parents
        self.levels = []
        for parent in parents:
            self.levels.append(0 if parent < 0 else self.levels[parent] + 1)
        self.depth = max(self.levels) + 1
        self.leaves = [node for node in range(len(parents)) if node not in parents]

    def above(self, node):
        """The node itself, and all above it."""
        while node >= 0:
            yield node
            node = self.parents[node]

    def below(self, node):
        """The places among the leaves that a node holds."""
        return [place for place, leaf in enumerate(self.leaves) if node in self.above(leaf)]

    def shown(self, known, cells):
        """Nodes with a cell at or below them, and known ones."""
        return sorted({*known} | {node for cell, _ in cells for node in self.above(cell)})

    def silent(self, q, t, level, known=(0,), rest=None):
        """The parts of known nodes, whose fringes have the same numbers on every level; silent but for a `rest`."""
        deep = self.depth - 1
        return {node: Part(q, t, rest, rest, (level,) * (deep - self.levels[node])) for node in known}


def layer_sets(tree, shown, level, *, rests):
    """The sets of a level's layer: leaves of its shown nodes; with rests, what they leave of the root."""
    sets = [tree.below(node) for node in shown if tree.levels[node] == level]
    left = [leaf for leaf in range(len(tree.leaves)) if not any(leaf in each for each in sets)]
    return [*sets, left] if rests and level > 0 else sets


def vector(person, sets, nodes, level, layers, rules, bounds):
    """What one person adds to a layer, in units; `nodes` are those that share its weight."""
    if layers.count == "people":
        inside = [any(person[leaf] for leaf in each) for each in sets]
        held = sum(any(person[leaf] for leaf in each) for each in nodes)
        weight = node_units(max(held, 1), most=bounds[level], units=layers.units)
        return [weight * here for here in inside]
    most = 1 if layers.count == "shares" else bounds[level]
    total = sum(person)
    each = [row_units(rows, total, most=most, units=layers.units) if rows else 0 for rows in person]
    return [sum(each[leaf] for leaf in one) for one in sets]


def noisy_pair(one, two, ratio):
    """[(mass, mass)] of two counts with Laplace noise; outcomes of one likelihood ratio are one outcome."""
    if ratio == 1:
        return [(Fraction(1), Fraction(1))]
    ends = min(one, two), max(one, two)
    both = [dict(lumped(ratio, ratio, count, *ends)) for count in (one, two)]
    assert sum(both[0].values()) == sum(both[1].values()) == 1
    return [(mass, both[1][value]) for value, mass in both[0].items()]


def noisy_rests(rests, parts):
    """[(noisy rests, mass)]: all that is at most 0 is one outcome, and all that is at least `MOST`."""
    law = [((), Fraction(1))]
    for node, exact in rests:
        values = lumped(parts[node].alpha, parts[node].alpha, exact, 0, MOST)
        law = [((*told, (node, value)), mass * chance) for told, mass in law for value, chance in values]
    return law


def release_law(parts, tree, people, layers, rules=RIGHT, *, rests=False):
    """{cells, gaps and noisy rests: (probability, the counts of all layers before noise)}."""
    bounds = layers.most
    if rules.from_data:
        bounds = tuple(max((sum(person) for person in people), default=1) for _ in layers.most)
    silent, found = all(part.alpha is None for part in parts.values()), defaultdict(Fraction)
    open_leaves = [not silent or leaf not in parts for leaf in tree.leaves]
    for counts, mass in placements(people, open_leaves, rules).items():
        own = [0] * len(tree.parents)
        for leaf, count in zip(tree.leaves, counts, strict=True):
            own[leaf] = count
        for (cells, exact), chance in tree_law(tree.parents, own, parts).items():
            for told, likely in noisy_rests(exact, parts):
                found[(cells, told)] += mass * chance * likely
    law = {}
    for outcome, mass in found.items():
        totals = []
        for level in range(tree.depth):
            shown = tree.shown(parts, outcome[0])
            sets = layer_sets(tree, shown, level, rests=rests)
            every = range(len(tree.parents)) if rules.held == "all" else shown
            nodes = layer_sets(tree, every, level, rests=False)
            vectors = [vector(person, sets, nodes, level, layers, rules, bounds) for person in people]
            totals += [(sum(each[place] for each in vectors), level) for place in range(len(sets))]
        law[outcome] = mass, totals
    return law


def excess(here, there, layers, ratio):
    """The hockey-stick divergence of two releases at a ratio: over cells and gaps, and the noise of all layers."""
    total = Fraction(0)
    for outcome, (mass, counts) in here.items():
        if outcome not in there:
            total += mass
            continue
        other, others = there[outcome]
        joint = {(Fraction(1), Fraction(1)): 1}
        for (one, level), (two, _) in zip(counts, others, strict=True):
            step = defaultdict(int)
            for (p, q), times in joint.items():
                for a, b in noisy_pair(one, two, layers.ratios[level]):
                    step[(p * a, q * b)] += times
            joint = step
        total += sum(times * max(Fraction(0), mass * p - ratio * other * q) for (p, q), times in joint.items())
    return total


def all_people(leaves, most):
    """Every person with at most this many rows."""
    return [person for person in product(range(most + 1), repeat=leaves) if 0 < sum(person) <= most]
