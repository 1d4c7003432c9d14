"""The panel of the answer says what the cost guard allowed, and which passages of documents the answer could use."""

from typing import Any

import pytest
from metacog.router.v1.router_pb2 import RunFinished

from console.run_events import pictured
from console.site import drawn
from tests.unit.console.runs import run

GUARD: dict[str, Any] = {
    "times_system1": 6.0,
    "draft_tokens": None,
    "max_generated_tokens": 384,
    "not_started": "",
    "reason": "",
}


@pytest.mark.parametrize(("guard", "shown"), [(GUARD, True), (None, False)])
def test_a_run_shows_its_cost_guard(guard: dict[str, Any] | None, shown: bool) -> None:
    finished = RunFinished(run=run("system1", cost_guard=guard))

    panel = drawn("panels/answer.html", picture=pictured([("run_finished", finished)]))

    assert ("Cost guard: at most 6 times System 1: 384 tokens." in panel) is shown


CITED: dict[str, Any] = {
    "number": 1,
    "document_id": "depth",
    "title": "The <b>fjord</b>",
    "chunk": 0,
    "passage": "Two hundred metres.",
}


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        (
            {"citations": [CITED]},
            ["Sources (1)", "[1] The &lt;b&gt;fjord&lt;/b&gt;", "depth, chunk 1", "Two hundred metres."],
        ),
        ({"citations": []}, ["Sources: no document is near."]),
        (
            {"citations_unknown_reason": "ENCODER_UNAVAILABLE: it is away"},
            ["Sources unknown: ENCODER_UNAVAILABLE: it is away"],
        ),
    ],
    ids=["cited", "nothing near", "unknown"],
)
def test_a_run_shows_its_sources(about: dict[str, Any], shown: list[str]) -> None:
    finished = RunFinished(run=run("system1", **about))

    panel = drawn("panels/answer.html", picture=pictured([("run_finished", finished)]))

    assert [each for each in shown if each not in panel] == []


def test_a_run_that_asked_for_no_sources_shows_nothing_of_them() -> None:
    finished = RunFinished(run=run("system1"))

    panel = drawn("panels/answer.html", picture=pictured([("run_finished", finished)]))

    assert "Sources" not in panel
