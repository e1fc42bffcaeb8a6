"""The domains that frames are members of: OpenDP's own, and one whose members are passed by reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from opendp.mod import Domain, ExtrinsicDomain, LazyFrameDomain

from opendp_tree._opendp import extrinsic_domain, inferred_domain
from opendp_tree.rows.dtypes import element_kind, kinds_of
from opendp_tree.rows.grouping import empty_frame, narrowed, read_schema, schema_of
from opendp_tree.rows.sources import schema_source
from opendp_tree.rows.tables import Table

__all__ = ["frame_domain"]


@dataclass(frozen=True)
class FrameColumns:
    """Describes a domain of frames, or of an engine's tables, that have at least these columns."""

    types: tuple[tuple[str, Any], ...]
    in_engine: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is a frame, or a table of another engine, with these columns. Looks at the schema alone."""
        schema = schema_of(value) if isinstance(value, Table) == self.in_engine else None
        return schema is not None and all(name in schema and schema[name] == dtype for name, dtype in self.types)

    def empty(self) -> pl.LazyFrame:
        """A frame without rows."""
        return empty_frame(dict(self.types))

    def opendp_domain(self) -> LazyFrameDomain:
        """OpenDP's own domain of such frames, in which every value may be null."""
        check_rows_are_here("steps of a query", self)
        return inferred_domain(self.empty())

    def read(self, data: Any) -> pl.LazyFrame:
        """The frame, lazy, once it is sure to be a member."""
        if not self.holds(data) or not hasattr(data, "lazy"):
            raise TypeError(
                "the data must be a Polars frame with the columns and data types of input_domain. "
                "Hint: read_source makes one of other frames"
            )
        return narrowed(data, [name for name, _ in self.types])


def frame_domain(columns: Any) -> Domain:
    """The domain of Polars frames, lazy or not, that have at least these columns; OpenDP passes them by reference.

    Through OpenDP's own `lazyframe_domain` a frame in memory is copied at every crossing. Here it is not, but OpenDP's
    stable Polars steps are not available: `make_leaf_counts` is what follows. The schema is public.

    Parameters
    ----------
    columns
        Each column's data type, or a frame of any library, whose schema is taken. Of an engine's table: the domain of
        such tables.

    Examples
    --------
    >>> import polars as pl
    >>> frame_domain({"city": pl.String}).member(pl.DataFrame({"city": ["ghent"], "age": [3]}))
    True

    """
    source = schema_source(columns)
    types = tuple(read_schema(source).items())
    described = FrameColumns(types, in_engine=isinstance(source, Table))
    name = "TableDomain" if described.in_engine else "FrameDomain"
    # OpenDP compares such domains by this text alone; a data type's text names all of its parts.
    text = ", ".join(f"{name!r}: {dtype!r}" for name, dtype in sorted(types, key=lambda column: column[0]))
    return extrinsic_domain(f"{name}({{{text}}})", described.holds, described)


def check_rows_are_here(asked: str, described: Any) -> None:
    """Refuses what needs the rows themselves where they are an engine's, before anything is spent."""
    if isinstance(described, FrameColumns) and described.in_engine:
        raise ValueError(
            f"{asked} must not be given for a table of an engine, whose rows are only counted there. "
            "Hint: bring the rows here, by read_source of a query's Arrow table; or make a view in the engine"
        )


def column_kinds(input_domain: Domain) -> dict[str, str]:
    """What each column of a domain of frames holds, in the words that keys use."""
    if isinstance(input_domain, LazyFrameDomain):
        return {name: element_kind(input_domain.get_series_domain(name)) for name in input_domain.columns}
    if isinstance(input_domain, ExtrinsicDomain) and isinstance(input_domain.descriptor, FrameColumns):
        return kinds_of(dict(input_domain.descriptor.types))
    raise ValueError(f"input_domain ({input_domain}) must be a lazyframe_domain or a frame_domain")
