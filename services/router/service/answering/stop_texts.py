"""The answer of a deliberation ends before the first of the stop texts that the caller gave."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from kernel.roles import FINAL_STAGE
from services.router.core.stop_texts import StopFilter, before_stop
from services.router.service.answering.strategy_task import StrategyEvent, StrategyResult
from services.router.service.answering.values import AnswerToken, RelayedEvent


async def until_stop(
    events: AsyncGenerator[StrategyEvent, None], stops: Sequence[str]
) -> AsyncGenerator[StrategyEvent, None]:
    """Yield the events of a strategy, its answer cut before the first of the `stops`; closing it closes `events`.

    The deliberation itself goes on to its end: later stages judge the whole text, and its cost is reported.
    """
    stop_filter, begun = StopFilter(stops), False
    async with aclosing(events) as source:
        async for event in source:
            if isinstance(event, AnswerToken):
                text = event.text if begun else event.text.lstrip()  # blanks before the answer are no part of it
                begun = begun or bool(text)
                if passed := stop_filter.passed(text):
                    yield AnswerToken(text=passed)
                continue
            if isinstance(event, RelayedEvent) and restarts_answer(event):
                stop_filter, begun = StopFilter(stops), False
            elif isinstance(event, StrategyResult):
                if rest := stop_filter.rest():
                    yield AnswerToken(text=rest)
                event = _cut(event, stops)
            yield event


def restarts_answer(event: RelayedEvent) -> bool:
    """Return whether the text of the answer so far is void: its stage is tried again, or another agent answers."""
    data = event.data
    repeated = event.name == "stage_started" and data.get("stage") == FINAL_STAGE and data.get("attempt", 1) > 1
    return repeated or event.name == "mode_chosen"


def _cut(result: StrategyResult, stops: Sequence[str]) -> StrategyResult:
    text = before_stop(result.text, stops)
    return result if text is None else replace(result, text=text, finish_reason="stop")
