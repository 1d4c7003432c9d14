"""The router as a process: `python -m services.router`, and `... migrate` for its schema."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fastapi import FastAPI
from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis import db, log, telemetry
from chassis.affect import vader
from chassis.auth import Keyring, demand_keys_beyond_loopback, read_keys
from chassis.backends import build_backend, default_backend
from chassis.contract import refuse_unserved_calls, refuse_unserved_paths
from chassis.health import Health
from chassis.peer import Peer
from chassis.rest import build_app
from chassis.serve import Service, closing, grpc_server, run, serve
from chassis.settings import SuiteSettings, read
from chassis.voices import Voices
from kernel.envelope import Limits
from services.router import chat, peers, rest, rpc
from services.router.core.activation import ActivationWeights
from services.router.core.strategies import Strategy
from services.router.service.answer import Answerer, Desk, answer
from services.router.service.assess import Verbalized, assess
from services.router.service.journal import Journal
from services.router.service.repeats import Repeats
from services.router.service.route import Deciding, RoutingConfig, route, version_of
from services.router.service.system_one import SystemOne
from services.router.settings import Settings
from services.router.store.runs import PostgresRuns

NAME = "router"
CONTRACT = router_pb2.DESCRIPTOR.services_by_name["RouterService"]


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    demand_keys_beyond_loopback(settings.host, keyring, "METACOG_ROUTER_HOST")
    deciding_config = _routing_config(settings)
    engine = db.build_engine(suite.database_url)
    runs = PostgresRuns(db.build_sessions(engine))
    voices = Voices(await default_backend(suite, max_tokens=settings.answer_max_tokens), build_backend)
    services = _peers(suite)
    spool = (settings.spool_dir or suite.home / "spool") / f"runs-{settings.rest_port}.jsonl"
    journal = Journal(runs, spool, max_spool_bytes=settings.spool_max_bytes)
    default = _limits(settings)
    desk = Desk(
        deciding=Deciding(config=deciding_config, assessor=Verbalized(voices.assessor(), vader)),
        answerers=_answerers(voices, services, settings),
        limits={**dict.fromkeys([None, *Strategy], default[None]), **default},
        recorder=journal,
        repeats=Repeats(runs.by_request, journal.recent),
    )
    use = rpc.UseCases(
        assess=partial(assess, assessor=desk.deciding.assessor, default=default[None]),
        route=partial(route, deciding=desk.deciding, default=default[None]),
        answer=partial(answer, desk=desk),
        get_run=runs.get,
        list_runs=runs.page,
    )
    health = Health(
        {"inference": voices.default.probe},
        {
            "database": partial(db.check, engine),
            "journal": journal.check,
            **{name: peer.check for name, peer in services.items()},
        },
    )
    app = build_app(NAME, health=health, keyring=keyring, max_body_bytes=settings.max_body_bytes)
    _add_paths(app, use, desk, voices, settings.model_aliases)
    journal.start()
    closers = [journal.close, voices.close, *(peer.close for peer in services.values()), engine.dispose]
    await serve(
        Service(
            name=NAME,
            app=app,
            rpc=_server(use, keyring),
            grpc_names=[CONTRACT.full_name],
            settings=settings,
            health=health,
            close=partial(closing, *closers),
        )
    )


def _routing_config(settings: Settings) -> RoutingConfig:
    weights = ActivationWeights(
        correctness=settings.weight_correctness,
        conflict=settings.weight_conflict,
        importance=settings.weight_importance,
        experience=settings.weight_experience,
    )
    config = RoutingConfig(weights=weights, threshold=settings.threshold, undetermined=settings.undetermined)
    return replace(config, version=settings.config_version or version_of(config))


def _limits(settings: Settings) -> Mapping[Strategy | None, Limits]:
    return {
        None: Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
        Strategy.SYSTEM_ONE: Limits(
            max_generations=settings.max_generations,
            max_generated_tokens=settings.system_one_max_generated_tokens,
            timeout_ms=settings.timeout_ms,
        ),
    }


def _peers(suite: SuiteSettings) -> dict[str, Peer]:
    key = suite.peer_key.get_secret_value()
    return {
        "assigner": Peer("assigner", suite.assigner_address, key=key),
        "arbiter": Peer("arbiter", suite.arbiter_address, key=key),
        "delegation": Peer("delegation", suite.delegation_address, key=key),
    }


def _answerers(voices: Voices, services: Mapping[str, Peer], settings: Settings) -> Mapping[Strategy, Answerer]:
    return {
        Strategy.SYSTEM_ONE: SystemOne(voices.assessor(), max_tokens=settings.answer_max_tokens),
        Strategy.DIALECTIC: peers.dialectic(services["assigner"]),
        Strategy.ARBITER: peers.arbitration(services["arbiter"]),
        Strategy.DELEGATION: peers.delegation(services["delegation"]),
    }


def _add_paths(app: FastAPI, use: rpc.UseCases, desk: Desk, voices: Voices, aliases: Mapping[str, str]) -> None:
    rest.add_decision_paths(app, assess=use.assess, route=use.route, answer=use.answer)
    rest.add_run_paths(app, get_run=use.get_run, list_runs=use.list_runs)
    chat.add_paths(app, desk=desk, backend=voices.default, aliases=aliases)
    refuse_unserved_paths(app, CONTRACT)


def _server(use: rpc.UseCases, keyring: Keyring) -> aio.Server:
    server = grpc_server(keyring)
    servicer = refuse_unserved_calls(rpc.Servicer, CONTRACT)(use, keyring)
    router_pb2_grpc.add_RouterServiceServicer_to_server(servicer, server)
    return server


def migrate() -> None:
    """Bring the router's schema to its newest version."""
    suite = read(SuiteSettings)
    log.configure(NAME, suite.log_level)
    db.migrate("services.router", suite.database_url)


async def _migrate() -> None:
    await asyncio.to_thread(migrate)


if __name__ == "__main__":
    run(_migrate if sys.argv[1:] == ["migrate"] else main)
