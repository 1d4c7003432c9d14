"""How the state moves through a dialectic, from records."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evals.controls.figures import LEGACY, figures, legacy_gate
from evals.dialectic.evolution import COMPONENTS, evolution
from evals.dialectic.files import COMMAND, DIALECTIC, arms, write_report
from evals.errors import RecordsUnusable
from evals.harness.rows import recorded_evaluation
from evals.records import Record
from evals.stats.chance import seeded
from evals.stats.gains import conclusion
from evals.strategies import named
from tests.support.evaluation_records import an_item, introduced
from tests.support.evaluation_replies import RIGHT, WRONG, chat, decision, reply, run_record, spent

STAGES = {"THESIS": "EXPERT", "ANTITHESIS": "CRITIC", "RESOLUTION": "EVALUATOR", "SYNTHESIS": "SYNTHESIZER"}


def deliberation(first: str, last: str, correctness: list[float], conflict: list[float]) -> Record:
    texts = dict(zip(STAGES, [first, "It is doubtful.", "It holds.", last], strict=True))
    stages = [
        {
            "stage": stage,
            "role": role,
            "agent": "ada",
            "model": "scripted",
            "prompt_digest": "ef" * 32,
            "text": texts[stage],
        }
        for stage, role in STAGES.items()
    ]
    states = [
        {
            "stage": stage,
            "msv": {"correctness": level, "conflict": apart, "experience": None},
            "beside": [other for other in STAGES if other != stage],
        }
        for stage, level, apart in zip(STAGES, correctness, conflict, strict=True)
    ]
    return {"answer": last, "stages": stages, "measurements": states, "usage": spent(9, 200, 100), "duration_ms": 8.0,
            "degraded": False}  # fmt: skip


def a_recording(count: int = 18) -> list[Record]:
    made: list[Record] = [run_record(COMMAND, "route", "system1", DIALECTIC)]
    for number in range(count):
        name, mended = f"truth-{number}", number % 3 == 0
        text = deliberation(WRONG if mended else RIGHT, RIGHT, [0.5, 0.4, 0.6, 0.8], [0.6, 0.7, 0.5, 0.6])
        made += [
            introduced(name, dataset="truth"),
            reply(name, "route", decision(0.5)),
            reply(name, "system1", chat(WRONG if mended else RIGHT)),
            reply(name, DIALECTIC, text, path="/v1/deliberations"),
        ]
    return made


def test_the_state_is_followed_stage_by_stage() -> None:
    found = evolution(recorded_evaluation(a_recording(), COMMAND).of(DIALECTIC), seeded(7, draws=100))

    assert [stage.means["correctness"].value for stage in found.stages] == [0.5, 0.4, 0.6, 0.8]
    assert found.moved["correctness"].value == pytest.approx(0.3)
    assert found.moved["conflict"].value == 0.0
    assert found.moved["experience"].value is None
    assert set(found.stages[0].means) == set(COMPONENTS)


def test_texts_that_get_more_right_are_separated_from_states_that_only_claim_so() -> None:
    found = evolution(recorded_evaluation(a_recording(), COMMAND).of(DIALECTIC), seeded(7, draws=400))

    # The first text is right on 12 of 18, the last on all.
    assert found.first_right.value == pytest.approx(2 / 3)
    assert found.last_right.value == 1.0
    assert found.better.value == pytest.approx(1 / 3)
    assert conclusion(found.better) == "gain"


def judged_beside_earlier_texts(record: Record) -> Record:
    """A reply in which each text was judged beside the texts before it."""
    if record.get("arm") != DIALECTIC:
        return record
    measurements = [
        {**each, "beside": list(STAGES)[:place]} for place, each in enumerate(record["reply"]["measurements"])
    ]
    return {**record, "reply": {**record["reply"], "measurements": measurements}}


def test_states_of_texts_that_were_judged_beside_more_and_more_others_are_left_out(tmp_path: Path) -> None:
    records = [*a_recording(2)[:5], *map(judged_beside_earlier_texts, a_recording(18)[5:])]

    found = evolution(recorded_evaluation(records, COMMAND).of(DIALECTIC), seeded(7, draws=100))

    assert ([stage.measured for stage in found.stages], found.unlike) == ([1] * 4, 17)
    assert found.first_right.items == 18
    assert "17 deliberations are left out of these two tables" in write_report(records, tmp_path, seeded(7, draws=20))


def seeded_twice(records: list[Record]) -> list[Record]:
    """The same replies once more, by another seed: nothing new is known."""
    return [*records, *({**one, "seed": 8} for one in records if one["kind"] == "reply")]


def uneven(count: int = 18) -> list[Record]:
    """States that differ from item to item, and final texts of which every third is wrong."""
    made: list[Record] = [run_record(COMMAND, DIALECTIC)]
    for number in range(count):
        sure, name = (number * 7 % count) / count, f"truth-{number}"
        text = deliberation(WRONG, RIGHT if number % 3 else WRONG, [sure, 0.4, 0.6, sure], [0.6, 0.7, 0.5, sure])
        made += [introduced(name, dataset="truth"), reply(name, DIALECTIC, text, path="/v1/deliberations")]
    return made


def test_a_second_seed_with_the_same_answers_makes_no_interval_narrower() -> None:
    once, twice = (
        evolution(recorded_evaluation(records, COMMAND).of(DIALECTIC), seeded(7, draws=200))
        for records in (uneven(), seeded_twice(uneven()))
    )

    assert [stage.means for stage in twice.stages] == [stage.means for stage in once.stages]
    assert [stage.measured for stage in twice.stages] == [36] * 4
    assert twice.moved == once.moved
    assert twice.knows == once.knows


def test_the_area_of_doubt_is_that_over_all_final_texts() -> None:
    found = evolution(recorded_evaluation(uneven(), COMMAND).of(DIALECTIC), seeded(7, draws=200))

    doubts = [1 - (number * 7 % 18) / 18 for number in range(18)]
    assert found.knows.value == pytest.approx(roc_auc_score([number % 3 == 0 for number in range(18)], doubts))
    assert (found.knows.low or 0) < (found.knows.value or 0) < (found.knows.high or 0)


def test_the_legacy_gate_always_fires() -> None:
    made = recorded_evaluation(a_recording(), COMMAND)

    routings = {each.name: each for each in figures(made, DIALECTIC, seeded(7, draws=50)).routings}

    assert routings[LEGACY].sent == 1.0
    assert legacy_gate(np.array([0.0, 0.3, 1.0])).all()


def test_the_report_shows_which_claims_hold(tmp_path: Path) -> None:
    report = write_report(a_recording(), tmp_path, seeded(7, draws=100))

    assert "| correctness | 0.300 [0.300, 0.300] | 18 | rises | **rises, as claimed** |" in report
    assert "| conflict | 0.000 [0.000, 0.000] | 18 | falls | **no movement shown** |" in report
    assert "| experience | - | 0 |  | **too few items** |" in report
    assert "| truth | 0.67 [" in report
    assert (tmp_path / "states.svg").exists()
    with pytest.raises(RecordsUnusable, match="no deliberation"):
        write_report([record for record in a_recording() if record.get("arm") != DIALECTIC], tmp_path)


def test_the_controls_are_asked_beside_it() -> None:
    assert [arm.name for arm in arms()] == [
        "route", "system1", DIALECTIC, "self-consistency", "majority", "roles-greedy",
        "roles-random",
    ]  # fmt: skip
    assert [arm.name for arm in arms(agents=["alpha"])][-1] == "agent:alpha"


def test_random_roles_are_drawn_anew_for_every_item() -> None:
    drawn = [named("roles-random").call(an_item(number), 7, {}) for number in range(3)]

    assert len({call.body["assignment_seed"] for call in drawn if call}) == 3
    assert named("roles-random").call(an_item(1), 7, {}) == drawn[1]


def test_a_limit_of_tokens_reaches_every_text_and_no_decision() -> None:
    asked = {arm.name: arm for arm in arms(agents=["alpha"], max_tokens=64)}
    calls = {name: arm.call(an_item(1), 7, {DIALECTIC: {"usage": spent(5)}}) for name, arm in asked.items()}

    limits = {
        name: {field: report for field, report in call.body.items() if field.endswith("max_tokens")}
        for name, call in calls.items()
        if call is not None
    }
    assert limits["route"] == {}
    assert limits["system1"] == {"max_tokens": 64}
    assert limits[DIALECTIC] == limits["roles-random"] == {"stage_max_tokens": 64}
    assert limits["agent:alpha"] == {"answer_max_tokens": 64}
    assert set(limits["self-consistency"].values()) == {64}
    assert asked["system1"].settings["max_tokens"] == 64
