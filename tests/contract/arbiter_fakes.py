"""An arbiter over a model that always says the same, so that both APIs stand over the same exact answers."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from chassis.serving.health import Health
from configuration.agents import AgentConfig
from inference import Call, Completion, CompletionSample, Spend
from kernel.envelope import StageUsage
from services.arbiter.service.plan import ArbitrationDefaults
from tests.support.apis import Running
from tests.support.arbiter import LIMITS, WordEncoder, arbiter_over, parts_of, sample_text

AGENTS = (AgentConfig(id="ada"), AgentConfig(id="ben"))

# Of five samples of a solver three say 4, one says 5 and one nothing; of the arbiter's all but every fifth say 4.
SOLVED = ["4", "4", "5", None, "4"]


class FakeArbiterModelClient:
    """Speaks for everybody alike."""

    model = "fake"

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

    async def read(self, call: Call, parse: Callable[[object], Any], spend: Spend) -> Any:  # noqa: ANN401
        """Nothing means the same."""
        return parse({"same": []})


class FakeArbiterModelClients:
    """One client for every agent."""

    def of(self, _: AgentConfig) -> FakeArbiterModelClient:
        """Return the client."""
        return FakeArbiterModelClient()


def fake_arbiter() -> AbstractAsyncContextManager[Running]:
    """Both APIs of an arbiter over fakes."""
    return arbiter_over(
        parts_of(FakeArbiterModelClients(), AGENTS, WordEncoder(), ArbitrationDefaults(limits=LIMITS)), Health({})
    )
