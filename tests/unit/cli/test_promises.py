"""`metacog calibrate --promise`, `metacog ask --promise` and the line on a run, as a person reads them."""

import json
from typing import Any

import pytest
from metacog.router.v1.router_pb2 import Run

from chassis.json_text import dumps
from chassis.serving.wire import from_rest
from chassis.shared_results import SharedResults
from cli.answers.drawing_answers import promised
from kernel.votes.agreement import AgreementLevel
from services.router.core.feedback import LabelOrigin
from services.router.service.calibration.promises import PromiseCounts, Promises, StoredPromiseLabel
from services.router.service.calibration.values import GetPromisesRequest
from services.router.service.runs.values import RunAgreement
from tests.support.models.scripted_service import ScriptedService
from tests.unit.cli.running import Metacog

REPORT = "GET /v1/promises"
SURE, UNSURE = AgreementLevel(agreeing=2), AgreementLevel(agreeing=2, against=1)


class Labels:
    """Labels of votes that were drawn at random."""

    def __init__(self, *counted: tuple[int, AgreementLevel, bool]) -> None:
        self._counted = counted

    async def promise_labels(self, after: int, /) -> list[StoredPromiseLabel]:
        """Return those after a number."""
        answers = [(level, right) for count, level, right in self._counted for _ in range(count)]
        return [
            StoredPromiseLabel(
                number=number,
                owner="",
                question=str(number),
                origin=LabelOrigin.EXAM,
                version="v1",
                model="",
                kind="",
                agreement=RunAgreement(first=level, first_stands=True, last=level, went_on=False, version="v1"),
                is_right=right,
            )
            for number, (level, right) in enumerate(answers, 1)
            if number > after
        ]

    async def promise_counts(self) -> PromiseCounts:
        """Return how many there are."""
        return PromiseCounts(labels=sum(count for count, _, _ in self._counted))


async def reported(labels: Labels, error_at_most: float) -> Any:  # noqa: ANN401
    """What the router reports of these labels."""
    promises = Promises(labels)
    await promises.refresh()
    request = GetPromisesRequest(error_at_most=error_at_most)
    return json.loads(dumps(await promises.report(request, owner="", shared=SharedResults())))


async def test_the_report_shows_what_is_proved_and_what_an_exam_would_buy(
    metacog: Metacog, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    service.reply(REPORT, json=await reported(Labels((80, SURE, True), (20, UNSURE, False)), 0.1))

    done = metacog("calibrate", "--promise", 0.1, "--router", service.url)

    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert done.status == 0
    assert "promise at most 10 % errors among the answers that are given" in lines
    assert "all others first stop 100 100 2 to 0 80 % 200" in lines
    assert "2 to 0 80 0 5.3 % proved" in lines  # no error among 80: 1 - .0125^(1/80)
    assert "2 to 1 100 20 30.5 % not proved" in lines  # 20 of 100: the quantile .9875 of Beta(21, 80)
    assert "It holds for requests like the labelled ones." in lines
    assert all(len(line.rstrip()) <= 80 for line in done.out.splitlines() if line.startswith(("kind", "all others")))


async def test_without_labels_the_report_says_how_to_get_some(metacog: Metacog, service: ScriptedService) -> None:
    service.reply(REPORT, json=await reported(Labels(), 0.05))

    done = metacog("calibrate", "--promise", 0.05, "--router", service.url)

    assert "no label can prove a promise yet: it takes labels of an exam" in " ".join(done.out.split())


def test_a_promise_is_reported_without_options_of_other_choices(metacog: Metacog, service: ScriptedService) -> None:
    done = metacog("calibrate", "--promise", 0.05, "--share", 0.3, "--router", service.url)

    assert (done.status, service.asked) == (2, [])
    assert "--promise" in done.err


def test_a_run_says_what_became_of_its_promise() -> None:
    found = {"state": "NOT_APPLIED", "stage": None, "error_at_most": 0.05, "labels": 0, "reason": "it has tools"}

    assert promised(from_rest({"promise": found}, Run)) == "at most 5 % errors: not applied, it has tools"
    assert promised(Run()) == ""
