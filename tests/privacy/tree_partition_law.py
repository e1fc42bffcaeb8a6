"""The exact law of the tree partition, written from its definition, in rational numbers.

`tree_law` goes through all outcomes, cells and gaps, of any small tree, node by node. `path_law` fixes what happens
beside the path from the extra person to the root, which has the same law in both inputs: of it only the sum and the
largest of what is passed up matter, and they may be anything. Then an outcome is the path's first cell and its gap, so
long paths and wide trees cost little. `star_law` draws the sum and the largest from many equal leaves.

Noise without end is cut where it no longer matters: from `far` on a gap's chance falls by q whatever the count was, so
all gaps from there on have one likelihood ratio and are one outcome.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

FAR = "a gap beyond all counts"
UNTESTED = None


@dataclass(frozen=True)
class Rules:
    """The mechanism's rules, and what each mutant changes in them."""

    token_limit: int | None = None  # tokens truncated to 0..limit
    token_cap: int | None = None  # tokens above the cap become the cap
    token: bool = True  # large counts are blurred
    passes_x: bool = False  # a node that is no cell passes its exact count up
    exact_gap: bool = False  # a cell's blurred count is released, without its noise
    one_noise: bool = False  # a node with one child and nobody new uses that child's noise again
    skips_idle: bool = False  # a node with one child and nobody new is not tested
    floor: bool = True  # a blurred count stays at L - 1 or above
    keeps_largest: bool = True  # a blurred count stays at what the largest child passed up, or above
    skips_empty: bool = False  # a node that nobody is at is not tested
    untested_is_child: bool = False  # an untested node counts as one child, with all that it hands up
    cells_pass: bool = False  # a cell passes its blurred count up


RIGHT = Rules()


@dataclass(frozen=True)
class Mechanism:
    """The noise ratios, and for each level from the root down (threshold, radius, margin), or UNTESTED."""

    q: Fraction
    t: Fraction
    levels: tuple
    rules: Rules = RIGHT


def uniform(q, t, depth, threshold, radius, margin, **rules):
    return Mechanism(q, t, ((threshold, radius, margin),) * depth, Rules(**rules))


@lru_cache(maxsize=1 << 12)
def noise_law(q, radius, far):
    """[(noise, mass)]; without radius, the masses below `far`, and all that is above as one."""
    if radius is None:
        return [*((z, (1 - q) * q**z) for z in range(far)), (FAR, q**far)]
    total = sum(q**z for z in range(radius + 1))
    return [(z, q**z / total) for z in range(radius + 1)]


@lru_cache(maxsize=1 << 14)
def blurred(mechanism, level, x, largest):
    """[(y, mass)]: the law of a node's blurred count."""
    threshold, _, margin = mechanism.levels[level]
    rules, t, start = mechanism.rules, mechanism.t, threshold - margin
    if x < start or not rules.token:
        return [(x, Fraction(1))]
    least = max(start - 1 if rules.floor else 0, largest if rules.keeps_largest else 0)
    out = defaultdict(Fraction)
    if rules.token_limit is not None:
        total = sum(t**z for z in range(rules.token_limit + 1))
        for z in range(rules.token_limit + 1):
            out[max(x - z, least)] += t**z / total
        return list(out.items())
    reach = x - least if rules.token_cap is None else min(x - least, rules.token_cap)
    for z in range(reach):
        out[x - z] += (1 - t) * t**z
    out[x - reach] += t**reach
    return list(out.items())


@lru_cache(maxsize=1 << 14)
def answers(mechanism, level, y, far, noise=None):
    """[(gap, mass, noise)] of a test, gap None where it is no cell; `noise` if it is given and not drawn."""
    threshold, radius, _ = mechanism.levels[level]
    assert far > max(threshold, y)
    law = noise_law(mechanism.q, radius, far - y) if noise is None else [(noise, Fraction(1))]
    out = []
    for z, mass in law:
        gap = FAR if z == FAR else y + z
        if gap != FAR and gap < threshold:
            out.append((None, mass, z))
        else:
            out.append((y if mechanism.rules.exact_gap else gap, mass, z))
    return out


def steps(mechanism, level, x, largest, far, *, idle=False, noise=None):
    """[(gap or None, passed up, mass, noise)] of one node; idle: one child with people, and nobody new."""
    rules = mechanism.rules
    if (rules.skips_empty and x == 0) or (rules.skips_idle and idle):
        return [(None, x, Fraction(1), noise)]
    out = []
    for y, mass in blurred(mechanism, level, x, largest):
        for gap, chance, z in answers(mechanism, level, y, far, noise if rules.one_noise and idle else None):
            up = y if gap is None or rules.cells_pass else 0
            out.append((gap, x if rules.passes_x and gap is None else up, mass * chance, z))
    return out


def far_from(mechanism, most):
    """A gap that is beyond all thresholds, and all counts of inputs with at most so many people."""
    return 1 + max(most, *(numbers[0] for numbers in mechanism.levels if numbers))


def tree_law(mechanism, parents, own, far):
    """Every outcome, a frozenset of (node, gap), with its probability; parents come before their children."""
    children = defaultdict(list)
    for node, parent in enumerate(parents):
        children[parent].append(node)

    def subtree(node, level):
        """{(outcome, handed up, largest of one tested node, noise of an only child): mass}."""
        states = {(frozenset(), own[node], 0, None): Fraction(1)}
        for child in children[node]:
            below, merged = subtree(child, level + 1), defaultdict(Fraction)
            for (outcome, total, largest, _), mass in states.items():
                for (further, passed, top, noise), weight in below.items():
                    merged[(outcome | further, total + passed, max(largest, top), noise)] += mass * weight
            states = merged
        out = defaultdict(Fraction)
        only = len(children[node]) == 1
        for (outcome, x, largest, noise), mass in states.items():
            if mechanism.levels[level] is UNTESTED:
                as_child = x if mechanism.rules.untested_is_child else largest
                out[(outcome, x, as_child, None)] += mass
                continue
            idle = only and x > 0 and own[node] == 0
            for gap, up, chance, z in steps(mechanism, level, x, largest, far, idle=idle, noise=noise):
                kept = z if mechanism.rules.one_noise and gap is None else None
                out[(outcome if gap is None else outcome | {(node, gap)}, up, up, kept)] += mass * chance
        return out

    law = defaultdict(Fraction)
    for (outcome, _, _, _), mass in subtree(0, 0).items():
        law[outcome] += mass
    assert sum(law.values()) == 1
    return law


def path_law(mechanism, path, far, start=None):
    """The law of the first cell on a path and its gap.

    `path` has a step for each level from the deepest up: (people at the node, sum and largest of what its other
    children pass up). `start` is what is passed up to the first step, {(total, largest): mass}.
    """
    law, level = defaultdict(Fraction), len(mechanism.levels)
    states = {(0, 0): Fraction(1)} if start is None else start
    for own, beside, top in path:
        level -= 1
        following = defaultdict(Fraction)
        for (total, largest), mass in states.items():
            x, most = own + beside + total, max(top, largest)
            if mechanism.levels[level] is UNTESTED:
                following[(x, x if mechanism.rules.untested_is_child else most)] += mass
                continue
            for gap, up, chance, _ in steps(mechanism, level, x, most, far, idle=own == beside == 0 < x):
                if gap is None:
                    following[(up, up)] += mass * chance
                else:
                    law[(level, gap)] += mass * chance
        states = following
    for mass in states.values():
        law[None] += mass
    return law


def many_leaves(mechanism, level, count, people, far):
    """What `count` equal leaves pass up together: {(sum, largest): mass}."""
    single = defaultdict(Fraction)
    for _, up, chance, _ in steps(mechanism, level, people, 0, far):
        single[up] += chance
    at_most = {}
    for most in sorted(single):
        power = {0: Fraction(1)}
        kept = {up: mass for up, mass in single.items() if up <= most}
        for _ in range(count):
            further = defaultdict(Fraction)
            for total, mass in power.items():
                for up, weight in kept.items():
                    further[total + up] += mass * weight
            power = further
        at_most[most] = power
    out, below = {}, {}
    for most, power in at_most.items():
        for total, mass in power.items():
            if mass != below.get(total, 0):
                out[(total, most)] = mass - below.get(total, 0)
        below = power
    return out


def star_law(mechanism, leaves, people, own, far):
    """Equal leaves below the root, which has `own` people: what the leaves pass up, and the root's answer."""
    law = defaultdict(Fraction)
    root = Mechanism(mechanism.q, mechanism.t, mechanism.levels[:1], mechanism.rules)
    for (beside, top), mass in many_leaves(mechanism, 1, leaves, people, far).items():
        for outcome, chance in path_law(root, ((own, beside, top),), far).items():
            law[(beside, top, outcome)] += mass * chance
    return law
