"""A deliberation over model clients of the test's own, for runs that a server would not repeat."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from configuration.agents import AgentConfig
from inference import BackendUnavailable, Call, Completion, CompletionSample, Delta, PromptTooLong, Spend, Structured
from kernel.assignment import InfeasibleAssignment
from kernel.envelope import Envelope, StageUsage
from kernel.msv import MSV
from kernel.msv.ratings import ORDER
from kernel.msv.signals import InvalidPartWeights
from kernel.prices import Price
from kernel.roles import ROLES, Role, Stage, VersionedWeights
from services.assigner.compose import compose
from services.assigner.service.role_assigner import random_seed
from services.assigner.service.values import (
    AssignmentKind,
    DeliberateRequest,
    DeliberationFinished,
    Event,
    KnownAgentExperience,
    KnownExperience,
    RolesAssigned,
    StageFinished,
    StageStarted,
)
from tests.contract.fakes import assigner_parts
from tests.support.assigner import SETTINGS

ONE = StageUsage(generations=1, http_calls=1, prompt_tokens=10, completion_tokens=2)
AGENTS = ("ada", "ben", "cleo", "dan", "eve")

Before = Callable[[str, Call], Any]


async def nothing(_agent: str, _call: Call) -> None:
    """Do nothing before a call."""


class Text:
    """A text of two pieces."""

    usage = ONE

    def __init__(self, text: str) -> None:
        self.completion = Completion(samples=(CompletionSample(text=text, tokens=2),), usage=ONE, model="fake")

    async def __aiter__(self) -> AsyncIterator[Delta]:
        for piece in self.completion.samples[0].text.partition(" "):
            yield Delta(text=piece)

    async def aclose(self) -> None:
        """Stop nothing."""


class FakeModelClient:
    """Answers with the name of its stage; `before` may delay a call, or raise an error."""

    def __init__(self, agent: str, before: Before, rated: Mapping[str, float]) -> None:
        self.price: Price | None = None
        self.model = f"model of {agent or 'the assessor'}"
        self._agent, self._before, self._rated = agent, before, rated

    async def stream(self, call: Call, spend: Spend) -> Text:
        await self._before(self._agent, call)
        spend.ledger.book(call.stage, ONE)
        return Text(f"the {call.stage}")

    async def structured(self, call: Call, parse: Callable[[object], Any], spend: Spend) -> Structured[Any]:
        await self._before(self._agent, call)
        spend.ledger.book(call.stage, ONE)
        return Structured(values=(self._rated,), completion=Text("").completion)


class FakeModelClients:
    """A model client for every agent, and one for the assessor of texts."""

    def __init__(self, before: Before = nothing, sure: Mapping[str, float] | None = None) -> None:
        self._before, self._sure = before, sure or {}

    def begin_run(self) -> None:
        """Fakes never change."""

    def of(self, agent: AgentConfig) -> Any:  # noqa: ANN401 - it has the methods that a dialectic calls
        level = self._sure.get(agent.id, 60.0)
        rated = {**dict.fromkeys(ORDER, level), "internal_inconsistency": 100 - level}
        return FakeModelClient(agent.id, self._before, rated)

    def assessor(self) -> Any:  # noqa: ANN401
        return FakeModelClient("", self._before, dict.fromkeys(ORDER, 50.0))


async def events(
    request: DeliberateRequest,
    model_clients: FakeModelClients | None = None,
    agents: Sequence[AgentConfig] | None = None,
    *,
    weights: VersionedWeights | None = None,
    chance: Callable[[], int] = random_seed,
    **settings: Any,  # noqa: ANN401
) -> list[Event]:
    """The events of a deliberation; `settings` replace those of the tests."""
    configured = agents or [AgentConfig(id=name) for name in AGENTS]
    parts = replace(
        assigner_parts(),
        agents=lambda: configured,
        model_clients=model_clients or FakeModelClients(),
        weights=weights or VersionedWeights(),
        chance=chance,
    )
    assigner = compose(SETTINGS.model_copy(update=settings), parts)
    return [event async for event in assigner.deliberate(request)]


async def finished(*args: Any, **more: Any) -> DeliberationFinished:  # noqa: ANN401
    """The end of a deliberation."""
    last = (await events(*args, **more))[-1]
    assert isinstance(last, DeliberationFinished)
    return last


REQUEST = DeliberateRequest(question="Is it so?")


def request_for(**more: Any) -> DeliberateRequest:  # noqa: ANN401
    return DeliberateRequest(question="Is it so?", **more)


async def test_an_agents_self_assessment_reports_its_usage_and_its_prompt() -> None:
    result = (await finished(REQUEST)).assessments

    assert {(each.usage, len(each.prompt_digest)) for each in result} == {(ONE, 64)}


async def test_an_agent_that_hangs_is_not_waited_for_longer_than_its_share() -> None:
    async def hangs(agent: str, call: Call) -> None:
        if agent == "ben" and call.stage == "self_assessment":
            await asyncio.Event().wait()

    result = await finished(request_for(envelope=Envelope(timeout_ms=600)), FakeModelClients(hangs))

    states = {each.agent: each for each in result.assessments}
    assert states["ben"].msv.unknown_reasons["correctness"] == "DEADLINE_EXCEEDED: no rating within 0.2 s"
    assert states["ben"].usage is None  # unknown, which is not zero
    assert states["ada"].msv.correctness == 0.6
    assert (result.answer, result.degraded) == ("the synthesis", False)


async def test_an_agent_that_does_not_begin_is_replaced_like_one_that_fails() -> None:
    async def mute(agent: str, call: Call) -> None:
        if agent == "ada" and call.stage != "self_assessment":
            await asyncio.Event().wait()

    sure = dict(zip(AGENTS, (90, 70, 50, 30, 10), strict=True))
    result = await finished(request_for(envelope=Envelope(timeout_ms=1200)), FakeModelClients(mute, sure))

    assert result.stages[0].agent != "ada"
    assert result.stages[0].attempts == 3
    assert result.degraded_reasons[0].startswith("ada failed as EXPERT; ")
    assert (result.answer, result.roles.reason) == ("the synthesis", "ada failed as EXPERT")


async def test_a_prompt_that_does_not_fit_is_shortened_and_reported() -> None:
    async def small_context(_agent: str, call: Call) -> None:
        if len(str(call.messages)) > 1200:
            raise PromptTooLong("too long")

    result = await finished(request_for(draft="word " * 400), FakeModelClients(small_context))

    assert result.stages[0].shortened_inputs == ["DRAFT"]
    assert (result.answer, result.degraded) == ("the synthesis", False)


async def test_a_prompt_that_can_be_shortened_no_further_goes_to_another_agent_at_once() -> None:
    async def small_mind(agent: str, call: Call) -> None:
        if agent == "ada" and call.stage == "thesis":
            raise PromptTooLong("too long for this model")

    sure = dict(zip(AGENTS, (90, 70, 50, 30, 10), strict=True))
    emitted = await events(REQUEST, FakeModelClients(small_mind, sure))

    begun = [(event.agent, event.attempt) for event in emitted if isinstance(event, StageStarted)]
    assert begun[0] == ("ada", 1)
    assert begun[1][0] != "ada"
    last = emitted[-1]
    assert isinstance(last, DeliberationFinished)
    assert (last.answer, last.degraded) == ("the synthesis", True)


async def test_an_agent_of_capacity_one_that_has_finished_its_role_may_replace_another() -> None:
    async def breaks(agent: str, call: Call) -> None:
        if agent == "eve" and call.stage == "antithesis":
            raise BackendUnavailable("gone")

    sure = dict(zip(AGENTS, (90, 70, 60, 50, 10), strict=True))
    configured = [AgentConfig(id=name, capacity=1) for name in AGENTS]
    result = await finished(REQUEST, FakeModelClients(breaks, sure), configured)

    assert result.answer == "the synthesis"
    assert "eve" not in list(result.roles.assignment.values())
    assert result.roles.assignment[Role.EXPERT] == result.stages[0].agent


async def test_what_every_attempt_spent_is_in_the_usage_of_the_stage() -> None:
    tries = iter([True, False])

    async def stumbles(_agent: str, call: Call) -> None:
        if call.stage == "resolution" and next(tries):
            raise BackendUnavailable("gone")

    result = await finished(REQUEST, FakeModelClients(stumbles))

    by_stage = {each.stage.lower(): each.usage for each in result.stages}
    assert by_stage == {stage: result.usage.stages[stage] for stage in by_stage}
    measured = StageUsage(generations=4, http_calls=4, prompt_tokens=40, completion_tokens=8)
    assert result.usage.stages["measure"] == measured


async def test_the_note_reports_its_agent_its_role_and_its_usage() -> None:
    result = await finished(request_for(msv=MSV(importance=0.9, experience=0.1)))

    assert result.note_stage is not None
    assert (result.note_stage.stage, result.note_stage.role, result.note) == (Stage.NOTE, Role.GENERALIST, "the note")
    assert result.note_stage.agent == result.roles.assignment[Role.GENERALIST]
    assert result.note_stage.usage == ONE
    assert Stage.NOTE not in [each.stage for each in result.stages]


async def test_a_note_that_cannot_be_had_leaves_the_answer() -> None:
    async def speechless(_agent: str, call: Call) -> None:
        if call.stage == "note":
            raise BackendUnavailable("gone")

    result = await finished(request_for(msv=MSV(importance=0.9, experience=0.1)), FakeModelClients(speechless))

    assert (result.answer, result.note, result.degraded) == ("the synthesis", "", True)
    assert result.degraded_reasons == ["NOTE failed: BACKEND_UNAVAILABLE: gone"]
    assert result.note_reason.startswith("importance 0.90 reaches")


async def test_when_the_generalist_writes_a_note_is_configuration() -> None:
    request = request_for(msv=MSV(importance=0.5, experience=0.5))

    result = await finished(request, note_importance=0.5, note_experience=0.5)

    assert result.note == "the note"


async def test_weights_of_parts_hold_for_the_ratings_of_agents_and_stages() -> None:
    # Parts of a rating are 0, 10, 20, ... in their order; weighed by one part alone CE and PI are that part.
    class Uneven(FakeModelClients):
        def of(self, agent: AgentConfig) -> Any:  # noqa: ANN401
            return FakeModelClient(agent.id, nothing, {name: 10.0 * place for place, name in enumerate(ORDER)})

        def assessor(self) -> Any:  # noqa: ANN401
            return self.of(AgentConfig(id="assessor"))

    place = ORDER.index
    only = {"logical_consistency": 0, "contextual_fit": 0, "consequence": 0, "scope": 0}

    result = await finished(REQUEST, Uneven(), part_weights=only)

    states = [*(each.msv for each in result.assessments), *(each.msv for each in result.measurements)]
    assert len(states) > len(result.measurements) > 0
    assert {round(state.correctness or 0.0, 9) for state in states} == {place("factual_accuracy") / 10}
    assert {round(state.importance or 0.0, 9) for state in states} == {place("urgency") / 10}


def test_a_weight_of_a_part_that_no_rating_has_is_rejected_at_the_start() -> None:
    settings = SETTINGS.model_copy(update={"part_weights": {"logic": 2.0}})

    with pytest.raises(InvalidPartWeights, match="no part 'logic'; it has logical_consistency"):
        compose(settings, assigner_parts())


async def test_a_deliberation_names_its_run() -> None:
    named, unnamed = await finished(request_for(run_id="run-1")), await finished(REQUEST)

    assert named.run_id == "run-1"
    assert len(unnamed.run_id) == 36


# Roles


@pytest.mark.parametrize("kind", [None, AssignmentKind.RANDOM])
async def test_random_roles_follow_the_seed_and_report_their_propensity(kind: AssignmentKind | None) -> None:
    sure = dict(zip(AGENTS, (90, 70, 50, 30, 10), strict=True))
    clients = FakeModelClients(sure=sure)

    drawn = [
        (await finished(request_for(assignment_kind=kind, seed=seed), clients, exploration_share=1.0)).roles
        for seed in (1, 1, 2, 3, 4)
    ]

    assert drawn[0].assignment == drawn[1].assignment
    assert len({str(roles.assignment) for roles in drawn}) > 1
    assert {roles.propensity for roles in drawn} == {1 / 120}
    assert {roles.explored for roles in drawn} == {kind is None}
    assert drawn[0].capacities == dict.fromkeys(AGENTS, 1)


async def test_a_small_exploration_share_leaves_the_optimal_roles_likely() -> None:
    sure = dict(zip(AGENTS, (90, 70, 50, 30, 10), strict=True))

    clients = FakeModelClients(sure=sure)
    given = [(await finished(request_for(seed=seed), clients, exploration_share=0.2)).roles for seed in range(12)]

    best = given[0].optimum.assignment
    for roles in given:
        by_hand = 0.8 + 0.2 / 120 if roles.assignment == best else 0.2 / 120
        assert roles.propensity == pytest.approx(by_hand)
    assert {roles.assignment_kind for roles in given} == {AssignmentKind.OPTIMAL}
    assert not all(roles.explored for roles in given)


@pytest.mark.parametrize("kind", [AssignmentKind.OPTIMAL, AssignmentKind.GREEDY])
async def test_a_requested_control_is_used_without_exploration(kind: AssignmentKind) -> None:
    roles = (await finished(request_for(assignment_kind=kind), exploration_share=1.0)).roles

    assert (roles.assignment_kind, roles.propensity, roles.explored) == (kind, 1.0, False)


async def test_without_any_seed_the_policy_gives_one() -> None:
    request = request_for(assignment_kind=AssignmentKind.RANDOM)
    seeds = iter((1, 1, 5))
    one, same, other = [(await finished(request, chance=lambda: next(seeds))).roles.assignment for _ in range(3)]

    assert one == same != other


async def test_the_weights_in_force_are_used_and_named() -> None:
    weights = VersionedWeights(version="mine", weights={role: {"conflict": 1.0} for role in ROLES})

    optimum = (await finished(REQUEST, weights=weights)).roles.optimum

    assert optimum.weights_version == "mine"
    assert set(optimum.terms[Role.EXPERT]["ada"]) == {"conflict"}


@pytest.mark.parametrize(
    ("stated", "roles"),
    [((None, None, None), (2, 2, 2)), ((1, 1, None), (1, 1, 3)), ((5, None, None), (5, 2, 2))],
)
async def test_agents_without_a_capacity_fill_the_roles(stated: tuple[int | None, ...], roles: tuple[int, ...]) -> None:
    configured = [AgentConfig(id=name, capacity=room) for name, room in zip(AGENTS, stated, strict=False)]

    result = await finished(REQUEST, None, configured)

    assert result.roles.capacities == dict(zip(AGENTS, roles, strict=False))


@pytest.mark.parametrize(
    ("configured", "requested", "apart"), [(True, None, True), (True, False, False), (False, True, True)]
)
async def test_the_request_and_else_the_configuration_keeps_roles_apart(
    configured: bool, requested: bool | None, apart: bool
) -> None:
    agents = [AgentConfig(id=name, capacity=5) for name in AGENTS[:3]]
    sure = FakeModelClients(sure={"ada": 90.0})

    done = await finished(request_for(keep_apart=requested), sure, agents, keep_apart=configured)

    roles = done.roles.assignment
    assert bool(done.roles.optimum.kept_apart) == apart
    assert (roles[Role.GENERALIST] not in [roles[role] for role in ROLES[:4]]) == apart


KNOWN = KnownExperience(
    agents=[
        KnownAgentExperience(agent="ada", experience=0.9, questions=3),
        KnownAgentExperience(agent="ben", experience=None, unknown_reason="no right answer is recorded"),
    ],
    unknown_reason="nobody of this name",
)


async def test_each_agent_has_its_own_experience_and_the_questions_is_not_that_of_all() -> None:
    question = MSV(experience=0.3, importance=0.2, emotional_response=0.1)

    done = await finished(request_for(msv=question, experience=KNOWN))

    states = {each.agent: each.msv for each in done.assessments}
    assert [states[name].experience for name in AGENTS] == [0.9, None, None, None, None]
    assert "experience" not in states["ada"].unknown_reasons
    assert states["ben"].unknown_reasons["experience"] == "no right answer is recorded"
    assert states["cleo"].unknown_reasons["experience"] == "nobody of this name"
    assert {(state.importance, state.emotional_response) for state in states.values()} == {(0.2, 0.1)}


async def test_the_agent_with_experience_gets_the_role_that_needs_it() -> None:
    known = KnownExperience(
        agents=[KnownAgentExperience(agent=name, experience=1.0 if name == "eve" else 0.1) for name in AGENTS]
    )

    done = await finished(request_for(experience=known))

    assert done.roles.assignment[Role.SYNTHESIZER] == "eve"  # its weight of experience is the largest
    assert done.roles.optimum.terms[Role.SYNTHESIZER]["eve"]["experience"] == pytest.approx(0.6)


async def test_without_a_service_to_ask_the_agents_experience_is_unknown_with_that_reason() -> None:
    done = await finished(request_for(msv=MSV(experience=0.3)))

    assert {each.msv.experience for each in done.assessments} == {None}
    assert "METACOG_ASSIGNER_DELEGATION_ADDRESS" in done.assessments[0].msv.unknown_reasons["experience"]


async def test_what_the_request_knows_of_the_question_still_decides_on_the_note() -> None:
    familiar = MSV(experience=0.9, importance=0.8)

    done = await finished(request_for(msv=familiar))

    assert done.note_reason == "experience 0.90 is above 0.40"


async def test_roles_that_cannot_be_assigned_are_an_error_before_anything_is_spent() -> None:
    stages: list[str] = []

    async def counted(_agent: str, call: Call) -> None:
        stages.append(call.stage)

    configured = [AgentConfig(id="ada", capacity=2), AgentConfig(id="ben", capacity=2)]
    with pytest.raises(InfeasibleAssignment, match="may hold 4 roles in all"):
        await events(REQUEST, FakeModelClients(counted), configured)

    assert stages == []


async def test_every_stage_reports_agent_model_prompt_and_usage() -> None:
    emitted = [event for event in await events(REQUEST) if isinstance(event, StageFinished | RolesAssigned)]

    for event in emitted[1:]:
        assert isinstance(event, StageFinished)
        assert event.model == f"model of {event.agent}"
        assert (event.prompt, len(event.prompt_digest), event.usage) == (event.stage.lower(), 64, ONE)
