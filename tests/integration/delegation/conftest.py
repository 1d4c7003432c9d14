"""Each face in turn; one test body holds for both."""

import pytest


@pytest.fixture(params=["rest", "rpc"])
def face(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
