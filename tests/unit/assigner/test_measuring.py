"""The texts of a deliberation are measured when its chain is written."""

import asyncio
import re
from collections.abc import Sequence

from configuration.agents import AgentConfig
from inference import Call
from kernel.envelope import Limits
from kernel.roles import CHAIN, Stage
from services.assigner.service.dialectic import DeliberationContext, DialecticDefaults, deliberate
from services.assigner.service.values import (
    DeliberationFinished,
    KnownAgentExperience,
    KnownExperience,
    StageMeasured,
    StageStarted,
)
from tests.unit.assigner.test_deliberate import AGENTS, ONE, REQUEST, FakeModelClients, events, finished, request_for


async def test_no_stage_waits_for_the_measuring_of_an_earlier_one() -> None:
    written = asyncio.Event()

    async def measured_last(_agent: str, call: Call) -> None:
        if call.stage == "synthesis":
            written.set()
        elif call.stage == "measure":
            await written.wait()  # a chain that waited for it would wait for ever

    emitted = await events(REQUEST, FakeModelClients(measured_last))

    names = [
        f"{type(event).__name__} {event.stage}" for event in emitted if isinstance(event, StageStarted | StageMeasured)
    ]
    assert names[:4] == [f"StageStarted {stage}" for stage in ("THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS")]
    assert sorted(names[4:]) == sorted(name.replace("Started", "Measured") for name in names[:4])


async def test_a_text_is_measured_beside_all_others_and_reports_its_model_and_prompt() -> None:
    result = (await finished(REQUEST)).measurements

    assert [sorted([each.stage, *each.beside]) for each in result] == [sorted(CHAIN)] * 4
    assert {(each.model, each.prompt, each.usage) for each in result} == {
        ("model of the assessor", "text_assessment", ONE)
    }
    assert len({each.prompt_digest for each in result}) == 1
    assert len(result[0].prompt_digest) == 64


async def test_what_the_assessor_reads_shows_neither_the_number_nor_the_order_of_the_stages() -> None:
    read: dict[str, list[str]] = {}

    async def noted(_agent: str, call: Call) -> None:
        if call.stage == "measure":
            prompt = str(call.messages[-1]["content"])
            shown = re.findall(r"<(other_text|text_to_judge)[^>]*>\s*the (\w+)", prompt)
            read[shown[-1][1]] = [text for _, text in shown]

    orders = set()
    for seed in range(30):
        await finished(request_for(seed=seed), FakeModelClients(noted))

        assert {judged: len(texts) for judged, texts in read.items()} == dict.fromkeys(map(str.lower, CHAIN), 4)
        orders.add(tuple(read["synthesis"][:3]))
    assert len(orders) == 6


async def test_every_text_has_its_own_affect_and_the_largest_experience_that_an_agent_has_with_it() -> None:
    levels = {"the thesis": (0.2, 0.5), "the antithesis": (None, 0.1), "the resolution": (None, None)}

    async def known(text: str, agents: Sequence[str], *, timeout_s: float) -> KnownExperience:
        of_agents = zip(agents, levels.get(text, (0.0, None)), strict=False)
        return KnownExperience(
            agents=[
                KnownAgentExperience(agent=a, experience=level, unknown_reason="none near") for a, level in of_agents
            ]
        )

    context = DeliberationContext(
        agents=lambda: [AgentConfig(id=name) for name in AGENTS],
        model_clients=FakeModelClients(),
        affect=lambda text: {"intensity": len(text) / 100},
        defaults=DialecticDefaults(limits=Limits(max_generations=32, max_generated_tokens=4096, timeout_ms=9000)),
        experience=known,
    )
    result = [event async for event in deliberate(REQUEST, context=context)][-1]

    assert isinstance(result, DeliberationFinished)
    states = {each.stage: each.msv for each in result.measurements}
    assert [states[stage].emotional_response for stage in CHAIN] == [0.10, 0.14, 0.14, 0.13]
    assert [states[stage].experience for stage in CHAIN] == [0.5, 0.1, None, 0.0]
    assert states[Stage.RESOLUTION].unknown_reasons["experience"] == "none near"
