"""An arbiter over a model that always says the same, so that both APIs stand over the same exact answers."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from chassis.serving.health import Health
from configuration.agents import AgentConfig
from inference import Call, Completion, CompletionSample, Spend, Structured
from kernel.envelope import StageUsage
from services.arbiter.service.plan import ArbitrationDefaults
from tests.contract.fakes import FakeModelClient, FakeModelClients
from tests.support.apis import Running
from tests.support.arbiter import LIMITS, WordEncoder, arbiter_over, parts_of, sample_text

T = TypeVar("T")

AGENTS = (AgentConfig(id="ada"), AgentConfig(id="ben"))

# Of five samples of a solver three say 4, one says 5 and one nothing; of the arbiter's all but every fifth say 4.
SOLVED = ["4", "4", "5", None, "4"]


class FakeArbiterModelClient(FakeModelClient):
    """Speaks for everybody alike."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of a stage."""
        usage = StageUsage(generations=call.samples, http_calls=1, prompt_tokens=9, completion_tokens=8 * call.samples)
        spend.ledger.book(call.stage, usage)
        texts = {
            "solve": [sample_text(SOLVED[place % 5]) for place in range(call.samples)],
            "critique": ["It holds."],
            "arbitrate": [sample_text("5" if place % 5 == 4 else "4") for place in range(call.samples)],
        }
        samples = tuple(CompletionSample(text=text, tokens=8) for text in texts[call.stage])
        return Completion(samples=samples, usage=usage, model=self.model)

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Nothing means the same."""
        return parse({"same": []})

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Nothing means the same, and costs nothing."""
        sample = CompletionSample(text='{"same": []}', tokens=0)
        completion = Completion(samples=(sample,), usage=StageUsage(), model=self.model)
        return Structured(values=(await self.read(call, parse, spend),), completion=completion)


def fake_arbiter() -> AbstractAsyncContextManager[Running]:
    """Both APIs of an arbiter over fakes."""
    return arbiter_over(
        parts_of(FakeModelClients(FakeArbiterModelClient()), AGENTS, WordEncoder(), ArbitrationDefaults(limits=LIMITS)),
        Health({}),
    )
