"""Tasks run through the whole service, with both APIs, a real database and a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kernel.confidence.rules import HandOverRule
from kernel.confidence.rules import Rules as RulesInForce
from tests.integration.delegation.support import RIGHT, TASK, Scenario, import_profiles, scenario_at
from tests.support.apis import ApiError
from tests.support.delegating import (
    ScriptedAgents,
    agent_of,
    delegation_at,
    delegation_settings,
    renamed_agents,
    stage_of,
)
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall


@pytest.fixture
async def scenario(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Scenario]:
    async with scenario_at(scripted, database_url) as running_scenario:
        yield running_scenario


async def test_the_worked_example_of_the_paper_is_delegated(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, gamma=0.27, alpha=0.72, beta=0.21)
    scenario.script(gamma=45, alpha=72, beta=21)

    response = await scenario.process(api, first_agent="gamma", expected=RIGHT)

    first = response["assessments"][0]
    assert {
        name: first[name] for name in ("agent", "verbalized", "profile", "confidence", "disagreement", "threshold")
    } == {
        "agent": "gamma",
        "verbalized": 0.45,
        "profile": 0.27,
        "confidence": 0.378,
        "disagreement": 0.18,
        "threshold": 0.5,
    }
    assert {one["agent"]: one["confidence"] for one in response["assessments"][1:]} == {"alpha": 0.72, "beta": 0.21}
    assert (response["mode"], response["executor"], response["decision"]["reason"]) == (
        "DELEGATED",
        "alpha",
        "better_peer",
    )
    assert scenario.calls("solve") == ["alpha"]


async def test_a_confident_agent_executes_and_learns_at_once(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "20 + 20 is 40.\nFinal Answer: 40"}, alpha=90)

    response = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    assert (response["mode"], response["executor"], response["answer"]) == ("EXECUTED", "alpha", "40")
    assert (response["confidence"], response["confidence_source"]) == (0.74, "COMBINED")
    assert response["confidence_state"] == "UNCALIBRATED"
    [assessed] = response["assessments"]
    assert (assessed["verbalized_state"], assessed["confidence_state"]) == ("UNCALIBRATED", "UNCALIBRATED")
    assert response["label"]["correct"] is True
    [learned] = response["profile_updates"]
    assert (learned["competence_before"], learned["competence_after"], learned["sequence"]) == (0.5, 0.55, 1)
    assert scenario.calls("assess") == ["alpha"]
    [profile] = [
        one
        for one in scenario.original(
            await scenario.service.api(api).ask("ListProfiles", agent=scenario.names["alpha"])
        )["profiles"]
        if one["dimension"] == "math_computation"
    ]
    assert (profile["competence"], profile["observations"], profile["memory"]) == (0.55, 1, 1.0)


async def test_disagreement_raises_the_threshold_above_theta(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=10, beta=75, gamma=20)
    await import_profiles(scenario, alpha=0.95)

    response = await scenario.process(api, first_agent="alpha", parameters={"verbalized_weight": 0.4})

    # c = 0.4 * 0.1 + 0.6 * 0.95 = 0.61; delta = 0.85 > 0.3; theta' = 0.5 + 0.2 * 0.85 = 0.67
    first = response["assessments"][0]
    assert (first["confidence"], first["threshold"]) == (0.61, 0.67)
    # The best of the others has 0.4 * 0.75 + 0.6 * 0.5 = 0.6: enough for theta, but less than 0.61.
    assert (response["mode"], response["executor"], response["decision"]["reason"]) == (
        "EXECUTED",
        "alpha",
        "no_better_peer",
    )


async def test_the_papers_rule_delegates_to_a_less_confident_agent(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=10, beta=75, gamma=20)
    await import_profiles(scenario, alpha=0.95)

    rules = {"verbalized_weight": 0.4, "hand_over_rule": "PAPER"}
    response = await scenario.process(api, first_agent="alpha", parameters=rules)

    assert (response["mode"], response["executor"]) == ("DELEGATED", "beta")


async def test_by_the_papers_rule_all_vote_weighted_by_their_confidence(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, alpha=0.5, beta=0.2, gamma=0.2)
    answers = {"alpha": "Final Answer: 41", "beta": "Final Answer: 40", "gamma": "Final Answer: 40.0"}
    scenario.script(answers, alpha=40, beta=45, gamma=10)

    response = await scenario.process(api, first_agent="beta", expected=RIGHT, parameters={"hand_over_rule": "PAPER"})

    # c: alpha 0.24 + 0.2 = 0.44, beta 0.27 + 0.08 = 0.35, gamma 0.06 + 0.08 = 0.14
    assert (response["mode"], response["executor"], response["answer"]) == ("COLLABORATED", "", "40")
    assert response["vote_weights"] == {"40": 0.49, "41": 0.44}
    assert (response["confidence"], response["confidence_source"]) == (pytest.approx(0.49 / 0.93, abs=1e-9), "VOTE")
    assert {vote["agent"]: vote["won"] for vote in response["votes"]} == {"alpha": False, "beta": True, "gamma": True}
    assert {one["agent"]: one["outcome"] for one in response["profile_updates"]} == {"alpha": 0, "beta": 1, "gamma": 1}


async def test_only_the_agents_of_a_wrong_answer_learn_from_its_vote(scenario: Scenario, api: str) -> None:
    scenario.script(
        {"alpha": "Final Answer: 41", "beta": "Final Answer: 41", "gamma": "Final Answer: 39"}, alpha=1, beta=1, gamma=1
    )

    response = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    assert response["answer"] == "41"
    assert {one["agent"]: one["outcome"] for one in response["profile_updates"]} == {"alpha": 0, "beta": 0}


async def test_an_agent_without_a_rating_is_not_eligible_by_its_initial_profile(scenario: Scenario, api: str) -> None:
    scenario.script(alpha="no idea", beta="none", gamma=55)

    response = await scenario.process(api, first_agent="alpha")

    first = response["assessments"][0]
    assert (first["verbalized"], first["disagreement"], first["unknown_reason"]) == (None, None, "unparseable")
    assert (first["eligible"], first["attempts"], first["confidence"]) == (False, 2, 0.5)
    assert (response["mode"], response["executor"]) == ("DELEGATED", "gamma")


async def test_an_agent_without_a_rating_is_eligible_by_a_profile_with_many_observations(
    scenario: Scenario, api: str
) -> None:
    await import_profiles(scenario, alpha=0.8)
    scenario.script(alpha="no idea")

    response = await scenario.process(api, first_agent="alpha")

    assert (response["mode"], response["executor"], response["confidence_source"]) == ("EXECUTED", "alpha", "PROFILE")


async def test_events_are_in_the_order_of_the_steps(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)

    asked = {**TASK, "first_agent": scenario.names["alpha"], "expected": RIGHT}
    events = await scenario.service.api(api).events("Process", **asked)

    names = list(dict.fromkeys(name for name, _ in events))
    assert names == [
        "task_started",
        "task_dispatched",
        "agent_assessed",
        "mode_chosen",
        "answer_token",
        "agent_answered",
        "answer_judged",
        "task_finished",
    ]
    tokens = "".join(data["text"] for name, data in events if name == "answer_token")
    assert tokens == events[-1][1]["answer_text"] == "Final Answer: 40"
    assert events[0][1]["task_id"] == events[-1][1]["task_id"]


async def test_a_task_without_a_dimension_is_classified(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90, beta=90, gamma=90)

    response = await scenario.process(api, dimension="")

    assert response["dimensions"] == [{"dimension": "math_computation", "certainty": 0.9}]
    assert response["usage"]["stages"]["classify"]["generations"] == 1


async def test_keywords_classify_when_the_classifier_fails(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90)
    scenario.llm.fault(ErrorReply(400, "no"))

    response = await scenario.process(api, question="Calculate the sum of 1 and 2.", dimension="", first_agent="alpha")

    assert (response["dimensions"][0]["dimension"], response["answer"]) == ("math_computation", "4")
    assert response["degraded_reasons"][0].startswith("the model did not name a dimension (BACKEND_REJECTED")


async def test_keywords_classify_when_the_classification_is_unreadable(scenario: Scenario, api: str) -> None:
    scenario.llm.answer = lambda body: ["what?" if stage_of(body) == "classify" else '{"r": [90, 90, 90]}']

    response = await scenario.process(api, question="Calculate the sum of 1 and 2.", dimension="")

    assert response["dimensions"] == [{"dimension": "math_computation", "certainty": 0.0}]
    assert response["degraded"] is True


async def test_a_task_of_two_dimensions_uses_the_lower_profile_and_updates_both(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, alpha=0.9)
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)

    asked = {"dimension": "", "dimensions": ["math_computation", "code_generation"], "expected": RIGHT}
    response = await scenario.process(api, first_agent="alpha", **asked)

    first = response["assessments"][0]
    assert (first["profile"], first["limiting_dimension"]) == (0.5, "code_generation")
    assert {one["dimension"] for one in response["profile_updates"]} == {"math_computation", "code_generation"}


async def test_tasks_go_to_agents_in_turn_across_replicas(scripted: ScriptedLLM, database_url: str) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with (
        delegation_at(scripted, database_url, agents=agents) as one,
        delegation_at(scripted, database_url, agents=agents) as other,
    ):
        firsts = [
            (await replica.api("rest").ask("Process", **TASK))["executor"] for _ in range(3) for replica in (one, other)
        ]

    assert firsts == [agent.id for agent in agents] * 2


async def test_a_task_can_be_dispatched_to_the_best_profile(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, beta=0.9)
    scenario.script(beta=90)

    response = await scenario.process(api, dispatch="BEST_PROFILE")

    assert response["decision"]["first_agent"] == "beta"


async def test_when_the_executor_fails_the_next_best_agent_answers(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=20, beta=80, gamma=70)
    real = scenario.llm.answer
    assert real is not None
    scenario.llm.answer = lambda body: (
        [""] if stage_of(body) == "solve" and scenario.original(agent_of(body)) == "beta" else real(body)
    )

    response = await scenario.process(api, first_agent="alpha")

    assert (response["executor"], response["decision"]["reason"], response["degraded"]) == (
        "gamma",
        "agent_failed",
        True,
    )
    assert response["answer"] == "4"


async def test_an_error_of_the_backend_is_returned(scenario: Scenario, api: str) -> None:
    scenario.llm.fault(*[ErrorReply(400, "no")] * 30)

    with pytest.raises(ApiError) as raised:
        await scenario.process(api)

    assert raised.value.reason == "BACKEND_REJECTED"


async def test_a_text_without_an_answer_is_an_abstention_and_wrong(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "I would rather not answer."}, alpha=90)

    response = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    assert (response["outcome"], response["answer"], response["confidence"]) == ("ABSTAINED", "", None)
    assert response["degraded"] is True
    assert response["degraded_reasons"] == ["NO_VALID_ANSWER: no valid answer could be obtained"]
    assert (response["label"]["correct"], response["profile_updates"][0]["outcome"]) == (False, 0)


async def test_a_vote_without_a_valid_answer_is_an_abstention_with_its_reasons(scenario: Scenario, api: str) -> None:
    answers = {"alpha": "", "beta": "I would rather not answer.", "gamma": "I would rather not answer."}
    scenario.script(answers, alpha=10, beta=10, gamma=10)

    response = await scenario.process(api, first_agent="alpha", answer_type="NUMBER")

    assert (response["mode"], response["outcome"], response["degraded"]) == ("COLLABORATED", "ABSTAINED", True)
    assert response["degraded_reasons"] == [
        f"{scenario.names['alpha']} failed: the model returned no text",
        "NO_VALID_ANSWER: no valid answer could be obtained",
    ]


async def test_the_envelope_reserves_enough_for_the_answer(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=10, beta=90, gamma=90)

    response = await scenario.process(api, first_agent="alpha", envelope={"max_generations": 2})

    assert (response["mode"], response["executor"], response["decision"]["reason"]) == ("EXECUTED", "alpha", "budget")
    assert (response["budget_exhausted"], response["usage"]["generations"]) == (True, 2)


async def test_an_envelope_that_pays_for_some_votes_gets_the_most_confident(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=10, beta=20, gamma=30)

    response = await scenario.process(
        api, first_agent="alpha", envelope={"max_generations": 5}, parameters={"hand_over_rule": "PAPER"}
    )

    assert response["mode"] == "COLLABORATED"
    assert {vote["agent"] for vote in response["votes"]} == {"gamma", "beta"}
    assert response["budget_exhausted"] is True


async def test_unreadable_ratings_leave_a_generation_for_the_answer(scenario: Scenario, api: str) -> None:
    scenario.script(alpha="?", beta="?", gamma="?")

    response = await scenario.process(api, first_agent="alpha", envelope={"max_generations": 4})

    assert (response["outcome"], response["answer"], response["budget_exhausted"]) == ("ANSWERED", "4", True)
    assert response["usage"]["generations"] == 4


async def test_an_envelope_of_one_generation_is_spent_on_the_answer(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90)

    asked = {"question": "Calculate the sum of 1 and 2.", "dimension": "", "first_agent": "alpha"}
    response = await scenario.process(api, **asked, envelope={"max_generations": 1})

    assert (response["answer"], response["usage"]["generations"], response["budget_exhausted"]) == ("4", 1, True)
    assert response["dimensions"] == [{"dimension": "math_computation", "certainty": 0.0}]


async def test_a_slow_self_assessment_gets_half_of_the_time(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90, beta=80)
    scenario.llm.fault(Stall())

    response = await scenario.process(api, first_agent="alpha", envelope={"timeout_ms": 2000})

    first = response["assessments"][0]
    assert (first["verbalized"], first["unknown_reason"], first["eligible"]) == (None, "too_slow", False)
    assert (response["mode"], response["executor"], response["answer"]) == ("DELEGATED", "beta", "4")
    assert response["usage"]["unknown_generations"] == 1


async def test_a_small_envelope_reserves_tokens_for_the_judge(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90, judge=95)

    limits = {"max_generations": 3, "max_generated_tokens": 160}
    response = await scenario.process(api, first_agent="alpha", judge={}, envelope=limits, answer_max_tokens=500)

    assert (response["label"]["correct"], response["label"]["detail"]) == (True, "judged 95 of 100")
    assert response["usage"]["completion_tokens"] <= 160


LONG = {
    "alpha": "The treaty brought the long war between both of the kingdoms to an end.",
    "beta": "It was signed so that the kingdoms could share the river and its trade.",
    "gamma": "It put an end to the war that the kingdoms had fought for so many years.",
}


async def test_long_answers_of_a_vote_are_merged_by_meaning(scenario: Scenario, api: str) -> None:
    # In the order of their texts: gamma, beta, alpha; the third says the same as the first.
    scenario.script(LONG, same=[0, 1], alpha=30, beta=40, gamma=20)

    response = await scenario.process(api, question="Why was the treaty signed?", first_agent="alpha")

    # c = .6 c^v + .2: alpha .38, beta .44, gamma .32
    assert (response["mode"], response["answer_type"]) == ("COLLABORATED", "TEXT")
    assert {vote["agent"]: vote["won"] for vote in response["votes"]} == {"alpha": True, "beta": False, "gamma": True}
    assert sorted(response["vote_weights"].values()) == [0.44, 0.7]
    assert response["usage"]["stages"]["compare"]["generations"] == 1


async def test_answers_that_could_not_be_compared_are_not_merged(scenario: Scenario, api: str) -> None:
    scenario.script(LONG, same=[], alpha=30, beta=40, gamma=20)

    response = await scenario.process(api, question="Why was the treaty signed?", first_agent="alpha")

    assert [vote["agent"] for vote in response["votes"] if vote["won"]] == ["beta"]
    assert "not compared by meaning" in response["degraded_reasons"][0]


async def test_a_deadline_ends_in_time(scenario: Scenario, api: str) -> None:
    scenario.llm.fault(Stall(), Stall(), Stall(), Stall(), Stall(), Stall(), Stall(), Stall())

    with pytest.raises(ApiError) as raised:
        await scenario.process(api, first_agent="alpha", envelope={"timeout_ms": 400})

    assert raised.value.reason == "DEADLINE_EXCEEDED"


async def test_a_repeated_request_gets_the_same_answer(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    asked = {"first_agent": "alpha", "request_id": f"{api}-{scenario.names['alpha']}", "expected": RIGHT}

    first = await scenario.process(api, **asked)
    calls = len(scenario.llm.bodies)
    again = await scenario.process(api, **asked)

    assert again == first
    assert len(scenario.llm.bodies) == calls
    with pytest.raises(ApiError) as raised:
        await scenario.process(api, **{**asked, "question": "Another one?"})
    assert raised.value.reason == "REQUEST_ID_REUSED"


async def test_a_failed_request_may_be_repeated(scenario: Scenario, api: str) -> None:
    scenario.llm.fault(*[ErrorReply(400, "no")] * 12)
    asked = {"first_agent": "alpha", "request_id": f"{api}-again-{scenario.names['alpha']}"}
    with pytest.raises(ApiError):
        await scenario.process(api, **asked)
    scenario.llm._faults.clear()
    scenario.script(alpha=90)

    response = await scenario.process(api, **asked)

    assert response["outcome"] == "ANSWERED"


@pytest.mark.parametrize(
    ("ablation", "rated", "expected"),
    [
        ("WITHOUT_SELF_ASSESSMENT", {"alpha": 0}, ("EXECUTED", "alpha", 0)),
        ("WITHOUT_DELEGATION", {"alpha": 0, "beta": 99}, ("EXECUTED", "alpha", 1)),
        ("WITHOUT_CROSS_EVALUATION", {"alpha": 0, "gamma": 99}, ("DELEGATED", "beta", 1)),
        ("WITHOUT_VERBALIZED", {"alpha": 0}, ("EXECUTED", "alpha", 0)),
    ],
)
async def test_each_part_can_be_switched_off(
    scenario: Scenario, ablation: str, rated: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    scenario.script(**rated)

    response = await scenario.process("rest", first_agent="alpha", ablations=[ablation], expected=RIGHT)

    assert (response["mode"], response["executor"], len(scenario.calls("assess"))) == expected
    assert response["ablations"] == [ablation]
    assert response["profile_updates"]


async def test_without_learning_no_profile_changes(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)

    response = await scenario.process(api, first_agent="alpha", ablations=["WITHOUT_LEARNING"], expected=RIGHT)
    again = await scenario.service.api(api).ask(
        "SubmitFeedback", feedback_id=f"f-{response['task_id']}", task_id=response["task_id"], correct=True
    )

    assert (response["label"]["correct"], response["profile_updates"]) == (True, [])
    assert again["not_learned_reason"] == "ablation"


@pytest.mark.parametrize(
    ("baseline", "task", "mode", "executor"),
    [
        ("SINGLE_AGENT", "What is 2 + 2?", "EXECUTED", "alpha"),
        ("ROUND_ROBIN", "What is 2 + 2?", "EXECUTED", None),
        ("RANDOM", "What is 2 + 2?", "EXECUTED", None),
        ("SKILL_FIXED", "Write a Python function.", "DELEGATED", "gamma"),
        ("SKILL_FIXED", "Calculate the sum.", "EXECUTED", "alpha"),
        ("MAJORITY_VOTE", "What is 2 + 2?", "COLLABORATED", ""),
    ],
)
async def test_baselines_need_no_assessment_and_change_no_profile(
    scenario: Scenario, baseline: str, task: str, mode: str, executor: str | None
) -> None:
    scenario.script()

    asked = {"question": task, "dimension": "", "baseline": baseline, "seed": 7, "expected": {"answer": "4"}}
    response = await scenario.process("rest", **asked)

    assert response["mode"] == mode
    assert executor in (None, response["executor"])
    assert (response["assessments"], response["profile_updates"], scenario.calls("assess")) == ([], [], [])
    assert response["usage"]["generations"] == (3 if mode == "COLLABORATED" else 1)
    if mode == "COLLABORATED":
        assert (response["vote_weights"], response["confidence"]) == ({"4": 3.0}, 1.0)


async def test_a_random_choice_is_repeatable(scenario: Scenario) -> None:
    scenario.script()

    asked = {"baseline": "RANDOM", "dimension": ""}
    chosen = [(await scenario.process("rest", seed=seed, **asked))["executor"] for seed in (*range(6), *range(6))]

    assert chosen[:6] == chosen[6:]
    assert len(set(chosen)) > 1


async def test_a_judge_model_labels_the_answer_inside_the_envelope(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=90, judge=10)

    response = await scenario.process(api, first_agent="alpha", judge={"criteria": "It must be 40."})

    assert (response["label"]["correct"], response["label"]["checker"]) == (False, "JUDGE")
    assert response["label"]["detail"] == "judged 10 of 100"
    assert response["usage"]["stages"]["judge"]["generations"] == 1
    assert response["profile_updates"][0]["outcome"] == 0


@pytest.mark.parametrize(("body", "right"), [("2 * x", True), ("3 * x", False)])
async def test_unit_tests_label_the_answer_in_the_sandbox(scenario: Scenario, api: str, body: str, right: bool) -> None:
    scenario.script({"gamma": f"```python\ndef twice(x):\n    return {body}\n```"}, gamma=90)

    asked = {
        "question": "Write twice(x).",
        "dimension": "code_generation",
        "unit_tests": {"code": "assert twice(2) == 4"},
    }
    response = await scenario.process(api, first_agent="gamma", **asked)

    assert (response["label"]["correct"], response["label"]["checker"]) == (right, "UNIT_TESTS")
    assert response["answer_type"] == "CODE"
    assert response["profile_updates"][0]["outcome"] == int(right)


async def test_weak_unit_tests_confirm_nothing_and_teach_nothing(scenario: Scenario, api: str) -> None:
    scenario.script({"gamma": "```python\ndef twice(x):\n    return 2 * x\n```"}, gamma=90)

    asked = {
        "question": "Write twice(x).",
        "dimension": "code_generation",
        "unit_tests": {"code": "assert twice(2) == twice(1) + 2"},
    }
    response = await scenario.process(api, first_agent="gamma", **asked)

    assert response["label"]["correct"] is None
    assert "they ran beside the program" in response["label"]["detail"]
    assert response["profile_updates"] == []


async def test_without_a_sandbox_unit_tests_are_rejected_before_any_model_call(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    async with scenario_at(scripted, database_url, settings=delegation_settings(sandbox=False)) as scenario:
        with pytest.raises(ApiError) as raised:
            await scenario.process(api, unit_tests={"code": "assert True"})

    assert raised.value.reason == "SANDBOX_UNAVAILABLE"
    assert scenario.llm.bodies == []


async def test_a_routine_task_is_not_assessed(scripted: ScriptedLLM, database_url: str, api: str) -> None:
    async with scenario_at(scripted, database_url) as scenario:
        await import_profiles(scenario, alpha=0.95)
        scenario.script(alpha=90)

        response = await scenario.process(api, first_agent="alpha", parameters={"skip_routine": True})

    assert (response["mode"], response["decision"]["reason"]) == ("EXECUTED", "routine")
    assert scenario.calls("assess") == []
    assert response["assessments"][0]["unknown_reason"] == "skipped"


async def test_agents_assess_themselves_without_a_solution(scenario: Scenario, api: str) -> None:
    scenario.script(alpha=80, beta="?", gamma=20)
    asked = {**TASK, "agents": [scenario.names["gamma"], scenario.names["alpha"], scenario.names["beta"]]}

    response = scenario.original(await scenario.service.api(api).ask("SelfAssess", **asked))

    assert [(one["agent"], one["verbalized"]) for one in response["assessments"]] == [
        ("gamma", 0.2),
        ("alpha", 0.8),
        ("beta", None),
    ]
    assert response["assessments"][1]["ratings"] == {"expertise": 0.8, "approach": 0.8, "knowledge": 0.8}
    assert (response["usage"]["stages"]["assess"]["generations"], scenario.calls("solve")) == (4, [])


async def test_the_rules_in_force_are_returned(scripted: ScriptedLLM, database_url: str) -> None:
    rules = RulesInForce(hand_over_rule=HandOverRule.PAPER, confidence_threshold=0.6)
    async with scenario_at(scripted, database_url, settings=delegation_settings(rules)) as scenario:
        scenario.script(alpha=90)

        response = await scenario.process("rest", first_agent="alpha", parameters={"learning_rate": 0.3})

    assert response["parameters"]["hand_over_rule"] == "PAPER"
    assert (response["parameters"]["confidence_threshold"], response["parameters"]["learning_rate"]) == (0.6, 0.3)


async def test_a_rating_that_counts_its_places_is_asked_for_again_in_another_order(
    scenario: Scenario, api: str
) -> None:
    # In the other order the same three numbers come for the same three questions.
    means = ScriptedAgents({}, {}, counting={scenario.names["alpha"]: [[1, 2, 3], [3, 2, 1]]})
    scenario.llm.answer = means

    response = await scenario.process(api, first_agent="alpha")

    first = response["assessments"][0]
    assert first["ratings"] == {"expertise": 0.01, "approach": 0.02, "knowledge": 0.03}
    assert (first["attempts"], first["unknown_reason"]) == (2, "")
    asked = [body["messages"][-1]["content"] for body in scenario.llm.bodies if stage_of(body) == "assess"][:2]
    assert [text.index("in your field") < text.index("know what it takes") for text in asked] == [True, False]


async def test_a_rating_that_counts_in_both_orders_is_unknown(scenario: Scenario, api: str) -> None:
    scenario.script(alpha='{"r": [1, 2, 3]}', beta=90)

    response = await scenario.process(api, first_agent="alpha")

    first = response["assessments"][0]
    assert (first["verbalized"], first["unknown_reason"], first["attempts"]) == (None, "unparseable", 2)
    assert response["executor"] == "beta"
