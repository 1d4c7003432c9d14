"""`python -m services.assigner` runs the assigner as a process; `... migrate` creates its schema."""

import asyncio
import sys
from functools import partial

from chassis import log, telemetry
from chassis.calls.records import CallRecords
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.health import Health
from chassis.serving.peer import Peer
from chassis.serving.server import closing, run, serve
from chassis.settings import HttpSettings, read
from configuration.affect import analyser
from configuration.agents import DEFAULT_AGENTS_FILE, Agents
from configuration.contents import RouterContentsSettings, call_storage, with_router_defaults
from configuration.keys import check_peer_key, read_keys
from configuration.role_weights import read_role_weights
from configuration.suite import SuiteSettings
from inference import suite_models
from kernel.roles import VersionedWeights
from services.assigner.compose import NAME, Parts, compose
from services.assigner.settings import Settings
from services.assigner.store.tables import CALLS


async def main() -> None:
    """Read the settings, compose the service and serve it."""
    suite, settings = read(SuiteSettings), with_router_defaults(read(Settings), read(RouterContentsSettings))
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_ASSIGNER_HOST")
    check_peer_key(keyring, suite.peer_key.get_secret_value())
    agents = Agents(suite.agents_file or DEFAULT_AGENTS_FILE)
    weights = read_role_weights(settings.role_weights_file) if settings.role_weights_file else VersionedWeights()
    affect = analyser(suite.affect)
    model_clients = await suite_models(suite)
    await model_clients.check_agents(agents)
    delegation = _delegation(suite, settings)
    storage = call_storage(NAME, suite, settings)
    records = None if storage is None else CallRecords(storage, CALLS)
    parts = Parts(
        model_clients=model_clients,
        agents=agents.current,
        affect=affect,
        close=partial(closing, model_clients.close, *([delegation.close] if delegation else [])),
        weights=weights,
        keyring=keyring,
        health=Health(
            {},
            {
                "agents": partial(model_clients.check_agents, agents),
                "inference": model_clients.probe,
                **({"delegation": delegation.check} if delegation else {}),
                **({} if records is None else records.checks),
            },
        ),
        ceilings=suite.ceilings,
        delegation=delegation,
        records=records,
    )
    await serve(compose(settings, parts), read(HttpSettings))


def _delegation(suite: SuiteSettings, settings: Settings) -> Peer | None:
    if not settings.delegation_address:
        return None
    return Peer("delegation", settings.delegation_address, key=suite.peer_key.get_secret_value())


def migrate() -> None:
    """Bring the assigner's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    from chassis.schema import migrations  # serving does without Alembic, which imports slowly

    migrations.migrate("services.assigner", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
