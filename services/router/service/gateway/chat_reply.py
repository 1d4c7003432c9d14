"""Runs and errors are written as replies of the chat completions API."""

from collections.abc import Mapping
from typing import Any

from kernel.errors import Code, MetacogError
from kernel.outcomes import Outcome
from kernel.policy import VOTING, Strategy
from services.router.service.gateway.chat_request import OPTION_FIELDS, ChatOptions, ChatRequest
from services.router.service.gateway.passed_fields import ignored_fields
from services.router.service.runs.values import PromiseState, Run

ABSTENTION = "No answer could be obtained that would be worth giving."


WITHHELD = "No answer was given: labels do not prove that it keeps the promise ({reason})."


ERROR_TYPES: Mapping[Code, str] = {
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
}


# Reasons that clients know by OpenAI's names and act on; all others have ours.
ERROR_CODES: Mapping[str, str] = {
    "PROMPT_TOO_LONG": "context_length_exceeded",
    "UNAUTHENTICATED": "invalid_api_key",
}


def error_body(error: MetacogError) -> dict[str, Any]:
    """Return an error in OpenAI's shape."""
    kind = ERROR_TYPES.get(error.code, "invalid_request_error" if error.code.http < 500 else "server_error")
    code = ERROR_CODES.get(error.reason, error.reason.lower())
    param = error.metadata.get("field") or next(iter(error.violations), None)
    if param is not None and param.partition(".")[0] in OPTION_FIELDS:
        param = f"metacog.{param}"
    return {"error": {"message": error.message, "type": kind, "param": param, "code": code}}


def explanation(run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return the `metacog` field of an answer."""
    return {
        **run_explanation(run),
        "ignored": [] if chat.keeps_format and run.strategy in VOTING else ignored_fields(chat.body, run.strategy),
    }


def run_explanation(run: Run) -> dict[str, Any]:
    """Return what a run says of its answer."""
    route, deliberation = run.route, run.deliberation or {}
    return {
        "run_id": run.run_id,
        "system": route.system if route else None,
        "strategy": run.strategy,
        "model": run.model,
        "reason": route.reason if route else "",
        "policy_row": route.policy_row if route else "",
        "decided_by": route.decided_by if route else None,
        "kind": route.kind if route else "",
        "kind_unknown_reason": route.kind_unknown_reason if route else "",
        "gain": route.gain if route else None,
        "cached_from": route.cached_from if route else "",
        "assessor": route.assessor if route else "",
        "config_version": run.config_version,
        "msv": route.msv if route else None,
        "activation": route.activation if route else None,
        "outcome": run.outcome,
        "confidence": run.confidence,
        "confidence_source": run.confidence_source,
        "confidence_raw": run.confidence_raw,
        "calibration_version": run.calibration_version,
        "confidence_state": run.confidence_state,
        "confidence_labels": run.confidence_labels,
        "confidence_unknown_reason": run.confidence_unknown_reason,
        "state": run.state,
        "idempotency": run.idempotency,
        "escalation": run.escalation,
        "promise": run.promise,
        "cost_guard": run.cost_guard,
        "citations": run.citations,
        "citations_unknown_reason": run.citations_unknown_reason,
        "stages": [_stage(stage) for stage in deliberation.get("stages") or ()],
        "note": deliberation.get("note") or "",
        "usage": run.usage,
        "degraded": run.degraded,
        "degraded_reasons": run.degraded_reasons,
        "budget_exhausted": run.budget_exhausted,
        "duration_ms": run.duration_ms,
    }


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    names = ("stage", "role", "agent", "model", "prompt_digest", "truncated", "attempts", "succeeded", "duration_ms")
    return {name: stage[name] for name in names}


def content(run: Run, options: ChatOptions) -> str:
    """Return the text of the answer for a chat client."""
    unchanged = run.strategy == Strategy.SYSTEM_ONE  # whose backend's text is passed through
    text = run.answer if unchanged or run.outcome is Outcome.ANSWERED else run.answer or abstention(run)
    note = (run.deliberation or {}).get("note")
    return f"{text}\n\nNote: {note}" if options.note and note else text


def abstention(run: Run) -> str:
    """Return the text for a chat client where there is no answer."""
    if run.promise is None or run.promise.state is not PromiseState.WITHHELD:
        return ABSTENTION
    return WITHHELD.format(reason=run.promise.reason)


def usage(run: Run) -> dict[str, int]:
    """Return OpenAI's usage: totals over everything the run spent."""
    spent = run.usage
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
    }


# What a server adds to its replies that is no part of OpenAI's format: llama.cpp's measurements.
SERVER_FIELDS = frozenset({"timings"})


def without_server_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply, or a chunk, of a model server without the fields that only this server has."""
    return {name: item for name, item in document.items() if name not in SERVER_FIELDS}


def passed_completion(document: Mapping[str, Any], run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return the reply of a model server under the names of its run and of the model that was asked for."""
    return {**without_server_fields(document), "id": completion_id(run.run_id), "model": chat.model}


def whole_completion(document: Mapping[str, Any] | None, run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return a run as a chat completion with its explanation.

    Args:
        document: The reply of a model server; None where none is passed through.
        run: The run.
        chat: Its request.
    """
    whole = completion(run, chat) if document is None else passed_completion(document, run, chat)
    return {**whole, "usage": {**(whole.get("usage") or {}), **usage(run)}, "metacog": explanation(run, chat)}


def completion_id(run_id: str) -> str:
    """Return the identifier of the completion that answers a run, by which its client finds the run again."""
    return f"chatcmpl-{run_id}"


def completion(run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return a run on System 2 as a chat completion."""
    message = {"role": "assistant", "content": content(run, chat.options), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": run.finish_reason or "stop"}
    return {**head(run.run_id, int(run.created_at.timestamp()), chat, "chat.completion"), "choices": [choice]}


def head(run_id: str, created: int, chat: ChatRequest, kind: str) -> dict[str, Any]:
    """Return the fields that every completion and every chunk begins with."""
    return {"id": completion_id(run_id), "object": kind, "created": created, "model": chat.model}
