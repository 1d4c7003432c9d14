"""`python -m services.arbiter` runs the arbiter as a process; `... migrate` creates its schema."""

import asyncio
import sys
from functools import partial

from chassis import log, telemetry
from chassis.calls.records import CallRecords
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.health import Health
from chassis.serving.server import closing, run, serve
from chassis.settings import HttpSettings, read
from configuration.agents import DEFAULT_AGENTS_FILE, Agents
from configuration.contents import RouterContentsSettings, call_storage, with_router_defaults
from configuration.keys import read_keys
from configuration.suite import SuiteSettings
from inference import Embeddings, suite_models
from sandbox.mathematics import Calculators
from services.arbiter.compose import NAME, Parts, arbitration_defaults, compose
from services.arbiter.service.plan import default_rule
from services.arbiter.settings import Settings
from services.arbiter.store.tables import CALLS


async def main() -> None:
    """Read the settings, compose the service and serve it."""
    suite, settings = read(SuiteSettings), with_router_defaults(read(Settings), read(RouterContentsSettings))
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_ARBITER_HOST")
    agents = Agents(suite.agents_file or DEFAULT_AGENTS_FILE)
    model_clients = await suite_models(suite)
    await model_clients.check_agents(agents)
    embeddings = Embeddings(suite.encoder_url, model=suite.encoder_model, key=suite.encoder_api_key.get_secret_value())
    calculator = Calculators()
    # Both go on while the service starts; the first request that needs one waits for the rest of it.
    calculator.start()
    level = asyncio.create_task(asyncio.to_thread(lambda: default_rule(arbitration_defaults(settings)).level))
    storage = call_storage(NAME, suite, settings)
    records = None if storage is None else CallRecords(storage, CALLS)
    parts = Parts(
        model_clients=model_clients,
        agents=agents.current,
        encoder=embeddings,
        calculator=calculator,
        ceilings=suite.ceilings,
        keyring=keyring,
        health=Health(
            {"inference": model_clients.probe},
            {
                "agents": partial(model_clients.check_agents, agents),
                "encoder": embeddings.check,
                **({} if records is None else records.checks),
            },
        ),
        close=partial(closing, model_clients.close, embeddings.close, partial(asyncio.to_thread, calculator.close)),
        records=records,
    )
    await serve(compose(settings, parts), read(HttpSettings))
    level.cancel()


def migrate() -> None:
    """Bring the arbiter's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    from chassis.schema import migrations  # serving does without Alembic, which imports slowly

    migrations.migrate("services.arbiter", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
