"""Measure the state of a query before it is answered.

Source: SPEC 1.1. What could not be measured is unknown, with its reason; assessing never fails a request.
"""

import time
from collections.abc import Sequence
from typing import Protocol

from chassis.affect import AffectAnalyser
from chassis.inference.values import Call, Work
from chassis.spend import Spend
from chassis.voices import Voice
from chassis.wire import MalformedRequest
from kernel.envelope import Limits, limits
from kernel.errors import MetacogError
from kernel.msv import MSV, MSVKind
from kernel.ratings import RATING_MAX_TOKENS, RATING_SCHEMA, rated_msv, unrated_msv
from kernel.seeds import derived_seed
from kernel.values import value
from services.router import prompts
from services.router.service.values import AssessRequest, AssessResponse, Turn

STAGE = "assess"


@value
class Assessment:
    """A measured state, and what measured it."""

    msv: MSV
    assessor: str
    prompt_digest: str = ""


class Assessor(Protocol):
    """Measures the state of a conversation's last turn."""

    async def __call__(self, messages: Sequence[Turn], spend: Spend, seed: int | None) -> Assessment:
        """State, inside `spend`; never refuses."""


class Verbalized:
    """One structured rating by the model that would answer, beside the affect of the last turn."""

    name = "verbalized"

    def __init__(self, voice: Voice, affect: AffectAnalyser) -> None:
        self._voice = voice
        self._affect = affect

    async def __call__(self, messages: Sequence[Turn], spend: Spend, seed: int | None) -> Assessment:
        """State by one rating of at most 64 tokens."""
        emotions = self._affect(messages[-1].content)
        prompt = prompts.rating(conversation=transcript(messages))
        call = Call(
            messages=[{"role": "user", "content": prompt.text}],
            max_tokens=RATING_MAX_TOKENS,
            schema=RATING_SCHEMA,
            seed=None if seed is None else derived_seed(seed, STAGE, self.name),
            thinking=False,
            stage=STAGE,
            work=Work.ASSESS,
            floor_tokens=RATING_MAX_TOKENS,
        )
        try:
            msv = rated_msv(await self._voice.rate(call, spend), kind=MSVKind.PROSPECTIVE, emotional=emotions)
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
            msv = unrated_msv(reason, kind=MSVKind.PROSPECTIVE, emotional=emotions)
        return Assessment(msv=msv, assessor=self.name, prompt_digest=prompt.digest)


async def assess(ask: AssessRequest, *, assessor: Assessor, default: Limits) -> AssessResponse:
    """State of the query.

    Raises:
        MalformedRequest: When there is nothing to assess.
    """
    began, spend = time.monotonic(), Spend(limits(ask.envelope, default))
    made = await assessor(assessable(conversation(ask.query, ask.messages)), spend, ask.seed)
    return AssessResponse(
        msv=made.msv,
        assessor=made.assessor,
        prompt_digest=made.prompt_digest,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
    )


def conversation(query: str, messages: Sequence[Turn]) -> Sequence[Turn]:
    """The turns to look at: `messages`, or `query` as the only one.

    Raises:
        MalformedRequest: For both or neither.
    """
    if bool(query.strip()) == bool(messages):
        raise MalformedRequest("give either query or messages", field="query")
    return messages or [Turn(role="user", content=query)]


def assessable(messages: Sequence[Turn]) -> Sequence[Turn]:
    """`messages`, if their last turn can be thought about.

    Raises:
        MalformedRequest: When it has no text.
    """
    if not messages[-1].content.strip():
        raise MalformedRequest("the last turn has no text to think about", field="messages")
    return messages


def transcript(messages: Sequence[Turn]) -> str:
    """The conversation as one text."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in messages)


def milliseconds_since(began: float) -> float:
    """Time since `began` on the monotonic clock [ms]."""
    return round((time.monotonic() - began) * 1000, 3)
