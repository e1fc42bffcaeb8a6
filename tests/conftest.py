import opendp.prelude as dp
import pytest
from hypothesis import settings

from tests.thoroughness import QUICK


def pytest_configure(config):
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(QUICK)


@pytest.fixture(autouse=True)
def features():
    """Every test starts with `contrib` alone, whatever earlier tests and examples enabled."""
    dp.enable_features("contrib")
    dp.disable_features("honest-but-curious")
