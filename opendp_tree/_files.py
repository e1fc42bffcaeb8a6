"""Files that are whole or untouched, whatever happens while they are written."""

from __future__ import annotations

import os
from errno import EINVAL
from pathlib import Path
from types import TracebackType

__all__ = ["PendingFile", "append", "sync_folder"]


class PendingFile:
    """A file that takes its place only when it is complete."""

    def __init__(self, target: str | Path) -> None:
        self.target = Path(os.path.realpath(target))
        if self.target.exists() and not self.target.is_file():
            raise OSError(EINVAL, "not a regular file", str(target))
        try:
            self._descriptor, self._beside = _create_beside(self.target)
        except OSError as error:  # which names the hidden file
            raise OSError(error.errno, error.strerror, str(target)) from None
        self._open = self._there = True

    def __enter__(self) -> PendingFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._there:
            self._beside.unlink(missing_ok=True)  # an interrupt may fall between the move and its note

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._descriptor)

    def commit(self, content: bytes) -> None:
        """Put the content in place of what was there, if anything."""
        append(self._descriptor, content)
        self._close()  # Windows moves no open file
        os.replace(self._beside, self.target)
        self._there = False
        sync_folder(self.target.parent)


def append(descriptor: int, content: bytes) -> None:
    """Write all of the content and wait until it is on the disk."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until a file's new name is on the disk, where the system can say so."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _create_beside(target: Path) -> tuple[int, Path]:
    """A new hidden file in the target's folder: a rename within a folder is one step."""
    old = target.stat() if target.exists() else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number = 0
    while True:
        beside = target.with_name(f".{target.name}.{os.getpid()}-{number}.part")
        try:
            descriptor = os.open(beside, flags, 0o666 if old is None else 0o600)
        except FileExistsError:  # left by a killed process that had this number
            number += 1
            continue
        if old is not None and os.name == "posix":
            _copy_mode(descriptor, old)
        return descriptor, beside


def _copy_mode(descriptor: int, old: os.stat_result) -> None:
    """Let those read and write who could before. A group that cannot be given loses its rights."""
    mode = old.st_mode & 0o777
    try:
        os.fchown(descriptor, -1, old.st_gid)
    except OSError:
        mode &= ~0o070
    os.fchmod(descriptor, mode)
