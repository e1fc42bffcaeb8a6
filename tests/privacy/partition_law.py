"""The exact law of the private tree partition, written from its definition, in rational numbers.

Given which nodes are cells, all residuals are fixed, and so is which tests share a token. So the chance of an
outcome is a product with one factor per token. In a factor the token's infinite sum is exact: from the last
breakpoint on, every test's answer is certain, and what is left of the token's law is one geometric tail.

`law` goes through all outcomes of any small tree. `path_law` is for wide trees: only the nodes from the extra person
upwards differ between neighbours, and of the subtrees beside that path only what they pass up matters. So equal
subtrees are counted by how many of them survive, and hundreds of them cost no more than one.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, prod

from opendp_tree.theorems.tree_partition import PartitionShape

MANY = "two or more carriers"


@dataclass(frozen=True)
class Rules:
    """The mechanism's rules, and what each mutant changes in them."""

    token_limit: int | None = None  # tokens truncated to 0..limit
    light_tested: bool = True  # below the carrier level a node is tested, not simply no cell
    late_token: bool = False  # the first node of a chain keeps its token to itself, the chain's token starts after it
    one_token: bool = False  # all tests of the tree share one token
    fresh_tokens: bool = False  # no test shares a token
    tops_pass: bool = False  # a cell passes its residual up
    one_noise: bool = False  # tests that share a token share their noise too
    forced: bool = True  # two carriers make a cell; otherwise the first one's token tests it


RIGHT = Rules()


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The noise ratio q, the integers and the rules; compared by identity, so that lookups are quick."""

    q: Fraction
    shape: PartitionShape
    rules: Rules = RIGHT


@lru_cache(maxsize=1 << 12)
def token_masses(mechanism, reach):
    """The token's masses at 0, 1, ..., reach - 1, and from reach on."""
    q, rules = mechanism.q, mechanism.rules
    if rules.token_limit is not None:
        masses = [q**z if z <= rules.token_limit else 0 * q for z in range(max(reach, rules.token_limit + 1))]
        masses = [mass / sum(masses) for mass in masses]
        return masses[:reach], sum(masses[reach:], 0 * q)
    return [(1 - q) * q**z for z in range(reach)], q**reach


@lru_cache(maxsize=1 << 12)
def stay_chances(mechanism):
    """The chance of no cell when threshold plus token are 0, 1, ..., radius + 1 above the residual: less noise."""
    q, values = mechanism.q, mechanism.shape.radius + 1
    return [(1 - q**slack) / (1 - q**values) for slack in range(values + 1)]


def stays(mechanism, slack):
    """The chance of no cell when threshold plus token are `slack` above the residual."""
    chances = stay_chances(mechanism)
    return chances[min(max(slack, 0), len(chances) - 1)]


@lru_cache(maxsize=1 << 18)
def answers_chance(mechanism, bottoms, tops=()):
    """The chance that tests sharing one token, at these residuals, answer "no cell" and "cell"."""
    shape, residuals = mechanism.shape, bottoms + tops
    if not residuals:
        return mechanism.q**0
    reach = max(0, max(residuals) - shape.doubt + 1)
    masses, tail = token_masses(mechanism, reach)
    total = 0 * mechanism.q if tops else tail
    for token, mass in enumerate(masses):
        level = shape.threshold + token
        if mechanism.rules.one_noise:
            # One noise z for all: below the slack of every "no cell", and no less than that of every "cell".
            below = min((level - r for r in bottoms), default=shape.radius + 1)
            least = max((level - r for r in tops), default=0)
            total += mass * max(0 * mass, stays(mechanism, below) - stays(mechanism, least))
            continue
        factors = [stays(mechanism, level - r) for r in bottoms] + [1 - stays(mechanism, level - r) for r in tops]
        if all(factors):
            total += prod([mass, *(factor for factor in factors if factor != 1)])
    return total


def light_chance(mechanism, residual):
    """The chance of no cell below the carrier level."""
    return answers_chance(mechanism, (residual,)) if mechanism.rules.light_tested else mechanism.q**0


# Any small tree, all outcomes.


def law(parents, own_counts, q, shape, rules=RIGHT):
    """Every set of cells with its probability. `parents[v]` is v's parent, -1 for a root; people may sit anywhere."""
    return mechanism_law(Mechanism(q, shape, rules), parents, own_counts)


def mechanism_law(mechanism, parents, own_counts):
    children = defaultdict(list)
    for node, parent in enumerate(parents):
        children[parent].append(node)
    order, stack = [], list(children[-1])
    while stack:
        order.append(stack.pop())
        stack.extend(children[order[-1]])
    assert len(order) == len(parents)
    out = defaultdict(lambda: 0 * mechanism.q)
    walk = _Walk(mechanism, children, own_counts, order[::-1])
    for cells, mass in walk.outcomes(0, frozenset(), {}, {}, {}):
        if mass:
            out[cells] += mass
    return dict(out)


@dataclass(frozen=True)
class _Walk:
    """All outcomes, children before parents: residuals passed up, tokens that carriers bring, tests of each token."""

    mechanism: Mechanism
    children: dict
    own_counts: list
    order: list

    def outcomes(self, place, cells, passed, carried, tests):
        if place == len(self.order):
            mass = self.mechanism.q**0
            for bottoms, tops in tests.values():
                mass *= answers_chance(self.mechanism, bottoms, tops)
            yield cells, mass
            return
        node, rules = self.order[place], self.mechanism.rules
        residual = self.own_counts[node] + sum(passed[child] for child in self.children[node])
        token, tested, handed = self._test(node, residual, carried)
        for cell in (False, True):
            if not tested and cell != (token == MANY):
                continue
            now = tests
            if tested:
                bottoms, tops = tests.get(token, ((), ()))
                now = {**tests, token: (bottoms, (*tops, residual)) if cell else ((*bottoms, residual), tops)}
                if not answers_chance(self.mechanism, *now[token]):
                    continue
            up = {**passed, node: residual if not cell or rules.tops_pass else 0}
            brings = {**carried, node: handed} if handed is not None and not cell else carried
            yield from self.outcomes(place + 1, cells | {node} if cell else cells, up, brings, now)

    def _test(self, node, residual, carried):
        """The token that tests the node (MANY: none, a cell by rule), whether there is a test, the token handed on."""
        rules, shape = self.mechanism.rules, self.mechanism.shape
        if residual < shape.carrier:
            return ("tree" if rules.one_token else node), residual >= shape.doubt and rules.light_tested, None
        carriers = [child for child in self.children[node] if child in carried]
        if len(carriers) > 1 and rules.forced:
            return MANY, False, None
        if rules.one_token:
            return "tree", True, "tree"
        if rules.fresh_tokens:
            return node, True, node
        if not carriers:
            return node, True, (node, "late") if rules.late_token else node
        return carried[carriers[0]], True, carried[carriers[0]]


# Wide trees, outcomes counted by what survives beside the path.


@dataclass(frozen=True)
class Bush:
    """A node with its own count and groups of equal subtrees: (how many, subtree)."""

    own: int = 0
    groups: tuple = ()

    @property
    def depth(self):
        return 1 + max((bush.depth for _, bush in self.groups), default=0)


def path_depth(path):
    """The depth of the tree made of a path, its lowest node first."""
    return max(step.depth + len(path) - 1 - place for place, step in enumerate(path))


def path_law(mechanism, path, extra=0):
    """The law of what differs between neighbours, with `extra` people at the path's lowest node.

    `path` is a tuple of `Bush`, the lowest node first; each is the child of the next, besides its own groups. An
    outcome is, for each path node up to the first cell, what its groups pass up and its answer: all sets of cells
    that share these have the same likelihood ratio, so no divergence is lost by counting them as one.
    """
    out = defaultdict(lambda: 0 * mechanism.q)
    open_states = {((), 0, ()): mechanism.q**0}
    for place, step in enumerate(path):
        beside = _beside(mechanism, step.groups)
        own, following = step.own + (extra if place == 0 else 0), defaultdict(lambda: 0 * mechanism.q)
        for (label, up, chain), mass in open_states.items():
            for (passed, carrier), weight in beside.items():
                seen, residual = (*label, passed, carrier), own + up + passed
                for answer, chance, now in _answers(mechanism, residual, _join(mechanism, chain, carrier)):
                    if answer:
                        out[(*seen, True)] += mass * weight * chance
                    else:
                        following[((*seen, False), residual, now)] += mass * weight * chance
        open_states = following
    for (label, _, chain), mass in open_states.items():
        out[label] += mass * answers_chance(mechanism, chain)
    return dict(out)


def _join(mechanism, chain, carrier):
    """The carriers' histories of two sets of children: (factor of the tokens that end here, history or MANY)."""
    if not (chain and carrier):
        return 1, chain or carrier
    factor = mechanism.q**0
    for history in (chain, carrier):
        if history != MANY:
            factor *= answers_chance(mechanism, history)
    return factor, MANY


def _answers(mechanism, residual, joined):
    """Both answers at a node: (cell?, chance without the open chain, the chain's history after it)."""
    factor, chain = joined
    if chain == MANY:
        yield True, factor, ()
    elif residual < mechanism.shape.carrier:
        stay = light_chance(mechanism, residual)
        yield False, stay, ()
        if stay != 1:
            yield True, 1 - stay, ()
    else:
        yield False, 1, (*chain, residual)
        yield True, answers_chance(mechanism, chain, (residual,)), ()


@lru_cache(maxsize=1 << 12)
def _passes(mechanism, bush):
    """What a subtree passes up: {(residual, history of its open chain): chance without that chain's factor}."""
    out = defaultdict(lambda: 0 * mechanism.q)
    for (passed, carrier), mass in _beside(mechanism, bush.groups).items():
        residual = bush.own + passed
        for answer, chance, chain in _answers(mechanism, residual, (1, carrier)):
            out[(0, ()) if answer else (residual, chain)] += mass * chance
    return {state: mass for state, mass in out.items() if mass}


@lru_cache(maxsize=1 << 12)
def _beside(mechanism, groups):
    """What groups of equal subtrees pass up together; with two or more carriers the residual no longer matters."""
    total = {(0, ()): mechanism.q**0}
    for count, bush in groups:
        group, merged = _copies(mechanism, count, _passes(mechanism, bush)), defaultdict(lambda: 0 * mechanism.q)
        for (a, chain), mass in total.items():
            for (b, carrier), weight in group.items():
                factor, joined = _join(mechanism, chain, carrier)
                merged[(0 if joined == MANY else a + b, joined)] += mass * weight * factor
        total = dict(merged)
    return total


def _copies(mechanism, count, single):
    """`count` independent copies of one subtree: no carrier, one, or the rest of the probability."""
    carriers = {state: mass for state, mass in single.items() if state[1]}
    light = {state[0]: mass for state, mass in single.items() if not state[1]}
    out = {(passed, ()): mass for passed, mass in _power(light, count).items()}
    if carriers:
        for passed, mass in _power(light, count - 1).items():
            for (residual, chain), weight in carriers.items():
                out[(passed + residual, chain)] = count * mass * weight
        rest = 1 - sum(mass * (answers_chance(mechanism, chain) if chain else 1) for (_, chain), mass in out.items())
        if count > 1:
            out[(0, MANY)] = rest
    return out


def _power(law_, count):
    """The law of a sum of `count` copies; for two values by the binomial theorem."""
    if len(law_) <= 2:
        (a, p), (b, r) = [*law_.items(), (0, 0), (0, 0)][:2]
        if not r:
            return {a * count: p**count} if law_ or not count else {}
        return {a * k + b * (count - k): comb(count, k) * p**k * r ** (count - k) for k in range(count + 1)}
    out = {0: 1}
    for _ in range(count):
        further = defaultdict(int)
        for a, p in out.items():
            for b, r in law_.items():
                further[a + b] += p * r
        out = dict(further)
    return out
