"""When no agent is confident, a panel of agents is asked one after another until two agree."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from configuration.agents import AgentConfig
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import VoteEvidence, probability_model
from tests.integration.delegation.support import RIGHT, TASK, Scenario, import_profiles, scenario_at
from tests.support.models.scripted_llm import ScriptedLLM, Stall

FIVE = [AgentConfig(id=name, system_prompt=f"You are {name}.") for name in ("ada", "ben", "cleo", "dan", "eve")]
UNSURE: dict[str, Any] = {agent.id: 10 for agent in FIVE}
# In arithmetic: the order in which a panel asks them.
RECORDS: dict[str, Any] = {"eve": 0.45, "dan": 0.4, "cleo": 0.35, "ben": 0.3, "ada": 0.25}
PAPER = {"hand_over_rule": "PAPER"}
ALL_DIFFER = {name: f"Final Answer: {number}" for number, name in enumerate(RECORDS, start=41)}

Response = dict[str, Any]


@pytest.fixture
async def five(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Scenario]:
    """Five agents that are not confident in arithmetic, of different competence."""
    async with scenario_at(scripted, database_url, agents=FIVE) as scenario:
        await import_profiles(scenario, **RECORDS)
        yield scenario


def answered(response: Response) -> list[str]:
    return [vote["agent"] for vote in response["votes"]]


async def test_a_panel_of_five_stops_after_two_equal_answers(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, first_agent="ada", expected=RIGHT)

    assert (response["mode"], response["answer"], response["panel_stop"]) == ("COLLABORATED", "40", "AGREED")
    assert response["decision"]["panel"] == ["eve", "dan", "cleo", "ben", "ada"]
    assert five.calls("solve") == answered(response) == ["eve", "dan"]
    assert response["usage"]["stages"]["collaborate"]["generations"] == 2
    assert [vote["won"] for vote in response["votes"]] == [True, True]
    assert response["degraded_reasons"] == []


async def test_an_answer_without_a_unit_counts_with_one_and_vote_and_label_report_it(five: Scenario, api: str) -> None:
    five.script({"eve": "Final Answer: 40", "dan": "Final Answer: 40 euros", "cleo": "Final Answer: $40"}, **UNSURE)

    agreed = await five.process(api, first_agent="ada", expected={"answer": "40 EUR", "answer_type": "NUMBER"})
    other = await five.process(api, first_agent="ada", expected={"answer": "40 dollars", "answer_type": "NUMBER"})

    assert [(vote["agent"], vote["answer"], vote["unit_assumed"]) for vote in agreed["votes"]] == [
        ("eve", "40 EUR", "EUR"),
        ("dan", "40 EUR", ""),
    ]
    assert (agreed["label"]["correct"], agreed["label"]["detail"]) == (True, "equal to the expected answer")
    assert (other["answer"], other["label"]["correct"]) == ("40 EUR", False)


async def test_a_label_reports_the_unit_that_it_assumes(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, first_agent="ada", expected={"answer": "40 EUR", "answer_type": "NUMBER"})

    detail = "equal to the expected answer; one of the two states no unit, and is taken to mean EUR"
    assert (response["label"]["correct"], response["label"]["detail"]) == (True, detail)


async def test_agents_that_were_not_asked_learn_nothing(five: Scenario, api: str) -> None:
    answers = {"eve": "Final Answer: 41", "dan": "Final Answer: 40", "cleo": "Final Answer: 40.0"}
    five.script(answers, **UNSURE)

    response = await five.process(api, first_agent="ada", expected=RIGHT)

    assert answered(response) == ["eve", "dan", "cleo"]
    assert {one["agent"]: one["outcome"] for one in response["profile_updates"]} == {"eve": 0, "dan": 1, "cleo": 1}


async def test_two_that_agree_outvote_one_of_more_weight(five: Scenario, api: str) -> None:
    answers = {"eve": "Final Answer: 41", "dan": "Final Answer: 40", "cleo": "Final Answer: 40.0"}
    five.script(answers, **{**UNSURE, "eve": 50, "dan": 0, "cleo": 0})

    response = await five.process(api, first_agent="ada")

    # c: eve .6 * .5 + .4 * .45 = .48; dan .4 * .4 = .16; cleo .4 * .35 = .14
    assert (response["answer"], response["vote_weights"]) == ("40", {"41": 0.48, "40": 0.3})


async def test_the_confidence_of_a_panel_is_what_its_agreement_shows(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, first_agent="ada")

    shown = probability_model(SHIPPED_PRIOR).probability(VoteEvidence(agreeing=2, valid=2))
    assert (response["confidence"], response["confidence_source"]) == (pytest.approx(shown, abs=1e-9), "VOTE")
    assert response["confidence_state"] == "PRIOR"
    assert response["confidence"] < 0.7


async def test_where_no_two_agree_all_are_asked_and_the_weights_decide(five: Scenario, api: str) -> None:
    five.script(ALL_DIFFER, **{**UNSURE, "ben": 30})

    response = await five.process(api, first_agent="ada")

    # c of ben: .6 * .3 + .4 * .3 = .3; of eve: .6 * .1 + .4 * .45 = .24
    assert (response["answer"], response["panel_stop"]) == ("44", "ALL_ASKED")
    assert answered(response) == ["eve", "dan", "cleo", "ben", "ada"]


async def test_by_the_papers_rule_all_five_answer(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, first_agent="ada", parameters={**PAPER, "short_list_size": 1})

    assert (response["mode"], response["panel_stop"], response["decision"]["panel"]) == ("COLLABORATED", None, [])
    assert sorted(five.calls("solve")) == sorted(RECORDS)
    assert len(response["assessments"]) == 5
    assert (response["confidence"], response["confidence_source"]) == (1.0, "VOTE")
    assert response["confidence_state"] == "UNCALIBRATED"


async def test_a_majority_vote_asks_all_five(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, baseline="MAJORITY_VOTE")

    assert (len(response["votes"]), response["panel_stop"]) == (5, None)


async def test_the_short_list_bounds_the_panel(five: Scenario, api: str) -> None:
    five.script(ALL_DIFFER, **UNSURE)

    response = await five.process(api, first_agent="ada", parameters={"short_list_size": 2})

    assert response["decision"]["panel"] == answered(response) == ["eve", "dan", "ada"]


async def test_an_agent_that_fails_is_named_and_the_next_is_asked(five: Scenario, api: str) -> None:
    five.script({**{name: "Final Answer: 40" for name in RECORDS}, "dan": ""}, **UNSURE)

    response = await five.process(api, first_agent="ada")

    assert answered(response) == ["eve", "dan", "cleo"]
    assert (response["answer"], response["panel_stop"], response["degraded"]) == ("40", "AGREED", True)
    assert response["degraded_reasons"] == [f"{five.names['dan']} failed: the model returned no text"]


async def test_a_limit_ends_a_panel_and_the_vote_is_over_those_asked(five: Scenario, api: str) -> None:
    five.script(ALL_DIFFER, **UNSURE)

    response = await five.process(api, first_agent="ada", envelope={"max_generations": 7})

    assert answered(response) == ["eve", "dan"]
    assert (response["answer"], response["panel_stop"]) == ("41", "BUDGET_EXHAUSTED")
    assert response["budget_exhausted"] is True
    assert response["degraded_reasons"] == ["the envelope pays for 2 of 5 answers, and no two of them agree"]


async def test_an_agent_that_takes_half_of_the_time_leaves_the_other_half_to_the_next(five: Scenario, api: str) -> None:
    agreed = {name: "Final Answer: 40" for name in RECORDS}
    five.script(agreed, **UNSURE)
    five.llm.fault(None, None, None, None, None, Stall())

    response = await five.process(api, first_agent="ada", envelope={"timeout_ms": 4000})

    assert answered(response) == ["eve", "dan", "cleo"]
    assert (response["answer"], response["panel_stop"]) == ("40", "AGREED")
    assert response["votes"][0]["failure"].startswith("too_slow")


async def test_the_record_in_other_dimensions_decides_who_is_asked_first(five: Scenario, api: str) -> None:
    await import_profiles(five, "logical_reasoning", ben=0.95, eve=0.05, dan=0.05, cleo=0.05, ada=0.05)
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    response = await five.process(api, first_agent="ada")
    papers = await five.process(api, dispatch="BEST_PROFILE", parameters=PAPER)
    ours = await five.process(api, dispatch="BEST_PROFILE")

    assert response["decision"]["panel"][0] == "ben"
    assert (papers["decision"]["first_agent"], ours["decision"]["first_agent"]) == ("eve", "ben")
    assert papers["assessments"][0]["profile"] == 0.45


async def test_the_events_of_a_panel_come_in_the_order_of_its_answers(five: Scenario, api: str) -> None:
    five.script({name: "Final Answer: 40" for name in RECORDS}, **UNSURE)

    asked = {**TASK, "first_agent": five.names["ada"]}
    events = five.original([[name, data] for name, data in await five.service.api(api).events("Process", **asked)])

    chosen = [data for name, data in events if name == "mode_chosen"]
    assert [one["panel"][:2] for one in chosen] == [["eve", "dan"]]
    assert [data["agent"] for name, data in events if name == "agent_answered"] == ["eve", "dan"]
