import os
from collections.abc import Iterator

import pytest

from tests.support.models.scripted_service import ScriptedService
from tests.unit.cli.running import Metacog


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    """A scripted service."""
    with ScriptedService() as scripted:
        yield scripted


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings."""
    for name in [name for name in os.environ if name.startswith("METACOG_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def metacog(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Metacog:
    """The command."""
    return Metacog(capsys, monkeypatch)
