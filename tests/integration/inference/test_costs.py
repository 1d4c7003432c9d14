"""Every call tells what it cost, and stays inside what it may cost."""

from typing import Any

import pytest

from inference.values import Reply
from kernel.envelope import BudgetExhausted, StageUsage, UnpricedModel
from kernel.prices import Price, units_of
from tests.integration.inference.support import HELLO, MakeBackend, Served, call_of, read_stream, spend_of
from tests.support.models.scripted_llm import Hangup, ScriptedLLM

# 1e-6 for a token that is read, 2e-6 for one that is generated.
PRICE = Price(prompt=1.0, completion=2.0)
BODY = {"messages": HELLO, "max_tokens": 6, "temperature": 1.0}


def worth(usage: StageUsage) -> float:
    return round(usage.prompt_tokens * 1e-6 + usage.completion_tokens * 2e-6, 12)


async def test_a_call_costs_what_its_tokens_cost(served: Served, backend_of: MakeBackend) -> None:
    backend, spend = backend_of(served, price=PRICE), spend_of(cost=0.01)

    completion = await backend.complete(call_of(samples=2, temperature=1.0), spend)
    stream = await read_stream(backend.stream(call_of(), spend))

    for usage in (completion.usage, stream.completion.usage):
        assert usage.completion_tokens > 0
        assert usage.cost == worth(usage)
    total = spend.ledger.usage()
    assert (total.cost, total.unknown_cost) == (worth(total.stages["thesis"]), 0.0)
    assert spend.ledger.cost_left == units_of(0.01) - units_of(total.cost or 0.0)


async def test_what_is_passed_on_has_its_cost_also_while_it_streams(served: Served, backend_of: MakeBackend) -> None:
    backend, spend = backend_of(served, price=PRICE), spend_of()

    reply: Reply = await backend.forward(BODY, spend, "system1")
    costs: list[float | None] = []
    async with await backend.forward_stream(BODY, spend, "system1") as stream:
        async for event in stream:
            if event.raw.startswith(b"data:"):
                costs.append(stream.usage.cost)

    assert reply.usage.cost == worth(reply.usage)
    assert None not in costs
    assert costs[-1] == stream.usage.cost == worth(stream.usage)
    assert spend.ledger.usage().cost == round((reply.usage.cost or 0.0) + (stream.usage.cost or 0.0), 12)


async def test_without_a_price_the_cost_is_unknown(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    spend = spend_of()

    completion = await backend_of(llm).complete(call_of(), spend)

    assert (completion.usage.cost, spend.ledger.usage().cost) == (None, None)


@pytest.mark.parametrize("way", ["complete", "stream", "forward", "forward_stream"])
async def test_a_model_without_a_price_is_not_asked_where_the_cost_is_limited(
    llm: ScriptedLLM, backend_of: MakeBackend, way: str
) -> None:
    asked: tuple[Any, ...] = (BODY, spend_of(cost=1.0), "s") if "forward" in way else (call_of(), spend_of(cost=1.0))

    with pytest.raises(UnpricedModel, match="the model 'scripted' has no price; state it") as raised:
        await getattr(backend_of(llm), way)(*asked)

    assert raised.value.metadata == {"field": "envelope.max_cost", "model": "scripted"}
    assert (raised.value.reason, llm.bodies) == ("INVALID_ENVELOPE", [])


@pytest.mark.parametrize("way", ["complete", "stream", "forward", "forward_stream"])
async def test_what_cannot_be_paid_for_is_not_sent(llm: ScriptedLLM, backend_of: MakeBackend, way: str) -> None:
    spend = spend_of(cost=0.0001)  # a prompt alone may cost more: a template may have 256 tokens
    asked: tuple[Any, ...] = (BODY, spend, "s") if "forward" in way else (call_of(), spend)

    with pytest.raises(BudgetExhausted) as raised:
        await getattr(backend_of(llm, price=PRICE), way)(*asked)

    assert raised.value.metadata["cost_left"] == "0.0001"
    assert llm.bodies == []
    assert spend.ledger.exhausted


async def test_short_money_shortens_the_answer(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one two three four five six seven eight")
    backend = backend_of(llm, price=Price(prompt=0.0, completion=2.0))

    completion = await backend.complete(call_of(), spend_of(cost=0.000007))

    assert llm.bodies[0]["max_tokens"] == 3
    assert (completion.cut, completion.usage.cost) == (True, 0.000006)


async def test_a_lost_call_may_have_cost_its_worst_case(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(Hangup(), None)
    backend, spend = backend_of(llm, price=Price(prompt=0.0, completion=2.0)), spend_of(cost=0.01)

    await backend.complete(call_of(), spend)

    usage = spend.ledger.usage()
    assert usage.unknown_cost == 0.000016  # 8 tokens
    assert usage.cost == usage.completion_tokens * 2e-6


async def test_each_of_several_requests_reads_the_prompt(minimal: ScriptedLLM, backend_of: MakeBackend) -> None:
    # A prompt has 256 tokens at most, and one for each byte: 0.3 to 0.36, so that there is money for three of them.
    backend = backend_of(minimal, price=Price(prompt=1000.0, completion=0.0))

    completion = await backend.complete(call_of(samples=4, temperature=1.0), spend_of(cost=1.1))

    # That this backend draws one sample at a time shows only when it is asked.
    assert completion.usage.generations == 3
    assert isinstance(completion.shortfall, BudgetExhausted)
    assert completion.usage.cost == round(completion.usage.prompt_tokens * 1e-3, 12)
    with pytest.raises(BudgetExhausted):
        await backend.complete(call_of(samples=4, temperature=1.0), spend_of(cost=1.1))
    assert len(minimal.bodies) == 4 - 1
