"""Tasks through the whole service: both faces, a real database, a scripted model."""

from collections.abc import AsyncIterator

import pytest

from kernel.confidence.rules import HandOverRule
from kernel.confidence.rules import Rules as RulesInForce
from tests.integration.delegation.support import RIGHT, TASK, Stage, imported, staged
from tests.support.delegating import Cast, delegation_at, new_names, options, stage_of, who
from tests.support.faces import Refused
from tests.support.scripted_llm import Refuse, ScriptedLLM, Stall


@pytest.fixture
async def stage(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Stage]:
    async with staged(scripted, database_url) as made:
        yield made


async def test_the_worked_example_of_the_paper_is_delegated(stage: Stage, face: str) -> None:
    await imported(stage, gamma=0.27, alpha=0.72, beta=0.21)
    stage.says(gamma=45, alpha=72, beta=21)

    told = await stage.process(face, first_agent="gamma", expected=RIGHT)

    first = told["assessments"][0]
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
    assert {one["agent"]: one["confidence"] for one in told["assessments"][1:]} == {"alpha": 0.72, "beta": 0.21}
    assert (told["mode"], told["executor"], told["decision"]["reason"]) == ("DELEGATED", "alpha", "better_peer")
    assert stage.calls("solve") == ["alpha"]


async def test_a_confident_agent_executes_and_learns_at_once(stage: Stage, face: str) -> None:
    stage.says({"alpha": "20 + 20 is 40.\nFinal Answer: 40"}, alpha=90)

    told = await stage.process(face, first_agent="alpha", expected=RIGHT)

    assert (told["mode"], told["executor"], told["answer"]) == ("EXECUTED", "alpha", "40")
    assert (told["confidence"], told["confidence_source"]) == (0.74, "COMBINED")
    assert told["label"]["correct"] is True
    [learned] = told["profile_updates"]
    assert (learned["competence_before"], learned["competence_after"], learned["sequence"]) == (0.5, 0.55, 1)
    assert stage.calls("assess") == ["alpha"]
    [profile] = [
        one
        for one in stage.plain(await stage.running.face(face).ask("ListProfiles", agent=stage.names["alpha"]))[
            "profiles"
        ]
        if one["dimension"] == "math_computation"
    ]
    assert (profile["competence"], profile["observations"], profile["memory"]) == (0.55, 1, 1.0)


async def test_a_tightened_threshold_hands_on_what_theta_alone_would_keep(stage: Stage, face: str) -> None:
    stage.says(alpha=10, beta=75, gamma=20)
    await imported(stage, alpha=0.95)

    told = await stage.process(face, first_agent="alpha", parameters={"verbalized_weight": 0.4})

    # c = 0.4 * 0.1 + 0.6 * 0.95 = 0.61; delta = 0.85 > 0.3; theta' = 0.5 + 0.2 * 0.85 = 0.67
    first = told["assessments"][0]
    assert (first["confidence"], first["threshold"]) == (0.61, 0.67)
    # The best of the others has 0.4 * 0.75 + 0.6 * 0.5 = 0.6: enough for theta, but less than 0.61.
    assert (told["mode"], told["executor"], told["decision"]["reason"]) == ("EXECUTED", "alpha", "no_better_peer")


async def test_in_paper_mode_the_task_goes_to_a_less_confident_one(stage: Stage, face: str) -> None:
    stage.says(alpha=10, beta=75, gamma=20)
    await imported(stage, alpha=0.95)

    rules = {"verbalized_weight": 0.4, "hand_over_rule": "PAPER"}
    told = await stage.process(face, first_agent="alpha", parameters=rules)

    assert (told["mode"], told["executor"]) == ("DELEGATED", "beta")


async def test_when_nobody_is_confident_all_vote_with_their_confidence(stage: Stage, face: str) -> None:
    await imported(stage, alpha=0.5, beta=0.2, gamma=0.2)
    answers = {"alpha": "Final Answer: 41", "beta": "Final Answer: 40", "gamma": "Final Answer: 40.0"}
    stage.says(answers, alpha=40, beta=45, gamma=10)

    told = await stage.process(face, first_agent="beta", expected=RIGHT)

    # c: alpha 0.24 + 0.2 = 0.44, beta 0.27 + 0.08 = 0.35, gamma 0.06 + 0.08 = 0.14
    assert (told["mode"], told["executor"], told["answer"]) == ("COLLABORATED", "", "40")
    assert told["vote_weights"] == {"40": 0.49, "41": 0.44}
    assert (told["confidence"], told["confidence_source"]) == (pytest.approx(0.49 / 0.93, abs=1e-9), "VOTE")
    assert {vote["agent"]: vote["won"] for vote in told["votes"]} == {"alpha": False, "beta": True, "gamma": True}
    assert {one["agent"]: one["outcome"] for one in told["profile_updates"]} == {"alpha": 0, "beta": 1, "gamma": 1}


async def test_a_wrong_vote_teaches_only_those_who_gave_it(stage: Stage, face: str) -> None:
    stage.says(
        {"alpha": "Final Answer: 41", "beta": "Final Answer: 41", "gamma": "Final Answer: 39"}, alpha=1, beta=1, gamma=1
    )

    told = await stage.process(face, first_agent="alpha", expected=RIGHT)

    assert told["answer"] == "41"
    assert {one["agent"]: one["outcome"] for one in told["profile_updates"]} == {"alpha": 0, "beta": 0}


async def test_an_agent_that_cannot_rate_itself_does_not_win_on_its_start(stage: Stage, face: str) -> None:
    stage.says(alpha="no idea", beta="none", gamma=55)

    told = await stage.process(face, first_agent="alpha")

    first = told["assessments"][0]
    assert (first["verbalized"], first["disagreement"], first["unknown_reason"]) == (None, None, "unparseable")
    assert (first["eligible"], first["attempts"], first["confidence"]) == (False, 2, 0.5)
    assert (told["mode"], told["executor"]) == ("DELEGATED", "gamma")


async def test_a_long_record_stands_for_an_agent_that_cannot_rate_itself(stage: Stage, face: str) -> None:
    await imported(stage, alpha=0.8)
    stage.says(alpha="no idea")

    told = await stage.process(face, first_agent="alpha")

    assert (told["mode"], told["executor"], told["confidence_source"]) == ("EXECUTED", "alpha", "PROFILE")


async def test_the_events_come_in_the_order_of_the_work(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)

    asked = {**TASK, "first_agent": stage.names["alpha"], "expected": RIGHT}
    events = await stage.running.face(face).events("Process", **asked)

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


async def test_a_task_without_a_dimension_is_classified(stage: Stage, face: str) -> None:
    stage.says(alpha=90, beta=90, gamma=90)

    told = await stage.process(face, dimension="")

    assert told["dimensions"] == [{"dimension": "math_computation", "certainty": 0.9}]
    assert told["usage"]["stages"]["classify"]["generations"] == 1


async def test_a_choice_that_cannot_be_had_is_left_to_keywords(stage: Stage, face: str) -> None:
    stage.says(alpha=90)
    stage.llm.fault(Refuse(400, "no"))

    told = await stage.process(face, question="Calculate the sum of 1 and 2.", dimension="", first_agent="alpha")

    assert (told["dimensions"][0]["dimension"], told["answer"]) == ("math_computation", "4")
    assert told["degraded_reasons"][0].startswith("the model did not name a dimension (BACKEND_REFUSED")


async def test_a_choice_that_cannot_be_read_is_left_to_keywords(stage: Stage, face: str) -> None:
    stage.llm.answer = lambda body: ["what?" if stage_of(body) == "classify" else '{"r": [90, 90, 90]}']

    told = await stage.process(face, question="Calculate the sum of 1 and 2.", dimension="")

    assert told["dimensions"] == [{"dimension": "math_computation", "certainty": 0.0}]
    assert told["degraded"] is True


async def test_a_cross_domain_task_takes_the_least_profile_and_teaches_each_dimension(stage: Stage, face: str) -> None:
    await imported(stage, alpha=0.9)
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)

    asked = {"dimension": "", "dimensions": ["math_computation", "code_generation"], "expected": RIGHT}
    told = await stage.process(face, first_agent="alpha", **asked)

    first = told["assessments"][0]
    assert (first["profile"], first["limiting_dimension"]) == (0.5, "code_generation")
    assert {one["dimension"] for one in told["profile_updates"]} == {"math_computation", "code_generation"}


async def test_tasks_go_round_all_agents_whichever_replica_they_come_to(
    scripted: ScriptedLLM, database_url: str
) -> None:
    agents, _ = new_names()
    scripted.answer = Cast({agent.id: 90 for agent in agents}, {})
    async with (
        delegation_at(scripted, database_url, agents=agents) as one,
        delegation_at(scripted, database_url, agents=agents) as other,
    ):
        firsts = [
            (await replica.face("rest").ask("Process", **TASK))["executor"]
            for _ in range(3)
            for replica in (one, other)
        ]

    assert firsts == [agent.id for agent in agents] * 2


async def test_the_best_profile_can_be_asked_first(stage: Stage, face: str) -> None:
    await imported(stage, beta=0.9)
    stage.says(beta=90)

    told = await stage.process(face, dispatch="BEST_PROFILE")

    assert told["decision"]["first_agent"] == "beta"


async def test_when_the_executor_fails_the_next_best_stands_in(stage: Stage, face: str) -> None:
    stage.says(alpha=20, beta=80, gamma=70)
    real = stage.llm.answer
    assert real is not None
    stage.llm.answer = lambda body: (
        [""] if stage_of(body) == "solve" and stage.plain(who(body)) == "beta" else real(body)
    )

    told = await stage.process(face, first_agent="alpha")

    assert (told["executor"], told["decision"]["reason"], told["degraded"]) == ("gamma", "agent_failed", True)
    assert told["answer"] == "4"


async def test_a_backend_that_is_away_is_said_so(stage: Stage, face: str) -> None:
    stage.llm.fault(*[Refuse(400, "no")] * 30)

    with pytest.raises(Refused) as refused:
        await stage.process(face)

    assert refused.value.reason == "BACKEND_REFUSED"


async def test_a_text_without_an_answer_abstains_and_is_wrong(stage: Stage, face: str) -> None:
    stage.says({"alpha": "I would rather not say."}, alpha=90)

    told = await stage.process(face, first_agent="alpha", expected=RIGHT)

    assert (told["outcome"], told["answer"], told["confidence"]) == ("ABSTAINED", "", None)
    assert (told["label"]["correct"], told["profile_updates"][0]["outcome"]) == (False, 0)


async def test_the_envelope_keeps_enough_for_the_answer(stage: Stage, face: str) -> None:
    stage.says(alpha=10, beta=90, gamma=90)

    told = await stage.process(face, first_agent="alpha", envelope={"max_generations": 2})

    assert (told["mode"], told["executor"], told["decision"]["reason"]) == ("EXECUTED", "alpha", "budget")
    assert (told["budget_exhausted"], told["usage"]["generations"]) == (True, 2)


async def test_an_envelope_that_pays_for_some_votes_gets_the_surest(stage: Stage, face: str) -> None:
    stage.says(alpha=10, beta=20, gamma=30)

    told = await stage.process(face, first_agent="alpha", envelope={"max_generations": 5})

    assert told["mode"] == "COLLABORATED"
    assert {vote["agent"] for vote in told["votes"]} == {"gamma", "beta"}
    assert told["budget_exhausted"] is True


async def test_ratings_that_cannot_be_read_leave_the_answer_its_share(stage: Stage, face: str) -> None:
    stage.says(alpha="?", beta="?", gamma="?")

    told = await stage.process(face, first_agent="alpha", envelope={"max_generations": 4})

    assert (told["outcome"], told["answer"], told["budget_exhausted"]) == ("ANSWERED", "4", True)
    assert told["usage"]["generations"] == 4


async def test_an_envelope_of_one_generation_is_spent_on_the_answer(stage: Stage, face: str) -> None:
    stage.says(alpha=90)

    asked = {"question": "Calculate the sum of 1 and 2.", "dimension": "", "first_agent": "alpha"}
    told = await stage.process(face, **asked, envelope={"max_generations": 1})

    assert (told["answer"], told["usage"]["generations"], told["budget_exhausted"]) == ("4", 1, True)
    assert told["dimensions"] == [{"dimension": "math_computation", "certainty": 0.0}]


async def test_an_agent_that_does_not_say_how_sure_it_is_is_not_waited_for_to_the_end(stage: Stage, face: str) -> None:
    stage.says(alpha=90, beta=80)
    stage.llm.fault(Stall())

    told = await stage.process(face, first_agent="alpha", envelope={"timeout_ms": 2000})

    first = told["assessments"][0]
    assert (first["verbalized"], first["unknown_reason"], first["eligible"]) == (None, "too_slow", False)
    assert (told["mode"], told["executor"], told["answer"]) == ("DELEGATED", "beta", "4")
    assert told["usage"]["unknown_generations"] == 1


async def test_the_judge_gets_its_share_of_a_small_envelope(stage: Stage, face: str) -> None:
    stage.says(alpha=90, judge=95)

    limits = {"max_generations": 3, "max_generated_tokens": 160}
    told = await stage.process(face, first_agent="alpha", judge={}, envelope=limits, answer_max_tokens=500)

    assert (told["label"]["correct"], told["label"]["detail"]) == (True, "judged 95 of 100")
    assert told["usage"]["completion_tokens"] <= 160


LONG = {
    "alpha": "The treaty brought the long war between both of the kingdoms to an end.",
    "beta": "It was signed so that the kingdoms could share the river and its trade.",
    "gamma": "It put an end to the war that the kingdoms had fought for so many years.",
}


async def test_long_answers_of_a_vote_are_put_together_by_what_they_mean(stage: Stage, face: str) -> None:
    # In the order of their texts: gamma, beta, alpha; the third says the same as the first.
    stage.says(LONG, same=[0, 1], alpha=30, beta=40, gamma=20)

    told = await stage.process(face, question="Why was the treaty signed?", first_agent="alpha")

    # c = .6 c^v + .2: alpha .38, beta .44, gamma .32
    assert (told["mode"], told["answer_type"]) == ("COLLABORATED", "TEXT")
    assert {vote["agent"]: vote["won"] for vote in told["votes"]} == {"alpha": True, "beta": False, "gamma": True}
    assert sorted(told["vote_weights"].values()) == [0.44, 0.7]
    assert told["usage"]["stages"]["compare"]["generations"] == 1


async def test_answers_that_could_not_be_compared_stand_alone(stage: Stage, face: str) -> None:
    stage.says(LONG, same=[], alpha=30, beta=40, gamma=20)

    told = await stage.process(face, question="Why was the treaty signed?", first_agent="alpha")

    assert [vote["agent"] for vote in told["votes"] if vote["won"]] == ["beta"]
    assert "not compared by meaning" in told["degraded_reasons"][0]


async def test_a_deadline_ends_in_time(stage: Stage, face: str) -> None:
    stage.llm.fault(Stall(), Stall(), Stall(), Stall(), Stall(), Stall(), Stall(), Stall())

    with pytest.raises(Refused) as refused:
        await stage.process(face, first_agent="alpha", envelope={"timeout_ms": 400})

    assert refused.value.reason == "DEADLINE_EXCEEDED"


async def test_a_repeated_request_repeats_the_answer(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    asked = {"first_agent": "alpha", "request_id": f"{face}-{stage.names['alpha']}", "expected": RIGHT}

    first = await stage.process(face, **asked)
    calls = len(stage.llm.bodies)
    again = await stage.process(face, **asked)

    assert again == first
    assert len(stage.llm.bodies) == calls
    with pytest.raises(Refused) as refused:
        await stage.process(face, **{**asked, "question": "Another one?"})
    assert refused.value.reason == "REQUEST_ID_REUSED"


async def test_a_request_that_failed_may_be_made_again(stage: Stage, face: str) -> None:
    stage.llm.fault(*[Refuse(400, "no")] * 12)
    asked = {"first_agent": "alpha", "request_id": f"{face}-again-{stage.names['alpha']}"}
    with pytest.raises(Refused):
        await stage.process(face, **asked)
    stage.llm._faults.clear()
    stage.says(alpha=90)

    told = await stage.process(face, **asked)

    assert told["outcome"] == "ANSWERED"


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
    stage: Stage, ablation: str, rated: dict[str, int], expected: tuple[str, str, int]
) -> None:
    stage.says(**rated)

    told = await stage.process("rest", first_agent="alpha", ablations=[ablation], expected=RIGHT)

    assert (told["mode"], told["executor"], len(stage.calls("assess"))) == expected
    assert told["ablations"] == [ablation]
    assert told["profile_updates"]


async def test_without_learning_nothing_is_learned(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)

    told = await stage.process(face, first_agent="alpha", ablations=["WITHOUT_LEARNING"], expected=RIGHT)
    again = await stage.running.face(face).ask(
        "SubmitFeedback", feedback_id=f"f-{told['task_id']}", task_id=told["task_id"], correct=True
    )

    assert (told["label"]["correct"], told["profile_updates"]) == (True, [])
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
async def test_baselines_assess_nobody_and_teach_nothing(
    stage: Stage, baseline: str, task: str, mode: str, executor: str | None
) -> None:
    stage.says()

    asked = {"question": task, "dimension": "", "baseline": baseline, "seed": 7, "expected": {"answer": "4"}}
    told = await stage.process("rest", **asked)

    assert told["mode"] == mode
    assert executor in (None, told["executor"])
    assert (told["assessments"], told["profile_updates"], stage.calls("assess")) == ([], [], [])
    assert told["usage"]["generations"] == (3 if mode == "COLLABORATED" else 1)
    if mode == "COLLABORATED":
        assert (told["vote_weights"], told["confidence"]) == ({"4": 3.0}, 1.0)


async def test_a_random_choice_is_repeatable(stage: Stage) -> None:
    stage.says()

    asked = {"baseline": "RANDOM", "dimension": ""}
    chosen = [(await stage.process("rest", seed=seed, **asked))["executor"] for seed in (*range(6), *range(6))]

    assert chosen[:6] == chosen[6:]
    assert len(set(chosen)) > 1


async def test_a_judge_model_decides_inside_the_envelope(stage: Stage, face: str) -> None:
    stage.says(alpha=90, judge=10)

    told = await stage.process(face, first_agent="alpha", judge={"criteria": "It must be 40."})

    assert (told["label"]["correct"], told["label"]["checker"]) == (False, "JUDGE")
    assert told["label"]["detail"] == "judged 10 of 100"
    assert told["usage"]["stages"]["judge"]["generations"] == 1
    assert told["profile_updates"][0]["outcome"] == 0


@pytest.mark.parametrize(("body", "right"), [("2 * x", True), ("3 * x", False)])
async def test_unit_tests_decide_in_the_sandbox(stage: Stage, face: str, body: str, right: bool) -> None:
    stage.says({"gamma": f"```python\ndef twice(x):\n    return {body}\n```"}, gamma=90)

    asked = {
        "question": "Write twice(x).",
        "dimension": "code_generation",
        "unit_tests": {"code": "assert twice(2) == 4"},
    }
    told = await stage.process(face, first_agent="gamma", **asked)

    assert (told["label"]["correct"], told["label"]["checker"]) == (right, "UNIT_TESTS")
    assert told["answer_type"] == "CODE"
    assert told["profile_updates"][0]["outcome"] == int(right)


async def test_without_a_sandbox_unit_tests_are_refused_before_anything_is_spent(
    scripted: ScriptedLLM, database_url: str, face: str
) -> None:
    async with staged(scripted, database_url, behaviour=options(sandbox=False)) as stage:
        with pytest.raises(Refused) as refused:
            await stage.process(face, unit_tests={"code": "assert True"})

    assert refused.value.reason == "SANDBOX_UNAVAILABLE"
    assert stage.llm.bodies == []


async def test_a_routine_task_is_not_assessed(scripted: ScriptedLLM, database_url: str, face: str) -> None:
    async with staged(scripted, database_url) as stage:
        await imported(stage, alpha=0.95)
        stage.says(alpha=90)

        told = await stage.process(face, first_agent="alpha", parameters={"skip_routine": True})

    assert (told["mode"], told["decision"]["reason"]) == ("EXECUTED", "routine")
    assert stage.calls("assess") == []
    assert told["assessments"][0]["unknown_reason"] == "skipped"


async def test_agents_assess_themselves_without_solving(stage: Stage, face: str) -> None:
    stage.says(alpha=80, beta="?", gamma=20)
    asked = {**TASK, "agents": [stage.names["gamma"], stage.names["alpha"], stage.names["beta"]]}

    told = stage.plain(await stage.running.face(face).ask("SelfAssess", **asked))

    assert [(one["agent"], one["verbalized"]) for one in told["assessments"]] == [
        ("gamma", 0.2),
        ("alpha", 0.8),
        ("beta", None),
    ]
    assert told["assessments"][1]["ratings"] == {"expertise": 0.8, "approach": 0.8, "knowledge": 0.8}
    assert (told["usage"]["stages"]["assess"]["generations"], stage.calls("solve")) == (4, [])


async def test_the_rules_in_force_are_told(scripted: ScriptedLLM, database_url: str) -> None:
    rules = RulesInForce(hand_over_rule=HandOverRule.PAPER, confidence_threshold=0.6)
    async with staged(scripted, database_url, behaviour=options(rules)) as stage:
        stage.says(alpha=90)

        told = await stage.process("rest", first_agent="alpha", parameters={"learning_rate": 0.3})

    assert told["parameters"]["hand_over_rule"] == "PAPER"
    assert (told["parameters"]["confidence_threshold"], told["parameters"]["learning_rate"]) == (0.6, 0.3)
