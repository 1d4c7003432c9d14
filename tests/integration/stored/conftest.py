"""This fixture runs one test body over REST and over gRPC."""

import pytest


@pytest.fixture(params=["rest", "rpc"])
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
