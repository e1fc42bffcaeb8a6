"""The share of rows that each bound on the rows of a person would keep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._show import one_line
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import PrivacyStatement, cost_words

ENOUGH = 0.95
"""The share of rows that the recommended bound keeps."""
_ROWS_PER_NOISE = 30
"""The noise of the total is about 3 * most * scale, which must be at most a tenth of the rows."""


@dataclass(frozen=True)
class BoundReport:
    """The share of rows that each bound on the rows of a person keeps."""

    bounds: Ints
    people: Ints
    shares: Floats
    lower: Floats
    upper: Floats
    rows: float
    confidence: float
    statement: PrivacyStatement

    @property
    def most(self) -> int:
        """The largest bound."""
        return int(self.bounds[-1])

    @property
    def useful(self) -> bool:
        """Whether there are enough rows: the noise is at most about a tenth of them."""
        return self._needed <= self.rows

    @property
    def recommended(self) -> int | None:
        """The smallest bound that keeps 95 % of the rows, with the report's confidence; None if it is not useful."""
        return self.smallest_bound(ENOUGH) if self.useful else None

    def smallest_bound(self, share: float) -> int:
        """The smallest bound that keeps a share of the rows, with the report's confidence."""
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise ValueError(f"share ({share!r}) must be a number from 0 to 1. Hint: 0.95")
        return int(self.bounds[np.argmax(self.lower >= share)])

    @property
    def _needed(self) -> Fraction:
        return _ROWS_PER_NOISE * self.most * Fraction(float(self.statement.parameters["scale"] or 0))

    def to_frame(self) -> pl.DataFrame:
        """One row per bound: `bound`, `share`, `lower`, `upper`, `people`."""
        columns = {"bound": self.bounds, "share": self.shares, "lower": self.lower, "upper": self.upper}
        return pl.DataFrame({**columns, "people": self.people})

    def to_dict(self) -> dict[str, Any]:
        """The report as nested dictionaries, lists, numbers and texts, ready for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("bounds", "people", "shares", "lower", "upper")}
        figures = {"recommended": self.recommended, "useful": self.useful, "rows": self.rows}
        return {**figures, **arrays, "confidence": self.confidence, "statement": self.statement.to_dict()}

    def to_json(self) -> str:
        """The same as a JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def describe(self) -> str:
        """The report in sentences."""
        lines = [f"The share of rows kept by each bound from 1 to {self.most} on the rows of each person."]
        bound = self.recommended
        if bound is None:
            lines.append(
                f"Not useful: there are about {max(self.rows, 0):,.0f} rows, and at this budget at least "
                f"{float(self._needed):,.0f} are needed. The budget is spent. Hint: a smaller most, or more epsilon."
            )
        else:
            index = int(np.argmax(self.bounds == bound))
            low, middle, high = (f"{100 * part[index]:.1f} %" for part in (self.lower, self.shares, self.upper))
            kept = f"{low} to {high} of about {self.rows:,.0f} rows, estimate {middle}"
            lines.append(f"Recommended: {bound}. It keeps {kept}.")
        lines += [
            f"Shares are of at most {self.most} rows of each person: further rows are not counted.",
            f"Accuracy: all intervals hold simultaneously with probability at least {self.confidence:.10g}.",
            cost_words(self.statement),
        ]
        return "\n".join(map(one_line, lines))

    def __repr__(self) -> str:
        return f"BoundReport(most={self.most}, recommended={self.recommended}, useful={self.useful})"
