"""A service that accounts for its releases: a ledger, people with many rows, JSON, and a refused release."""

from __future__ import annotations

import tempfile
from pathlib import Path

import opendp.prelude as dp

from opendp_tree import Ledger, OpenTree, TreeRelease, Unit, plan, release_tree
from opendp_tree.data import example_flights
from opendp_tree.ledger import BudgetError

PERSON = Unit("tailnum", rows=10)
"""The privacy unit: an airplane, whose flights are down-weighted to ten."""
JOBS = [
    (["origin", "carrier"], {"epsilon": 0.5, "delta": 1e-7}),
    (["carrier", "dest"], {"epsilon": 0.4, "delta": 1e-7}),
    (["dest", "month"], {"epsilon": 0.4, "delta": 1e-7}),
]


def run(job: list[str], cost: dict[str, float], ledger: Ledger, folder: Path) -> Path | None:
    """Make one release, which is committed to the ledger with its cost, and write it; None if it is refused."""
    try:
        release = release_tree(example_flights(), by=job, **cost, unit=PERSON, ledger=ledger)
    except BudgetError:
        print(f"  {' / '.join(job)}: refused, epsilon {float(ledger.left()['epsilon']):g} is left")
        return None
    file = folder / f"{'_'.join(job)}.json"
    file.write_text(release.to_json())
    assert release.statement is not None
    print(f"  {' / '.join(job)}: released for {release.statement.unit}")
    return file


def main() -> None:
    dp.enable_features("contrib")
    expected = plan(OpenTree.columns(2), epsilon=0.5, delta=1e-7, unit=PERSON)
    print(f"Plan: {expected.best.name}, with a predicted error of {expected.best.error:.0f}.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = {"epsilon": "1.0", "delta": "1e-6"}
        ledger = Ledger.open(folder / "ledger.db", total=total, unit="one value of 'tailnum'", dataset="flights 2013")
        files = [file for job, cost in JOBS if (file := run(job, cost, ledger, folder))]
        print("Read from the JSON files:")
        for file in files:
            read = TreeRelease.from_json(file.read_text())
            print(f"  {file.name}: {read.statement.loss}, about {read.estimates[0]:.0f} flights counted")  # type: ignore[union-attr]
        print(f"Left: epsilon {float(ledger.left()['epsilon']):g}, delta {float(ledger.left()['delta']):g}.")


if __name__ == "__main__":
    main()
