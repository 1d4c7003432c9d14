"""This module defines the settings of the router."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import ApiSettings
from kernel.activation import PAPER_THRESHOLD, PAPER_WEIGHTS, Route
from kernel.learning.gains import MINIMUM_GAIN
from kernel.msv.assessors import AssessorName
from kernel.msv.experience import DEFAULT_CALIBRATION, DEFAULT_WEIGHTS
from kernel.statistics.recalibration import GROWTH, MINIMUM_LABELS
from kernel.votes.promise import LEAST_ERROR, MOST_ERROR
from services.router.core.cost_guard import MOST_TIMES
from services.router.core.media_sources import media_host


class Settings(ApiSettings):
    """The settings are read from environment variables `METACOG_ROUTER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ROUTER_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8080, ge=0, le=65535, description="Port of the REST and OpenAI APIs")
    grpc_port: int = Field(50051, ge=0, le=65535, description="Port of the gRPC API")
    threshold: float = Field(
        PAPER_THRESHOLD, ge=0, le=1, description="System 2 if and only if the activation reaches it"
    )
    weight_correctness: float = Field(
        PAPER_WEIGHTS.correctness, description="Weight of 1 - correctness in the activation"
    )
    weight_conflict: float = Field(PAPER_WEIGHTS.conflict, description="Weight of conflict in the activation")
    weight_importance: float = Field(PAPER_WEIGHTS.importance, description="Weight of importance in the activation")
    weight_experience: float = Field(PAPER_WEIGHTS.experience, description="Weight of 1 - experience in the activation")
    assessor: AssessorName = Field(AssessorName.ANSWERS, description="How the state of a question is measured")
    streamed_assessor: AssessorName = Field(
        AssessorName.ANSWERS, description="The same where the answer is streamed, which has no use for a draft"
    )
    importance: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Importance of every request, as a policy, for the assessor `answers`, which then calls no model;"
        " empty: the model rates it",
    )
    part_weights: dict[str, float] = Field(
        {}, description='Weights of parts inside their component, where they are not 1, e.g. {"check": 2}'
    )
    undetermined: Route = Field(Route.SYSTEM_TWO, description="System for a state of which too little is known")
    system_two: Literal["vote", "dialectic"] = Field(
        "vote",
        description="System 2 of a request that names no strategy: `vote`, with the dialectic where answers cannot be"
        " compared, or `dialectic` everywhere, as in the papers",
    )
    minimum_gain: float = Field(
        MINIMUM_GAIN,
        ge=-1,
        le=1,
        description="How much more often System 2 must be right on a kind of question, from 20 questions labelled for"
        " both systems on, to be used for it: what its price is worth",
    )
    dimensions_file: Path | None = Field(
        None,
        description="The dimensions, by which the kind of a question is found while the delegation service is away;"
        " empty: the paper's five. Give it what METACOG_DELEGATION_DIMENSIONS_FILE has",
    )
    cascade_sources: list[str] = Field(
        [],
        description='Models that vote in a cascade, in this order, e.g. ["a", "b"]; empty: the cheapest three',
    )
    cascade_escalate: str = Field(
        "", description="Model that answers where they do not agree; empty: the most expensive of models.yaml"
    )
    cascade_agree: int | None = Field(None, ge=1, le=64, description="Votes that decide a cascade; empty: 2")
    cascade_most: int | None = Field(
        None, ge=1, le=64, description="Votes of a cascade at most; empty: as many as cost less than the stronger model"
    )
    promise: float | None = Field(
        None,
        ge=LEAST_ERROR,
        le=MOST_ERROR,
        description="Share of errors among the answers that are given, at most, for every request that leaves its"
        " strategy open or names `vote` or `cascade`; an answer that labels do not prove is withheld; empty: none",
    )
    exam_keys: list[str] = Field(
        [],
        description="Names of the API keys whose exams prove promises to every key; other labels count for their own"
        " key alone",
    )
    label_share: float = Field(
        0.0, ge=0, le=1, description="Share of the served runs that are drawn at random to be labelled"
    )
    config_version: str = Field(
        "", description="Name recorded with each decision; empty: `paper`, or a digest of what differs from it"
    )
    routing_file: Path | None = Field(
        None, description="Weights, threshold and version as a file, instead of the single settings; read at start only"
    )
    policy_file: Path | None = Field(
        None, description="Table that chooses the strategy by the state, e.g. config/policy.example.yaml; empty: off"
    )
    shadow_policy_file: Path | None = Field(
        None,
        description="Another such table, by which a share of the answered requests is answered again in the background,"
        " recorded and compared, never served; read at start only; empty: off",
    )
    shadow_share: float = Field(
        0.05, ge=0, le=1, description="Share of the requests whose strategy the router chose that get a shadow run"
    )
    shadow_max_cost: float | None = Field(
        None, gt=0, description="Envelope of a shadow run: cost [currency of the prices]; empty: no such limit"
    )
    shadow_max_generations: int | None = Field(
        None, ge=1, description="The same: samples; empty: as for a request that names no strategy"
    )
    shadow_max_generated_tokens: int | None = Field(None, ge=1, description="The same: tokens; empty: likewise")
    shadow_timeout_ms: int | None = Field(None, ge=1, description="The same: time [ms]; empty: likewise")
    shadow_at_once: int = Field(1, ge=1, le=16, description="Shadow runs at a time")
    shadow_queue_max_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        description="Bytes of requests that may wait for their shadow run, at most 32 requests; more are dropped and"
        " counted",
    )
    shadow_max_served: int = Field(
        4, ge=0, description="Served requests in flight up to which a shadow run may begin; with more it waits"
    )
    cache_decisions: bool = Field(
        True, description="Whether the decision of a conversation is cached while the task has clearly not changed"
    )
    cache_decisions_turns: int = Field(4, ge=1, description="Turns that a decision is cached for at most")
    cache_decisions_s: float = Field(900.0, gt=0, description="Time that a decision is cached for at most [s]")
    calibration_minimum: int = Field(
        MINIMUM_LABELS,
        ge=50,
        description="Labelled answers of a strategy and source from which a recalibration map is fitted",
    )
    calibration_growth: float = Field(
        GROWTH, gt=0, description="Labels since the last fit, as a share of those it had, from which the next is made"
    )
    calibration_refresh_s: float = Field(
        30.0, gt=0, description="Time after which maps put in force by other replicas are in force here [s]"
    )
    model_aliases: dict[str, str] = Field({}, description='Further names of strategies, e.g. {"gpt-4o": "metacog"}')
    media_hosts: list[Annotated[str, AfterValidator(media_host)]] = Field(
        [],
        description="Hosts from which the model server may fetch images, sound, video and files that a chat names by"
        ' URL, e.g. ["images.example.com", "cdn.example.com:8443"]; empty: none, so that only data: URLs are accepted',
    )
    passed_fields: list[str] = Field(
        [],
        description='Fields of chat requests that reach model servers besides those of docs/gateway.md, e.g. ["top_a"];'
        " a server may use such a field to spend more than the envelope of the request allows",
    )
    at_most_times_system1: float = Field(
        6.0,
        ge=0,
        le=MOST_TIMES,
        description="Tokens that a chat with the model `metacog` generates in all, over the larger of those of its"
        " System 1 answer and 64, at most; a strategy that needs more is not started; 0: no such limit, as with"
        " METACOG_ROUTER_SYSTEM_TWO=dialectic and with METACOG_ROUTER_PROMISE",
    )
    answer_max_tokens: int = Field(1024, ge=1, description="Tokens of a System 1 answer whose request states none")
    system_one_max_generated_tokens: int = Field(2048, ge=1, description="Default envelope of System 1: tokens")
    max_generations: int = Field(32, ge=1, description="Default envelope of everything else: samples")
    max_generated_tokens: int = Field(8192, ge=1, description="Default envelope of everything else: tokens")
    timeout_ms: int = Field(180_000, ge=1, description="Default envelope: time [ms]")
    arbiter_max_generations: int = Field(
        104, ge=1, description="Default envelope of arbitrations: samples; also where the policy table may choose one"
    )
    arbiter_max_generated_tokens: int = Field(26_624, ge=1, description="The same: tokens")
    arbiter_timeout_ms: int = Field(300_000, ge=1, description="The same: time [ms]")
    max_in_flight: int = Field(512, ge=1, description="Requests assessed, routed or answered at a time; more get a 429")
    max_deliberations: int = Field(32, ge=1, description="Deliberations among them")
    knowledge_weight: float = Field(
        DEFAULT_WEIGHTS.knowledge, description="Weight of similarity to documents in the experience component"
    )
    experience_weight: float = Field(
        DEFAULT_WEIGHTS.experience, description="Weight of similarity to verified answers in it"
    )
    knowledge_covers: bool = Field(
        False,
        description="Whether what is stored covers the questions of the deployment: then nothing near means not known"
        " (experience 0), else it leaves experience unknown",
    )
    similarity_floor: float = Field(
        DEFAULT_CALIBRATION.floor, ge=-1, le=1, description="Cosine up to which two texts count as unrelated"
    )
    similarity_ceiling: float = Field(
        DEFAULT_CALIBRATION.ceiling, ge=-1, le=1, description="Cosine from which they count as the same"
    )
    similarity_encoder: str = Field(
        DEFAULT_CALIBRATION.encoder,
        description="Encoder that both were measured on; with another in use experience is unknown",
    )
    similarity_timeout_ms: int = Field(1000, ge=1, description="Time for looking up what is stored for a question [ms]")
    chunk_characters: int = Field(800, ge=1, description="Length of a chunk of a document [characters]")
    chunk_overlap_characters: int = Field(100, ge=0, description="What neighbouring chunks share [characters]")
    document_max_characters: int = Field(2_000_000, ge=1, description="Longest document accepted [characters]")
    knowledge_max_chunks: int = Field(20_000, ge=1, description="Chunks that one request may add")
    max_message_bytes: int = Field(
        16_777_216, ge=1024, description="Largest gRPC message accepted, since documents come in messages [bytes]"
    )
    chat_max_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest request body on /v1/chat/completions, /v1/responses, /v1/messages and"
        " /v1/messages/count_tokens, whose messages may hold images [bytes]",
    )
    passed_max_body_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        description="Largest request body on the endpoints that are passed on, such as /v1/embeddings [bytes]",
    )
    knowledge_max_body_bytes: int = Field(
        8 * 1024 * 1024, ge=1024, description="Largest request body on /v1/knowledge [bytes]"
    )
    file_max_bytes: int = Field(
        100 * 1024 * 1024, ge=1024, description="Largest file on /v1/files [bytes]; the body may have 64 KiB more"
    )
    file_max_lines: int = Field(50_000, ge=1, description="Lines of a file at most")
    file_line_max_bytes: int = Field(1024 * 1024, ge=1024, description="Longest line of a file [bytes]")
    files_per_key: int = Field(100, ge=1, description="Uploaded files that one API key may have at a time")
    batches_per_key: int = Field(
        200, ge=1, description="Batches of one API key that are kept; a further one deletes the oldest that has ended"
    )
    batches_active_per_key: int = Field(10, ge=1, description="Those of them that may be in progress")
    batch_lines_at_once: int = Field(
        8,
        ge=1,
        description="Lines of batches that a replica answers at a time, at most a quarter of its places for requests"
        " and for deliberations; none begins while more than half of the former are taken",
    )
    journal: Literal["fast", "durable"] = Field(
        "fast",
        description="Whether an answer ends before its run is safe: `fast` loses those of the last 0.2 s or so when"
        " the process is killed; `durable` first writes them to the spool, many at once",
    )
    spool_dir: Path | None = Field(
        None, description="Where runs wait while the database is away; empty: `spool` in METACOG_HOME"
    )
    spool_max_bytes: int = Field(256 * 1024 * 1024, ge=1024, description="Bytes of runs that may wait there")
    queue_max_bytes: int = Field(
        64 * 1024 * 1024,
        ge=1024,
        description="Bytes of runs that may wait in memory to be stored; more go to the spool at once",
    )
    recent_max_bytes: int = Field(
        64 * 1024 * 1024,
        ge=1024,
        description="Bytes of the last runs with a request identifier held in memory, by which a repeated request is"
        " recognised while the database is away, or does not have its contents",
    )
    keep_contents: bool = Field(
        True, description="Whether questions and answers are stored; if not, only digests and numbers are"
    )
    retention_days: int = Field(
        90,
        ge=0,
        le=36_500,
        description="Age from which runs, feedback and experience are deleted [days]; 0: never",
    )
