"""`python -m services.delegation` runs the delegation service; `... migrate` creates its schema."""

import asyncio
import sys
from functools import partial
from pathlib import Path

from chassis import database as db
from chassis import log, telemetry
from chassis.serving import server
from chassis.serving.auth import check_keys_beyond_loopback, read_keys
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.settings import read
from configuration.agents import Agents
from configuration.suite import SuiteSettings
from inference import BackendModelClients, Embeddings, build_backend, default_backend
from services.delegation.compose import CONTRACT, Parts, build_server, compose, with_paths
from services.delegation.service.dimensions import read_dimensions
from services.delegation.settings import Settings

NAME = "delegation"
CONFIG = Path(__file__).parents[2] / "config"


async def main() -> None:
    """Compose the service and serve it."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_DELEGATION_HOST")
    agents = Agents(settings.agents_file or suite.agents_file or CONFIG / "agents.delegation.yaml")
    engine = db.build_engine(suite.database_url)
    embeddings = Embeddings(suite.encoder_url, model=suite.encoder_model, key=suite.encoder_api_key.get_secret_value())
    model_clients = BackendModelClients(await default_backend(suite), build_backend, suite.prices)
    parts = Parts(
        sessions=db.build_sessions(engine),
        model_clients=model_clients,
        embedder=embeddings,
        agents=agents.current,
        dimensions=read_dimensions(settings.dimensions_file or CONFIG / "dimensions.yaml"),
    )
    service = compose(settings, parts)
    health = Health(
        {"inference": model_clients.default.probe, "database": partial(db.check, engine)},
        {"agents": agents.check, "encoder": embeddings.check, "recalibration": service.recalibrator.check}
        | ({"sandbox": service.sandbox.ready} if settings.sandbox else {}),
    )
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes)
    service.recalibrator.start()
    await server.serve(
        server.Service(
            name=NAME,
            app=with_paths(app, service.use_cases),
            rpc=build_server(service.use_cases, keyring),
            grpc_names=[CONTRACT.full_name],
            settings=settings,
            health=health,
            close=partial(
                server.closing, service.recalibrator.close, model_clients.close, embeddings.close, engine.dispose
            ),
        )
    )


def migrate() -> None:
    """Bring the delegation service's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    db.migrate("services.delegation", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    server.run(_migrate if sys.argv[1:] == ["migrate"] else main)
