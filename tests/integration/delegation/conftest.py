"""The fixture of both APIs: one test body runs over REST and over gRPC."""

import pytest


@pytest.fixture(params=["rest", "rpc"])
def face(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
