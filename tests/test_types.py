from typing import get_args

import numpy as np
import pytest

from opendp_tree import _types


@pytest.mark.parametrize(
    ("name", "dtype"), [("Ints", np.int64), ("Floats", np.float64), ("Bools", np.bool_), ("Words", np.uint64)]
)
def test_arrays_are_called_by_what_they_hold(name, dtype):
    _, held = get_args(getattr(_types, name))
    assert get_args(held) == (dtype,)
