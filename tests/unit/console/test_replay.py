import pytest
from metacog.arbiter.v1.arbiter_pb2 import SAMPLING_PHASE_ARBITRATE, SAMPLING_PHASE_SOLVE, SamplesDrawn
from metacog.common.v1 import stage_pb2
from metacog.common.v1.stage_pb2 import StageStarted, StageToken
from metacog.router.v1.router_pb2 import Run

from console import replay
from console.run_events import pictured
from tests.unit.console.runs import arbitrated, delegated, deliberated, run

RECORDED = {"system1": run("system1"), "dialectic": deliberated(), "arbiter": arbitrated(), "delegation": delegated()}


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_a_replay_begins_and_ends_as_the_run_did_and_takes_as_long(recorded: Run) -> None:
    timed = replay.events(recorded)

    assert [timed[0].name, timed[1].name, timed[-1].name] == ["run_started", "routed", "run_finished"]
    assert sum(each.after_ms for each in timed) == pytest.approx(10_000)


def test_a_replayed_dialectic_streams_its_stages_in_order_word_by_word() -> None:
    timed = replay.events(deliberated())

    tokens = [(each.data, each.after_ms) for each in timed if isinstance(each.data, StageToken)]
    words = [(token.text, after_ms) for token, after_ms in tokens if token.stage == stage_pb2.STAGE_SYNTHESIS]
    assert [each.data.stage for each in timed if isinstance(each.data, StageStarted)] == [
        stage_pb2.STAGE_THESIS,
        stage_pb2.STAGE_ANTITHESIS,
        stage_pb2.STAGE_RESOLUTION,
        stage_pb2.STAGE_SYNTHESIS,
    ]
    assert "".join(text for text, _ in words) == "seven eight nine ten"
    assert [after_ms for _, after_ms in words] == [250.0] * 4


def test_a_note_with_a_recorded_text_only_is_shown_beside_the_chain() -> None:
    recorded = deliberated(note="mind the gap", roles={"assignment": {"GENERALIST": "eve"}})

    picture = pictured((each.name, each.data) for each in replay.events(recorded))

    note = picture.stages["NOTE"]
    assert (note.text, note.agent, note.active) == ("mind the gap", "eve", False)


def test_the_samples_of_replayed_solvers_add_up_as_they_did_when_they_were_drawn() -> None:
    drawn = [each.data for each in replay.events(arbitrated()) if isinstance(each.data, SamplesDrawn)]

    assert [(each.phase, each.drawn, each.planned) for each in drawn] == [
        (SAMPLING_PHASE_SOLVE, 3, 5),
        (SAMPLING_PHASE_SOLVE, 5, 5),
        (SAMPLING_PHASE_ARBITRATE, 11, 11),
    ]
    assert drawn[1].counts == {"4": 3, "5": 2}
    assert not drawn[1].HasField("entropy")  # which a record does not have: unknown, not 0


def test_a_run_that_failed_before_it_was_routed_can_be_replayed() -> None:
    failed = run("", route=None, answer="", first_token_ms=None, outcome="ABSTAINED", error_reason="OVERLOADED")

    assert [each.name for each in replay.events(failed)] == ["run_started", "run_finished"]


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_the_picture_of_a_recorded_run_is_whole(recorded: Run) -> None:
    picture = pictured((each.name, each.data) for each in replay.events(recorded))

    assert picture.is_over
    assert picture.answer == "seven eight nine ten"
    assert "active" not in [standing for _, standing in picture.phases]
