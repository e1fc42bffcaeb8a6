"""What the exact tests of the tree partition share: claims by direction, and families of inputs."""

from types import SimpleNamespace

from opendp_tree.theorems.tree_partition import GapShape, gap_addition_ratio, gap_delta, gap_ratio, gap_removal_ratio
from tests.privacy.divergence import hockey_stick
from tests.privacy.tree_partition_law import far_from, path_law, tree_law


def shape_of(mechanism, *, checked=True):
    """The shape of a mechanism; unchecked for mutants that the checks would refuse."""
    tested = [(level, numbers) for level, numbers in enumerate(mechanism.levels) if numbers is not None]
    thresholds, radii, margins = zip(*(numbers for _, numbers in tested), strict=True)
    every_node = any(radius is None or threshold <= radius for threshold, radius in zip(thresholds, radii, strict=True))
    if checked:
        return GapShape(tuple(level for level, _ in tested), thresholds, radii, margins, every_node)
    return SimpleNamespace(thresholds=thresholds, radii=radii, margins=margins)


class Claim:
    """The one-sided bounds at distance k, and both together."""

    def __init__(self, mechanism, k=1, *, checked=True):
        shape = shape_of(mechanism, checked=checked)
        self.added = gap_addition_ratio(mechanism.q, mechanism.t, shape) ** k
        self.removed = gap_removal_ratio(mechanism.q) ** k
        self.ratio = gap_ratio(mechanism.q, mechanism.t, shape) ** k
        self.delta = gap_delta(mechanism.q, shape, k=k)

    def holds(self, fewer, more):
        """Both directions between an input and one with k people more, with nothing lost when they are added."""
        return (
            hockey_stick(fewer, more, self.added) == 0
            and hockey_stick(more, fewer, self.removed) <= self.delta
            and self.holds_mixed(fewer, more)
        )

    def holds_mixed(self, here, there):
        """What a map promises for inputs at distance k, whoever came and went."""
        return max(hockey_stick(here, there, self.ratio), hockey_stick(there, here, self.ratio)) <= self.delta


def tree_laws(mechanism, parents, *inputs):
    far = far_from(mechanism, max(map(sum, inputs)))
    return [tree_law(mechanism, parents, own, far) for own in inputs]


def path_laws(mechanism, path, *arrivals):
    """The laws with further people at each step of the path."""
    far = far_from(mechanism, sum(own + beside for own, beside, _ in path) + max(map(sum, arrivals)))
    return [
        path_law(mechanism, [(own + new, beside, top) for (own, beside, top), new in zip(path, more, strict=True)], far)
        for more in arrivals
    ]


def neighbours(mechanism, path, k=1):
    """The laws without and with k people at the path's lowest node."""
    nobody = [0] * len(path)
    return path_laws(mechanism, path, nobody, [k, *nobody[1:]])


def plus(own, *nodes):
    out = list(own)
    for node in nodes:
        out[node] += 1
    return out


def depth_of(parents):
    depths = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return max(depths)


def besides(threshold):
    """Sums and largest values that children beside the path may pass up."""
    yield 0, 0
    for top in range(1, threshold):
        yield from ((total, top) for total in (top, top + 1, 2 * top, 2 * threshold + top))
