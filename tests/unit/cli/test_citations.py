"""The command line shows which passages of documents an answer could use."""

from typing import Any

import pytest
from metacog.router.v1.router_pb2 import Run

from chassis.serving.wire import from_rest
from cli.answers.deliberations import show_citations
from cli.terminal.output import stdout

FIRST: dict[str, Any] = {
    "number": 1,
    "document_id": "depth",
    "title": "The fjord",
    "chunk": 0,
    "passage": "It is [bold]two hundred[/bold] metres deep.",
}
UNKNOWN = "ENCODER_UNAVAILABLE: the encoder is away"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"citations": [FIRST]}, "[1] The fjord (depth), chunk 1: It is [bold]two hundred[/bold] metres deep."),
        ({"citations": [{**FIRST, "title": "", "passage": ""}]}, "[1] depth, chunk 1"),
        ({"citations": []}, "no document is near"),
        ({"citations_unknown_reason": UNKNOWN}, f"unknown: {UNKNOWN}"),
    ],
    ids=["cited", "contents not stored", "nothing near", "unknown"],
)
def test_the_sources_of_an_answer_are_shown_as_they_are(run: dict[str, Any], said: str) -> None:
    with stdout.capture() as shown:
        show_citations(from_rest(run, Run))

    assert shown.get().splitlines()[1:] == [said]
    assert "sources" in shown.get()


def test_a_run_that_asked_for_no_sources_shows_nothing_of_them() -> None:
    with stdout.capture() as shown:
        show_citations(Run())

    assert shown.get() == ""
