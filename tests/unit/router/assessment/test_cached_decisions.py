"""A chat does not pay for a new assessment at each turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from inference import Spend
from kernel.activation import Route
from kernel.conversation import Turn
from kernel.envelope import Limits, StageUsage
from kernel.ledger import Ledger
from kernel.msv import MSV
from services.router.service.assessment.assessors import Assessors
from services.router.service.assessment.composite_assessor import Assessment
from services.router.service.assessment.routing import (
    DecisionCache,
    RoutingConfig,
    RoutingContext,
    RoutingQuestion,
    decide,
)
from services.router.service.assessment.subject import Subject
from services.router.service.assessment.values import Routed

CALM = MSV(correctness=0.9, conflict=0.1, importance=0.2)
TROUBLED = MSV(correctness=0.1, conflict=0.9, importance=0.9)
CITY = ("What is the capital of France?", "It is Paris.")
CODE = ("Write a Python function that merges two sorted lists.", "def merge(a, b): return sorted(a + b)")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Chats:
    """A router that decides on conversations.

    Attributes:
        assessed: Last turns that were assessed.
        msv: What the next assessment measures.
    """

    calls_model = True
    generations = 1
    tokens = 0

    def __init__(self, **limits: Any) -> None:  # noqa: ANN401
        self.clock = Clock()
        self.assessed: list[str] = []
        self.msv = CALM
        assessors = Assessors(by_name={"fake": self, "other": self}, default="fake", streamed="fake")
        cache = DecisionCache(clock=self.clock, **limits)
        self.routing = RoutingContext(config=RoutingConfig(), assessors=assessors, cache=cache)

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        self.assessed.append(subject.messages[-1].content)
        spend.ledger.book("assess", StageUsage(generations=1, http_calls=1, completion_tokens=7))
        return Assessment(msv=self.msv, assessor="fake", samples=["s"])

    def fits(self, ledger: Ledger) -> bool:
        return ledger.generations_left > 1

    async def decide_on(
        self,
        *contents: str,
        run: str = "",
        key: str = "",
        generations: int = 9,
        **more: Any,  # noqa: ANN401
    ) -> Routed:
        """Return the decision on a conversation of these turns, user first."""
        spend = Spend(Limits(max_generations=generations, max_generated_tokens=4096, timeout_ms=1000))
        subject = Subject(messages=turns(contents), key_name=key)
        question = RoutingQuestion(subject=subject, run_id=run or f"run-{len(contents)}", **more)
        return (await decide(question, spend, self.routing)).routed


def turns(contents: Sequence[str]) -> list[Turn]:
    return [Turn(role="assistant" if place % 2 else "user", content=text) for place, text in enumerate(contents)]


async def test_a_follow_up_uses_the_cached_decision_and_calls_no_model() -> None:
    chats = Chats()
    first = await chats.decide_on(CITY[0], run="the-first")

    second = await chats.decide_on(*CITY, "What is its population?")

    assert (second.reason, second.cached_from) == ("cached", "the-first")
    assert (second.system, second.strategy) == (Route.SYSTEM_ONE, "system1")
    assert (second.msv, second.activation, second.config_version) == (first.msv, first.activation, "paper")
    assert (second.usage.generations, second.assessor, second.draft, second.samples) == (0, "", "", ())
    assert chats.assessed == [CITY[0]]


async def test_a_code_task_continues_on_system_two() -> None:
    chats = Chats()
    chats.msv = TROUBLED
    await chats.decide_on(CODE[0])

    second = await chats.decide_on(*CODE, "now make it handle empty lists and add a docstring")

    assert (second.reason, second.system, second.strategy) == ("cached", Route.SYSTEM_TWO, "dialectic")


async def test_a_new_topic_is_assessed() -> None:
    chats = Chats()
    await chats.decide_on(CITY[0])
    chats.msv = TROUBLED

    second = await chats.decide_on(*CITY, "Prove that there are infinitely many primes.")

    assert (second.reason, second.system, second.cached_from) == ("activation", Route.SYSTEM_TWO, "")
    assert len(chats.assessed) == 2


@pytest.mark.parametrize(
    ("msv", "last", "reason"),
    [
        (CALM, "Thanks a lot!", "cached"),
        (TROUBLED, "Thanks a lot!", "activation"),
        (CALM, "Are you sure?", "activation"),
        (TROUBLED, "Are you sure?", "cached"),
    ],
)
async def test_thanks_are_not_deliberated_on_and_doubts_not_waved_through(msv: MSV, last: str, reason: str) -> None:
    chats = Chats()
    chats.msv = msv
    await chats.decide_on(CITY[0])

    second = await chats.decide_on(*CITY, last)

    assert second.reason == reason


async def test_a_decision_is_cached_from_turn_to_turn_up_to_a_number_of_turns() -> None:
    chats = Chats(max_turns=2)
    contents = [CITY[0]]
    reason = [(await chats.decide_on(*contents)).reason]

    for follow_up in ("why?", "And of Spain?", "And of Italy?", "And of Malta?"):
        contents += ["So it is.", follow_up]
        reason.append((await chats.decide_on(*contents)).reason)

    assert reason == ["activation", "cached", "cached", "activation", "cached"]
    assert (await chats.decide_on(*contents)).cached_from == "run-7"


async def test_a_decision_is_cached_for_some_time_only() -> None:
    chats = Chats(max_age_s=60)
    await chats.decide_on(CITY[0])

    chats.clock.now += 60
    in_time = await chats.decide_on(*CITY, "why?")
    chats.clock.now += 1
    late = await chats.decide_on(*CITY, "why?", "For historical reasons.", "go on")

    assert (in_time.reason, late.reason) == ("cached", "activation")


async def test_another_key_or_another_conversation_has_decisions_of_its_own() -> None:
    chats = Chats()
    await chats.decide_on(CITY[0], key="alice")

    others = [
        await chats.decide_on(*CITY, "why?", key="bob"),
        await chats.decide_on("What is the capital of Spain?", "Madrid.", "why?", key="alice"),
        await chats.decide_on(CITY[0], key="alice"),
    ]

    assert [routed.reason for routed in others] == ["activation"] * 3
    assert (await chats.decide_on(*CITY, "why?", key="alice")).reason == "cached"


async def test_the_answer_need_not_come_back_word_for_word() -> None:
    chats = Chats()
    await chats.decide_on(CITY[0])

    second = await chats.decide_on(CITY[0], "It is Paris, as edited by the client.", "why?")

    assert second.reason == "cached"


async def test_a_decision_that_rests_on_too_little_is_not_cached() -> None:
    chats = Chats()
    chats.msv = MSV(importance=0.5)
    first = await chats.decide_on(CITY[0])

    second = await chats.decide_on(*CITY, "why?")

    assert (first.reason, second.reason) == ("undetermined", "undetermined")
    assert len(chats.assessed) == 2


async def test_a_decision_by_the_envelope_is_not_cached() -> None:
    chats = Chats()
    first = await chats.decide_on(CITY[0], generations=1)

    second = await chats.decide_on(*CITY, "why?")

    assert (first.reason, second.reason) == ("envelope", "activation")


async def test_an_envelope_of_one_call_overrules_a_cached_decision() -> None:
    chats = Chats()
    chats.msv = TROUBLED
    await chats.decide_on(CITY[0])

    second = await chats.decide_on(*CITY, "why?", generations=1)

    assert (second.reason, second.system) == ("envelope", Route.SYSTEM_ONE)


@pytest.mark.parametrize("more", [{"msv": CALM}, {"assessor": "other"}])
async def test_a_request_with_a_state_or_an_assessor_gets_a_decision_of_its_own(more: dict[str, Any]) -> None:
    chats = Chats()
    await chats.decide_on(CITY[0])

    second = await chats.decide_on(*CITY, "why?", **more)

    assert second.reason == "activation"


async def test_a_decision_on_a_given_state_is_not_cached() -> None:
    chats = Chats()
    await chats.decide_on(CITY[0], msv=CALM)

    second = await chats.decide_on(*CITY, "why?")

    assert (second.reason, chats.assessed) == ("activation", ["why?"])


async def test_a_preview_returns_the_cached_decision_and_caches_nothing() -> None:
    chats = Chats()
    await chats.decide_on(CITY[0])
    spend = Spend(Limits(max_generations=9, max_generated_tokens=4096, timeout_ms=1000))
    preview = RoutingQuestion(subject=Subject(messages=turns([*CITY, "why?"])))

    seen = (await decide(preview, spend, chats.routing)).routed

    assert seen.reason == "cached"
    assert (await chats.decide_on(*CITY, "why?", "Because.", "go on")).reason == "activation"


async def test_conversations_with_different_pictures_are_different() -> None:
    cache = DecisionCache()
    routed = await Chats().decide_on(CITY[0])
    messages = turns(["What is this?\n[image_url]", "A cat.", "why?"])

    def subject(picture: str, upto: int) -> Subject:
        first = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": picture}}]
        chat: list[dict[str, Any]] = [{"role": turn.role, "content": turn.content} for turn in messages]
        return Subject(messages=messages[:upto], chat=[{"role": "user", "content": first}, *chat[1:]][:upto])

    cache.store(subject("a.png", 1), routed, "run")

    assert cache.earlier(subject("a.png", 3)) is not None
    assert cache.earlier(subject("b.png", 3)) is None


@pytest.mark.parametrize("role", ["tool", "assistant", "system"])
async def test_only_a_users_own_turn_continues_a_task(role: str) -> None:
    cache = DecisionCache()
    routed = await Chats().decide_on(CITY[0])
    messages = turns([*CITY, "why?"])
    cache.store(Subject(messages=messages[:1]), routed, "run")

    assert cache.earlier(Subject(messages=messages)) is not None
    assert cache.earlier(Subject(messages=[*messages[:2], replace(messages[2], role=role)])) is None


async def test_the_least_recently_used_decision_is_dropped_first() -> None:
    chats = Chats(max_decisions=2)
    for city in ("Rome", "Oslo"):
        await chats.decide_on(f"Where is {city}?")
    await chats.decide_on(
        "Where is Rome?", "In Italy.", "Why Rome?"
    )  # Rome is used again, and a third decision is held

    assert (await chats.decide_on("Where is Rome?", "In Italy.", "Why Rome?")).reason == "cached"
    assert (await chats.decide_on("Where is Oslo?", "In Norway.", "Why Oslo?")).reason == "activation"
