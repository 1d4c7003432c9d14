"""An arbiter for tests, composed in this process on models of the test's choice, and a model whose samples are known.

scripted.answer = Script(solve=["4", "4", "5", "4", "4"], arbitrate=["4"] * 50)
async with arbiter_at(scripted) as running:
    api = RpcFace(running.grpc, ARBITER)
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from metacog.arbiter.v1 import arbiter_pb2

from chassis.calls.records import CallRecords
from chassis.serving.auth import Keyring
from chassis.serving.health import Health
from chassis.serving.server import closing
from configuration.agents import AgentConfig
from inference import Embedded, Embeddings, Encoder, EncoderUnavailable, ModelClients
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.prices import Prices
from sandbox.mathematics import InProcessCalculator, MathematicsSource
from services.arbiter.compose import Parts, compose
from services.arbiter.service.claim_tracing import Encoding
from services.arbiter.service.plan import ArbitrationDefaults
from services.arbiter.settings import Settings
from tests.support.apis import Running, serving
from tests.support.assigner import NO_OTHERS, NO_PRICES, ModelServer, model_clients_of

ARBITER = arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"]
LIMITS = Limits(max_generations=96, max_generated_tokens=32_768, timeout_ms=60_000)
SETTINGS = Settings.model_validate({"max_generations": 96, "max_generated_tokens": 32_768, "timeout_ms": 60_000})
WORDS = re.compile(r"[a-z]+")
WIDTH = 64

Body = dict[str, Any]


class WordEncoder:
    """Vectors of the words in a text: texts of the same words have the cosine 1, texts without a common one 0."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.calls = 0

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Yield all vectors at once."""
        self.calls += 1
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in set(WORDS.findall(text.lower())):
                vectors[row, self._places.setdefault(word, len(self._places) % WIDTH)] = 1.0
        yield Embedded(encoder=Encoder(name="words", dimension=WIDTH), vectors=vectors)


class AwayEncoder:
    """An encoder that cannot be reached."""

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Fail."""
        raise EncoderUnavailable("the encoder at nowhere cannot be reached")
        yield


def stage_of(body: Body) -> str:
    """Return the stage of a request to a model, recognised by what its prompt quotes."""
    prompt = str(body["messages"][-1]["content"])
    if "response_format" in body:
        return "compare"
    if "</solution>" in prompt:
        return "critique"
    return "arbitrate" if "knew nothing of one another" in prompt else "solve"


class Script:
    """Returns the texts of the next samples by stage; answers become texts that hold them, None one without an answer.

    Args:
        solve: Answers of the first solver, then of the second, and so on, `per_solver` each.
        arbitrate: Answers of the arbiter.
        critique: Text of every critique.
        per_solver: Samples of one call of a solver [count].
        compare: The places of each comparison.
    """

    def __init__(
        self,
        solve: Sequence[str | None] = (),
        arbitrate: Sequence[str | None] = (),
        *,
        critique: str = "The second step does not follow.",
        compare: Sequence[Sequence[int]] = (),
    ) -> None:
        self._left = {"solve": list(solve), "arbitrate": list(arbitrate)}
        self._critique = critique
        self._compare = list(compare)

    def __call__(self, body: Body) -> Sequence[str]:
        stage, count = stage_of(body), body.get("n") or 1
        if stage == "critique":
            return [self._critique] * count
        if stage == "compare":
            return [f'{{"same": {list(self._compare.pop(0))}}}']
        answers, self._left[stage] = self._left[stage][:count], self._left[stage][count:]
        return [sample_text(answer) for answer in answers]


def sample_text(answer: str | None) -> str:
    """Return a sample's text."""
    return "I cannot tell." if answer is None else f"Two and two make it.\nFinal Answer: {answer}"


@asynccontextmanager
async def arbiter_at(
    llm: ModelServer,
    agents: Sequence[AgentConfig] = (),
    *,
    encoder: Encoding | str | None = None,
    calculator: MathematicsSource | None = None,
    keyring: Keyring | None = None,
    prices: Prices = NO_PRICES,
    others: Mapping[str, ModelServer] = NO_OTHERS,
    ceilings: Ceilings = DEFAULT_CEILINGS,
    records: CallRecords | None = None,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Running]:
    """An arbiter on `llm` with both APIs; `encoder` is one, or its URL; `others` are further models by name."""
    clients = model_clients_of(llm, prices, others)
    embeddings = Embeddings(encoder) if isinstance(encoder, str) else None
    encoding = embeddings or (encoder if not isinstance(encoder, str) else None) or WordEncoder()
    parts = Parts(
        model_clients=clients,
        agents=lambda: agents,
        encoder=encoding,
        ceilings=ceilings,
        records=records,
        keyring=keyring or Keyring(),
        calculator=calculator or InProcessCalculator(),
        health=Health({"inference": clients.probe}),
        close=clients.close if embeddings is None else partial(closing, clients.close, embeddings.close),
    )
    async with arbiter_of(parts, **settings) as running:
        yield running


@asynccontextmanager
async def arbiter_of(parts: Parts, **settings: Any) -> AsyncIterator[Running]:  # noqa: ANN401
    """The arbiter of `parts` with both APIs; `settings` replace those of the tests."""
    service = compose(SETTINGS.model_copy(update=settings), parts)
    service.start()
    async with serving(service.app, service.rpc) as running:
        yield running
    await service.close()


async def _close_nothing() -> None:
    """Fakes need no closing."""


def parts_of(clients: ModelClients, agents: Sequence[AgentConfig], encoder: Encoding, _: ArbitrationDefaults) -> Parts:
    """The parts of an arbiter over fakes."""
    return Parts(
        model_clients=clients,
        agents=lambda: agents,
        encoder=encoder,
        calculator=InProcessCalculator(),
        close=_close_nothing,
    )


def arbiter_over(parts: Parts, health: Health) -> AbstractAsyncContextManager[Running]:
    """The arbiter of `parts` with the checks `health`."""
    return arbiter_of(replace(parts, health=health))
