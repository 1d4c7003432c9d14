"""Services of the suite for tests: composed in this process, or as the processes that `make up` starts.

    async with process("router", METACOG_INFERENCE_URL=llm.url) as router:
        ...                                            # router.rest, router.grpc, router.terminate()

`assigner_at` and `router_at` compose the same in this process, on a database and models of the test's choice.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis import database as db
from chassis.serving.auth import Keyring
from chassis.serving.contract import refuse_unserved_calls, refuse_unserved_paths
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import grpc_server
from configuration.agents import AgentConfig, read_agents
from embedded import postgres
from embedded.postgres.files import database_url
from inference.backends import build_backend
from inference.client import DEFAULT_AGENTS_FILE, ModelClients
from inference.config import BackendConfig
from inference.embeddings import Embeddings
from kernel.envelope import Limits
from kernel.msv.affect import vader
from kernel.prices import Prices, price_of
from services.assigner import rest as assigner_rest
from services.assigner import rpc as assigner_rpc
from services.assigner.service.assign import assign
from services.assigner.service.dialectic import DeliberationContext, DialecticDefaults, deliberate
from services.router import openai_rest, relay
from services.router import rest as router_rest
from services.router import rpc as router_rpc
from services.router.compose import FeedbackReceivers, RunStorageOptions, build_calibration, build_records
from services.router.core.calibration import FittingRules
from services.router.core.strategies import Strategy
from services.router.relay import Peer
from services.router.service.answering.admission import Admission
from services.router.service.answering.answer import AnswerContext, answer
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.answering.system_one import SystemOne
from services.router.service.assessment.assess import VERBALIZED, Assessors, assess, build_assessors
from services.router.service.assessment.measures import AffectMeasure, ExperienceMatching, ExperienceMeasure
from services.router.service.assessment.route import RoutingConfig, RoutingContext, route
from services.router.service.calibration.calibration import CalibrationUseCases
from services.router.service.calibration.recalibration import Calibrator
from services.router.service.knowledge.add import AddLimits
from services.router.service.knowledge.knowledge import KnowledgeBase, KnowledgeUseCases
from services.router.service.knowledge.values import KnowledgeStore
from services.router.service.runs.journal import Journal
from services.router.store.knowledge import PostgresKnowledge
from services.router.store.runs import PostgresRuns
from tests.support.faces import Running, serving

ROOT = Path(__file__).parents[2]
NOBODY = "127.0.0.1:1"
MAX_BODY_BYTES = 1 << 20
BODY_LIMITS = {"/v1/knowledge": 8 << 20}
ROUTER = router_pb2.DESCRIPTOR.services_by_name["RouterService"]
ASSIGNER = assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"]
NO_PRICES: Prices = MappingProxyType({})
LIMITS = Limits(max_generations=32, max_generated_tokens=8192, timeout_ms=60_000)

Body = dict[str, Any]


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


class Database:
    """A PostgreSQL of its own, which can be stopped and started again; a context manager.

    Attributes:
        url: SQLAlchemy URL of its database.
    """

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="mc-"))  # a Unix socket's path must be short
        self._data = self._home / "pg"
        self.url = database_url(self._data)

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
            subprocess.run(
                [sys.executable, "-c", start], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True
            )

    def stop(self) -> None:
        """Stop the server."""
        postgres.stop(self._data)


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


def cast(rated: str = CALM, **said: str) -> Callable[[Body], Sequence[str]]:
    """What a scripted model answers: `rated` when it is to rate, `the <stage>` otherwise, or as `said` by stage."""

    def answer(body: Body) -> Sequence[str]:
        stage = stage_of(body)
        text = rated if "response_format" in body else f"the {stage}"
        return [said.get(stage, text)] * (body.get("n") or 1)

    return answer


class Server(Protocol):
    """An inference server: a scripted one, or a real one."""

    url: str
    model: str


@dataclass(frozen=True)
class At:
    """A real inference server."""

    url: str
    model: str


@dataclass(frozen=True)
class RunningRouter(Running):
    """A router, with what it keeps runs in and what it knows."""

    runs: PostgresRuns
    journal: Journal
    known: KnowledgeBase
    calibrator: Calibrator


def voices_of(llm: Server, prices: Prices = NO_PRICES) -> ModelClients:
    """Voices whose default is the model of `llm`."""
    price = price_of(llm.model, prices)
    config = BackendConfig(name="default", base_url=llm.url, model=llm.model, price=price)
    return ModelClients(build_backend(config), build_backend, prices)


def bench_of(
    voices: ModelClients, agents: Sequence[AgentConfig] | None = None, *, limits: Limits = LIMITS, **sizes: int
) -> DeliberationContext:
    """A bench of `agents`, or of those that ship."""
    seated = agents or read_agents(DEFAULT_AGENTS_FILE)
    return DeliberationContext(
        agents=lambda: seated, voices=voices, affect=vader, defaults=DialecticDefaults(limits=limits, **sizes)
    )


@asynccontextmanager
async def assigner_at(
    llm: Server,
    agents: Sequence[AgentConfig] | None = None,
    *,
    keyring: Keyring | None = None,
    prices: Prices = NO_PRICES,
    **sizes: int,
) -> AsyncIterator[Running]:
    """An assigner on `llm`, both faces."""
    keyring = keyring or Keyring()
    voices = voices_of(llm, prices)
    discuss = partial(deliberate, bench=bench_of(voices, agents, **sizes))
    health = Health({}, {"inference": voices.default.probe})
    app = build_app("assigner", health=health, keyring=keyring, max_body_bytes=MAX_BODY_BYTES)
    assigner_rest.add_paths(app, assign=assign, deliberate=discuss)
    server = grpc_server(keyring)
    servicer = assigner_rpc.Servicer(assign=assign, deliberate=discuss)
    assigner_pb2_grpc.add_AssignerServiceServicer_to_server(servicer, server)
    async with serving(app, server) as running:
        yield running
    await voices.close()


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
    admission: Admission | None = None,
    assessor: str = VERBALIZED,
    encoder_url: str = "",
    keeping: RunStorageOptions | None = None,
    fitting: FittingRules = FittingRules(),  # noqa: B008 - an immutable value
    prices: Prices = NO_PRICES,
) -> AsyncIterator[RunningRouter]:
    """A router on `llm`, both faces; `others` are the addresses of the other services, nobody's if left out.

    Without an encoder it looks up nothing.
    """
    keyring = keyring or Keyring()
    engine = db.build_engine(database)
    voices = voices_of(llm, prices)
    known = knowledge_base(encoder_url or f"http://{NOBODY}/v1", PostgresKnowledge(db.build_sessions(engine)))
    without_model = [AffectMeasure(vader), *([ExperienceMeasure(known.match)] if encoder_url else [])]
    names = ("assigner", "arbiter", "delegation")
    reached = {name: Peer(name, (others or {}).get(name, NOBODY), key=peer_key) for name in names}
    sessions = db.build_sessions(engine)
    calibration = build_calibration(sessions, RoutingConfig(), fitting, pause_s=0.05)
    learning = FeedbackReceivers(
        delegation=reached["delegation"],
        experience=known.experience if encoder_url else None,
        judged=calibration.calibrator.judged,
    )
    records = build_records(sessions, keeping or quick_keeping(spool), learning)
    system_one = SystemOne(voices.assessor())
    assessors = Assessors(
        by_name=build_assessors(voices.assessor(), without_model), default=assessor, streamed=assessor
    )
    desk = AnswerContext(
        deciding=RoutingContext(config=RoutingConfig(), assessors=assessors),
        drafter=system_one.drafter,
        answerers={
            Strategy.SYSTEM_ONE: system_one,
            Strategy.DIALECTIC: relay.dialectic(reached["assigner"]),
            Strategy.ARBITER: relay.arbitration(reached["arbiter"]),
            Strategy.DELEGATION: relay.delegation(reached["delegation"]),
        },
        limits=dict.fromkeys([None, *Strategy], limits),
        models=[voices.assessor()],
        recorder=records.journal,
        repeats=IdempotentAnswers(records.runs.by_request, records.journal.recent),
        admission=admission or Admission(),
        recalibrated=calibration.calibrator,
    )
    use = use_cases(
        desk,
        get_run=records.get_run,
        list_runs=records.runs.page,
        submit_feedback=records.submit_feedback,
        knowledge=known.use,
        calibration=calibration.use,
        limits=limits,
    )
    health = Health({"inference": voices.default.probe}, {"database": partial(db.check, engine), **records.checks})
    app = build_app("router", health=health, keyring=keyring, max_body_bytes=max_body_bytes, body_limits=BODY_LIMITS)
    router_rest.add_decision_paths(app, assess=use.assess, route=use.route, answer=use.answer)
    router_rest.add_run_paths(app, get_run=use.get_run, list_runs=use.list_runs, submit_feedback=use.submit_feedback)
    router_rest.add_knowledge_paths(app, use.knowledge)
    router_rest.add_calibration_paths(app, use.calibration)
    openai_rest.add_paths(app, desk=desk, backend=voices.default, aliases=aliases or {})
    refuse_unserved_paths(app, ROUTER)
    server = grpc_server(keyring)
    servicer = refuse_unserved_calls(router_rpc.Servicer, ROUTER)(use, keyring)
    router_pb2_grpc.add_RouterServiceServicer_to_server(servicer, server)
    records.start()
    calibration.calibrator.start()
    async with serving(app, server) as running:
        yield RunningRouter(
            rest=running.rest,
            grpc=running.grpc,
            runs=records.runs,
            journal=records.journal,
            known=known,
            calibrator=calibration.calibrator,
        )
    await records.close()
    await calibration.calibrator.close()
    await known.embeddings.close()
    await voices.close()
    for peer in reached.values():
        await peer.close()
    await engine.dispose()


def quick_keeping(spool: Path, **more: Any) -> RunStorageOptions:  # noqa: ANN401
    """What ships, at a test's pace."""
    paces: dict[str, Any] = {"journal_retry_s": 0.05, "outbox_poll_s": 0.05, "outbox_first_pause_s": 0.05}
    return RunStorageOptions(spool=spool / "runs.jsonl", **{**paces, **more})


def knowledge_base(encoder_url: str, library: KnowledgeStore) -> KnowledgeBase:
    """A knowledge base with the sizes that ship."""
    return KnowledgeBase(Embeddings(encoder_url), library, ExperienceMatching(), AddLimits())


def use_cases(
    desk: AnswerContext,
    *,
    get_run: Any,  # noqa: ANN401
    list_runs: Any,  # noqa: ANN401
    submit_feedback: Any,  # noqa: ANN401
    knowledge: KnowledgeUseCases,
    calibration: CalibrationUseCases,
    limits: Limits = LIMITS,
) -> router_rpc.UseCases:
    """What a router with `desk` can do."""
    bounding = desk.admission.bounding
    usual: dict[str, Any] = {"default": limits, "drafter": desk.drafter, "models": desk.models}
    return router_rpc.UseCases(
        assess=bounding(partial(assess, assessors=desk.deciding.assessors, **usual)),
        route=bounding(partial(route, deciding=desk.deciding, **usual)),
        answer=partial(answer, desk=desk),
        get_run=get_run,
        list_runs=list_runs,
        submit_feedback=submit_feedback,
        knowledge=knowledge,
        calibration=calibration,
    )


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


def refused_start(service: str, **settings: object) -> "subprocess.CompletedProcess[str]":
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
    """A service as a process; what it logs is read as it comes."""

    inner: asyncio.subprocess.Process
    lines: list[Body] = field(default_factory=list)
    rest: str = ""
    grpc: str = ""

    async def until_said(self, message: str) -> Body:
        """The first log line with `message`, waited for."""
        while True:
            for line in self.lines:
                if line.get("message") == message:
                    return line
            await self.read()

    async def read(self) -> None:
        """Wait for one more line."""
        assert self.inner.stderr is not None
        raw = await self.inner.stderr.readline()
        assert raw, f"the process has ended with {await self.inner.wait()}: {self.lines}"
        self.lines.append(json.loads(raw) if raw.startswith(b"{") else {"message": raw.decode().strip()})

    async def ended(self) -> int:
        """Its exit status, waited for."""
        assert self.inner.stderr is not None
        while await self.inner.stderr.readline():
            pass
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
