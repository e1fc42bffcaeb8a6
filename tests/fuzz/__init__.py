"""Random hostile input, by seed. Each module of this folder with a function of (seed, cases) is a subject.

Such a function tries that many cases, raises on the first violation, and gives how many it tried. `subjects` finds
them, so that a new module joins `make fuzz` and the short run of `make test` by being here.
"""

import importlib
import inspect
import pkgutil
import random
from contextlib import contextmanager


def subjects():
    """Every subject by its module's name."""
    found = {}
    for _, name, _ in pkgutil.iter_modules(__path__):
        if name.startswith(("_", "test_")):
            continue
        module = importlib.import_module(f"{__name__}.{name}")
        functions = [
            value
            for value in vars(module).values()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and takes_seed_and_cases(value)
        ]
        if functions:
            (found[name],) = functions
    return found


def takes_seed_and_cases(function):
    return list(inspect.signature(function).parameters)[:2] == ["seed", "cases"]


def case_random(seed, case):
    """The randomness of one case, whatever cases came before it."""
    return random.Random(f"{seed}:{case}")


class Violation(AssertionError):  # noqa: N818 - it is what a case did
    """What a case did that none may do."""


@contextmanager
def reported(seed, case):
    """Name the seed and the case of whatever is raised, so that it can be tried again."""
    try:
        yield
    except BaseException as error:
        raise Violation(f"seed {seed}, case {case}: {type(error).__name__}: {error}") from error
