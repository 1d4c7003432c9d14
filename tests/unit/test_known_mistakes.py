"""What the public code of the papers' authors gets wrong does not happen here (papers.md 1.7, each rule once)."""

import inspect
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from chassis.errors import ConfigurationInvalid, PeerError
from chassis.prompts import Prompt
from chassis.serving.peer import Peer
from configuration.agents import AgentConfig
from configuration.routing import read_routing
from inference import Call, CallInOrder, Completion, CompletionSample, Spend, UnparsableOutput
from kernel.activation import Route, activation, choose
from kernel.conversation import Turn
from kernel.envelope import Envelope, Limits, StageUsage, Usage
from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.msv.experience import ExperienceWeights, SimilarityCalibration, experience_match
from kernel.msv.ratings import ORDER, RATING_SCHEMA, read_rating
from kernel.roles import DEFAULT_WEIGHTS, FITNESS_TERMS, ROLES, Role, fitness_matrix
from services.assigner import prompts as assigner_prompts
from services.assigner.compose import compose
from services.assigner.service.values import DeliberateRequest, DeliberationFinished
from services.router import prompts as router_prompts
from services.router.relay import Relay, RelayedCall
from services.router.service.answering.strategy_task import StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerRequest
from services.router.service.assessment.assessors import build_assessors
from services.router.service.assessment.subject import DraftAnswer, Subject
from services.router.service.assessment.values import Routed
from tests.contract.fakes import assigner_parts
from tests.support.assigner import SETTINGS

LEVELS = [0.0, 0.25, 0.5, 0.75, 1.0]
LIMITS = Limits(max_generations=32, max_generated_tokens=8192, timeout_ms=60_000)
ASKED = Subject(messages=[Turn(role="user", content="Is 91 a prime number?")])


def choices() -> list[Route]:
    """The choice for every state on a grid."""
    grid = [
        MSV(correctness=ce, conflict=ci, importance=pi, experience=em)
        for ce, ci, pi, em in product(LEVELS, LEVELS, LEVELS, LEVELS)
    ]
    return [choose(activation(msv)).system for msv in grid]


def test_system_two_does_not_always_fire() -> None:
    share = choices().count(Route.SYSTEM_TWO) / len(LEVELS) ** 4

    assert 0.2 < share < 0.8
    assert (
        choose(activation(MSV(correctness=0.92, conflict=0.12, importance=0.5, experience=0.5))).system == "SYSTEM_ONE"
    )


@pytest.mark.parametrize("role", [role for role in ROLES if "experience" in DEFAULT_WEIGHTS[role]])
def test_no_roles_experience_term_is_dropped(role: Role) -> None:
    states = [MSV(correctness=0.5, conflict=0.5, importance=0.5, experience=level) for level in (0.0, 1.0)]

    made = fitness_matrix(["novice", "veteran"], states)

    row, term = ROLES.index(role), FITNESS_TERMS.index("experience")
    weight = DEFAULT_WEIGHTS[role]["experience"]
    assert made.terms[row, :, term].tolist() == pytest.approx([0.0, weight])
    assert made.fitness[row, 1] - made.fitness[row, 0] == pytest.approx(weight)


def test_a_duplicate_key_is_rejected_and_drops_nothing_silently(tmp_path: Path) -> None:
    file = tmp_path / "routing.yaml"
    file.write_text("weights: {correctness: 0.5, conflict: 0.25, importance: 0.25, experience: 0.5, experience: 0}\n")

    with pytest.raises(ConfigurationInvalid, match="experience: stands twice"):
        read_routing(file)


def test_experience_reaches_both_ends_of_its_range() -> None:
    line = SimilarityCalibration()
    ends = [{"knowledge": cosine, "experience": cosine} for cosine in (line.floor, line.ceiling)]

    reached = [
        experience_match(cosines, weights=ExperienceWeights(), calibration=line, covers=True).value for cosines in ends
    ]

    assert reached == [0.0, 1.0]


IMPORTANCE_PROMPTS = {
    "rating": (router_prompts.rating(conversation="Q1"), "And the request itself:"),
    "importance": (router_prompts.importance(conversation="Q1"), "Judge the request in its last turn"),
    "self_assessment": (assigner_prompts.self_assessment(question="Q1"), "And the question itself:"),
    "text_assessment": (
        assigner_prompts.text_assessment(question="Q1", others={}, text="T1"),
        "And the question itself:",
    ),
}


@pytest.mark.parametrize(("prompt", "judged"), IMPORTANCE_PROMPTS.values(), ids=IMPORTANCE_PROMPTS)
def test_importance_is_judged_on_the_request_and_not_on_an_answer(prompt: Prompt, judged: str) -> None:
    _, found, asked = prompt.text.partition(judged)

    assert found
    assert all(word in asked for word in ("harm", "urgen", "how many people or things"))


def test_the_rating_of_importance_for_the_router_sees_no_answer() -> None:
    for build_prompt in (router_prompts.rating, router_prompts.importance):
        assert list(inspect.signature(build_prompt).parameters) == ["conversation"]


@pytest.mark.parametrize("name", ["rating", "self_assessment", "text_assessment"])
def test_the_polarity_of_conflict_is_not_left_to_the_model(name: str) -> None:
    prompt, _ = IMPORTANCE_PROMPTS[name]
    asked = [line for line in prompt.text.splitlines() if re.match(r"\d\. |- ", line)]
    conflict = asked[ORDER.index(CONFLICT)]

    assert len(asked) == len(ORDER)
    assert "contradict" in conflict
    assert conflict.endswith("(0 = not at all, 100 = wholly)")
    assert list(RATING_SCHEMA["properties"]) == ["r"]  # a list of numbers: no name that a model could read its own way


CONFLICT = "internal_inconsistency"


class Mumbling:
    """A model whose ratings nobody can read."""

    async def rate(self, _build: CallInOrder, _spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        raise UnparsableOutput("the rating is no JSON")

    async def complete(self, _call: Call, _spend: Spend) -> Completion:
        raise UnparsableOutput("there is no text")


@pytest.mark.parametrize("document", [None, {}, {"r": []}, {"r": ["?"] * 7}, {"r": [101] * 7}, "I would say 80."])
def test_a_rating_that_cannot_be_read_has_no_numbers(document: object) -> None:
    with pytest.raises(ValueError, match="a rating lists 7 whole numbers"):
        read_rating(document)


@pytest.mark.parametrize("name", ["verbalized", "probe", "hybrid", "draft"])
async def test_what_cannot_be_parsed_is_unknown_and_not_zero(name: str) -> None:
    made = await build_assessors(Mumbling(), [])[name](ASKED, Spend(LIMITS))

    assert made.msv is not None
    assert (made.msv.correctness, made.msv.conflict, made.msv.importance) == (None, None, None)
    assert {"correctness", "conflict", "importance"} <= set(made.msv.unknown_reasons)
    assert activation(made.msv).value is None


class Counting:
    """A model that counts how often it is called."""

    def __init__(self) -> None:
        self.calls = 0

    async def rate(self, _build: CallInOrder, _spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        self.calls += 1
        return dict.fromkeys(order, 50.0)

    async def complete(self, call: Call, _spend: Spend) -> Completion:
        self.calls += 1
        return Completion(samples=(CompletionSample(text="No"),) * call.samples, usage=StageUsage(), model="fake")

    async def draft(self, spend: Spend) -> DraftAnswer:
        self.calls += 1
        return DraftAnswer(text="No")


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("verbalized", 1),
        ("probe", 1),
        ("hybrid", 2),
        ("draft", 4),  # the answer itself, its check, the short samples, the importance
    ],
)
async def test_a_decision_costs_a_few_calls_and_not_twenty_one(name: str, calls: int) -> None:
    model = Counting()
    subject = Subject(messages=ASKED.messages, draft=model.draft)

    await build_assessors(model, [])[name](subject, Spend(LIMITS))

    assert model.calls <= calls


async def deliberated(agents: int, msv: MSV) -> DeliberationFinished:
    """The end of a deliberation by so many agents."""
    seated = [AgentConfig(id=f"a{number}") for number in range(agents)]
    assigner = compose(SETTINGS, replace(assigner_parts(), agents=lambda: seated))
    events = [event async for event in assigner.deliberate(DeliberateRequest(question="Is it so?", msv=msv))]
    finished = events[-1]
    assert isinstance(finished, DeliberationFinished)
    return finished


async def test_the_generalist_writes_a_note() -> None:
    finished = await deliberated(5, MSV(importance=0.9, experience=0.1))

    assert finished.note == "the note"
    assert "importance 0.90 reaches" in finished.note_reason


async def test_a_generalist_without_a_note_gives_the_reason() -> None:
    finished = await deliberated(5, MSV(importance=0.2, experience=0.9))

    assert (finished.note, bool(finished.note_reason)) == ("", True)


async def test_one_agent_alone_can_deliberate() -> None:
    finished = await deliberated(1, MSV(importance=0.9, experience=0.1))

    assert finished.answer == "the synthesis"
    assert set(finished.roles.assignment.values()) == {"a0"}


class Silent:
    """A service that never answers, and notes how long it was given."""

    name = "assigner"

    def __init__(self) -> None:
        self.timeout_s = float("inf")
        self.told_ms: int | None = None

    async def stream(self, _method: object, request: object, *, timeout_s: float) -> AsyncIterator[object]:
        self.timeout_s = timeout_s
        raise PeerError("it did not answer in time", Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
        yield request

    def asked(self, _task: StrategyTask, envelope: Envelope) -> Any:  # noqa: ANN401 - any message will do
        """What it is asked."""
        self.told_ms = envelope.timeout_ms


@pytest.mark.parametrize("fallback", [True, False])
async def test_no_call_between_the_systems_is_without_a_time_limit(fallback: bool) -> None:
    service = Silent()
    call = RelayedCall(
        method=None,
        request=service.asked,
        finished="finished",
        own=frozenset(),
        token=lambda _name, _data: "",
        result=lambda _data: StrategyResult(text=""),
    )
    task = StrategyTask(
        request=AnswerRequest(question="?", fallback=fallback), messages=ASKED.messages, route=ROUTED, run_id="run"
    )
    spend = Spend(Limits(max_generations=8, max_generated_tokens=1024, timeout_ms=10_000))

    with pytest.raises(MetacogError, match="in time"):
        _ = [event async for event in Relay(cast(Peer, service), call)(task, spend)]

    assert 0 < service.timeout_s <= (8 if fallback else 10)  # a fallback has the rest of the time
    assert service.told_ms is not None
    assert service.told_ms / 1000 < service.timeout_s


ROUTED = Routed(
    system=Route.SYSTEM_TWO,
    strategy="dialectic",
    activation=None,
    msv=None,
    reason="requested",
    config_version="paper",
    assessor="",
    usage=Usage(),
    duration_ms=0.0,
)
