"""Batches of a router, as the stock `openai` client makes them and waits for them."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from openai import AsyncOpenAI
from openai.types import Batch

from services.router.core.batch_states import ENDED
from tests.support.stack import RunningRouter

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
RESPONSES: Literal["/v1/responses"] = "/v1/responses"
COMPLETIONS: Literal["/v1/completions"] = "/v1/completions"
EMBEDDINGS: Literal["/v1/embeddings"] = "/v1/embeddings"
Line = dict[str, Any]


def client_of(router: RunningRouter, key: str = "none") -> AsyncOpenAI:
    """Return a client of a router, by a key."""
    return AsyncOpenAI(base_url=f"{router.rest}/v1", api_key=key, max_retries=0)


def line(custom_id: str, url: str = CHAT, **body: Any) -> Line:  # noqa: ANN401
    """Return a line of an input file; without a body a chat on System 1."""
    usual = {"model": "metacog/system1", "messages": [{"role": "user", "content": f"Say {custom_id}."}]}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body or usual}


def content_of(lines: Sequence[Line]) -> bytes:
    """Return lines as a file."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


async def begun(client: AsyncOpenAI, lines: Sequence[Line] | bytes, endpoint: Any = CHAT, **more: Any) -> Batch:  # noqa: ANN401
    """Upload lines, and begin a batch of them."""
    content = lines if isinstance(lines, bytes) else content_of(lines)
    file = await client.files.create(file=("lines.jsonl", content), purpose="batch")
    return await client.batches.create(
        **{"input_file_id": file.id, "endpoint": endpoint, "completion_window": "24h", **more}
    )


async def ended(client: AsyncOpenAI, batch: Batch) -> Batch:
    """Return a batch once it has ended; how long is bounded by the test's own limit."""
    while (found := await client.batches.retrieve(batch.id)).status not in ENDED:  # noqa: ASYNC110 - it is in the service
        await asyncio.sleep(0.05)
    return found


async def results(client: AsyncOpenAI, file_id: str | None) -> dict[str, Line]:
    """Return the lines of a file of results by their `custom_id`, of which each is there once."""
    if file_id is None:
        return {}
    lines = [json.loads(text) for text in (await client.files.content(file_id)).content.splitlines()]
    by_name = {one["custom_id"]: one for one in lines}
    assert len(by_name) == len(lines)
    return by_name


def counts(batch: Batch) -> Sequence[int]:
    """Return the lines of a batch: all, with a reply, with an error."""
    assert batch.request_counts is not None
    return [batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed]


def body_of(result: Mapping[str, Any]) -> Line:
    """Return the body of a result."""
    body: Line = result["response"]["body"]
    return body
