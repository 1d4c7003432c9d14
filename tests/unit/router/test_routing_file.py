"""Where the configuration in force comes from."""

from dataclasses import replace
from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from kernel.activation import ActivationWeights, Route
from kernel.msv import MSV
from kernel.policy import Policy, PolicyRow
from services.router.service.assessment.routing import RoutingConfig
from services.router.service.assessment.routing_config import routing_config
from tests.unit.router.assessment.test_cached_decisions import Chats

PAPER = RoutingConfig()
SPRING = """\
version: spring
weights: {correctness: 0.4, conflict: 0.3, importance: 0, experience: 0.3}
threshold: 0.5
undetermined: SYSTEM_ONE
"""
POLICY = Policy(version="abc", rows=[PolicyRow(name="all", strategy="delegation")])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "routing.yaml"
    path.write_text(SPRING)
    return path


def test_without_a_file_the_single_settings_hold() -> None:
    assert routing_config(PAPER).version == "paper"
    assert routing_config(replace(PAPER, threshold=0.5), "mine") == replace(PAPER, threshold=0.5, version="mine")


def test_a_file_is_in_force_under_its_own_version(file: Path) -> None:
    assert routing_config(PAPER, file=file) == RoutingConfig(
        version="spring",
        weights=ActivationWeights(correctness=0.4, conflict=0.3, importance=0.0, experience=0.3),
        threshold=0.5,
        undetermined=Route.SYSTEM_ONE,
    )


def test_a_file_without_a_version_is_named_by_a_digest_of_its_content(file: Path) -> None:
    versions: list[str] = []
    for threshold in (0.5, 0.5, 0.6):
        file.write_text(f"# {len(versions)}\nthreshold: {threshold}\n")
        versions.append(routing_config(PAPER, file=file).version)

    assert versions[0] == versions[1] == routing_config(replace(PAPER, threshold=0.5)).version
    assert len(set(versions)) == 2


def test_a_file_with_the_papers_values_is_the_papers(file: Path) -> None:
    file.write_text("threshold: 0.45\n")

    assert routing_config(PAPER, file=file) == PAPER


@pytest.mark.parametrize(
    ("stated", "version", "named"),
    [
        (replace(PAPER, threshold=0.5), "", "METACOG_ROUTER_THRESHOLD"),
        (replace(PAPER, undetermined=Route.SYSTEM_ONE), "", "METACOG_ROUTER_UNDETERMINED"),
        (PAPER, "mine", "METACOG_ROUTER_CONFIG_VERSION"),
        (
            replace(PAPER, weights=ActivationWeights(correctness=0.25, experience=0.25)),
            "",
            "METACOG_ROUTER_WEIGHT_CORRECTNESS, METACOG_ROUTER_WEIGHT_EXPERIENCE",
        ),
    ],
)
def test_a_file_and_a_single_setting_together_are_rejected(
    file: Path, stated: RoutingConfig, version: str, named: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        routing_config(stated, version, file=file)

    assert raised.value.message.startswith(f"METACOG_ROUTER_ROUTING_FILE and {named} are both set; ")


def test_a_policy_table_is_part_of_the_name_of_what_decided() -> None:
    assert routing_config(PAPER, policy=POLICY).version == "paper+policy.abc"


async def test_a_row_of_the_policy_table_decides_and_is_named() -> None:
    chats = Chats()
    chats.routing = replace(chats.routing, policy=POLICY)
    chats.msv = MSV(correctness=0.1, conflict=0.9, importance=0.9)

    routed = await chats.decide_on("Is it so?")
    kept = await chats.decide_on("Is it so?", "It is.", "why?")

    assert (routed.strategy, routed.reason, routed.policy_row) == ("delegation", "policy", "all")
    assert (kept.strategy, kept.reason, kept.policy_row) == ("delegation", "cached", "all")


async def test_a_policy_table_does_not_apply_where_the_strategy_is_given() -> None:
    chats = Chats()
    chats.routing = replace(
        chats.routing, policy=Policy(version="v", rows=[PolicyRow(name="all", strategy="delegation", always=True)])
    )

    decided = [await chats.decide_on("Is it so?"), await chats.decide_on("Is it?", generations=1)]

    assert [(routed.strategy, routed.reason) for routed in decided] == [
        ("delegation", "policy"),
        ("system1", "envelope"),
    ]
