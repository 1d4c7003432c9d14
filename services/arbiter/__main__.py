"""The arbiter service as a process: `python -m services.arbiter`.

It serves its whole contract; every operation answers `NOT_IMPLEMENTED` until it is built, and the router falls back.
"""

from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc

from chassis import log, telemetry
from chassis.auth import demand_keys_beyond_loopback, read_keys
from chassis.contract import refuse_unserved_calls, refuse_unserved_paths
from chassis.health import Health
from chassis.rest import build_app
from chassis.serve import Service, closing, grpc_server, run, serve
from chassis.settings import SuiteSettings, read
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
    health = Health({})
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes)
    refuse_unserved_paths(app, CONTRACT)
    server = grpc_server(keyring)
    servicer = refuse_unserved_calls(arbiter_pb2_grpc.ArbiterServiceServicer, CONTRACT)()
    arbiter_pb2_grpc.add_ArbiterServiceServicer_to_server(servicer, server)
    await serve(
        Service(
            name=NAME,
            app=app,
            rpc=server,
            grpc_names=[CONTRACT.full_name],
            settings=settings,
            health=health,
            close=closing,
        )
    )


if __name__ == "__main__":
    run(main)
