"""Chains as plain data: which parts, with which arguments, on which tree; to JSON and back.

OpenDP's own `serialize` writes down the calls that made an object, and its `deserialize` imports from `opendp.*` alone:
it cannot bring back what another package made. A `Recipe` can, for the parts of this package. It holds names from a
fixed table and plain arguments, so that reading one runs nothing but the constructors of that table.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import (
    change_one_distance,
    hamming_distance,
    insert_delete_distance,
    l1_distance,
    symmetric_distance,
)
from opendp.mod import Domain, Measurement, Metric, OpenDPException, Transformation, VectorDomain, assert_features

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree.measurements.above_threshold import make_above_threshold
from opendp_tree.measurements.chosen_quantiles import make_chosen_quantiles
from opendp_tree.measurements.curve import make_bin_curve, make_segment_curve
from opendp_tree.measurements.means.tree_means import make_tree_means
from opendp_tree.measurements.partition.estimator import make_partition_estimator
from opendp_tree.measurements.partition.tree_partition import make_tree_partition
from opendp_tree.measurements.people.estimator import make_people_estimator
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.sparse_vector import make_sparse_vector
from opendp_tree.measurements.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.measurements.tree_sum import make_tree_sum
from opendp_tree.measurements.truncated_laplace import make_truncated_laplace
from opendp_tree.paper.multiplicative_estimator import make_multiplicative_estimator
from opendp_tree.paper.tree_classifier import make_tree_classifier
from opendp_tree.planning.tree_counts import make_tree_counts
from opendp_tree.releases import format as form
from opendp_tree.releases.tree_format import read_tree, write_tree
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.leaf_values import leaf_values_domain
from opendp_tree.rows.people import people_domain
from opendp_tree.rows.value import Value, read_values
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["Recipe"]

_PARTS: dict[str, Callable[..., Transformation | Measurement]] = {
    "above_threshold": make_above_threshold,
    "bin_curve": make_bin_curve,
    "chosen_quantiles": make_chosen_quantiles,
    "gaussian": make_gaussian,
    "laplace": make_laplace,
    "leaf_counts": make_leaf_counts,
    "multiplicative_estimator": make_multiplicative_estimator,
    "partition_estimator": make_partition_estimator,
    "people_estimator": make_people_estimator,
    "pruned_descent": make_pruned_descent,
    "segment_curve": make_segment_curve,
    "sparse_vector": make_sparse_vector,
    "tree_classifier": make_tree_classifier,
    "tree_counts": make_tree_counts,
    "tree_gaussian": make_tree_gaussian,
    "tree_laplace": make_tree_laplace,
    "tree_means": make_tree_means,
    "tree_partition": make_tree_partition,
    "tree_sum": make_tree_sum,
    "truncated_laplace": make_truncated_laplace,
}
_GIVEN = ("input_domain", "input_metric", "tree", "by", "output_metric", "output_measure", "MO", "k", "bounds")
"""What a recipe fills in itself, or what is no plain value."""
_METRICS = {
    "l1_distance": lambda: l1_distance(T="i64"),
    "symmetric_distance": symmetric_distance,
    "insert_delete_distance": insert_delete_distance,
    "change_one_distance": change_one_distance,
    "hamming_distance": hamming_distance,
}
_STARTS = {"people_estimator": "people", "tree_means": "leaf_values"}
"""Parts that start from something of their own, under `symmetric_distance`."""
_ELSEWHERE = {
    "value": "the part 'tree_means', with start='leaf_values' and values=[Value(...)] of the Recipe",
    "unit": "the part 'people_estimator', with start='people' of the Recipe and count, rows or nodes as arguments",
}
"""What `release_tree` takes as an argument and a recipe says by a part."""
_TYPES = ("String", "bool", "i32", "i64", "u32", "u64", "usize")
_MOST_STEPS = 10
Step = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """A chain of parts, as data.

    Parameters
    ----------
    tree
        The tree that the chain is about; parts that need one are given it.
    steps
        For each part its name, that of its constructor without `make_`, and its arguments as plain values. Of OpenDP's
        own, "laplace" and "gaussian" may follow a `tree_sum` with carrier="vector". A plan is the part "tree_counts":
        its arguments are those that are planned for. Parts that take other measurements, as curves by group do, or
        ladders are not among these.
    start
        What the chain starts from: "leaf_counts", the default, for `leaf_domain(tree)`; "leaf_values", for
        `leaf_values_domain(tree, values)`, and "people", for records of people, `people_domain(tree)`, both under
        `symmetric_distance`; or OpenDP's type of the elements of a vector ("String", "i64", ...), of records under a
        metric of records, of counts under `l1_distance`.
    size
        How long such a vector is; None, the default, for any length.
    metric
        The name of the metric; by default "l1_distance", of i64.
    values
        What is summed, where a chain starts from leaf values; by default nothing.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> recipe = Recipe(
    ...     Tree.from_paths([("be", "ghent"), ("lu",)]),
    ...     [("leaf_counts", {}), ("tree_laplace", {"scale": 3.0})],
    ...     start="String",
    ...     metric="symmetric_distance",
    ... )
    >>> again = Recipe.from_json(recipe.to_json())
    >>> again == recipe, again.make().map(1)
    (True, 1.0)
    """

    tree: Tree | OpenTree
    steps: Sequence[Step]
    start: str = "leaf_counts"
    size: int | None = None
    metric: str = "l1_distance"
    values: Sequence[Value] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.tree, (Tree, OpenTree)):
            raise TypeError(f"tree ({type(self.tree).__name__}) must be a Tree or an OpenTree")
        check_choice(self.start, name="start", choices=("leaf_counts", "leaf_values", "people", *_TYPES))
        check_choice(self.metric, name="metric", choices=tuple(_METRICS))
        if self.size is not None:
            check_integer(self.size, name="size", least=0)
            if self.start in ("leaf_counts", "leaf_values", "people"):
                raise ValueError("size must be left out where a chain starts from leaf counts: the tree says it")
        object.__setattr__(self, "values", read_values(self.values) if self.values else ())
        if bool(self.values) != (self.start == "leaf_values"):
            raise ValueError("values must be given where a chain starts from leaf_values, and nowhere else")
        if not isinstance(self.steps, (list, tuple)) or not 1 <= len(self.steps) <= _MOST_STEPS:
            raise ValueError(f"steps must be a list of 1 to {_MOST_STEPS} pairs of a name and arguments")
        steps = tuple(_check_step(place, step) for place, step in enumerate(self.steps, start=1))
        for place, (name, _) in enumerate(steps, start=1):
            self._check_start(place, name)
        object.__setattr__(self, "steps", steps)

    def _check_start(self, place: int, name: str) -> None:
        """That a part which starts from people or values does so, and that no other does."""
        needed = _STARTS.get(name)
        if needed is None and self.start in _STARTS.values():
            part = next(part for part, start in _STARTS.items() if start == self.start)
            raise ValueError(f"steps: step {place} ({name}) cannot start from {self.start}. Hint: {part}")
        if needed is not None and (self.start, self.metric) != (needed, "symmetric_distance"):
            raise ValueError(
                f"steps: step {place} ({name}) must have a start and a metric of its own. "
                f"Hint: start={needed!r}, metric='symmetric_distance'"
            )

    def make(self) -> Transformation | Measurement:
        """The chain itself. What a constructor refuses is a ValueError that names the step."""
        assert_features("contrib")
        chain: Any = None
        space: tuple[Domain, Metric] = self._space()
        for place, (name, arguments) in enumerate(self.steps, start=1):
            try:
                part = _PARTS[name](*space, **arguments, **self._tree_for(name, space[0]))
                chain = part if chain is None else chain >> part
                space = (chain.output_domain, chain.output_metric) if isinstance(chain, Transformation) else space
            except (TypeError, ValueError, OverflowError, AttributeError, OpenDPException) as error:
                raise ValueError(f"step {place} ({name}): {error}") from None
            if isinstance(chain, Measurement) and place < len(self.steps):
                raise ValueError(f"step {place} ({name}) must be the last: it is a measurement")
        made: Transformation | Measurement = chain
        return made

    def _space(self) -> tuple[Domain, Metric]:
        metric = _METRICS[self.metric]()
        if self.start == "leaf_counts":
            return leaf_domain(self.tree), metric
        if self.start == "people":
            return people_domain(self.tree), metric
        if self.start == "leaf_values":
            return leaf_values_domain(self.tree, self.values), metric
        return vector_domain(atom_domain(T=self.start), size=self.size), metric

    def _tree_for(self, name: str, domain: Domain) -> dict[str, Any]:
        if name == "leaf_counts":
            return {"by": self.tree}
        takes = "tree" in inspect.signature(_PARTS[name]).parameters
        return {"tree": self.tree} if takes and isinstance(domain, VectorDomain) else {}

    def to_json(self) -> str:
        """The recipe as a text that `from_json` reads."""
        steps = [[name, dict(arguments)] for name, arguments in self.steps]
        parts = {"tree": write_tree(self.tree), "steps": steps, "start": self.start, "size": self.size}
        values = [[each.column, *each.bounds, each.weight] for each in self.values]
        return form.write_text({**parts, "metric": self.metric, "values": values}, kind=_FORMAT)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """The recipe of a text that `to_json` wrote. Any other text is a ValueError, and runs nothing.

        Parameters
        ----------
        text
            The JSON text.
        """
        parts = form.read_text(text, kind=_FORMAT)
        try:
            return cls(
                read_tree(form.part(parts, "tree", dict)),
                [_read_step(step) for step in form.part(parts, "steps", list)],
                form.part(parts, "start", str),
                form.part(parts, "size", int, type(None)),
                form.part(parts, "metric", str),
                [_read_value(value) for value in form.part(parts, "values", list)] if "values" in parts else (),
            )
        except TypeError as error:
            raise ValueError(str(error)) from None


_FORMAT = "opendp-tree recipe"


def _read_value(value: Any) -> Value:
    if not (isinstance(value, list) and len(value) == 4):
        raise ValueError('"values" must hold a column, two bounds and a weight each')
    return Value(value[0], bounds=(value[1], value[2]), weight=value[3])


def _read_step(step: Any) -> Step:
    if not (isinstance(step, list) and len(step) == 2):
        raise ValueError('"steps" must be pairs of a name and arguments')
    return step[0], step[1]


def _check_step(place: int, step: Any) -> Step:
    if not (isinstance(step, tuple) and len(step) == 2 and isinstance(step[1], Mapping)):
        raise TypeError(f"steps: step {place} must be a pair of a name and a mapping of arguments")
    name, arguments = step
    check_choice(name, name=f"steps: step {place}", choices=tuple(_PARTS))
    known = [each for each in inspect.signature(_PARTS[name]).parameters if each not in _GIVEN]
    for key, value in arguments.items():
        if key not in known:
            hint = _ELSEWHERE.get(key, ", ".join(known))
            raise ValueError(f"steps: step {place} ({name}) takes no {key!r}. Hint: {hint}")
        if not _is_plain(value):
            raise ValueError(f"steps: step {place} ({name}): {key} must be a number, a text, None, or a list of these")
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    return name, frozen


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(type(each) not in (list, tuple) and _is_plain(each) for each in value)
    return type(value) in (int, bool, str, type(None)) or (type(value) is float and math.isfinite(value))
