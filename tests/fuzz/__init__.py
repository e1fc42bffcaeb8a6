"""Random hostile input, by seed: `python -m tests.fuzz` lists and runs the subjects."""

import random
from contextlib import contextmanager


def case_random(seed, case):
    """The randomness of one case, independent of the cases before it."""
    return random.Random(f"{seed}:{case}")


class Violation(AssertionError):  # noqa: N818 - it is what a case did
    """What a case did that no case may do."""


@contextmanager
def reported(seed, case):
    """Name the seed and the case of whatever is raised, so that it can be tried again."""
    try:
        yield
    except BaseException as error:
        raise Violation(f"seed {seed}, case {case}: {type(error).__name__}: {error}") from error
