"""Ctrl-C while OpenDP runs: noted, and raised after OpenDP has returned.

OpenDP calls Python back through ctypes, which drops a `KeyboardInterrupt` and hands OpenDP a null pointer; an
interrupted conversion frees memory that Rust still owns. Either ends the process. So `guard` defers interrupts during
every call and every conversion, and `protected` defers anything else that a callback raises and that is not an
`Exception`. The previous handler gets the noted signals after the call. Only with Python's own handler is long work
stopped early, by `stop_if_interrupted`.
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
from types import FrameType, ModuleType
from typing import Any

__all__ = ["Interrupted", "deferred_interrupts", "guard", "heard", "interruptible", "protected", "stop_if_interrupted"]

Handler = Callable[[int, FrameType | None], Any]
_SIGINT = int(signal.SIGINT)


class Interrupted(Exception):  # noqa: N818 - a way out, not an error
    """Ends work inside OpenDP early. The interrupt itself is raised after OpenDP has returned."""


class _Thread(threading.local):
    """What a thread defers. Its handler replaces the previous one, and notes interrupts for it."""

    deferred = in_opendp = False
    previous: Handler | None = None
    raised: BaseException | None = None  # what a callback could not raise

    def hold(self) -> None:
        """Replace Python's handler, if there is one and this is the main thread."""
        self.frames: list[FrameType | None] = []
        if threading.current_thread() is threading.main_thread():
            previous = _signal.getsignal(_SIGINT)
            if callable(previous):
                _set_handler(lambda _, frame: self.frames.append(frame))
                self.previous = previous
        self.deferred = True

    def release(self) -> None:
        """Restore Python's handler, pass it the noted interrupts, and raise what a callback could not."""
        self.deferred = False
        previous, self.previous, raised, self.raised = self.previous, None, self.raised, None
        if previous is not None:
            _set_handler(previous)
            for frame in self.frames:
                try:
                    previous(_SIGINT, frame)
                except BaseException as stop:
                    raise stop from None
        if raised is not None:
            raise raised from None


_thread = _Thread()


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Note interrupts, here or in a decorated function, and raise them at the end of the outermost deferral."""
    if _thread.deferred:
        yield
        return
    _thread.hold()
    try:
        yield
    finally:
        _thread.release()


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside a deferral, but not inside OpenDP: let interrupts through again, where work may have to wait."""
    if not _thread.deferred or _thread.in_opendp:
        yield
        return
    try:
        _thread.release()
        yield
    finally:
        _thread.hold()


@contextmanager
def heard() -> Iterator[None]:
    """Where SIGINT is ignored, as after `&` in a shell, install Python's handler for other handlers to call."""
    previous = _signal.getsignal(_SIGINT)
    if previous != signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    _signal.signal(_SIGINT, previous)  # for the system, too: Polars has replaced it
    _set_handler(signal.default_int_handler)
    try:
        yield
    finally:
        _set_handler(previous)


def stop_if_interrupted() -> None:
    """Stop here, between two steps of long work, if a noted interrupt will end it in any case."""
    if _thread.deferred and _thread.frames and _thread.previous is signal.default_int_handler:
        raise Interrupted("interrupted")


def protected(callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A callback for OpenDP that only raises `Exception`; anything else is raised after OpenDP has returned."""

    @wraps(callback)
    def safe(argument: Any) -> Any:
        stop_if_interrupted()
        try:
            return callback(argument)
        except Exception:
            raise
        except BaseException as error:
            if type(error).__name__ == "PanicException":
                # A failure in Polars, whose message may contain data, and whose class no caller expects.
                raise RuntimeError("a panic inside Polars") from None
            if not _thread.deferred:  # not called by OpenDP
                raise
            _thread.raised = _thread.raised or error
            raise Interrupted(type(error).__name__) from None

    return safe


def guard(library: ctypes.CDLL, module: ModuleType, *conversions: str) -> None:
    """Defer interrupts in every call of a library, and in these functions of a module wherever its package uses one."""
    plain: Any = library._FuncPtr

    class Guarded(plain):  # type: ignore[misc]
        _flags_ = plain._flags_
        _restype_ = plain._restype_
        __call__ = _guarded(plain.__call__)

    library._FuncPtr = Guarded
    for name in [name for name, value in vars(library).items() if isinstance(value, plain)]:
        delattr(library, name)  # the next access makes a guarded one
    package = module.__name__.partition(".")[0]
    modules = [other for name, other in sys.modules.items() if name.partition(".")[0] == package]
    for name in conversions:
        conversion = getattr(module, name)
        guarded = _guarded(conversion)
        for other in modules:
            if vars(other).get(name) is conversion:
                setattr(other, name, guarded)


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with interrupts deferred. Calls inside it are not guarded again."""

    @wraps(call)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _thread.in_opendp:
            return call(*args, **kwargs)
        with deferred_interrupts():
            _thread.in_opendp = True
            try:
                return call(*args, **kwargs)
            finally:
                _thread.in_opendp = False

    return guarded


def _set_handler(handler: Handler) -> None:
    """Change Python's handler, but not the system's, which is that of Polars and also stops its queries."""
    if sys.platform == "win32":
        _signal.signal(_SIGINT, handler)
    else:
        _sigaction(_SIGINT, None, _action)
        _signal.signal(_SIGINT, handler)
        _sigaction(_SIGINT, _action, None)


if sys.platform != "win32":
    _sigaction = ctypes.CDLL(None).sigaction
    _sigaction.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    _action = ctypes.create_string_buffer(256)  # larger than any system's `struct sigaction`; for the main thread only
