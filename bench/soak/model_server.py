"""A model server and encoder of the soak, in a process of its own: quick, with some errors and hang-ups of its own.

    with model_server() as url:
        ...                                            # an OpenAI-compatible server at url, without `/v1`

A prompt with `FAILS` in it gets a 500, and one with `BREAKS` a stream that breaks off; everything else is answered.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import uvloop
from aiohttp import web

from tests.support.models.llm_replies import VLLM, Body, ScriptedChoice, chunks, completion, embeddings
from tests.support.stack import cast, stage_of

MODEL = "soak"
FAILS, BREAKS = "[the model server fails]", "[the stream breaks off]"
# Time that a token takes, so that streams last long enough to be left by their clients [s].
TOKEN_S = 0.005
WORDS = "It is four, since two and two are four, and nothing else was asked for in this question. " * 2

_answers = cast(system1=WORDS, answer="4", first_answer="4")
_spawn = multiprocessing.get_context("spawn")


@contextmanager
def model_server() -> Iterator[str]:
    """Run the server until the block ends, and return its address."""
    ours, theirs = _spawn.Pipe()
    server = _spawn.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def _serve(ready: "Connection[int, None]") -> None:
    async def forever() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", _models)
        app.router.add_post("/v1/embeddings", _embed)
        app.router.add_post("/v1/chat/completions", _chat)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    uvloop.run(forever())


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 32_768}]})


async def _embed(request: web.Request) -> web.Response:
    body: Body = await request.json()
    texts: Sequence[str] = [body["input"]] if isinstance(body["input"], str) else body["input"]
    return web.json_response(embeddings(MODEL, texts))


async def _chat(request: web.Request) -> web.StreamResponse:
    body: Body = await request.json()
    prompt = str(body["messages"][-1].get("content"))
    if FAILS in prompt:
        return web.json_response({"error": {"message": "it failed", "code": 500}}, status=500)
    said = [ScriptedChoice(text).shortened(body) for text in _texts(body, prompt)]
    if not body.get("stream"):
        return web.json_response(completion(VLLM, MODEL, body, said))
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for number, chunk in enumerate(chunks(VLLM, MODEL, body, said)):
        if BREAKS in prompt and number == 3 and request.transport is not None:
            request.transport.abort()
            return response
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await asyncio.sleep(TOKEN_S)
    await response.write(b"data: [DONE]\n\n")
    return response


def _texts(body: Body, prompt: str) -> Sequence[str]:
    """Return the texts of the choices: a number where one is asked for, so that votes agree."""
    wants_number = "2 + 2" in prompt and stage_of(body) in ("system1", "thesis") and not body.get("stream")
    return ["4"] * (body.get("n") or 1) if wants_number else _answers(body)
