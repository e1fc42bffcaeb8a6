"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from errno import EINVAL
from pathlib import Path
from time import time_ns

__all__ = ["PendingFile"]


class PendingFile:
    """A file that replaces its target only when it is complete."""

    def __init__(self, target: str | Path) -> None:
        self.target = Path(os.path.realpath(target))
        if self.target.exists() and not self.target.is_file():
            raise OSError(EINVAL, "not a regular file", str(target))
        try:
            self._descriptor, self._beside = _create_beside(self.target)
        except OSError as error:  # its message names the hidden file
            raise OSError(error.errno, error.strerror, str(target)) from None
        self._open = True

    def __enter__(self) -> PendingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._beside.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._descriptor)

    def commit(self, content: bytes) -> None:
        """Replace the target by this content, and wait until it is on the disk."""
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fsync(self._descriptor)
        self._close()  # Windows cannot move an open file
        os.replace(self._beside, self.target)
        if os.name == "posix":
            folder = os.open(self.target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # where the new name is
            finally:
                os.close(folder)


def _create_beside(target: Path) -> tuple[int, Path]:
    """A new hidden file in the target's folder, with the permissions of the target if that exists."""
    old = target.stat() if target.exists() else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    beside = target.with_name(f".{target.name}.{os.getpid()}-{time_ns()}.part")
    descriptor = os.open(beside, flags, 0o666 if old is None else 0o600)
    if old is not None and os.name == "posix":
        mode = old.st_mode & 0o777
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except OSError:
            mode &= ~0o070  # a group that cannot be set gets no permissions
        os.fchmod(descriptor, mode)
    return descriptor, beside
