"""The command `opendp-tree`: from arguments to an exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from opendp.mod import enable_features

from opendp_tree._show import one_line
from opendp_tree.cli import commands, series
from opendp_tree.cli.options import build_parser
from opendp_tree.cli.terminal import CommandError, Exit, drop_output, log_line, open_streams, print_bytes
from opendp_tree.ledger import BudgetError, LedgerError, LockedError, SettingsError

__all__ = ["main"]

RUN = {
    "plan": commands.run_plan,
    "release": commands.run_release,
    "series": series.run_series,
    "bounds": commands.run_bounds,
    "ledger": commands.run_ledger,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one line without data or a traceback."""
    from opendp_tree import __version__

    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        open_streams()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = build_parser(__version__).parse_args(words)
            enable_features("contrib")
            code = RUN[options.command](options)
            if sys.stdout is not None:
                print_bytes()
            return int(code)
    except SystemExit:
        raise
    except BrokenPipeError:
        drop_output()  # the reader has gone
        return int(Exit.FAILURE)
    except BaseException as error:  # a panic of Polars is not an Exception
        code, message = _explain(error)
        with suppress(OSError):  # the exit code still reports it
            clear = "\r\033[K" if sys.stderr.isatty() else ""
            record = log_line(code.name.lower(), error=message, exit_code=int(code))
            print(f"{clear}{record if '--json' in words else f'opendp-tree: {one_line(message)}'}", file=sys.stderr)
        return int(code)


def _explain(error: BaseException) -> tuple[Exit, str]:
    """The exit code and the message of an error."""
    if isinstance(error, CommandError):
        return error.code, str(error)
    if isinstance(error, LedgerError):
        codes = {BudgetError: Exit.BUDGET, LockedError: Exit.AGAIN, SettingsError: Exit.USAGE}
        return codes.get(type(error), Exit.FAILURE), str(error)
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED, "interrupted"
    if isinstance(error, OSError):
        what = error.strerror or type(error).__name__
        hint = "check the name and the permissions of the file and its folder"
        return Exit.FAILURE, f"{error.filename or 'a file'}: {what}. Hint: {hint}"
    # Not the message: it may contain data.
    return Exit.FAILURE, f"unexpected error ({type(error).__name__}). Hint: please report it"
