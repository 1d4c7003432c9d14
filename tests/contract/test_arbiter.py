"""The arbiter answers alike on both APIs."""

import pytest

from tests.contract.conftest import Served
from tests.support.apis import Api, ApiError, Body

QUESTION = "What is 2 + 2?"


async def test_samples_that_exist_are_measured(arbiter: Api) -> None:
    reply = await arbiter.ask(
        "Measure", answer_type="NUMBER", solver_answers=["12", "12", "13"], arbiter_answers=["12", "12"], truth="12"
    )

    assert reply["entropy_solver"] == pytest.approx(0.6365, abs=1e-4)
    assert (reply["answer"], reply["entropy_arbiter"], reply["compression"]) == ("12", 0.0, 1.0)
    assert reply["entropy_reduction"] == pytest.approx(0.6365, abs=1e-4)
    assert reply["overconfident_error"] is False
    assert (reply["novelty"], reply["summary"]) == (None, None)


async def test_a_truth_in_another_unit_is_converted_and_an_assumed_unit_is_reported(arbiter: Api) -> None:
    converted = await arbiter.ask("Measure", answer_type="NUMBER", solver_answers=["10 km"], truth="10,000 m")
    other = await arbiter.ask("Measure", answer_type="NUMBER", solver_answers=["10 km", "10"], truth="10 miles")
    assumed = await arbiter.ask("Measure", answer_type="NUMBER", solver_answers=["10"], truth="10 miles")

    assert (converted["correct"], converted["unit_assumed"]) == (True, "")
    assert (other["answer"], other["solver"], other["correct"]) == ("10 km", {"10 km": 2}, False)
    assert (assumed["correct"], assumed["unit_assumed"]) == (True, "mi")


async def test_a_batch_has_one_reply_a_question_and_a_summary(arbiter: Api) -> None:
    batch = [
        {"id": "a", "solver_answers": ["1", "2"], "arbiter_answers": ["1"], "truth": "1"},
        {"id": "b", "solver_answers": ["1", "1"], "truth": "2"},
    ]

    reply = await arbiter.ask("Measure", batch=batch)

    assert [(one["id"], one["answer"], one["measures"]["correct"]) for one in reply["batch"]] == [
        ("a", "1", True),
        ("b", "1", False),
    ]
    assert reply["batch"][1]["measures"]["failure_regimes"] == ["HIGH_AGREEMENT", "SHARED_BIAS"]
    assert (reply["summary"]["accuracy"], reply["summary"]["overconfident_errors"]) == (0.5, 1)
    assert reply["summary"]["defined"]["compression"] == 1
    assert reply["confidence"] is None


async def test_the_events_of_an_arbitration_come_in_their_order(arbiter: Api) -> None:
    events = await arbiter.events("Arbitrate", question=QUESTION, mode="PAPER", return_samples=True)

    names = [name for name, _ in events]
    assert names[0] == "arbitration_started"
    assert sorted(names[1:6]) == [*["critique_finished"] * 2, *["samples_drawn"] * 2, "solvers_finished"]
    assert names[6:] == ["samples_drawn", "answer_settled", "arbitration_finished"]
    critique = next(data for name, data in events if name == "critique_finished")
    assert (critique["agent"], critique["text"], critique["succeeded"]) == ("default", "It holds.", True)
    arbiter_batch = events[6][1]
    assert (arbiter_batch["phase"], arbiter_batch["solver"], len(arbiter_batch["samples"])) == ("ARBITRATE", None, 50)


async def test_a_finished_arbitration_explains_itself(arbiter: Api) -> None:
    end = await arbiter.ask("Arbitrate", question=QUESTION, mode="PAPER", truth="4", run_id="run-1")

    assert (end["answer"], end["outcome"], end["answer_source"]) == ("4", "ANSWERED", "ARBITER")
    assert (end["solver"], end["solver_invalid"]) == ({"4": 6, "5": 2}, 2)
    assert (end["arbiter"], end["confidence"]) == ({"4": 40, "5": 10}, 0.8)
    assert end["measures"]["correct"] is True
    assert (end["usage"]["generations"], end["usage"]["http_calls"]) == (62, 5)
    assert (end["run_id"], end["mode"], end["variant"]) == ("run-1", "PAPER", "FULL")
    assert end["stopping_error"] is None
    assert end["samples"] == []


async def test_undefined_measures_are_null_on_rest_and_absent_on_grpc(services: dict[str, Served]) -> None:
    served, body = services["arbiter"], {"solver_answers": ["1", "1"], "arbiter_answers": ["1"]}

    document = (await served.rest.send("Measure", body)).json()
    message = (await served.rpc.messages("Measure", body))[0]

    assert document["compression"] is None
    assert not message.HasField("compression")
    assert document["undefined_reasons"]["compression"] == "the solvers' entropy is 0: there is nothing to compress"


async def test_a_recording_is_replayed_without_a_model(arbiter: Api) -> None:
    recording: Body = {
        "recorded_solver_samples": [{"solver": solver, "answer": str(4 + solver)} for solver in (0, 0, 1)],
        "recorded_arbitration_samples": [{"answer": "4"}] * 50,
    }

    reply = await arbiter.ask("Replay", id="q", solver_samples=1, **recording)

    assert (reply["id"], reply["recorded_answer"], reply["same_answer"]) == ("q", "4", True)
    assert reply["arbitration"]["stopping_reason"] == "LEADER_LIKELY"
    assert reply["recorded_generations"] == 53


@pytest.mark.parametrize(
    ("operation", "body", "code", "reason"),
    [
        ("Arbitrate", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Arbitrate", {"question": "?", "solver_temperature": 2.5}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Arbitrate", {"question": "?", "solvers": 0}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Arbitrate", {"question": "?", "solvers": 99}, "INVALID_ARGUMENT", "REQUEST_OVER_LIMIT"),
        ("Arbitrate", {"question": "?", "arbiter_agent": "zoe"}, "INVALID_ARGUMENT", "UNKNOWN_AGENT"),
        ("Arbitrate", {"question": "?", "solver_agents": ["ada"] * 3}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        (
            "Arbitrate",
            {"question": "?", "adaptive": {"stopping_probability": 0.4}},
            "INVALID_ARGUMENT",
            "MALFORMED_REQUEST",
        ),
        ("Measure", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Measure", {"truth": "1", "batch": [{"solver_answers": ["1"]}]}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Measure", {"solver_answers": ["1"] * 5000}, "INVALID_ARGUMENT", "REQUEST_OVER_LIMIT"),
        ("Replay", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        (
            "Replay",
            {"recorded_solver_samples": [{"solver": 0, "answer": "4"}], "solver_samples": 2},
            "INVALID_ARGUMENT",
            "RECORDING_TOO_SHORT",
        ),
        (
            "Replay",
            {"recorded_solver_samples": [{"solver": 0, "answer": "4"}], "arbitration_samples": 5000},
            "INVALID_ARGUMENT",
            "REQUEST_OVER_LIMIT",
        ),
    ],
)
async def test_an_error_has_one_code_and_one_reason(
    arbiter: Api, operation: str, body: Body, code: str, reason: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await arbiter.ask(operation, **body)

    assert (raised.value.code, raised.value.reason) == (code, reason)
