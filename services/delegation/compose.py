"""The delegation service put together over a database and voices; `__main__` and tests share it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from grpc import aio
from metacog.delegation.v1 import delegation_pb2, delegation_pb2_grpc

from chassis.database import Sessions
from chassis.json_text import dumps
from chassis.serving.auth import Keyring
from chassis.serving.contract import refuse_unserved_calls, refuse_unserved_paths
from chassis.serving.rest import Application
from chassis.serving.server import grpc_server
from configuration.agents import AgentConfig
from kernel.confidence.rules import Rules
from kernel.learning.drift import DriftLimits
from services.delegation import rest, rpc
from services.delegation.core.routine import Routine
from services.delegation.sandbox import Sandbox
from services.delegation.service.categories import Categories
from services.delegation.service.dimensions import Dimension, Embedder, Prototypes
from services.delegation.service.monitoring import Monitoring
from services.delegation.service.process import ProcessContext, TaskDefaults, process
from services.delegation.service.profiles import Profiles
from services.delegation.service.recalibration import ENOUGH, EVERY_S, Recalibrator
from services.delegation.service.result_merger import ResultMerger
from services.delegation.service.self_assess import self_assess
from services.delegation.service.task_context import TaskModelClients
from services.delegation.service.task_records import submit_feedback
from services.delegation.service.use_cases import UseCases
from services.delegation.store.categories import PostgresCategories
from services.delegation.store.monitoring import PostgresMonitoring
from services.delegation.store.profiles import PostgresProfiles
from services.delegation.store.requests import PostgresRequests, PostgresTurns
from services.delegation.store.tasks import PostgresTasks

CONTRACT = delegation_pb2.DESCRIPTOR.services_by_name["DelegationService"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service stands on.

    Attributes:
        sessions: Sessions of the database.
        voices: Who speaks for whom.
        embedder: The sentence encoder.
        agents: The configured agents.
        dimensions: The configured dimensions.
    """

    sessions: Sessions
    voices: TaskModelClients
    embedder: Embedder
    agents: Callable[[], Sequence[AgentConfig]]
    dimensions: Sequence[Dimension]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the service behaves where a request says nothing.

    Attributes:
        defaults: What a request that leaves something out gets.
        drift: When a change of competence counts as one.
        sandbox: Whether unit tests may be run.
        test_timeout_s: Time that they get [s].
        judge: Agent that judges where none is named; empty: the plain model.
        recalibration_minimum: Verdicts that recalibrating an agent takes [count].
        recalibration_every_s: Time between two looks at them [s].
    """

    defaults: TaskDefaults
    drift: DriftLimits = DriftLimits()  # noqa: RUF009 - an immutable value
    sandbox: bool = True
    test_timeout_s: float = 5.0
    judge: str = ""
    recalibration_minimum: int = ENOUGH
    recalibration_every_s: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The service, as its faces need it.

    Attributes:
        use: The use cases.
        recalibrator: To be started and closed.
        sandbox: To be told of when it is missing.
    """

    use: UseCases
    recalibrator: Recalibrator
    sandbox: Sandbox


def composed(world: Parts, options: Options) -> Service:
    """The use cases over `world`."""
    rate = options.defaults.rules.learning_rate
    monitoring = PostgresMonitoring(world.sessions)
    shelf = PostgresProfiles(world.sessions, rate)
    tasks = PostgresTasks(world.sessions, options.drift)
    recalibrator = Recalibrator(monitoring, enough=options.recalibration_minimum, every_s=options.recalibration_every_s)
    sandbox = Sandbox(enabled=options.sandbox)
    categories = Categories(PostgresCategories(world.sessions), world.embedder, world.dimensions)
    hub = ProcessContext(
        agents=world.agents,
        dimensions=categories.dimensions,
        refreshed=categories.refresh,
        voices=world.voices,
        profiles=shelf,
        tasks=tasks,
        turns=PostgresTurns(world.sessions),
        requests=PostgresRequests(world.sessions),
        prototypes=Prototypes(world.embedder),
        merger=ResultMerger(
            sandbox=sandbox,
            now=lambda: datetime.now(UTC),
            test_timeout_s=options.test_timeout_s,
            judge=options.judge,
        ),
        recalibrations=recalibrator.points,
        judged=recalibrator.judged,
        defaults=options.defaults,
    )
    use = UseCases(
        process=partial(process, hub=hub),
        self_assess=partial(self_assess, hub=hub),
        submit_feedback=partial(submit_feedback, tasks=tasks, judged=recalibrator.judged),
        profiles=Profiles(shelf=shelf, agents=world.agents, dimensions=hub.dimensions, learning_rate=rate),
        watching=Monitoring(
            records=monitoring,
            agents=world.agents,
            dimensions=hub.dimensions,
            voices=world.voices,
            maps=recalibrator.maps,
        ),
        categories=categories,
    )
    return Service(use=use, recalibrator=recalibrator, sandbox=sandbox)


def with_paths(app: Application, use: UseCases) -> Application:
    """`app` with every path of the contract."""
    rest.add_task_paths(app, use)
    rest.add_profile_paths(app, use)
    rest.add_watching_paths(app, use)
    rest.add_category_paths(app, use)
    refuse_unserved_paths(app, CONTRACT)
    return app


def build_server(use: UseCases, keyring: Keyring) -> aio.Server:
    """A gRPC server with every method of the contract."""
    server = grpc_server(keyring)
    servicer = refuse_unserved_calls(rpc.Servicer, CONTRACT)(use, keyring)
    delegation_pb2_grpc.add_DelegationServiceServicer_to_server(servicer, server)
    return server


def config_version(rules: Rules, routine: Routine, dimensions: Sequence[Dimension]) -> str:
    """Version of a configuration: `paper` where it is the paper's with our defaults, else with a digest of it."""
    digest = sha256(dumps([asdict(rules), asdict(routine), [one.id for one in dimensions]])).hexdigest()[:12]
    return f"paper+{digest}" if rules != Rules() or routine != Routine() else "paper"
