"""This module composes the arbiter from its settings and parts, for its process and for tests."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc, vote_pb2

from chassis.admission import AdmissionLimit
from chassis.calls.records import CallRecords, Calls, start_of
from chassis.calls.values import StoredKind
from chassis.serving.auth import Keyring
from chassis.serving.contract import reject_unserved_paths
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import Service, closing, grpc_server_of
from configuration.agents import AgentConfig
from inference import ModelClients
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from sandbox import CodeSandbox
from sandbox.mathematics import MathematicsSource
from services.arbiter import rest, rpc
from services.arbiter.service.arbitration import ArbitrationContext, arbitrate
from services.arbiter.service.claim_tracing import Encoding, Tracer
from services.arbiter.service.measurement import MeasureLimits, measure
from services.arbiter.service.plan import ArbitrationDefaults
from services.arbiter.service.replay import replay
from services.arbiter.service.stage_agents import DefaultAgents
from services.arbiter.service.use_cases import ArbiterUseCases
from services.arbiter.service.values import ArbitrationFinished, StoredArbitration
from services.arbiter.service.voting.values import StoredVote, VoteFinished
from services.arbiter.service.voting.vote import VoteContext, vote
from services.arbiter.settings import Settings

NAME = "arbiter"
# Programs of models that run at once [count], and memory of each [bytes]: together within the container's memory.
PROGRAMS_AT_ONCE, PROGRAM_MEMORY_BYTES = 2, 256 * 1024**2
CONTRACT = arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"]
ARBITRATION = StoredKind(
    name="arbitration",
    finished=ArbitrationFinished,
    shown=StoredArbitration,
    message=arbiter_pb2.StoredArbitration.DESCRIPTOR,
)
VOTE = StoredKind(name="vote", finished=VoteFinished, shown=StoredVote, message=vote_pb2.StoredVote.DESCRIPTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The arbiter is composed of these parts and its settings.

    Attributes:
        model_clients: The model clients of the agents.
        agents: Returns the configured agents.
        encoder: The sentence encoder of the embedding measures.
        calculator: Compares mathematical expressions.
        ceilings: The most that one request may spend.
        keyring: Keys of callers.
        health: Checks of the parts.
        close: Closes the parts.
        records: Where calls are recorded; None where they are not.
    """

    model_clients: ModelClients
    agents: Callable[[], Sequence[AgentConfig]]
    encoder: Encoding
    close: Callable[[], Awaitable[None]]
    calculator: MathematicsSource
    ceilings: Ceilings = DEFAULT_CEILINGS
    keyring: Keyring = field(default_factory=Keyring)
    health: Health = field(default_factory=lambda: Health({}))
    records: CallRecords | None = None


def compose(settings: Settings, parts: Parts) -> Service:
    """Return the arbiter with both APIs, ready to be served."""
    tracer = Tracer(parts.encoder, batch_timeout_s=settings.embedding_timeout_ms / 1000)
    defaults, calculator = replace(arbitration_defaults(settings), ceilings=parts.ceilings), parts.calculator
    most = MeasureLimits(samples=settings.measure_max_samples)
    requests = AdmissionLimit("requests", settings.max_in_flight)
    arbitrations, votes = Calls(parts.records, ARBITRATION, NAME), Calls(parts.records, VOTE, NAME)
    run_arbitration = partial(arbitrate, context=_context(settings, parts, tracer, defaults))
    run_vote = partial(vote, context=_vote_context(settings, parts))
    use_cases = ArbiterUseCases(
        arbitrate=arbitrations.recording(requests.bounding_events(run_arbitration)),
        measure=requests.bounding(partial(measure, tracer=tracer, most=most, calculator=calculator)),
        replay=requests.bounding(partial(replay, defaults=defaults, tracer=tracer, most=most, calculator=calculator)),
        vote=votes.recording(requests.bounding_events(run_vote)),
        arbitrations=arbitrations,
        votes=votes,
    )
    app = build_app(
        NAME,
        health=parts.health,
        keyring=parts.keyring,
        max_body_bytes=settings.max_body_bytes,
        max_held_body_bytes=settings.max_held_body_bytes,
        body_limits=dict.fromkeys(("/v1/measurements", "/v1/replays"), settings.measure_max_body_bytes),
    )
    rest.add_paths(app, use_cases)
    rest.add_stored_paths(app, use_cases)
    reject_unserved_paths(app, CONTRACT)
    server = grpc_server_of(settings, parts.keyring)
    arbiter_pb2_grpc.add_ArbiterServiceServicer_to_server(rpc.ArbiterServicer(use_cases, parts.keyring), server)
    return Service(
        name=NAME,
        app=app,
        rpc=server,
        grpc_names=[CONTRACT.full_name],
        settings=settings,
        health=parts.health,
        start=start_of(parts.records),
        close=parts.close if parts.records is None else partial(closing, parts.close, parts.records.close),
    )


def _context(settings: Settings, parts: Parts, tracer: Tracer, defaults: ArbitrationDefaults) -> ArbitrationContext:
    return ArbitrationContext(
        agents=parts.agents,
        model_clients=parts.model_clients,
        tracer=tracer,
        defaults=defaults,
        default_agents=DefaultAgents(
            solvers=settings.solver_agents, critic=settings.critic_agent, arbiter=settings.arbiter_agent
        ),
        tracing_timeout_s=settings.tracing_timeout_ms / 1000,
        calculator=parts.calculator,
    )


def _vote_context(settings: Settings, parts: Parts) -> VoteContext:
    return VoteContext(
        agents=parts.agents,
        model_clients=parts.model_clients,
        limits=arbitration_defaults(settings).limits,
        ceilings=parts.ceilings,
        max_programs=settings.max_programs,
        max_tokens=settings.vote_max_tokens,
        default_agents=settings.solver_agents,
        programs=settings.programs,
        sandbox=CodeSandbox(at_once=PROGRAMS_AT_ONCE, memory_bytes=PROGRAM_MEMORY_BYTES),
        calculator=parts.calculator,
    )


def arbitration_defaults(settings: Settings) -> ArbitrationDefaults:
    """Return the values of a request that leaves something out."""
    return ArbitrationDefaults(
        limits=Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        solver_max_tokens=settings.solver_max_tokens,
        critique_max_tokens=settings.critique_max_tokens,
        arbitration_max_tokens=settings.arbitration_max_tokens,
        input_max_tokens=settings.input_max_tokens,
        stopping_probability=settings.stopping_probability,
        first_batch_samples=settings.first_batch_samples,
        stop=settings.solving_stop,
        most_solvers=settings.max_solvers,
        most_samples=settings.max_samples,
    )
