"""What is OpenDP's own, as the package spells it."""

import opendp.prelude as dp
import pytest

from opendp_tree._opendp import measure_name


@pytest.mark.parametrize(
    "name",
    [
        "max_divergence()",
        "zero_concentrated_divergence()",
        "approximate(max_divergence())",
        "approximate(zero_concentrated_divergence())",
    ],
)
def test_a_measure_is_spelled_as_the_call_that_makes_it(name):
    assert measure_name(eval(f"dp.{name.replace('(max', '(dp.max').replace('(zero', '(dp.zero')}")) == name


def test_other_measures_have_a_name_too():
    assert "Renyi" in measure_name(dp.renyi_divergence())
