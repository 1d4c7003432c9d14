"""This module composes the delegation service from its settings and parts, for the process and for tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from grpc import aio
from metacog.delegation.v1 import delegation_pb2, delegation_pb2_grpc
from sqlalchemy.ext.asyncio import AsyncEngine

from chassis import database as db
from chassis.admission import AdmissionLimit
from chassis.errors import ConfigurationInvalid
from chassis.json_text import dumps
from chassis.serving.auth import Keyring
from chassis.serving.contract import reject_unserved_calls, reject_unserved_paths
from chassis.serving.health import Check, Health
from chassis.serving.rest import Application, build_app
from chassis.serving.server import Service, closing, grpc_server_of
from chassis.shared_results import SharedResults, figure_shares
from chassis.worker.retention import EVERY_S, Retention
from configuration.agents import AgentConfig
from configuration.dimensions import Dimension
from inference import BackendModelClients, Embeddings, Prototypes
from kernel.confidence.rules import DEFAULT_RULES, Rules
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.learning.drift import DriftLimits
from kernel.msv.experience import SimilarityCalibration
from sandbox.mathematics import MathematicsSource
from services.delegation import rest, rpc
from services.delegation.core.routine import DEFAULT_ROUTINE, Routine
from services.delegation.sandbox import Sandbox
from services.delegation.service.categories import Categories
from services.delegation.service.dimensions import DimensionFinder
from services.delegation.service.experience.matching import MATCHES, MatchContext, match_experience
from services.delegation.service.experience.recording import FIRST_PAUSE_S, ExperienceRecorder
from services.delegation.service.monitoring import Monitoring
from services.delegation.service.processing import ProcessContext, process
from services.delegation.service.profiles import Profiles
from services.delegation.service.recalibration import INTERVAL_S, Recalibrator
from services.delegation.service.result_merger import ResultMerger
from services.delegation.service.self_assessment import SelfAssessContext, self_assess
from services.delegation.service.task_context import TaskDefaults
from services.delegation.service.task_records import submit_feedback
from services.delegation.service.use_cases import DelegationUseCases
from services.delegation.settings import Settings
from services.delegation.store.categories import PostgresCategories
from services.delegation.store.experience import PostgresAgentExperience
from services.delegation.store.monitoring import PostgresMonitoring
from services.delegation.store.profiles import PostgresProfiles
from services.delegation.store.requests import PostgresRequests, PostgresRoundRobin
from services.delegation.store.retention import PostgresOldTasks
from services.delegation.store.tasks import PostgresTasks

NAME = "delegation"
CONTRACT = delegation_pb2.DESCRIPTOR.services_by_name["DelegationService"]


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The service is composed of these parts and its settings.

    Attributes:
        engine: The database, for tasks and background work.
        reading: The same, for what callers look at.
        model_clients: Model clients of the agents.
        embeddings: Client of the sentence encoder.
        agents: The configured agents.
        dimensions: The configured dimensions.
        calculator: Compares mathematical expressions; whoever made it closes it.
        check_agents: Returns if the agents can be read.
        keyring: The API keys.
        ceilings: The most that one request may spend.
        experience_pause_s: Pause before the first restart of the recorder of experience [s].
        recalibration_interval_s: Time between two refreshes of the recalibration maps, at least [s].
        retention_every_s: Time between two looks at what is too old [s].
    """

    engine: AsyncEngine
    reading: AsyncEngine
    model_clients: BackendModelClients
    embeddings: Embeddings
    agents: Callable[[], Sequence[AgentConfig]]
    dimensions: Sequence[Dimension]
    calculator: MathematicsSource
    check_agents: Check = _nothing
    keyring: Keyring = field(default_factory=Keyring)
    ceilings: Ceilings = DEFAULT_CEILINGS
    recalibration_interval_s: float = INTERVAL_S
    experience_pause_s: float = FIRST_PAUSE_S
    retention_every_s: float = EVERY_S


@dataclass(frozen=True, kw_only=True)
class ComposedDelegation(Service):
    """A composed delegation service can be served, and gives access to what it is composed of.

    Attributes:
        use_cases: The use cases, for the APIs.
        recalibrator: Keeps recalibration maps up to date in the background.
        recorder: Embeds questions that were answered right in the background.
    """

    use_cases: DelegationUseCases
    recalibrator: Recalibrator
    recorder: ExperienceRecorder


def compose(settings: Settings, parts: Parts) -> ComposedDelegation:
    """Return the delegation service of `settings` over `parts`; nothing runs before `start`.

    Raises:
        ConfigurationInvalid: When the judge of the settings is not configured.
    """
    _check_judge(settings.judge_agent, parts.agents())
    defaults = replace(task_defaults(settings, parts.dimensions), ceilings=parts.ceilings)
    # What callers look at takes no connection from tasks, whose number has a limit of its own.
    reads = db.build_sessions(parts.reading, per_caller=db.CONNECTIONS // 4)
    records = db.build_sessions(parts.engine)
    # A task waits for its turn longer than for an answer of the database; then it is rejected, with a time to retry.
    of_tasks = db.build_sessions(
        parts.engine, per_caller=db.CONNECTIONS // 2, waiting=4 * settings.max_in_flight, wait_s=db.RECORD_WITHIN_S
    )
    figures = figure_shares()
    requests = AdmissionLimit("requests", settings.max_in_flight)
    profiles = PostgresProfiles(of_tasks, settings.learning_rate)
    drift = DriftLimits(threshold=settings.drift_threshold, window=settings.drift_window)
    keeps = settings.keep_contents is not False
    tasks = PostgresTasks(records.within(db.RECORD_WITHIN_S), drift, keep_contents=keeps)
    recalibrator = Recalibrator(
        PostgresMonitoring(records.within(db.BACKGROUND_WITHIN_S)),
        min_ratings=settings.recalibration_minimum,
        interval_s=parts.recalibration_interval_s,
    )
    recorder = ExperienceRecorder(
        PostgresAgentExperience(records.within(db.BACKGROUND_WITHIN_S)),
        parts.embeddings,
        most=settings.experience_questions,
        first_pause_s=parts.experience_pause_s,
    )
    workers: Mapping[str, Recalibrator | ExperienceRecorder | Retention] = {
        "recalibration": recalibrator,
        "experience": recorder,
        **_retention(settings, parts, records),
    }
    on_label = partial(_each, [recalibrator.on_label, recorder.on_label])
    sandbox = Sandbox(enabled=settings.sandbox)
    categories = Categories(
        PostgresCategories(reads), parts.embeddings, parts.dimensions, shares=figures, keep_contents=keeps
    )
    finder = DimensionFinder(
        dimensions=categories.dimensions,
        refresh=categories.refresh,
        prototypes=Prototypes(parts.embeddings),
        classifier=settings.classifier,
    )
    process_context = ProcessContext(
        agents=parts.agents,
        dimensions=finder,
        model_clients=parts.model_clients,
        profiles=profiles,
        tasks=tasks,
        round_robin=PostgresRoundRobin(of_tasks),
        requests=PostgresRequests(of_tasks),
        merger=ResultMerger(
            sandbox=sandbox,
            calculator=parts.calculator,
            now=lambda: datetime.now(UTC),
            test_timeout_s=min(settings.test_timeout_ms, settings.test_max_timeout_ms) / 1000,
            max_test_timeout_ms=settings.test_max_timeout_ms,
            judge=settings.judge_agent,
        ),
        calculator=parts.calculator,
        recalibrations=recalibrator.in_force,
        uninformative=recalibrator.uninformative,
        on_label=on_label,
        keep_contents=keeps,
        defaults=defaults,
    )
    self_assess_context = SelfAssessContext(
        agents=parts.agents,
        dimensions=finder,
        model_clients=parts.model_clients,
        profiles=profiles,
        recalibrations=recalibrator.in_force,
        uninformative=recalibrator.uninformative,
        defaults=defaults,
    )
    read_tasks = PostgresTasks(reads, drift, keep_contents=keeps)
    use_cases = DelegationUseCases(
        process=requests.bounding_events(partial(process, context=process_context)),
        get_task=read_tasks.get,
        list_tasks=read_tasks.page,
        self_assess=requests.bounding(partial(self_assess, context=self_assess_context)),
        match_experience=AdmissionLimit("matches", MATCHES).bounding(
            partial(match_experience, context=_match_context(settings, parts, PostgresAgentExperience(reads)))
        ),
        submit_feedback=partial(submit_feedback, tasks=read_tasks, on_label=on_label),
        profiles=Profiles(
            store=PostgresProfiles(reads, settings.learning_rate),
            agents=parts.agents,
            dimensions=categories.dimensions,
            learning_rate=settings.learning_rate,
        ),
        monitoring=Monitoring(
            records=PostgresMonitoring(reads),
            agents=parts.agents,
            dimensions=categories.dimensions,
            model_clients=parts.model_clients,
            maps=recalibrator.maps,
            trusts=SharedResults(figures),
            flows=SharedResults(figures),
            reliabilities=SharedResults(figures),
        ),
        categories=categories,
    )
    health = _health(settings, parts, {name: worker.check for name, worker in workers.items()}, sandbox)
    return ComposedDelegation(
        name=NAME,
        app=_app(settings, parts, health, use_cases),
        rpc=_rpc_server(settings, use_cases, parts.keyring),
        grpc_names=[CONTRACT.full_name],
        settings=settings,
        health=health,
        start=partial(_each, [worker.start for worker in workers.values()]),
        close=partial(
            closing,
            *(worker.close for worker in workers.values()),
            parts.model_clients.close,
            parts.embeddings.close,
            parts.engine.dispose,
            parts.reading.dispose,
        ),
        use_cases=use_cases,
        recalibrator=recalibrator,
        recorder=recorder,
    )


def _retention(settings: Settings, parts: Parts, records: db.Sessions) -> Mapping[str, Retention]:
    """Return the worker that deletes old tasks, by its name; none where they are kept for ever."""
    if not settings.retention_days:
        return {}
    old = PostgresOldTasks(records.within(db.BACKGROUND_WITHIN_S))
    return {"retention": Retention("tasks", old, days=settings.retention_days, every_s=parts.retention_every_s)}


def _each(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _match_context(settings: Settings, parts: Parts, store: PostgresAgentExperience) -> MatchContext:
    return MatchContext(
        agents=parts.agents,
        embedder=parts.embeddings,
        store=store,
        calibration=SimilarityCalibration(
            floor=settings.similarity_floor,
            ceiling=settings.similarity_ceiling,
            encoder=settings.similarity_encoder,
        ),
        covers=settings.experience_covers,
        timeout_s=settings.experience_timeout_ms / 1000,
        task_characters=settings.task_characters,
    )


def _check_judge(judge: str, agents: Sequence[AgentConfig]) -> None:
    if judge and judge not in [agent.id for agent in agents]:
        message = f"METACOG_DELEGATION_JUDGE_AGENT: {judge!r} is not configured"
        raise ConfigurationInvalid(message, setting="METACOG_DELEGATION_JUDGE_AGENT")


def task_defaults(settings: Settings, dimensions: Sequence[Dimension]) -> TaskDefaults:
    """Return the values that a request gets for what it leaves out."""
    rules = Rules(**{name: getattr(settings, name) for name in Rules.__dataclass_fields__ if hasattr(settings, name)})
    routine = Routine(
        certainty=settings.routine_certainty,
        competence=settings.routine_competence,
        observations=settings.routine_observations,
    )
    return TaskDefaults(
        limits=Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        rules=rules,
        classifier=settings.classifier,
        answer_max_tokens=settings.answer_max_tokens,
        task_characters=settings.task_characters,
        routine=routine,
        config_version=settings.config_version or config_version(rules, routine, dimensions),
    )


def config_version(rules: Rules, routine: Routine, dimensions: Sequence[Dimension]) -> str:
    """Return the version of a configuration: `paper` for the defaults, else with a digest of it."""
    digest = sha256(dumps([asdict(rules), asdict(routine), [each.id for each in dimensions]])).hexdigest()[:12]
    return f"paper+{digest}" if rules != DEFAULT_RULES or routine != DEFAULT_ROUTINE else "paper"


def _health(settings: Settings, parts: Parts, workers: Mapping[str, Check], sandbox: Sandbox) -> Health:
    return Health(
        {"inference": parts.model_clients.probe, "database": partial(db.check, parts.engine)},
        {
            "agents": parts.check_agents,
            "encoder": parts.embeddings.check,
            **workers,
            **({"sandbox": sandbox.ready} if settings.sandbox else {}),
        },
    )


def _app(settings: Settings, parts: Parts, health: Health, use_cases: DelegationUseCases) -> Application:
    app = build_app(
        NAME,
        health=health,
        keyring=parts.keyring,
        max_body_bytes=settings.max_body_bytes,
        max_held_body_bytes=settings.max_held_body_bytes,
    )
    rest.add_task_paths(app, use_cases)
    rest.add_profile_paths(app, use_cases)
    rest.add_monitoring_paths(app, use_cases)
    rest.add_category_paths(app, use_cases)
    reject_unserved_paths(app, CONTRACT)
    return app


def _rpc_server(settings: Settings, use_cases: DelegationUseCases, keyring: Keyring) -> aio.Server:
    server = grpc_server_of(settings, keyring)
    servicer = reject_unserved_calls(rpc.DelegationServicer, CONTRACT)(use_cases, keyring)
    delegation_pb2_grpc.add_DelegationServiceServicer_to_server(servicer, server)
    return server
