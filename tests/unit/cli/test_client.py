"""A service as the commands see it: replies, streams, and everything that can go wrong with them."""

import pytest
from metacog.router.v1.router_pb2 import AnswerResponse, GetRunResponse, ListRunsResponse, Run

from cli.terminal.client import Service, ServiceError, Unreachable, address
from cli.terminal.exits import FAILED, FORBIDDEN, UNREACHABLE, USAGE, UnusableInput, exit_status
from kernel.errors import Code
from tests.support.models.scripted_service import ScriptedService
from tests.support.stack import NO_SERVER

PROBLEM = {"reason": "RUN_NOT_FOUND", "detail": "there is no run 'x'", "status": 404, "code": "NOT_FOUND"}


def test_empty_query_parameters_are_not_sent(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={"runs": []})

    Service("router", service.url).get("/v1/runs", ListRunsResponse, judged=False, strategy="", since=None, page_size=3)

    assert service.asked[0].query == "judged=false&page_size=3"


def test_pages_are_requested_to_the_last_and_only_as_they_are_needed(service: ScriptedService) -> None:
    sent = [{"run_id": "a", "later": 1}, {"run_id": "b"}, {"run_id": "c"}]
    service.reply("GET /v1/runs", json={"runs": sent[:2], "next_page_token": "more"})
    service.reply("GET /v1/runs", json={"runs": sent[2:], "next_page_token": ""})

    found = list(Service("router", service.url).pages("/v1/runs", "runs", Run, page_size=2))

    assert [run.message.run_id for run in found] == ["a", "b", "c"]
    assert [run.document for run in found] == sent
    assert [request.query for request in service.asked] == ["page_size=2", "page_size=2&page_token=more"]


def test_events_have_their_name_and_comments_are_skipped(service: ScriptedService) -> None:
    later = ("run_postponed", {"until": "tomorrow"})
    service.stream("POST /v1/answers", ("run_started", {"run_id": "r"}), later, ("answer_token", {"text": "é\n"}))

    events = list(Service("router", service.url).stream("/v1/answers", {"question": "Why?"}, AnswerResponse))

    assert [event.message.WhichOneof("event") for event in events] == ["run_started", "answer_token"]
    assert (events[0].message.run_started.run_id, events[1].message.answer_token.text) == ("r", "é\n")
    assert events[1].document == {"text": "é\n"}
    assert service.asked[0].headers["accept"] == "text/event-stream"


def test_an_error_within_a_stream_ends_it_with_its_reason(service: ScriptedService) -> None:
    problem = {"reason": "BACKEND_UNAVAILABLE", "detail": "it is gone", "status": 503}
    service.stream("POST /v1/answers", ("run_started", {"run_id": "r"}), ("error", problem))
    events = Service("router", service.url).stream("/v1/answers", {}, AnswerResponse)

    assert next(events).message.HasField("run_started")
    with pytest.raises(ServiceError, match="router: BACKEND_UNAVAILABLE: it is gone") as rejected:
        next(events)
    assert exit_status(rejected.value) == UNREACHABLE


@pytest.mark.parametrize(
    ("status", "expected"), [(400, FAILED), (401, FORBIDDEN), (403, FORBIDDEN), (404, FAILED), (429, FAILED)]
)
def test_the_exit_status_follows_from_the_error(service: ScriptedService, status: int, expected: int) -> None:
    service.reply("GET /v1/runs/x", json=PROBLEM, status=status)

    with pytest.raises(ServiceError) as rejected:
        Service("router", service.url).get("/v1/runs/x", GetRunResponse)

    assert exit_status(rejected.value) == expected


def test_the_error_for_a_missing_key_names_its_setting(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={**PROBLEM, "reason": "UNAUTHENTICATED"}, status=401)

    with pytest.raises(ServiceError, match="METACOG_API_KEY"):
        Service("router", service.url).get("/v1/runs", ListRunsResponse)


def test_the_error_for_a_foreign_server_suggests_a_wrong_address(service: ScriptedService) -> None:
    with pytest.raises(ServiceError, match="is the address right"):
        Service("router", service.url).get("/v1/nothing", ListRunsResponse)


@pytest.mark.parametrize("reply", [[], "runs", {"runs": [{"run_id": 7}]}, {"runs": [{"created_at": "someday"}]}])
def test_the_error_for_a_reply_that_is_none_of_the_contract_suggests_a_wrong_address(
    service: ScriptedService, reply: object
) -> None:
    service.always("GET /v1/runs", json=reply)
    router = Service("router", service.url)

    with pytest.raises(Unreachable, match=r"does not answer as metacog does: .*\nis the address right"):
        router.get("/v1/runs", ListRunsResponse)
    with pytest.raises(Unreachable, match="does not answer as metacog does"):
        list(router.pages("/v1/runs", "runs", Run, page_size=2))


def test_a_key_is_not_sent_to_another_address(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={}, status=307, location=f"{service.url}/elsewhere")

    with pytest.raises(ServiceError):
        Service("router", service.url, key="mc-secret").get("/v1/runs", ListRunsResponse)

    assert [request.line for request in service.asked] == ["GET /v1/runs"]


def test_the_error_for_an_unreachable_service_describes_what_to_do() -> None:
    with pytest.raises(Unreachable, match=r"(?s)cannot be reached.*metacog up.*--arbiter") as away:
        Service("arbiter", f"http://{NO_SERVER}").get_document("/readyz")

    assert (away.value.code, exit_status(away.value)) == (Code.UNAVAILABLE, UNREACHABLE)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://"])
def test_an_invalid_url_raises_an_error_before_a_request_is_sent(url: str) -> None:
    with pytest.raises(UnusableInput, match="is not a URL") as raised:
        Service("router", url)

    assert exit_status(raised.value) == USAGE


def test_an_option_overrides_the_variable_and_the_variable_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = address("assigner")
    monkeypatch.setenv("METACOG_ASSIGNER_REST_PORT", "9001")
    by_port = address("assigner")
    monkeypatch.setenv("METACOG_ASSIGNER_URL", "https://suite.example/")

    assert (usual, by_port) == ("http://127.0.0.1:8081", "http://127.0.0.1:9001")
    assert Service("assigner").url == "https://suite.example"
    assert Service("assigner", "http://given:1").url == "http://given:1"
