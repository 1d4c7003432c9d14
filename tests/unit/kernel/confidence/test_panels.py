"""A sequential panel, computed by hand."""

import pytest

from kernel.answers import AnswerType
from kernel.confidence.panels import PanelMember, PanelStop, count_panel, panel_evidence, panel_order, panel_stop
from kernel.confidence.voting import Ballot


def member(agent: str, competence: float, confidence: float = 0.0) -> PanelMember:
    return PanelMember(agent=agent, competence=competence, confidence=confidence)


def ballots(*votes: tuple[str | None, float]) -> list[Ballot]:
    return [
        Ballot(agent=name, answer=answer, weight=weight) for name, (answer, weight) in zip("abcde", votes, strict=False)
    ]


def stop(*answers: str | None) -> PanelStop | None:
    count = count_panel(ballots(*((answer, 0.5) for answer in answers)), AnswerType.NUMBER)
    return panel_stop(count, asked=len(answers), members=5)


def test_the_more_competent_are_asked_first_then_the_more_confident_then_by_name() -> None:
    members = [member("d", 0.5, 0.1), member("c", 0.5, 0.1), member("b", 0.5, 0.3), member("a", 0.4, 0.9)]

    assert panel_order([*members, member("e", 0.6)]) == ("e", "b", "c", "d", "a")


def test_a_panel_ends_when_two_agree_or_all_were_asked() -> None:
    assert stop("4") is None
    assert stop("4", "5") is None
    assert stop("4", "4.0") is PanelStop.AGREED
    assert stop("4", "5", None, "5") is PanelStop.AGREED
    assert stop("4", "5", None, "6") is None
    assert stop("4", "5", None, "6", "7") is PanelStop.ALL_ASKED
    assert stop("4", "5", None, "6", "6") is PanelStop.AGREED


def test_two_answers_that_cannot_be_read_do_not_agree() -> None:
    assert stop(None, None) is None


def test_two_that_agree_win_over_one_of_more_weight_and_else_the_weights_decide() -> None:
    agreed = count_panel(ballots(("4", 0.9), ("5", 0.3), ("5", 0.2)), AnswerType.NUMBER)
    alone = count_panel(ballots(("4", 0.3), ("5", 0.9), ("6", 0.4)), AnswerType.NUMBER)

    assert (agreed.answer, alone.answer) == ("5", "5")
    assert agreed.share == pytest.approx(0.5 / 1.4, abs=1e-9)
    assert alone.share == pytest.approx(0.9 / 1.6, abs=1e-9)


def test_of_two_pairs_the_one_of_more_weight_wins() -> None:
    count = count_panel(ballots(("4", 0.1), ("5", 0.3), ("6", 0.9), ("4", 0.4), ("5", 0.3)), AnswerType.NUMBER)

    assert (count.answer, count.weights) == ("5", {"5": 0.6, "4": 0.5, "6": 0.9})


def test_the_evidence_of_a_panel_counts_its_agreeing_agents_and_their_models() -> None:
    count = count_panel(ballots(("4", 0.1), ("5", 0.3), ("5", 0.9)), AnswerType.NUMBER)

    evidence = panel_evidence(count, ["one", "one"])

    assert evidence is not None
    assert (evidence.agreeing, evidence.valid, evidence.models) == (2, 3, 1)
    assert panel_evidence(count_panel(ballots((None, 0.5)), AnswerType.NUMBER), []) is None
