"""A short run of every subject with a fixed seed, without limits on time and memory: `make fuzz` has these."""

import pytest

from tests.fuzz.__main__ import SUBJECTS

CASES = {"constructors": 400, "frames": 60, "ledgers": 300, "releases": 500, "steps": 100}
"""A part of what `make fuzz` tries."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_short_run_finds_nothing(name):
    assert SUBJECTS[name](0, CASES[name]) > 0
