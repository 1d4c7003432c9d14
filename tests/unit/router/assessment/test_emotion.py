"""ER: which turns of a conversation count."""

import pytest

from inference import Spend
from kernel.conversation import Turn
from kernel.envelope import Limits
from services.router.service.assessment.measures import AffectMeasure
from services.router.service.assessment.subject import Subject

SPEND = Spend(Limits(max_generations=1, max_generated_tokens=1, timeout_ms=1000))
SYSTEM, ANSWER = Turn(role="system", content="Be kind."), Turn(role="assistant", content="I love it!")
FIRST, LAST = Turn(role="user", content="I am furious."), Turn(role="user", content="Why?")
RESULT = Turn(role="tool", content="42")


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        ([LAST], "Why?"),
        ([SYSTEM, FIRST, ANSWER, LAST], "I am furious.\nWhy?"),
        ([FIRST, ANSWER, RESULT], "I am furious."),
        ([SYSTEM, RESULT], "42"),
    ],
    ids=["one turn", "every turn of the user", "a tool has the last word", "no user"],
)
async def test_the_affect_of_every_turn_of_the_user_counts(turns: list[Turn], text: str) -> None:
    texts: list[str] = []

    def analyse(text: str) -> dict[str, float]:
        texts.append(text)
        return {"intensity": 0.25, "emotion.negative": 0.5}

    reading = await AffectMeasure(analyse)(Subject(messages=turns), SPEND)

    assert texts == [text]
    assert (reading.components, reading.parts) == ({"emotional_response": 0.25}, {"emotion.negative": 0.5})
