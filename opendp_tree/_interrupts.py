"""Ctrl-C beside OpenDP: noted while OpenDP runs, raised when it has returned.

OpenDP calls Python back through ctypes. There a `KeyboardInterrupt` cannot be raised: ctypes drops it and hands OpenDP
a null pointer, or OpenDP frees what Rust still owns, and the process dies. It may fall into our callback, and as well
into OpenDP's own conversion before and after it; even outside the call, a conversion that is broken off frees what it
only borrowed. So no interrupt is let in at all. `guard_library` makes every call of OpenDP's library wait with
interrupts, whoever makes it, and `guard_functions` every conversion. `protected` keeps whatever else a callback of ours
raises that is no `Exception`, until the call has returned. Work that takes long asks `stop_if_interrupted`.

What is noted goes to the handler that was installed before: by default it raises `KeyboardInterrupt`, in a script as in
a notebook. A handler of the user's own, such as asyncio's, is called as if the signal had come after the call, and the
call is not cut short for it. As anywhere in Python, an interrupt that falls into a finaliser is reported and ignored:
OpenDP has some, and only `interrupts_deferred` functions hold it back there, too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, at a cost for every call of OpenDP
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType, ModuleType, TracebackType
from typing import Any, ParamSpec, TypeVar

__all__ = [
    "Interrupted",
    "deferred_interrupts",
    "guard_functions",
    "guard_library",
    "interruptible",
    "interrupts_deferred",
    "protected",
    "stop_if_interrupted",
]

P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[int, FrameType | None], Any]


_SIGINT = int(signal.SIGINT)


class Interrupted(Exception):  # noqa: N818 - a way out, not an error
    """Ends work inside OpenDP early. The interrupt itself is raised once OpenDP has returned."""


class _Thread(threading.local):
    """The outermost deferral of each thread, if it is in one, and how many calls of OpenDP it is in."""

    deferral: deferred_interrupts | None = None
    calls = 0


_thread = _Thread()


class deferred_interrupts:  # noqa: N801 - used as a context manager
    """While inside, interrupts are noted; they are raised at the end of the outermost."""

    __slots__ = ("_nested", "frames", "previous", "raised")

    def __enter__(self) -> deferred_interrupts:
        self._nested = _thread.deferral is not None
        if not self._nested:
            self.previous: Handler | None = None
            self.frames: list[FrameType | None] = []
            self.raised: BaseException | None = None
            # Until the handler is changed an interrupt may be raised here; then nothing has been changed.
            self.install()
            _thread.deferral = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._nested:
            _thread.deferral = None
            self.restore()
            self.settle()

    def install(self) -> None:
        """Take the place of Python's handler, if there is one and this thread runs it."""
        if threading.current_thread() is threading.main_thread():
            previous = _signal.getsignal(_SIGINT)
            if callable(previous):
                _set_handler(self._note)
                self.previous = previous

    def restore(self) -> None:
        """Give Python's handler back its place."""
        if self.previous is not None:
            _set_handler(self.previous)

    def settle(self) -> None:
        """Hand on what was noted, and raise what a callback could not."""
        frames, self.frames = self.frames, []
        for frame in frames:
            assert self.previous is not None
            try:
                self.previous(_SIGINT, frame)
            except BaseException as stop:
                raise stop from None
        if self.raised is not None:
            raise self.raised from None

    def must_stop(self) -> bool:
        """Whether an interrupt is waiting that will end the work in any case."""
        return bool(self.frames) and self.previous is signal.default_int_handler

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.frames.append(frame)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside a deferral: let interrupts through again, where something may have to wait for others."""
    deferral = _thread.deferral
    if deferral is None or _thread.calls:
        yield
        return
    _thread.deferral = None
    try:
        deferral.restore()
        deferral.settle()
        yield
    finally:
        deferral.install()
        _thread.deferral = deferral


def stop_if_interrupted() -> None:
    """Stop here if an interrupt is waiting: between two steps of long work."""
    deferral = _thread.deferral
    if deferral is not None and deferral.must_stop():
        raise Interrupted("interrupted")


def interrupts_deferred(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with interrupts raised when it is done or has stopped early."""

    @wraps(function)
    def deferring(*args: P.args, **kwargs: P.kwargs) -> R:
        with deferred_interrupts():
            return function(*args, **kwargs)

    return deferring


def protected(callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A callback for OpenDP that raises nothing but `Exception`; the rest is raised when OpenDP has returned."""

    @wraps(callback)
    def safe(argument: Any) -> Any:
        stop_if_interrupted()
        try:
            return callback(argument)
        except Exception:
            raise
        except BaseException as error:
            deferral = _thread.deferral
            if type(error).__name__ == "PanicException":
                # Rust's own failure, in Polars. Its text may hold data, and its kind is one that no caller expects.
                raise RuntimeError("a panic inside Polars") from None
            if deferral is None:  # not called by OpenDP
                raise
            deferral.raised = deferral.raised or error
            raise Interrupted(type(error).__name__) from None

    return safe


def guard_library(library: ctypes.CDLL) -> None:
    """Let every call of a library's functions defer interrupts. Calling it again changes nothing."""
    plain: Any = library._FuncPtr
    if hasattr(plain, "defers_interrupts"):
        return

    class Guarded(plain):  # type: ignore[misc]
        _flags_ = plain._flags_
        _restype_ = plain._restype_
        defers_interrupts = True

        def __call__(self, *args: Any) -> Any:
            with deferred_interrupts():
                _thread.calls += 1
                try:
                    return super().__call__(*args)
                finally:
                    _thread.calls -= 1

    library._FuncPtr = Guarded
    for name in [name for name, value in vars(library).items() if isinstance(value, plain)]:
        delattr(library, name)  # found anew, and guarded, when next asked for


def guard_functions(module: ModuleType, *names: str) -> None:
    """Let functions of a module defer interrupts, in all modules of its package that have imported them."""
    package = module.__name__.partition(".")[0]
    for name in names:
        plain = getattr(module, name)
        if hasattr(plain, "__wrapped__"):
            continue
        guarded = interrupts_deferred(plain)
        for place, other in list(sys.modules.items()):
            if place.partition(".")[0] == package and vars(other).get(name) is plain:
                setattr(other, name, guarded)


if sys.platform == "win32":

    def _set_handler(handler: Handler) -> None:
        _signal.signal(_SIGINT, handler)
else:
    _sigaction = ctypes.CDLL(None).sigaction
    _sigaction.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    _action = ctypes.create_string_buffer(256)  # larger than any system's `struct sigaction`; for the main thread only

    def _set_handler(handler: Handler) -> None:
        """Change Python's handler, and leave the system's as it is.

        Polars puts one there that also stops its queries and then calls Python's; Python would remove it.
        """
        _sigaction(_SIGINT, None, _action)
        _signal.signal(_SIGINT, handler)
        _sigaction(_SIGINT, _action, None)
