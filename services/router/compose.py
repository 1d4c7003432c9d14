"""This module composes the router from its parts; it is the only wiring, used by the process and by every test."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis import database as db
from chassis.journal.journal import QUEUE_BYTES, RECENT_BYTES, RETRY_S, WRITE_WITHIN_S, DocumentStore
from chassis.journal.lookup import recorded
from chassis.journal.rejected import RejectedDocuments
from chassis.serving.auth import Keyring
from chassis.serving.contract import reject_unserved_calls, reject_unserved_paths
from chassis.serving.health import Check, Health
from chassis.serving.peer import Peer
from chassis.serving.rest import Application, build_app
from chassis.serving.server import Service, closing, grpc_server_of
from chassis.shared_results import SharedResults, figure_shares
from chassis.worker.retention import EVERY_S, Retention
from configuration.dimensions import SHIPPED, prototypes_of, read_dimensions
from configuration.policy import read_policy
from inference import BackendModelClients, Embeddings, KindClassifier
from kernel.activation import ActivationWeights
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Envelope, Limits
from kernel.msv.affect import AffectAnalyser, vader
from kernel.msv.experience import ExperienceWeights, SimilarityCalibration
from kernel.msv.signals import PartWeights
from kernel.policy import Policy, Strategy
from kernel.votes.plans import PlannedSource, VotePlan
from services.router import relay, rest, root_rest, rpc
from services.router.core.batch_states import places
from services.router.core.calibration import FittingRules
from services.router.core.cost_guard import LEAST_TIMES
from services.router.core.retries import FIRST_S
from services.router.metrics import count_cascade
from services.router.openai_rest import batches, chat, files, messages, passed, responses
from services.router.service.answering.admission import Admission
from services.router.service.answering.answer import answer
from services.router.service.answering.default_limits import default_limits
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.answering.measured_state import AskedQuestion
from services.router.service.answering.run_in_progress import AnswerContext
from services.router.service.answering.strategy_task import AnswerStrategy
from services.router.service.answering.system_one import SystemOne
from services.router.service.answering.values import CostGuard
from services.router.service.answering.vote_plans import VotePlans
from services.router.service.answering.voting import CascadeCounter, Voting
from services.router.service.assessment.assessors import Assessors, Known, assess, build_assessors
from services.router.service.assessment.composite_assessor import Assessor
from services.router.service.assessment.experience_matching import ExperienceMatching
from services.router.service.assessment.kinds import EVERY_S as KINDS_EVERY_S
from services.router.service.assessment.kinds import KindsInForce
from services.router.service.assessment.measures import AffectMeasure, ExperienceMeasure
from services.router.service.assessment.routing import DecisionCache, RoutingConfig, RoutingContext, route
from services.router.service.assessment.routing_config import routing_config
from services.router.service.assessment.short_answers import MeaningSimilarity
from services.router.service.batches.batches import Batches, BatchStore
from services.router.service.batches.files import FileLimits, Files
from services.router.service.batches.line_answers import LineAnswers
from services.router.service.batches.line_worker import LEASE_S as LINE_LEASE_S
from services.router.service.batches.line_worker import LinePaces, LineStore, LineWorker
from services.router.service.batches.progress import LEASE_S as STEP_LEASE_S
from services.router.service.batches.progress import POLL_S as BATCHES_POLL_S
from services.router.service.batches.progress import BatchProgress, ExpiringFiles, StepPaces, StepStore
from services.router.service.calibration.calibration import (
    CalibrationUseCases,
    MapChoiceStore,
    ReliabilityStore,
    get_activations,
    get_calibration,
    rollback_calibration,
)
from services.router.service.calibration.cascades import CascadeCounts, get_cascades
from services.router.service.calibration.promises import Promises
from services.router.service.calibration.recalibration import PAUSE_S, Calibrator, RecalibrationStore
from services.router.service.calibration.values import ActivationsSeen, GetActivationsRequest
from services.router.service.calibration.vote_probability import VoteProbability
from services.router.service.feedback.feedback import (
    DELEGATION,
    EXPERIENCE,
    FeedbackContext,
    FeedbackStore,
    SubmitFeedbackResponse,
    submit_feedback,
)
from services.router.service.feedback.outbox import LATE_S, POLL_S, Outbox, OutboxStore, Receiver
from services.router.service.gateway.chat_gateway import ChatGateway
from services.router.service.gateway.continuation import Continuation
from services.router.service.gateway.offered_models import OfferedModels
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.gateway.stored_responses import StoredResponses
from services.router.service.knowledge.documents import AddLimits
from services.router.service.knowledge.knowledge import ExperienceStore, KnowledgeBase
from services.router.service.knowledge.values import ChunkSizes, KnowledgeStore
from services.router.service.passing.gateway import PassingGateway
from services.router.service.passing.passing import PassingContext
from services.router.service.runs.journal import RunJournal, run_journal
from services.router.service.runs.redaction import without_contents
from services.router.service.runs.retention import OldRuns, OldRunStore
from services.router.service.runs.shown import shown_run
from services.router.service.runs.values import ListRunsRequest, ListRunsResponse, Run
from services.router.service.shadow.comparison import ShadowPairs, get_shadow
from services.router.service.shadow.traffic import ShadowOptions, ShadowTraffic
from services.router.settings import Settings
from services.router.store.batches.batches import PostgresBatches
from services.router.store.batches.files import PostgresFiles
from services.router.store.batches.lines import PostgresBatchLines
from services.router.store.calibration import PostgresActivations, PostgresCalibration
from services.router.store.cascades import PostgresCascades
from services.router.store.feedback import PostgresFeedback, PostgresOutbox
from services.router.store.knowledge import PostgresKnowledge
from services.router.store.runs import PostgresOldRuns, PostgresRuns
from services.router.store.shadows import PostgresShadows

NAME = "router"
CONTRACT = router_pb2.DESCRIPTOR.services_by_name["RouterService"]


# -- parts ------------------------------------------------------------------------------------------------------------


class RunRecordStore(DocumentStore, Protocol):
    """This store holds runs that can be read."""

    async def get(self, run_id: str, *, key_name: str = "") -> Run:
        """Return one run of a key."""

    async def by_request(self, key_name: str, request_id: str, /) -> Run | None:
        """Return the run that answered a request of a key."""

    async def earlier_winners(self, asked: AskedQuestion, /) -> Sequence[str]:
        """Return the digests of the winning answers of earlier runs of a question."""

    async def page(self, request: ListRunsRequest, /, *, key_name: str = "") -> ListRunsResponse:
        """Return a page of the runs of a key."""

    async def forget(self, run_id: str, /) -> None:
        """Delete what a run says."""


class CalibrationStore(RecalibrationStore, ReliabilityStore, MapChoiceStore, Protocol):
    """This store holds labelled answers, recalibration maps and their choice."""


# Connections for what callers look at, and for what is recorded: runs, feedback and background work [count].
READING_CONNECTIONS, RECORDING_CONNECTIONS = 12, 8
# The same for files and batches, which keep no connection from the others.
BATCH_CONNECTIONS = 6
# What a form has beside its file at most [bytes].
FORM_BYTES = 64 * 1024


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDatabase:
    """These stores hold what the router keeps.

    Attributes:
        runs: Runs, for those who look at them.
        journal: The same, for recording and for repeated requests: what many look at keeps no run from being recorded.
        old_runs: The same, for retention.
        feedback: Labels of runs.
        outbox: Messages to those who learn from labels.
        knowledge: Documents and verified answers.
        calibration: Labelled answers and recalibration maps, for those who look at them.
        labels: The same, for the background work that fits maps.
        activations: Returns the observed activations.
        cascades: Counts the votes with a stronger model behind them.
        shadows: Returns shadow runs with the served runs of the same requests.
        files: Files of callers.
        batches: Batches of callers.
        batch_steps: The same, and their files, for the background work that takes their steps.
        batch_files: The same.
        batch_lines: Lines of batches, for the background work that answers them.
        check: Returns if the database answers.
        close: Closes its connections.
    """

    runs: RunRecordStore
    journal: RunRecordStore
    old_runs: OldRunStore
    feedback: FeedbackStore
    outbox: OutboxStore
    knowledge: KnowledgeStore
    calibration: CalibrationStore
    labels: RecalibrationStore
    activations: Callable[[GetActivationsRequest], Awaitable[ActivationsSeen]]
    cascades: CascadeCounts
    shadows: ShadowPairs
    files: ExpiringFiles
    batches: BatchStore
    batch_steps: StepStore
    batch_files: ExpiringFiles
    batch_lines: LineStore
    check: Check = _nothing
    close: Callable[[], Awaitable[None]] = _nothing


def postgres_database(url: str) -> RouterDatabase:
    """Return the PostgreSQL database at an SQLAlchemy URL; it connects when first used."""
    reading = db.build_engine(url, connections=READING_CONNECTIONS)
    recording = db.build_engine(url, connections=RECORDING_CONNECTIONS)
    batching = db.build_engine(url, connections=BATCH_CONNECTIONS)
    of_callers = db.build_sessions(batching, per_caller=BATCH_CONNECTIONS // 2)
    of_workers = db.build_sessions(batching)
    reads = db.build_sessions(reading, per_caller=READING_CONNECTIONS // 2)
    records = db.build_sessions(recording)
    return RouterDatabase(
        runs=PostgresRuns(reads),
        journal=PostgresRuns(records.within(WRITE_WITHIN_S)),
        old_runs=PostgresOldRuns(records),
        feedback=PostgresFeedback(db.build_sessions(recording, per_caller=RECORDING_CONNECTIONS // 2)),
        outbox=PostgresOutbox(records),
        knowledge=PostgresKnowledge(reads, answering=db.build_sessions(reading)),
        calibration=PostgresCalibration(reads),
        labels=PostgresCalibration(records.within(db.BACKGROUND_WITHIN_S)),
        activations=PostgresActivations(reads).seen,
        cascades=PostgresCascades(reads).counts,
        shadows=PostgresShadows(reads).pairs,
        files=PostgresFiles(of_callers),
        batches=PostgresBatches(of_callers),
        batch_steps=PostgresBatches(of_workers.within(db.BACKGROUND_WITHIN_S)),
        batch_files=PostgresFiles(of_workers.within(db.BACKGROUND_WITHIN_S)),
        batch_lines=PostgresBatchLines(of_workers.within(db.RECORD_WITHIN_S)),
        check=partial(db.check, recording),
        close=partial(closing, reading.dispose, recording.dispose, batching.dispose),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """These paces are times of the router's background workers that are no settings.

    Attributes:
        journal_retry_s: Time between two attempts to reach the database again [s].
        outbox_poll_s: Time between two looks at the messages to those who learn [s].
        outbox_first_pause_s: Time before a failed delivery is tried again [s]; it doubles.
        outbox_late_s: Age from which readiness reports a message that waits [s].
        retention_every_s: Time between two looks at what is too old [s].
        calibration_pause_s: Least time between two looks at new labels [s].
        kinds_every_s: Time between two looks at the kinds that the delegation service has [s].
        batches_poll_s: Time between two looks at what is to be done for batches [s].
        batch_step_lease_s: Time after which the step of a batch is another replica's, without a sign of life [s].
        batch_line_lease_s: The same of a line.
    """

    journal_retry_s: float = RETRY_S
    outbox_poll_s: float = POLL_S
    outbox_first_pause_s: float = FIRST_S
    outbox_late_s: float = LATE_S
    retention_every_s: float = EVERY_S
    calibration_pause_s: float = PAUSE_S
    kinds_every_s: float = KINDS_EVERY_S
    batches_poll_s: float = BATCHES_POLL_S
    batch_step_lease_s: float = STEP_LEASE_S
    batch_line_lease_s: float = LINE_LEASE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRules:
    """These options say how the system is chosen.

    Attributes:
        config: Weights, threshold and version.
        policy: The policy table; None where it is off.
        shadow: How it is chosen for shadow runs, by another policy table; None where no run gets a shadow.
    """

    config: RoutingConfig
    policy: Policy | None = None
    shadow: "RoutingRules | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The router is composed from these parts: everything outside its process, and what tests replace.

    Attributes:
        model_clients: Clients of the inference servers.
        database: What the router stores.
        embeddings: Client of the sentence encoder.
        has_encoder: Whether there is one; if not, conversations are not compared with what is stored, and short answers
            are compared by their words alone.
        peers: The services `assigner`, `arbiter` and `delegation`.
        home: Folder for what the process keeps on disk.
        keyring: The API keys.
        ceilings: The most that one request may spend.
        affect: Measures the emotional response.
        routing: How the system is chosen; None: as the settings and their files state.
        assessors: Assessors in addition to the router's own, or in their place, by name.
        strategies: Strategies in place of the router's own.
        experience: Stores verified answers, in place of the router's own; None: as `has_encoder` says.
        paces: Times of the background workers.
        now: Wall clock.
    """

    model_clients: BackendModelClients
    database: RouterDatabase
    embeddings: Embeddings
    peers: Mapping[str, Peer]
    home: Path
    has_encoder: bool = True
    keyring: Keyring = field(default_factory=Keyring)
    ceilings: Ceilings = DEFAULT_CEILINGS
    affect: AffectAnalyser = vader
    routing: RoutingRules | None = None
    assessors: Mapping[str, Assessor] = field(default_factory=dict)
    strategies: Mapping[Strategy, AnswerStrategy] = field(default_factory=dict)
    experience: ExperienceStore | None = None
    paces: Paces = Paces()
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class ComposedRouter(Service):
    """A composed router can be served, and gives access to what it is composed of.

    Attributes:
        context: What answering uses.
        records: Runs and feedback.
        knowledge: The knowledge base.
        calibrator: Maps confidences, and fits the maps.
        shadows: Answers requests again by the shadow policy; None where there is none.
    """

    context: AnswerContext
    records: "RunRecords"
    knowledge: KnowledgeBase
    calibrator: Calibrator
    shadows: ShadowTraffic | None = None


def compose(settings: Settings, parts: Parts) -> ComposedRouter:
    """Return the router of `settings` over `parts`; nothing runs before `start`.

    Raises:
        ConfigurationInvalid: For a routing or policy file that cannot be used.
    """
    database, model_clients = parts.database, parts.model_clients
    routing = parts.routing or read_routing_rules(settings)
    config, policy = routing.config, routing.policy
    knowledge = _knowledge(settings, parts)
    calibrator = _calibrator(settings, parts)
    receivers = FeedbackReceivers(
        delegation=parts.peers["delegation"],
        experience=parts.experience or (knowledge.experience if parts.has_encoder else None),
        on_feedback=calibrator.on_feedback,
    )
    records = _run_records(database, _run_storage(settings, parts), receivers)
    kinds = _kind_classifier(settings, parts)
    kinds_in_force = None if kinds is None else _kinds_in_force(parts, kinds)
    vote_plans = VotePlans(model_clients, policy, _configured_cascade(settings))
    vote_plans.check_now()
    system_one = SystemOne(model_clients, max_tokens=settings.answer_max_tokens)
    context = AnswerContext(
        routing=RoutingContext(
            config=config,
            policy=policy,
            assessors=_assessors(settings, parts, knowledge, calibrator),
            cache=_decision_cache(settings),
            system_two=Strategy(settings.system_two),
            kinds=kinds,
            gains=lambda: calibrator.votes.gains,
            minimum_gain=settings.minimum_gain,
        ),
        strategies=_strategies(system_one, parts, calibrator),
        drafter=system_one.drafter,
        limits=_limits(settings, policy),
        answer_tokens=settings.answer_max_tokens,
        models=model_clients,
        vote_plans=vote_plans,
        recorder=records.journal,
        idempotency=IdempotentAnswers(database.journal.by_request, records.journal.recent, records.journal.is_behind),
        ceilings=parts.ceilings,
        admission=Admission(max_in_flight=settings.max_in_flight, max_deliberations=settings.max_deliberations),
        recalibrated=calibrator,
        shares=lambda: calibrator.votes.shares,
        earlier=database.journal.earlier_winners,
        promises=calibrator.promises,
        label_share=settings.label_share,
        now=parts.now,
    )
    shadows = _shadow_traffic(settings, parts, routing.shadow, context, calibrator)
    context = replace(context, shadows=shadows)
    calibration = _calibration_use_cases(settings, parts, config, calibrator)
    use_cases = _use_cases(context, records, knowledge, calibration)
    gateways = _gateways(settings, parts, context, use_cases, records)
    batching = _batching(settings, parts, context, gateways)
    background = [worker for worker in (shadows, kinds_in_force, *batching.workers) if worker is not None]
    health = _health(parts, {**records.checks, **batching.checks}, calibrator, vote_plans, shadows, kinds_in_force)
    return ComposedRouter(
        name=NAME,
        app=_app(settings, parts, health, use_cases, gateways, batching),
        rpc=_rpc_server(settings, use_cases, parts.keyring),
        grpc_names=[CONTRACT.full_name],
        settings=settings,
        health=health,
        start=partial(_start, [records, calibrator, *background]),
        close=partial(
            closing,
            *(worker.close for worker in background),
            records.close,
            calibrator.close,
            model_clients.close,
            parts.embeddings.close,
            *(peer.close for peer in parts.peers.values()),
            database.close,
        ),
        context=context,
        records=records,
        knowledge=knowledge,
        calibrator=calibrator,
        shadows=shadows,
    )


# -- answering --------------------------------------------------------------------------------------------------------


def read_routing_rules(settings: Settings) -> RoutingRules:
    """Read how the system is chosen, from single settings or from files; files are read here, and never again.

    Raises:
        ConfigurationInvalid: For a routing or policy file that cannot be used.
    """
    tables = [read_policy(file) if file else None for file in (settings.policy_file, settings.shadow_policy_file)]
    weights = ActivationWeights(
        correctness=settings.weight_correctness,
        conflict=settings.weight_conflict,
        importance=settings.weight_importance,
        experience=settings.weight_experience,
    )
    stated = RoutingConfig(weights=weights, threshold=settings.threshold, undetermined=settings.undetermined)
    policy, shadow = [
        RoutingRules(
            config=routing_config(stated, settings.config_version, file=settings.routing_file, policy=table),
            policy=table,
        )
        for table in tables
    ]
    return policy if shadow.policy is None else replace(policy, shadow=shadow)


def _shadow_traffic(
    settings: Settings, parts: Parts, rules: RoutingRules | None, served: AnswerContext, calibrator: Calibrator
) -> ShadowTraffic | None:
    """Return what answers requests again: as `served`, by its own policy, in places of its own, counted by itself.

    Raises:
        ConfigurationInvalid: For a policy that the models cannot follow.
    """
    if rules is None or rules.policy is None:
        return None
    system_one = SystemOne(parts.model_clients, max_tokens=settings.answer_max_tokens)
    context = replace(
        served,
        routing=replace(served.routing, config=rules.config, policy=rules.policy, cache=None),
        strategies=_strategies(system_one, parts, calibrator, count=_count_nothing),
        limits=_limits(settings, rules.policy),
        vote_plans=VotePlans(parts.model_clients, rules.policy, _configured_cascade(settings)),
        admission=Admission(
            max_in_flight=settings.shadow_at_once, max_deliberations=settings.shadow_at_once, prefix="shadow_"
        ),
    )
    envelope = Envelope(
        max_generations=settings.shadow_max_generations,
        max_generated_tokens=settings.shadow_max_generated_tokens,
        timeout_ms=settings.shadow_timeout_ms,
        max_cost=settings.shadow_max_cost,
    )
    options = ShadowOptions(
        policy=rules.policy.version,
        share=settings.shadow_share,
        envelope=envelope,
        at_once=settings.shadow_at_once,
        max_served=settings.shadow_max_served,
        queue_bytes=settings.shadow_queue_max_bytes,
    )
    shadows = ShadowTraffic(context, served.admission, options)
    shadows.check_now()
    return shadows


def _count_nothing(*_: object) -> None:
    """Count no cascade of a shadow run among those that were served."""


def _kind_classifier(settings: Settings, parts: Parts) -> KindClassifier | None:
    """Return what finds the kind of a question; None without an encoder.

    Raises:
        ConfigurationInvalid: For a file of dimensions that cannot be used.
    """
    if not parts.has_encoder:
        return None
    return KindClassifier(parts.embeddings, prototypes_of(read_dimensions(settings.dimensions_file or SHIPPED)))


def _kinds_in_force(parts: Parts, classifier: KindClassifier) -> KindsInForce:
    delegation = parts.peers["delegation"]
    read = relay.kinds(delegation) if delegation.address else None
    return KindsInForce(classifier, read, every_s=parts.paces.kinds_every_s)


def _decision_cache(settings: Settings) -> DecisionCache | None:
    if not settings.cache_decisions:
        return None
    return DecisionCache(max_turns=settings.cache_decisions_turns, max_age_s=settings.cache_decisions_s)


def _assessors(settings: Settings, parts: Parts, knowledge: KnowledgeBase, calibrator: Calibrator) -> Assessors:
    affect = AffectMeasure(parts.affect)
    own = build_assessors(
        parts.model_clients.assessor(),
        [affect, ExperienceMeasure(knowledge.match)] if parts.has_encoder else [affect],
        MeaningSimilarity(parts.embeddings) if parts.has_encoder else None,
        PartWeights(by_part=settings.part_weights),
        Known(shares=lambda: calibrator.votes.shares, importance=settings.importance),
    )
    return Assessors(by_name={**own, **parts.assessors}, default=settings.assessor, streamed=settings.streamed_assessor)


def _strategies(
    system_one: SystemOne, parts: Parts, calibrator: Calibrator, count: CascadeCounter = count_cascade
) -> Mapping[Strategy, AnswerStrategy]:
    asked = relay.votes(parts.peers["arbiter"], lambda: calibrator.votes.competences)
    voting = Voting(asked, lambda: calibrator.votes.model, system_one, count)
    return {
        Strategy.SYSTEM_ONE: system_one,
        Strategy.VOTE: voting,
        Strategy.CASCADE: voting,
        Strategy.DIALECTIC: relay.dialectic(parts.peers["assigner"], parts.peers["delegation"]),
        Strategy.ARBITER: relay.arbitration(parts.peers["arbiter"]),
        Strategy.DELEGATION: relay.delegation(parts.peers["delegation"]),
        **parts.strategies,
    }


def _configured_cascade(settings: Settings) -> VotePlan:
    return VotePlan(
        sources=[PlannedSource(model=name) for name in settings.cascade_sources],
        agree=settings.cascade_agree,
        most=settings.cascade_most,
        escalate=settings.cascade_escalate,
    )


def _limits(settings: Settings, policy: Policy | None) -> Mapping[Strategy | None, Limits]:
    usual = Limits(
        max_generations=settings.max_generations,
        max_generated_tokens=settings.max_generated_tokens,
        timeout_ms=settings.timeout_ms,
    )
    single_pass = replace(usual, max_generated_tokens=settings.system_one_max_generated_tokens)
    arbitration = Limits(
        max_generations=settings.arbiter_max_generations,
        max_generated_tokens=settings.arbiter_max_generated_tokens,
        timeout_ms=settings.arbiter_timeout_ms,
    )
    return default_limits(usual, {Strategy.SYSTEM_ONE: single_pass, Strategy.ARBITER: arbitration}, policy)


# -- runs, feedback, knowledge, calibration ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStorageOptions:
    """These options say what is stored of runs, where, and for how long.

    Attributes:
        spool: File in which runs wait while the database is away.
        spool_max_bytes: Its size at most [bytes].
        queue_max_bytes: Size of the runs that wait in memory at most [bytes].
        recent_max_bytes: Size of the last runs with a request identifier that are held there [bytes].
        durable: Whether runs are there before their answers end.
        contents: Whether questions and answers are stored.
        days: Age from which runs are deleted [days]; 0: never.
        journal_retry_s: As in `Paces`, and so on.
        outbox_poll_s: The same.
        outbox_first_pause_s: The same.
        outbox_late_s: The same.
        retention_every_s: The same.
    """

    spool: Path
    spool_max_bytes: int = 256 * 1024 * 1024
    queue_max_bytes: int = QUEUE_BYTES
    recent_max_bytes: int = RECENT_BYTES
    durable: bool = False
    contents: bool = True
    days: int = 0
    journal_retry_s: float = RETRY_S
    outbox_poll_s: float = POLL_S
    outbox_first_pause_s: float = FIRST_S
    outbox_late_s: float = LATE_S
    retention_every_s: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackReceivers:
    """These parts learn from labels of runs.

    Attributes:
        delegation: The delegation service.
        experience: Verified answers; None where they are not stored.
        on_feedback: Reports to calibration, which reads labels itself, that there is a new one.
    """

    delegation: Peer
    experience: ExperienceStore | None
    on_feedback: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The rest of the router uses runs and feedback through these records.

    Attributes:
        runs: The runs.
        journal: Records runs.
        get_run: Use case: one run.
        submit_feedback: Use case: a label of one.
        checks: Checks of readiness, by part.
        start: Starts the background workers.
        close: Stops them.
    """

    runs: RunRecordStore
    journal: RunJournal
    get_run: Callable[..., Awaitable[Run]]
    submit_feedback: Callable[..., Awaitable[SubmitFeedbackResponse]]
    checks: Mapping[str, Check]
    start: Callable[[], None]
    close: Callable[[], Awaitable[None]]


def _run_records(database: RouterDatabase, options: RunStorageOptions, receivers: FeedbackReceivers) -> RunRecords:
    build_journal = partial(
        run_journal,
        database.journal,
        options.spool,
        max_spool_bytes=options.spool_max_bytes,
        max_queue_bytes=options.queue_max_bytes,
        max_recent_bytes=options.recent_max_bytes,
        retry_s=options.journal_retry_s,
        durable=options.durable,
    )
    journal = build_journal() if options.contents else build_journal(redact=without_contents)
    get_run = partial(recorded, find=database.runs.get, journal=journal)
    by_kind = _receivers(database.journal, receivers)
    outbox = Outbox(
        database.outbox,
        by_kind,
        poll_s=options.outbox_poll_s,
        first_pause_s=options.outbox_first_pause_s,
        late_s=options.outbox_late_s,
    )
    context = FeedbackContext(
        find=get_run,
        store=database.feedback,
        receivers=frozenset(by_kind),
        wake=outbox.wake,
        on_feedback=receivers.on_feedback,
        keep_contents=options.contents,
    )
    workers: dict[str, RunJournal | Outbox | Retention] = {"journal": journal, "outbox": outbox}
    if options.days:
        workers["retention"] = _retention(database, options, receivers, journal.rejected)
    return RunRecords(
        runs=database.runs,
        journal=journal,
        get_run=get_run,
        submit_feedback=partial(submit_feedback, context=context),
        checks={name: worker.check for name, worker in workers.items()},
        start=partial(_start, list(workers.values())),
        close=partial(closing, *(worker.close for worker in workers.values())),
    )


async def _forget(run: Run, *, records: RunRecords) -> None:
    """Delete what a run says, here and in the database."""
    await records.runs.forget(run.run_id)
    records.journal.forget(run.key_name, run.request_id)


class Worker(Protocol):
    """A worker works in the background."""

    def start(self) -> None:
        """Begin to work."""


def _start(
    workers: Sequence["Worker"],
) -> None:
    for worker in workers:
        worker.start()


def _run_storage(settings: Settings, parts: Parts) -> RunStorageOptions:
    paces = parts.paces
    return RunStorageOptions(
        spool=(settings.spool_dir or parts.home / "spool") / f"runs-{settings.rest_port}.jsonl",
        spool_max_bytes=settings.spool_max_bytes,
        queue_max_bytes=settings.queue_max_bytes,
        recent_max_bytes=settings.recent_max_bytes,
        contents=settings.keep_contents,
        days=settings.retention_days,
        durable=settings.journal == "durable",
        journal_retry_s=paces.journal_retry_s,
        outbox_poll_s=paces.outbox_poll_s,
        outbox_first_pause_s=paces.outbox_first_pause_s,
        outbox_late_s=paces.outbox_late_s,
        retention_every_s=paces.retention_every_s,
    )


def _retention(
    database: RouterDatabase, options: RunStorageOptions, receivers: FeedbackReceivers, rejected: RejectedDocuments
) -> Retention:
    forget = None if receivers.experience is None else receivers.experience.forget
    return Retention(
        "runs",
        OldRuns(database.old_runs, forget, [database.batch_steps.delete_old, database.batch_files.end_old]),
        days=options.days,
        delete_files=rejected.remove_older,
        every_s=options.retention_every_s,
    )


def _receivers(runs: RunRecordStore, receivers: FeedbackReceivers) -> Mapping[str, Receiver]:
    by_kind: dict[str, Receiver] = {DELEGATION: relay.delegation_feedback(receivers.delegation)}
    if receivers.experience is not None:
        by_kind[EXPERIENCE] = partial(_learn, runs=runs, experience=receivers.experience)
    return by_kind


async def _learn(message: Mapping[str, Any], *, runs: RunRecordStore, experience: ExperienceStore) -> None:
    await experience.learn(await runs.get(message["run_id"]))


def _knowledge(settings: Settings, parts: Parts) -> KnowledgeBase:
    matching = ExperienceMatching(
        weights=ExperienceWeights(knowledge=settings.knowledge_weight, experience=settings.experience_weight),
        calibration=SimilarityCalibration(
            floor=settings.similarity_floor,
            ceiling=settings.similarity_ceiling,
            encoder=settings.similarity_encoder,
        ),
        timeout_s=settings.similarity_timeout_ms / 1000,
        covers=settings.knowledge_covers,
    )
    limits = AddLimits(
        cut=ChunkSizes(most=settings.chunk_characters, overlap=settings.chunk_overlap_characters),
        document_characters=settings.document_max_characters,
        chunks=settings.knowledge_max_chunks,
    )
    return KnowledgeBase(parts.embeddings, parts.database.knowledge, matching, limits)


def _calibrator(settings: Settings, parts: Parts) -> Calibrator:
    return Calibrator(
        parts.database.labels,
        rules=FittingRules(minimum=settings.calibration_minimum, growth=settings.calibration_growth),
        refresh_s=settings.calibration_refresh_s,
        pause_s=parts.paces.calibration_pause_s,
        promises=Promises(
            parts.database.labels,
            exam_keys=settings.exam_keys,
            usual=settings.promise,
            stronger=lambda: settings.cascade_escalate,
        ),
        votes=VoteProbability(
            parts.database.labels, [settings.system_two], lambda: parts.model_clients.latest().catalogue_name("")
        ),
    )


def _calibration_use_cases(
    settings: Settings, parts: Parts, config: RoutingConfig, calibrator: Calibrator
) -> CalibrationUseCases:
    store, shares = parts.database.calibration, figure_shares()
    return CalibrationUseCases(
        get=partial(
            get_calibration,
            store=store,
            minimum=settings.calibration_minimum,
            pairs=SharedResults(shares, factor=0.0),  # a new map is listed at once
            shared=SharedResults(shares),
        ),
        rollback=partial(rollback_calibration, store=store, refresh=calibrator.refresh),
        activations=partial(
            get_activations, config=config, seen=parts.database.activations, shared=SharedResults(shares)
        ),
        cascades=partial(get_cascades, counts=parts.database.cascades, shared=SharedResults(shares)),
        shadow=partial(get_shadow, pairs=parts.database.shadows, shared=SharedResults(shares)),
        promises=partial(calibrator.promises.report, shared=SharedResults(shares)),
    )


# -- gateways, files and batches ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateways:
    """These gateways answer requests of OpenAI's API, and lines of batches.

    Attributes:
        chats: Answers chats.
        passing: Passes calls on.
        stored: Finds what responses continue, and stored responses.
    """

    chats: ChatGateway
    passing: PassingGateway
    stored: StoredResponses


def _gateways(
    settings: Settings, parts: Parts, context: AnswerContext, use_cases: rpc.RouterUseCases, records: RunRecords
) -> Gateways:
    offered = OfferedModels(parts.model_clients, settings.model_aliases)
    chats = ChatGateway(
        context=context,
        models=parts.model_clients,
        offered=offered,
        aliases=settings.model_aliases,
        media_hosts=settings.media_hosts,
        passed=PassedFields(settings.passed_fields),
        at_most=_usual_guard(settings),
        search=use_cases.knowledge.search,
    )
    passing = PassingGateway(
        context=PassingContext(answering=context, models=parts.model_clients, encoder=parts.embeddings),
        offered=offered,
        aliases=settings.model_aliases,
        media_hosts=settings.media_hosts,
        more_fields=settings.passed_fields,
    )
    stored = StoredResponses(
        continuation=Continuation(find=records.get_run, keeps=settings.keep_contents),
        forget=partial(_forget, records=records),
    )
    return Gateways(chats=chats, passing=passing, stored=stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The rest of the router uses files and batches through these.

    Attributes:
        files: Use cases of files.
        batches: Use cases of batches.
        workers: Take the steps of batches, and answer their lines.
        checks: Checks of readiness, by part.
    """

    files: Files
    batches: Batches
    workers: Sequence[BatchProgress | LineWorker]
    checks: Mapping[str, Check]


def _batching(settings: Settings, parts: Parts, context: AnswerContext, gateways: Gateways) -> Batching:
    database, keeps = parts.database, settings.keep_contents
    answers = LineAnswers(
        chats=gateways.chats,
        continuation=gateways.stored.continuation,
        passing=gateways.passing,
        more_fields=settings.passed_fields,
    )
    progress = BatchProgress(
        database.batch_steps,
        database.batch_files,
        StepPaces(poll_s=parts.paces.batches_poll_s, lease_s=parts.paces.batch_step_lease_s),
        keeps=keeps,
    )
    at_once = places(
        settings.batch_lines_at_once, in_flight=settings.max_in_flight, deliberations=settings.max_deliberations
    )
    paces = LinePaces(
        at_once=at_once,
        most_served=settings.max_in_flight // 2,
        lease_s=parts.paces.batch_line_lease_s,
        poll_s=parts.paces.batches_poll_s,
    )
    lines = LineWorker(database.batch_lines, answers, context.admission, paces, on_end=progress.wake)
    use_cases = Batches(
        store=database.batches,
        files=database.files,
        endpoints=list(answers.endpoints),
        per_key=settings.batches_per_key,
        active_per_key=settings.batches_active_per_key,
        keeps=keeps,
        now=parts.now,
        on_change=progress.wake,
    )
    checks: dict[str, Check] = {"batches": progress.check}
    if keeps:  # else no line may be stored with its answer
        checks["batch_lines"] = lines.check
    return Batching(
        files=_files(settings, parts),
        batches=use_cases,
        workers=[progress, lines] if keeps else [progress],
        checks=checks,
    )


def _files(settings: Settings, parts: Parts) -> Files:
    limits = FileLimits(
        size_bytes=settings.file_max_bytes,
        lines=settings.file_max_lines,
        line_bytes=settings.file_line_max_bytes,
        per_key=settings.files_per_key,
    )
    return Files(parts.database.files, limits, keeps=settings.keep_contents, now=parts.now)


# -- APIs -------------------------------------------------------------------------------------------------------------


def _use_cases(
    context: AnswerContext, records: RunRecords, knowledge: KnowledgeBase, calibration: CalibrationUseCases
) -> rpc.RouterUseCases:
    admitted = context.admission.bounding
    common: dict[str, Any] = {
        "default": context.limits[None],
        "drafter": context.drafter,
        "models": context.models,
        "ceilings": context.ceilings,
    }
    return rpc.RouterUseCases(
        assess=admitted(partial(assess, assessors=context.routing.assessors, **common)),
        route=admitted(partial(route, context=context.routing, **common)),
        answer=partial(answer, context=context),
        get_run=partial(shown_run, find=records.get_run),
        list_runs=records.runs.page,
        submit_feedback=records.submit_feedback,
        knowledge=knowledge.use,
        calibration=calibration,
    )


def _health(
    parts: Parts,
    own: Mapping[str, Check],
    calibrator: Calibrator,
    vote_plans: VotePlans,
    shadows: ShadowTraffic | None,
    kinds: KindsInForce | None,
) -> Health:
    return Health(
        {"inference": parts.model_clients.probe},
        {
            "models": parts.model_clients.check,
            "vote_plans": vote_plans.check,
            "database": parts.database.check,
            **own,
            "calibration": calibrator.check,
            **({} if shadows is None else {"shadow": shadows.check}),
            **({} if kinds is None else {"kinds": kinds.check}),
            "encoder": parts.embeddings.check,
            **{name: peer.check for name, peer in parts.peers.items()},
        },
    )


def _app(
    settings: Settings,
    parts: Parts,
    health: Health,
    use_cases: rpc.RouterUseCases,
    gateways: Gateways,
    batching: Batching,
) -> Application:
    app = build_app(
        NAME,
        health=health,
        keyring=parts.keyring,
        max_body_bytes=settings.max_body_bytes,
        max_held_body_bytes=settings.max_held_body_bytes,
        body_limits={
            "/v1/knowledge": settings.knowledge_max_body_bytes,
            files.PATH: settings.file_max_bytes + FORM_BYTES,
            **dict.fromkeys((chat.CHAT_PATH, responses.PATH, *messages.PATHS), settings.chat_max_body_bytes),
            **dict.fromkeys(passed.PATHS, settings.passed_max_body_bytes),
        },
    )
    root_rest.add_paths(app, health)
    rest.add_decision_paths(app, assess=use_cases.assess, route=use_cases.route, answer=use_cases.answer)
    rest.add_run_paths(
        app,
        get_run=use_cases.get_run,
        list_runs=use_cases.list_runs,
        submit_feedback=use_cases.submit_feedback,
    )
    rest.add_knowledge_paths(app, use_cases.knowledge)
    rest.add_calibration_paths(app, use_cases.calibration)
    chat.add_paths(app, gateways.chats, gateways.passing.encoder_name)
    passed.add_paths(app, gateways.passing)
    messages.add_paths(app, gateways.chats, gateways.passing)
    responses.add_paths(app, gateways.chats, gateways.stored, settings.passed_fields)
    files.add_paths(app, batching.files)
    batches.add_paths(app, batching.batches)
    reject_unserved_paths(app, CONTRACT)
    return app


def _usual_guard(settings: Settings) -> CostGuard | None:
    """Return the cost guard of chats that leave the strategy open; None in the papers' setting, and under a promise."""
    is_off = settings.system_two == "dialectic" or settings.promise is not None
    times = settings.at_most_times_system1
    return None if is_off or times < LEAST_TIMES else CostGuard(times_system1=times)


def _rpc_server(settings: Settings, use_cases: rpc.RouterUseCases, keyring: Keyring) -> aio.Server:
    server = grpc_server_of(settings, keyring)
    servicer = reject_unserved_calls(rpc.RouterServicer, CONTRACT)(use_cases, keyring)
    router_pb2_grpc.add_RouterServiceServicer_to_server(servicer, server)
    return server
