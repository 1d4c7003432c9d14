"""The answer of a deliberation ends before the first of the texts that the caller named."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from services.router.core.stop_texts import StopFilter, before_stop
from services.router.service.answering.answer import Made, StrategyResult
from services.router.service.answering.values import AnswerToken, RelayedEvent


async def until_stop(made: AsyncGenerator[Made, None], stops: Sequence[str]) -> AsyncGenerator[Made, None]:
    """What a strategy made, its answer cut before the first of the `stops`; closing it closes `made`.

    The deliberation itself goes on to its end: later stages judge the whole text, and what it cost is told.
    """
    until, begun = StopFilter(stops), False
    async with aclosing(made) as items:
        async for item in items:
            if isinstance(item, AnswerToken):
                text = item.text if begun else item.text.lstrip()  # blanks before the answer are no part of it
                begun = begun or bool(text)
                if passed := until.passed(text):
                    yield AnswerToken(text=passed)
                continue
            if isinstance(item, RelayedEvent) and begins_anew(item):
                until, begun = StopFilter(stops), False
            elif isinstance(item, StrategyResult):
                if rest := until.rest():
                    yield AnswerToken(text=rest)
                item = _cut(item, stops)
            yield item


def begins_anew(event: RelayedEvent) -> bool:
    """Whether the text of the answer so far is void: its stage is tried once more, or another agent answers."""
    data = event.data
    again = event.name == "stage_started" and data.get("stage") == "SYNTHESIS" and data.get("attempt", 1) > 1
    return again or event.name == "mode_chosen"


def _cut(answered: StrategyResult, stops: Sequence[str]) -> StrategyResult:
    kept = before_stop(answered.text, stops)
    return answered if kept is None else replace(answered, text=kept, finish_reason="stop")
