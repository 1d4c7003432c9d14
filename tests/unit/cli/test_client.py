"""A service as the commands see it: replies, streams, and everything that can go wrong with them."""

import pytest

from cli.terminal.client import Refused, Service, Unreachable, address
from cli.terminal.exits import AWAY, FORBIDDEN, REFUSED, USAGE, UnusableInput, status_of
from kernel.errors import Code
from tests.support.scripted_service import ScriptedService
from tests.support.stack import NOBODY

PROBLEM = {"reason": "RUN_NOT_FOUND", "detail": "there is no run 'x'", "status": 404, "code": "NOT_FOUND"}


def test_parts_of_a_query_that_nobody_gave_are_not_sent(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={"runs": []})

    Service("router", service.url).get("/v1/runs", judged=False, strategy="", since=None, page_size=3)

    assert service.asked[0].query == "judged=false&page_size=3"


def test_pages_are_followed_to_the_last_and_no_further_than_they_are_taken(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={"runs": [1, 2], "next_page_token": "more"})
    service.reply("GET /v1/runs", json={"runs": [3], "next_page_token": ""})

    assert list(Service("router", service.url).pages("/v1/runs", "runs", page_size=2)) == [1, 2, 3]
    assert [request.query for request in service.asked] == ["page_size=2", "page_size=2&page_token=more"]


def test_events_come_by_name_and_comments_are_passed_over(service: ScriptedService) -> None:
    service.stream("POST /v1/answers", ("run_started", {"run_id": "r"}), ("answer_token", {"text": "é\n"}))

    events = list(Service("router", service.url).stream("/v1/answers", {"question": "Why?"}))

    assert events == [("run_started", {"run_id": "r"}), ("answer_token", {"text": "é\n"})]
    assert service.asked[0].headers["accept"] == "text/event-stream"


def test_a_refusal_midway_ends_the_stream_with_its_reason(service: ScriptedService) -> None:
    problem = {"reason": "BACKEND_UNAVAILABLE", "detail": "it is gone", "status": 503}
    service.stream("POST /v1/answers", ("run_started", {"run_id": "r"}), ("error", problem))
    events = Service("router", service.url).stream("/v1/answers", {})

    assert next(events)[0] == "run_started"
    with pytest.raises(Refused, match="router: BACKEND_UNAVAILABLE: it is gone") as refused:
        next(events)
    assert status_of(refused.value) == AWAY


@pytest.mark.parametrize(
    ("status", "exit_status"), [(400, REFUSED), (401, FORBIDDEN), (403, FORBIDDEN), (404, REFUSED), (429, REFUSED)]
)
def test_the_exit_status_follows_from_the_refusal(service: ScriptedService, status: int, exit_status: int) -> None:
    service.reply("GET /v1/runs/x", json=PROBLEM, status=status)

    with pytest.raises(Refused) as refused:
        Service("router", service.url).get("/v1/runs/x")

    assert status_of(refused.value) == exit_status


def test_a_missing_key_is_told_with_where_to_put_it(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={**PROBLEM, "reason": "UNAUTHENTICATED"}, status=401)

    with pytest.raises(Refused, match="METACOG_API_KEY"):
        Service("router", service.url).get("/v1/runs")


def test_what_is_not_metacog_is_told_to_be_another_address(service: ScriptedService) -> None:
    with pytest.raises(Refused, match="is the address right"):
        Service("router", service.url).get("/v1/nothing")


def test_a_key_is_not_carried_to_another_place(service: ScriptedService) -> None:
    service.reply("GET /v1/runs", json={}, status=307, location=f"{service.url}/elsewhere")

    with pytest.raises(Refused):
        Service("router", service.url, key="mc-secret").get("/v1/runs")

    assert [request.line for request in service.asked] == ["GET /v1/runs"]


def test_a_service_that_is_away_is_told_with_what_to_do() -> None:
    with pytest.raises(Unreachable, match=r"(?s)cannot be reached.*metacog up.*--arbiter") as away:
        Service("arbiter", f"http://{NOBODY}").get("/readyz")

    assert (away.value.code, status_of(away.value)) == (Code.UNAVAILABLE, AWAY)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://"])
def test_what_is_no_address_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(UnusableInput, match="is no address") as wrong:
        Service("router", url)

    assert status_of(wrong.value) == USAGE


def test_the_address_is_what_is_set_nearest_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = address("assigner")
    monkeypatch.setenv("METACOG_ASSIGNER_REST_PORT", "9001")
    by_port = address("assigner")
    monkeypatch.setenv("METACOG_ASSIGNER_URL", "https://suite.example/")

    assert (usual, by_port) == ("http://127.0.0.1:8081", "http://127.0.0.1:9001")
    assert Service("assigner").url == "https://suite.example"
    assert Service("assigner", "http://given:1").url == "http://given:1"
