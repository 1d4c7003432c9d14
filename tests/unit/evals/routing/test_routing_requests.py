import re

import pytest

from evals.errors import RecordsUnusable, ServiceUnreachable
from evals.harness.manifest import require_resumable
from evals.records import Record
from evals.router_client import RequestRejected
from evals.routing.requests import FIXED, Plan, asks, heading, record_plan
from evals.routing.rows import recorded as rows
from tests.support.evaluation_records import HEADING, MemorySink, Router, an_item, answered, introduced, routed
from tests.support.evaluation_replies import RIGHT, chat, reply, run_record

TWO = (an_item(1), an_item(2))
BOTH = ("probe", "draft")


def plan(**more: object) -> Plan:
    return Plan(**{"items": TWO, "assessors": BOTH, "single_pass": 0, **more})  # type: ignore[arg-type]


async def recorded(router: Router, made: Plan, before: list[Record] | None = None) -> list[Record]:
    sink = MemorySink()
    await record_plan(router, made, before or [], sink, lambda: None)
    return sink.records


def pairs(records: list[Record]) -> list[tuple[str, str]]:
    return [(record["item"], record["asked"]) for record in records if record["kind"] == "reply"]


def test_the_first_assessor_changes_from_item_to_item() -> None:
    assert [(ask.item.id, ask.asked) for ask in asks(plan())] == [
        ("sums-1", "probe"), ("sums-1", "draft"), ("sums-2", "draft"), ("sums-2", "probe"),
    ]  # fmt: skip


def test_the_single_pass_answer_is_timed_on_the_first_items_of_each_set() -> None:
    items = (*TWO, an_item(1, "more"))

    timed = [ask.item.id for ask in asks(plan(items=items, single_pass=1)) if ask.asked == "system1"]

    assert timed == ["sums-1", "more-1"]


def test_without_drafts_every_item_needs_a_single_pass_answer() -> None:
    timed = [ask.item.id for ask in asks(plan(assessors=("probe",))) if ask.asked == "system1"]

    assert timed == ["sums-1", "sums-2"]


async def test_each_request_names_assessor_and_time() -> None:
    router = Router()

    await recorded(router, plan(items=TWO[:1], seed=11, timeout_ms=5000))

    path, body = router.asked[0]
    assert (path, body["assessor"], body["envelope"]) == ("/v1/route", "probe", {"timeout_ms": 5000})
    assert body["messages"][0]["content"].startswith("What is 1 + 1?")


async def test_the_requests_of_an_item_share_a_seed_and_each_item_has_its_own() -> None:
    router = Router()

    await recorded(router, plan(items=TWO, single_pass=2))

    seeds: dict[str, set[int]] = {}
    for _, body in router.asked:
        seeds.setdefault(body["messages"][0]["content"], set()).add(body["seed"])
    assert len(router.asked) > len(seeds) == 2
    assert [len(found) for found in seeds.values()] == [1, 1]
    assert len(set.union(*seeds.values())) == 2


async def test_an_item_is_recorded_once_and_without_its_question() -> None:
    records = await recorded(Router(), plan(items=TWO[:1], single_pass=1))

    assert [record["kind"] for record in records] == ["item", "reply", "reply", "reply"]
    assert "What is" not in str(records)


async def test_what_is_recorded_is_not_asked_for_again() -> None:
    before = [HEADING, introduced("sums-1"), routed("sums-1", "probe", {}), routed("sums-1", "draft", {}, draft="2")]

    records = await recorded(Router(), plan(), before)

    assert pairs(records) == [("sums-2", "draft"), ("sums-2", "probe")]
    assert [record["id"] for record in records if record["kind"] == "item"] == ["sums-2"]


async def test_where_a_draft_is_missing_the_single_pass_answer_is_the_fallback() -> None:
    lost = routed("", "draft", {}, reasons={"correctness": "there is no draft: DEADLINE_EXCEEDED: too late"})["reply"]

    records = await recorded(Router([lost]), plan(items=TWO[:1], assessors=("draft",)))

    assert pairs(records) == [("sums-1", "draft"), ("sums-1", "system1")]


async def test_after_a_kill_a_missing_draft_still_gets_its_fallback() -> None:
    before = [HEADING, introduced("sums-1"), routed("sums-1", "draft", {})]

    records = await recorded(Router(), plan(items=TWO[:1], assessors=("draft",)), before)

    assert pairs(records) == [("sums-1", "system1")]


async def test_a_rejected_request_is_recorded_and_the_next_one_made() -> None:
    error = RequestRejected("/v1/route", 400, {"reason": "PROMPT_TOO_LONG", "detail": "too long"})

    records = await recorded(Router([error]), plan(items=TWO[:1]))

    assert pairs(records) == [("sums-1", "probe"), ("sums-1", "draft")]
    assert records[1]["error"] == {"status": 400, "reason": "PROMPT_TOO_LONG", "detail": "too long"}


def failed(asked: str, status: int) -> Record:
    return {"kind": "reply", "item": "sums-1", "asked": asked, "elapsed_ms": 1.0, "error": {"status": status}}


async def test_a_transient_error_is_asked_again_and_an_error_of_the_request_is_final() -> None:
    before = [HEADING, introduced("sums-1"), failed("probe", 504), failed("draft", 413)]

    records = await recorded(Router(), plan(items=TWO[:1]), before)

    assert pairs(records) == [("sums-1", "probe"), ("sums-1", "system1")]
    assert rows([*before, *records]).failures == {"413": 1}


@pytest.mark.parametrize(
    ("recorded_before", "complaint"),
    [
        (
            {"prompt_digests": {"rating": "ee" * 32}},
            "probe with prompt rating eeeeeeeeeeee, and now it is cdcdcdcdcdcd",
        ),
        ({"prompt_digests": {"rating": "cd" * 32}}, ""),
        ({"prompt_digests": {}}, ""),
    ],
)
async def test_a_run_is_not_resumed_by_another_prompt(recorded_before: Record, complaint: str) -> None:
    reply = {**routed("sums-1", "probe", {"conflict": 0.1}), "item": "sums-1"}
    before = [HEADING, introduced("sums-1"), {**reply, "reply": {**reply["reply"], **recorded_before}}]
    made = plan(assessors=("probe",), items=TWO)

    if not complaint:
        assert len(await recorded(Router(), made, before)) > 1
        return
    with pytest.raises(RecordsUnusable, match=complaint):
        await recorded(Router(), made, before)


async def test_a_run_is_not_resumed_by_another_model() -> None:
    before = answered("sums-1", "2")
    other = {**before, "reply": {**before["reply"], "model": "another"}}

    with pytest.raises(RecordsUnusable, match="system1 by model another, and now it is scripted; take another --out"):
        await recorded(Router(), plan(assessors=("probe",)), [HEADING, introduced("sums-1"), other])


async def test_a_router_without_its_model_is_no_measurement() -> None:
    away = routed("", "probe", {}, reasons={"correctness": "BACKEND_UNAVAILABLE: cannot be reached"})["reply"]
    sink = MemorySink()

    with pytest.raises(ServiceUnreachable, match="BACKEND_UNAVAILABLE"):
        await record_plan(Router([away]), plan(), [], sink, lambda: None)

    assert sink.records == []


async def test_several_at_a_time_ask_for_each_thing_once() -> None:
    router = Router()

    records = await recorded(router, plan(concurrency=3, single_pass=2))

    assert sorted(pairs(records)) == sorted({(item.id, name) for item in TWO for name in (*BOTH, "system1")})
    assert len(router.asked) == 6


async def test_the_heading_holds_what_the_run_is_made_with() -> None:
    made = await heading(Router(), plan(), {"commit": "0123", "sets": ["sums"]})

    assert (made["kind"], made["commit"], made["config_version"], made["threshold"]) == ("run", "0123", "paper", 0.45)
    assert len(made["prompt_digests"]["question"]) == 64


@pytest.mark.parametrize(("name", "other"), [("seed", 8), ("config_version", "tuned"), ("prompt_digests", {})])
def test_records_made_differently_are_not_resumed(name: str, other: object) -> None:
    with pytest.raises(RecordsUnusable, match=f"made with {name} .*take another --out"):
        require_resumable({**HEADING, name: other}, [HEADING], FIXED)


@pytest.mark.parametrize("command", ["compare", "routing --outcomes"])
def test_records_of_another_evaluation_are_not_resumed(command: str) -> None:
    with pytest.raises(RecordsUnusable, match=f"made with command {command}, this run has routing; take another --out"):
        require_resumable(HEADING, [run_record(command)], FIXED)


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([], "they have no heading"),
        (
            [run_record("compare"), introduced("sums-1"), reply("sums-1", "system1", chat(RIGHT))],
            "but those of `metacog eval compare`; its report: `metacog eval compare --report-only RECORDS`",
        ),
        (
            [run_record("routing --outcomes"), introduced("sums-1")],
            "its report: `metacog eval routing --outcomes FILE --report-only RECORDS`",
        ),
    ],
)
def test_records_of_another_evaluation_are_named_with_what_reports_on_them(
    records: list[Record], complaint: str
) -> None:
    with pytest.raises(RecordsUnusable, match=re.escape(complaint)):
        rows(records)


def test_more_items_of_the_same_kind_may_join() -> None:
    require_resumable(
        {**HEADING, "items": 80, "sets": ["sums", "more"], "commit": "fedc"}, [HEADING, answered("sums-1", "2")], FIXED
    )
