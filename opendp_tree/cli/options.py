"""The arguments of the command line: one table for all commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Any, NoReturn, TypeVar

from opendp_tree.cli.terminal import CommandError
from opendp_tree.keys.key import Key
from opendp_tree.keys.text import read_key
from opendp_tree.planning.methods import METHODS
from opendp_tree.releases.curve import check_quantiles
from opendp_tree.releases.writing import FORMATS
from opendp_tree.rows.period import Period
from opendp_tree.rows.unit import COUNTS

T = TypeVar("T")
INPUTS = ("parquet", "csv")
ENDINGS = ", ".join(f".{form}" for form in FORMATS)


class Parser(argparse.ArgumentParser):
    """Raises instead of printing two lines."""

    def error(self, message: str) -> NoReturn:
        """An error in the arguments."""
        hint = "" if " Hint: " in message else f". Hint: {self.prog} --help"
        raise CommandError(f"{message}{hint}")


def reader(read: Callable[[str], T], expected: str, form: str = ".*") -> Callable[[str], T]:
    """A reader of arguments that match a regular expression; its error says what was expected."""

    def checked(text: str) -> T:
        """What the text stands for."""
        with suppress(ValueError):
            if re.fullmatch(form, text):
                return read(text)
        point = text.replace(",", ".")
        hint = f". Hint: with a decimal point: {point}" if point != text and re.fullmatch(form, point) else ""
        raise argparse.ArgumentTypeError(f"{text} must be {expected}{hint}")

    return checked


def hierarchy(text: str) -> Key:
    """A key; an error is that of the library."""
    try:
        return read_key(text)
    except (TypeError, ValueError) as error:  # about arguments: no data has been read
        raise argparse.ArgumentTypeError(str(error)) from None


def within(low: float, high: float, text: str) -> str:
    """A decimal within limits, as it is written: a ledger adds it exactly."""
    if not low <= float(text) < high:
        raise ValueError
    return text


def past_day(text: str) -> date:
    """A day that is not in the future, when periods would be released before they are over."""
    if (day := date.fromisoformat(text)) > Period.today():
        raise ValueError
    return day


# Python would also read 1_0, digits of other scripts, and spaces.
_DECIMAL, _WHOLE = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", "0*[1-9][0-9]{0,17}"
number = reader(float, "a number", _DECIMAL)
total = reader(partial(within, 1e-300, 1e300), "a positive number", _DECIMAL)
total_delta = reader(partial(within, 0, 1), "a number of at least 0 and below 1", _DECIMAL)
quantiles = reader(
    lambda text: check_quantiles([float(part) for part in text.split(",")]),
    "numbers from 0 to 1, separated by commas",
    f"{_DECIMAL}( *, *{_DECIMAL})*",
)
count = reader(int, "a whole number, 1 or more", _WHOLE)
counts = reader(
    lambda text: tuple(map(int, text.split(","))) if "," in text else int(text),
    "a whole number, 1 or more, or several separated by commas",
    f"{_WHOLE}( *, *{_WHOLE})*",
)
day = reader(past_day, "a day such as 2026-03-09, and not after today")


def option(words: str, help: str, **more: Any) -> tuple[list[str], bool, dict[str, Any]]:
    """Flags and names of values; whether it excludes other options of its group that have a "|", too; all else."""
    flags = [word for word in words.split() if word == word.lower() and word != "|"]
    names = tuple(word for word in words.split() if word != word.lower())
    if names:
        more["metavar"] = names[0] if len(names) == 1 else names
    elif "choices" not in more:
        more["action"] = "store_true"
    return flags, words.startswith("| "), {"help": help, **more}


COMMANDS = {
    "plan": "the error of every mechanism for a release, before anything is read or spent; takes the same options",
    "release": "count the rows of a file privately, at every node of a hierarchy",
    "series": "release every period of a table that is over, once; for a scheduler, every night",
    "bounds": "what share of the rows each bound per person keeps, privately, for a small budget",
    "ledger": "what was spent, on what, and what is left; nothing is written",
}
_KEYS = (
    "columns from the coarsest, then other keys: 'country, ip(address, version=6)', 'path(url)', "
    "'calendar(day, levels=(year, month))', 'number(age, low=0, high=100, bins=20)'"
)
_ROWS = "a Parquet, CSV or Arrow IPC file, one record per row"
_OUT = f"{ENDINGS}, or - for CSV on the terminal"
_CLIPPED = "for each --value: values beyond are clipped; do not read these off the data"
_OPTIONS = {
    ("", "plan"): [option("file FILE", "its columns are checked if it is given", nargs="?")],
    ("", "release bounds"): [option("file FILE", _ROWS)],
    ("", "bounds"): [
        option("--unit COLUMN", "the column that identifies people", required=True),
        option("--most K", "the largest bound of interest, from 2; a public number", type=count, required=True),
        option("--epsilon E", "the cost of the report (0.05)", type=number, default=0.05),
    ],
    ("", "ledger"): [
        option("file LEDGER", "the ledger's file"),
        option("--release ENTRY", "print the release of this entry as JSON, or write it to OUT", type=count),
        option("-o --output OUT", f"{ENDINGS}; only with --release"),
        option("--json", "print JSON"),
    ],
    ("", "series"): [
        option("action", "release what is due", choices=("run",)),
        option("config CONFIG", "a TOML file, or JSON"),
        option("--ready PATTERN", "wait for this file before a period: 'in/{period}.ready', relative to CONFIG"),
        option("--most N", "release at most so many periods in this run, the oldest first", type=count),
        option("--dry-run", "print what is due and what it would cost; read no rows, and spend nothing"),
        option("--today DATE", "run as on this earlier day, such as 2026-03-09", type=day),
        option("--json", "write errors as lines of JSON, too"),
    ],
    ("hierarchy", "plan release"): [
        option("--by KEY", _KEYS, type=hierarchy, required=True),
        option("| --tree FILE", "all nodes are public: a file with the same columns lists them"),
        option("| --known FILE", "some nodes are public: such a file, or the JSON of an earlier release"),
        option("--closed LEVELS", "nothing else exists down to these known levels: their names, or 'all'"),
        option("--outside", "count rows outside the tree at a leaf of their own, or not", choices=("leaf", "drop")),
    ],
    ("budget", "plan release"): [
        option("| --epsilon E", "the privacy loss", type=number),
        option("| --rho R", "the loss in zero-concentrated privacy, instead", type=number),
        option("--delta D", "the probability that the loss exceeds epsilon (0)", type=number, default=0),
        option("--alpha A", "the relative error that ranking ignores (0.1)", type=number, default=0.1),
    ],
    ("", "plan release"): [
        option("--method", "the mechanism (auto)", choices=METHODS, default="auto"),
        option("--nonnegative", "no estimate is negative; only with --method auto"),
        option("--integers", "estimates are whole and still add up; only with --method auto"),
        option("--quantiles A,B", "for a number: write these quantiles instead of counts", type=quantiles),
    ],
    ("", "plan release bounds"): [
        option("--format", "the format of FILE, whatever its ending", choices=INPUTS),
        option("--confidence C", "of intervals (0.95)", type=number, default=0.95),
    ],
    ("sums and means", "plan release"): [
        option(
            "--value COLUMN",
            "sum and average this column; CSV texts that are no number are null; may be repeated",
            action="append",
            default=[],
        ),
        option("--bounds LOW HIGH", _CLIPPED, action="append", default=[], nargs=2, type=number),
    ],
    ("whose privacy", "plan release"): [
        option("--unit COLUMN", "protect all rows with the same value here, not single rows"),
        option("--count", "what is counted per unit (rows)", choices=COUNTS),
        option("--rows-per-unit K", "down-weight the rows of each unit to K; or K,K,... by level", type=counts),
        option("--nodes-per-unit M", "for people: down-weight each to M nodes; or M,M,... by level", type=counts),
        option("--leaves-per-unit G", "keep rows of each unit in at most G leaves", type=count),
    ],
    ("output", "plan"): [option("-o --output OUT", _OUT)],
    ("output", "release"): [option("-o --output OUT", _OUT, required=True)],
    ("output", "bounds"): [option("-o --output OUT", f"{ENDINGS}; by default words on standard output")],
    ("output", "plan release"): [
        option("--spreadsheet-safe", "in CSV: an apostrophe before labels that would run as formulas"),
    ],
    ("output", "plan release bounds"): [
        option("--output-format", "the format of OUT, whatever its ending", choices=FORMATS),
        option("--plot HTML", "draw a picture, too"),
        option("| --quiet", "show no progress and no summary"),
        option("| --verbose", "show the summary even if the output is not a terminal"),
        option("| --json", "print a plan as JSON; write the summary or the error as one line of it to standard error"),
    ],
    ("ledger", "plan release bounds"): [
        option("--ledger LEDGER", "count this release there, or refuse it"),
        option("| --total-epsilon E", "begin the ledger with this total", type=total),
        option("| --total-rho R", "or with this one, for --rho", type=total),
        option("--total-delta D", "and this one (0)", type=total_delta),
        option("--dataset NAME", "the data set that the ledger is for"),
    ],
}
"""All options, by their group and the commands that take them."""


def build_parser(version: str) -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="opendp-tree",
        description="Differentially private counts for every node of a hierarchy.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 budget exceeded, 4 not possible with this budget, "
        "75 try again later, 130 interrupted, 143 terminated.",
    )
    parser.add_argument("--version", action="version", version=f"opendp-tree {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar=" | ".join(COMMANDS))
    for name, words in COMMANDS.items():
        command = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        groups: dict[Any, Any] = {"": command}
        for (title, takers), options in _OPTIONS.items():
            if name not in takers.split():
                continue
            if title not in groups:
                groups[title] = command.add_argument_group(title)
            for flags, excludes, more in options:
                if excludes and (title, "|") not in groups:
                    groups[title, "|"] = groups[title].add_mutually_exclusive_group(required=title == "budget")
                groups[(title, "|") if excludes else title].add_argument(*flags, **more)
    commands.choices["bounds"].set_defaults(tree=None, known=None, quantiles=None, spreadsheet_safe=False, delta=0)
    return parser
