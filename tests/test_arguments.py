from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import _arguments as arguments

HUGE, NAN = 10**400, float("nan")
WRONG = {
    arguments.check_scale: [-1, NAN, float("inf"), HUGE],
    arguments.check_positive: [0],
    arguments.check_integer: [2**62, -HUGE],
    arguments.check_probability: [0.0, 1.0, NAN],
}


@pytest.mark.parametrize("check", WRONG)
def test_what_is_no_number_or_out_of_range_is_refused_by_name_and_in_short(check):
    for value in (True, "1", None, 1j, [1.0], Fraction(1, 2)):
        with pytest.raises(TypeError, match="knob"):
            check(value, name="knob")
    for value in WRONG[check]:
        with pytest.raises(ValueError, match="knob") as error:
            check(value, name="knob")
        assert len(str(error.value)) < 500


def test_numbers_are_read_exactly():
    assert arguments.check_scale(np.float32(0.1)) == Fraction(float(np.float32(0.1)))
    assert arguments.check_scale(0.1) == Fraction(0.1) != Fraction(1, 10)
    assert arguments.check_integer(np.int8(3), name="knob") == 3
    assert arguments.read_distance(0.5) == Fraction(1, 2)
    with pytest.raises(ValueError, match="d_in"):
        arguments.read_distance(NAN)
    assert arguments.is_zero(0)
    assert arguments.is_zero(np.float64(0))
    assert not any(arguments.is_zero(value) for value in (False, "0", None, 1e-300))


def test_choices_types_and_texts():
    assert arguments.check_choice("a", name="knob", choices=("a", "b")) == "a"
    for value in ("c", 1, None, ["a"]):
        with pytest.raises(ValueError, match=r"knob .* must be one of 'a', 'b'"):
            arguments.check_choice(value, name="knob", choices=("a", "b"))
    with pytest.raises(TypeError, match=r"knob \(str\) must be a int. Hint: turn it"):
        arguments.check_type("x", int, name="knob", hint="turn it")
    assert arguments.is_text("é🙂")
    assert not arguments.is_text("a\ud800")


def test_what_no_number_can_hold_is_refused_without_a_chain_of_errors():
    with pytest.raises(ValueError, match="scale must be less extreme") as error, arguments.computable("scale"):
        raise OverflowError("(34, 'Numerical result out of range')")
    assert error.value.__cause__ is None
