from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.routing import RoutingFile, Weights, read_routing
from kernel.errors import Code

WHOLE = """\
version: spring
weights: {correctness: 0.4, conflict: 0.3, importance: 0, experience: 0.3}
threshold: 0.5
undetermined: SYSTEM_ONE
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "routing.yaml"


def test_a_routing_file_is_read_as_it_is_written(file: Path) -> None:
    file.write_text(WHOLE)

    assert read_routing(file) == RoutingFile(
        version="spring",
        weights=Weights(correctness=0.4, conflict=0.3, importance=0.0, experience=0.3),
        threshold=0.5,
        undetermined="SYSTEM_ONE",
    )


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("threshold: 0", RoutingFile(threshold=0.0)),
        ("threshold: 1", RoutingFile(threshold=1.0)),
        ("version: v-2026/11", RoutingFile(version="v-2026/11")),
        ("undetermined: SYSTEM_TWO", RoutingFile(undetermined="SYSTEM_TWO")),
    ],
)
def test_every_key_may_stand_alone(file: Path, source: str, content: RoutingFile) -> None:
    file.write_text(source)

    assert read_routing(file) == content


def test_weights_that_sum_to_one_in_decimals_are_accepted(file: Path) -> None:
    file.write_text("weights: {correctness: 0.1, conflict: 0.2, importance: 0.3, experience: 0.4}")

    assert read_routing(file).weights is not None


WEIGHTS = "weights:\n  correctness: 0.3\n  conflict: 0.25\n  importance: 0.25\n"


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("version: a\ntreshold: 0.5\n", 2, "treshold: there is no such key"),
        ("weights:\n  correctnes: 1\n", 2, "weights.correctness: it is missing, and must be given"),
        (f"{WEIGHTS}", 2, "weights.experience: it is missing, and must be given"),
        (f"{WEIGHTS}  experience: 0.2\n  urgency: 0\n", 6, "weights.urgency: "),
        (f"{WEIGHTS}  experience: 0.3\n", 2, "weights: they must sum to 1; they sum to 1.1"),
        (f"{WEIGHTS}  experience: -0.2\n", 5, "weights.experience: it is -0.2; it must lie in [0, 1]"),
        (f"{WEIGHTS}  experience: .nan\n", 5, "weights.experience: it is nan; it must lie in [0, 1]"),
        (f"{WEIGHTS}  experience: .inf\n", 5, "weights.experience: it is inf; it must lie in [0, 1]"),
        (f"{WEIGHTS}  experience: '0.2'\n", 5, "weights.experience: give a number"),
        (f"{WEIGHTS}  conflict: 0.2\n", 5, "conflict: stands twice, first in line 3"),
        ("weights: 0.25\n", 1, "weights: "),
        ("version: a\nthreshold: 45\n", 2, "threshold: it is 45.0; it must lie in [0, 1]"),
        ("threshold: .nan\n", 1, "threshold: it is nan; it must lie in [0, 1]"),
        ("threshold: true\n", 1, "threshold: give a number"),
        ("threshold: 0.4\nthreshold: 0.5\n", 2, "threshold: stands twice, first in line 1"),
        ("undetermined: SYSTEM_THREE\n", 1, "undetermined: give 'SYSTEM_ONE' or 'SYSTEM_TWO'"),
        ("version: 2\n", 1, "version: give a text"),
        ("version: paper\n", 1, "version: 'paper' is the name of the paper's own values"),
        ("version: my own\n", 1, "version: 'my own' must be at most 64"),
        (f"version: {'v' * 65}\n", 1, "must be at most 64"),
        ("version: a\nthreshold: [0.5\n", 3, "expected ',' or ']'"),
        ("- 0.45\n", 1, "give an object"),
    ],
)
def test_a_mistake_is_rejected_with_line_and_reason(file: Path, source: str, line: int, reason: str) -> None:
    file.write_text(source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_routing(file)

    assert raised.value.message.startswith(f"{file}, line {line}: ")
    assert reason in raised.value.metadata["problem"]
    assert raised.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize("source", ["", "# nothing yet\n", "version: ''\n", "{}"])
def test_a_file_that_states_nothing_is_not_taken_for_the_papers_values(file: Path, source: str) -> None:
    file.write_text(source)

    with pytest.raises(ConfigurationInvalid, match="states nothing"):
        read_routing(file)


def test_a_missing_file_is_rejected_by_its_name(file: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"routing.yaml: cannot be read: No such file"):
        read_routing(file)
