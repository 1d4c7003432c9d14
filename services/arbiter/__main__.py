"""`python -m services.arbiter` runs the arbiter as a process."""

import asyncio
from functools import partial

from chassis import log, telemetry
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.health import Health
from chassis.serving.server import closing, run, serve
from chassis.settings import HttpSettings, read
from configuration.agents import DEFAULT_AGENTS_FILE, Agents
from configuration.keys import read_keys
from configuration.suite import SuiteSettings
from inference import Embeddings, suite_models
from sandbox.mathematics import Calculators
from services.arbiter.compose import NAME, Parts, arbitration_defaults, compose
from services.arbiter.service.plan import default_rule
from services.arbiter.settings import Settings


async def main() -> None:
    """Read the settings, compose the service and serve it."""
    suite, settings = read(SuiteSettings), read(Settings)
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
    parts = Parts(
        model_clients=model_clients,
        agents=agents.current,
        encoder=embeddings,
        calculator=calculator,
        ceilings=suite.ceilings,
        keyring=keyring,
        health=Health(
            {"inference": model_clients.probe},
            {"agents": partial(model_clients.check_agents, agents), "encoder": embeddings.check},
        ),
        close=partial(closing, model_clients.close, embeddings.close, partial(asyncio.to_thread, calculator.close)),
    )
    await serve(compose(settings, parts), read(HttpSettings))
    level.cancel()


if __name__ == "__main__":
    run(main)
