"""System 1: one model, one pass."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from chassis.inference.values import Call, Work
from chassis.spend import Spend
from chassis.voices import Voice
from kernel.answers import Outcome
from services.router.service.answer import Answered, Task
from services.router.service.values import AnswerToken, Routed

STAGE = "system1"


class SystemOne:
    """Answers by one plain call.

    Args:
        voice: The model.
        max_tokens: Tokens of an answer whose request states none [count].
        temperature: Sampling temperature of a request that states none [0..2].
    """

    def __init__(self, voice: Voice, *, max_tokens: int = 1024, temperature: float = 0.7) -> None:
        self._voice = voice
        self._max_tokens = max_tokens
        self._temperature = temperature

    async def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[AnswerToken | Answered, None]:
        """Text as it is generated, then the answer."""
        ask = task.ask
        call = Call(
            messages=[{"role": turn.role, "content": turn.content} for turn in task.messages],
            max_tokens=ask.max_tokens or self._max_tokens,
            temperature=self._temperature if ask.temperature is None else ask.temperature,
            seed=ask.seed,
            stage=STAGE,
            work=Work.SYSTEM_ONE,
        )
        async with await self._voice.stream(call, spend) as stream:
            async for delta in stream:
                if delta.text:
                    yield AnswerToken(text=delta.text)
        sample = stream.completion.samples[0]
        yield Answered(
            text=sample.text,
            outcome=Outcome.ANSWERED if sample.text.strip() else Outcome.ABSTAINED,
            model=stream.completion.model,
            finish_reason=sample.finish_reason,
            budget_exhausted=stream.completion.cut,
            **assessed_confidence(task.route),
        )


def assessed_confidence(route: Routed) -> Mapping[str, Any]:
    """Confidence in a System 1 answer: what the assessment believed of it, if there was one."""
    if route.msv is None or route.msv.correctness is None:
        return {}
    return {"confidence": route.msv.correctness, "confidence_source": "assessment"}
