"""Work on parts side by side. NumPy and Polars let other threads of Python run while they compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from opendp_tree._interrupts import stop_if_interrupted

Item = TypeVar("Item")
Result = TypeVar("Result")

__all__ = ["side_by_side", "usable_cores"]

_MOST = 8  # each holds the memory of one piece of work, and Python's own steps run one by one


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What the work makes of each item, in their order, by as many threads as there are cores, up to eight."""
    threads = min(usable_cores(), len(items), _MOST)
    if threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, item) for item in items]
        found = []
        try:
            for each in waiting:
                stop_if_interrupted()
                found.append(each.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
