"""Evaluations with different models as solvers, in roles and as agents, on real services over scripted models."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from chassis.ids import new_id
from configuration.agents import AgentConfig
from evals.delegation import arms as delegation_arms
from evals.delegation import files as delegation_files
from evals.dialectic.files import arms as dialectic_arms
from evals.harness.rows import recorded_evaluation
from evals.mc_mas import arms as arbitration_arms
from evals.mc_mas import files as arbitration_files
from evals.stats.chance import seeded
from evals.suite import Addresses
from tests.integration.evals.test_eval_suite import evaluated, says
from tests.support.arbiter import arbiter_at
from tests.support.assigner import assigner_at
from tests.support.delegating import delegation_at
from tests.support.evaluation_records import an_item
from tests.support.models.scripted_llm import ScriptedLLM

MODELS = ("llama", "qwen", "phi")
ITEMS = [an_item(number) for number in (1, 2)]
MARK = new_id()[-8:]
# An agent of each model, under names that no other test uses.
AGENTS = [AgentConfig(id=f"{name}-{MARK}", model=name, system_prompt=f"You are {name}.") for name in MODELS]
NAMES = tuple(agent.id for agent in AGENTS)


@pytest.fixture
async def models(scripted: ScriptedLLM) -> AsyncIterator[dict[str, ScriptedLLM]]:
    """A server for each model."""
    scripted.answer = says
    with ExitStack() as opened:
        servers = {name: opened.enter_context(ScriptedLLM(model=name)) for name in MODELS}
        for server in servers.values():
            server.answer = says
        yield servers


async def test_solvers_of_two_models_arbitrated_by_a_third_have_a_control_each(
    scripted: ScriptedLLM, models: dict[str, ScriptedLLM], tmp_path: Path
) -> None:
    sampling = arbitration_arms.Sampling(
        solver_samples=2, arbitration_samples=3, solver_agents=NAMES[:2], critic_agent=NAMES[2], arbiter_agent=NAMES[2]
    )

    async with arbiter_at(scripted, AGENTS, others=models) as arbiter:
        records = await evaluated("mc-mas", arbitration_arms.arms(sampling), ITEMS, Addresses(arbiter=arbiter.rest),
                                  tmp_path)  # fmt: skip

    assert not [one for one in records if "error" in one]
    made = recorded_evaluation(records, "mc-mas")
    assert {row.said.models for row in made.of("mc-mas")} == {MODELS}
    for name, model in zip(NAMES[:2], MODELS, strict=False):
        assert {row.said.models[0] for row in made.of(f"self-consistency:{name}")} == {model}
    assert scripted.bodies == []
    report = arbitration_files.write_report(records, tmp_path, seeded(7, draws=40), beside=[records])
    assert "| llama + qwen + phi | not stated | sums (2) |" in report


async def test_a_team_of_three_models_holds_all_roles(
    scripted: ScriptedLLM, models: dict[str, ScriptedLLM], tmp_path: Path
) -> None:
    [random] = [arm for arm in dialectic_arms(team=NAMES) if arm.name == "roles-random"]

    async with AsyncExitStack() as opened:
        other = AgentConfig(id="alone")
        assigner = await opened.enter_async_context(assigner_at(scripted, [*AGENTS, other], others=models))
        records = await evaluated("dialectic", [random], ITEMS, Addresses(assigner=assigner.rest), tmp_path)

    assert not [one for one in records if "error" in one]
    rows = recorded_evaluation(records, "dialectic").of("roles-random")
    held = {stage["agent"] for row in rows for stage in row.reply["stages"]}
    assert len(held) > 1
    assert held <= set(NAMES)
    assert {model for row in rows for model in row.said.models} <= set(MODELS)
    assert scripted.bodies == []


async def test_agents_of_different_models_delegate_to_one_another_by_the_services_own_rules(
    scripted: ScriptedLLM, models: dict[str, ScriptedLLM], database_url: str, tmp_path: Path
) -> None:
    asked = delegation_arms.arms(NAMES, product=True, equal_compute=False)

    async with delegation_at(scripted, database_url, agents=AGENTS, others=models) as delegation:
        records = await evaluated("delegation", asked, ITEMS, Addresses(delegation=delegation.rest), tmp_path)

    assert not [one for one in records if "error" in one]
    made = recorded_evaluation(records, "delegation")
    assert {row.said.models for row in made.of("solve")} == {MODELS}
    assert len(made.of(delegation_arms.PRODUCT)) == len(ITEMS)
    # The right answer is sent with the task, so that the service learns.
    assert all(row.reply["profile_updates"] for row in made.of(delegation_arms.PRODUCT))
    report = delegation_files.write_report(records, tmp_path, seeded(7, draws=40))
    assert "- model: llama, qwen, phi" in report
    assert "| the service's default | " in report
