"""The error of recalibrated confidences on labels that the map has not seen, by kind."""

import numpy as np
import pytest
from metacog.router.v1.router_pb2 import RouteResponse, Run, RunFeedback

from evals.calibration.figures import ALL, LabelledAnswers, calibration_by_kind, error_interval
from evals.calibration.report import held_claim, report
from evals.calibration.sources import answers_of_records, labelled_answers
from evals.stats.chance import seeded
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.recalibration import cross_fitted
from kernel.statistics.reliability import calibration_error

QUESTIONS = 1_000


def answers(stated: float, right: float, kinds: int = 2) -> LabelledAnswers:
    """Answers whose confidence lies about `stated`, of which the share `right` is right."""
    rng = np.random.default_rng(1)
    confidences = np.clip(rng.normal(stated, 0.05, (QUESTIONS, 1)), 0, 1)
    scores = (rng.random((QUESTIONS, 1)) < right).astype(float)
    return LabelledAnswers(
        source="votes", kinds=[f"kind {at % kinds}" for at in range(QUESTIONS)], confidences=confidences, scores=scores
    )


def test_a_map_takes_away_what_is_too_sure_on_labels_it_has_not_seen() -> None:
    found = calibration_by_kind(answers(stated=0.9, right=0.6), seeded(0, 200))

    assert [one.kind for one in found] == [ALL, "kind 0", "kind 1"]
    assert [one.labels for one in found] == [QUESTIONS, QUESTIONS // 2, QUESTIONS // 2]
    whole = found[0]
    assert whole.before.value == pytest.approx(0.3, abs=0.04)  # .9 stated, .6 right
    assert whole.after.value is not None
    assert whole.after.value < 0.05
    assert whole.brier_after < whole.brier_before
    assert held_claim(whole.before) == "does not hold"
    assert held_claim(whole.after) == "holds"


def test_no_label_helps_to_calibrate_its_own_answer() -> None:
    # Confidences that say nothing: a map that saw the labels themselves would follow their noise.
    rng = np.random.default_rng(2)
    confidences, scores = rng.random(300), (rng.random(300) < 0.5).astype(float)
    served = cross_fitted(confidences, scores)

    flipped = scores.copy()
    flipped[0] = 1 - flipped[0]

    assert cross_fitted(confidences, flipped)[0] == pytest.approx(served[0], abs=0.05)
    assert np.mean((served - scores) ** 2) > 0.24


def test_few_labels_give_no_map_and_leave_the_confidence_as_it_is() -> None:
    confidences, scores = [0.9, 0.8] * 40, [0.0, 1.0] * 40

    assert cross_fitted(confidences, scores).tolist() == confidences


def test_an_answer_that_a_system_did_not_give_counts_for_none() -> None:
    confidences = np.array([[0.75, np.nan], [0.75, 0.5]] * 30)
    scores = np.array([[1.0, np.nan], [0.0, 1.0]] * 30)

    found = error_interval(confidences, scores, seeded(0, 200))

    # .75 stated and half right: .25; .5 stated and all right: .5
    assert found.value == pytest.approx((0.25 + 0.5) / 2)


def test_few_labels_have_no_interval() -> None:
    few = error_interval(np.full((19, 1), 0.5), np.ones((19, 1)), seeded(0, 200))

    assert (few.value, few.low, few.high) == (0.5, None, None)
    assert held_claim(few) == "too few labels"


def test_the_interval_is_not_moved_by_what_drawing_again_adds() -> None:
    rng = np.random.default_rng(3)
    confidences = rng.random((500, 1))
    scores = (rng.random((500, 1)) < confidences).astype(float)

    found = error_interval(confidences, scores, seeded(0, 500))

    assert found.value == calibration_error(confidences[:, 0], scores[:, 0])
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


def run(kind: str, raw: float | None, *scores: float, teaches: bool = True) -> Run:
    return Run(
        strategy="vote",
        confidence_source="votes",
        confidence_raw=raw,
        route=RouteResponse(kind=kind),
        feedback=[RunFeedback(score=score, teaches=teaches) for score in scores],
    )


def test_runs_count_with_the_confidence_before_the_map_and_a_label_that_teaches() -> None:
    runs = [
        run("sums", 0.8, 1.0),
        run("", 0.6, 0.0),
        run("sums", None, 1.0),
        run("sums", 0.9),
        run("sums", 0.9, 1.0, teaches=False),
    ]

    records = labelled_answers(runs)
    [found] = answers_of_records(records)

    assert records[0].keys() == {"kind", "id", "source", "question_kind", "confidence", "score"}

    assert (found.source, list(found.kinds)) == ("vote, votes", ["sums", ""])
    assert (found.confidences.tolist(), found.scores.tolist()) == ([[0.8], [0.6]], [[1.0], [0.0]])


def test_a_report_has_its_command_and_a_table_for_each_source() -> None:
    text = report(calibration_by_kind(answers(0.7, 0.7), seeded(0, 50)), "metacog eval calibration --seed 0")

    assert "`metacog eval calibration --seed 0`" in text
    assert "## votes" in text
    assert "| kind 1 | 500 |" in text
    assert "No labelled answer has a confidence." in report([], "metacog eval calibration")


@pytest.mark.parametrize(
    ("low", "high", "claim"), [(0.01, 0.087, "holds"), (0.05, 0.1, "undecided"), (0.09, 0.2, "does not hold")]
)
def test_the_claimed_error_is_held_against_the_whole_interval(low: float, high: float, claim: str) -> None:
    assert held_claim(Estimate(value=0.08, low=low, high=high, items=100, resamples=100)) == claim
