"""What the exact tests of the partition with known nodes share: its claims by direction, and families of inputs."""

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

from opendp_tree.theorems.interval import larger
from opendp_tree.theorems.partition import Fringe, lost_chance, stay_ratio
from tests.privacy.divergence import hockey_stick
from tests.privacy.partition_law import (
    ONE,
    RIGHT,
    Layer,
    Part,
    depths_of,
    fringes_of,
    measured,
    path_law,
    released,
    tree_law,
    ways_up,
)

RATIOS = [Fraction(1, 5), Fraction(1, 3), Fraction(1, 2), Fraction(7, 10), Fraction(4, 5), Fraction(9, 10)]
TREES = [
    [-1],
    [-1, 0],
    [-1, 0, 0],
    [-1, 0, 1],
    [-1, 0, 0, 0],
    [-1, 0, 0, 1],
    [-1, 0, 1, 1],
    [-1, 0, 1, 2],
    [-1, 0, 0, 1, 2],
    [-1, 0, 1, 2, 2],
]
THREE_INNER_LEVELS = [[-1, 0, 1, 2], [-1, 0, 1, 2, 3], [-1, 0, 1, 2, 2], [-1, 0, 1, 1, 2]]


def fringe_of(part, *, checked=True):
    """The theorem's fringe of a part; scales do not matter to ratios. Unchecked for mutants that it would refuse."""
    levels = [numbers for numbers in part.levels if numbers is not None]
    thresholds, radii, margins = zip(*levels, strict=True) if levels else ((), (), ())
    if not checked:
        return SimpleNamespace(levels=tuple(levels), radii=radii)
    return Fringe(thresholds, radii, margins, ONE, ONE, None if part.alpha is None else (ONE, ONE))


def removal_ratio(fringe, *, q, alpha):
    """e**b_u from ratios q of the tests and alpha of the rest's right tail; 1 for the alpha of a silent node."""
    return larger(1 / q, 1 / alpha) if fringe.levels else 1 / alpha


def addition_ratio(fringe, *, q, t, beta):
    """e**a_u from ratios q of tests, t of tokens and beta of the rest's left tail; 1 for the beta of a silent node."""
    if not fringe.levels:
        return 1 / beta
    below = q**0
    for (threshold, radius, margin), count in Counter(fringe.levels[1:]).items():
        below = below * stay_ratio(q, threshold=threshold, radius=radius, margin=margin) ** count
    threshold, radius, margin = fringe.levels[0]
    top = stay_ratio(q, threshold=threshold, radius=radius, margin=margin)
    return below * larger(1 / t, top / beta)


class Claim:
    """The bounds by direction at distance k of the most expensive part, with layers of these products of ratios."""

    def __init__(self, parts, k=1, layers=(ONE, ONE), *, checked=True):
        fringes = [(fringe_of(part, checked=checked), part) for part in parts]
        self.added = max(addition_ratio(f, q=p.q, t=p.t, beta=p.beta or ONE) for f, p in fringes) ** k / layers[1] ** k
        self.removed = max(removal_ratio(f, q=p.q, alpha=p.alpha or ONE) for f, p in fringes) ** k / layers[0] ** k
        self.delta = max(lost_chance(f, q=p.q, k=k) for f, p in fringes)

    def holds(self, fewer, more):
        """Both directions between an input and one with k people more, with nothing lost when they are added."""
        return hockey_stick(fewer, more, self.added) == 0 and hockey_stick(more, fewer, self.removed) <= self.delta


def mixed_claim_holds(parts, here, there, gone, come, layers=(ONE, ONE)):
    """Theorem 3 from one input to the other, both ways."""
    for p, q, less, more in ((here, there, gone, come), (there, here, come, gone)):
        removed, added = Claim(parts, less, layers), Claim(parts, more, layers)
        if hockey_stick(p, q, removed.removed * added.added) > removed.delta:
            return False
    return True


def laws(parents, inputs, parts, layers=(), rules=RIGHT):
    """The released laws of several inputs."""
    exact = [measured(tree_law(parents, own, parts, rules), parts, parents, own, layers, rules) for own in inputs]
    return released(exact, rules)


def plus(own, *nodes):
    out = list(own)
    for node in nodes:
        out[node] += 1
    return out


def random_level(rng, largest, endless):
    if rng.random() < endless:
        threshold = rng.randint(1, 3)
        return threshold, None, rng.randrange(threshold)
    radius = rng.randint(1, largest)
    threshold = radius + 1 + rng.choice([0, 0, 0, 1, 2])
    return threshold, radius, min(rng.choice([0, 0, 1, 1, 2, radius]), threshold - 1)


def random_levels(rng, depth, largest=3, endless=0):
    """Equal levels, or different levels whose L does not fall towards the root, some of them not tested."""
    if rng.random() < 0.5:
        return (random_level(rng, largest, endless),) * depth
    levels = sorted((random_level(rng, largest, endless) for _ in range(depth)), key=lambda level: level[2] - level[0])
    return tuple(level if rng.random() > 0.2 else None for level in levels)


def random_part(rng, depth, largest=3, endless=0):
    rest = (None, None) if rng.random() < 0.15 else (rng.choice(RATIOS), rng.choice(RATIOS))
    return Part(rng.choice(RATIOS), rng.choice(RATIOS), *rest, random_levels(rng, depth, largest, endless))


def random_parts(rng, parents, largest=3, endless=0):
    """A random known set with the root, and a part for each fringe, as deep as the fringe."""
    known = {0}
    for node in range(1, len(parents)):
        if parents[node] in known and rng.random() < 0.4:
            known.add(node)
    whose, depths = fringes_of(parents, known), depths_of(parents)
    reach = {u: max(depths[v] - depths[u] for v in range(len(parents)) if whose[v] == u) for u in known}
    return {u: random_part(rng, reach[u], largest, endless) for u in known}


def random_layers(rng, parents):
    """Layers by depth whose ratios depend on cells and gaps, and the products of their ratios, which do not."""
    depths = sorted({rng.randint(0, max(depths_of(parents))) for _ in range(rng.choice([0, 1, 1, 2, 3]))})
    sides = [[rng.choice(RATIOS) for _ in depths] for _ in range(2)]
    products = [ONE, ONE]
    for side, ratios in enumerate(sides):
        for ratio in ratios:
            products[side] *= ratio

    def ratios_at(number):
        def ratios(cells):
            turned = (number + sum(gap for _, gap in cells)) % len(depths)
            return sides[0][turned], sides[1][turned]

        return ratios

    return tuple(Layer(depth, ratios_at(number)) for number, depth in enumerate(depths)), tuple(products)


def besides(threshold):
    """Sums and largest values that children beside a way up may pass."""
    yield 0, 0
    for top in range(1, threshold):
        yield from ((total, top) for total in (top, top + 1, 2 * top, 2 * threshold + top))


def random_path(rng, length, threshold):
    beside = list(besides(threshold))
    for _ in range(length):
        off = rng.choice(beside) if rng.random() < 0.4 else (0, 0)
        yield (rng.choice([0, 0, 0, 1, rng.randint(0, threshold)]), *off)


def path_laws(part, path, top, *arrivals, layers=(), rules=RIGHT):
    """The released laws of a way up with further people at each step and at the known node.

    `layers` are ratios of the noise on layers in which all these people are in one set.
    """
    exact = []
    for added in arrivals:
        steps = [(own + new, *off) for (own, *off), new in zip(path, added[:-1], strict=True)]
        law = measured(path_law(part, steps, top + added[-1], rules), {-1: part}, [], [])
        beside = tuple(((number, 0), sum(added), *ratios) for number, ratios in enumerate(layers))
        exact.append({(cells, counted + beside): mass for (cells, counted), mass in law.items()})
    return released(exact, rules)


def series_laws(parents, pairs, parts, *, leaks=False, pool=None):
    """Two releases, the second of which knows the nodes that the first showed; leaks: all nodes that are not empty.

    With parts for a pooled find, it comes in between, from all people of both, and knows and shows nodes as well.
    """
    depths, ways = depths_of(parents), ways_up(parents)

    def exact(own, known, own_parts, stage):
        here = {node: own_parts[depths[node]] for node in known}
        for (cells, counted), mass in measured(tree_law(parents, own, here), here, parents, own).items():
            shown = [node for node, people in enumerate(own) if people] if leaks else [node for node, _ in cells]
            then = frozenset({*known, *(above for node in shown for above in ways[node])})
            named = tuple(((what[0], stage, *what[1:]), *numbers) for what, *numbers in counted)
            yield (cells, then), named, then, mass

    joint = []
    for first, second in pairs:
        both = [sum(people) for people in zip(first, second, strict=True)]
        stages = [(first, parts), (both, pool), (second, parts)] if pool else [(first, parts), (second, parts)]
        law = {((), ()): (frozenset({0}), ONE)}
        for stage, (own, own_parts) in enumerate(stages):
            law = {
                ((*shown, now), (*counted, *more)): (then, mass * chance)
                for (shown, counted), (known, mass) in law.items()
                for now, more, then, chance in exact(own, known, own_parts, stage)
            }
        joint.append({outcome: mass for outcome, (_, mass) in law.items()})
    return released(joint)
