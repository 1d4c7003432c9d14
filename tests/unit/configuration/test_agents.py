import os
from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.agents import AgentConfig, Agents, read_agents
from kernel.errors import Code

ROOT = Path(__file__).parents[3]
GOOD = """\
# The agents.
agents:
  - id: ada
    system_prompt: You are Ada.
    tags: [logic]
  - id: ben-2
    model: qwen3
    capacity: 3
    thinking: false
    temperature: 0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agents.yaml"
    path.write_text(GOOD)
    return path


def write(path: Path, source: str | bytes) -> None:
    """Write a file that is seen to have changed, however fast the test is."""
    later = os.stat(path).st_mtime_ns + 1_000_000_000
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    os.utime(path, ns=(later, later))


def test_agents_are_read_as_they_are_written(file: Path) -> None:
    ada, ben = read_agents(file)

    assert ada == AgentConfig(id="ada", system_prompt="You are Ada.", tags=["logic"])
    assert ben == AgentConfig(
        id="ben-2",
        model="qwen3",
        capacity=3,
        tags=(),
        thinking=False,
        temperature=0.0,
    )


def test_what_is_left_out_is_left_to_the_suite(file: Path) -> None:
    ada = read_agents(file)[0]

    assert (ada.model, ada.capacity, ada.thinking) == ("", None, None)


@pytest.mark.parametrize("name", ["agents.yaml", "agents.poster.yaml"])
def test_the_agents_that_come_with_the_suite_can_be_read(name: str) -> None:
    assert read_agents(ROOT / "config" / name)


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("agents:\n  - id: ada\n   model: x\n", 3, "expected <block end>"),
        ("agents:\n  - id: [ada\n", 3, "expected ',' or ']'"),
        ("agents:\n  - id: *ada\n", 2, "undefined alias"),
        ("agents:\n  - id: ada\n    colour: red\n", 3, "agents.0.colour"),
        ("agents:\n  - id: ada\nroles: []\n", 3, "roles"),
        ("agents:\n  - id: ada\n  - id: ben\n  - id: ada\n", 4, "id 'ada' is used twice"),
        ("agents:\n  - id: ada\n  - capacity: 0\n    id: ben\n", 3, "capacity of 'ben' is 0; it must be at least 1"),
        ("agents:\n  - id: ada\n    capacity: many\n", 3, "agents.0.capacity"),
        (
            "agents:\n  - id: ada\n    base_url: http://127.0.0.1:8000/v1\n",
            3,
            "in models.yaml (METACOG_MODELS_FILE) `- {name: NAME, endpoints: [{url: ...}]}`",
        ),
        ("agents:\n  - id: ada\n    api_key_env: KEY\n", 3, "endpoints: [{url: ..., api_key_env: ...}]"),
        ("agents:\n  - id: ada\n    temperature: 2.1\n", 2, "temperature of 'ada' is 2.1; it must lie in [0, 2]"),
        ("agents:\n  - id: ada\n    temperature: .nan\n", 2, "it must lie in [0, 2]"),
        ("agents:\n  - id: ada lovelace\n", 2, "must be letters, digits, `-` and `_`"),
        ("agents:\n  - id: ''\n", 2, "must be letters, digits, `-` and `_`"),
        ("agents:\n  - id: 7\n", 2, "agents.0.id"),
        ("agents:\n  - model: qwen3\n", 2, "agents.0.id"),
        ("agents:\n  - id: ada\n    thinking: perhaps\n", 3, "agents.0.thinking"),
        ("agents:\n  - id: ada\n    tags: logic\n", 3, "agents.0.tags"),
        ("# nobody yet\nagents: []\n", 2, "at least one agent is needed"),
        ("agents:\n", 1, "agents"),
        ("- ada\n- ben\n", 1, "give an object"),
    ],
)
def test_an_unusable_file_is_rejected_with_line_and_reason(file: Path, source: str, line: int, reason: str) -> None:
    file.write_text(source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_agents(file)

    assert raised.value.message.startswith(f"{file}, line {line}: ")
    assert reason in raised.value.metadata["problem"]
    assert (raised.value.metadata["file"], raised.value.metadata["line"]) == (str(file), str(line))
    assert (raised.value.code, raised.value.reason) == (Code.FAILED_PRECONDITION, "CONFIGURATION_INVALID")


@pytest.mark.parametrize(
    "source", [b"", b"# nothing\n", b"\xff\xfe\x00", b"agents:\n  - id: \x00\n", b"agents:\n  - id: 2026-13-45\n"]
)
def test_a_file_that_has_no_lines_to_blame_is_rejected_by_its_name(file: Path, source: bytes) -> None:
    file.write_bytes(source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_agents(file)

    assert raised.value.message.startswith(f"{file}: ")


def test_a_missing_file_is_rejected_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="cannot be read: No such file") as raised:
        Agents(tmp_path / "agents.yaml")

    assert raised.value.metadata["line"] == ""


def test_a_changed_file_is_read_again(file: Path) -> None:
    agents = Agents(file)

    write(file, "agents:\n  - id: cleo\n")

    assert [agent.id for agent in agents.current()] == ["cleo"]


async def test_a_broken_change_keeps_the_last_good_agents_and_complains(file: Path) -> None:
    agents = Agents(file)

    write(file, "agents:\n  - id: ada\n    capacity: 0\n")

    assert [agent.id for agent in agents.current()] == ["ada", "ben-2"]
    assert "line 2: capacity of 'ada' is 0" in agents.problem
    with pytest.raises(ConfigurationInvalid, match="the agents read before are in use"):
        await agents.check()


@pytest.mark.parametrize("source", [b"\xff\xfe\x00", b"agents:\n  - id: \x00\n", b"agents: ["])
async def test_a_change_to_something_unreadable_keeps_the_last_good_agents(file: Path, source: bytes) -> None:
    agents = Agents(file)

    write(file, source)

    assert len(agents.current()) == 2
    assert agents.problem


def test_a_vanished_file_keeps_the_last_good_agents_and_complains(file: Path) -> None:
    agents = Agents(file)

    file.unlink()

    assert len(agents.current()) == 2
    assert agents.problem.startswith(f"{file}: cannot be read")


async def test_a_mended_file_ends_the_complaint(file: Path) -> None:
    agents = Agents(file)
    write(file, "agents: []\n")
    agents.current()

    write(file, "agents:\n  - id: cleo\n")

    await agents.check()
    assert (agents.problem, len(agents.current())) == ("", 1)


async def test_a_good_file_is_no_complaint(file: Path) -> None:
    agents = Agents(file)

    await agents.check()

    assert agents.problem == ""
