"""The arguments of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

from opendp_tree.budget import EPSILONS, RHOS
from opendp_tree.cli.terminal import CommandError, Exit
from opendp_tree.keys.key import Key
from opendp_tree.keys.text import read_key
from opendp_tree.planning.methods import METHODS
from opendp_tree.releases.curve import check_quantiles
from opendp_tree.releases.writing import FORMATS
from opendp_tree.rows.unit import COUNTS

__all__ = ["build_parser"]

INPUTS = ("parquet", "csv")
ENDINGS = ", ".join(f".{form}" for form in FORMATS)


class Parser(argparse.ArgumentParser):
    """Raises instead of printing two lines."""

    def error(self, message: str) -> NoReturn:
        """An error in the arguments."""
        hint = "" if " Hint: " in message else f". Hint: {self.prog} --help"
        raise CommandError(Exit.USAGE, f"{message}{hint}")


def decimal(text: str) -> Decimal:
    """A plain decimal; Python would also read 1_0, digits of other scripts, and spaces."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text} must be a number")
    return Decimal(text)


def number(text: str) -> float:
    """Any number."""
    return float(decimal(text))


def amount(limits: tuple[float, float]) -> Callable[[str], Fraction]:
    """A reader of positive numbers within limits, exactly as written."""

    def read(text: str) -> Fraction:
        value = decimal(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} must be a positive number")
        if not limits[0] <= value <= limits[1]:
            raise argparse.ArgumentTypeError(f"{text} must be from {limits[0]:g} to {limits[1]:g}")
        return Fraction(value)

    return read


def probability(text: str) -> Fraction:
    """A number from 0 to below 1, exactly as written."""
    value = decimal(text)
    if not (value == 0 or 1e-300 <= value < 1):
        raise argparse.ArgumentTypeError(f"{text} must be at least 0 and below 1")
    return Fraction(value)


def quantiles(text: str) -> tuple[float, ...]:
    """Numbers from 0 to 1, separated by commas."""
    try:
        return tuple(float(each) for each in check_quantiles([number(part.strip()) for part in text.split(",")]))
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"{text} must be numbers from 0 to 1, separated by commas") from None


def count(text: str) -> int:
    """An integer from 1."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number, 1 or more")
    return int(text)


def counts(text: str) -> int | tuple[int, ...]:
    """An integer from 1, or several separated by commas."""
    values = tuple(count(part.strip()) for part in text.split(","))
    return values[0] if len(values) == 1 else values


def day(text: str) -> date:
    """A day, as ISO 8601 writes it."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} must be a day, such as 2026-03-09") from None


def hierarchy(text: str) -> Key:
    """A key in its own words."""
    try:
        return read_key(text)
    except (TypeError, ValueError) as error:  # about arguments: no data has been read
        raise argparse.ArgumentTypeError(str(error)) from None


def build_parser(version: str) -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="opendp-tree",
        description="Differentially private counts for every node of a hierarchy.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 budget exceeded, 4 not possible with this budget, "
        "75 try again later, 130 interrupted, 143 terminated.",
    )
    parser.add_argument("--version", action="version", version=f"opendp-tree {version}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="plan | release | series | bounds | ledger | demo"
    )
    _add_plan(commands.add_parser("plan", help="the error of a release, before anything is read or spent"))
    _add_release(commands.add_parser("release", help="count the rows of a file privately"))
    _add_series(commands.add_parser("series", help="release the periods that are due, every night"))
    _add_bounds(commands.add_parser("bounds", help="what share of the rows each bound per person keeps, privately"))
    _add_ledger(commands.add_parser("ledger", help="what was spent, on what, and what is left"))
    _add_demo(commands.add_parser("demo", help="plan and release public data, and compare with the true counts"))
    return parser


def _option(group: Any, words: str, help: str, **more: Any) -> None:
    """An option from its flags and the names of its values, such as "-o --output OUT"."""
    flags, names = (tuple(w for w in words.split() if w.startswith("-") == is_flag) for is_flag in (True, False))
    group.add_argument(*flags, metavar=names if len(names) > 1 else names[0], help=help, **more)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.description = "The error of every mechanism for a release. Takes all options of release; reads no rows."
    parser.add_argument("file", nargs="?", metavar="FILE", help="its columns are checked if it is given")
    _add_what(parser)
    _add_summary(_add_output(parser, required=False), json="print the plan as JSON")
    _add_ledger_options(parser)


def _add_release(parser: argparse.ArgumentParser) -> None:
    parser.description = "Count the rows of a file at every node of a hierarchy, within a privacy budget."
    parser.add_argument("file", metavar="FILE", help="a Parquet, CSV or Arrow IPC file, one record per row")
    _add_what(parser)
    _add_summary(_add_output(parser, required=True))
    _add_ledger_options(parser)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.description = "The share of the rows that each bound per person would keep, for a small budget."
    parser.add_argument("file", metavar="FILE", help="a Parquet, CSV or Arrow IPC file, one record per row")
    parser.add_argument("--format", choices=INPUTS, help="the format of FILE, whatever its ending")
    _option(parser, "--unit COLUMN", "the column that identifies people", required=True)
    _option(parser, "--most K", "the largest bound of interest, from 2; a public number", type=count, required=True)
    _option(parser, "--epsilon E", "the cost of the report (0.05)", type=amount(EPSILONS), default=Fraction("0.05"))
    _add_confidence(parser)
    out = parser.add_argument_group("output")
    _option(out, "-o --output OUT", f"{ENDINGS}; by default words on standard output")
    _add_files(out)
    _add_summary(out)
    _add_ledger_options(parser)


def _add_series(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Release every period of a table that is over and was not released yet, and write its file. A scheduler may "
        "run it at any time, again after a crash, and twice at once: every period is released and paid for once."
    )
    parser.add_argument("action", choices=("run",), help="release what is due")
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, or JSON")
    _option(parser, "--today DATE", "take this day for today, such as 2026-03-09", type=day)


def _add_ledger(parser: argparse.ArgumentParser) -> None:
    parser.description = "What a ledger counts: each release, their sum, and what is left. Nothing is written."
    parser.add_argument("file", metavar="LEDGER", help="the ledger's file")
    _option(parser, "--release ENTRY", "print the release of this entry as JSON", type=count)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = "Plan and release the flights that left New York City in 2013, next to the true counts."
    _option(parser, "--epsilon E", "the budget (1)", type=amount(EPSILONS), default=Fraction(1))
    _option(parser, "--delta D", "the budget's delta (1e-6)", type=probability, default=Fraction("1e-6"))
    _option(parser, "--plot HTML", "the picture (flights.html)", default="flights.html")


def _add_what(parser: argparse.ArgumentParser) -> None:
    """What is counted, for whom, and for how much: the same for plan and release."""
    key = parser.add_argument_group("hierarchy")
    examples = (
        "columns from the coarsest, then other keys: 'country, ip(address, version=6)', 'path(url)', "
        "'calendar(day, levels=(year, month))', 'number(age, low=0, high=100, bins=20)'"
    )
    _option(key, "--by KEY", examples, type=hierarchy, required=True)
    nodes = key.add_mutually_exclusive_group()
    _option(nodes, "--tree FILE", "all nodes are public: a file with the same columns lists them")
    _option(nodes, "--known FILE", "some nodes are public: such a file, or the JSON of an earlier release")
    _option(key, "--closed LEVELS", "nothing else exists down to these known levels: their names, or 'all'")
    outside = "count rows outside the tree at a leaf of their own (leaf), or not"
    key.add_argument("--outside", choices=("leaf", "drop"), help=outside)
    key.add_argument("--format", choices=INPUTS, help="the format of FILE, whatever its ending")
    budget = parser.add_argument_group("budget")
    loss = budget.add_mutually_exclusive_group(required=True)
    _option(loss, "--epsilon E", "the privacy loss", type=amount(EPSILONS))
    _option(loss, "--rho R", "the loss in zero-concentrated privacy, instead", type=amount(RHOS))
    chance, share = {"type": probability, "default": Fraction(0)}, {"type": probability, "default": Fraction("0.1")}
    _option(budget, "--delta D", "the probability that the loss exceeds epsilon (0)", **chance)
    _option(budget, "--alpha A", "the relative error that ranking mechanisms ignores (0.1)", **share)
    parser.add_argument("--method", choices=METHODS, default="auto", help="the mechanism (auto)")
    _option(parser, "--quantiles A,B", "for a number: write these quantiles instead of counts", type=quantiles)
    _add_confidence(parser)
    sums = parser.add_argument_group("sums and means")
    _option(sums, "--value COLUMN", "sum and average this column; may be repeated", action="append")
    clipped = "for each --value: values beyond are clipped; do not read these off the data"
    _option(sums, "--bounds LOW HIGH", clipped, action="append", nargs=2, type=number)
    unit = parser.add_argument_group("whose privacy")
    _option(unit, "--unit COLUMN", "protect all rows with the same value here, not single rows")
    unit.add_argument("--count", choices=COUNTS, help="what is counted per unit (rows)")
    _option(unit, "--rows-per-unit K", "down-weight the rows of each unit to K; or K,K,... by level", type=counts)
    _option(unit, "--nodes-per-unit M", "for people: down-weight each to M nodes; or M,M,... by level", type=counts)
    _option(unit, "--leaves-per-unit G", "keep rows of each unit in at most G leaves", type=count)


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    _option(parser, "--confidence C", "of intervals (0.95)", type=probability, default=Fraction("0.95"))


def _add_output(parser: argparse.ArgumentParser, *, required: bool) -> argparse._ArgumentGroup:
    out = parser.add_argument_group("output")
    _option(out, "-o --output OUT", f"{ENDINGS}, or - for CSV on the terminal", required=required)
    safe = "in CSV: an apostrophe before labels that would run as formulas"
    out.add_argument("--spreadsheet-safe", action="store_true", help=safe)
    _add_files(out)
    return out


def _add_files(out: argparse._ArgumentGroup) -> None:
    out.add_argument("--output-format", choices=FORMATS, help="the format of OUT, whatever its ending")
    _option(out, "--plot HTML", "draw a picture, too")


def _add_summary(
    out: argparse._ArgumentGroup, *, json: str = "write one line of JSON to standard error: the summary or the error"
) -> None:
    say = out.add_mutually_exclusive_group()
    say.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    say.add_argument("--verbose", action="store_true", help="show the summary even where no terminal is")
    say.add_argument("--json", action="store_true", help=json)


def _add_ledger_options(parser: argparse.ArgumentParser) -> None:
    book = parser.add_argument_group("ledger")
    _option(book, "--ledger LEDGER", "count this release there, or refuse it")
    total = book.add_mutually_exclusive_group()
    _option(total, "--total-epsilon E", "begin the ledger with this total", type=amount(EPSILONS))
    _option(total, "--total-rho R", "or with this one, for --rho", type=amount(RHOS))
    _option(book, "--total-delta D", "and this one (0)", type=probability)
    _option(book, "--dataset NAME", "the data set that the ledger is for")
