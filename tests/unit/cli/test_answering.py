"""A run as it is shown, event by event."""

from collections.abc import Iterator
from typing import Any

import pytest
from metacog.router.v1.router_pb2 import AnswerResponse

from chassis.serving.wire import from_rest
from cli.answers.answer_events import AnswerPrinter, ExplanationPrinter
from cli.terminal.client import Reply, Service, Unreachable
from cli.terminal.output import ProgressLine
from tests.unit.cli.running import Metacog

ROUTE: dict[str, Any] = {
    "system": "SYSTEM_TWO",
    "strategy": "dialectic",
    "reason": "activation",
    "activation": {
        "value": 0.5575,
        "threshold": 0.45,
        "terms": {"correctness": 0.2, "conflict": 0.3575},
        "unknown": ["experience"],
        "weights": {"correctness": 0.3, "conflict": 0.25, "importance": 0.25, "experience": 0.2},
    },
    "msv": {
        "correctness": 0.45,
        "conflict": 0.72,
        "experience": None,
        "unknown_reasons": {"experience": "nothing stored"},
    },
}
USAGE = {"completion_tokens": 7, "generations": 2, "stages": {"thesis": {"completion_tokens": 7}}}


def run(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "run": {
            "run_id": "r-1",
            "route": ROUTE,
            "strategy": "dialectic",
            "model": "m",
            "answer": "It is 7 times 13.",
            "outcome": "ANSWERED",
            "confidence": 0.7,
            "confidence_raw": 0.9,
            "confidence_source": "assessment",
            "deliberation": None,
            "usage": USAGE,
            "degraded": False,
            "degraded_reasons": [],
            "budget_exhausted": False,
            "duration_ms": 1200.0,
            **more,
        }
    }


def tokens(*pieces: str) -> list[tuple[str, Any]]:
    return [("answer_token", {"text": piece}) for piece in pieces]


def received(event: tuple[str, Any]) -> Reply[AnswerResponse]:
    """An event as the client has it."""
    return Reply(message=from_rest(dict([event]), AnswerResponse), document=event[1])


def streamed(capsys: pytest.CaptureFixture[str], *events: tuple[str, Any]) -> tuple[str, str]:
    AnswerPrinter(ProgressLine()).follow(map(received, events))
    expected_text = capsys.readouterr()
    return expected_text.out, expected_text.err


def explained(capsys: pytest.CaptureFixture[str], *events: tuple[str, Any]) -> str:
    ExplanationPrinter(ProgressLine()).follow(map(received, events))
    return capsys.readouterr().out


def test_only_the_answer_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = streamed(
        capsys, ("run_started", {}), ("routed", ROUTE), *tokens(" It is", " 7 times 13."), ("run_finished", run())
    )

    assert out == "It is 7 times 13.\n"
    assert "SYSTEM TWO · dialectic · confidence ~0.70 (assessment, uncalibrated) · 7 tokens · 1.2 s · run r-1" in err


def test_an_answer_that_was_not_streamed_is_shown_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = streamed(capsys, ("run_finished", run()))

    assert out == "It is 7 times 13.\n"


def test_text_before_a_fallback_is_dropped_and_the_new_answer_follows(capsys: pytest.CaptureFixture[str]) -> None:
    fell = {"from_strategy": "dialectic", "to_strategy": "system1", "reason": "PEER_UNAVAILABLE", "message": "away"}
    finished = run(degraded=True, degraded_reasons=["dialectic: away"])

    out, err = streamed(
        capsys, *tokens("It may"), ("fell_back", fell), *tokens("It is 7 times 13."), ("run_finished", finished)
    )

    assert out == "It may\nIt is 7 times 13.\n"
    assert "dialectic failed (PEER_UNAVAILABLE: away); the fallback is system1" in err
    assert "degraded: dialectic: away" in err


def test_a_model_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = streamed(
        capsys, *tokens("\x1b]0;title\x07 [bold]x"), ("run_finished", run(answer="\x1b]0;title\x07 [bold]x"))
    )

    assert "\x1b" not in out
    assert "[bold]x" in out


def test_an_abstention_and_an_unknown_confidence_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = streamed(capsys, ("run_finished", run(outcome="ABSTAINED", confidence=None, confidence_source="")))

    assert "confidence unknown" in err
    assert "abstained" in err


def test_a_stream_that_ends_early_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unreachable, match="before the answer was complete"):
        streamed(capsys, *tokens("It"))


def test_the_decision_is_drawn_with_its_terms_and_the_unknown_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    out = explained(capsys, ("routed", ROUTE), ("run_finished", run()))

    assert "SYSTEM TWO  dialectic: the activation decides" in out
    assert "activation 0.557 reaches the threshold 0.45" in out
    assert "1 - correctness" in out
    assert "left out, the others rescaled" in out
    assert "nothing stored" in out
    assert "0.70 from assessment, 0.90 before recalibration" in out


def test_the_synthesis_is_shown_once_though_it_is_the_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    stage = {"stage": "SYNTHESIS", "role": "SYNTHESIZER", "agent": "eve", "model": "m", "attempt": 1}
    done = {**stage, "succeeded": True, "failure": "", "truncated": True, "shortened_inputs": ["thesis"]}

    out = explained(
        capsys,
        ("stage_started", stage),
        ("stage_token", {"stage": "SYNTHESIS", "text": "It is 7 times 13."}),
        *tokens("It is 7 times 13."),
        ("stage_finished", done),
        ("run_finished", run()),
    )

    assert out.count("It is 7 times 13.") == 1
    assert "synthesis: synthesizer eve" in out
    assert "it ended at its token limit; shortened for it: thesis" in out


def test_the_matrix_marks_the_chosen_cells_and_where_greedy_differs(capsys: pytest.CaptureFixture[str]) -> None:
    optimum = {
        "assignment": {"EXPERT": "ada", "CRITIC": "ben"},
        "total_fitness": 1.5,
        "fitness": {"EXPERT": {"ada": 0.7, "ben": 0.8}, "CRITIC": {"ada": None, "ben": 0.8}},
        "margins": {"EXPERT": 0.2, "CRITIC": None},
        "greedy": {"assignment": {"EXPERT": "ben", "CRITIC": "ada"}, "total_fitness": 1.3},
    }
    roles = {"optimum": optimum, "assignment": optimum["assignment"], "reason": ""}

    out = explained(capsys, ("roles_assigned", roles), ("run_finished", run()))

    expert, critic = (next(line for line in out.splitlines() if line.startswith(role)) for role in ("expert", "critic"))
    assert expert.split() == ["expert", "[0.700]", "0.800", "0.200", "ben"]
    assert critic.split() == ["critic", "unknown", "[0.800]", "only", "choice", "ada"]
    assert "total fitness 1.500, greedy first-available 1.300, gain 0.200" in out


def test_the_matrix_calls_a_tie_a_tie_and_names_roles_that_are_not_apart(capsys: pytest.CaptureFixture[str]) -> None:
    optimum = {
        "assignment": {"EXPERT": "ada"},
        "total_fitness": 0.7,
        "fitness": {"EXPERT": {"ada": 0.7, "ben": 0.7}},
        "margins": {"EXPERT": 0.0},
        "greedy": None,
        "tie": True,
        "released": [{"first": "CRITIC", "second": "EVALUATOR"}],
    }
    roles = {"optimum": optimum, "assignment": optimum["assignment"], "reason": ""}

    out = explained(capsys, ("roles_assigned", roles), ("run_finished", run()))

    assert "tie: another assignment has the same total fitness" in out
    assert "not kept apart, because the agents are too few: critic and evaluator" in out
    assert "optimal" not in out


def test_the_state_after_each_stage_and_the_note_stand_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    dialectic = {
        "measurements": [
            {
                "stage": "THESIS",
                "msv": {"correctness": 0.4, "conflict": 0.6, "experience": 0.7, "emotional_response": 0},
            },
            {
                "stage": "SYNTHESIS",
                "msv": {"correctness": None, "conflict": 0.1, "unknown_reasons": {"correctness": "budget"}},
            },
        ],
        "note": "Ask a doctor.",
        "note_reason": "importance 0.90 reaches 0.70",
    }

    out = explained(capsys, ("run_finished", run(deliberation=dialectic)))

    synthesis = next(line for line in out.splitlines() if line.startswith("synthesis"))
    assert ("unknown" in synthesis, "budget" in synthesis, "0.100" in synthesis) == (True, True, True)
    thesis = next(line for line in out.splitlines() if line.startswith("thesis"))
    assert thesis.split()[-2:] == ["0.700", "0.000"]
    assert "Ask a doctor." in out
    assert "importance 0.90 reaches 0.70" in out


def test_the_options_of_a_vote_reach_the_router(metacog: Metacog, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    def stream(_self: Service, path: str, body: dict[str, Any], _kind: object) -> Iterator[Reply[AnswerResponse]]:
        sent.append({"path": path, **body})
        return iter([received(("run_finished", run()))])

    monkeypatch.setattr(Service, "stream", stream)

    votes = metacog("ask", "What is 2 + 2?", "--strategy", "vote", "--agree", 3, "--most", 7, "--json")
    named = ("--source", "small", "--source", "agent:ada,program", "--ahead", 2)
    sources = metacog("ask", "What is 2 + 2?", "--strategy", "vote", *named, "--json")
    plain = metacog("ask", "What is 2 + 2?", "--json")

    assert (votes.status, sources.status, plain.status) == (0, 0, 0)
    assert [one.get("vote") for one in sent] == [
        {"agree": 3, "most": 7},
        {"sources": [{"model": "small"}, {"agent": "ada", "mode": "PROGRAM"}], "ahead": 2},
        None,
    ]
    assert sent[0]["strategy"] == "vote"
