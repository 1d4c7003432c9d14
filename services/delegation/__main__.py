"""The delegation service as a process: `python -m services.delegation`; its schema: `... migrate`."""

import asyncio
import sys
from functools import partial
from pathlib import Path

from chassis import database as db
from chassis import log, telemetry
from chassis.errors import ConfigurationInvalid
from chassis.serving.auth import demand_keys_beyond_loopback, read_keys
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import Service, closing, run, serve
from chassis.settings import SuiteSettings, read
from configuration.agents import Agents
from inference.backends import build_backend, default_backend
from inference.client import ModelClients
from inference.embeddings import Embeddings
from kernel.confidence.rules import Rules
from kernel.envelope import Limits
from kernel.learning.drift import DriftLimits
from services.delegation.compose import CONTRACT, Options, Parts, build_server, composed, config_version, with_paths
from services.delegation.core.routine import Routine
from services.delegation.service.dimensions import Dimension, read_dimensions
from services.delegation.service.process import TaskDefaults
from services.delegation.settings import Settings

NAME = "delegation"
CONFIG = Path(__file__).parents[2] / "config"


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    demand_keys_beyond_loopback(settings.host, keyring, "METACOG_DELEGATION_HOST")
    agents = Agents(settings.agents_file or suite.agents_file or CONFIG / "agents.delegation.yaml")
    if settings.judge_agent and settings.judge_agent not in [agent.id for agent in agents.current()]:
        said = f"METACOG_DELEGATION_JUDGE_AGENT: {settings.judge_agent!r} is not configured"
        raise ConfigurationInvalid(said, setting="METACOG_DELEGATION_JUDGE_AGENT")
    dimensions = read_dimensions(settings.dimensions_file or CONFIG / "dimensions.yaml")
    engine = db.build_engine(suite.database_url)
    embeddings = Embeddings(suite.encoder_url, model=suite.encoder_model, key=suite.encoder_api_key.get_secret_value())
    voices = ModelClients(await default_backend(suite), build_backend, suite.prices)
    world = Parts(
        sessions=db.build_sessions(engine),
        voices=voices,
        embedder=embeddings,
        agents=agents.current,
        dimensions=dimensions,
    )
    made = composed(world, _options(settings, dimensions))
    health = Health(
        {"inference": voices.default.probe, "database": partial(db.check, engine)},
        {"agents": agents.check, "encoder": embeddings.check}
        | ({"sandbox": made.sandbox.ready} if settings.sandbox else {}),
    )
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes)
    made.recalibrator.start()
    await serve(
        Service(
            name=NAME,
            app=with_paths(app, made.use),
            rpc=build_server(made.use, keyring),
            grpc_names=[CONTRACT.full_name],
            settings=settings,
            health=health,
            close=partial(closing, made.recalibrator.close, voices.close, embeddings.close, engine.dispose),
        )
    )


def _options(settings: Settings, dimensions: tuple[Dimension, ...]) -> Options:
    rules = Rules(**{name: getattr(settings, name) for name in Rules.__dataclass_fields__ if hasattr(settings, name)})
    routine = Routine(
        certainty=settings.routine_certainty,
        competence=settings.routine_competence,
        observations=settings.routine_observations,
    )
    defaults = TaskDefaults(
        limits=Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        rules=rules,
        classifier=settings.classifier,
        answer_max_tokens=settings.answer_max_tokens,
        task_characters=settings.task_characters,
        routine=routine,
        config_version=settings.config_version or config_version(rules, routine, dimensions),
    )
    return Options(
        defaults=defaults,
        drift=DriftLimits(threshold=settings.drift_threshold, window=settings.drift_window),
        sandbox=settings.sandbox,
        test_timeout_s=settings.test_timeout_ms / 1000,
        judge=settings.judge_agent,
        recalibration_minimum=settings.recalibration_minimum,
    )


def migrate() -> None:
    """Bring the delegation service's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    db.migrate("services.delegation", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
