"""The panel of the answer says what the cost guard allowed."""

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
