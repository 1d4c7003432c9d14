"""Affect and experience: measured without a model call."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from chassis.affect import AffectAnalyser
from chassis.spend import Spend
from services.router.service.measures.reading import Reading
from services.router.service.subject import Subject
from services.router.service.values import Turn

EMOTIONAL, EXPERIENCE = "emotional_response", "experience"


class Affect:
    """ER: affect of what the user said, in every turn of the conversation."""

    def __init__(self, analyse: AffectAnalyser) -> None:
        self._analyse = analyse

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """The affect, and its parts by emotion."""
        turns = [turn for turn in subject.messages if turn.role == "user"] or subject.messages[-1:]
        found = dict(self._analyse("\n".join(turn.content for turn in turns)))
        return Reading(components={EMOTIONAL: found.pop("intensity")}, parts=found)


class Matched(Protocol):
    """How well a query is known."""

    @property
    def value(self) -> float | None:
        """EM [0..1]; None when unknown."""

    @property
    def reason(self) -> str:
        """Why it is unknown."""

    @property
    def parts(self) -> Mapping[str, float]:
        """Finer measurements [0..1]."""


class Matcher(Protocol):
    """Compares a conversation with what is stored."""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> Matched:
        """How well it is known; never refuses."""


class Experience:
    """EM: similarity to the knowledge base and to verified answers."""

    def __init__(self, match: Matcher) -> None:
        self._match = match

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """The experience, or why it is unknown."""
        found = await self._match(subject.messages, subject.key_name, spend)
        if found.value is None:
            return Reading(reasons={EXPERIENCE: found.reason}, parts=found.parts)
        return Reading(components={EXPERIENCE: found.value}, parts=found.parts)
