"""Quantiles chosen by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._show import one_line
from opendp_tree._types import Array, Ints
from opendp_tree.releases import json as form
from opendp_tree.releases.curve import check_quantiles, values_at
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.releases.words import cost_words, counted_words

if TYPE_CHECKING:
    import polars as pl

_FORMAT = "opendp-tree chosen quantiles"


@dataclass(frozen=True)
class ChosenQuantiles:
    """The bin of a line that was chosen for each quantile."""

    shares: tuple[Fraction, ...]
    bins: Ints
    missed: Ints
    edges: Array
    confidence: float
    statement: PrivacyStatement

    def quantiles(self, at: Sequence[float]) -> pl.DataFrame:
        """Some of these quantiles: `quantile`, `estimate`, `lower`, `upper`, `missed`."""
        wanted = check_quantiles(at)
        for share in wanted:
            if share not in self.shares:
                known = ", ".join(f"{float(each):g}" for each in self.shares)
                raise ValueError(
                    f"quantiles ({float(share):g}) must be among those that were released: {known}. "
                    "Hint: name all of them in Quantiles([...]) before the release"
                )
        return self._frame([self.shares.index(share) for share in wanted])

    def to_frame(self) -> pl.DataFrame:
        """All of them, one row each: `quantile`, `estimate`, `lower`, `upper`, `missed`."""
        return self._frame(list(range(len(self.shares))))

    def _frame(self, places: list[int]) -> pl.DataFrame:
        import polars as pl

        bins = self.bins[places]
        middles = values_at(self.edges, bins.astype(np.float64) + 0.5)
        shares = [float(self.shares[place]) for place in places]
        columns = {"quantile": shares, "estimate": middles, "lower": self.edges[bins], "upper": self.edges[bins + 1]}
        return pl.DataFrame({**columns, "missed": self.missed[places]})

    def to_json(self) -> str:
        """The release as a JSON text for `from_json`. The format: docs/release_format.md."""
        return form.write_text(
            {
                "statement": form.write_statement(self.statement.to_dict()),
                "confidence": float(self.confidence),
                "edges": form.write_edges(self.edges),
                "quantiles": [float(share) for share in self.shares],
                "bins": self.bins.tolist(),
                "missed": self.missed.tolist(),
            },
            kind=_FORMAT,
        )

    @classmethod
    def from_json(cls, text: str) -> ChosenQuantiles:
        """Read a release that `to_json` wrote, with the same numbers. Raises ValueError for any other text."""
        parts = form.read_text(text, kind=_FORMAT)
        statement = PrivacyStatement(**form.read_statement(form.part(parts, "statement", dict)))
        confidence = form.part(parts, "confidence", float)
        form.require(0 < confidence < 1, '"confidence" must be above 0 and below 1')
        edges = form.read_edges(form.part(parts, "edges", dict))
        shares, bins, missed = (
            form.array_part(parts, name, kind) for name, kind in (("quantiles", float), ("bins", int), ("missed", int))
        )
        is_share = shares.size and ((shares >= 0) & (shares <= 1)).all()
        form.require(is_share, '"quantiles" must hold at least one number, all from 0 to 1')
        for name, array in (("bins", bins), ("missed", missed)):
            form.require(
                array.size == shares.size, f'"{name}" must have one entry for each of the {shares.size} "quantiles"'
            )
        is_bin = ((bins >= 0) & (bins < edges.size - 1)).all()
        form.require(is_bin, '"bins" must be indices of bins, of which there is one fewer than "edges"')
        form.require((missed >= 0).all(), '"missed" must not be negative')
        return cls(check_quantiles(shares.tolist()), bins, missed, edges, confidence, statement)

    def describe(self) -> str:
        """The release in sentences."""
        last = self.edges.size - 2
        cost = self.statement.to_dict()
        rows = self.to_frame().select("quantile", "lower", "upper", "missed").rows()
        found = [
            f"Quantile {share:g}: a value in [{_text(low)}, {_text(high)}{']' if place == last else ')'}, "
            f"whose rank is off by at most {missed}."
            for (share, low, high, missed), place in zip(rows, self.bins.tolist(), strict=True)
        ]
        lines = [
            f"Quantiles of a line of {self.edges.size - 1} bins, chosen by the exponential mechanism.",
            *found,
            f"Accuracy: each statement holds with probability at least {self.confidence:.10g}.",
            "Rows outside the line are not included.",
            *counted_words(cost),
            cost_words(cost),
        ]
        return "\n".join(map(one_line, lines))

    def __repr__(self) -> str:
        return f"ChosenQuantiles({', '.join(f'{float(share):g}' for share in self.shares)})"


def _text(edge: Any) -> str:
    return str(int(edge)) if isinstance(edge, float) and edge.is_integer() else str(edge)
