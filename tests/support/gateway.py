"""The OpenAI API of a router, as its clients see it.

An async context:

    async with gateway(scripted, database_url, tmp_path) as suite:
        answer = await suite.ask("metacog/system1")
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk

from kernel.prices import Prices
from services.router.compose import RunRecordStore
from tests.support.assigner import NO_PRICES, assigner_at
from tests.support.stack import RunningRouter, Server, router_at

HELLO: Any = [{"role": "user", "content": "Say hello."}]


@dataclass(frozen=True)
class Suite:
    """A router with an assigner behind it, and clients of it."""

    router: RunningRouter
    runs: RunRecordStore
    client: AsyncOpenAI

    @property
    def sync(self) -> OpenAI:
        """A blocking client."""
        return OpenAI(base_url=f"{self.router.rest}/v1", api_key="none", max_retries=0)

    async def ask(self, model: str = "metacog", *, metacog: Any = None, **more: Any) -> Any:  # noqa: ANN401
        """A chat completion."""
        body = {"metacog": metacog} if metacog else {}
        extra = {**body, **more.pop("extra_body", {})}
        messages = more.pop("messages", HELLO)
        return await self.client.chat.completions.create(model=model, messages=messages, extra_body=extra, **more)

    async def chunks(self, model: str = "metacog", **more: Any) -> list[ChatCompletionChunk]:  # noqa: ANN401
        """The chunks of a stream."""
        return [chunk async for chunk in await self.ask(model, stream=True, **more)]


@asynccontextmanager
async def gateway(
    llm: Server,
    database: str,
    spool: Path,
    *,
    prices: Prices = NO_PRICES,
    **more: Any,  # noqa: ANN401
) -> AsyncIterator[Suite]:
    """A router on `llm` with an assigner behind it; `more` is for the router."""
    async with (
        assigner_at(llm, prices=prices) as assigner,
        router_at(llm, database, spool, others={"assigner": assigner.grpc}, prices=prices, **more) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0) as client,
    ):
        yield Suite(router, router.runs, client)


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    """Text of the first choice of a stream."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices if choice.index == 0)


def metacog_field(answer: Any) -> dict[str, Any]:  # noqa: ANN401
    """The `metacog` field of an answer or of a chunk."""
    field: dict[str, Any] = (answer.model_extra or {}).get("metacog") or {}
    return field
