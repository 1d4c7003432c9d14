"""`python -m services.delegation` runs the delegation service; `... migrate` creates its schema."""

import asyncio
import sys
from functools import partial

from chassis import database as db
from chassis import log, telemetry
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.server import run, serve
from chassis.settings import HttpSettings, read
from configuration.agents import DEFAULT_AGENTS_FILE, Agents
from configuration.contents import RouterContentsSettings, with_router_defaults
from configuration.dimensions import SHIPPED, read_dimensions
from configuration.keys import read_keys
from configuration.suite import SuiteSettings
from inference import Embeddings, suite_models
from sandbox.mathematics import Calculators
from services.delegation.compose import NAME, Parts, compose
from services.delegation.settings import Settings


async def main() -> None:
    """Read the settings, compose the service and serve it."""
    suite, settings = read(SuiteSettings), with_router_defaults(read(Settings), read(RouterContentsSettings))
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_DELEGATION_HOST")
    agents = Agents(settings.agents_file or suite.agents_file or DEFAULT_AGENTS_FILE)
    embeddings = Embeddings(suite.encoder_url, model=suite.encoder_model, key=suite.encoder_api_key.get_secret_value())
    model_clients = await suite_models(suite)
    await model_clients.check_agents(agents)
    calculator = Calculators()
    calculator.start()  # it gets ready while the service starts; the first task that needs it waits for the rest
    parts = Parts(
        engine=db.build_engine(suite.database_url),
        reading=db.build_engine(suite.database_url, connections=db.CONNECTIONS // 2),
        model_clients=model_clients,
        embeddings=embeddings,
        agents=agents.current,
        dimensions=read_dimensions(settings.dimensions_file or SHIPPED),
        calculator=calculator,
        check_agents=partial(model_clients.check_agents, agents),
        keyring=keyring,
        ceilings=suite.ceilings,
    )
    try:
        await serve(compose(settings, parts), read(HttpSettings))
    finally:
        await asyncio.to_thread(calculator.close)


def migrate() -> None:
    """Bring the delegation service's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    from chassis.schema import migrations  # serving does without Alembic, which imports slowly

    migrations.migrate("services.delegation", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
