"""System 1 answers by one model in one pass."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from inference import BackendModelClients, Call, Completion, Spend, WorkKind
from kernel.conversation import Turn, chat_of_turns
from kernel.outcomes import Outcome
from services.router.service.answering.strategy_task import StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerRequest, AnswerToken
from services.router.service.assessment.subject import DRAFT_STAGE, DraftAnswer, Drafter
from services.router.service.assessment.values import Routed

STAGE = DRAFT_STAGE
# Source of a confidence that came with a given state.
GIVEN = "given"


class SystemOne:
    """System 1 answers by one single-pass call.

    Args:
        models: The models, of which a request may name one.
        max_tokens: Tokens of an answer whose request states none [count].
        temperature: Sampling temperature of a request that states none [0..2].
    """

    def __init__(self, models: BackendModelClients, *, max_tokens: int = 1024, temperature: float = 0.7) -> None:
        self._models = models
        self._max_tokens = max_tokens
        self._temperature = temperature

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[AnswerToken | StrategyResult, None]:
        """Yield text as it is generated, then the answer; a draft is not generated again."""
        if task.draft is not None:
            yield AnswerToken(text=task.draft.text)
            yield result_of_draft(task.draft, task.route)
            return
        async with aclosing(self.answered_by(task.request.model, task, spend)) as events:
            async for event in events:
                yield result_of_draft(event, task.route) if isinstance(event, DraftAnswer) else event

    async def answered_by(
        self, name: str, task: StrategyTask, spend: Spend, stage: str = STAGE
    ) -> AsyncGenerator[AnswerToken | DraftAnswer, None]:
        """Yield the answer of the model `name` as it is generated, then all of it.

        Args:
            name: The model; empty: the default one.
            task: What it answers.
            spend: What may be spent.
            stage: Whose account it is.

        Raises:
            ModelNotFound: When the model is not in the catalogue.
            MetacogError: As a model call.
        """
        call = replace(self._call(task.request, task.messages), stage=stage)
        async with await self._models.named(name).stream(call, spend) as stream:
            async for delta in stream:
                if delta.text:
                    yield AnswerToken(text=delta.text)
        yield _draft_of(stream.completion)

    def drafter(self, request: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
        """Return the drafter of the answer to one request."""
        return partial(self._draft, request.model, self._call(request, messages))

    async def _draft(self, model: str, call: Call, spend: Spend) -> DraftAnswer:
        call = replace(call, logprobs=True, top_logprobs=1)
        return _draft_of(await self._models.named(model).complete(call, spend))

    def _call(self, request: AnswerRequest, messages: Sequence[Turn]) -> Call:
        return Call(
            messages=chat_of_turns(messages),
            max_tokens=request.max_tokens or self._max_tokens,
            temperature=self._temperature if request.temperature is None else request.temperature,
            seed=request.seed,
            stop=tuple(request.stop),
            stage=STAGE,
            work=WorkKind.SYSTEM_ONE,
        )


def _draft_of(completion: Completion) -> DraftAnswer:
    sample = completion.samples[0]
    return DraftAnswer(
        text=sample.text,
        model=completion.model,
        finish_reason=sample.finish_reason,
        logprobs=None if sample.logprobs is None else [(token.token, token.logprob) for token in sample.logprobs],
        cut=completion.cut,
        tokens=sample.tokens,
    )


def result_of_draft(draft: DraftAnswer, route: Routed) -> StrategyResult:
    """Return a draft as the result of System 1."""
    return StrategyResult(
        text=draft.text,
        outcome=Outcome.ANSWERED if draft.text.strip() else Outcome.ABSTAINED,
        model=draft.model,
        finish_reason=draft.finish_reason,
        budget_exhausted=draft.cut,
        **assessed_confidence(route),
    )


def assessed_confidence(route: Routed) -> Mapping[str, Any]:
    """Return the confidence in a System 1 answer: its assessment's; an assessment of an earlier turn does not count."""
    if route.msv is None or route.msv.correctness is None or route.cached_from:
        return {}
    return {"confidence": route.msv.correctness, "confidence_source": route.assessor or GIVEN}
