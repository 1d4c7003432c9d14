"""The arbiter service as a process: `python -m services.arbiter`."""

import asyncio
from functools import partial

from grpc import aio
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc

from chassis import log, telemetry
from chassis.serving.auth import Keyring, demand_keys_beyond_loopback, read_keys
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import Service, closing, grpc_server, run, serve
from chassis.settings import SuiteSettings, read
from configuration.agents import Agents
from inference.backends import build_backend, default_backend
from inference.client import DEFAULT_AGENTS_FILE, ModelClients
from inference.embeddings import Embeddings
from kernel.envelope import Limits
from sandbox.mathematics import Calculator
from services.arbiter import rest, rpc
from services.arbiter.service.agents import DefaultAgents
from services.arbiter.service.arbitrate import ArbitrationContext, arbitrate
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measure import MeasureLimits, measure
from services.arbiter.service.plan import ArbitrationDefaults, default_rule
from services.arbiter.service.replay import replay
from services.arbiter.settings import Settings

NAME = "arbiter"
CONTRACT = arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"]


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    demand_keys_beyond_loopback(settings.host, keyring, "METACOG_ARBITER_HOST")
    agents = Agents(suite.agents_file or DEFAULT_AGENTS_FILE)
    voices = ModelClients(await default_backend(suite), build_backend, suite.prices)
    embeddings = Embeddings(suite.encoder_url, model=suite.encoder_model, key=suite.encoder_api_key.get_secret_value())
    tracer = Tracer(embeddings, batch_timeout_s=settings.embedding_timeout_ms / 1000)
    defaults = _defaults(settings)
    calculator = Calculator()
    # Neither is waited for: whoever needs them first waits for what is left.
    calculator.start()
    level = asyncio.create_task(asyncio.to_thread(lambda: default_rule(defaults).level))
    most = MeasureLimits(samples=settings.measure_max_samples)
    bench = ArbitrationContext(
        agents=agents.current,
        voices=voices,
        tracer=tracer,
        defaults=defaults,
        usual=DefaultAgents(
            solvers=settings.solver_agents, critic=settings.critic_agent, arbiter=settings.arbiter_agent
        ),
        tracing_timeout_s=settings.tracing_timeout_ms / 1000,
        calculator=calculator,
    )
    settle = partial(arbitrate, bench=bench)
    gauge = partial(measure, tracer=tracer, most=most, calculator=calculator)
    rerun = partial(replay, defaults=defaults, tracer=tracer, most=most, calculator=calculator)
    health = Health({"inference": voices.default.probe}, {"agents": agents.check, "encoder": embeddings.check})
    bodies = dict.fromkeys(("/v1/measurements", "/v1/replays"), settings.measure_max_body_bytes)
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes, body_limits=bodies)
    rest.add_paths(app, arbitrate=settle, measure=gauge, replay=rerun)
    await serve(
        Service(
            name=NAME,
            app=app,
            rpc=_server(rpc.Servicer(arbitrate=settle, measure=gauge, replay=rerun), keyring),
            grpc_names=[CONTRACT.full_name],
            settings=settings,
            health=health,
            close=partial(closing, voices.close, embeddings.close, partial(asyncio.to_thread, calculator.close)),
        )
    )
    level.cancel()


def _defaults(settings: Settings) -> ArbitrationDefaults:
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
        stepwise_solving=settings.stepwise_solving,
        most_solvers=settings.max_solvers,
        most_samples=settings.max_samples,
    )


def _server(servicer: rpc.Servicer, keyring: Keyring) -> aio.Server:
    server = grpc_server(keyring)
    arbiter_pb2_grpc.add_ArbiterServiceServicer_to_server(servicer, server)
    return server


if __name__ == "__main__":
    run(main)
