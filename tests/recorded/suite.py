"""The services of one checkout run as processes: on free ports, on databases of their own, with the scripted backend.

What depends on where a checkout keeps its parts is in `start_database`, `stop_database`, `Suite._serve` and
`Suite.run`; modules and settings that were renamed are found through `renames.yaml`.
"""

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import psycopg
import yaml

from configuration.services import PEERS, SERVICES, WITH_SCHEMA
from tests.recorded.backend import MODEL
from tests.recorded.renaming import Renames

NOBODY = "127.0.0.1:1"
READY_WITHIN_S = 60.0
TEACHER_KEY, PUPIL_KEY = "teacher-key-of-the-recording", "pupil-key-of-the-recording"
KEYS = [
    {"name": "teacher", "sha256": sha256(TEACHER_KEY.encode()).hexdigest(), "may_teach": True},
    {"name": "pupil", "sha256": sha256(PUPIL_KEY.encode()).hexdigest(), "may_teach": False},
]
AGENTS = [
    {"id": name, "system_prompt": f"You are {name.title()}, {about}.", "tags": [tag]}
    for name, about, tag in (
        ("ada", "a careful logician", "logic"),
        ("ben", "a skeptic", "criticism"),
        ("cleo", "an experienced judge", "judgement"),
        ("dan", "a clear writer", "writing"),
        ("eve", "a generalist", "breadth"),
    )
]
SPECIALISTS = [
    {"id": "alpha", "system_prompt": "You are Alpha, a specialist.", "tags": ["logical_reasoning", "math_computation"]},
    {"id": "beta", "system_prompt": "You are Beta, a specialist.", "tags": ["knowledge_retrieval"]},
    {"id": "gamma", "system_prompt": "You are Gamma, a specialist.", "tags": ["code_generation"]},
]
PRICES = {"*": {"prompt": 1.0, "completion": 2.0}}

# What a process is called here, the service that it is, its database, and the settings that make it special.
PROCESSES: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    ("assigner", "assigner", "", {}),
    ("arbiter", "arbiter", "", {}),
    ("delegation", "delegation", "main", {}),
    ("router", "router", "main", {}),
    # Its peers and its encoder cannot be reached.
    ("lonely", "router", "lonely", {"METACOG_ENCODER_URL": f"http://{NOBODY}/v1"}),
    # Keys are needed.
    ("guarded", "router", "guarded", {}),
    ("guarded-delegation", "delegation", "guarded", {}),
)


def start_database(checkout: Path, data: Path) -> str:
    """URL of a PostgreSQL server started by the checkout's own means, in a process of its own."""
    told = data.parent / "postgres.url"
    start = (
        "from pathlib import Path; from embedded import postgres; "
        f"Path({str(told)!r}).write_text(postgres.start(Path({str(data)!r})))"
    )
    with (data.parent / "postgres.log").open("ab") as log:  # a pipe would be held open by the server
        subprocess.run(
            [sys.executable, "-c", start],
            cwd=checkout,
            env=_environment(checkout),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )
    return told.read_text()


def stop_database(checkout: Path, data: Path) -> None:
    """Stop the server that `start_database` started."""
    stop = f"from pathlib import Path; from embedded import postgres; postgres.stop(Path({str(data)!r}))"
    subprocess.run(
        [sys.executable, "-c", stop], cwd=checkout, env=_environment(checkout), capture_output=True, check=False
    )


def _environment(checkout: Path) -> dict[str, str]:
    """The environment of a process of the suite: nothing that this machine has set for it."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
    return {**own, "PYTHONPATH": f"{checkout}:{checkout / 'gen'}", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Databases:
    """Fresh databases on one server.

    Args:
        url: SQLAlchemy URL of the server, of any database on it.
    """

    url: str
    made: dict[str, str] = field(default_factory=dict)

    def make(self, name: str) -> None:
        """Make an empty database with pgvector."""
        full = f"recorded_{name}_{secrets.token_hex(4)}"
        with psycopg.connect(self._plain("postgres"), autocommit=True) as link:
            link.execute(f'CREATE DATABASE "{full}"'.encode())
        with psycopg.connect(self._plain(full), autocommit=True) as link:
            link.execute(b"CREATE EXTENSION IF NOT EXISTS vector")
        self.made[name] = full

    def drop(self) -> None:
        """Drop all that were made."""
        with psycopg.connect(self._plain("postgres"), autocommit=True) as link:
            for full in self.made.values():
                link.execute(f'DROP DATABASE IF EXISTS "{full}" WITH (FORCE)'.encode())

    def url_of(self, name: str) -> str:
        """SQLAlchemy URL of the database `name`."""
        head, _, query = self.url.partition("?")
        made = head.rpartition("/")[0] + "/" + self.made[name]
        return f"{made}?{query}" if query else made

    def _plain(self, database: str) -> str:
        head, _, query = self.url.replace("+psycopg", "", 1).partition("?")
        made = head.rpartition("/")[0] + "/" + database
        return f"{made}?{query}" if query else made


@dataclass(frozen=True)
class At:
    """Where a process listens."""

    rest: str
    grpc: str


@dataclass
class Suite:
    """The processes of one checkout.

    Attributes:
        checkout: Folder of the checkout.
        home: A folder of its own, for files.
        renames: What is called otherwise there.
        at: Where each process listens.
    """

    checkout: Path
    home: Path
    renames: Renames
    at: dict[str, At] = field(default_factory=dict)
    running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    readers: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def started(
        cls, checkout: Path, backend: str, renames: Renames, postgres_url: str = ""
    ) -> AsyncIterator[Self]:
        """The processes while they run.

        Args:
            checkout: Folder of the checkout.
            backend: URL of the scripted backend.
            renames: What is called otherwise there.
            postgres_url: A server that runs already; empty: one is started.
        """
        home = Path(tempfile.mkdtemp(prefix="mr-"))  # a Unix socket's path must be short
        suite = cls(checkout, home, renames)
        databases: Databases | None = None
        try:
            suite._write_files()
            databases = Databases(postgres_url or start_database(checkout, home / "pg"))
            for name in ("main", "lonely", "guarded"):
                databases.make(name)
            await suite._start(databases, backend)
            yield suite
        finally:
            await suite._stop()
            if databases is not None:
                databases.drop()
            if not postgres_url:
                stop_database(checkout, home / "pg")
            shutil.rmtree(home, ignore_errors=True)

    def file(self, name: str) -> Path:
        """A file of the suite's home."""
        return self.home / "files" / name

    async def run(
        self, arguments: Sequence[str], stdin: str = "", settings: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Exit status, standard output and standard error of the command line with `arguments`."""
        addresses = {f"METACOG_{name.upper()}_URL": self.at[name].rest for name in SERVICES}
        width = {"COLUMNS": "80", "LINES": "40", "NO_COLOR": "1", "TERM": "dumb", "TERMINAL_WIDTH": "80"}
        more = self._settings({**addresses, "METACOG_HOME": str(self.home / "cli"), **(settings or {})})
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self.renames.program("cli"), *arguments,
            cwd=self.file(""), env={**_environment(self.checkout), **width, **more},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), err.decode()

    def _write_files(self) -> None:
        self.file("").mkdir(parents=True)
        for name, content in (
            ("keys", {"keys": KEYS}),
            ("agents", {"agents": AGENTS}),
            ("specialists", {"agents": SPECIALISTS}),
        ):
            self.file(f"{name}.yaml").write_text(yaml.safe_dump(content))

    def _settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {self.renames.setting(name): text for name, text in settings.items()}

    async def _start(self, databases: Databases, backend: str) -> None:
        for database in databases.made:
            for service in WITH_SCHEMA:
                if any((service, database) == (one, other) for _, one, other, _ in PROCESSES):
                    await self._migrate(service, {"METACOG_DATABASE_URL": databases.url_of(database)})
        peers = [process for process in PROCESSES if process[0] in PEERS]
        for group in (peers, [process for process in PROCESSES if process not in peers]):
            async with asyncio.TaskGroup() as starting:
                for name, service, database, special in group:
                    url = databases.url_of(database) if database else ""
                    settings = self._settings({**self._usual(name, service, url, backend), **special})
                    starting.create_task(self._serve(name, service, settings))

    def _usual(self, name: str, service: str, database: str, backend: str) -> dict[str, str]:
        """The settings of a process, without those that make it special."""
        own = {"METACOG_DATABASE_URL": database} if database else {}
        if service == "router":
            own |= self._peers(name) | {
                "METACOG_ROUTER_MODEL_ALIASES": '{"gpt-4o": "metacog"}',
                # Votes are newer than the recording, whose System 2 is the papers'.
                "METACOG_ROUTER_SYSTEM_TWO": "dialectic",
                # The recording's defaults.
                "METACOG_ROUTER_ASSESSOR": "draft",
                "METACOG_ROUTER_STREAMED_ASSESSOR": "hybrid",
            }
        if service == "arbiter":
            own["METACOG_ARBITER_SOLVING_STOP"] = "NONE"  # the recording's default
        if name.startswith("guarded"):
            own["METACOG_KEYS_FILE"] = str(self.file("keys.yaml"))
        return {
            f"METACOG_{service.upper()}_REST_PORT": "0",
            f"METACOG_{service.upper()}_GRPC_PORT": "0",
            f"METACOG_{service.upper()}_GRACE_S": "0.5",
            "METACOG_HOME": str(self.home / name),
            "METACOG_SECRETS_DIR": str(self.home / "none"),
            "METACOG_INFERENCE_URL": f"{backend}/v1",
            "METACOG_INFERENCE_MODEL": MODEL,
            "METACOG_PRICES": json.dumps(PRICES),
            "METACOG_ENCODER_URL": f"{backend}/encoder/v1",
            "METACOG_AGENTS_FILE": str(self.file("agents.yaml")),
            "METACOG_DELEGATION_AGENTS_FILE": str(self.file("specialists.yaml")),
            **own,
        }

    def _peers(self, name: str) -> dict[str, str]:
        """The addresses of a router's peers; only those of `router` are somebody's."""
        return {f"METACOG_{peer.upper()}_ADDRESS": self.at[peer].grpc if name == "router" else NOBODY for peer in PEERS}

    async def _migrate(self, service: str, settings: Mapping[str, str]) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self.renames.program(f"services.{service}"), "migrate",
            cwd=self.checkout, env={**_environment(self.checkout), **self._settings(settings)},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the schema of {service} cannot be made:\n{said.decode()}")

    async def _serve(self, name: str, service: str, settings: Mapping[str, str]) -> None:
        """Start a process, and wait until its log line says on which ports it serves."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self.renames.program(f"services.{service}"),
            cwd=self.checkout, env={**_environment(self.checkout), **settings},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )  # fmt: skip
        self.running[name] = process
        assert process.stderr is not None
        async with asyncio.timeout(READY_WITHIN_S):
            said = ""
            while "rest_port" not in (line := _read(await process.stderr.readline(), name, said)):
                said += str(line)
        self.at[name] = At(f"http://127.0.0.1:{line['rest_port']}", f"127.0.0.1:{line['grpc_port']}")
        self.readers.append(asyncio.create_task(self._keep_log(name, process.stderr)))

    async def _keep_log(self, name: str, log: asyncio.StreamReader) -> None:
        with (self.home / f"{name}.log").open("ab") as kept:
            while line := await log.readline():
                kept.write(line)
                kept.flush()

    async def _stop(self) -> None:
        for process in reversed(self.running.values()):
            if process.returncode is None:
                process.terminate()
        for process in self.running.values():
            try:
                async with asyncio.timeout(5):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        for reader in self.readers:
            reader.cancel()


def _read(line: bytes, name: str, said: str) -> dict[str, Any]:
    if not line:
        raise RuntimeError(f"{name} has ended before it served: {said}")
    if not line.startswith(b"{"):
        return {"said": line.decode()}
    found: dict[str, Any] = json.loads(line)
    return found
