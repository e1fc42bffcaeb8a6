"""How a release is made: methods as values that carry their own options.

The name of a method is the name of the mechanism everywhere: of a plan's candidate, of a release's statement, of a
line in a picture, and of the command line's `--method`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from opendp_tree._arguments import (
    check_choice,
    check_flags,
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    check_type,
)
from opendp_tree.releases.curve import check_quantiles
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.tree import Tree

__all__ = [
    "METHODS",
    "Auto",
    "Curve",
    "Method",
    "MultiplicativeEstimator",
    "PeopleLayers",
    "PrunedDescent",
    "Quantiles",
    "TreeEstimator",
    "TreeNoise",
]

Aim: TypeAlias = Literal["error", "keys"]
Noise: TypeAlias = Literal["laplace", "gaussian"]


def _check_weights(weights: Sequence[float], *, zero: bool) -> tuple[float, ...]:
    """One number for each level; how many there must be, the tree says later."""
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise TypeError(f"weights ({weights!r}) must be a number for each level, from the root's down")
    check = check_scale if zero else check_positive
    found = tuple(float(check(weight, name=f"weights[{level}]")) for level, weight in enumerate(weights))
    if not any(found):
        raise ValueError("weights must not all be 0")
    return found


def _check_levels(levels: Sequence[int]) -> tuple[int, ...]:
    """Levels, ascending; whether the tree has them, it says later."""
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise TypeError(f"levels ({levels!r}) must be a sequence of levels, 0 for the root's")
    return tuple(sorted({check_integer(level, name="levels", least=0) for level in levels}))


class _Options:
    """Checks the options that methods share."""

    def __post_init__(self) -> None:
        for name, default in ((each.name, each.default) for each in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None and default is None:
                continue
            if isinstance(default, bool):
                check_flags(**{name: value})
            elif name in ("aim", "noise"):
                check_choice(value, name=name, choices=get_args(Aim if name == "aim" else Noise))
            elif name in ("measuring", "eta"):
                check_probability(value, name=name)
            elif name == "levels":
                object.__setattr__(self, name, _check_levels(value))
            else:
                object.__setattr__(self, name, _check_weights(value, zero=getattr(self, "consistent", False)))


@dataclass(frozen=True)
class Auto(_Options):
    """Whatever mechanism is planned to be best, with public facts alone: the first of `plan`.

    Parameters
    ----------
    aim
        What "best" is: "error", the least worst alpha-RMSE (the default, because it speaks of every node); or "keys",
        the lowest weight from which a node is shown.
    levels
        The levels that are wanted, 0 for the root's. By default all. Where nodes are public, these are the levels whose
        error counts, and all are released; where nodes must be found, the partition shows these alone, and the others
        cost nothing.
    nonnegative
        Whether no estimate may be negative. By default they may, because that leaves sums unbiased.
    integers
        Whether estimates must be whole. By default they need not be: rounding adds error.

    Examples
    --------
    >>> Auto(levels=[1, 2])
    Auto(aim='error', levels=(1, 2), nonnegative=False, integers=False)

    """

    aim: Aim = "error"
    levels: Sequence[int] | None = None
    nonnegative: bool = False
    integers: bool = False

    name = "auto"


@dataclass(frozen=True)
class TreeNoise(_Options):
    """Noise on every node of a public tree: `tree_laplace`, `tree_gaussian`, or `raw_...` without least squares.

    Parameters
    ----------
    noise
        "laplace" (the default, because it needs no delta) or "gaussian", which is better in deep trees.
    consistent
        Whether least squares makes the levels add up. True by default: it lowers the error of every node.
    weights
        A share of the budget for each level, from the root's down; only their ratios matter. A level of weight 0 is
        not measured, and estimated from the others. By default those that make the worst node's error least.
    nonnegative
        Whether estimates are made non-negative. Not by default: it biases small counts upwards.
    integers
        Whether estimates are made whole. Not by default: it adds error.

    Examples
    --------
    >>> TreeNoise("gaussian", consistent=False).name
    'raw_gaussian'

    """

    noise: Noise = "laplace"
    consistent: bool = True
    weights: Sequence[float] | None = None
    nonnegative: bool = False
    integers: bool = False

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"{'tree' if self.consistent else 'raw'}_{self.noise}"


@dataclass(frozen=True)
class PrunedDescent(_Options):
    """Noise on the nodes whose parents are shown, and a threshold: `pruned_laplace` or `pruned_gaussian`.

    Parameters
    ----------
    noise
        "laplace" (the default) or "gaussian", which is better in deep trees.
    weights
        A share of the budget for each level, from the root's down, all positive; only their ratios matter. By default
        equal ones.

    Examples
    --------
    >>> PrunedDescent("gaussian").name
    'pruned_gaussian'

    """

    noise: Noise = "laplace"
    weights: Sequence[float] | None = None

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"pruned_{self.noise}"


@dataclass(frozen=True)
class TreeEstimator(_Options):
    """Nodes are found and measured, or all levels get noise where nodes are public: `tree_estimator`.

    Parameters
    ----------
    measuring
        The share of epsilon that measures what was found, above 0 and below 1. Less finds more keys, more gives better
        totals. By default what keeps every level near a release of its own (`make_tree_estimator`). It says nothing
        where nodes are public.
    weights
        How much each shown level above the deepest matters, from the root's down, for at most nine levels; a level of
        twice the weight may err by half as much. By default all matter about alike.
    levels
        The levels that are shown, 0 for the root's, which always is. The others cost nothing. By default those of
        `plan(levels=...)`, or all.

    Examples
    --------
    >>> TreeEstimator(measuring=0.3).name
    'tree_estimator'

    """

    measuring: float | None = None
    weights: Sequence[float] | None = None
    levels: Sequence[int] | None = None

    name = "tree_estimator"


@dataclass(frozen=True)
class MultiplicativeEstimator(_Options):
    """The paper's estimator, corrected, and clipped to a bounded error: `multiplicative_estimator`. A reference.

    Parameters
    ----------
    eta
        The chance with which a node may miss its relative error. By default, of a tenth, a thousandth and a millionth
        the one of least error.

    Examples
    --------
    >>> MultiplicativeEstimator().name
    'multiplicative_estimator'

    """

    eta: float | None = None

    name = "multiplicative_estimator"


@dataclass(frozen=True)
class PeopleLayers(_Options):
    """For a unit: nodes found with one row a person, and layers in which people are weighed: `people_laplace`, ...

    Parameters
    ----------
    noise
        "laplace" or "gaussian", which is better where people are counted at many nodes. By default None: the better of
        both by prediction.
    measuring, levels
        As for `TreeEstimator`. By default the share of least predicted error, and all levels.

    Examples
    --------
    >>> PeopleLayers("gaussian").name
    'people_gaussian'

    """

    noise: Noise | None = None
    measuring: float | None = None
    levels: Sequence[int] | None = None

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return f"people_{self.noise or 'layers'}"


@dataclass(frozen=True)
class Curve:
    """How many lie below each value of a number or a date: `segment_curve`, `bin_curve`, or `curve` for the better one.

    For `Key.number`, and for one below other columns, whose groups are found first: each that is shown has a curve.

    Parameters
    ----------
    segments
        Whether a private partition first finds where people are. By default None: from 1,025 bins on, where it errs
        less.
    finding
        The share of a curve's epsilon that finds segments, above 0 and below 1. By default a fifth.
    grouping
        The share of epsilon that finds and counts groups, where there are any. By default a fifth.
    public_groups
        A tree of the labels of all groups, if these are public: they need no delta then. By default None: groups are
        found.
    groups
        How many levels of the tree are groups. By default None: there are none; `release_tree` reads it off the key.
    ranges
        The ranges of the number below groups. By default None; `release_tree` reads it off the key.

    Examples
    --------
    >>> Curve().name, Curve(segments=False).name
    ('curve', 'bin_curve')

    """

    segments: bool | None = None
    finding: float = 0.2
    grouping: float = 0.2
    public_groups: Tree | None = None
    groups: int | None = None
    ranges: NumberRange | None = None

    def __post_init__(self) -> None:
        if self.segments is not None:
            check_flags(segments=self.segments)
        for name in ("finding", "grouping"):
            if not Fraction(1, 1000) <= check_probability(getattr(self, name), name=name) <= Fraction(999, 1000):
                raise ValueError(f"{name} ({getattr(self, name)}) must be from 0.001 to 0.999. Hint: 0.2")
        if self.public_groups is not None:
            check_type(self.public_groups, Tree, name="public_groups", hint="Tree.from_paths([('AA',), ('UA',)])")
        if (self.groups is None) != (self.ranges is None):
            raise ValueError("groups and ranges must be given together. Hint: by=Key.nested(..., Key.number(...))")
        if self.groups is not None:
            check_integer(self.groups, name="groups", least=1)
            check_type(self.ranges, NumberRange, name="ranges", hint="Key.number(...).tree.ranges")

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return "curve" if self.segments is None else "segment_curve" if self.segments else "bin_curve"


@dataclass(frozen=True)
class Quantiles:
    """A few quantiles of a number or a date, each chosen by the exponential mechanism: `chosen_quantiles`.

    Parameters
    ----------
    at
        Which quantiles, as shares from 0 to 1. By default the median. For more than about three a `Curve` errs less.

    Examples
    --------
    >>> Quantiles([0.25, 0.5]).name
    'chosen_quantiles'

    """

    at: Sequence[float] = (0.5,)

    name = "chosen_quantiles"

    def __post_init__(self) -> None:
        check_quantiles(self.at)
        object.__setattr__(self, "at", tuple(float(share) for share in self.at))


Mechanism: TypeAlias = TreeNoise | PrunedDescent | TreeEstimator | MultiplicativeEstimator
Line: TypeAlias = Curve | Quantiles
Method: TypeAlias = Auto | Mechanism | PeopleLayers | Line

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Auto(),
        TreeNoise("laplace"),
        TreeNoise("gaussian"),
        TreeNoise("laplace", consistent=False),
        TreeNoise("gaussian", consistent=False),
        PrunedDescent("laplace"),
        PrunedDescent("gaussian"),
        TreeEstimator(),
        MultiplicativeEstimator(),
        Curve(),
        Curve(segments=True),
        Curve(segments=False),
        Quantiles(),
    )
}
"""Every method by its name, with the options that it has by default."""
MECHANISMS: tuple[Mechanism, ...] = tuple(each for each in METHODS.values() if isinstance(each, Mechanism))
"""Those for every tree; curves and quantiles are for lines."""
PEOPLE_METHODS: dict[str, Method] = {
    method.name: method for method in (PeopleLayers("laplace"), PeopleLayers("gaussian"))
}
"""Those for records of people, by their names."""
REFERENCES = ("raw_laplace", "raw_gaussian", "multiplicative_estimator")
"""What is planned for comparison alone: least squares is never worse than raw noise on the same nodes, and the
partition needs no more than the paper's estimator, whose constants are a thousand times larger."""


def read_method(method: Method | str) -> Method:
    """A method, or the one of this name with its default options."""
    if isinstance(method, str):
        if method in PEOPLE_METHODS:
            return PEOPLE_METHODS[method]
        return METHODS[check_choice(method, name="method", choices=tuple(METHODS))]
    if not isinstance(method, Method):
        raise TypeError(
            f"method ({type(method).__name__}) must be a name, or one of Auto, TreeNoise, PrunedDescent, "
            "TreeEstimator, PeopleLayers, MultiplicativeEstimator, Curve, Quantiles. Hint: TreeNoise('gaussian')"
        )
    return method


def method_text(method: Method) -> str:
    """A method as one writes it: with the options that are not its defaults."""
    options = ((each.name, getattr(method, each.name), each.default) for each in fields(method))
    return (
        f"{type(method).__name__}({', '.join(f'{name}={value!r}' for name, value, usual in options if value != usual)})"
    )
