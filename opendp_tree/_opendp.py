"""Everything of OpenDP's that is private to it: an upgrade of OpenDP touches this file and no other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp import _convert
from opendp._data import fill_bytes
from opendp._internal import _extrinsic_domain, _make_measurement, _make_transformation, _new_pure_function
from opendp._lib import lib
from opendp.context import Query
from opendp.core import new_queryable
from opendp.domains import _lazyframe_from_domain, atom_domain, vector_domain
from opendp.extras._utilities import to_then as to_then  # noqa: PLC0414 (for other modules)
from opendp.extras.polars import LazyFrameQuery, _lazyframe_domain_from_schema
from opendp.measures import approximate, max_divergence, new_privacy_profile, zero_concentrated_divergence
from opendp.metrics import _get_bound, l2_distance, linf_distance
from opendp.mod import (
    Domain,
    FrameDistance,
    Function,
    LazyFrameDomain,
    Measure,
    Measurement,
    Metric,
    OpenDPException,
    Transformation,
)

from opendp_tree._interrupts import guard, protected, stop_if_interrupted

Callback = Callable[[Any], Any]


guard(lib, _convert, "c_to_py", "py_to_c")


def make_transformation(
    input_domain: Domain,
    input_metric: Metric,
    output_domain: Domain,
    output_metric: Metric,
    function: Callback,
    stability_map: Callback,
) -> Transformation:
    """A transformation that needs no "honest-but-curious": its map is proved here, as OpenDP's own are there."""
    _check_space(input_domain, input_metric)
    made = _make_transformation(
        input_domain, input_metric, output_domain, output_metric, protected(function), protected(stability_map)
    )
    counts: Any = getattr(output_domain, "descriptor", None)
    is_array = hasattr(counts, "of_leaves") and counts.size is not None  # `TreeCounts` of a public tree
    return ArrayTransformation.of(made) if is_array else made


class ArrayTransformation(Transformation):
    """A transformation to arrays of counts, which says how to get OpenDP's vectors where a constructor needs them."""

    _type_ = Transformation._type_  # pointers do not inherit it

    @classmethod
    def of(cls, made: Any) -> Any:
        """The same object: it stays the only owner of its pointer."""
        made.__class__ = cls
        return made

    def __rshift__(self, other: Any) -> Any:
        try:
            made = super().__rshift__(other)
        except OpenDPException as error:
            options = _vector_options(self, other) if "concrete type ExtrinsicDomain" in str(error.message) else None
            if options is None:
                raise
            hint = f"Hint: this constructor needs OpenDP's vectors: then_tree_sum({options})"
            raise OpenDPException(error.variant, f"{error.message} {hint}", error.raw_traceback) from error
        return self.of(made) if isinstance(other, ArrayTransformation) else made

    def __rrshift__(self, other: Any) -> Any:
        # Python asks the right side first where its class is derived from that of the left one.
        return self.of(other.__rshift__(self)) if isinstance(other, Transformation) else NotImplemented


def _vector_options(arrays: Transformation, constructor: Any) -> str | None:
    """The options of `make_tree_sum` with which a constructor can follow; None if there are none."""
    domain = vector_domain(atom_domain(T="i64"), size=arrays.output_domain.descriptor.size)
    others = (l2_distance, "f64"), (linf_distance, "i64")
    metrics = {f', output_metric=dp.{each.__name__}(T="{kind}")': each(T=kind) for each, kind in others}
    for words, metric in {"": arrays.output_metric, **metrics}.items():
        with suppress(Exception):  # whatever it is, vectors under this metric do not help
            constructor(domain, metric)
            return f'carrier="vector"{words}'
    return None


def make_measurement(
    input_domain: Domain,
    input_metric: Metric,
    output_measure: Measure,
    function: Callback,
    privacy_map: Callback,
    output_type: str = "ExtrinsicObject",
) -> Measurement:
    """A measurement that needs no "honest-but-curious": its map is proved here, as OpenDP's own are there."""
    _check_space(input_domain, input_metric)
    return _make_measurement(
        input_domain, input_metric, output_measure, protected(function), protected(privacy_map), TO=output_type
    )


def _check_space(input_domain: Domain, input_metric: Metric) -> None:
    # OpenDP's own refusal of other objects prints a second error when they are freed.
    for name, value, kind in (("input_domain", input_domain, Domain), ("input_metric", input_metric, Metric)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} ({type(value).__name__}) must be a {kind.__name__} of OpenDP's")


def make_function(function: Callback) -> Function:
    """A postprocessor, to be chained after a measurement."""
    return _new_pure_function(protected(function), TO="ExtrinsicObject")


def make_queryable(transition: Callback) -> Any:
    """A queryable of Python objects that answers by a function of the query."""
    return new_queryable(protected(transition), Q="ExtrinsicObject", A="ExtrinsicObject")


def make_profile(curve: Callback) -> Any:
    """A privacy profile, as the curve from epsilon to delta that OpenDP's maps give."""
    return new_privacy_profile(protected(curve)).curve  # type: ignore[no-untyped-call]


def extrinsic_domain(identifier: str, member: Callable[[Any], bool], descriptor: object) -> Domain:
    """A domain of Python objects. OpenDP tells such domains apart by the identifier alone."""
    return _extrinsic_domain(identifier, protected(member), descriptor)


def secure_bytes(count: int) -> npt.NDArray[np.uint8]:
    """Bytes from OpenDP's cryptographically secure generator."""
    stop_if_interrupted()
    out = np.empty(count, dtype=np.uint8)
    if count and not fill_bytes(out.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)), count):
        raise RuntimeError("the secure random number generator failed; nothing was released")
    return out


def measure_name(measure: Measure) -> str:
    """How OpenDP's measure is written, for those who read a statement: the call that makes it."""
    for pure in (max_divergence, zero_concentrated_divergence):
        if measure == pure():
            return f"{pure.__name__}()"
        if measure == approximate(pure()):
            return f"approximate({pure.__name__}())"
    return str(measure)


def inferred_domain(frame: Any) -> LazyFrameDomain:
    """OpenDP's domain of frames of this schema."""
    found: LazyFrameDomain = _lazyframe_domain_from_schema(frame.collect_schema())
    return found


def empty_lazyframe(domain: Domain) -> Any:
    """A lazy frame without rows, of the schema that a domain of frames has."""
    return _lazyframe_from_domain(domain)


def lazy_query(frame: Any, space: tuple[Domain, Metric]) -> Any:
    """A lazy frame with the further methods of OpenDP's queries. Nothing is released from it."""
    return LazyFrameQuery(frame, Query(chain=space, output_measure=max_divergence()))  # type: ignore[no-untyped-call]


def total_bound(metric: Metric, d_in: Any) -> Any:
    """How far apart frames are in all; None where the bounds of OpenDP's frame distance do not say."""
    return _get_bound(d_in, []).per_group if isinstance(metric, FrameDistance) else d_in  # type: ignore[no-untyped-call]
