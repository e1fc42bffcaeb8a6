"""What the exact tests of the tree partition share: claims, divergences, and families of wide trees."""

from fractions import Fraction
from functools import cache

from opendp_tree.theorems.tree_partition import PartitionShape, partition_delta, partition_ratio
from tests.privacy.divergence import hockey_stick
from tests.privacy.partition_law import Bush, Mechanism, Rules, mechanism_law, path_depth, path_law

RATIOS = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 20), Fraction(3, 4)]


def depth_of(parents):
    depths = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return max(depths)


@cache
def interned(*args, **rules):
    """One object for equal mechanisms, so that what was computed for one input serves the next."""
    q, *integers_ = args
    return Mechanism(q, PartitionShape(*integers_), Rules(**rules))


def tree_mechanism(parents, q, *numbers, **rules):
    return interned(q, depth_of(parents), *numbers, **rules)


def path_mechanism(path, q, *numbers, **rules):
    return interned(q, path_depth(path), *numbers, **rules)


def claim(mechanism):
    """e**epsilon and delta at distance 1."""
    return partition_ratio(mechanism.q, mechanism.shape), partition_delta(mechanism.q, mechanism.shape)


def meeting_delta(mechanism):
    """Kappa: the part of delta that is for carriers that meet in one input only."""
    q, shape = mechanism.q, mechanism.shape
    return q ** (shape.threshold - 2 * shape.margin) + shape.depth * q ** (shape.carrier - 1)


def divergence(here, there, ratio):
    return max(hockey_stick(here, there, ratio), hockey_stick(there, here, ratio))


def path_divergence(mechanism, path, ratio, extra=1):
    return divergence(path_law(mechanism, path), path_law(mechanism, path, extra), ratio)


def plus(counts, *nodes):
    out = list(counts)
    for node in nodes:
        out[node] += 1
    return out


def tree_divergence(mechanism, parents, counts, node, ratio):
    here, there = (mechanism_law(mechanism, parents, people) for people in (counts, plus(counts, node)))
    return divergence(here, there, ratio)


def chain(length, own):
    return Bush(own) if length == 1 else Bush(0, ((1, chain(length - 1, own)),))


def wide_paths(threshold, radius, margin, copies):
    """Stars, stars of chains and stars of stars of equal heavy leaves, and where the extra person sits."""
    carrier, end = threshold - margin, threshold + radius
    for heavy in sorted({carrier, max(carrier, threshold - 1), threshold, end - 1, end, end + 2}):
        for leaf in (Bush(heavy), chain(3, heavy), Bush(0, ((5, Bush(heavy)),))):
            star = ((copies, leaf),)
            for own in (0, carrier - 1):
                yield (Bush(own, star),)  # at the centre
            for own in (carrier - 1, threshold, threshold - radius - 1):
                yield Bush(own), Bush(0, star)  # at a leaf beside the others
            yield Bush(carrier - 1), Bush(), Bush(0, star), Bush(1)  # deeper, and beside a carrier
            yield Bush(carrier - 1), Bush(0, star), Bush(0, star)  # two stars on the path
