"""`opendp-tree plan`: the error of every mechanism."""

from __future__ import annotations

import argparse
import json
import math

from opendp_tree.cli.source import KEY_KINDS, budget_of, open_source
from opendp_tree.cli.terminal import CommandError, Exit
from opendp_tree.planning.plan import Plan, plan
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["run_plan"]


def run_plan(options: argparse.Namespace) -> Exit:
    """Print a plan; infeasible if nothing is possible."""
    found = _plan(options)
    assert found.facts is not None
    if options.json:
        records = [{name: _finite(value) for name, value in row.items()} for row in found.to_frame().to_dicts()]
        print(json.dumps({"depth": found.facts.depth, "best": found.best.name, "candidates": records}, indent=1))
    else:
        print(found)
    return Exit.OK if found.best.feasible else Exit.INFEASIBLE


def _plan(options: argparse.Namespace) -> Plan:
    subject: Tree | OpenTree | int
    nodes = None
    if options.file is None:
        for name in ("by", *KEY_KINDS, "tree", "format"):
            if getattr(options, name) is not None:
                raise CommandError(Exit.USAGE, f"--{name} needs a file. Hint: FILE --{name} ..., or --depth N alone")
        if options.depth is None:
            raise CommandError(Exit.USAGE, "a hierarchy is missing. Hint: --depth N, or FILE --by A,B,C")
        subject, nodes = options.depth, options.nodes or "open"
    else:
        subject = open_source(options).key.hierarchy
    return plan(
        subject,
        **budget_of(options),
        alpha=float(options.alpha),
        unit=_unit(options),
        nodes=nodes,
    )


def _unit(options: argparse.Namespace) -> Unit | None:
    """What of people is counted, if anything is said of them; what their column is called does not matter here."""
    bounds = {"rows": options.rows_per_unit, "nodes": options.nodes_per_unit}
    if options.count == "rows" and not any(bounds.values()):
        return None
    try:
        return Unit("unit", count=options.count, **bounds)
    except (TypeError, ValueError):
        needed = {"rows": "--rows-per-unit K", "people": "--nodes-per-unit M", "shares": "neither of them"}
        raise CommandError(
            Exit.USAGE, f"--rows-per-unit and --nodes-per-unit must suit --count. Hint: {needed[options.count]}"
        ) from None


def _finite(value: object) -> object:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
