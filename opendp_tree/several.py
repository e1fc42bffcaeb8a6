"""Several hierarchies of one frame under one budget: one call, one composition, one statement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from opendp.combinators import make_composition
from opendp.mod import Measurement, assert_features

from opendp_tree._arguments import check_positive
from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._opendp import measure_name
from opendp_tree._show import Cell, html_table, progress, table
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger
from opendp_tree.planning.methods import Method
from opendp_tree.prepare import Account, make_frame_release
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.releases.words import cost_words
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.tables import measured
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value, read_values

__all__ = ["TreeReleases", "release_trees"]


@dataclass(frozen=True, repr=False)
class TreeReleases(Mapping[str, TreeRelease]):
    """Releases by the names of their hierarchies, and what all of them cost together.

    Parameters
    ----------
    releases
        Each hierarchy's release, with a statement of its own share.
    statement
        What all of them cost: the map of their composition.
    """

    releases: Mapping[str, TreeRelease]
    statement: PrivacyStatement

    def __getitem__(self, name: str) -> TreeRelease:
        return self.releases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def to_json(self) -> str:
        """A JSON object with the text of each release, as its own `to_json` gives it, by its hierarchy's name."""
        return json.dumps({name: release.to_json() for name, release in self.releases.items()})

    def __repr__(self) -> str:
        """A line for each hierarchy, and what all of them cost."""
        heads, rows = self._rows()
        return f"{table(heads, rows)}\n\n{cost_words(self.statement.to_dict())}"

    def _repr_html_(self) -> str:
        heads, rows = self._rows()
        return html_table(heads, rows, title="Releases of one frame", below=[cost_words(self.statement.to_dict())])

    def _rows(self) -> tuple[list[str], list[list[Cell]]]:
        rows: list[list[Cell]] = []
        for name, release in self.releases.items():
            assert release.statement is not None
            loss = ", ".join(f"{part} {amount:.6g}" for part, amount in release.statement.loss.items())
            rows.append([name, release.to_frame(other=False).height, release.statement.mechanism, loss])
        return ["hierarchy", "nodes shown", "mechanism", "its share"], rows


@interrupts_deferred
@progress("counting")
def release_trees(
    data: Any,
    *,
    by: Mapping[str, Key | str | Sequence[str]],
    weights: Mapping[str, float] | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    unit: Unit | None = None,
    method: Method | str = "auto",
    confidence: float = 0.95,
    value: Value | Sequence[Value] | None = None,
    ledger: Ledger | str | Path | None = None,
) -> TreeReleases:
    """The counts of several hierarchies of one frame, which share one budget; `release_tree` for each.

    Parameters
    ----------
    data
        The rows, as in `release_tree`.
    by
        For each hierarchy a name, and where a row belongs in it: a `Key`, or the names of columns.
    weights
        For each hierarchy its share of the budget, epsilon, rho and delta alike; only their ratios matter. By default
        all get the same.
    epsilon
        The privacy loss of all releases together. Give either this or `rho`.
    delta
        The chance of a larger loss, for all releases together. By default 0: none.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that is forgiven, as in `release_tree`. By default a tenth.
    unit
        Who is protected, in all hierarchies: as in `release_tree`. By default None: one row.
    method
        How each release is made, as in `release_tree`. By default "auto", which plans for each hierarchy.
    confidence
        The probability with which each interval holds its node's true count. By default 0.95.
    value
        What is summed at every node of all hierarchies, as in `release_tree`. By default None: rows are counted alone.
    ledger
        Where all releases and their whole cost are committed at once, as in `release_tree`. By default None: nobody
        counts.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "hour": [9] * 800 + [17] * 500})
    >>> releases = release_trees(visits, by={"place": "country", "time": "hour"}, epsilon=1.0, delta=1e-6)
    >>> releases["time"].to_frame(other=False)["path"].to_list(), releases.statement.loss["epsilon"] <= 1.0
    (['', '9', '17'], True)

    """
    assert_features("contrib")
    keys = _check_keys(by)
    shares, values = _check_weights(weights, keys), read_values(value)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    asked: dict[str, Any] = {"unit": unit, "method": method, "values": values, "alpha": alpha, "confidence": confidence}
    budgets = {name: account.budget.part(shares[name], of=len(keys)) for name in keys}
    parts = {name: make_frame_release(frame, key, budgets[name], **asked) for name, key in keys.items()}
    composed = make_composition(list(parts.values()))
    columns = list(dict.fromkeys(column for key in keys.values() for column in key.columns_used))
    columns += [each.column for each in values]
    return account.spend(lambda: _released(composed, parts, frame), note={"columns": columns})


def _released(composed: Measurement, parts: Mapping[str, Measurement], frame: Any) -> TreeReleases:
    releases: dict[str, TreeRelease] = dict(zip(parts, measured(composed, frame), strict=True))
    first = next(iter(releases.values())).statement
    assert first is not None
    loss = composed.map(1)  # type: ignore[no-untyped-call]
    amounts = loss if isinstance(loss, tuple) else (loss,)
    mechanisms = {name: release.statement.mechanism for name, release in releases.items() if release.statement}
    statement = PrivacyStatement(
        "composition",
        measure_name(composed.output_measure),
        first.d_in,
        dict(zip(first.loss, amounts, strict=True)),
        mechanisms,
        first.unit,
        first.counted,
    )
    return TreeReleases(releases, statement)


def _check_keys(by: Any) -> dict[str, Key]:
    if not isinstance(by, Mapping) or not by or not all(isinstance(name, str) for name in by):
        raise TypeError(
            "by must give a key for each hierarchy's name. Hint: by={'place': ['region', 'city'], 'time': 'day'}"
        )
    return {name: Key.of(key) for name, key in by.items()}


def _check_weights(weights: Any, keys: Mapping[str, Key]) -> dict[str, Fraction]:
    """Each hierarchy's share, exactly; they sum to 1."""
    if weights is None:
        return dict.fromkeys(keys, Fraction(1, len(keys)))
    if not isinstance(weights, Mapping) or weights.keys() != keys.keys():
        raise ValueError(f"weights must give one for each of {', '.join(map(repr, keys))}. Hint: leave them out")
    exact = {name: check_positive(weights[name], name=f"weights[{name!r}]") for name in keys}
    return {name: weight / sum(exact.values()) for name, weight in exact.items()}
