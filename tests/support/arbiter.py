"""An arbiter for tests, composed in this process on models of the test's choice, and a model whose samples are known.

scripted.answer = Script(solve=["4", "4", "5", "4", "4"], arbitrate=["4"] * 50)
async with arbiter_at(scripted) as running:
    face = RpcFace(running.grpc, ARBITER)
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc

from chassis.errors import EncoderUnavailable
from chassis.serving.auth import Keyring
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import grpc_server
from configuration.agents import AgentConfig
from inference.embeddings import Embedded, Embeddings, Encoder
from kernel.envelope import Limits
from kernel.prices import Prices
from sandbox.mathematics import Calculating, Here
from services.arbiter import rest, rpc
from services.arbiter.service.agents import DefaultAgents, SamplingModelClients
from services.arbiter.service.arbitrate import ArbitrationContext, arbitrate
from services.arbiter.service.claim_tracing import Encoding, Tracer
from services.arbiter.service.measure import MeasureLimits, measure
from services.arbiter.service.plan import ArbitrationDefaults
from services.arbiter.service.replay import replay
from tests.support.faces import Running, serving
from tests.support.stack import MAX_BODY_BYTES, NO_PRICES, Server, voices_of

ARBITER = arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"]
LIMITS = Limits(max_generations=96, max_generated_tokens=32_768, timeout_ms=60_000)
WORDS = re.compile(r"[a-z]+")
WIDTH = 64

Body = dict[str, Any]


class WordEncoder:
    """Vectors of the words in a text: texts of the same words have the cosine 1, texts without a common one 0."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.calls = 0

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """All vectors at once."""
        self.calls += 1
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in set(WORDS.findall(text.lower())):
                vectors[row, self._places.setdefault(word, len(self._places) % WIDTH)] = 1.0
        yield Embedded(encoder=Encoder(name="words", dimension=WIDTH), vectors=vectors)


class AwayEncoder:
    """An encoder that cannot be reached."""

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Refuses."""
        raise EncoderUnavailable("the encoder at nowhere cannot be reached")
        yield


def stage_of(body: Body) -> str:
    """What a request to a model is for, told by what is fenced in its prompt."""
    prompt = str(body["messages"][-1]["content"])
    if "response_format" in body:
        return "compare"
    if "</solution>" in prompt:
        return "critique"
    return "arbitrate" if "knew nothing of one another" in prompt else "solve"


class Script:
    """Texts of the next samples by stage; answers become texts that give them, None one that gives none.

    Args:
        solve: Answers of the first solver, then of the second, and so on, `per_solver` each.
        arbitrate: Answers of the arbiter.
        critique: What every critique says.
        per_solver: Samples of one call of a solver [count].
        compare: For each comparison the places it gives.
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
        return [said(answer) for answer in answers]


def said(answer: str | None) -> str:
    """A sample's text."""
    return "I cannot tell." if answer is None else f"Two and two make it.\nFinal Answer: {answer}"


@asynccontextmanager
async def arbiter_at(
    llm: Server,
    agents: Sequence[AgentConfig] = (),
    *,
    encoder: Encoding | str | None = None,
    limits: Limits = LIMITS,
    usual: DefaultAgents | None = None,
    calculator: Calculating | None = None,
    prices: Prices = NO_PRICES,
    **sizes: Any,  # noqa: ANN401
) -> AsyncIterator[Running]:
    """An arbiter on `llm`, both faces; `encoder` is one, or its URL."""
    voices = voices_of(llm, prices)
    embeddings = Embeddings(encoder) if isinstance(encoder, str) else None
    encoding = embeddings or (encoder if not isinstance(encoder, str) else None) or WordEncoder()
    bench = replace(
        bench_of(voices, agents, encoding, ArbitrationDefaults(limits=limits, **sizes), usual),
        calculator=calculator or Here(),
    )
    health = Health({"inference": voices.default.probe})
    async with arbiter_over(bench, health) as running:
        yield running
    await voices.close()
    if embeddings is not None:
        await embeddings.close()


def bench_of(
    voices: SamplingModelClients,
    agents: Sequence[AgentConfig],
    encoder: Encoding,
    defaults: ArbitrationDefaults,
    usual: DefaultAgents | None = None,
) -> ArbitrationContext:
    """Everybody and everything that an arbitration needs."""
    tracer = Tracer(encoder, batch_timeout_s=30)
    return ArbitrationContext(
        agents=lambda: agents, voices=voices, tracer=tracer, defaults=defaults, usual=usual or DefaultAgents()
    )


@asynccontextmanager
async def arbiter_over(bench: ArbitrationContext, health: Health) -> AsyncIterator[Running]:
    """Both faces over `bench`."""
    most = MeasureLimits()
    use: Mapping[str, Any] = {
        "arbitrate": partial(arbitrate, bench=bench),
        "measure": partial(measure, tracer=bench.tracer, most=most),
        "replay": partial(replay, defaults=bench.defaults, tracer=bench.tracer, most=most),
    }
    app = build_app("arbiter", health=health, keyring=Keyring(), max_body_bytes=MAX_BODY_BYTES)
    rest.add_paths(app, **use)
    server = grpc_server(Keyring())
    arbiter_pb2_grpc.add_ArbiterServiceServicer_to_server(rpc.Servicer(**use), server)
    async with serving(app, server) as running:
        yield running
