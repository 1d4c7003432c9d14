"""What is wrong with a field is said alike on both APIs, in our own words."""

from typing import Any

import pytest

from tests.contract.conftest import Served
from tests.support.apis import ApiError

# Words of the library that checks types.
FOREIGN = (
    "Input should",
    "String should",
    "Field required",
    "Unexpected keyword",
    "Value error",
    "valid ",
    "instance of",
)

ENVELOPE = "timeout_ms is 0; it must lie in [1, 2147483647]"
COST = "max_cost is 0.0; it must be above 0 and at most 1e+09"
CEILING = "max_generations is 5000; a request may have at most 4096 here (METACOG_CEILING_GENERATIONS)"


async def violations(served: Served, api: str, operation: str, body: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ApiError) as raised:
        await served.api(api).ask(operation, **body)
    assert raised.value.code == "INVALID_ARGUMENT"
    return dict(raised.value.violations)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"question": "?", "max_tokens": 0}, {"max_tokens": "give a number of at least 1"}),
        ({"question": "?", "temperature": 2.5}, {"temperature": "give a number of at most 2"}),
        ({"question": "?", "request_id": "a b"}, {"request_id": "give a text that matches ^[!-~]*$"}),
        ({"question": "?", "request_id": "a" * 129}, {"request_id": "give a text of at most 128 characters"}),
        ({"question": "?", "stop": [""]}, {"stop.0": "give a text of at least 1 characters"}),
        ({"question": "?", "stop": list("abcde")}, {"stop": "give at most 4 entries"}),
        ({"question": "?", "strategy": "vote", "vote": {"most": 65}}, {"vote.most": "give a number of at most 64"}),
        ({"question": "?", "envelope": {"timeout_ms": 0}}, {"envelope.timeout_ms": ENVELOPE}),
        (
            {"question": "?", "envelope": {"max_cost": 0}, "msv": {"conflict": 1.2}},
            {"msv.conflict": "conflict is 1.2; it must lie in [0, 1]", "envelope.max_cost": COST},
        ),
        ({"question": "?", "envelope": {"max_generations": 5000}}, {"envelope.max_generations": CEILING}),
        ({"question": "?", "msv": {"conflict": 1.2}}, {"msv.conflict": "conflict is 1.2; it must lie in [0, 1]"}),
        (
            {"question": "?", "max_tokens": 0, "seed": -1},
            {"max_tokens": "give a number of at least 1", "seed": "give a number of at least 0"},
        ),
        ({}, {"question": "give either question or messages"}),
    ],
)
async def test_a_violation_names_the_field_and_what_to_do(
    services: dict[str, Served], api: str, body: dict[str, Any], wrong: dict[str, str]
) -> None:
    assert await violations(services["router"], api, "Answer", body) == wrong


async def test_a_violation_in_a_list_names_its_place(services: dict[str, Served], api: str) -> None:
    agents = [{"id": "a", "msv": {}}, {"id": "b", "msv": {"correctness": 2}}]

    wrong = await violations(services["assigner"], api, "Assign", {"agents": agents})

    assert wrong == {"agents.1.msv.correctness": "correctness is 2.0; it must lie in [0, 1]"}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"question": 7}, {"question": "give a text"}),
        ({"question": "?", "seed": "x"}, {"seed": "give a whole number"}),
        ({"question": "?", "seed": 1.5}, {"seed": "give a whole number"}),
        ({"question": "?", "fallback": "perhaps"}, {"fallback": "give true or false"}),
        ({"question": "?", "stop": "end"}, {"stop": "give a list"}),
        ({"question": "?", "msv": 1}, {"msv": "give an object"}),
        ({"question": "?", "colour": "red"}, {"colour": "there is no such field"}),
        ({"task": "?"}, {"task": "it is called `question` now"}),
        ({"question": "?", "messages": [{"role": "user"}]}, {"messages.0.content": "it is missing, and must be given"}),
        (
            {"question": "?", "assignment_kind": "BEST"},
            {"assignment_kind": "give 'OPTIMAL', 'GREEDY', 'RANDOM' or 'FIXED'"},
        ),
    ],
)
async def test_what_only_json_can_get_wrong_is_said_in_plain_words(
    services: dict[str, Served], body: dict[str, Any], wrong: dict[str, str]
) -> None:
    assert await violations(services["router"], "rest", "Answer", body) == wrong


@pytest.mark.parametrize(
    ("service", "operation"),
    [("router", "Answer"), ("assigner", "Assign"), ("arbiter", "Arbitrate"), ("delegation", "Process")],
)
async def test_no_service_uses_the_words_of_its_library(
    services: dict[str, Served], service: str, operation: str
) -> None:
    body = {"question": 1, "messages": 2, "envelope": 3, "seed": "x", "agents": 4, "colour": 5, "answer_type": "POEM"}

    wrong = await violations(services[service], "rest", operation, body)

    assert len(wrong) >= 3
    assert not [text for text in wrong.values() if any(word in text for word in FOREIGN)]
