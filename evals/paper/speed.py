"""The speed of the model server that the suite uses, measured by a few answers at a time."""

import time
from typing import Any

from evals.errors import ServiceUnreachable
from evals.harness.recorder import run_concurrently
from evals.router_client import Body
from evals.suite import Post

# Tokens of an answer that is timed [count].
TIMED_TOKENS = 128
QUESTION = "Count from 1 to 200, one number a line."


async def tokens_per_second(post: Post, concurrency: int) -> float:
    """Return how many tokens the server generates in a second, over so many requests at a time [1/s].

    Args:
        post: Posts to the router.
        concurrency: Requests at a time [count, >= 1].

    Raises:
        ServiceUnreachable: When the router or the model behind it cannot be reached, or generates nothing.
    """
    written = 0

    async def answer(seed: int) -> None:
        nonlocal written
        reply: dict[str, Any] = dict(await post("/v1/chat/completions", _request(seed)))
        written += reply["metacog"]["usage"]["completion_tokens"]

    began = time.monotonic()
    await run_concurrently(range(concurrency), answer, concurrency)
    if not written:
        raise ServiceUnreachable("the model generates nothing; state its speed with --tokens-per-second")
    return written / max(1e-6, time.monotonic() - began)


def _request(seed: int) -> Body:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": "metacog/system1", "messages": messages, "max_tokens": TIMED_TOKENS, "seed": seed}
