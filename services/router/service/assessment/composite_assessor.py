"""An assessor joins the components that its measures find into one state."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from inference import (
    Spend,
)
from kernel.ledger import Ledger
from kernel.msv import MSV, MSVKind
from kernel.values import value
from services.router.service.assessment.measures import Measure, MeasureResult, state_of
from services.router.service.assessment.subject import DraftAnswer, Subject

# An envelope that would leave an answer less than this is not spent on an assessment [tokens].
LEAST_ANSWER_TOKENS = 64


@value
class Assessment:
    """An assessment is a state with the assessor that measured it; without a name it was given, or there is none."""

    msv: MSV | None
    assessor: str
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    draft: DraftAnswer | None = None


class Assessor(Protocol):
    """An assessor measures the state of a conversation's last turn.

    Attributes:
        calls_model: Whether it calls a model.
        generations: Samples that it draws at most [count].
        tokens: Tokens that these may have in all [count].
    """

    calls_model: bool
    generations: int
    tokens: int

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """Return the state, measured inside `spend`; never raises."""

    def fits(self, ledger: Ledger) -> bool:
        """Return whether the envelope carries the assessment and still an answer."""


class CompositeAssessor:
    """A composite assessor runs several measures at once; where two know a component, the earlier one counts.

    Args:
        name: Its name.
        measures: Its measures.
        generations: Samples that it draws at most [count].
        tokens: Tokens that these may have in all [count].

    Attributes:
        calls_model: Whether it calls a model.
        generations: As given.
        tokens: As given.
    """

    def __init__(self, name: str, measures: Sequence[Measure], *, generations: int, tokens: int) -> None:
        self.name = name
        self.calls_model = generations > 0
        self._measures = measures
        self.generations = generations
        self.tokens = tokens

    def fits(self, ledger: Ledger) -> bool:
        """Return whether the envelope carries the assessment and still an answer of a few words."""
        return ledger.generations_left > self.generations and ledger.tokens_left >= self.tokens + LEAST_ANSWER_TOKENS

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """Return the state that the measures give together."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_measure(measure, subject, spend)) for measure in self._measures]
        results = [task.result() for task in tasks]
        draft = next((result.draft for result in results if result.draft), None)
        kind = MSVKind.PROSPECTIVE if draft is None else MSVKind.RETROSPECTIVE
        return Assessment(
            msv=state_of(results, kind=kind),
            assessor=self.name,
            prompt_digests={name: digest for result in results for name, digest in result.prompt_digests.items()},
            samples=[sample for result in results for sample in result.samples],
            draft=draft,
        )


async def _measure(measure: Measure, subject: Subject, spend: Spend) -> MeasureResult:
    return await measure(subject, spend)
