"""From arguments to an exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from opendp.mod import enable_features

from opendp_tree._show import one_line
from opendp_tree.cli.parser import build_parser
from opendp_tree.cli.terminal import CommandError, Exit, drop_output, flush_output, open_streams
from opendp_tree.ledger import BudgetError, LedgerError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one line that holds no data; there are no tracebacks."""
    try:
        open_streams()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = _run(arguments)
            flush_output()
            return code
    except CommandError as failure:
        return _fail(failure.code, str(failure))
    except BudgetError as error:
        return _fail(Exit.BUDGET, str(error))
    except LedgerError as error:
        return _fail(Exit.FAILURE, str(error))
    except KeyboardInterrupt:
        return _fail(Exit.INTERRUPTED, "interrupted")
    except BrokenPipeError:
        drop_output()  # nobody reads on
        return int(Exit.FAILURE)
    except OSError as error:
        what = error.strerror or type(error).__name__
        return _fail(
            Exit.FAILURE, f"{error.filename or 'a file'}: {what}. Hint: check the name, and who may write there"
        )
    except SystemExit:
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        # Not the message: it may hold data.
        return _fail(Exit.FAILURE, f"an unforeseen error ({type(error).__name__}). Hint: please report it")


def _run(arguments: Sequence[str] | None) -> int:
    from opendp_tree import __version__

    options = build_parser(__version__).parse_args(arguments)
    enable_features("contrib")
    module = import_module(f"opendp_tree.cli.{options.command}")
    return int(getattr(module, f"run_{options.command}")(options))


def _fail(code: Exit, message: str) -> int:
    with suppress(OSError):  # the exit code says it, too
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{clear}opendp-tree: {one_line(message)}", file=sys.stderr)
    return int(code)
