"""One suite for all checks, started once, and a summary at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.compose.live.suite import COMPOSE, PROFILE, READY_WITHIN_S, ROUTER_URL, Suite, awaited, command

_said: dict[str, str] = {}


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """The suite, up and well."""
    running = Suite(folder=_folder(tmp_path_factory), said=_said)
    _said["compose"] = command(COMPOSE, "version", "--short").strip()
    _said["model server"] = PROFILE
    running.prepare()
    try:
        running.up()
        awaited(running.is_well, READY_WITHIN_S, "the suite is well")
        yield running
        _said["containers' states"] = running.compose("ps")
    finally:
        (running.folder / "logs").write_text(running.compose("logs", "--no-color"))
        running.down()


@pytest.fixture(scope="session")
def openai(suite: Suite) -> OpenAI:
    """The stock client, on the published port."""
    return OpenAI(base_url=f"{ROUTER_URL}/v1", api_key=suite.key, max_retries=0, timeout=600)


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("suite")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was measured."""
    if not _said:
        return
    terminalreporter.section("the suite in containers")
    for name, said in _said.items():
        terminalreporter.write_line(f"{name}: {said}")
