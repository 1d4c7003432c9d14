"""The command line says what the cost guard of a run allowed."""

from typing import Any

import pytest
from metacog.router.v1.router_pb2 import Run

from chassis.serving.wire import from_rest
from cli.answers import drawing
from cli.records import runs
from cli.terminal.output import stdout

GUARD: dict[str, Any] = {
    "times_system1": 6.0,
    "draft_tokens": 20,
    "max_generated_tokens": 384,
    "not_started": "dialectic",
    "reason": "dialectic needs 416 tokens at least, and 364 are left of 384",
}
SAID = (
    "cost guard at most 6 times System 1 (20 tokens): 384 tokens; dialectic needs 416 tokens at least, and 364 are left"
)


@pytest.mark.parametrize("draw", [drawing.ending, runs._facts], ids=["ask", "runs show"])
def test_a_run_shows_its_cost_guard_and_one_without_shows_none(draw: Any) -> None:  # noqa: ANN401
    with stdout.capture() as guarded:
        stdout.print(draw(from_rest({"cost_guard": GUARD}, Run)))
    with stdout.capture() as free:
        stdout.print(draw(Run()))

    assert SAID in " ".join(guarded.get().split())
    assert "cost guard" not in free.get()
