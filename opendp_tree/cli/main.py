"""From arguments to an exit code."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from opendp.mod import enable_features

from opendp_tree._show import one_line
from opendp_tree.cli import commands, demo, series
from opendp_tree.cli.options import build_parser
from opendp_tree.cli.terminal import CommandError, Exit, drop_output, flush_output, open_streams
from opendp_tree.ledger import BudgetError, LedgerError, LockedError

__all__ = ["main"]

RUN = {
    "plan": commands.run_plan,
    "release": commands.run_release,
    "series": series.run_series,
    "bounds": commands.run_bounds,
    "ledger": commands.run_ledger,
    "demo": demo.run_demo,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one line that holds no data; there are no tracebacks."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        open_streams()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = _run(words)
            flush_output()
            return code
    except SystemExit:
        raise
    except BrokenPipeError:
        drop_output()  # nobody reads on
        return int(Exit.FAILURE)
    except BaseException as error:  # a panic of Polars is not an Exception
        code, message = _explain(error)
        _print_error(code, message, as_json="--json" in words)
        return int(code)


def _run(words: Sequence[str]) -> int:
    from opendp_tree import __version__

    options = build_parser(__version__).parse_args(words)
    enable_features("contrib")
    return int(RUN[options.command](options))


def _explain(error: BaseException) -> tuple[Exit, str]:
    """The exit code and the message of an error."""
    if isinstance(error, CommandError):
        return error.code, str(error)
    if isinstance(error, LedgerError):
        codes = {BudgetError: Exit.BUDGET, LockedError: Exit.AGAIN}
        return codes.get(type(error), Exit.FAILURE), str(error)
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED, "interrupted"
    if isinstance(error, OSError):
        what = error.strerror or type(error).__name__
        hint = "check the name and the permissions of the file and its folder"
        return Exit.FAILURE, f"{error.filename or 'a file'}: {what}. Hint: {hint}"
    # Not the message: it may hold data.
    return Exit.FAILURE, f"unexpected error ({type(error).__name__}). Hint: please report it"


def _print_error(code: Exit, message: str, *, as_json: bool) -> None:
    with suppress(OSError):  # the exit code says it, too
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        line = (
            json.dumps({"exit_code": int(code), "error": message}) if as_json else f"opendp-tree: {one_line(message)}"
        )
        print(f"{clear}{line}", file=sys.stderr)
