"""`python -m services.router` runs the router as a process; `... migrate` creates its schema."""

import asyncio
import sys

from chassis import log, telemetry
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.peer import Peer
from chassis.serving.server import run, serve
from chassis.settings import HttpSettings, read
from configuration.affect import analyser
from configuration.keys import check_peer_key, read_keys
from configuration.suite import SuiteSettings
from inference import Embeddings, suite_models
from services.router.compose import NAME, Parts, compose, postgres_database, read_routing_rules
from services.router.settings import Settings


async def main() -> None:
    """Read the settings, compose the router and serve it."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    await serve(compose(settings, await _parts(suite, settings)), read(HttpSettings))


async def _parts(suite: SuiteSettings, settings: Settings) -> Parts:
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_ROUTER_HOST")
    check_peer_key(keyring, suite.peer_key.get_secret_value())
    routing = read_routing_rules(settings)  # before any server is asked: a wrong file is reported at once
    key = suite.encoder_api_key.get_secret_value()
    return Parts(
        model_clients=await suite_models(suite, max_tokens=settings.answer_max_tokens),
        database=postgres_database(suite.database_url),
        embeddings=Embeddings(suite.encoder_url, model=suite.encoder_model, key=key),
        peers=_peers(suite),
        home=suite.home,
        keyring=keyring,
        ceilings=suite.ceilings,
        affect=analyser(suite.affect),
        routing=routing,
    )


def _peers(suite: SuiteSettings) -> dict[str, Peer]:
    key = suite.peer_key.get_secret_value()
    return {
        "assigner": Peer("assigner", suite.assigner_address, key=key),
        "arbiter": Peer("arbiter", suite.arbiter_address, key=key),
        "delegation": Peer("delegation", suite.delegation_address, key=key),
    }


def migrate() -> None:
    """Bring the router's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    from chassis.schema import migrations  # serving does without Alembic, which imports slowly

    migrations.migrate("services.router", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
