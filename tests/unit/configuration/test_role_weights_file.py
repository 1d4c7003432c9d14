from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.role_weights import read_role_weights
from kernel.roles import DEFAULT_WEIGHTS, Role


def written(folder: Path, text: str) -> Path:
    file = folder / "roles.yaml"
    file.write_text(text)
    return file


def test_roles_that_the_file_leaves_out_keep_their_defaults(tmp_path: Path) -> None:
    made = read_role_weights(written(tmp_path, "version: v1\nweights: {EXPERT: {correctness: 1.0}}\n"))

    assert made.version == "v1"
    assert made.weights[Role.EXPERT] == {"correctness": 1.0}
    assert made.weights[Role.CRITIC] == DEFAULT_WEIGHTS[Role.CRITIC]


def test_without_a_version_the_weights_name_themselves(tmp_path: Path) -> None:
    one, same, other = (
        read_role_weights(written(tmp_path, f"weights: {{EXPERT: {{correctness: {level}, experience: {1 - level}}}}}"))
        for level in (0.25, 0.25, 0.75)
    )

    assert one.version == same.version != other.version
    assert len(one.version) == 12


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "weights: at least one role is needed"),
        ("weights: {}\n", "weights: at least one role is needed"),
        ("version: default\nweights: {EXPERT: {correctness: 1.0}}\n", "line 1: version: 'default' is the name"),
        ("version: a b\nweights: {EXPERT: {correctness: 1.0}}\n", "line 1: version: 'a b' must be at most 64"),
        ("weights:\n  EXPERT: {correctness: 0.5}\n", "line 2: weights: weights of EXPERT must be >= 0 and sum to 1"),
        ("weights:\n  CRITIC: {EM: 1.0}\n", "line 2: weights: weights of CRITIC name 'EM'"),
        ("weights:\n  JESTER: {correctness: 1.0}\n", "line 2: weights.JESTER"),
        ("weights:\n  EXPERT: {correctness: yes}\n", "line 2: weights.EXPERT.correctness"),
        ("weights:\n  EXPERT: {correctness: 1.0}\n  EXPERT: {experience: 1.0}\n", "line 3: EXPERT: stands twice"),
        ("role_weights: {}\n", "there is no such key"),
    ],
)
def test_a_file_that_cannot_be_used_is_rejected_with_line_and_reason(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        read_role_weights(written(tmp_path, text))

    assert complaint in raised.value.message
