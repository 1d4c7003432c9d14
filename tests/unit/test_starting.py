"""A service that starts imports nothing that takes long and that it may never use."""

import subprocess
import sys

import pytest

from tests.support.stack import ROOT, environment

LONG = ("scipy.stats", "scipy.optimize", "sympy", "pint")


@pytest.mark.parametrize("service", ["router", "arbiter"])
def test_a_service_starts_without_libraries_that_only_fits_and_comparisons_need(service: str) -> None:
    look = f"import sys, services.{service}.__main__; print([name for name in {LONG} if name in sys.modules])"

    found = subprocess.check_output([sys.executable, "-c", look], cwd=ROOT, env=environment(), text=True, timeout=60)

    assert found.strip() == "[]"
