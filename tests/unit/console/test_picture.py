import re
from typing import Any

from google.protobuf.message import Message
from metacog.common.v1 import msv_pb2
from metacog.router.v1.router_pb2 import Run, RunFinished

from chassis.errors import PeerUnavailable
from console.run_events import apply, pictured
from console.run_view import CHAIN, PANELS, Change, Picture
from console.site import drawn
from tests.unit.console.runs import MSV, ROLES, event, route, run

ROUTED = route("dialectic", assessor="hybrid")


def deliberating() -> Picture:
    """A dialectic whose roles are given."""
    said = {"run_started": {"run_id": "r1"}, "routed": ROUTED, "roles_assigned": ROLES}
    return pictured([event(name, data) for name, data in said.items()])


def started(stage: str) -> tuple[str, Message]:
    return event("stage_started", {"stage": stage, "role": "EXPERT", "agent": "ada", "model": "m", "attempt": 1})


def ended_as(run: Run) -> Picture:
    """The picture of a run that has ended."""
    return pictured([("run_finished", RunFinished(run=run))])


def test_the_phases_are_done_active_or_waiting() -> None:
    picture = deliberating()

    assert picture.phases[:5] == [
        ("assess", "done"),
        ("route", "done"),
        ("assign", "done"),
        ("thesis", "active"),
        ("antithesis", "waiting"),
    ]


def test_a_requested_strategy_skips_the_assessment() -> None:
    picture = pictured([event("routed", route("system1"))])

    assert picture.phases == [("assess", "skipped"), ("route", "done"), ("answer", "active")]


def test_a_token_is_added_to_its_stage_without_rendering_a_panel() -> None:
    picture = deliberating()
    apply(picture, *started("THESIS"))

    change = apply(picture, *event("stage_token", {"stage": "THESIS", "text": "91 "}))
    change.add(apply(picture, *event("stage_token", {"stage": "THESIS", "text": "is odd"})))

    assert change == Change(text={"text-thesis": "91 is odd"})
    assert picture.stages["THESIS"].text == "91 is odd"


def test_a_second_attempt_begins_with_an_empty_text() -> None:
    picture = deliberating()
    token = event("stage_token", {"stage": "THESIS", "text": "wrong"})
    for name, data in [started("THESIS"), token, started("THESIS")]:
        apply(picture, name, data)

    assert picture.stages["THESIS"].text == ""


def test_a_measured_stage_is_in_the_evolution_and_the_others_are_unknown() -> None:
    picture = deliberating()

    change = apply(picture, *event("stage_measured", {"stage": "THESIS", "msv": MSV}))

    assert change.panels == {"evolution", "stage-thesis"}
    assert picture.chain_states == [("THESIS", msv_pb2.MSV(**MSV)), *((stage, None) for stage in CHAIN[1:])]


def test_the_note_is_never_a_stage_of_the_chain() -> None:
    picture = deliberating()
    apply(picture, *started("NOTE"))

    assert "NOTE" not in [stage for stage, _ in picture.chain_states]
    assert ("note", "active") in picture.phases


def test_a_fallback_drops_the_text_so_far() -> None:
    picture = deliberating()
    apply(picture, *event("answer_token", {"text": "half an answer"}))
    fell_back = {"from_strategy": "dialectic", "to_strategy": "system1", "reason": "X", "message": "m"}

    change = apply(picture, *event("fell_back", fell_back))

    assert (picture.answer, picture.strategy) == ("", "system1")
    assert change.panels == set(PANELS)


def test_another_agent_drops_the_text_so_far() -> None:
    picture = deliberating()
    chosen = {"mode": "EXECUTED", "first_agent": "ada", "executor": "ada", "reason": "confident", "short_list": []}
    first = apply(picture, *event("mode_chosen", chosen))
    apply(picture, *event("answer_token", {"text": "half an answer"}))

    other = chosen | {"mode": "DELEGATED", "executor": "ben", "reason": "agent_failed"}
    again = apply(picture, *event("mode_chosen", other))

    assert first.panels != set(PANELS)
    assert (picture.answer, again.panels) == ("", set(PANELS))


def test_an_error_ends_the_run_and_marks_the_phase() -> None:
    picture = deliberating()

    apply(picture, "failed", PeerUnavailable("away", run_id="r7"))

    assert picture.is_over
    assert (picture.run_id, picture.error and picture.error.reason) == ("r7", "PEER_UNAVAILABLE")
    assert ("thesis", "failed") in picture.phases


def test_an_unknown_event_changes_nothing() -> None:
    assert apply(Picture(), "something_new", None) == Change()


def test_the_arbiters_shares_stay_unknown_until_it_has_drawn() -> None:
    drawn = {"solver": 0, "drawn": 2, "planned": 10, "counts": {"4": 1, "5": 1}, "invalid": 0, "entropy": 0.69}
    picture = pictured([event("routed", route("arbiter")), event("samples_drawn", {"phase": "SOLVE", **drawn})])

    assert (picture.solver_counts, picture.arbiter) == ({"4": 1, "5": 1}, None)
    assert picture.answers == ["4", "5"]


def cast(index: int, answer: str | None, **more: object) -> dict[str, Any]:
    """One vote."""
    facts: dict[str, Any] = {
        "index": index,
        "agent": "",
        "mode": "REASONED",
        "model": "small",
        "text": f"<b>vote {index}</b>",
        "answer": answer,
        "invalid_reason": "" if answer else "no answer of this type could be read from the text",
        "completion_tokens": 12,
        "changed_lead": index == 0,
    }
    return facts | more


def test_the_state_measured_by_votes_stands_beside_the_state_before_and_unknown_parts_are_unknown() -> None:
    votes = [cast(0, "4", mode="DRAFT"), cast(1, "4")]
    before = MSV | {
        "conflict": None,
        "parts": {"prior_share": 0.5},
        "unknown_reasons": {"conflict": "one answer alone"},
    }
    after = MSV | {
        "correctness": 0.87,
        "conflict": 0.0,
        "experience": None,
        "parts": {"source_disagreement": 0.0},
        "unknown_reasons": {
            "instability": "no earlier run",
            "experience": "nothing near",
            "internal_inconsistency": "<i>",
        },
    }
    account = {"votes": votes, "groups": [], "left_out": []}
    ended = run("vote", deliberation=account, state=after, route=route("vote", msv=before))

    shown = drawn("panels/votes.html", picture=ended_as(ended))
    rows = [" ".join(row.split()) for row in re.sub("<[^>]*>", " ", shown.replace("<tr>", "\n")).split("\n")]

    assert "CE correctness 0.50 0.87" in rows
    assert "CI conflict unknown 0.00" in rows
    assert "EM experience 0.50 unknown nothing near" in rows
    assert "source disagreement 0.00" in rows
    assert "instability unknown no earlier run" in rows
    assert "<i>" not in shown
    routed = ROUTED | {"msv": before, "usage": {"generations": 0}, "policy_row": "", "config_version": "paper"}
    decision = drawn("panels/decision.html", picture=pictured([event("routed", routed)]))
    assert "CE: share right of the prior; no label yet." in decision


def test_a_run_without_a_measured_state_shows_none() -> None:
    ended = ended_as(run("vote", deliberation={"votes": [], "groups": []}))

    assert "State before and after" not in drawn("panels/votes.html", picture=ended)


def test_an_answer_is_shown_as_it_is_written() -> None:
    votes = [{**cast(0, "17 3 54"), "written": "17 * 3 = 54"}]
    account = {
        "votes": votes,
        "groups": [{"answer": "17 3 54", "votes": [0], "log_odds": 0.0}],
        "winner": "17 3 54",
        "outcome": "UNDECIDED",
        "invalid": 0,
        "stop_reason": "MOST_ASKED",
        "left_out": [],
    }

    shown = drawn("panels/votes.html", picture=ended_as(run("vote", deliberation=account)))

    assert shown.count("17 * 3 = 54") == 3  # the headline, the row and its title
    assert "17 3 54" not in shown


def test_the_headline_of_votes_is_the_first_that_states_the_unit_of_the_winner() -> None:
    votes = [cast(0, "10", written="10"), cast(1, "10 km", mode="PROGRAM", written="10.0 km")]
    votes.append(cast(2, "10 km", written="= 10 km"))
    account = {
        "votes": votes,
        "groups": [{"answer": "10 km", "votes": [0, 1, 2], "without_unit": [0]}],
        "winner": "10 km",
        "outcome": "DECIDED",
        "stop_reason": "AGREED",
    }

    shown = drawn("panels/votes.html", picture=ended_as(run("vote", deliberation=account)))

    assert '<p class="headline">= 10 km <small>' in shown


def test_a_stronger_model_that_was_called_for_a_reason_of_a_newer_service_was_called() -> None:
    asked = {"model": "large", "reason": "OF_A_NEWER_SERVICE", "answered": True, "error": ""}
    failed = asked | {"answered": False, "error": "BACKEND_UNAVAILABLE"}
    decided = {"model": "large", "answered": False, "error": ""}

    gave, gave_none, votes_decided = (
        drawn("panels/votes.html", picture=ended_as(run("cascade", escalation=each)))
        for each in (asked, failed, decided)
    )

    assert "Reason unknown: the stronger model large gave the answer." in gave
    assert "Reason unknown, and the stronger model large gave no answer: BACKEND_UNAVAILABLE" in gave_none
    assert "The stronger model large was not called: the votes decided." in votes_decided


def test_votes_appear_as_they_come_and_stay_when_the_run_has_ended() -> None:
    votes = [cast(0, "4", mode="DRAFT"), cast(1, None), cast(2, "4")]
    live = pictured([event("routed", route("vote")), *(event("vote_cast", vote) for vote in votes[:2])])
    account = {
        "votes": votes,
        "groups": [{"answer": "4", "votes": [0, 2], "log_odds": 0.0}],
        "winner": "4",
        "outcome": "DECIDED",
        "invalid": 1,
        "stop_reason": "AGREED",
        "left_out": ["bob reasoned: BACKEND_UNAVAILABLE"],
    }
    ended = ended_as(run("vote", deliberation=account))

    assert live.phases[-2:] == [("draft", "done"), ("vote", "active")]
    assert "2 of 2" not in drawn("panels/votes.html", picture=live)
    shown = drawn("panels/votes.html", picture=ended)
    assert "2 of 2 valid votes agree" in shown
    assert "invalid: no answer of this type could be read from the text" in shown
    assert "Left out: bob reasoned: BACKEND_UNAVAILABLE" in shown
    assert "<b>" not in shown  # what a model wrote is only text
    assert ended.phases[-2:] == [("draft", "done"), ("vote", "done")]


def test_a_confidence_that_is_no_probability_is_marked() -> None:
    ended = ended_as(run("system1", confidence=1.0, confidence_source="hybrid", confidence_state="UNCALIBRATED"))

    shown = drawn("panels/label.html", picture=ended, run=ended.run)

    assert "~1.00" in shown
    assert "uncalibrated, not a probability" in shown


PANEL = {
    "mode": "COLLABORATED",
    "first_agent": "ada",
    "executor": "",
    "reason": "no_agent_confident",
    "short_list": [],
    "panel": ["ben", "ada", "cleo"],
}
ANSWERED = {"answer": "40", "weight": 0.4, "won": True, "failure": "", "text": "", "duration_ms": 1.0}


def panelled(**more: Any) -> str:  # noqa: ANN401
    """The panel of a delegation in which two agents of three answered."""
    account = {"decision": PANEL, "votes": [], **more}
    picture = pictured([event("routed", route("delegation")), event("mode_chosen", PANEL)])
    for agent in ("ben", "ada"):
        apply(picture, *event("agent_answered", {**ANSWERED, "agent": agent}))
    if more:
        apply(picture, "run_finished", RunFinished(run=run("delegation", deliberation=account)))
    picture.strategy = "delegation"
    return drawn("panels/delegation.html", picture=picture)


def test_a_panel_shows_its_order_and_why_it_ended() -> None:
    running, finished = panelled(), panelled(panel_stop="AGREED")

    assert "Agents answer in turn until two agree" in running
    assert "Order of the panel: ben, ada, cleo." in running
    assert "2 asked" not in running
    assert "2 asked: two agree." in finished


def test_a_vote_that_an_earlier_version_stored_is_drawn_without_a_panel() -> None:
    decision = {name: known for name, known in PANEL.items() if name != "panel"}
    picture = pictured([event("mode_chosen", decision)])
    picture.strategy = "delegation"

    assert "All agents answer and vote" in drawn("panels/delegation.html", picture=picture)


def test_an_agents_confidence_in_a_task_is_not_its_state_for_the_roles() -> None:
    asked = {"agent": "ada", "confidence": 0.7, "threshold": 0.5}
    picture = pictured([event("agent_assessed", asked), event("agent_assessed", {"agent": "ben", "msv": MSV})])

    assert ([each.agent for each in picture.assessments], [each.agent for each in picture.assessed]) == (
        ["ada"],
        ["ben"],
    )


def test_an_unknown_verbalized_confidence_is_unknown_and_a_known_zero_is_zero() -> None:
    asked = {"agent": "ada", "confidence": 0.7, "threshold": 0.5, "profile": 0.5, "eligible": True}
    known = asked | {"agent": "ben", "verbalized": 0.0, "verbalized_state": "UNCALIBRATED", "disagreement": 0.0}
    picture = pictured([event("agent_assessed", asked), event("agent_assessed", known)])
    picture.strategy = "delegation"

    ada, ben = re.findall("<tr class.*?</tr>", drawn("panels/delegation.html", picture=picture), re.DOTALL)

    assert ada.count("unknown") >= 2
    assert "~0.00" not in ada
    assert ("~0.00" in ben, "unknown" in ben) == (True, False)


def test_a_word_that_only_a_newer_service_knows_is_unknown() -> None:
    counts = {"solver": {"4": 5}, "arbiter": {"4": 5}, "answer": "4"}
    account = counts | {"answer_source": "ARBITER", "stopping_reason": "OF_TOMORROW", "solver_results": []}

    shown = drawn("panels/arbitration.html", picture=ended_as(run("arbiter", deliberation=account)))

    assert "sampling ended because unknown" in shown
    assert "none" not in shown
