"""This module turns the status and message of an error reply into a named error."""

import math
import re

from inference.errors import (
    BackendFailed,
    BackendOverloaded,
    BackendUnauthorized,
    BackendUnavailable,
    EndpointNotServed,
    InferenceError,
    InvalidCall,
    InvalidReply,
    ModelNotFound,
    PromptTooLong,
    RequestRejected,
)
from inference.http.transport import HttpReply
from inference.json_fields import count_of, object_of, parse_object, text_of
from inference.values import CHAT, Place

MAX_MESSAGE = 500
# Statuses of a gateway before a server that is away, or of a server that is not ready.
AWAY = (502, 503, 504)

_CONTEXT = re.compile(r"context (length|size|window)|context_length_exceeded|prompt is too long", re.IGNORECASE)
_CONTEXT_TOKENS = re.compile(r"context (?:length|size)[^0-9]{0,12}(\d+)|\((\d+) tokens\), try", re.IGNORECASE)
_TOO_MANY_TOKENS = re.compile(r"max_(completion_)?tokens.{0,40}(too large|at most|at least)", re.IGNORECASE)
_FIELDS = ("temperature", "top_p", "max_completion_tokens", "max_tokens", "top_logprobs", "seed")
_RANGE = re.compile(r"must be|has to be|range|between|at least|at most|non-negative|positive", re.IGNORECASE)
# What llama.cpp calls a failure of its own (500) and is an error of the request.
_REQUEST_ERROR = re.compile(r"(image|audio|video) input is not supported|Failed to parse (tools|messages)")
# What vLLM replies where its model is of another kind.
_NO_SUCH_API = re.compile(r"does not support (the )?[\w ]+ API", re.IGNORECASE)
_GREEDY = re.compile(r"\bn must be 1 when using greedy", re.IGNORECASE)


def error_message(body: bytes) -> str:
    """Return the message in an error body, cut to `MAX_MESSAGE` characters; the body itself if there is none."""
    reply = parse_object(body)
    error = reply.get("error")
    message = text_of(object_of(error).get("message")) or text_of(error) or text_of(reply.get("message"))
    return (message or body.decode(errors="replace").strip())[:MAX_MESSAGE]


def retry_after_s(reply: HttpReply) -> float | None:
    """Return the pause that the backend requests [s, >= 0]; None where it names no finite number (or a date)."""
    try:
        pause_s = float(reply.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, pause_s) if math.isfinite(pause_s) else None


def status_of(reply: HttpReply) -> int:
    """Return the status that `reply` should have: a wrong request is not a failure of the backend."""
    return 400 if reply.status == 500 and _REQUEST_ERROR.search(error_message(reply.body)) else reply.status


def error_of(backend: str, model: str, reply: HttpReply) -> InferenceError:
    """Return the named error for `reply`, whose status is not 200."""
    message = error_message(reply.body)
    status = status_of(reply)
    if status < 400:
        return InvalidReply(
            f"backend {backend} sent an invalid reply: it has the status {status}, and neither is a redirect followed "
            "nor a part of a reply put together",
            backend=backend,
        )
    if status == 429:
        return BackendOverloaded(
            f"backend {backend} is overloaded: {message}", backend=backend, retry_after_s=retry_after_s(reply)
        )
    if status >= 500:
        kind = BackendUnavailable if status in AWAY else BackendFailed
        return kind(f"backend {backend} failed ({status}): {message}", backend=backend)
    if status in (401, 403):
        return BackendUnauthorized(f"backend {backend} does not accept the API key ({status})", backend=backend)
    if status == 404 and "model" in message.lower():
        return ModelNotFound(f"backend {backend} does not serve {model}: {message}", backend=backend, model=model)
    return request_error(backend, status, reply.body)


def missing_place(backend: str, place: Place, reply: HttpReply) -> EndpointNotServed | None:
    """Return the error of a server that has nothing at `place`, or not for its model; None for any other reply.

    Every server has chat completions: what it replies there is about the request.
    """
    if place == CHAT or reply.status not in (400, 404, 405, 501):
        return None
    message = error_message(reply.body)
    is_missing = reply.status in (405, 501) or (reply.status == 404 and "model" not in message.lower())
    if not is_missing and not _NO_SUCH_API.search(message):
        return None
    return EndpointNotServed(
        f"backend {backend} does not serve {place.path} ({reply.status}): {message}; name a model whose server does",
        backend=backend,
        path=place.path,
    )


def request_error(backend: str, status: int, body: bytes) -> InferenceError:
    """Return the named error for a request that the backend found wrong, with `status` and `body`."""
    message = error_message(body)
    if _GREEDY.search(message):
        return InvalidCall("n", "it must be 1 at temperature 0, where all samples are equal")
    if _TOO_MANY_TOKENS.search(message):
        return InvalidCall("max_tokens", message)
    if _CONTEXT.search(message):
        return prompt_too_long(backend, body)
    named = next((name for name in _FIELDS if re.search(rf"\b{name}\b", message)), None)
    if named and _RANGE.search(message):
        return InvalidCall(named, message)
    return RequestRejected(backend, status, message)


def prompt_too_long(backend: str, body: bytes) -> PromptTooLong:
    """Return the error for a prompt that does not fit, with the numbers that the backend gave."""
    message = error_message(body)
    error = object_of(parse_object(body).get("error"))
    found = _CONTEXT_TOKENS.search(message)
    context = count_of(error.get("n_ctx")) or (int(found.group(1) or found.group(2)) if found else None)
    prompt = count_of(error.get("n_prompt_tokens"))
    numbers = {"context_tokens": context, "prompt_tokens": prompt}
    known = {name: str(number) for name, number in numbers.items() if number is not None}
    return PromptTooLong(f"backend {backend}: the prompt is too long: {message}", backend=backend, **known)
