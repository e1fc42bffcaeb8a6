"""Everything of OpenDP's that is private to it: an upgrade of OpenDP touches this file and no other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp import _convert
from opendp._data import fill_bytes
from opendp._internal import _extrinsic_domain, _make_measurement, _make_transformation, _new_pure_function
from opendp._lib import lib
from opendp.context import Query
from opendp.core import new_queryable
from opendp.domains import _lazyframe_from_domain
from opendp.extras._utilities import to_then as to_then  # noqa: PLC0414 (for other modules)
from opendp.extras.polars import LazyFrameQuery, _lazyframe_domain_from_schema
from opendp.measures import approximate, max_divergence, new_privacy_profile, zero_concentrated_divergence
from opendp.metrics import _get_bound
from opendp.mod import Domain, Function, LazyFrameDomain, Measure, Measurement, Metric, Transformation

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
    return _make_transformation(
        input_domain, input_metric, output_domain, output_metric, protected(function), protected(stability_map)
    )


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


def total_bound(bounds: Any) -> int | None:
    """How far frames are apart in all, under OpenDP's frame distance; None if no bound says so."""
    bound: Any = _get_bound(bounds, [])  # type: ignore[no-untyped-call]
    found: int | None = bound.per_group
    return found
