"""This package is the one client for every OpenAI-compatible backend: vLLM, llama.cpp, Ollama, a provider.

Backends differ in what they support and in how they report it; callers see one behaviour. Other packages import from
here only:

    from inference import Backend, Call, Spend

A name is loaded when it is first used, so that a program that reads events loads neither numpy nor an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference.accounting.reports import CallEnd
    from inference.backend_client import Backend
    from inference.backends import build_backend, suite_models
    from inference.config import BackendConfig, BreakerSettings, CircuitSettings, Endpoint, PoolSize, Retries
    from inference.embeddings import Embedded, Embeddings, Encoder, Vectors
    from inference.errors import (
        BackendFailed,
        BackendOverloaded,
        BackendUnauthorized,
        BackendUnavailable,
        CircuitOpen,
        DeadlineExceeded,
        EncoderUnavailable,
        EndpointNotServed,
        InferenceError,
        InvalidCall,
        ModelNotFound,
        PromptTooLong,
        RequestRejected,
        UnparsableOutput,
    )
    from inference.features import Features
    from inference.http.breaker import Breaker, BreakerPermit
    from inference.http.event_parser import EventParser, EventTooLong, ServerSentEvent, parse_event
    from inference.json_fields import NO_FIELDS, count_of, object_of, objects_of, parse_object, text_of, tokens_of
    from inference.kinds import Embedder, KindClassifier, KindVectors, Prototypes, QuestionKind
    from inference.models import (
        BackendModelClient,
        BackendModelClients,
        CompletionStream,
        ModelClient,
        ModelClients,
        backend_config,
    )
    from inference.sampling.passing import passed_usage
    from inference.sampling.ratings import CallInOrder, rated
    from inference.sampling.reasoning import split_reasoning
    from inference.sampling.sampler import checked_body, max_prompt_tokens
    from inference.sampling.structured import read_document
    from inference.spend import Priced, RunModels, Spend
    from inference.streaming.forwarding import ForwardedStream
    from inference.streaming.gathering import merge_chunks
    from inference.streaming.sample_stream import SampleStream
    from inference.values import (
        LIMIT_ALIASES,
        Alternative,
        Call,
        Completion,
        CompletionSample,
        Delta,
        ModelInfo,
        PassedCall,
        Place,
        Reply,
        StreamEvent,
        Structured,
        TokenLogprob,
        WorkKind,
    )

_NAMES = {
    "accounting.reports": ("CallEnd",),
    "backend_client": ("Backend",),
    "backends": ("build_backend", "suite_models"),
    "config": ("BackendConfig", "BreakerSettings", "CircuitSettings", "Endpoint", "PoolSize", "Retries"),
    "embeddings": ("Embedded", "Embeddings", "Encoder", "Vectors"),
    "errors": (
        "BackendOverloaded",
        "RequestRejected",
        "BackendFailed",
        "BackendUnauthorized",
        "BackendUnavailable",
        "CircuitOpen",
        "DeadlineExceeded",
        "EncoderUnavailable",
        "EndpointNotServed",
        "InferenceError",
        "InvalidCall",
        "ModelNotFound",
        "PromptTooLong",
        "UnparsableOutput",
    ),
    "http.breaker": ("Breaker", "BreakerPermit"),
    "http.event_parser": ("EventParser", "EventTooLong", "ServerSentEvent", "parse_event"),
    "features": ("Features",),
    "json_fields": ("NO_FIELDS", "count_of", "object_of", "objects_of", "parse_object", "text_of", "tokens_of"),
    "kinds": ("Embedder", "KindClassifier", "KindVectors", "Prototypes", "QuestionKind"),
    "models": (
        "BackendModelClient",
        "BackendModelClients",
        "CompletionStream",
        "ModelClient",
        "ModelClients",
        "backend_config",
    ),
    "sampling.passing": ("passed_usage",),
    "sampling.ratings": ("CallInOrder", "rated"),
    "sampling.reasoning": ("split_reasoning",),
    "sampling.sampler": ("checked_body", "max_prompt_tokens"),
    "sampling.structured": ("read_document",),
    "spend": ("Priced", "RunModels", "Spend"),
    "streaming.forwarding": ("ForwardedStream",),
    "streaming.gathering": ("merge_chunks",),
    "streaming.sample_stream": ("SampleStream",),
    "values": (
        "LIMIT_ALIASES",
        "Alternative",
        "Call",
        "Completion",
        "CompletionSample",
        "Delta",
        "ModelInfo",
        "PassedCall",
        "Place",
        "Reply",
        "StreamEvent",
        "Structured",
        "TokenLogprob",
        "WorkKind",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "LIMIT_ALIASES",
    "NO_FIELDS",
    "Alternative",
    "Backend",
    "BackendConfig",
    "BackendFailed",
    "BackendModelClient",
    "BackendModelClients",
    "BackendOverloaded",
    "BackendUnauthorized",
    "BackendUnavailable",
    "Breaker",
    "BreakerPermit",
    "BreakerSettings",
    "Call",
    "CallEnd",
    "CallInOrder",
    "CircuitOpen",
    "CircuitSettings",
    "Completion",
    "CompletionSample",
    "CompletionStream",
    "DeadlineExceeded",
    "Delta",
    "Embedded",
    "Embedder",
    "Embeddings",
    "Encoder",
    "EncoderUnavailable",
    "Endpoint",
    "EndpointNotServed",
    "EventParser",
    "EventTooLong",
    "Features",
    "ForwardedStream",
    "InferenceError",
    "InvalidCall",
    "KindClassifier",
    "KindVectors",
    "ModelClient",
    "ModelClients",
    "ModelInfo",
    "ModelNotFound",
    "PassedCall",
    "Place",
    "PoolSize",
    "Priced",
    "PromptTooLong",
    "Prototypes",
    "QuestionKind",
    "Reply",
    "RequestRejected",
    "Retries",
    "RunModels",
    "SampleStream",
    "ServerSentEvent",
    "Spend",
    "StreamEvent",
    "Structured",
    "TokenLogprob",
    "UnparsableOutput",
    "Vectors",
    "WorkKind",
    "backend_config",
    "build_backend",
    "checked_body",
    "count_of",
    "max_prompt_tokens",
    "merge_chunks",
    "object_of",
    "objects_of",
    "parse_event",
    "parse_object",
    "passed_usage",
    "rated",
    "read_document",
    "split_reasoning",
    "suite_models",
    "text_of",
    "tokens_of",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module; the next use finds it here."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'inference' has no attribute {name!r}")
    loaded: object = getattr(import_module(f"inference.{_MODULE_OF[name]}"), name)
    globals()[name] = loaded
    return loaded


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
