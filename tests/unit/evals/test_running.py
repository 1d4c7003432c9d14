import pytest

from evals.errors import RecordsUnusable, RouterAway
from evals.harness.arms import Arm, Plan
from evals.harness.manifest import heading, resumable
from evals.harness.running import World, ask_all, key_of
from evals.records import Record
from evals.router_client import Refused
from evals.strategies import named
from tests.support.evaluating import RIGHT, ScriptedSuite, arbitration, chat, decision, spent
from tests.support.evaluation import Kept, an_item

ITEMS = (an_item(1), an_item(2))
SAYS = {
    "/v1/chat/completions": chat(RIGHT, usage=spent(9)),
    "/v1/arbitrations": arbitration("4"),
    "/v1/route": decision(0.6),
}
ARMS = (named("system1"), named("dialectic"), named("self-consistency", like="dialectic"))


def plan(**more: object) -> Plan:
    return Plan(**{"items": ITEMS, "arms": ARMS, **more})  # type: ignore[arg-type]


async def recorded(suite: ScriptedSuite, made: Plan, before: list[Record] | None = None) -> list[Record]:
    kept = Kept()
    await ask_all(made, World(suite=suite, writer=kept), before or [], lambda: None)
    return kept.records


def keys(records: list[Record]) -> list[tuple[str, str, int]]:
    return [key_of(record) for record in records if record["kind"] == "reply"]


async def test_every_arm_answers_every_item_with_every_seed_once() -> None:
    suite = ScriptedSuite(SAYS)

    records = await recorded(suite, plan(seeds=(1, 2), concurrency=3))

    assert len(set(keys(records))) == len(keys(records)) == len(suite.asked) == 2 * 3 * 2
    assert sorted(record["id"] for record in records if record["kind"] == "item") == ["sums-1", "sums-2"]


async def test_what_is_recorded_is_not_asked_for_again() -> None:
    whole = await recorded(ScriptedSuite(SAYS), plan())
    suite = ScriptedSuite(SAYS)

    rest = await recorded(suite, plan(), whole[:4])

    assert keys(whole[:4]) + keys(rest) == keys(whole)
    assert len(suite.asked) == len(keys(rest)) == 3


async def test_a_control_gets_as_many_generations_as_what_it_controls() -> None:
    suite = ScriptedSuite(SAYS)

    await recorded(suite, plan(items=ITEMS[:1]))

    [asked] = [body for _, path, body in suite.asked if path == "/v1/arbitrations"]
    assert (asked["variant"], asked["self_consistency_samples"]) == ("SELF_CONSISTENCY", 9)


async def test_after_a_kill_a_control_still_knows_what_was_spent() -> None:
    whole = await recorded(ScriptedSuite(SAYS), plan(items=ITEMS[:1]))
    suite = ScriptedSuite(SAYS)

    await recorded(suite, plan(items=ITEMS[:1]), whole[:-1])

    [(_, _, asked)] = suite.asked
    assert asked["self_consistency_samples"] == 9


async def test_a_control_of_a_refused_arm_is_not_asked_for() -> None:
    refusing = {**SAYS, "/v1/chat/completions": Refused("/v1/chat/completions", 400, {"reason": "PROMPT_TOO_LONG"})}

    records = await recorded(ScriptedSuite(refusing), plan(items=ITEMS[:1]))

    assert [key[1] for key in keys(records)] == ["system1", "dialectic"]
    assert records[1]["refusal"] == {"status": 400, "reason": "PROMPT_TOO_LONG"}


async def test_a_suite_that_is_away_ends_the_run() -> None:
    with pytest.raises(RouterAway, match="gone"):
        await recorded(ScriptedSuite({**SAYS, "/v1/arbitrations": RouterAway("gone")}), plan())


async def test_each_arm_draws_with_a_seed_of_its_own_and_gets_the_time_asked_for() -> None:
    suite = ScriptedSuite(SAYS)

    await recorded(suite, plan(items=ITEMS[:1], timeout_ms=5000))

    bodies = [body for _, _, body in suite.asked]
    assert len({body["seed"] for body in bodies}) == 3
    assert [(body.get("metacog") or body)["envelope"]["timeout_ms"] for body in bodies] == [5000] * 3


def opening(**more: object) -> Record:
    return {**heading(plan(), "compare", {"typed": "x", "sets": ["sums"]}, {"threshold": 0.45}), **more}


def test_the_heading_says_what_the_run_is_made_with() -> None:
    made = opening()

    assert (made["command"], made["seeds"], made["items"]) == ("compare", [7], 2)
    assert made["arms"]["self-consistency"] == {"variant": "SELF_CONSISTENCY", "samples": "those of dialectic"}
    assert {len(digest) for digest in made["prompt_digests"].values()} == {64}


@pytest.mark.parametrize(
    ("name", "other"),
    [("command", "mc-mas"), ("timeout_ms", 1), ("prompt_digests", {}), ("suite", {"threshold": 0.5})],
)
def test_records_made_otherwise_are_not_gone_on_with(name: str, other: object) -> None:
    with pytest.raises(RecordsUnusable, match=f"made with {name} .*take another --out"):
        resumable(opening(), [opening(**{name: other})])


def test_an_arm_must_be_what_it_was_and_another_may_join() -> None:
    other = Arm(name="system1", call=ARMS[0].call, settings={"model": "another"})

    resumable(opening(), [opening(arms={"system1": {"model": "metacog/system1"}})])
    with pytest.raises(RecordsUnusable, match="system1 as"):
        resumable(opening(arms={"system1": other.settings}), [opening()])
