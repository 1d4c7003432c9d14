"""Services of the suite for tests: composed in this process, or as the processes that `make up` starts.

    async with process("router", METACOG_INFERENCE_URL=llm.url) as router:
        ...                                            # router.rest, router.grpc, router.terminate()

`router_at` composes the router in this process, on a database and models of the test's choice; `tests.support.assigner`
and `tests.support.arbiter` do so for those services.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from chassis.serving.auth import Keyring
from chassis.serving.peer import Peer
from configuration.services import PEERS
from embedded import postgres
from embedded.postgres.files import database_url
from inference import Embeddings
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.msv.assessors import AssessorName
from kernel.prices import Prices
from services.router.compose import (
    CONTRACT,
    ComposedRouter,
    Paces,
    Parts,
    RoutingRules,
    RunRecordStore,
    RunStorageOptions,
    compose,
    postgres_database,
)
from services.router.core.calibration import FittingRules
from services.router.service.answering.admission import Admission
from services.router.service.assessment.experience_matching import ExperienceMatching
from services.router.service.calibration.recalibration import Calibrator
from services.router.service.knowledge.documents import AddLimits
from services.router.service.knowledge.knowledge import KnowledgeBase
from services.router.service.knowledge.values import KnowledgeStore
from services.router.service.runs.journal import RunJournal
from services.router.settings import Settings
from tests.support.apis import Running, serving
from tests.support.assigner import NO_ALIASES, NO_OTHERS, NO_PRICES, ModelServer, model_clients_of

ROOT = Path(__file__).parents[2]
NO_SERVER = "127.0.0.1:1"
MAX_BODY_BYTES = 1 << 20
ROUTER = CONTRACT
LIMITS = Limits(max_generations=32, max_generated_tokens=8192, timeout_ms=60_000)

Body = dict[str, Any]


def free_port() -> int:
    """A free port of loopback, below those that outgoing connections of others take meanwhile."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def fresh_database(url: str, copy_of: str = "template1") -> str:
    """A new database on the server of `url`: empty, or a copy of one without connections."""
    name = f"fresh_{uuid4().hex[:8]}"
    order(url, f"CREATE DATABASE {name} TEMPLATE {copy_of}")
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def order(url: str, *statements: str) -> None:
    """Run statements that concern the whole server of `url`."""
    plain = make_url(url).set(drivername="postgresql", database="postgres")
    with psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class Database:
    """A PostgreSQL of its own, which can be stopped and started again; a context manager.

    Attributes:
        url: SQLAlchemy URL of its database.
    """

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="mc-"))  # a Unix socket's path must be short
        self._data = self._home / "pg"
        self.url = database_url(self._data)
        self._frozen: list[int] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        """Start the server; by a process of its own, so that it holds on to none of pytest's pipes."""
        start = f"from pathlib import Path; from embedded import postgres; postgres.start(Path({str(self._data)!r}))"
        with (self._home / "log").open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-c", start], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        assert done.returncode == 0, (self._home / "log").read_text()[-2000:]

    def stop(self) -> None:
        """Stop the server."""
        self.thaw()
        postgres.stop(self._data)

    def freeze(self) -> None:
        """Stop all its processes where they are: connections stay open, and nothing answers."""
        self._frozen = [int((self._data / "postmaster.pid").read_text().split()[0])]
        os.kill(self._frozen[0], signal.SIGSTOP)  # first, so that no further process begins
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == self._frozen[0]:
                    self._frozen.append(int(folder.name))
                    os.kill(self._frozen[-1], signal.SIGSTOP)

    def kill(self) -> None:
        """End all its processes at once, without a word; `start` recovers what was committed."""
        self.freeze()
        for number in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self._frozen = []

    def thaw(self) -> None:
        """Let them go on."""
        for number in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
        self._frozen = []


def rating(*numbers: int) -> str:
    """A model's rating: logic, facts, fit; contradiction; harm, urgency, scope [0..100]."""
    return json.dumps({"r": numbers})


# With experience unknown: activation (0.30 * 0.1 + 0.25 * 0.05 + 0.25 * 0.1) / 0.8 = 0.084 -> System 1.
CALM = rating(90, 90, 90, 5, 10, 10, 10)
# (0.30 * 0.7 + 0.25 * 0.8 + 0.25 * 0.8) / 0.8 = 0.7625 -> System 2; importance 0.8 calls for the watcher's note.
TROUBLED = rating(30, 30, 30, 80, 90, 80, 70)

RATINGS = {"conversation": "assess", "text_to_judge": "measure"}
TEXTS = {"answer": "note", "weighing": "synthesis", "challenge": "resolution", "first_answer": "antithesis"}


def stage_of(body: Body) -> str:
    """What a request to a model is for, told by what is fenced in its prompt."""
    prompt = str(body["messages"][-1].get("content"))
    if "response_format" in body:
        return next((stage for label, stage in RATINGS.items() if f"</{label}>" in prompt), "self_assessment")
    if "</question>" not in prompt:
        return "system1"
    return next((stage for label, stage in TEXTS.items() if f"</{label}>" in prompt), "thesis")


# An answer of more words than votes compare: System 2 of such a question is the dialectic.
LONG = "It depends on more than can be said in as few words as an answer has that is compared."


def cast(rated: str = CALM, **said: str) -> Callable[[Body], Sequence[str]]:
    """What a scripted model answers: `rated` when it is to rate, `the <stage>` otherwise, or as `said` by stage."""

    def answer(body: Body) -> Sequence[str]:
        stage = stage_of(body)
        text = rated if "response_format" in body else f"the {stage}"
        return [said.get(stage, text)] * (body.get("n") or 1)

    return answer


class Server(Protocol):
    """An inference server: a scripted one, or a real one."""

    @property
    def url(self) -> str:
        """Return its URL, without `/v1`."""

    @property
    def model(self) -> str:
        """Return the name of its model."""


@dataclass(frozen=True)
class At:
    """A real inference server."""

    url: str
    model: str


@dataclass(frozen=True)
class RunningRouter(Running):
    """A router, with what it keeps runs in and what it knows."""

    runs: RunRecordStore
    journal: RunJournal
    known: KnowledgeBase
    calibrator: Calibrator
    admission: Admission


@asynccontextmanager
async def router_at(
    llm: Server,
    database: str,
    spool: Path,
    *,
    others: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    keyring: Keyring | None = None,
    peer_key: str = "",
    limits: Limits = LIMITS,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_in_flight: int = 512,
    max_deliberations: int = 32,
    assessor: str = AssessorName.VERBALIZED,
    streamed_assessor: str = "",
    encoder_url: str = "",
    storage: RunStorageOptions | None = None,
    fitting: FittingRules = FittingRules(),  # noqa: B008 - an immutable value
    prices: Prices = NO_PRICES,
    models: Mapping[str, ModelServer] = NO_OTHERS,
    names: Mapping[str, str] = NO_ALIASES,
    routing: RoutingRules | None = None,
    ceilings: Ceilings = DEFAULT_CEILINGS,
    **more: Any,  # noqa: ANN401
) -> AsyncIterator[RunningRouter]:
    """Serve a router on `llm` by both APIs; `others` are the addresses of the other services, away if left out.

    `models` are further models by name, and `names` further names of models; `routing` says how the system is chosen;
    `more` are further settings.

    Without an encoder it compares conversations with nothing.
    """
    storage = storage or quick_storage(spool)
    settings = router_settings(
        limits,
        model_aliases=dict(aliases or {}),
        max_body_bytes=max_body_bytes,
        max_in_flight=max_in_flight,
        max_deliberations=max_deliberations,
        assessor=assessor,
        streamed_assessor=streamed_assessor or assessor,
        **storage_settings(storage),
        calibration_minimum=fitting.minimum,
        calibration_growth=fitting.growth,
        **more,
    )
    parts = Parts(
        routing=routing,
        model_clients=model_clients_of(llm, prices, models, names),
        database=postgres_database(database),
        embeddings=Embeddings(encoder_url or f"http://{NO_SERVER}/v1"),
        has_encoder=bool(encoder_url),
        peers=peers(others or {}, key=peer_key),
        home=spool,
        keyring=keyring or Keyring(),
        ceilings=ceilings,
        paces=storage_paces(storage),
    )
    async with served(compose(settings, parts)) as running:
        yield running


@asynccontextmanager
async def served(service: ComposedRouter) -> AsyncIterator[RunningRouter]:
    """Serve a composed router by both APIs, and close it at the end."""
    service.start()
    async with serving(service.app, service.rpc) as running:
        yield RunningRouter(
            rest=running.rest,
            grpc=running.grpc,
            runs=service.records.runs,
            journal=service.records.journal,
            known=service.knowledge,
            calibrator=service.calibrator,
            admission=service.context.admission,
        )
    await service.close()


def router_settings(limits: Limits = LIMITS, **settings: Any) -> Settings:  # noqa: ANN401
    """Return the settings that ship, with the same limits for each strategy; no environment variable is read.

    Looking up what is stored may take long, so that what a test finds does not depend on how busy the machine is. There
    is no cost guard: the answers of scripted models are a few words, for which it would start nothing.
    """
    values = {
        "at_most_times_system1": 0.0,
        "similarity_timeout_ms": 30_000,
        "cache_decisions": False,
        "max_generations": limits.max_generations,
        "max_generated_tokens": limits.max_generated_tokens,
        "timeout_ms": limits.timeout_ms,
        "system_one_max_generated_tokens": limits.max_generated_tokens,
        "arbiter_max_generations": limits.max_generations,
        "arbiter_max_generated_tokens": limits.max_generated_tokens,
        "arbiter_timeout_ms": limits.timeout_ms,
    }
    return Settings.model_construct(**{**values, **settings})


def peers(addresses: Mapping[str, str], *, key: str = "") -> dict[str, Peer]:
    """Return clients of the other services; those without an address are away."""
    return {name: Peer(name, addresses.get(name, NO_SERVER), key=key) for name in PEERS}


def quick_storage(spool: Path, **more: Any) -> RunStorageOptions:  # noqa: ANN401
    """Return the storage of runs that ships, at a test's pace."""
    paces: dict[str, Any] = {"journal_retry_s": 0.05, "outbox_poll_s": 0.05, "outbox_first_pause_s": 0.05}
    return RunStorageOptions(spool=spool / "runs.jsonl", **{**paces, **more})


def storage_settings(storage: RunStorageOptions) -> dict[str, Any]:
    """Return the router's settings about what is stored of runs."""
    return {
        "spool_dir": storage.spool.parent,
        "spool_max_bytes": storage.spool_max_bytes,
        "queue_max_bytes": storage.queue_max_bytes,
        "recent_max_bytes": storage.recent_max_bytes,
        "keep_contents": storage.contents,
        "retention_days": storage.days,
    }


def storage_paces(storage: RunStorageOptions) -> Paces:
    """Return the times of the background workers, with calibration at a test's pace."""
    return Paces(
        journal_retry_s=storage.journal_retry_s,
        outbox_poll_s=storage.outbox_poll_s,
        outbox_first_pause_s=storage.outbox_first_pause_s,
        outbox_late_s=storage.outbox_late_s,
        retention_every_s=storage.retention_every_s,
        calibration_pause_s=0.05,
    )


def knowledge_base(encoder_url: str, library: KnowledgeStore) -> KnowledgeBase:
    """Return a knowledge base with the sizes that ship."""
    return KnowledgeBase(Embeddings(encoder_url), library, ExperienceMatching(), AddLimits())


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `holds`; how long is bounded by the test's own limit."""
    while not await holds():  # noqa: ASYNC110 - what it waits for is in another process
        await asyncio.sleep(0.01)


def environment(**settings: object) -> dict[str, str]:
    """Environment of a process of the suite: what is set on this machine for metacog is left out."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
    return {**own, "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}", **{name: str(text) for name, text in settings.items()}}


def command(service: str) -> list[str]:
    """How a service is started."""
    return [sys.executable, "-m", f"services.{service}"]


def failed_start(service: str, **settings: object) -> "subprocess.CompletedProcess[str]":
    """A service that is expected to end by itself."""
    return subprocess.run(
        command(service),
        cwd=ROOT,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@dataclass
class Process:
    """A service as a process; what it logs is read in the background, so that a full pipe never holds it up.

    Attributes:
        inner: The process.
        lines: What it logged so far; a line that is no JSON is its `message`.
        rest: Address of its REST API.
        grpc: Address of its gRPC API.
    """

    inner: asyncio.subprocess.Process
    lines: list[Body] = field(default_factory=list)
    rest: str = ""
    grpc: str = ""

    def __post_init__(self) -> None:
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def until_said(self, message: str) -> Body:
        """The first log line with `message`, waited for."""
        while True:
            self._more.clear()
            for line in self.lines:
                if line.get("message") == message:
                    return line
            if self._reading.done():
                raise AssertionError(f"the process has ended with {await self.inner.wait()}: {self.lines}")
            await self._more.wait()

    async def _read(self) -> None:
        """Read what it logs until it ends."""
        assert self.inner.stderr is not None
        try:
            while raw := await self.inner.stderr.readline():
                self.lines.append(json.loads(raw) if raw.startswith(b"{") else {"message": raw.decode().strip()})
                self._more.set()
        finally:
            self._more.set()

    async def ended(self) -> int:
        """Its exit status, waited for."""
        await self._reading
        return await self.inner.wait()

    def terminate(self) -> None:
        """Ask it to stop, by SIGTERM."""
        self.inner.terminate()


@asynccontextmanager
async def process(service: str, **settings: object) -> AsyncIterator[Process]:
    """`python -m services.<service>` on free ports, once it serves; killed at the end if it still runs."""
    prefix = f"METACOG_{service.upper()}"
    ports = {f"{prefix}_REST_PORT": 0, f"{prefix}_GRPC_PORT": 0}
    inner = await asyncio.create_subprocess_exec(
        *command(service),
        cwd=ROOT,
        env=environment(**{**ports, **settings}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    started = Process(inner)
    try:
        told = await started.until_said("serving")
        started.rest = f"http://127.0.0.1:{told['rest_port']}"
        started.grpc = f"127.0.0.1:{told['grpc_port']}"
        yield started
    finally:
        if inner.returncode is None:
            inner.kill()
        await started.ended()
