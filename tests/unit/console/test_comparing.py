from console.comparison import comparison
from tests.unit.console.runs import deliberated, run


def test_two_runs_are_compared_and_unknown_values_are_not_subtracted() -> None:
    first = deliberated(confidence=0.5)
    second = run("system1", duration_ms=2_500.0)

    rows = {row.name: row for row in comparison(first, second)}

    assert (rows["strategy"].first, rows["strategy"].second, rows["strategy"].differs) == ("dialectic", "system1", True)
    assert (rows["time [s]"].difference, rows["model"].differs) == ("-7.5", False)
    assert (rows["confidence"].first, rows["confidence"].second) == ("0.50", "unknown")
    assert (rows["confidence"].difference, rows["confidence"].differs) == ("", True)
