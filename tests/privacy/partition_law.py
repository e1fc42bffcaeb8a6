"""The exact law of the partition with known nodes, written from its definition, in rational numbers.

`tree_law` goes through all outcomes of a small tree: cells with their gaps, and the exact rest of each known node.
`path_law` fixes what happens beside the way from a person to a known node, of which only the sum and the largest of
what is passed up matter, and they may be anything. `star_law` draws them from many equal leaves.

`released` then adds the noise of rests and layers. Below the smallest and above the largest count that the compared
inputs have, likelihood ratios are constant, so each tail is one outcome and hockey sticks are exact. The same holds for
gaps of noise without end.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

ONE = Fraction(1)
FAR = 10**6
"""Stands for all gaps beyond all counts."""
UNTESTED = None
LIMIT = 24
"""Where noise is unbounded, thresholds and counts are smaller, so gaps from here on are one outcome."""


@dataclass(frozen=True)
class Rules:
    """The mechanism's rules, and what each mutant changes in them."""

    token: bool = True  # large counts are blurred
    token_limit: int | None = None  # tokens truncated to 0..limit
    token_cap: int | None = None  # tokens above the cap become the cap
    passes_x: bool = False  # a node that is no cell passes its exact count up
    exact_gap: bool = False  # a cell's blurred count is released, without its noise
    cells_pass: bool = False  # a cell passes its blurred count up
    one_noise: bool = False  # a node with one child and nobody new uses that child's noise again
    skips_idle: bool = False  # a node with one child and nobody new is not tested
    skips_empty: bool = False  # an empty node is not tested
    floor: bool = True  # a blurred count stays at L - 1 or above
    untested_is_child: bool = False  # an untested node counts as one child, with all that it hands up
    tests_known: bool = False  # a known node is tested, too
    passes_rest: bool = False  # a known node passes its rest up
    rest: str = "rest"  # or all people "below", of the "fringe", or of the fringe in no cell, "exact"
    drops_empty: bool = False  # a rest of 0 is not released
    rest_noise: str = "skewed"  # or "truncated", "one-sided", "by count"
    nested_sets: bool = False  # a layer counts all people of a node above its cut, not those who are in no set below


RIGHT = Rules()


@dataclass(frozen=True)
class Part:
    """One fringe: ratios of tests, tokens and both tails of the rest, and its levels from the top down."""

    q: Fraction
    t: Fraction
    alpha: Fraction | None
    beta: Fraction | None
    levels: tuple


@lru_cache(maxsize=1 << 12)
def noise_law(q, radius, far):
    """[(noise, mass)]; without radius, the masses below `far`, and all that is above as one."""
    if radius is None:
        return [*((z, (1 - q) * q**z) for z in range(far)), (FAR, q**far)]
    total = sum(q**z for z in range(radius + 1))
    return [(z, q**z / total) for z in range(radius + 1)]


def blurred(t, start, x, largest, rules):
    """[(y, mass)]: the law of a node's blurred count."""
    if x < start or not rules.token:
        return [(x, ONE)]
    least = max(start - 1 if rules.floor else 0, largest)
    if rules.token_limit is not None:
        total = sum(t**z for z in range(rules.token_limit + 1))
        return [(max(x - z, least), t**z / total) for z in range(rules.token_limit + 1)]
    reach = x - least if rules.token_cap is None else min(x - least, rules.token_cap)
    return [*((x - z, (1 - t) * t**z) for z in range(reach)), (x - reach, t**reach)]


@lru_cache(maxsize=1 << 16)
def steps(part, level, x, largest, rules=RIGHT, idle=False, noise=None):
    """[(gap or None, passed up, mass, noise)] of one node; idle: one child with people, and nobody new."""
    threshold, radius, margin = part.levels[level]
    assert radius is not None or max(threshold, x) < LIMIT
    if (rules.skips_empty and x == 0) or (rules.skips_idle and idle):
        return [(None, x, ONE, noise)]
    out = defaultdict(Fraction)
    for y, mass in blurred(part.t, threshold - margin, x, largest, rules):
        given = rules.one_noise and idle and noise is not None
        for z, chance in [(noise, ONE)] if given else noise_law(part.q, radius, LIMIT - y):
            kept = z if rules.one_noise else None
            if z == FAR or y + z >= threshold:
                gap = y if rules.exact_gap else FAR if z == FAR else y + z
                out[(gap, y if rules.cells_pass else 0, None)] += mass * chance
            else:
                out[(None, x if rules.passes_x else y, kept)] += mass * chance
    return [(gap, up, mass, z) for (gap, up, z), mass in out.items()]


def children_of(parents):
    children = defaultdict(list)
    for node, parent in enumerate(parents):
        children[parent].append(node)
    return children


def depths_of(parents):
    depths = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def ways_up(parents):
    """Each node and its ancestors, from the node up."""
    ways = []
    for node, parent in enumerate(parents):
        ways.append([node, *(ways[parent] if parent >= 0 else [])])
    return ways


def fringes_of(parents, known):
    """The known node whose fringe each node is in."""
    found = []
    for node, parent in enumerate(parents):
        found.append(node if node in known else found[parent])
    return found


def closed_people(parents, own, known, closed):
    """People below an unknown child of a closed node count at the closed node itself."""
    whose, out = fringes_of(parents, known), [0] * len(own)
    for node, people in enumerate(own):
        out[whose[node] if whose[node] in closed else node] += people
    return out


def tree_law(parents, own, parts, rules=RIGHT):
    """{(cells and gaps, exact rests): mass}; `parts` has a Part for each known node, parents come before children."""
    children, whose, depths = children_of(parents), fringes_of(parents, parts), depths_of(parents)

    def total(node, inside):
        return own[node] + sum(total(c, inside) for c in children[node] if not (inside and c in parts))

    def subtree(node):
        """{(cells, rests, passed up, largest of one tested node, noise of an only child, people in no cell): mass}."""
        states = {(frozenset(), (), own[node], 0, None, own[node]): ONE}
        for child in children[node]:
            below, merged = subtree(child), defaultdict(Fraction)
            for (cells, rests, x, largest, _, free), mass in states.items():
                for (more, further, up, top, noise, others), weight in below.items():
                    state = cells | more, rests + further, x + up, max(largest, top), noise, free + others
                    merged[state] += mass * weight
            states = merged
        part, out = parts[whose[node]], defaultdict(Fraction)
        keeps_free = rules.rest == "exact"
        if node in parts:
            for (cells, rests, x, largest, _, free), mass in states.items():
                exact = {"rest": x, "below": total(node, False), "fringe": total(node, True), "exact": free}[rules.rest]
                found = () if part.alpha is None or (rules.drops_empty and x == 0) else ((node, exact),)
                up = x if rules.passes_rest else 0
                if rules.tests_known and part.levels:
                    for gap, _, chance, _ in steps(part, 0, x, largest, rules):
                        now = cells if gap is None else cells | {(node, gap)}
                        out[(now, rests + found, up, up, None, 0)] += mass * chance
                else:
                    out[(cells, rests + found, up, up, None, 0)] += mass
            return out
        level, only = depths[node] - depths[whose[node]] - 1, len(children[node]) == 1
        for (cells, rests, x, largest, noise, free), mass in states.items():
            if part.levels[level] is UNTESTED:
                as_child = x if rules.untested_is_child else largest
                out[(cells, rests, x, as_child, None, free if keeps_free else 0)] += mass
                continue
            idle = only and x > 0 and own[node] == 0
            for gap, up, chance, z in steps(part, level, x, largest, rules, idle, noise if idle else None):
                now = cells if gap is None else cells | {(node, gap)}
                out[(now, rests, up, up, z, free if keeps_free and gap is None else 0)] += mass * chance
        return out

    law = defaultdict(Fraction)
    for (cells, rests, *_), mass in subtree(0).items():
        law[(cells, rests)] += mass
    assert sum(law.values()) == 1
    return law


def path_law(part, path, top, rules=RIGHT, start=None):
    """The law of the first cell on a way up to a known node and its gap, and of the exact rest.

    `path` has a step for each level from the deepest up: (people at the node, sum and largest of what its other
    children pass up); `top` is what the known node has besides. `start` is what is passed up to the first step.
    """
    law, level = defaultdict(Fraction), len(part.levels)
    states = {(0, 0): ONE} if start is None else start
    for own, beside, most in path:
        level -= 1
        following = defaultdict(Fraction)
        for (passed, top_passed), mass in states.items():
            x, largest = own + beside + passed, max(most, top_passed)
            if part.levels[level] is UNTESTED:
                following[(x, x if rules.untested_is_child else largest)] += mass
                continue
            for gap, up, chance, _ in steps(part, level, x, largest, rules, own == beside == 0 < x):
                if gap is None:
                    following[(up, up)] += mass * chance
                else:
                    law[(frozenset([(level, gap)]), rest_of(part, top + up))] += mass * chance
        states = following
    for (passed, _), mass in states.items():
        law[(frozenset(), rest_of(part, top + passed))] += mass
    return law


def rest_of(part, x):
    """The rest at the end of a way up, which a silent node does not release."""
    return () if part.alpha is None else ((-1, x),)


def star_law(part, leaves, heavy, light, own, top, rules=RIGHT):
    """Equal heavy leaves, none of them a cell, and one other leaf below a node with `own` people.

    Only outcomes without a cell among the heavy leaves: what their sum was is hidden. With cells among them the others
    are a star of fewer leaves.
    """
    passed = {(0, 0): ONE}
    for _ in range(leaves):
        further = defaultdict(Fraction)
        for (total, largest), mass in passed.items():
            for gap, up, chance, _ in steps(part, 1, heavy, 0, rules):
                if gap is None:
                    further[(total + up, max(largest, up))] += mass * chance
        passed = further
    states, law = defaultdict(Fraction), defaultdict(Fraction)
    inner = Part(part.q, part.t, part.alpha, part.beta, part.levels[:1])
    for gap, up, chance, _ in steps(part, 1, light, 0, rules):
        if gap is None:
            for (total, largest), mass in passed.items():
                states[(total + up, max(largest, up))] += mass * chance
        else:
            for (cells, rests), mass in path_law(inner, ((own, 0, 0),), top, rules, passed).items():
                law[(cells | {("leaf", gap)}, rests)] += mass * chance
    for outcome, mass in path_law(inner, ((own, 0, 0),), top, rules, states).items():
        law[outcome] += mass
    return law


@dataclass(frozen=True)
class Layer:
    """One layer: the nodes at a depth, and the ratios of its noise as a function of cells and gaps."""

    depth: int
    ratios: Callable

    def sets(self, parents, own, known, cells, rules=RIGHT):
        """{set: people}: everybody is in that of the deepest shown node at or above, down to the layer's depth."""
        depths, shown = depths_of(parents), set(known)
        for node, _ in cells:
            shown.update(ways_up(parents)[node])
        counts = {node: 0 for node in shown if depths[node] <= self.depth}
        for node, people in enumerate(own):
            sets = [above for above in ways_up(parents)[node] if above in counts]
            for above in sets if rules.nested_sets else sets[:1]:
                counts[above] += people
        return counts


def measured(law, parts, parents, own, layers=(), rules=RIGHT):
    """{(cells, ((what is counted, exact count, ratios of its noise), ...)): mass}."""
    out, known = {}, {}
    for (cells, rests), mass in law.items():
        if cells not in known:
            known[cells] = tuple(
                ((number, node), people, *layer.ratios(cells))
                for number, layer in enumerate(layers)
                for node, people in sorted(layer.sets(parents, own, parts, cells, rules).items())
            )
        counted = tuple((("rest", node), x, parts[node].alpha, parts[node].beta) for node, x in rests)
        out[(cells, counted + known[cells])] = mass
    return out


@lru_cache(maxsize=1 << 16)
def lumped(alpha, beta, count, low, high, kind="skewed"):
    """[(value, mass)] of a count with noise, all from `high` up and all from `low` down as one."""
    if kind == "truncated":
        masses = {count + z: alpha**z if z >= 0 else beta**-z for z in range(-3, 4)}
        return [(value, mass / sum(masses.values())) for value, mass in masses.items()]
    if kind == "by count" and count > 1:
        alpha, beta = alpha**2, beta**2
    if kind == "one-sided":
        return [*((r, (1 - alpha) * alpha ** (r - count)) for r in range(count, high)), (high, alpha ** (high - count))]
    if low == high:
        return [(low, ONE)]
    peak = (1 - alpha) * (1 - beta) / (1 - alpha * beta)
    inside = [(r, peak * (alpha ** (r - count) if r >= count else beta ** (count - r))) for r in range(low + 1, high)]
    ends = [(low, peak * beta ** (count - low) / (1 - beta)), (high, peak * alpha ** (high - count) / (1 - alpha))]
    return inside + ends


def released(laws, rules=RIGHT):
    """The laws of `measured` with their noise, such that their divergences are those of the whole release."""
    ranges = {}
    for law in laws:
        for cells, counted in law:
            for what, count, _, _ in counted:
                low, high = ranges.get((cells, what), (count, count))
                ranges[(cells, what)] = min(low, count), max(high, count)
    out = []
    for law in laws:
        noisy = defaultdict(Fraction)
        for (cells, counted), mass in law.items():
            states = {(): mass}
            for what, count, alpha, beta in counted:
                kind = rules.rest_noise if what[0] == "rest" else "skewed"
                values = lumped(alpha, beta, count, *ranges[(cells, what)], kind)
                states = {(*seen, (what, r)): m * chance for seen, m in states.items() for r, chance in values}
            for seen, m in states.items():
                noisy[(cells, seen)] += m
        out.append(noisy)
    return out
