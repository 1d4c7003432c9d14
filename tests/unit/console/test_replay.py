import pytest

from console import replay
from console.run_events import pictured
from tests.unit.console.runs import Body, arbitrated, delegated, deliberated, run

RECORDED = {"system1": run("system1"), "dialectic": deliberated(), "arbiter": arbitrated(), "delegation": delegated()}


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_a_replay_begins_and_ends_as_the_run_did_and_takes_as_long(recorded: Body) -> None:
    timed = replay.events(recorded)

    assert [timed[0].name, timed[1].name, timed[-1].name] == ["run_started", "routed", "run_finished"]
    assert sum(each.after_ms for each in timed) == pytest.approx(10_000)


def test_a_replayed_dialectic_streams_its_stages_in_order_word_by_word() -> None:
    timed = replay.events(deliberated())

    started = [each.data["stage"] for each in timed if each.name == "stage_started"]
    words = [each for each in timed if each.name == "stage_token" and each.data["stage"] == "SYNTHESIS"]
    assert started == ["THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS"]
    assert "".join(each.data["text"] for each in words) == "seven eight nine ten"
    assert [each.after_ms for each in words] == [250.0] * 4


def test_a_note_with_a_recorded_text_only_is_shown_beside_the_chain() -> None:
    recorded = deliberated()
    recorded["deliberation"] |= {"note": "mind the gap", "roles": {"assignment": {"GENERALIST": "eve"}}}

    picture = pictured((each.name, each.data) for each in replay.events(recorded))

    note = picture.stages["NOTE"]
    assert (note.text, note.agent, note.active) == ("mind the gap", "eve", False)


def test_the_samples_of_replayed_solvers_add_up_as_they_did_when_they_were_drawn() -> None:
    drawn = [each.data for each in replay.events(arbitrated()) if each.name == "samples_drawn"]

    assert [(each["phase"], each["drawn"], each["planned"]) for each in drawn] == [
        ("SOLVE", 3, 5),
        ("SOLVE", 5, 5),
        ("ARBITRATE", 11, 11),
    ]
    assert drawn[1]["counts"] == {"4": 3, "5": 2}


def test_a_run_that_failed_before_it_was_routed_can_be_replayed() -> None:
    failed = run("", route=None, answer="", first_token_ms=None, outcome="ABSTAINED", error_reason="OVERLOADED")

    assert [each.name for each in replay.events(failed)] == ["run_started", "run_finished"]


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_the_picture_of_a_recorded_run_is_whole(recorded: Body) -> None:
    picture = pictured((each.name, each.data) for each in replay.events(recorded))

    assert picture.is_over
    assert picture.answer == "seven eight nine ten"
    assert "active" not in [standing for _, standing in picture.phases]
