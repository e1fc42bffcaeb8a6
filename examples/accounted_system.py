"""A larger system that accounts for what it releases: a ledger, people with many rows, JSON, and a refusal handled."""

from __future__ import annotations

import tempfile
from pathlib import Path

import opendp.prelude as dp

from opendp_tree import Ledger, OpenTree, TreeRelease, Unit, plan, release_tree
from opendp_tree.data import example_flights
from opendp_tree.ledger import BudgetError

PERSON = Unit("tailnum", rows=10)
"""Whose privacy it is: an airplane, of which at most ten flights are counted."""
JOBS = [
    (["origin", "carrier"], {"epsilon": 0.5, "delta": 1e-7}),
    (["carrier", "dest"], {"epsilon": 0.4, "delta": 1e-7}),
    (["dest", "month"], {"epsilon": 0.4, "delta": 1e-7}),
]


def run(job: list[str], cost: dict[str, float], ledger: Ledger, folder: Path) -> Path | None:
    """One release: committed to the ledger with its cost, then written. None if it is refused."""
    try:
        release = release_tree(example_flights(), by=job, **cost, unit=PERSON, ledger=ledger)
    except BudgetError:
        print(f"  {' / '.join(job)}: refused, {float(ledger.left()['epsilon']):g} of epsilon is left")
        return None
    file = folder / f"{'_'.join(job)}.json"
    file.write_text(release.to_json())
    assert release.statement is not None
    print(f"  {' / '.join(job)}: released for {release.statement.unit}")
    return file


def main() -> None:
    dp.enable_features("contrib")
    expected = plan(OpenTree.columns(2), epsilon=0.5, delta=1e-7, d_in=10)
    print(f"Before anything is spent: {expected.best.name}, an error of at most about {expected.best.error:.0f}.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = {"epsilon": "1.0", "delta": "1e-6"}
        ledger = Ledger.open(folder / "ledger.db", total=total, unit="one value of 'tailnum'", dataset="flights 2013")
        files = [file for job, cost in JOBS if (file := run(job, cost, ledger, folder))]
        print("What readers get, from JSON alone:")
        for file in files:
            read = TreeRelease.from_json(file.read_text())
            print(f"  {file.name}: {read.statement.loss}, about {read.estimates[0]:.0f} flights counted")  # type: ignore[union-attr]
        print(f"Left: epsilon {float(ledger.left()['epsilon']):g}, delta {float(ledger.left()['delta']):g}.")


if __name__ == "__main__":
    main()
