"""Runs and refusals of ours as OpenAI has them."""

from collections.abc import Mapping
from typing import Any

from kernel.answers import Outcome
from kernel.errors import Code, MetacogError
from services.router.core.strategies import Strategy
from services.router.service.chat import Chat, ChatOptions
from services.router.service.values import Run

ABSTENTION = "No answer could be obtained that would be worth giving."

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
    """A refusal in OpenAI's shape."""
    kind = ERROR_TYPES.get(error.code, "invalid_request_error" if error.code.http < 500 else "server_error")
    code = ERROR_CODES.get(error.reason, error.reason.lower())
    return {"error": {"message": error.message, "type": kind, "param": error.metadata.get("field"), "code": code}}


def told(run: Run) -> dict[str, Any]:
    """The `metacog` field of an answer."""
    route, deliberation = run.route, run.deliberation or {}
    return {
        "run_id": run.run_id,
        "system": route.system if route else None,
        "strategy": run.strategy,
        "because": route.because if route else "",
        "policy_row": route.policy_row if route else "",
        "kept_from": route.kept_from if route else "",
        "assessor": route.assessor if route else "",
        "config_version": run.config_version,
        "msv": route.msv if route else None,
        "activation": route.activation if route else None,
        "outcome": run.outcome,
        "confidence": run.confidence,
        "confidence_source": run.confidence_source,
        "confidence_raw": run.confidence_raw,
        "calibration_version": run.calibration_version,
        "stages": [_stage(stage) for stage in deliberation.get("stages") or ()],
        "note": deliberation.get("note") or "",
        "usage": run.usage,
        "degraded": run.degraded,
        "degraded_reasons": run.degraded_reasons,
        "budget_exhausted": run.budget_exhausted,
        "duration_ms": run.duration_ms,
    }


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("stage", "role", "agent", "model", "prompt_digest", "truncated", "attempts", "succeeded", "duration_ms")
    return {name: stage[name] for name in shown}


def content(run: Run, options: ChatOptions) -> str:
    """Text of the answer for a chat client."""
    plain = run.strategy == Strategy.SYSTEM_ONE  # whose backend has said what it said
    text = run.answer if plain or run.outcome is Outcome.ANSWERED else run.answer or ABSTENTION
    note = (run.deliberation or {}).get("note")
    return f"{text}\n\nNote: {note}" if options.note and note else text


def usage(run: Run) -> dict[str, int]:
    """OpenAI's usage: totals over everything the run spent."""
    spent = run.usage
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
    }


def completion(run: Run, chat: Chat) -> dict[str, Any]:
    """A chat completion that tells of a run on System 2."""
    message = {"role": "assistant", "content": content(run, chat.options), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": run.finish_reason or "stop"}
    return {**head(run.run_id, int(run.created_at.timestamp()), chat, "chat.completion"), "choices": [choice]}


def head(run_id: str, created: int, chat: Chat, kind: str) -> dict[str, Any]:
    """The fields that every completion and every chunk begins with."""
    return {"id": f"chatcmpl-{run_id}", "object": kind, "created": created, "model": chat.model}
