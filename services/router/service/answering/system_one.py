"""System 1: one model, one pass."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from inference.client import ModelClient
from inference.spend import Spend
from inference.values import Call, Completion, WorkKind
from kernel.conversation import Turn
from kernel.outcomes import Outcome
from services.router.service.answering.answer import StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerRequest, AnswerToken
from services.router.service.assessment.subject import DraftAnswer, Drafter
from services.router.service.assessment.values import Routed

STAGE = "system1"
# Source of a confidence that came with a ready state.
GIVEN = "given"


class SystemOne:
    """Answers by one plain call.

    Args:
        voice: The model.
        max_tokens: Tokens of an answer whose request states none [count].
        temperature: Sampling temperature of a request that states none [0..2].
    """

    def __init__(self, voice: ModelClient, *, max_tokens: int = 1024, temperature: float = 0.7) -> None:
        self._voice = voice
        self._max_tokens = max_tokens
        self._temperature = temperature

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[AnswerToken | StrategyResult, None]:
        """Text as it is generated, then the answer; one that is there already is not made again."""
        if task.drafted is not None:
            yield AnswerToken(text=task.drafted.text)
            yield answered(task.drafted, task.route)
            return
        async with await self._voice.stream(self._call(task.ask, task.messages), spend) as stream:
            async for delta in stream:
                if delta.text:
                    yield AnswerToken(text=delta.text)
        yield answered(_drafted(stream.completion), task.route)

    def drafter(self, ask: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
        """Makes the answer to one request as a whole."""
        return partial(self._draft, self._call(ask, messages))

    async def _draft(self, call: Call, spend: Spend) -> DraftAnswer:
        return _drafted(await self._voice.complete(replace(call, logprobs=True, top_logprobs=1), spend))

    def _call(self, ask: AnswerRequest, messages: Sequence[Turn]) -> Call:
        return Call(
            messages=[{"role": turn.role, "content": turn.content} for turn in messages],
            max_tokens=ask.max_tokens or self._max_tokens,
            temperature=self._temperature if ask.temperature is None else ask.temperature,
            seed=ask.seed,
            stop=tuple(ask.stop),
            stage=STAGE,
            work=WorkKind.SYSTEM_ONE,
        )


def _drafted(completion: Completion) -> DraftAnswer:
    sample = completion.samples[0]
    return DraftAnswer(
        text=sample.text,
        model=completion.model,
        finish_reason=sample.finish_reason,
        logprobs=None if sample.logprobs is None else [(token.token, token.logprob) for token in sample.logprobs],
        cut=completion.cut,
    )


def answered(drafted: DraftAnswer, route: Routed) -> StrategyResult:
    """What a plain answer amounts to."""
    return StrategyResult(
        text=drafted.text,
        outcome=Outcome.ANSWERED if drafted.text.strip() else Outcome.ABSTAINED,
        model=drafted.model,
        finish_reason=drafted.finish_reason,
        budget_exhausted=drafted.cut,
        **assessed_confidence(route),
    )


def assessed_confidence(route: Routed) -> Mapping[str, Any]:
    """Confidence in a System 1 answer: what its assessment believed; one made of an earlier turn says nothing of it."""
    if route.msv is None or route.msv.correctness is None or route.cached_from:
        return {}
    return {"confidence": route.msv.correctness, "confidence_source": route.assessor or GIVEN}
