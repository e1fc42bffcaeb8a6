"""What is being done, told to whoever watches once it takes long: a terminal, or a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["StatusLine", "progress", "shows_progress"]

P = ParamSpec("P")
R = TypeVar("R")
LONG = 2.5
"""Seconds after which people wonder whether anything happens."""
_TICK = 1.0


class StatusLine:
    """One line on standard error that is written over and over; nothing at all where nobody watches."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.terminal = _is_terminal()
        self.shown = not quiet and (self.terminal or _is_notebook())
        self._width = 0

    def write(self, text: str) -> None:
        """Say this in place of what was said before."""
        self._put(text)

    def end(self, text: str = "") -> None:
        """Leave this behind instead; nothing by default."""
        self._put(text, end="\n" if text else "")

    def _put(self, text: str, end: str = "") -> None:
        if not self.shown:
            return
        # Notebooks know the return to the line's start, and no codes of terminals.
        clear = "\r\033[K" if self.terminal else "\r" + " " * self._width + "\r"
        self._width = len(text)
        with suppress(OSError, ValueError):  # nobody is there any more
            print(f"{clear}{text}", end=end, file=sys.stderr, flush=True)


class _Thread(threading.local):
    """Whether somebody further out tells already."""

    told = False


_thread = _Thread()


@contextmanager
def progress(text: str, *, after: float = LONG) -> Iterator[None]:
    """While inside, and once it takes long, tell what is being done and for how long. The outermost tells."""
    line = StatusLine()
    if _thread.told or not line.shown:
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(line, text, after, ended), daemon=True)
    _thread.told = True
    try:
        teller.start()
        yield
    finally:
        ended.set()
        teller.join()
        _thread.told = False


def shows_progress(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function tell that it is being run, once that takes long."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def told(*args: P.args, **kwargs: P.kwargs) -> R:
            with progress(text):
                return function(*args, **kwargs)

        return told

    return decorate


def _tell(line: StatusLine, text: str, after: float, ended: threading.Event) -> None:
    start = time.monotonic()
    if ended.wait(after):
        return
    while True:
        line.write(f"{text} ... {time.monotonic() - start:.0f} s")
        if ended.wait(_TICK):
            line.end()
            return


def _is_terminal() -> bool:
    try:
        return bool(sys.stderr is not None and sys.stderr.isatty())
    except ValueError:  # it is closed
        return False


def _is_notebook() -> bool:
    """Whether standard error goes to a notebook's page."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and hasattr(shell, "kernel")
