"""How much is tried: a part in `make test`, everything in `make test-slow`."""

import pytest
from hypothesis import settings

QUICK, WHOLE = "quick", "whole"
settings.register_profile(QUICK, derandomize=True, deadline=None, max_examples=30)
settings.register_profile(WHOLE, derandomize=True, deadline=None, max_examples=100)


def examples(limit):
    """This number of Hypothesis examples in `make test-slow`, and three tenths of it in `make test`."""
    return settings(max_examples=max(1, limit * settings.default.max_examples // 100))


def slow(cases, *, unless=lambda case: False):
    """The cases, for `make test-slow` alone, unless a function says otherwise."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if unless(case) else pytest.mark.slow)
        for case in cases
    ]
