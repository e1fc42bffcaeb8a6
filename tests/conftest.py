import opendp.prelude as dp
import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def features():
    """Every test starts with `contrib` alone, whatever earlier tests and examples enabled."""
    dp.enable_features("contrib")
    dp.disable_features("honest-but-curious")
