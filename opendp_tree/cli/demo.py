"""`opendp-tree demo`: public data, so that the error can be shown next to the truth."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from opendp_tree._arguments import float_below
from opendp_tree._show import table
from opendp_tree.cli.terminal import Exit
from opendp_tree.data.flights import example_flights
from opendp_tree.keys.key import Key
from opendp_tree.planning.plan import plan
from opendp_tree.plots.page import write_html
from opendp_tree.plots.tree import plot_tree
from opendp_tree.prepare import release_tree
from opendp_tree.releases.words import error_rows, nested_rows, with_truth

__all__ = ["run_demo"]

BY = ("origin", "carrier", "dest")


def run_demo(options: argparse.Namespace) -> Exit:
    """Plan, release, compare, draw."""
    flights = example_flights()
    epsilon, delta = float_below(options.epsilon), float_below(options.delta)
    print("The flights that left New York City in 2013, by origin, carrier and destination.\n")
    print(plan(Key.columns(*BY).open_tree(), epsilon=epsilon, delta=delta), end="\n\n")

    release = release_tree(flights, by=list(BY), epsilon=epsilon, delta=delta)
    print(release.describe(), end="\n\n")
    frame = with_truth(release.to_frame(), flights, BY)
    print("The three largest at each node, and, because these data are public, the truth:\n")
    print(table(["node", "estimate", "within", "truth", "error"], nested_rows(frame, BY, most=3)), end="\n\n")
    levels = [(("all", *BY)[level], *rest) for level, *rest in error_rows(frame)]
    print(table(["level", "nodes shown", "RMSE", "largest error"], levels))
    if find_spec("plotly") is None:
        print("\nFor a picture: pip install plotly")
    else:
        print(f"\nThe picture: {write_html(plot_tree(release), options.plot)}")
    return Exit.OK
