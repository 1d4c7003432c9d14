"""The real parts that tests stand on, each started once and only when a test asks for it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import structlog
from sqlalchemy import make_url

from chassis.schema import migrations
from configuration.services import WITH_SCHEMA
from embedded.model import ensure_model
from tests.distribution import longest_first, pytest_xdist_make_scheduler  # noqa: F401 - a hook
from tests.support.models.encoder import encoder
from tests.support.models.llama import llama
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, Database, fresh_database, order

LLM_WITHIN_S = 60.0

# No assertion is timed: an example that the machine is slow at is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# The width of tables is the one of a file, whatever terminal the tests, or a worker that runs them, were started in.
os.environ.pop("COLUMNS", None)

# Logs of services that run inside the tests' own process belong to no command: what one prints is compared whole.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))

# Whoever starts the tests in the background may have made them deaf to Ctrl-C, and with them the commands they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A test that asks for one of these, directly or by another fixture, uses a real model.
REAL_MODELS = frozenset({"model_file", "llm_url", "encoder_url", "suite"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a real model, and begin with those that take long."""
    for item in items:
        if REAL_MODELS & set(getattr(item, "fixturenames", ())):
            item.add_marker("real_model")
    longest_first(items)


@pytest.fixture(scope="session")
def new_database() -> Iterator[Callable[[], str]]:
    """Makes databases with the schemas of all services, on a PostgreSQL of this session alone."""
    with Database() as server:
        # It loses data only when the machine fails, which no test is about.
        order(server.url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        for service in WITH_SCHEMA:
            migrations.migrate(f"services.{service}", server.url)
        yield partial(fresh_database, server.url, copy_of=str(make_url(server.url).database))


@pytest.fixture(scope="session")
def database_url(new_database: Callable[[], str]) -> str:
    """A database that tests share."""
    return new_database()


@pytest.fixture
def own_database_url(new_database: Callable[[], str]) -> str:
    """A database of one test."""
    return new_database()


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The small model, downloaded if it is not there yet."""
    home = Path(os.environ.get("METACOG_HOME") or ROOT / ".metacog")
    return ensure_model(home, _report)


@pytest.fixture(scope="session")
def llm_url(model_file: Path) -> Iterator[str]:
    """A real llama.cpp that serves the small model as `smollm2`."""
    with llama(model_file, parallel=8, context_tokens=16384) as url:
        yield url


@pytest.fixture(scope="session")
def encoder_url() -> Iterator[str]:
    """A real encoder with the packaged model."""
    with encoder() as url:
        yield url


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@pytest.fixture
def scripted() -> Iterator[ScriptedLLM]:
    """A scripted inference server."""
    with ScriptedLLM() as llm:
        yield llm
