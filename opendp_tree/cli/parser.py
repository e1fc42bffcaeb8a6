"""The arguments of the command line."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NoReturn

from opendp_tree.budget import EPSILONS, RHOS
from opendp_tree.cli.terminal import CommandError, Exit
from opendp_tree.keys.calendar import PARTS
from opendp_tree.keys.key import Key
from opendp_tree.keys.text import read_key
from opendp_tree.planning.candidate import DEEPEST
from opendp_tree.planning.methods import METHODS
from opendp_tree.releases.curve import check_quantiles
from opendp_tree.releases.writing import FORMATS
from opendp_tree.rows.unit import COUNTS

__all__ = ["build_parser"]

INPUTS = ("parquet", "csv")


class Parser(argparse.ArgumentParser):
    """Raises instead of printing two lines."""

    def error(self, message: str) -> NoReturn:
        """An error in the arguments."""
        raise CommandError(Exit.USAGE, f"{message}. Hint: {self.prog} --help")


def positive(text: str, limits: tuple[float, float] = EPSILONS) -> Fraction:
    """A positive number, exactly as written."""
    amount = _decimal(text)
    if amount <= 0:
        raise argparse.ArgumentTypeError(f"{text} must be a positive number")
    if not limits[0] <= amount <= limits[1]:
        raise argparse.ArgumentTypeError(f"{text} must be from {limits[0]:g} to {limits[1]:g}")
    return Fraction(amount)


def concentrated(text: str) -> Fraction:
    """A rho, exactly as written."""
    return positive(text, RHOS)


def share(text: str) -> Fraction:
    """A number from 0 to below 1, exactly as written."""
    amount = _decimal(text)
    if not (amount == 0 or 1e-300 <= amount < 1):
        raise argparse.ArgumentTypeError(f"{text} must be at least 0 and below 1")
    return Fraction(amount)


def shares(text: str) -> tuple[float, ...]:
    """Numbers from 0 to 1 with commas."""
    try:
        return tuple(
            float(share) for share in check_quantiles([float(_decimal(part.strip())) for part in text.split(",")])
        )
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"{text} must be numbers from 0 to 1 with commas") from None


def count(text: str) -> int:
    """An integer from 1."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number, 1 or more")
    return int(text)


def counts(text: str) -> int | tuple[int, ...]:
    """An integer from 1, or several with commas between them."""
    found = tuple(count(part.strip()) for part in text.split(","))
    return found[0] if len(found) == 1 else found


def number(text: str) -> float:
    """Any number."""
    return float(_decimal(text))


def levels(text: str) -> int:
    """The depth of a tree."""
    if count(text) > DEEPEST:
        raise argparse.ArgumentTypeError(f"{text} must be at most {DEEPEST}")
    return int(text)


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text} must be different names with commas between them")
    return found


def hierarchy(text: str) -> Key:
    """A key in its own words."""
    try:
        return read_key(text)
    except (TypeError, ValueError) as error:  # about arguments: no data has been read
        raise argparse.ArgumentTypeError(str(error)) from None


def calendar_levels(text: str) -> tuple[str, ...]:
    """Parts of the calendar, from the coarsest."""
    found = names(text)
    if not set(found) <= set(PARTS) or list(found) != sorted(found, key=PARTS.index):
        raise argparse.ArgumentTypeError(f"{text} must be some of {','.join(PARTS)}, in this order")
    return found


def bound(text: str) -> int | Decimal | date:
    """A number, exactly as written, or a date or a time in the words of ISO 8601."""
    if re.match(r"[0-9]{4}-[0-9]{2}-", text):
        with suppress(ValueError):
            return datetime.fromisoformat(text) if len(text) > 10 else date.fromisoformat(text)
    amount = _decimal(text)
    return int(amount) if abs(amount) < 2**127 and amount == amount.to_integral_value() else amount


def width(text: str) -> int | Decimal | timedelta | date:
    """A number, or so many days (7d) or hours (6h)."""
    unit = {"d": timedelta(days=1), "h": timedelta(hours=1)}.get(text[-1:])
    return bound(text) if unit is None else min(count(text[:-1]), 10**6) * unit


def day(text: str) -> date:
    """A day, as ISO 8601 writes it."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} must be a day, such as 2026-03-09") from None


def _decimal(text: str) -> Decimal:
    # Python would also read 1_0, other scripts' digits, and spaces.
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text} must be a number")
    return Decimal(text)


def build_parser(version: str) -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="opendp-tree",
        description="Differentially private counts for every node of a hierarchy.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the ledger refuses, 4 no mechanism can do this, "
        "75 try again.",
    )
    parser.add_argument("--version", action="version", version=f"opendp-tree {version}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="plan | release | series | bounds | ledger | demo"
    )
    _add_plan(commands.add_parser("plan", help="the error of every mechanism, before anything is spent"))
    _add_release(commands.add_parser("release", help="count the rows of a file, privately"))
    _add_series(commands.add_parser("series", help="release the periods that are due, every night"))
    _add_bounds(commands.add_parser("bounds", help="what bounds on the rows of each person keep, privately"))
    _add_ledger(commands.add_parser("ledger", help="what was spent, on what, and what is left"))
    _add_demo(commands.add_parser("demo", help="plan and release public data, with the error next to the truth"))
    return parser


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.description = "The error of every mechanism for a hierarchy and a budget. No row is read."
    parser.add_argument("file", nargs="?", metavar="FILE", help="a file whose columns are the hierarchy")
    _add_hierarchy(parser, depth="levels of the tree, with its root; for --path, as far as paths count")
    _add_budget(parser)
    _add_counts(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_release(parser: argparse.ArgumentParser) -> None:
    parser.description = "Count the rows of a file at every node of a hierarchy, within a privacy budget."
    parser.add_argument("file", metavar="FILE", help="a Parquet or CSV file, one row a record")
    _add_hierarchy(parser, depth="for --path: levels of the tree, with its root (4)")
    _add_budget(parser)
    parser.add_argument("--method", choices=METHODS, default="auto", help="the mechanism (auto)")
    parser.add_argument(
        "--quantiles", type=shares, metavar="A,B", help="for --number: write these quantiles (0.1,0.5,0.9), not counts"
    )
    parser.add_argument("--confidence", type=share, default=Fraction("0.95"), metavar="C", help="of intervals (0.95)")
    sums = parser.add_argument_group("sums and means")
    sums.add_argument("--value", action="append", metavar="COLUMN", help="sum and average this column; may be repeated")
    sums.add_argument(
        "--bounds",
        action="append",
        nargs=2,
        type=number,
        metavar=("LOW", "HIGH"),
        help="of each --value: numbers beyond are clipped; not from the data",
    )
    unit = parser.add_argument_group("whose privacy")
    unit.add_argument("--unit", metavar="COLUMN", help="protect all rows with the same value here, not single rows")
    _add_counts(unit)
    unit.add_argument("--leaves-per-unit", type=count, metavar="G", help="keep rows of each in at most G leaves")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", required=True, metavar="OUT", help=".parquet, .csv, .json, .ndjson, .xlsx or -")
    out.add_argument("--output-format", choices=FORMATS, help="whatever the ending of OUT says")
    out.add_argument(
        "--spreadsheet-safe", action="store_true", help="in CSV: an apostrophe before labels that would run as formulas"
    )
    out.add_argument("--plot", metavar="HTML", help="draw the release, too")
    out.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    _add_ledger_options(parser)


def _add_counts(group: argparse._ActionsContainer) -> None:
    group.add_argument("--count", choices=COUNTS, default="rows", help="what of units is counted (rows)")
    group.add_argument(
        "--rows-per-unit", type=counts, metavar="K", help="weigh the rows of each down to K in all; or K,K,... by level"
    )
    group.add_argument(
        "--nodes-per-unit", type=counts, metavar="M", help="for people: weigh each down to M nodes; or M,M,... by level"
    )


def _add_ledger_options(parser: argparse.ArgumentParser) -> None:
    book = parser.add_argument_group("ledger")
    book.add_argument("--ledger", metavar="LEDGER", help="count this release there, or refuse it")
    total = book.add_mutually_exclusive_group()
    total.add_argument("--total-epsilon", type=positive, metavar="E", help="begin the ledger with this total")
    total.add_argument("--total-rho", type=concentrated, metavar="R", help="or with this one, for --rho")
    book.add_argument("--total-delta", type=share, metavar="D", help="and this one (0)")
    book.add_argument("--dataset", metavar="NAME", help="the data set that the ledger is for")


def _add_series(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Release every period of a table that is over and was not released yet, and write its file. A scheduler may "
        "run it at any time, again after a crash, and twice at once: every period is released and paid for once."
    )
    parser.epilog = "Exit codes as ever, and 75: try again later (a file is locked, or the source is not there)."
    parser.add_argument("action", choices=("run",), help="release what is due")
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, or JSON")
    parser.add_argument("--today", type=day, metavar="DATE", help="take this day for today, as 2026-03-09")


def _add_ledger(parser: argparse.ArgumentParser) -> None:
    parser.description = "What a ledger counts: each release, their sum, and what is left. Nothing is written."
    parser.add_argument("file", metavar="LEDGER", help="the file that releases were counted in")
    parser.add_argument("--release", type=count, metavar="ENTRY", help="print this entry's release, as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.description = "What each bound on the rows of a person would keep of a file, for a small budget."
    parser.add_argument("file", metavar="FILE", help="a Parquet or CSV file, one row a record")
    parser.add_argument("--format", choices=INPUTS, help="of FILE, whatever its ending says")
    parser.add_argument("--unit", required=True, metavar="COLUMN", help="the column that tells people apart")
    parser.add_argument(
        "--most", type=count, required=True, metavar="K", help="the largest bound of interest, from 2; a public number"
    )
    parser.add_argument(
        "--epsilon", type=positive, default=Fraction("0.05"), metavar="E", help="what the report costs (0.05)"
    )
    parser.add_argument("--confidence", type=share, default=Fraction("0.95"), metavar="C", help="of intervals (0.95)")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="OUT", help=".parquet, .csv, .json, .ndjson or .xlsx")
    out.add_argument("--output-format", choices=FORMATS, help="whatever the ending of OUT says")
    out.add_argument("--plot", metavar="HTML", help="draw the report, too")
    out.add_argument("--quiet", action="store_true", help="show no progress")
    _add_ledger_options(parser)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = "Plan and release the flights that left New York City in 2013, next to the truth."
    parser.add_argument("--epsilon", type=positive, default=Fraction(1), metavar="E", help="the budget (1)")
    parser.add_argument("--delta", type=share, default=Fraction("1e-6"), metavar="D", help="the budget's delta (1e-6)")
    parser.add_argument("--plot", default="flights.html", metavar="HTML", help="the picture (flights.html)")


def _add_hierarchy(parser: argparse.ArgumentParser, *, depth: str) -> None:
    group = parser.add_argument_group("hierarchy")
    group.add_argument(
        "--by",
        type=hierarchy,
        metavar="A,B,C",
        help="columns from the coarsest, then other keys: 'country, ip(address, version=6)'",
    )
    kinds = group.add_mutually_exclusive_group()
    kinds.add_argument("--path", metavar="COLUMN", help="a column of paths, such as a/b/c")
    kinds.add_argument("--url", metavar="COLUMN", help="a column of web addresses: hosts, then paths")
    kinds.add_argument("--ip", metavar="COLUMN", help="a column of IP addresses")
    kinds.add_argument("--calendar", metavar="COLUMN", help="a column of dates or times, by parts of the calendar")
    kinds.add_argument("--number", metavar="COLUMN", help="a column of numbers, dates or times, in ranges")
    group.add_argument("--depth", type=levels, metavar="N", help=depth)
    group.add_argument("--separator", metavar="TEXT", help="for --path: what is between labels (/)")
    group.add_argument("--ip-version", choices=("4", "6", "both"), help="for --ip (4)")
    group.add_argument("--stride", type=count, metavar="BITS", help="for --ip: bits a level (8; for IPv6 16)")
    group.add_argument(
        "--levels", type=calendar_levels, metavar="PARTS", help=f"for --calendar (year,month,day): {','.join(PARTS)}"
    )
    group.add_argument("--low", type=bound, metavar="X", help="for --number: where ranges begin, a public number")
    group.add_argument("--high", type=bound, metavar="Y", help="for --number: where they end")
    group.add_argument("--bins", type=count, metavar="N", help="for --number: how many ranges")
    group.add_argument("--width", type=width, metavar="W", help="for --number: how wide they are (10, 0.5, 7d, 6h)")
    group.add_argument("--branching", type=count, metavar="B", help="for --number: ranges in a range (up to 16)")
    group.add_argument(
        "--outside",
        choices=("leaf", "drop", "ends"),
        help="rows with no place: a leaf of their own (leaf), nowhere, or for --number the first and the last range",
    )
    group.add_argument("--nodes", choices=("public", "open"), help="whether all nodes are known (open)")
    group.add_argument("--tree", metavar="FILE", help="for public nodes: a file with the same columns that lists them")
    group.add_argument("--format", choices=INPUTS, help="of FILE, whatever its ending says")


def _add_budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("budget")
    loss = group.add_mutually_exclusive_group(required=True)
    loss.add_argument("--epsilon", type=positive, metavar="E", help="the privacy loss")
    loss.add_argument("--rho", type=concentrated, metavar="R", help="the loss in zero-concentrated privacy, instead")
    group.add_argument("--delta", type=share, default=Fraction(0), metavar="D", help="the chance of more (0)")
    group.add_argument(
        "--alpha", type=share, default=Fraction("0.1"), metavar="A", help="relative error forgiven (0.1)"
    )
