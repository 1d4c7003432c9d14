from types import SimpleNamespace
from typing import Any

from metacog.assigner.v1.assigner_pb2 import RolesAssigned

from chassis.serving.wire import from_rest
from console.site import drawn

OPTIMUM: dict[str, Any] = {
    "assignment": {"EXPERT": "ada"},
    "total_fitness": 0.7,
    "fitness": {"EXPERT": {"ada": 0.7, "ben": 0.7}},
    "terms": {},
    "weights": {},
    "margins": {"EXPERT": 0.0},
    "greedy": {"assignment": {"EXPERT": "ada"}, "total_fitness": 0.7},
    "partial": [],
}


def panel(**of_optimum: Any) -> str:  # noqa: ANN401
    roles = {
        "assignment_kind": "OPTIMAL",
        "assignment": {"EXPERT": "ada"},
        "total_fitness": 0.7,
        "optimum": {**OPTIMUM, **of_optimum},
        "reason": "",
    }
    return drawn(
        "panels/assignment.html",
        picture=SimpleNamespace(strategy="dialectic", roles=from_rest(roles, RolesAssigned), assessed=[], is_over=True),
    )


def test_a_tie_is_called_a_tie_and_never_optimal() -> None:
    shown = panel(tie=True)

    assert "tie: another assignment has the same total" in shown
    assert "optim" not in shown.lower()


def test_without_a_tie_the_assignment_has_the_largest_total() -> None:
    assert "assignment with the largest total" in panel(tie=False)
    assert "assignment with the largest total" in panel()  # a run that an earlier version recorded


def test_roles_that_could_not_be_kept_apart_are_named() -> None:
    shown = panel(tie=False, released=[{"first": "CRITIC", "second": "EVALUATOR"}])

    assert "Not kept apart, because the agents are too few: critic and evaluator." in shown
