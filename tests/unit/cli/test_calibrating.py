"""What `metacog calibrate` reads off a router."""

from typing import Any

from metacog.router.v1.router_pb2 import Run

from chassis.serving.wire import from_rest
from cli.calibration.activation_weights import choice_in_force
from cli.calibration.recorded_decisions import runs_of
from cli.terminal.client import Reply

ACTIVATION = {
    "weights": {"correctness": 0.4, "conflict": 0.3, "importance": 0.2, "experience": 0.1},
    "threshold": 0.6,
}


class Router:
    """A router with these runs."""

    def __init__(self, *runs: Run) -> None:
        self._runs = runs

    def pages(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - as the client has it
        return (Reply(message=run, document={}) for run in self._runs)


def run(cached_from: str = "", run_id: str = "r") -> Run:
    route = {"msv": {"correctness": 0.5}, "activation": ACTIVATION, "cached_from": cached_from}
    return from_rest({"run_id": run_id, "route": route}, Run)


def test_runs_with_a_cached_decision_are_left_out() -> None:
    own, kept = run(run_id="own"), run(run_id="kept", cached_from="own")

    assert [found.run_id for found in runs_of(Router(kept, own, Run()), limit=10)] == ["own"]  # type: ignore[arg-type]


def test_the_choice_in_force_is_the_routers_own() -> None:
    choice = choice_in_force(None, run(), "SYSTEM_ONE")

    assert (choice.weights, choice.threshold) == ((0.4, 0.3, 0.2, 0.1), 0.6)
    assert choice.undetermined == "SYSTEM_ONE"
    assert choice_in_force(None, None, "SYSTEM_ONE").undetermined == "SYSTEM_ONE"
