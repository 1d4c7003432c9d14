"""The plan of an arbitration: defaults, variants, limits, forms."""

from typing import Any, cast

import pytest

from chassis.errors import RequestOverLimit
from configuration.agents import AgentConfig
from inference import ModelClient
from kernel.answers import AnswerType, listed_options
from kernel.answers.answer_type_inference import type_of_answers
from kernel.arbitration.consensus import fair_split
from kernel.arbitration.modes import Variant
from kernel.conversation import Turn
from kernel.errors import MalformedRequest, UnknownAgent
from services.arbiter.service.plan import ArbitrationDefaults, Plan, base_seed, build_plan
from services.arbiter.service.stage_agents import DefaultAgents, StageAgents, choose_agents
from services.arbiter.service.values import ArbitrateRequest
from tests.support.arbiter import LIMITS

QUESTION = "How many legs have two cats?"


def plan(**fields: Any) -> Plan:  # noqa: ANN401
    return build_plan(ArbitrateRequest(**{"question": QUESTION, **fields}), ArbitrationDefaults(limits=LIMITS))


@pytest.mark.parametrize(
    ("fields", "generations"),
    [
        ({}, 2 * 5 + 2 + 50),
        ({"solvers": 3, "solver_samples": 4, "arbitration_samples": 7}, 3 * 4 + 3 + 7),
        ({"variant": Variant.MAJORITY_VOTE}, 10),
        ({"variant": Variant.REFLECTIONS}, 12),
        ({"variant": Variant.SINGLE_ARBITER}, 13),
        ({"variant": Variant.SELF_CONSISTENCY}, 62),
        ({"variant": Variant.SELF_CONSISTENCY, "self_consistency_samples": 9}, 9),
    ],
)
def test_each_variant_has_its_generations(fields: dict[str, Any], generations: int) -> None:
    assert plan(**fields).generations == generations


def test_the_default_envelope_carries_what_was_asked_for() -> None:
    many = plan(arbitration_samples=200, arbitration_max_tokens=1000).sufficient_limits(LIMITS)

    assert plan().sufficient_limits(LIMITS) == LIMITS
    assert many.max_generations == 2 * 5 + 2 + 200
    assert many.max_generated_tokens == 2 * 5 * 256 + 2 * 192 + 200 * 1000


@pytest.mark.parametrize(
    "fields",
    [{"solvers": 17}, {"solver_samples": 257}, {"arbitration_samples": 257}, {"self_consistency_samples": 257}],
)
def test_more_than_is_allowed_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestOverLimit):
        plan(
            **{"variant": Variant.SELF_CONSISTENCY if "self_consistency_samples" in fields else Variant.FULL, **fields}
        )


def test_a_question_is_needed_once() -> None:
    for fields in ({"question": " "}, {"messages": [Turn(role="user", content="And?")]}):
        with pytest.raises(MalformedRequest):
            plan(**fields)


def test_a_conversation_becomes_its_transcript() -> None:
    turns = [Turn(role="user", content="Two cats."), Turn(role="user", content="Legs?")]

    assert plan(question="", messages=turns).question == "user: Two cats.\n\nuser: Legs?"


def test_the_form_is_as_given_or_as_the_question_shows() -> None:
    assert plan(answer_type=AnswerType.TEXT).form().answer_type is AnswerType.TEXT
    assert (plan().form().answer_type, plan().is_form_firm) == (AnswerType.NUMBER, False)
    listed = plan(question="Which flies?\nA. a cat\nB. a bird")
    assert (listed.form().answer_type, listed.form().options) == (AnswerType.CHOICE, ("a cat", "a bird"))
    assert listed.is_form_firm


def test_samples_of_another_form_correct_a_guess() -> None:
    assert (
        plan().form(["Final Answer: four", "Final Answer: a lot", "Final Answer: many"]).answer_type is AnswerType.TEXT
    )


def test_the_seed_of_a_run_is_the_callers_or_its_name() -> None:
    assert base_seed(ArbitrateRequest(question=QUESTION, seed=7, run_id="a")) == 7
    assert base_seed(ArbitrateRequest(question=QUESTION)) is None
    names = {base_seed(ArbitrateRequest(question=QUESTION, run_id=name)) for name in ("a", "b")}
    assert len(names) == 2


class UnusedModelClients:
    """Model clients that no test calls."""

    def begin_run(self) -> None:
        """Fakes never change."""

    def of(self, agent: AgentConfig) -> ModelClient:
        return cast("ModelClient", object())

    def assessor(self) -> ModelClient:
        return cast("ModelClient", object())


def agents_for(count: int = 2, defaults: DefaultAgents | None = None, **fields: Any) -> StageAgents:  # noqa: ANN401
    agents = [AgentConfig(id=name) for name in ("ada", "ben")]
    return choose_agents(
        ArbitrateRequest(question=QUESTION, **fields), count, agents, UnusedModelClients(), defaults or DefaultAgents()
    )


def names(chosen: StageAgents) -> tuple[list[str], str, str]:
    critic = chosen.critic.config.id if chosen.critic else ""
    return [solver.config.id for solver in chosen.solvers], critic, chosen.arbiter.config.id


def test_without_names_the_default_model_takes_every_part() -> None:
    assert names(agents_for()) == (["default", "default"], "", "default")


def test_each_part_can_have_its_own_agent() -> None:
    assert names(agents_for(solver_agents=["ada"])) == (["ada", "ada"], "", "default")
    assert names(agents_for(solver_agents=["ben", "ada"], critic_agent="ada", arbiter_agent="ben")) == (
        ["ben", "ada"],
        "ada",
        "ben",
    )


def test_the_settings_may_name_the_default_agents() -> None:
    defaults = DefaultAgents(solvers=["ada", "ben"], arbiter="ada")

    assert names(agents_for(defaults=defaults)) == (["ada", "ben"], "", "ada")
    assert names(agents_for(defaults=defaults, count=1)) == (["ada"], "", "ada")
    assert names(agents_for(defaults=defaults, count=3)) == (["ada", "ben", "ada"], "", "ada")


def test_agents_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(UnknownAgent):
        agents_for(arbiter_agent="zoe")
    with pytest.raises(MalformedRequest):
        agents_for(count=3, solver_agents=["ada", "ben"])


def test_what_is_short_is_dealt_out_evenly() -> None:
    assert fair_split([5, 5, 5], 8) == [3, 3, 2]
    assert fair_split([0, 5], 3) == [0, 3]


def test_options_are_read_on_lines_or_in_a_row() -> None:
    assert listed_options("Which one flies? (A) a dog, (B) a crow") == ("a dog", "a crow")
    assert listed_options("Q?\nA. x y\nB. z\nAnswer with (A) or (B).") == ("x y", "z")
    assert listed_options("Pick one.\n(A) red\n(B) blue\n(C) green") == ("red", "blue", "green")
    assert listed_options("A. Is this a list?") == ()
    assert listed_options("A. one\nC. three") == ()


def test_answers_show_their_form() -> None:
    assert type_of_answers([]).answer_type is AnswerType.TEXT
    assert type_of_answers(["T", "F"]).answer_type is AnswerType.BOOLEAN


def test_options_in_a_row_name_the_letters_that_exist() -> None:
    form = plan(question="Which one flies? (A) a dog (B) a crow").form()

    assert (form.answer_type, form.options) == (AnswerType.CHOICE, ("a dog", "a crow"))
    assert form.found("Final Answer: C") is None
    assert form.found("Final Answer: a crow") == "a crow"
