"""The assigner as a process: `python -m services.assigner`."""

from functools import partial

from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc

from chassis import log, telemetry
from chassis.serving.auth import demand_keys_beyond_loopback, read_keys
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import Service, grpc_server, run, serve
from chassis.settings import SuiteSettings, read
from configuration.affect import analyser
from configuration.agents import Agents
from configuration.role_weights import read_role_weights
from inference.backends import build_backend, default_backend
from inference.client import DEFAULT_AGENTS_FILE, ModelClients
from kernel.envelope import Limits
from kernel.roles import VersionedWeights
from services.assigner import rest, rpc
from services.assigner.service.assign import assign
from services.assigner.service.dialectic import DeliberationContext, DialecticDefaults, deliberate
from services.assigner.service.role_assigner import AssignmentPolicy
from services.assigner.settings import Settings

NAME = "assigner"


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    demand_keys_beyond_loopback(settings.host, keyring, "METACOG_ASSIGNER_HOST")
    agents = Agents(suite.agents_file or DEFAULT_AGENTS_FILE)
    weights = read_role_weights(settings.role_weights_file) if settings.role_weights_file else VersionedWeights()
    affect = analyser(suite.affect)
    voices = ModelClients(await default_backend(suite), build_backend, suite.prices)
    defaults = _defaults(settings, weights)
    bench = DeliberationContext(agents=agents.current, voices=voices, affect=affect, defaults=defaults)
    give, discuss = partial(assign, weights=weights), partial(deliberate, bench=bench)
    health = Health({}, {"agents": agents.check, "inference": voices.default.probe})
    bodies = {"/v1/assignments": settings.assignments_max_body_bytes}
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes, body_limits=bodies)
    rest.add_paths(app, assign=give, deliberate=discuss)
    server = grpc_server(keyring)
    assigner_pb2_grpc.add_AssignerServiceServicer_to_server(rpc.Servicer(assign=give, deliberate=discuss), server)
    names = [assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"].full_name]
    await serve(
        Service(name=NAME, app=app, rpc=server, grpc_names=names, settings=settings, health=health, close=voices.close)
    )


def _defaults(settings: Settings, weights: VersionedWeights) -> DialecticDefaults:
    return DialecticDefaults(
        limits=Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        stage_max_tokens=settings.stage_max_tokens,
        input_max_tokens=settings.input_max_tokens,
        policy=AssignmentPolicy(weights=weights, exploration_share=settings.exploration_share),
        important=settings.note_importance,
        familiar=settings.note_experience,
    )


if __name__ == "__main__":
    run(main)
