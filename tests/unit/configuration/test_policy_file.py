from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.policy import read_policy

ROOT = Path(__file__).parents[3]
GOOD = """\
# Which way to deliberate.
rows:
  - name: disputed
    when: {conflict: ">= 0.6", importance: unknown}
    strategy: arbiter
  - name: rest
    strategy: delegation
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


def test_a_table_is_read_row_by_row(file: Path) -> None:
    file.write_text(GOOD)

    disputed, rest = read_policy(file).rows

    assert (disputed.name, disputed.strategy, disputed.always) == ("disputed", "arbiter", False)
    assert disputed.matches({"conflict": 0.6, "importance": None})
    assert not disputed.matches({"conflict": 0.6, "importance": 0.5})
    assert (rest.name, rest.when) == ("rest", {})


def test_the_version_follows_what_the_rows_say_and_not_how_it_is_written(file: Path) -> None:
    versions = []
    for source in (GOOD, GOOD.replace("# Which", "# Otherwise: which"), GOOD.replace("0.6", "0.7")):
        file.write_text(source)
        versions.append(read_policy(file).version)

    assert versions[0] == versions[1] != versions[2]


def test_the_table_that_comes_with_the_suite_can_be_read() -> None:
    names = [row.name for row in read_policy(ROOT / "config" / "policy.example.yaml").rows]

    assert names == ["nothing-hangs-on-it", "disputed", "unfamiliar", "weighty"]


ROW = "rows:\n  - name: a\n    strategy: arbiter\n"


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("rows: []\n", 1, "rows: at least one row is needed"),
        ("row: []\n", 1, "rows: it is missing, and must be given"),
        (f"{ROW}version: 2\n", 4, "version: there is no such key"),
        (f"{ROW}    wen: {{}}\n", 4, "rows.0.wen: there is no such key"),
        (f"{ROW}    when: {{urgency: '> 0.5'}}\n", 4, "'urgency' is nothing that is measured; there are emotional"),
        (f"{ROW}    when:\n      conflict: '> 0.5'\n      importance: '~ 1'\n", 6, "must be an operator (>=, >, <="),
        (f"{ROW}    when: {{conflict: '> 60'}}\n", 4, "rows.0.when.conflict: 60 in '> 60' must lie in [0, 1]"),
        (f"{ROW}    when: {{conflict: 0.5}}\n", 4, "rows.0.when.conflict: give a text"),
        (f"{ROW}    when:\n      conflict: >= 0.6\n", 5, 'conditions stand in quotes, such as ">= 0.6"'),
        (f"{ROW}    when: {{conflict: >= 0.6}}\n", 4, 'conditions stand in quotes, such as ">= 0.6"'),
        (f"{ROW}    when: {{conflict: '> 0.6', conflict: '> 0.5'}}\n", 4, "conflict: stands twice, first in line 4"),
        (f"{ROW}    always: perhaps\n", 4, "rows.0.always"),
        ("rows:\n  - name: a\n", 2, "rows.0.strategy: it is missing, and must be given"),
        ("rows:\n  - name: a\n    strategy: debate\n", 3, "rows.0: strategy: 'debate' is none; there are system1"),
        ("rows:\n  - name: ''\n    strategy: arbiter\n", 2, "rows.0: name: it must not be empty"),
        (f"{ROW}  - name: a\n    strategy: dialectic\n", 4, "rows.1: name: 'a' is used twice"),
        (f"{ROW}  - strategy: dialectic\n    name: b\n", 4, "rows.1: 'b' can never be reached: 'a' is asked before"),
    ],
)
def test_a_mistake_is_rejected_with_line_and_reason(file: Path, source: str, line: int, reason: str) -> None:
    file.write_text(source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_policy(file)

    assert raised.value.message.startswith(f"{file}, line {line}: ")
    assert reason in raised.value.metadata["problem"]


def test_an_empty_file_is_rejected(file: Path) -> None:
    file.write_text("")

    with pytest.raises(ConfigurationInvalid, match="rows: it is missing, and must be given"):
        read_policy(file)
