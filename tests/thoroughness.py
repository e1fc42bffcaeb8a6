"""How much is tried: a part of it in `make test`, all of it in `make test-slow`."""

import pytest
from hypothesis import settings

QUICK, WHOLE = "quick", "whole"
settings.register_profile(QUICK, derandomize=True, deadline=None, max_examples=30)
settings.register_profile(WHOLE, derandomize=True, deadline=None, max_examples=100)


def examples(most):
    """So many examples of Hypothesis in `make test-slow`, and three tenths of them in `make test`."""
    return settings(max_examples=max(1, most * settings.default.max_examples // 100))


def thinned(cases, every):
    """All cases; only each so manieth in `make test`."""
    whole = [case if isinstance(case, tuple) else (case,) for case in cases]
    marks = [() if place % every == 0 else (pytest.mark.slow,) for place in range(len(whole))]
    return [pytest.param(*case, marks=mark) for case, mark in zip(whole, marks, strict=True)]
