"""The whole suite as processes, with API keys: what hostile callers and broken parts are set on.

    async with suite(scripted.url, database.url, tmp_path) as running:
        await running.client.post("/v1/answers", json={"question": "Is it so?"})
        ...                                            # running.services["delegation"].inner.pid

The four services run by `python -m services.*` on a PostgreSQL of the test and a model server of its choice.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg
import yaml

from configuration.services import SERVICES
from tests.support.stack import Process, free_port, process

KEY, OTHER_KEY, SUITE_KEY = "key-of-ann", "key-of-bob", "key-of-the-suite"
KEYS = {"ann": KEY, "bob": OTHER_KEY, "suite": SUITE_KEY}


@dataclass(frozen=True)
class Suite:
    """A suite that runs.

    Attributes:
        services: Its processes by the name of the service.
        client: A client of the router's REST API, with a key.
        database: SQLAlchemy URL of its database.
    """

    services: Mapping[str, Process]
    client: httpx.AsyncClient
    database: str

    @property
    def router(self) -> Process:
        """Return the router."""
        return self.services["router"]

    def errors(self) -> list[str]:
        """Return what the services logged as errors."""
        return [
            f"{name}: {line}"
            for name, one in self.services.items()
            for line in one.lines
            if line.get("level") == "error"
        ]

    async def stored_runs(self) -> set[str]:
        """Return the identifiers of the runs in the database."""
        async with await psycopg.AsyncConnection.connect(self.database.replace("+psycopg", "")) as connection:
            rows = await (await connection.execute("SELECT run_id FROM router.runs")).fetchall()
        return {row[0] for row in rows}


def authorization(key: str = KEY) -> dict[str, str]:
    """Return the header that presents an API key."""
    return {"authorization": f"Bearer {key}"}


@asynccontextmanager
async def suite(inference: str, database: str, folder: Path, **settings: object) -> AsyncIterator[Suite]:
    """Run the four services until the block ends.

    Args:
        inference: URL of the model server, without `/v1`.
        database: SQLAlchemy URL of a database with the schemas of all services.
        folder: Where keys and what the services keep on disk go.
        settings: Further settings of all services.
    """
    keys = [{"name": name, "sha256": sha256(key.encode()).hexdigest()} for name, key in KEYS.items()]
    (folder / "keys.yaml").write_text(yaml.safe_dump({"keys": keys}))
    ports = {name: free_port() for name in SERVICES if name != "router"}
    given = {
        "METACOG_INFERENCE_URL": f"{inference}/v1",
        "METACOG_DATABASE_URL": database,
        "METACOG_HOME": folder,
        "METACOG_KEYS_FILE": folder / "keys.yaml",
        "METACOG_PEER_KEY": SUITE_KEY,
        **{f"METACOG_{name.upper()}_ADDRESS": f"127.0.0.1:{port}" for name, port in ports.items()},
        **{f"METACOG_{name.upper()}_GRPC_PORT": port for name, port in ports.items()},
        **settings,
    }
    services: dict[str, Process] = {}
    async with AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as group:
            starting = {name: group.create_task(stack.enter_async_context(process(name, **given))) for name in SERVICES}
        services = {name: task.result() for name, task in starting.items()}
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=services["router"].rest, headers=authorization(), timeout=60)
        )
        yield Suite(services=services, client=client, database=database)
