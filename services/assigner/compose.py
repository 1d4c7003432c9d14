"""This module composes the assigner from its settings and parts, for its process and for tests."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc

from chassis.admission import AdmissionLimit
from chassis.calls.records import CallRecords, Calls, start_of
from chassis.calls.values import StoredKind
from chassis.serving.auth import Keyring
from chassis.serving.contract import reject_unserved_paths
from chassis.serving.health import Health
from chassis.serving.peer import Peer
from chassis.serving.rest import build_app
from chassis.serving.server import Service, closing, grpc_server_of
from configuration.agents import AgentConfig
from inference import ModelClients
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.msv.affect import AffectAnalyser
from kernel.msv.ratings import rating_weights
from kernel.roles import VersionedWeights
from services.assigner import rest, rpc
from services.assigner.relay import DelegationExperience
from services.assigner.service.assignment import assign
from services.assigner.service.dialectic import DeliberationContext, DialecticDefaults, deliberate
from services.assigner.service.role_assigner import AssignmentPolicy, random_seed
from services.assigner.service.use_cases import AssignerUseCases
from services.assigner.service.values import DeliberateRequest, DeliberationFinished, Event, StoredDeliberation
from services.assigner.settings import Settings

NAME = "assigner"
CONTRACT = assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"]
DELIBERATION = StoredKind(
    name="deliberation",
    finished=DeliberationFinished,
    shown=StoredDeliberation,
    message=assigner_pb2.StoredDeliberation.DESCRIPTOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The assigner is composed of these parts and its settings.

    Attributes:
        model_clients: The model clients of the agents.
        agents: Returns the configured agents.
        affect: Measures affect in a text.
        weights: Weights of the fitness.
        keyring: Keys of callers.
        health: Checks of the parts.
        close: Closes the parts.
        chance: Returns the seed of a draw of roles where the request gives none.
        ceilings: The most that one request may spend.
        delegation: The delegation service, which is asked for the agents' experience; None where it is not asked.
        records: Where deliberations are recorded; None where they are not.
    """

    model_clients: ModelClients
    agents: Callable[[], Sequence[AgentConfig]]
    affect: AffectAnalyser
    close: Callable[[], Awaitable[None]]
    weights: VersionedWeights = field(default_factory=VersionedWeights)
    keyring: Keyring = field(default_factory=Keyring)
    health: Health = field(default_factory=lambda: Health({}))
    chance: Callable[[], int] = random_seed
    ceilings: Ceilings = DEFAULT_CEILINGS
    delegation: Peer | None = None
    records: CallRecords | None = None


@dataclass(frozen=True, kw_only=True)
class ComposedAssigner(Service):
    """A composed assigner can be served, and gives access to its deliberations.

    Attributes:
        deliberate: Use case: one deliberation.
    """

    deliberate: Callable[[DeliberateRequest], AsyncGenerator[Event, None]]


def compose(settings: Settings, parts: Parts) -> ComposedAssigner:
    """Return the assigner of `settings` over `parts`, ready to be served."""
    context = DeliberationContext(
        agents=parts.agents,
        model_clients=parts.model_clients,
        affect=parts.affect,
        defaults=_defaults(settings, parts),
        experience=_experience_source(settings, parts.delegation),
    )
    requests = AdmissionLimit("requests", settings.max_in_flight)
    run_dialectic = requests.bounding_events(partial(deliberate, context=context))
    deliberations = Calls(parts.records, DELIBERATION, NAME)
    use_cases = AssignerUseCases(
        assign=requests.bounding(partial(assign, weights=parts.weights)),
        deliberate=deliberations.recording(run_dialectic),
        deliberations=deliberations,
    )
    app = build_app(
        NAME,
        health=parts.health,
        keyring=parts.keyring,
        max_body_bytes=settings.max_body_bytes,
        max_held_body_bytes=settings.max_held_body_bytes,
        body_limits={"/v1/assignments": settings.assignments_max_body_bytes},
    )
    rest.add_paths(app, use_cases)
    reject_unserved_paths(app, CONTRACT)
    server = grpc_server_of(settings, parts.keyring)
    assigner_pb2_grpc.add_AssignerServiceServicer_to_server(rpc.AssignerServicer(use_cases, parts.keyring), server)
    return ComposedAssigner(
        name=NAME,
        app=app,
        rpc=server,
        grpc_names=[CONTRACT.full_name],
        settings=settings,
        health=parts.health,
        start=start_of(parts.records),
        close=parts.close if parts.records is None else partial(closing, parts.close, parts.records.close),
        deliberate=run_dialectic,
    )


def _experience_source(settings: Settings, delegation: Peer | None) -> DelegationExperience | None:
    if delegation is None:
        return None
    return DelegationExperience(peer=delegation, timeout_s=settings.experience_timeout_ms / 1000)


def _defaults(settings: Settings, parts: Parts) -> DialecticDefaults:
    return DialecticDefaults(
        limits=Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        ceilings=parts.ceilings,
        stage_max_tokens=settings.stage_max_tokens,
        input_max_tokens=settings.input_max_tokens,
        policy=AssignmentPolicy(
            weights=parts.weights,
            exploration_share=settings.exploration_share,
            keep_apart=settings.keep_apart,
            chance=parts.chance,
        ),
        part_weights=rating_weights(settings.part_weights),
        important=settings.note_importance,
        familiar=settings.note_experience,
    )
