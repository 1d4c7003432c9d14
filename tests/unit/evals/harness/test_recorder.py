from typing import cast

import pytest

from evals.errors import RecordsUnusable, ServiceUnreachable
from evals.harness.arms import Arm, Plan
from evals.harness.failures import key_of
from evals.harness.heading_text import opening as head_of_report
from evals.harness.heading_text import spent_text
from evals.harness.manifest import heading, require_resumable
from evals.harness.plan_recorder import PlanContext, record_plan
from evals.harness.provenance import Provenance, recorded_provenance
from evals.harness.rows import recorded_evaluation as rows
from evals.records import Record
from evals.router_client import RequestRejected
from evals.strategies import named
from evals.suite import RoutingFacts, SuiteClient, routing_facts
from tests.support.evaluation_records import HEADING, MemorySink, an_item, introduced
from tests.support.evaluation_replies import RIGHT, ScriptedSuite, arbitration, chat, decision, reply, run_record, spent

ITEMS = (an_item(1), an_item(2))
REPLIES = {
    "/v1/chat/completions": chat(RIGHT, usage=spent(9)),
    "/v1/arbitrations": arbitration("4"),
    "/v1/route": decision(0.6),
}
ARMS = (named("system1"), named("dialectic"), named("self-consistency", like="dialectic"))


def plan(**more: object) -> Plan:
    return Plan(**{"items": ITEMS, "arms": ARMS, **more})  # type: ignore[arg-type]


async def recorded_evaluation(suite: ScriptedSuite, made: Plan, before: list[Record] | None = None) -> list[Record]:
    sink = MemorySink()
    await record_plan(made, PlanContext(suite=suite, sink=sink), before or [], lambda: None)
    return sink.records


def keys(records: list[Record]) -> list[tuple[str, str, int]]:
    return [key_of(record) for record in records if record["kind"] == "reply"]


async def test_every_arm_answers_every_item_with_every_seed_once() -> None:
    suite = ScriptedSuite(REPLIES)

    records = await recorded_evaluation(suite, plan(seeds=(1, 2), concurrency=3))

    assert len(set(keys(records))) == len(keys(records)) == len(suite.asked) == 2 * 3 * 2
    assert sorted(record["id"] for record in records if record["kind"] == "item") == ["sums-1", "sums-2"]


async def test_what_is_recorded_is_not_asked_for_again() -> None:
    whole = await recorded_evaluation(ScriptedSuite(REPLIES), plan())
    suite = ScriptedSuite(REPLIES)

    rest = await recorded_evaluation(suite, plan(), whole[:4])

    assert keys(whole[:4]) + keys(rest) == keys(whole)
    assert len(suite.asked) == len(keys(rest)) == 3


async def test_a_control_gets_as_many_generations_as_what_it_controls() -> None:
    suite = ScriptedSuite(REPLIES)

    await recorded_evaluation(suite, plan(items=ITEMS[:1]))

    [asked] = [body for _, path, body in suite.asked if path == "/v1/arbitrations"]
    assert (asked["variant"], asked["self_consistency_samples"]) == ("SELF_CONSISTENCY", 9)


async def test_after_a_kill_a_control_still_knows_what_was_spent() -> None:
    whole = await recorded_evaluation(ScriptedSuite(REPLIES), plan(items=ITEMS[:1]))
    suite = ScriptedSuite(REPLIES)

    await recorded_evaluation(suite, plan(items=ITEMS[:1]), whole[:-1])

    [(_, _, asked)] = suite.asked
    assert asked["self_consistency_samples"] == 9


async def test_a_control_of_a_failed_arm_is_not_asked_for() -> None:
    rejecting = {
        **REPLIES,
        "/v1/chat/completions": rejection(400, "PROMPT_TOO_LONG"),
    }

    records = await recorded_evaluation(ScriptedSuite(rejecting), plan(items=ITEMS[:1]))

    assert [key[1] for key in keys(records)] == ["system1", "dialectic"]
    assert records[1]["error"] == {"status": 400, "reason": "PROMPT_TOO_LONG"}


def rejection(status: int, reason: str) -> RequestRejected:
    return RequestRejected("/v1/chat/completions", status, {"reason": reason})


def failed(arm: str, status: int) -> Record:
    asked = {"item": "sums-1", "arm": arm, "seed": 7, "path": "/v1/chat/completions"}
    return {"kind": "reply", **asked, "elapsed_ms": 1.0, "error": {"status": status, "reason": f"R{status}"}}


async def test_a_reply_of_which_a_part_failed_is_recorded_and_asked_for_again_at_the_next_start() -> None:
    def is_whole(said: Record) -> bool:
        return not said["metacog"]["degraded"]

    asked = plan(items=ITEMS[:1], arms=[Arm(name="system1", call=named("system1").call, is_whole=is_whole)])
    degraded = chat(RIGHT)
    degraded["metacog"]["degraded"] = True

    broken = await recorded_evaluation(ScriptedSuite({"/v1/chat/completions": degraded}), asked)
    again = await recorded_evaluation(ScriptedSuite(REPLIES), asked, broken)
    never = await recorded_evaluation(ScriptedSuite(REPLIES), asked, [*broken, *again])

    assert [len(keys(each)) for each in (broken, again, never)] == [1, 1, 0]
    # What came last is what the report is on.
    [row] = rows([run_record("compare"), *broken, *again], "compare").rows
    assert is_whole(row.reply)


async def test_a_transient_error_is_asked_again_and_an_error_of_the_request_is_final() -> None:
    before = [*items_of(1), failed("system1", 504), failed("dialectic", 413)]

    records = await recorded_evaluation(ScriptedSuite(REPLIES), plan(items=ITEMS[:1]), before)

    assert keys(records) == [("sums-1", "system1", 7)]
    made = rows([run_record("compare"), *before, *records], "compare")
    assert made.failures == {("dialectic", "R413"): 1}
    assert [(row.arm, row.right, row.said.text) for row in made.failed] == [("dialectic", False, "")]
    assert made.failed_of("system1") == []


async def test_an_error_in_records_of_an_earlier_version_counts_as_one() -> None:
    def as_before(record: Record) -> Record:
        return {{"error": "refusal"}.get(name, name): fact for name, fact in record.items()}

    before = [*items_of(1), as_before(failed("system1", 504)), as_before(failed("dialectic", 413))]

    records = await recorded_evaluation(ScriptedSuite(REPLIES), plan(items=ITEMS[:1]), before)

    assert keys(records) == [("sums-1", "system1", 7)]
    made = rows([run_record("compare"), *before, *records], "compare")
    assert made.failures == {("dialectic", "R413"): 1}
    assert [(row.arm, row.right) for row in made.failed] == [("dialectic", False)]


async def test_a_failure_inside_a_service_is_recorded_and_the_run_goes_on() -> None:
    failing = {**REPLIES, "/v1/chat/completions": rejection(500, "INTERNAL")}

    records = await recorded_evaluation(ScriptedSuite(failing), plan(arms=ARMS[:1]))
    again = await recorded_evaluation(ScriptedSuite(REPLIES), plan(arms=ARMS[:1]), records)

    assert [one["error"]["status"] for one in records if one["kind"] == "reply"] == [500, 500]
    assert keys(again) == keys(records) == [("sums-1", "system1", 7), ("sums-2", "system1", 7)]


DIFFERENT = chat("Final Answer: 5")


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ([reply("sums-1", "system1", chat(RIGHT)), reply("sums-1", "system1", DIFFERENT)], "Final Answer: 5"),
        ([reply("sums-1", "system1", DIFFERENT), failed("system1", 400)], "Final Answer: 5"),
        ([failed("system1", 400), reply("sums-1", "system1", chat(RIGHT))], RIGHT),
    ],
)
async def test_of_two_replies_to_one_request_the_last_answer_counts(replies: list[Record], text: str) -> None:
    before = [*items_of(1), *replies]

    made = rows([run_record("compare"), *before], "compare")

    assert [row.said.text for row in made.rows] == [text]
    assert (made.failures, made.failed) == ({}, [])
    assert await recorded_evaluation(ScriptedSuite({}), plan(arms=ARMS[:1], items=ITEMS[:1]), before) == []


async def test_a_final_error_counts_over_a_transient_one() -> None:
    before = [*items_of(1), failed("system1", 413), failed("system1", 504)]

    assert await recorded_evaluation(ScriptedSuite({}), plan(arms=ARMS[:1], items=ITEMS[:1]), before) == []


async def test_a_request_that_fails_each_time_counts_once() -> None:
    before = [*items_of(1), failed("system1", 504), failed("system1", 504), reply("sums-1", "dialectic", chat(RIGHT))]

    assert rows([run_record("compare"), *before], "compare").failures == {("system1", "R504"): 1}


def items_of(number: int) -> list[Record]:
    return [introduced(f"sums-{number}")]


STAGE = {"stage": "solve", "model": "scripted", "prompt_digest": "aa" * 32}


def staged(**more: object) -> Record:
    said = chat(RIGHT)
    return {**said, "metacog": {**said["metacog"], "stages": [{**STAGE, **more}]}}


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        ({"prompt_digest": "bb" * 32}, "system1 with prompt solve aaaaaaaaaaaa, and now it is bbbbbbbbbbbb"),
        ({"model": "another"}, "system1 by model scripted, and now it is another; take another --out"),
    ],
)
async def test_a_run_is_not_resumed_by_another_model_or_prompt(report: Record, complaint: str) -> None:
    before = [*items_of(1), reply("sums-1", "system1", staged())]
    suite, sink = ScriptedSuite({"/v1/chat/completions": staged(**report)}), MemorySink()

    with pytest.raises(RecordsUnusable, match=complaint):
        await record_plan(plan(arms=ARMS[:1]), PlanContext(suite=suite, sink=sink), before, lambda: None)

    assert sink.records == []


def test_a_run_is_not_resumed_under_another_configuration_where_replies_report_it() -> None:
    live, other_arm = Provenance(arm="live", configuration="paper"), Provenance(arm="assess")
    known = recorded_provenance([live, Provenance(arm="live"), other_arm])

    for same in (live, Provenance(arm="live"), Provenance(arm="assess", configuration="x")):
        known.require_same(same)
    with pytest.raises(RecordsUnusable, match="live with configuration paper, and now it is tuned"):
        known.require_same(Provenance(arm="live", configuration="tuned"))


async def test_what_earlier_replies_did_not_report_is_not_compared_and_a_model_may_have_answered_elsewhere() -> None:
    before = [
        *items_of(1),
        reply("sums-1", "system1", staged(stage="draft")),
        reply("sums-1", "dialectic", staged(model="another")),
    ]
    suite = ScriptedSuite({"/v1/chat/completions": staged(model="another")})

    assert keys(await recorded_evaluation(suite, plan(arms=ARMS[:1]), before)) == [("sums-2", "system1", 7)]


async def test_a_suite_that_cannot_be_reached_ends_the_run() -> None:
    with pytest.raises(ServiceUnreachable, match="gone"):
        await recorded_evaluation(ScriptedSuite({**REPLIES, "/v1/arbitrations": ServiceUnreachable("gone")}), plan())


async def test_each_item_draws_with_a_seed_of_its_own() -> None:
    suite = ScriptedSuite(REPLIES)

    await recorded_evaluation(suite, plan(arms=ARMS[:1], items=ITEMS[:2]))

    assert len({body["seed"] for _, _, body in suite.asked}) == len(suite.asked) == 2


async def test_each_arm_draws_with_a_seed_of_its_own_and_gets_the_time_asked_for() -> None:
    suite = ScriptedSuite(REPLIES)

    await recorded_evaluation(suite, plan(items=ITEMS[:1], timeout_ms=5000))

    bodies = [body for _, _, body in suite.asked]
    assert len({body["seed"] for body in bodies}) == 3
    assert [(body.get("metacog") or body)["envelope"]["timeout_ms"] for body in bodies] == [5000] * 3


FACTS = RoutingFacts(suite={"threshold": 0.45}, spent={"generations": 1, "prompt_tokens": 9, "completion_tokens": 1})


def opening(**more: object) -> Record:
    return {**heading(plan(), "compare", {"typed": "x", "sets": ["sums"]}, FACTS), **more}


def test_the_heading_holds_what_the_run_is_made_with() -> None:
    made = opening()

    assert (made["command"], made["seeds"], made["items"]) == ("compare", [7], 2)
    assert made["arms"]["self-consistency"] == {
        "variant": "SELF_CONSISTENCY", "samples": "those of dialectic", "solver_temperature": 0.6,
    }  # fmt: skip
    assert {len(digest) for digest in made["prompt_digests"].values()} == {64}


@pytest.mark.parametrize(
    ("name", "other"),
    [("command", "mc-mas"), ("timeout_ms", 1), ("prompt_digests", {}), ("suite", {"threshold": 0.5})],
)
def test_records_made_differently_are_not_resumed(name: str, other: object) -> None:
    with pytest.raises(RecordsUnusable, match=f"made with {name} .*take another --out"):
        require_resumable(opening(), [opening(**{name: other})])


def test_the_routers_own_records_are_not_resumed() -> None:
    with pytest.raises(RecordsUnusable, match="made with command routing, this run has compare; take another --out"):
        require_resumable(opening(), [HEADING])


async def test_the_request_for_the_model_is_spent_too() -> None:
    usage = {"generations": 1, "http_calls": 1, "prompt_tokens": 9, "completion_tokens": 1, "stages": {}}
    activation = {"threshold": 0.45, "weights": {"conflict": 1.0}}
    suite = ScriptedSuite(
        {
            "/v1/route": {"config_version": "paper", "activation": activation},
            "/v1/answers": {"run": {"model": "scripted", "usage": usage}},
        }
    )

    facts = await routing_facts(cast(SuiteClient, suite))
    runs = [{**run_record("compare"), "spent": facts.spent}] * 2
    made = rows([*runs, *items_of(1), reply("sums-1", "system1", chat(RIGHT))], "compare")

    # Twice begun: 9 prompt tokens each, beside the 20 of the answer.
    assert facts.suite["model"] == "scripted"
    assert spent_text(made).startswith("3 generations, 38 prompt tokens, 12 generated")


def test_the_heading_shows_what_was_answered_of_what_was_asked_and_every_digest() -> None:
    other = run_record("compare", prompt_digests={"question": "ff" * 32})
    made = rows([run_record("compare"), other, *items_of(1), reply("sums-1", "system1", staged())], "compare")

    report = head_of_report("?", made)

    assert "- items: 1 of sums (4 were asked for); seed 7" in report
    assert "- prompts: `question` abababababab and ffffffffffff, `solve` aaaaaaaaaaaa" in report


def test_every_command_that_added_to_the_records_is_shown_once() -> None:
    more = run_record("compare", data={"typed": "metacog eval compare --items 8", "sets": ["sums"]})
    made = rows([run_record("compare"), more, more, *items_of(1), reply("sums-1", "system1", chat(RIGHT))], "compare")

    report = head_of_report("?", made)

    assert report.count("`metacog eval compare --data questions`") == 1
    assert report.count("`metacog eval compare --items 8`") == 1


def test_an_arm_must_be_what_it_was_and_another_may_join() -> None:
    other = Arm(name="system1", call=ARMS[0].call, settings={"model": "another"})

    require_resumable(opening(), [opening(arms={"system1": {"model": "metacog/system1"}})])
    with pytest.raises(RecordsUnusable, match="system1 as"):
        require_resumable(opening(arms={"system1": other.settings}), [opening()])
