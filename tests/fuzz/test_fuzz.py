"""A short run of every subject with a fixed seed, without limits on time and memory: `make fuzz` has these."""

import pytest

from tests.fuzz import Violation, reported, subjects

CASES = {"constructors": 400, "frames": 60, "ledgers": 300, "releases": 500}
"""A part of what `make fuzz` tries."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(subjects()))
def test_a_short_run_finds_nothing(name):
    assert subjects()[name](0, CASES.get(name, 100)) > 0


def test_every_subject_is_found_and_a_case_is_named():
    assert {"constructors", "frames", "ledgers", "releases"} <= subjects().keys()
    with pytest.raises(Violation, match="seed 7, case 3: KeyError: 'a'"), reported(7, 3):
        raise KeyError("a")
