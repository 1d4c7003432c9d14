"""Every field of every request has an effect, in both APIs."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from chassis.ids import new_id
from tests.integration.delegation.support import RIGHT, TASK, Scenario, import_profiles, scenario_at
from tests.support.apis import ApiError
from tests.support.delegating import CONTRACT, stage_of
from tests.support.models.scripted_llm import ScriptedLLM

Response = Mapping[str, Any]
Holds = Callable[[Response, Scenario], bool]


@pytest.fixture
async def scenario(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Scenario]:
    async with scenario_at(scripted, database_url) as running_scenario:
        yield running_scenario


def fields(operation: str, *skipped: str) -> set[str]:
    """Return the fields of an operation's request."""
    return {field.name for field in CONTRACT.methods_by_name[operation].input_type.fields} - set(skipped)


def prompts(scenario: Scenario, kind: str) -> list[str]:
    """Return the prompts of one stage."""
    return [str(body["messages"][-1]["content"]) for body in scenario.llm.bodies if stage_of(body) == kind]


def body(scenario: Scenario, kind: str) -> dict[str, Any]:
    """Return the last request to a model in one stage."""
    return next(one for one in reversed(scenario.llm.bodies) if stage_of(one) == kind)


TASKS: dict[str, tuple[dict[str, Any], Holds]] = {
    "question": ({"question": "How many legs have 3 cats?"}, lambda _, s: "3 cats" in prompts(s, "solve")[0]),
    "messages": (
        {"question": "", "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "3 cats?"}]},
        lambda _, s: "user: Hi" in prompts(s, "solve")[0] and "3 cats?" in prompts(s, "assess")[0],
    ),
    "dimension": ({"dimension": "code_generation"}, lambda t, _: t["dimensions"][0]["dimension"] == "code_generation"),
    "dimensions": (
        {"dimension": "", "dimensions": ["code_generation", "math_computation"]},
        lambda t, _: [one["dimension"] for one in t["dimensions"]] == ["code_generation", "math_computation"],
    ),
    "expected": (
        {"expected": {"answer": "five", "answer_type": "TEXT", "aliases": ["four"]}, "first_agent": "beta"},
        lambda t, _: t["label"]["correct"] is True and t["answer_type"] == "TEXT",
    ),
    "unit_tests": (
        {
            "unit_tests": {"code": "assert f() == 1", "timeout_ms": 700},
            "first_agent": "gamma",
            "parameters": {"confidence_threshold": 0.0, "disagreement_gain": 0.0},
        },
        lambda t, _: t["label"]["detail"] == "not done within 0.7 s" and t["label"]["correct"] is False,
    ),
    "judge": (
        {"judge": {"agent": "gamma", "criteria": "Short."}},
        lambda t, s: (
            t["label"]["checker"] == "JUDGE" and "Short." in prompts(s, "judge")[0] and s.calls("judge") == ["gamma"]
        ),
    ),
    "answer_type": ({"answer_type": "BOOLEAN"}, lambda t, _: t["answer_type"] == "BOOLEAN"),
    "envelope": (
        {"first_agent": "beta", "envelope": {"max_generations": 1, "max_generated_tokens": 40, "timeout_ms": 9000}},
        lambda t, s: t["budget_exhausted"] and body(s, "solve")["max_tokens"] == 40 and t["usage"]["generations"] == 1,
    ),
    "seed": ({"seed": 3}, lambda _, s: "seed" in body(s, "assess") and "seed" in body(s, "solve")),
    "request_id": ({"request_id": "mine"}, lambda t, _: t["request_id"].startswith("mine")),
    "run_id": ({"run_id": "run-7"}, lambda t, _: t["run_id"] == "run-7"),
    "agents": (
        {"agents": ["beta", "gamma"], "first_agent": "beta"},
        lambda t, _: {"beta", "gamma"} >= {one["agent"] for one in t["assessments"]},
    ),
    "dispatch": ({"dispatch": "BEST_PROFILE", "first_agent": ""}, lambda t, _: t["decision"]["first_agent"] == "alpha"),
    "first_agent": ({"first_agent": "gamma"}, lambda t, _: t["decision"]["first_agent"] == "gamma"),
    "classifier": (
        {"dimension": "", "classifier": "MODEL"},
        lambda t, _: t["usage"]["stages"]["classify"]["generations"] == 1,
    ),
    "parameters": ({"parameters": {"learning_rate": 0.25}}, lambda t, _: t["parameters"]["learning_rate"] == 0.25),
    "baseline": ({"baseline": "MAJORITY_VOTE"}, lambda t, _: t["decision"]["reason"] == "baseline"),
    "ablations": (
        {"ablations": ["WITHOUT_DELEGATION"], "first_agent": "gamma"},
        lambda t, _: t["decision"]["reason"] == "ablation",
    ),
    "temperature": ({"temperature": 0.3}, lambda _, s: body(s, "solve")["temperature"] == 0.3),
    "answer_max_tokens": ({"answer_max_tokens": 77}, lambda _, s: body(s, "solve")["max_tokens"] == 77),
}

# alpha rates itself 90 and has the profile .9, beta 60 and .5, gamma 10 and .5; 50 observations each.
PARAMETERS: dict[str, tuple[Any, dict[str, Any], Holds]] = {
    "confidence_threshold": (0.95, {}, lambda t, _: t["decision"]["reason"] != "confident"),
    "verbalized_weight": (0.0, {}, lambda t, _: t["assessments"][0]["confidence"] == 0.9),
    "disagreement_threshold": (
        0.05,
        {"first_agent": "beta"},
        lambda t, _: t["assessments"][0]["threshold"] == pytest.approx(0.52),
    ),
    "disagreement_gain": (
        1.0,
        {"first_agent": "gamma"},
        lambda t, _: t["assessments"][0]["threshold"] == pytest.approx(0.9),
    ),
    "learning_rate": (0.5, {}, lambda t, _: t["profile_updates"][0]["learning_rate"] == 0.5),
    "minimum_observations": (
        51,
        {"first_agent": "gamma", "rated": {"gamma": "?"}},
        lambda t, _: t["assessments"][0]["eligible"] is False,
    ),
    "hand_over_rule": (
        "PAPER",
        # alpha: c = .6 * .5 + .4 * .9 = .66 < theta' = .3 + .4 = .7; beta: .6 * .6 + .4 * .5 = .56 < .66.
        {"rated": {"alpha": 50}, "parameters": {"disagreement_gain": 1.0, "confidence_threshold": 0.3}},
        lambda t, _: t["mode"] == "DELEGATED",
    ),
    "short_list_size": (1, {"first_agent": "gamma"}, lambda t, _: len(t["assessments"]) == 2),
    "exploration": (
        "UPPER_BOUND",
        {"first_agent": "gamma"},
        lambda t, _: all(one["rank_value"] > one["profile"] for one in t["decision"]["short_list"]),
    ),
    "skip_routine": (True, {}, lambda t, _: t["decision"]["reason"] == "routine"),
    "recalibrate": (False, {}, lambda t, _: t["parameters"]["recalibrate"] is False),
    "constant_verbalized": (
        0.7,
        {"ablations": ["WITHOUT_SELF_ASSESSMENT"]},
        lambda t, _: t["assessments"][0]["verbalized"] == 0.7,
    ),
}
RATINGS: dict[str, Any] = {"alpha": 90, "beta": 60, "gamma": 10}
ANSWERS = {"beta": "Final Answer: four", "gamma": "```python\ndef f():\n    while True: pass\n```"}


def renamed(scenario: Scenario, ask: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with the names that the agents have in this test."""
    names = {"first_agent", "agent"}
    given = {name: scenario.names.get(item, item) if name in names else item for name, item in ask.items()}
    if "agents" in given:
        given["agents"] = [scenario.names[name] for name in given["agents"]]
    if "judge" in given:
        given["judge"] = renamed(scenario, given["judge"])
    if "request_id" in given:
        given["request_id"] = f"{given['request_id']}-{new_id()}"
    return given


async def processed(
    scenario: Scenario, api: str, ask: Mapping[str, Any], rated: Mapping[str, Any] | None = None
) -> Response:
    """Return the finished task, with original names, after requests of earlier tasks are cleared."""
    scenario.llm.requests.clear()
    scenario.script(ANSWERS, **{**RATINGS, **(rated or {})})
    given = renamed(scenario, {**TASK, "first_agent": "alpha", **ask})
    response: Response = scenario.original(await scenario.service.api(api).ask("Process", **given))
    return response


async def test_every_field_of_a_task_is_read(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, alpha=0.9, beta=0.5, gamma=0.5)

    ignored = [
        name for name, (ask, holds) in TASKS.items() if not holds(await processed(scenario, api, ask), scenario)
    ]  # fmt: skip

    assert ignored == []
    assert set(TASKS) == fields("Process")


async def test_every_number_that_decides_is_read(scenario: Scenario, api: str) -> None:
    ignored = []
    for name, (level, more, holds) in PARAMETERS.items():
        await import_profiles(scenario, alpha=0.9, beta=0.5, gamma=0.5)
        ask = {"expected": RIGHT, **more, "parameters": {**more.get("parameters", {}), name: level}}
        response = await processed(scenario, api, {k: v for k, v in ask.items() if k != "rated"}, ask.get("rated"))
        if not holds(response, scenario):
            ignored.append(name)

    assert ignored == []
    numbers = CONTRACT.methods_by_name["Process"].input_type.fields_by_name["parameters"].message_type
    assert numbers is not None
    assert set(PARAMETERS) == {field.name for field in numbers.fields}


async def test_every_field_of_a_self_assessment_is_read(scenario: Scenario, api: str) -> None:
    checks: dict[str, tuple[dict[str, Any], Holds]] = {
        "question": ({"question": "Name 3 cats."}, lambda _, s: "3 cats" in prompts(s, "assess")[0]),
        "messages": (
            {"question": "", "messages": [{"role": "user", "content": "Name 4 dogs."}]},
            lambda _, s: "4 dogs" in prompts(s, "assess")[0],
        ),
        "dimension": ({"dimension": "code_generation"}, lambda t, _: t["assessments"][0]["profile"] == 0.5),
        "dimensions": (
            {"dimension": "", "dimensions": ["math_computation", "code_generation"]},
            lambda t, _: len(t["dimensions"]) == 2,
        ),
        "agents": ({"agents": ["gamma"]}, lambda t, _: [one["agent"] for one in t["assessments"]] == ["gamma"]),
        "classifier": (
            {"dimension": "", "classifier": "MODEL"},
            lambda t, _: t["usage"]["stages"]["classify"]["generations"] == 1,
        ),
        "parameters": (
            {"parameters": {"verbalized_weight": 1.0}},
            lambda t, _: t["assessments"][1]["confidence"] == 0.6,
        ),
        "envelope": (
            {"envelope": {"max_generations": 1}},
            lambda t, _: t["budget_exhausted"] and t["assessments"][2]["unknown_reason"] == "budget",
        ),
        "seed": ({"seed": 1}, lambda _, s: "seed" in body(s, "assess")),
        "run_id": ({"run_id": "any"}, lambda t, _: len(t["assessments"]) == 3),
    }
    await import_profiles(scenario, alpha=0.9, beta=0.5, gamma=0.5)
    ignored = []
    for name, (ask, holds) in checks.items():
        scenario.llm.requests.clear()
        scenario.script(**RATINGS)
        response = await scenario.service.api(api).ask("SelfAssess", **renamed(scenario, {**TASK, **ask}))
        if not holds(scenario.original(response), scenario):
            ignored.append(name)

    assert ignored == []
    assert set(checks) == fields("SelfAssess")


LISTS = ("ListProfiles", "ExportProfiles", "GetFlows", "GetReliability", "ListDriftEvents")


async def test_every_field_of_a_list_filters_it(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    await scenario.process(api, first_agent="alpha", expected=RIGHT)
    agent, service = scenario.names["alpha"], scenario.service.api(api)
    base = {"agent": agent, "dimension": "math_computation", "page_size": 1}
    early, late = "2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"

    profiles = (await service.ask("ListProfiles", **base))["profiles"]
    exported = (await service.ask("ExportProfiles", **base, include_history=True))["profiles"]
    rows = [
        (await service.ask("GetReliability", **base, confidence_source="COMBINED", bins=3, **time))["reliabilities"]
        for time in ({}, {"since": early, "until": late}, {"since": late}, {"until": early})
    ]
    flows = [
        (await service.ask("GetFlows", dimension="math_computation", baseline="NONE", **time))["tasks"]
        for time in ({}, {"since": early, "until": late}, {"since": late}, {"until": early})
    ]
    drifts = [
        (await service.ask("ListDriftEvents", **base, **time))["events"] for time in ({}, {"since": late})
    ]  # fmt: skip

    assert [one["dimension"] for one in profiles] == ["math_computation"]
    assert len(exported[0]["history"]) == 1
    assert [len(found) for found in rows] == [1, 1, 0, 0]
    assert (rows[0][0]["agent"], len(rows[0][0]["bins"])) == (agent, 3)
    assert flows[0] == flows[1] > 0
    assert flows[2:] == [0, 0]
    assert drifts == [[], []]
    expected = {
        "page_size",
        "page_token",
        "agent",
        "dimension",
        "include_history",
        "confidence_source",
        "bins",
        "since",
    }
    assert set().union(*(fields(name) for name in LISTS)) == expected | {"until", "baseline"}


@pytest.mark.parametrize("operation", ["ListProfiles", "ExportProfiles", "GetReliability"])
async def test_pages_join_to_the_whole(scenario: Scenario, api: str, operation: str) -> None:
    scenario.script({name: "Final Answer: 40" for name in RATINGS}, **RATINGS)
    for dimension in ("math_computation", "code_generation", "logical_reasoning"):
        await scenario.process(api, first_agent="alpha", dimension=dimension, expected=RIGHT)
    service, ask = scenario.service.api(api), {"agent": scenario.names["alpha"]}
    kind = {"GetReliability": "reliabilities"}.get(operation, "profiles")

    whole = (await service.ask(operation, **ask, page_size=1000))[kind]
    parts, token = [], ""
    while True:
        page = await service.ask(operation, **ask, page_size=2, page_token=token)
        parts += page[kind]
        token = page["next_page_token"]
        if not token:
            break

    assert parts == whole
    assert len(whole) > 2


REJECTED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Process", {"question": "", "dimension": ""}, "MALFORMED_REQUEST"),
    ("Process", {"messages": [{"role": "user", "content": "And?"}]}, "MALFORMED_REQUEST"),
    ("Process", {"dimension": "music"}, "UNKNOWN_DIMENSION"),
    ("Process", {"agents": ["missing"]}, "UNKNOWN_AGENT"),
    ("Process", {"first_agent": "missing"}, "UNKNOWN_AGENT"),
    ("Process", {"judge": {"agent": "missing"}}, "UNKNOWN_AGENT"),
    ("Process", {"question": "x" * 100_001}, "REQUEST_OVER_LIMIT"),
    ("Process", {"parameters": {"learning_rate": 0.0}}, "MALFORMED_REQUEST"),
    ("Process", {"parameters": {"confidence_threshold": 1.5}}, "MALFORMED_REQUEST"),
    ("Process", {"dimensions": ["math_computation"]}, "MALFORMED_REQUEST"),
    ("Process", {"expected": {"answer": ""}}, "MALFORMED_REQUEST"),
    ("Process", {"expected": RIGHT, "answer_type": "TEXT"}, "MALFORMED_REQUEST"),
    ("Process", {"unit_tests": {"code": "assert 1"}, "answer_type": "NUMBER"}, "MALFORMED_REQUEST"),
    ("Process", {"envelope": {"max_generations": 0}}, "INVALID_ENVELOPE"),
    ("Process", {"temperature": 2.5}, "MALFORMED_REQUEST"),
    ("SelfAssess", {"dimension": "music"}, "UNKNOWN_DIMENSION"),
    ("SelfAssess", {"agents": ["missing"]}, "UNKNOWN_AGENT"),
    ("SubmitFeedback", {"feedback_id": "a b", "task_id": "t", "correct": True}, "MALFORMED_REQUEST"),
    ("SubmitFeedback", {"feedback_id": "f", "task_id": "t"}, "MALFORMED_REQUEST"),
    ("SubmitFeedback", {"feedback_id": "f", "task_id": "t", "correct": True}, "TASK_NOT_FOUND"),
    ("FreezeProfiles", {}, "MALFORMED_REQUEST"),
    ("FreezeProfiles", {"frozen": True, "agent": "missing"}, "UNKNOWN_AGENT"),
    ("ResetProfiles", {"dimension": "music"}, "UNKNOWN_DIMENSION"),
    ("ExportProfiles", {"agent": "missing"}, "UNKNOWN_AGENT"),
    ("ImportProfiles", {"profiles": []}, "MALFORMED_REQUEST"),
    ("ListProfiles", {"page_size": 1001}, "MALFORMED_REQUEST"),
    ("GetFlows", {"dimension": "music"}, "UNKNOWN_DIMENSION"),
    ("GetReliability", {"bins": 101}, "MALFORMED_REQUEST"),
    ("DiscoverCategories", {"tasks": 5}, "MALFORMED_REQUEST"),
    ("AdoptCategory", {"category_id": "nothing"}, "CATEGORY_NOT_FOUND"),
    ("AdoptCategory", {"category_id": "nothing", "name": "two words"}, "MALFORMED_REQUEST"),
)


async def test_invalid_requests_are_rejected_with_their_reasons(scenario: Scenario, api: str) -> None:
    reasons = []
    for operation, ask, _ in REJECTED:
        given = {**TASK, **ask} if operation in ("Process", "SelfAssess") else ask
        with pytest.raises(ApiError) as raised:
            await scenario.service.api(api).ask(operation, **given)
        reasons.append((operation, ask, raised.value.reason))

    assert reasons == list(REJECTED)
    assert scenario.llm.bodies == []


async def test_two_checks_of_one_answer_are_rejected(scenario: Scenario) -> None:
    with pytest.raises(ApiError) as raised:
        await scenario.process("rest", expected=RIGHT, judge={})

    assert raised.value.reason == "MALFORMED_REQUEST"


async def test_a_first_agent_that_takes_no_part_is_rejected(scenario: Scenario) -> None:
    agents = [scenario.names[name] for name in ("alpha", "beta", "gamma")]

    with pytest.raises(ApiError) as raised:
        await scenario.process("rest", agents=agents[:2], first_agent="gamma")

    assert (raised.value.reason, raised.value.metadata) == (
        "UNKNOWN_AGENT",
        {"field": "first_agent", "agent": agents[2]},
    )
    assert raised.value.message.endswith(f"the agents of this request are {agents[0]}, {agents[1]}")
