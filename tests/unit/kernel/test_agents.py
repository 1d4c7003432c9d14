import pytest

from kernel.agents import MAX_LISTED, check_agent, participants
from kernel.errors import NoAgents, UnknownAgent

CONFIGURED = {"cleo": 3, "ada": 1, "ben": 2}


def test_an_unknown_agent_is_named_with_its_field_and_those_that_exist() -> None:
    with pytest.raises(UnknownAgent) as rejected:
        check_agent("zoe", CONFIGURED, field="critic_agent")

    assert rejected.value.message == "critic_agent: 'zoe' is not configured; there are cleo, ada, ben"
    assert rejected.value.metadata == {"field": "critic_agent", "agent": "zoe"}


def test_a_long_list_of_agents_is_cut_off() -> None:
    with pytest.raises(UnknownAgent) as rejected:
        check_agent("zoe", [f"agent-{number}" for number in range(MAX_LISTED + 1)], field="agents")

    assert rejected.value.message.endswith(f"agent-{MAX_LISTED - 1}, ...")


@pytest.mark.parametrize(
    ("requested", "expected"), [([], ["cleo", "ada", "ben"]), (["ben", "cleo", "ben"], ["cleo", "ben"])]
)
def test_agents_take_part_in_the_order_of_the_configuration(requested: list[str], expected: list[str]) -> None:
    assert list(participants(requested, CONFIGURED)) == expected


def test_the_first_unknown_agent_is_reported() -> None:
    with pytest.raises(UnknownAgent, match="agents: 'zoe'"):
        participants(["ada", "zoe", "yan"], CONFIGURED)


def test_without_configured_agents_none_takes_part() -> None:
    with pytest.raises(NoAgents):
        participants([], {})
