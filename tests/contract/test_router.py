"""The router answers alike on both APIs."""

import pytest
from metacog.router.v1 import router_pb2 as pb

from tests.contract.conftest import Served
from tests.support.apis import Api, ApiError

TROUBLED = {"correctness": 0.45, "experience": 1.0, "conflict": 0.72, "importance": 0.85}


async def test_the_example_of_the_design_comes_out_exactly(router: Api) -> None:
    reply = await router.ask("Route", msv=TROUBLED)

    assert (reply["system"], reply["strategy"], reply["reason"]) == ("SYSTEM_TWO", "dialectic", "activation")
    activation = reply["activation"]
    assert (activation["value"], activation["threshold"], activation["unknown"]) == (0.5575, 0.45, [])
    assert activation["terms"] == {"correctness": 0.165, "conflict": 0.18, "importance": 0.2125, "experience": 0.0}


async def test_a_calm_state_goes_to_system_one(router: Api) -> None:
    reply = await router.ask("Route", msv={"correctness": 0.92, "conflict": 0.12, "importance": 0.5, "experience": 0.5})

    assert (reply["system"], reply["strategy"]) == ("SYSTEM_ONE", "system1")


async def test_a_missing_component_is_never_taken_for_zero(router: Api) -> None:
    reply = await router.ask("Route", msv={**TROUBLED, "conflict": None})

    assert reply["activation"]["unknown"] == ["conflict"]
    assert "conflict" not in reply["activation"]["terms"]
    assert reply["activation"]["value"] == pytest.approx((0.165 + 0.2125) / 0.75)


async def test_of_too_little_nothing_is_made_up(router: Api) -> None:
    reply = await router.ask("Route", msv={"importance": 0.1})

    assert (reply["system"], reply["reason"]) == ("SYSTEM_TWO", "undetermined")
    assert reply["activation"]["value"] is None
    assert reply["msv"]["correctness"] is None


async def test_an_undefined_number_is_null_on_rest_and_absent_on_grpc(services: dict[str, Served]) -> None:
    served = services["router"]

    document = (await served.rest.send("Route", {"msv": {"importance": 0.1}})).json()
    message = (await served.rpc.messages("Route", {"msv": {"importance": 0.1}}))[0]

    assert "value" in document["activation"]
    assert document["activation"]["value"] is None
    assert isinstance(message, pb.RouteResponse)
    assert not message.activation.HasField("value")
    assert not message.msv.HasField("correctness")
    assert message.msv.importance == 0.1


async def test_a_query_is_assessed_first(router: Api) -> None:
    reply = await router.ask("Route", question="a calm question")

    assert (reply["system"], reply["assessor"], reply["msv"]["correctness"]) == ("SYSTEM_ONE", "fake", 0.9)
    assert reply["usage"]["stages"]["assess"]["completion_tokens"] == 7


async def test_a_named_strategy_needs_no_state(router: Api) -> None:
    reply = await router.ask("Route", strategy="arbiter", question="a calm question")

    assert (reply["system"], reply["strategy"], reply["reason"]) == ("SYSTEM_TWO", "arbiter", "requested")
    assert (reply["activation"], reply["msv"]) == (None, None)


async def test_an_assessment_gives_the_reason_of_what_is_unknown(router: Api) -> None:
    reply = await router.ask("Assess", messages=[{"role": "user", "content": "stormy"}])

    assert (reply["msv"]["correctness"], reply["msv"]["conflict"]) == (0.5, None)
    assert reply["msv"]["unknown_reasons"]["conflict"] == "nobody asked"
    assert (reply["assessor"], reply["usage"]["generations"]) == ("fake", 1)


async def test_the_events_of_an_answer_come_in_their_order(router: Api) -> None:
    events = await router.events("Answer", question="a calm question")

    names = [name for name, _ in events]
    assert names == ["run_started", "routed", *["answer_token"] * 3, "run_finished"]
    assert "".join(data["text"] for name, data in events if name == "answer_token") == "it is 4"
    assert events[0][1]["run_id"] == events[-1][1]["run"]["run_id"]


async def test_a_strategys_own_events_are_relayed(router: Api) -> None:
    events = await router.events("Answer", question="stormy")

    names = [name for name, _ in events]
    assert names == ["run_started", "routed", "stage_started", "stage_token", "answer_token", "run_finished"]
    assert events[2][1]["stage"] == "SYNTHESIS"


async def test_an_answer_names_everything_that_explains_it(router: Api) -> None:
    run = (await router.ask("Answer", question="a calm question", envelope={"timeout_ms": 900}))["run"]

    assert (run["answer"], run["outcome"], run["strategy"], run["model"]) == ("it is 4", "ANSWERED", "system1", "fake")
    assert (run["confidence"], run["confidence_source"]) == (0.75, "assessment")
    limits = {"max_generations": 32, "max_generated_tokens": 8192, "timeout_ms": 900, "max_cost": None}
    assert run["envelope"] == limits
    assert {stage: spent["completion_tokens"] for stage, spent in run["usage"]["stages"].items()} == {
        "assess": 7,
        "system1": 3,
    }
    assert run["usage"]["completion_tokens"] == 10


async def test_abstention_is_an_outcome_and_not_an_error(router: Api) -> None:
    run = (await router.ask("Answer", question="stormy"))["run"]

    assert (run["outcome"], run["answer"], run["confidence"]) == ("ABSTAINED", "", None)


async def test_a_run_is_read_back_as_it_was_answered(router: Api) -> None:
    answered = (await router.ask("Answer", question="a calm question"))["run"]

    kept = (await router.ask("GetRun", run_id=answered["run_id"]))["run"]

    assert kept == answered


async def test_both_apis_return_a_run_alike(services: dict[str, Served]) -> None:
    served = services["router"]
    run_id = (await served.rest.ask("Answer", question="stormy"))["run"]["run_id"]

    by_rest = (await served.rest.ask("GetRun", run_id=run_id))["run"]
    by_rpc = (await served.rpc.ask("GetRun", run_id=run_id))["run"]

    assert by_rest.pop("created_at").replace("Z", "+00:00") == by_rpc.pop("created_at")
    assert _without_none(by_rest) == _without_none(by_rpc)


async def test_runs_are_listed_in_pages(router: Api) -> None:
    latest = [(await router.ask("Answer", question="a calm question"))["run"]["run_id"] for _ in range(3)]
    await router.ask("GetRun", run_id=latest[-1])  # which waits until it is recorded

    page = await router.ask("ListRuns", page_size=2, strategy="system1")

    assert [run["run_id"] for run in page["runs"]] == [latest[2], latest[1]]
    assert page["next_page_token"] == latest[1]


async def test_a_request_made_twice_is_answered_once(router: Api, api: str) -> None:
    first = (await router.ask("Answer", question="a calm question", request_id=f"twice-{api}"))["run"]

    again = await router.events("Answer", question="a calm question", request_id=f"twice-{api}")

    assert [name for name, _ in again] == ["run_started", "routed", "answer_token", "run_finished"]
    assert again[-1][1]["run"]["run_id"] == first["run_id"]


@pytest.mark.parametrize(
    ("operation", "body", "code", "reason"),
    [
        ("Route", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Route", {"msv": {"conflict": 1.2}}, "INVALID_ARGUMENT", "MSV_OUT_OF_RANGE"),
        ("Route", {"question": "?", "strategy": "debate"}, "INVALID_ARGUMENT", "UNKNOWN_STRATEGY"),
        ("Assess", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Assess", {"question": "?", "envelope": {"timeout_ms": 0}}, "INVALID_ARGUMENT", "INVALID_ENVELOPE"),
        ("Answer", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Answer", {"question": "?", "strategy": "debate"}, "INVALID_ARGUMENT", "UNKNOWN_STRATEGY"),
        ("GetRun", {"run_id": "no-such-run"}, "NOT_FOUND", "RUN_NOT_FOUND"),
        ("SubmitFeedback", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("SubmitFeedback", {"feedback_id": "f", "run_id": "r"}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("SubmitFeedback", {"feedback_id": "f", "run_id": "r", "score": 1.5}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("SubmitFeedback", {"feedback_id": "f", "run_id": "", "score": 1}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("SubmitFeedback", {"feedback_id": "a b", "run_id": "r", "score": 1}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("SubmitFeedback", {"feedback_id": "f", "run_id": "nobody", "correct": True}, "NOT_FOUND", "RUN_NOT_FOUND"),
    ],
)
async def test_an_error_has_one_code_and_one_reason(
    router: Api, operation: str, body: dict[str, object], code: str, reason: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask(operation, **body)

    assert (raised.value.code, raised.value.reason) == (code, reason)


async def test_feedback_reports_its_effects(router: Api, api: str) -> None:
    run_id = (await router.ask("Answer", question="a calm question"))["run"]["run_id"]

    reply = await router.ask("SubmitFeedback", feedback_id=f"does-{api}", run_id=run_id, score=0.75, note="nearly")

    assert reply == {
        "feedback_id": f"does-{api}",
        "run_id": run_id,
        "teaches": True,
        "calibrates": True,
        "becomes_experience": True,
        "delegation_tasks": 0,
    }


async def test_the_same_feedback_counts_once_and_gets_the_same_answer(router: Api, api: str) -> None:
    run_id = (await router.ask("Answer", question="a calm question"))["run"]["run_id"]
    label = {"feedback_id": f"once-{api}", "run_id": run_id, "correct": False}

    first = await router.ask("SubmitFeedback", **label)
    again = await router.ask("SubmitFeedback", **label)

    assert again == first
    assert (first["calibrates"], first["becomes_experience"]) == (True, False)


async def test_another_label_of_the_same_name_is_rejected(router: Api, api: str) -> None:
    run_id = (await router.ask("Answer", question="a calm question"))["run"]["run_id"]
    await router.ask("SubmitFeedback", feedback_id=f"reused-{api}", run_id=run_id, correct=True)

    with pytest.raises(ApiError) as raised:
        await router.ask("SubmitFeedback", feedback_id=f"reused-{api}", run_id=run_id, correct=True, note="yes")

    assert (raised.value.code, raised.value.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_a_different_label_is_rejected_and_an_agreeing_one_teaches_no_more(router: Api, api: str) -> None:
    run_id = (await router.ask("Answer", question="a calm question"))["run"]["run_id"]
    await router.ask("SubmitFeedback", feedback_id=f"first-{api}", run_id=run_id, correct=True)

    agreeing = await router.ask("SubmitFeedback", feedback_id=f"second-{api}", run_id=run_id, score=0.5)
    with pytest.raises(ApiError) as raised:
        await router.ask("SubmitFeedback", feedback_id=f"third-{api}", run_id=run_id, correct=False)

    assert (agreeing["teaches"], agreeing["calibrates"], agreeing["becomes_experience"]) == (True, False, False)
    assert (raised.value.code, raised.value.reason) == ("ALREADY_EXISTS", "FEEDBACK_CONFLICT")


async def test_an_error_describes_what_was_wrong_in_words_and_in_metadata(router: Api) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask("Route", msv={"conflict": 1.2})

    assert raised.value.metadata == {"component": "conflict", "value": "1.2"}
    assert raised.value.message == "conflict is 1.2; it must lie in [0, 1]"


async def test_the_same_request_identifier_for_another_question_is_rejected(router: Api, api: str) -> None:
    await router.ask("Answer", question="a calm question", request_id=f"other-{api}")

    with pytest.raises(ApiError) as raised:
        await router.ask("Answer", question="another calm question", request_id=f"other-{api}")

    assert (raised.value.code, raised.value.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


def _without_none(item: object) -> object:
    if isinstance(item, dict):
        return {key: _without_none(part) for key, part in item.items() if part is not None}
    return [_without_none(part) for part in item] if isinstance(item, list) else item
