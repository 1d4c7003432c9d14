"""This module reads the replies to requests that are passed on to other places than chat completions."""

from collections.abc import Mapping

from inference.accounting.counting import estimated_tokens
from inference.errors import InvalidReply
from inference.json_fields import object_of, objects_of, parse_object, tokens_of
from inference.values import PassedCall
from kernel.envelope import StageUsage

SHOWN = 120


def read_passed(backend: str, body: bytes) -> Mapping[str, object]:
    """Return the document of a reply.

    Raises:
        InvalidReply: When it is no JSON object.
    """
    document = parse_object(body)
    if not document:
        shown = body[:SHOWN].decode(errors="replace")
        raise InvalidReply(f"backend {backend} answered with no JSON object, but {shown!r}", backend=backend)
    return document


def passed_usage(call: PassedCall, document: Mapping[str, object]) -> StageUsage:
    """Return what a call cost, without its HTTP call; estimated where a model read or wrote what is not counted."""
    reported = object_of(document.get("usage"))
    if call.characters is None:
        return StageUsage()
    prompt = tokens_of(reported.get("prompt_tokens"))
    if prompt is None and not call.samples:
        prompt = tokens_of(reported.get("total_tokens"))
    written = tokens_of(reported.get("completion_tokens")) if call.samples else 0
    texts = "".join(str(choice.get("text") or "") for choice in objects_of(document.get("choices")))
    return StageUsage(
        generations=call.samples,
        prompt_tokens=estimated_tokens(call.characters) if prompt is None else prompt,
        completion_tokens=estimated_tokens(len(texts)) if written is None else written,
        estimated=prompt is None or written is None,
    )
