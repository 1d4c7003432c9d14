"""The router as a process: `python -m services.router`, and `... migrate` for its schema."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis import database as db
from chassis import log, telemetry
from chassis.serving.auth import Keyring, demand_keys_beyond_loopback, read_keys
from chassis.serving.contract import refuse_unserved_calls, refuse_unserved_paths
from chassis.serving.health import Health
from chassis.serving.rest import Application, build_app
from chassis.serving.server import Service, closing, grpc_server, run, serve
from chassis.settings import SuiteSettings, read
from configuration.affect import analyser
from configuration.policy import read_policy
from inference.backends import build_backend, default_backend
from inference.client import ModelClients
from inference.embeddings import Embeddings
from kernel.activation import ActivationWeights
from kernel.envelope import Limits
from kernel.msv.experience import ExperienceWeights, SimilarityCalibration
from kernel.msv.signals import PartWeights
from kernel.policy import Policy
from services.router import openai_rest, relay, rest, rpc
from services.router.compose import FeedbackReceivers, RunStorageOptions, build_calibration, build_records
from services.router.core.calibration import FittingRules
from services.router.core.strategies import Strategy
from services.router.relay import Peer
from services.router.service.answering.admission import Admission
from services.router.service.answering.answer import AnswerContext, AnswerStrategy, answer, default_limits
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.answering.system_one import SystemOne
from services.router.service.assessment.assess import Assessors, assess, build_assessors
from services.router.service.assessment.measures import (
    AffectMeasure,
    ExperienceMatching,
    ExperienceMeasure,
    MeaningSimilarity,
)
from services.router.service.assessment.route import DecisionCache, RoutingConfig, RoutingContext, route
from services.router.service.assessment.routing_config import routing_config
from services.router.service.knowledge.add import AddLimits
from services.router.service.knowledge.knowledge import KnowledgeBase
from services.router.service.knowledge.values import ChunkSizes
from services.router.settings import Settings
from services.router.store.knowledge import PostgresKnowledge

NAME = "router"
CONTRACT = router_pb2.DESCRIPTOR.services_by_name["RouterService"]


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure(NAME, suite.log_level)
    telemetry.configure(NAME, suite.otlp_endpoint)
    keyring = read_keys(suite.keys_file)
    demand_keys_beyond_loopback(settings.host, keyring, "METACOG_ROUTER_HOST")
    deciding = _deciding(settings)
    engine = db.build_engine(suite.database_url)
    known = _knowledge(suite, settings, PostgresKnowledge(db.build_sessions(engine)))
    voices = ModelClients(
        await default_backend(suite, max_tokens=settings.answer_max_tokens), build_backend, suite.prices
    )
    services = _peers(suite)
    calibration = build_calibration(
        db.build_sessions(engine),
        deciding.keywords["config"],
        _fitting(settings),
        refresh_s=settings.calibration_refresh_s,
    )
    records = build_records(
        db.build_sessions(engine),
        _keeping(suite, settings),
        FeedbackReceivers(
            delegation=services["delegation"], experience=known.experience, judged=calibration.calibrator.judged
        ),
    )
    default = _limits(settings, deciding.keywords["policy"])
    system_one = SystemOne(voices.assessor(), max_tokens=settings.answer_max_tokens)
    assessors = Assessors(
        by_name=build_assessors(
            voices.assessor(),
            [AffectMeasure(analyser(suite.affect)), ExperienceMeasure(known.match)],
            MeaningSimilarity(known.embeddings),
            PartWeights(by_part=settings.part_weights),
        ),
        default=settings.assessor,
        streamed=settings.streamed_assessor,
    )
    admission = Admission(max_in_flight=settings.max_in_flight, max_deliberations=settings.max_deliberations)
    desk = AnswerContext(
        deciding=deciding(assessors=assessors),
        answerers=_answerers(system_one, services),
        drafter=system_one.drafter,
        limits=default,
        answer_tokens=settings.answer_max_tokens,
        models=[voices.assessor()],
        recorder=records.journal,
        repeats=IdempotentAnswers(records.runs.by_request, records.journal.recent),
        admission=admission,
        recalibrated=calibration.calibrator,
    )
    use = rpc.UseCases(
        assess=admission.bounding(
            partial(
                assess,
                assessors=assessors,
                default=default[None],
                drafter=system_one.drafter,
                models=[voices.assessor()],
            )
        ),
        route=admission.bounding(
            partial(
                route,
                deciding=desk.deciding,
                default=default[None],
                drafter=system_one.drafter,
                models=[voices.assessor()],
            )
        ),
        answer=partial(answer, desk=desk),
        get_run=records.get_run,
        list_runs=records.runs.page,
        submit_feedback=records.submit_feedback,
        knowledge=known.use,
        calibration=calibration.use,
    )
    health = Health(
        {"inference": voices.default.probe},
        {
            "database": partial(db.check, engine),
            **records.checks,
            "calibration": calibration.calibrator.check,
            "encoder": known.embeddings.check,
            **{name: peer.check for name, peer in services.items()},
        },
    )
    app = _with_paths(
        build_app(
            NAME,
            health=health,
            keyring=keyring,
            max_body_bytes=settings.max_body_bytes,
            body_limits={"/v1/knowledge": settings.knowledge_max_body_bytes},
        ),
        use,
        desk,
        voices,
        settings.model_aliases,
    )
    records.start()
    calibration.calibrator.start()
    closers = [
        records.close,
        calibration.calibrator.close,
        voices.close,
        known.embeddings.close,
        *(peer.close for peer in services.values()),
        engine.dispose,
    ]
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


def _keeping(suite: SuiteSettings, settings: Settings) -> RunStorageOptions:
    return RunStorageOptions(
        spool=(settings.spool_dir or suite.home / "spool") / f"runs-{settings.rest_port}.jsonl",
        spool_max_bytes=settings.spool_max_bytes,
        contents=settings.keep_contents,
        days=settings.retention_days,
    )


def _fitting(settings: Settings) -> FittingRules:
    return FittingRules(minimum=settings.calibration_minimum, growth=settings.calibration_growth)


def _deciding(settings: Settings) -> partial[RoutingContext]:
    """How the system is chosen, but for the assessors; files are read here, and never again."""
    weights = ActivationWeights(
        correctness=settings.weight_correctness,
        conflict=settings.weight_conflict,
        importance=settings.weight_importance,
        experience=settings.weight_experience,
    )
    stated = RoutingConfig(weights=weights, threshold=settings.threshold, undetermined=settings.undetermined)
    policy = read_policy(settings.policy_file) if settings.policy_file else None
    config = routing_config(stated, settings.config_version, file=settings.routing_file, policy=policy)
    kept = DecisionCache(most_turns=settings.cache_decisions_turns, max_age_s=settings.cache_decisions_s)
    return partial(RoutingContext, config=config, policy=policy, kept=kept if settings.cache_decisions else None)


def _knowledge(suite: SuiteSettings, settings: Settings, library: PostgresKnowledge) -> KnowledgeBase:
    key = suite.encoder_api_key.get_secret_value()
    matching = ExperienceMatching(
        weights=ExperienceWeights(knowledge=settings.knowledge_weight, experience=settings.experience_weight),
        calibration=SimilarityCalibration(
            floor=settings.similarity_floor,
            ceiling=settings.similarity_ceiling,
            encoder=settings.similarity_encoder,
        ),
        timeout_s=settings.similarity_timeout_ms / 1000,
    )
    limits = AddLimits(
        cut=ChunkSizes(most=settings.chunk_characters, overlap=settings.chunk_overlap_characters),
        document_characters=settings.document_max_characters,
        chunks=settings.knowledge_max_chunks,
    )
    return KnowledgeBase(Embeddings(suite.encoder_url, model=suite.encoder_model, key=key), library, matching, limits)


def _limits(settings: Settings, policy: Policy | None) -> Mapping[Strategy | None, Limits]:
    usual = Limits(
        max_generations=settings.max_generations,
        max_generated_tokens=settings.max_generated_tokens,
        timeout_ms=settings.timeout_ms,
    )
    plain = replace(usual, max_generated_tokens=settings.system_one_max_generated_tokens)
    arbitration = Limits(
        max_generations=settings.arbiter_max_generations,
        max_generated_tokens=settings.arbiter_max_generated_tokens,
        timeout_ms=settings.arbiter_timeout_ms,
    )
    return default_limits(usual, {Strategy.SYSTEM_ONE: plain, Strategy.ARBITER: arbitration}, policy)


def _peers(suite: SuiteSettings) -> dict[str, Peer]:
    key = suite.peer_key.get_secret_value()
    return {
        "assigner": Peer("assigner", suite.assigner_address, key=key),
        "arbiter": Peer("arbiter", suite.arbiter_address, key=key),
        "delegation": Peer("delegation", suite.delegation_address, key=key),
    }


def _answerers(system_one: SystemOne, services: Mapping[str, Peer]) -> Mapping[Strategy, AnswerStrategy]:
    return {
        Strategy.SYSTEM_ONE: system_one,
        Strategy.DIALECTIC: relay.dialectic(services["assigner"]),
        Strategy.ARBITER: relay.arbitration(services["arbiter"]),
        Strategy.DELEGATION: relay.delegation(services["delegation"]),
    }


def _with_paths(
    app: Application, use: rpc.UseCases, desk: AnswerContext, voices: ModelClients, aliases: Mapping[str, str]
) -> Application:
    rest.add_decision_paths(app, assess=use.assess, route=use.route, answer=use.answer)
    rest.add_run_paths(app, get_run=use.get_run, list_runs=use.list_runs, submit_feedback=use.submit_feedback)
    rest.add_knowledge_paths(app, use.knowledge)
    rest.add_calibration_paths(app, use.calibration)
    openai_rest.add_paths(app, desk=desk, backend=voices.default, aliases=aliases)
    refuse_unserved_paths(app, CONTRACT)
    return app


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
