"""What a request comes to: its default envelope, and the digests by which it is known again."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from chassis.rest import dumps
from kernel.envelope import LARGEST_LIMIT, Limits
from services.router.service.values import AnswerRequest, Turn


def wide_enough(default: Limits, ask: AnswerRequest, samples: int) -> Limits:
    """The default envelope, never narrower than the answers the caller asked for."""
    wide = min(LARGEST_LIMIT, 2 * samples * (ask.max_tokens or 0))
    return Limits(
        max_generations=max(default.max_generations, min(LARGEST_LIMIT, samples + 1)),
        max_generated_tokens=max(default.max_generated_tokens, wide),
        timeout_ms=default.timeout_ms,
    )


def request_digest(ask: AnswerRequest, request: bytes) -> str:
    """Digest of all that was asked [sha256, hexadecimal]: a repetition has the same.

    Args:
        ask: The request.
        request: The client's own, which tells more; empty: there is none.
    """
    return sha256(request or dumps(replace(ask, request_id="") if ask.request_id else ask)).hexdigest()


def messages_digest(messages: Sequence[Turn]) -> str:
    """Digest of a conversation [sha256, hexadecimal]."""
    return sha256(dumps(list(messages))).hexdigest()
