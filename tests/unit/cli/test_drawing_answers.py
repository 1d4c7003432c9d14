"""An arbitration and a task as they are drawn."""

import re
from typing import Any

import pytest
from metacog.arbiter.v1.arbiter_pb2 import ArbitrationFinished
from metacog.arbiter.v1.vote_pb2 import VoteFinished
from metacog.common.v1.msv_pb2 import MSV
from metacog.delegation.v1.tasks_pb2 import Assessment, TaskFinished
from metacog.router.v1.router_pb2 import RouteResponse, Run
from rich.console import RenderableType

from chassis.serving.wire import from_rest
from cli.answers.deliberations import show_account, show_measured_state
from cli.answers.drawing import decision, state
from cli.answers.drawing_answers import arbitration, assessments, task, votes
from cli.terminal.output import stdout

SPENT: dict[str, Any] = {
    "usage": {"completion_tokens": 40, "generations": 9, "stages": {"solve": {"completion_tokens": 40}}},
    "duration_ms": 1500.0,
    "degraded_reasons": [],
    "budget_exhausted": False,
}
ARBITRATION: dict[str, Any] = {
    **SPENT,
    "answer": "12",
    "outcome": "ANSWERED",
    "solver": {"12": 1, "13": 3},
    "solver_invalid": 1,
    "arbiter": {"12": 4},
    "arbiter_invalid": 0,
    "critiques": [{"solver": 0, "agent": "ada", "text": "It forgets to carry.", "succeeded": True, "failure": ""}],
    "measures": {
        "entropy_solver": 0.5623,
        "entropy_arbiter": 0.0,
        "entropy_reduction": 0.5623,
        "compression": 1.0,
        **dict.fromkeys(
            ("novelty", "redundancy", "semantic_share", "symbolic_share", "untraced_share", "solver_divergence")
        ),
        "undefined_reasons": {"novelty": "the encoder is away"},
        "correct": True,
    },
    "confidence": 1.0,
    "answer_source": "ARBITER",
    "mode": "ADAPTIVE",
    "variant": "FULL",
    "stopping_reason": "LEADER_LIKELY",
    "planned_generations": 20,
    "saved_generations": 11,
}
ASSESSMENT: dict[str, Any] = {
    "agent": "gamma",
    "verbalized": 0.45,
    "unknown_reason": "",
    "profile": 0.27,
    "observations": 9,
    "disagreement": 0.18,
    "confidence": 0.378,
    "threshold": 0.5,
    "eligible": True,
    "ineligible_reason": "",
}


def drawn(capsys: pytest.CaptureFixture[str], what: Any) -> str:  # noqa: ANN401
    stdout.print(what)
    return capsys.readouterr().out


def arbitrated(done: dict[str, Any]) -> RenderableType:
    return arbitration(from_rest(done, ArbitrationFinished))


def assessed(assessment: dict[str, Any]) -> RenderableType:
    return assessments([from_rest(assessment, Assessment)])


def test_both_distributions_are_drawn_with_the_answer_marked(capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn(capsys, arbitrated(ARBITRATION)).splitlines()

    solver, arbiter = (number for number, line in enumerate(lines) if line.strip() in ("solvers", "arbiter"))
    assert lines[solver + 2].split()[0] == "13"
    assert lines[solver + 3].split()[-1] == "<"
    assert lines[solver + 4].split() == ["(no", "valid", "answer)", "1"]
    assert lines[arbiter + 2].split()[0] == "12"


def test_an_answer_is_drawn_as_samples_write_it(capsys: pytest.CaptureFixture[str]) -> None:
    spelled = {**ARBITRATION, "spellings": {"12": "**Twelve**", "13": "13"}}

    out = drawn(capsys, arbitrated(spelled))

    assert sum("**Twelve**" in line for line in out.splitlines()) == 3  # solvers, arbiter, answer


def test_the_winner_of_a_vote_is_drawn_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    cast = {"agent": "ada", "mode": "REASONED", "completion_tokens": 5, "changed_lead": True, "invalid_reason": ""}
    done = {
        "votes": [{**cast, "index": 0, "answer": "17 3 54", "written": "17 * 3 = 54"}],
        "groups": [{"answer": "17 3 54", "votes": [0]}],
        "winner": "17 3 54",
        "outcome": "UNDECIDED",
        "invalid": 0,
        "stop_reason": "MOST_ASKED",
        "left_out": [],
    }

    out = drawn(capsys, votes(from_rest(done, VoteFinished)))

    assert out.count("17 * 3 = 54") == 2
    assert "17 3 54" not in out


def test_the_winner_of_a_vote_is_the_first_that_states_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    cast = {"agent": "ada", "mode": "REASONED"}
    given = ["10", "10 km", "10 km"]
    done = {
        "votes": [
            {**cast, "index": index, "answer": answer, "written": f"= {answer}"} for index, answer in enumerate(given)
        ],
        "groups": [{"answer": "10 km", "votes": [0, 1, 2], "without_unit": [0]}],
        "winner": "10 km",
        "outcome": "DECIDED",
        "stop_reason": "AGREED",
    }

    out = drawn(capsys, votes(from_rest(done, VoteFinished)))

    assert re.search(r"winner +(.*)", out)[1].strip() == "= 10 km"  # type: ignore[index]


def test_the_answer_of_a_task_is_the_first_vote_that_states_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    won = {"won": True, "weight": 0.5}
    given = [
        {**won, "agent": "ada", "answer": "10", "written": "10", "unit_assumed": "km"},
        {**won, "agent": "ben", "answer": "10 km", "written": "10 km"},
    ]
    done = {"outcome": "ANSWERED", "answer": "10 km", "votes": given}

    out = drawn(capsys, task(from_rest(done, TaskFinished)))

    assert re.search(r"(?m)^answer +(\d.*)", out)[1].strip() == "10 km"  # type: ignore[index]


def test_an_undefined_measure_has_its_reason_and_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, arbitrated(ARBITRATION))

    novelty = next(line for line in out.splitlines() if line.startswith("novelty"))
    assert novelty.split(maxsplit=2)[:2] == ["novelty", "unknown"]
    assert "the encoder is away" in novelty
    assert "11 of 20 generations saved" in out
    assert "leader likely" in out


@pytest.mark.parametrize("counts", [{"12": 0}, {"12": 1, "13": -1}, {"12": 0, "13": 0}])
def test_counts_that_come_to_nothing_are_drawn(capsys: pytest.CaptureFixture[str], counts: dict[str, int]) -> None:
    out = drawn(capsys, arbitrated({**ARBITRATION, "solver": counts, "solver_invalid": 0, "arbiter": counts}))

    assert ("1.00" if 1 in counts.values() else "no sample") in out


def test_an_unknown_word_of_a_newer_arbiter_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, arbitrated({**ARBITRATION, "mode": "LATER", "stopping_reason": "LATER"}))

    assert "unknown, full; 11 of 20 generations saved" in out


def test_an_abstention_of_the_arbiter_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    nothing: dict[str, Any] = {
        "answer": "",
        "outcome": "ABSTAINED",
        "confidence": None,
        "answer_source": None,
        "solver": {},
        "arbiter": {},
    }

    out = drawn(capsys, arbitrated({**ARBITRATION, **nothing}))

    assert "no sample holds a valid answer" in out
    assert re.search(r"confidence +unknown", out)


def test_the_confidence_of_the_papers_example_is_below_its_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, assessed(ASSESSMENT))

    assert out.splitlines()[1].split() == [
        "gamma",
        "~0.45",
        "0.27",
        "of",
        "9",
        "0.18",
        "~0.378",
        "0.500",
        "below",
    ]


def test_only_a_recalibrated_rating_is_shown_without_the_mark(capsys: pytest.CaptureFixture[str]) -> None:
    recalibrated = {**ASSESSMENT, "verbalized_state": "FITTED", "verbalized_labels": 40}

    out = drawn(capsys, assessed(recalibrated))

    assert out.splitlines()[1].split()[1] == "0.45"


def test_an_agent_without_a_rating_is_unknown_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    unrated = {"verbalized": None, "disagreement": None, "unknown_reason": "unparseable", "confidence": 0.5}
    barred = {"eligible": False, "ineligible_reason": "too few observations"}

    out = drawn(capsys, assessed({**ASSESSMENT, **unrated, **barred}))

    assert "unknown (unparseable)" in out
    assert "not eligible: too few observations" in out


def test_a_delegation_is_printed_with_its_reason_and_the_profile_updates(capsys: pytest.CaptureFixture[str]) -> None:
    done = {
        **SPENT,
        "task_id": "t-1",
        "answer": "40",
        "outcome": "ANSWERED",
        "assessments": [ASSESSMENT],
        "votes": [],
        "decision": {"mode": "DELEGATED", "first_agent": "gamma", "executor": "alpha", "reason": "better_peer"},
        "dimensions": [{"dimension": "math_computation", "certainty": None}],
        "confidence": 0.72,
        "confidence_source": "COMBINED",
        "label": {"correct": True, "checker": "EXPECTED", "detail": "equal"},
        "profile_updates": [
            {"agent": "alpha", "dimension": "math_computation", "competence_before": 0.5, "competence_after": 0.55}
        ],
    }

    out = drawn(capsys, task(from_rest(done, TaskFinished)))

    assert "gamma delegates to alpha: better peer" in out
    assert "~0.72 from combined; uncalibrated, not a probability" in out
    assert "right, by expected: equal" in out
    assert "alpha in math_computation: 0.500 to 0.550" in out


def test_a_panel_is_printed_with_its_order_and_why_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    answered = [
        {"agent": agent, "answer": "40", "weight": 0.4, "won": True, "failure": ""} for agent in ("beta", "alpha")
    ]
    done = {
        **SPENT,
        "task_id": "t-1",
        "answer": "40",
        "outcome": "ANSWERED",
        "assessments": [ASSESSMENT],
        "votes": answered,
        "decision": {
            "mode": "COLLABORATED",
            "first_agent": "gamma",
            "executor": "",
            "reason": "no_agent_confident",
            "panel": ["beta", "alpha", "gamma"],
        },
        "panel_stop": "AGREED",
        "dimensions": [],
        "confidence": 0.576,
        "confidence_source": "VOTE",
        "confidence_state": "PRIOR",
        "label": None,
        "profile_updates": [],
    }

    out = drawn(capsys, task(from_rest(done, TaskFinished)))

    assert "beta, alpha, gamma answer in turn until two agree: no agent confident" in out
    assert "2 of 3 asked: two agree" in out
    assert "0.58 from vote; probability by the prior, without labels" in out


def vote(index: int, answer: str | None, **more: object) -> dict[str, object]:
    facts: dict[str, object] = {
        "index": index,
        "agent": "",
        "mode": "REASONED",
        "model": "small",
        "answer": answer,
        "invalid_reason": "",
        "completion_tokens": 12,
        "changed_lead": False,
    }
    return {**facts, **more}


def test_votes_are_drawn_in_their_order_with_how_the_vote_ended(capsys: pytest.CaptureFixture[str]) -> None:
    done = {
        "votes": [
            vote(0, "4", mode="DRAFT", completion_tokens=None, changed_lead=True),
            vote(1, None, invalid_reason="the program printed nothing", mode="PROGRAM"),
            vote(2, "4", agent="ada"),
        ],
        "groups": [{"answer": "4", "votes": [0, 2], "log_odds": 0.0}],
        "evidence": {},
        "winner": "4",
        "outcome": "DECIDED",
        "invalid": 1,
        "stop_reason": "AGREED",
        "left_out": ["bob reasoned: BACKEND_UNAVAILABLE"],
    }

    show_account(from_rest({"deliberation": done}, Run))

    shown = capsys.readouterr().out
    assert "decided: 2 of 2 valid votes agree" in shown
    assert "(invalid: the program printed nothing)" in shown
    assert "bob reasoned: BACKEND_UNAVAILABLE" in shown
    rows = [line.split() for line in shown.splitlines() if line.strip()[:1].isdigit()]
    assert [row[1] for row in rows] == ["small", "small", "ada"]


def test_the_state_measured_by_votes_has_its_parts_and_the_reasons_of_unknown_ones() -> None:
    measured = {
        "correctness": 0.873,
        "conflict": 0.333,
        "parts": {"source_disagreement": 0.5},
        "unknown_reasons": {"experience": "nothing near", "instability": "no earlier run"},
    }

    with stdout.capture() as drawn:
        show_measured_state(from_rest({"state": measured}, Run))
        show_measured_state(from_rest({"state": None}, Run))

    lines = [" ".join(line.split()) for line in drawn.get().splitlines()]
    assert sum("state measured by the votes" in line for line in lines) == 1
    assert any(line.startswith("CE correctness") and line.endswith("0.873") for line in lines)
    assert any(line.startswith("source disagreement") and line.endswith("0.500") for line in lines)
    assert "instability unknown no earlier run" in lines
    assert "EM experience unknown nothing near" in lines


def test_a_component_that_was_not_measured_on_the_question_says_what_it_rests_on() -> None:
    before = {"correctness": 0.5, "importance": 0.2, "parts": {"prior_share": 0.5, "importance_by_policy": 0.2}}

    with stdout.capture() as drawn:
        stdout.print(state(from_rest(before, MSV)))

    assert "share right of the prior; no label yet" in drawn.get()
    assert "fixed by policy" in drawn.get()


ROUTE: dict[str, Any] = {
    "system": "SYSTEM_TWO",
    "strategy": "vote",
    "reason": "gain",
    "policy_row": "",
    "decided_by": "GAIN",
    "kind": "math_computation",
    "kind_unknown_reason": "",
    "gain": {"labels": 23, "system_one": 0.45, "system_two": 0.7, "gain": 0.25, "shrunk": 0.21, "minimum": 0.15},
}


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        (
            {},
            [
                "SYSTEM TWO vote: what System 2 gains on this kind decides",
                "decided by what System 2 gains on questions of this kind",
                "kind math computation",
                "gain of System 2 +0.21 by 23 labels (0.45 to 0.70 right); pays from +0.15",
            ],
        ),
        (
            {"reason": "activation", "decided_by": "ACTIVATION", "gain": {**ROUTE["gain"], "labels": 12}},
            ["decided by the activation", "gain of System 2 not yet: 12 of 20 labels"],
        ),
        (
            {"reason": "activation", "decided_by": "ACTIVATION", "gain": None},
            ["gain of System 2 not yet: 0 of 20 labels"],
        ),
        (
            {"decided_by": "ACTIVATION", "kind": "", "gain": None, "kind_unknown_reason": "ENCODER_UNAVAILABLE: away"},
            ["kind unknown (ENCODER_UNAVAILABLE: away)"],
        ),
    ],
)
def test_a_decision_says_which_rule_made_it_with_kind_and_gain(
    changed: dict[str, Any], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    stdout.print(decision(from_rest({**ROUTE, **changed}, RouteResponse)))

    drawn = capsys.readouterr().out
    assert max(map(len, drawn.splitlines())) <= 80
    words = " ".join(drawn.split())
    for line in shown:
        assert line in words


def test_a_decision_of_an_earlier_version_is_drawn_without_rule_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    earlier = {"system": "SYSTEM_ONE", "strategy": "system1", "reason": "activation"}

    stdout.print(decision(from_rest(earlier, RouteResponse)))

    assert "decided by" not in capsys.readouterr().out
