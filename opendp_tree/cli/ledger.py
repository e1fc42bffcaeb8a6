"""`opendp-tree ledger`: what was spent, on what, what is left, and the releases that are stored. Nothing is written."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from opendp_tree.cli.terminal import CommandError, Exit
from opendp_tree.ledger import Ledger, decimal_texts

__all__ = ["run_ledger"]


def run_ledger(options: argparse.Namespace) -> Exit:
    """Print a ledger."""
    if not Path(options.file).is_file():
        raise CommandError(Exit.FAILURE, f"there is no file {options.file}. Hint: check the name")
    ledger = Ledger.open(options.file)
    if options.release is not None:
        text = ledger.stored(options.release)
        if text is None:
            raise CommandError(
                Exit.FAILURE, f"{options.file} stores no release {options.release}. Hint: opendp-tree ledger lists them"
            )
        print(text)
        return Exit.OK
    print(json.dumps(_record(ledger), indent=1) if options.json else ledger.describe())
    return Exit.OK


def _record(ledger: Ledger) -> dict[str, object]:
    """The ledger as plain data; amounts are decimal texts, so that they stay exact."""
    entries = ledger.entries()
    left = ledger.left_after(entries)
    return {
        "dataset": ledger.dataset,
        "unit": ledger.unit,
        "total": decimal_texts(ledger.total),
        "spent": decimal_texts({name: total - left[name] for name, total in ledger.total.items()}),
        "left": decimal_texts(left),
        "entries": [
            {
                "entry": each.number,
                "time": each.time,
                "cost": decimal_texts(each.cost),
                "note": each.note,
                "statement": each.statement,
            }
            for each in entries
        ],
    }
