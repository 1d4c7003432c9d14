"""A client that hangs up stops the generation, whatever the API and the way, as the backend itself counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx
import psutil
import pytest
from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from tests.support.gateway import Suite, gateway
from tests.support.models.llama import llama
from tests.support.models.scripted_llm import LLAMACPP, ScriptedLLM
from tests.support.stack import TROUBLED, At, RunningRouter, cast, router_at

# The small model goes on about this for most of a minute, as a rule.
COUNT: Any = [{"role": "user", "content": "Count from one to nine hundred."}]
TOKENS = 1800
WITHIN_S = 1.0
# The same where a busy machine generates, polls and answers at once; who is not noticed is generated for to the end.
WITHIN_BUSY_S = 5.0

Asking = Callable[[RunningRouter], Awaitable[None]]


async def chat(router: RunningRouter, *, stream: bool) -> None:
    body = {"model": "metacog/system1", "messages": COUNT, "max_tokens": TOKENS, "stream": stream, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        (await client.post("/v1/chat/completions", json=body)).raise_for_status()


async def answers(router: RunningRouter, *, events: bool) -> None:
    accept = "text/event-stream" if events else "application/json"
    body = {"messages": COUNT, "strategy": "system1", "max_tokens": TOKENS}
    async with httpx.AsyncClient(base_url=router.rest, timeout=60, headers={"accept": accept}) as client:
        (await client.post("/v1/answers", json=body)).raise_for_status()


async def rpc(router: RunningRouter) -> None:
    query = COUNT[0]["content"]
    request = router_pb2.AnswerRequest(question=query, strategy="system1", max_tokens=TOKENS)
    async with aio.insecure_channel(router.grpc) as channel:
        async for _ in router_pb2_grpc.RouterServiceStub(channel).Answer(request):
            pass


WAYS: dict[str, Asking] = {
    "chat stream": lambda router: chat(router, stream=True),
    "chat whole": lambda router: chat(router, stream=False),
    "answers stream": lambda router: answers(router, events=True),
    "answers whole": lambda router: answers(router, events=False),
    "grpc": rpc,
}


# A real llama.cpp


@pytest.fixture(scope="module")
def own_llama(model_file: Path) -> Any:  # noqa: ANN401
    """A llama.cpp that nobody else asks."""
    with llama(model_file, parallel=4, context_tokens=16384) as url:
        yield url


@pytest.fixture
async def router(own_llama: str, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    async with router_at(At(own_llama, "smollm2"), database_url, tmp_path) as running:
        async with httpx.AsyncClient(base_url=running.rest) as client:
            assert (await client.get("/readyz")).status_code == 200
        yield running


async def counted(url: str, name: str) -> int:
    """What llama.cpp counts."""
    lines = (await asyncio.to_thread(lambda: urlopen(f"{url}/metrics").read().decode())).splitlines()
    (line,) = [line for line in lines if line.startswith(f"llamacpp:{name} ")]
    return int(float(line.split()[1]))


def generator(url: str) -> psutil.Process:
    """The process that serves `url`."""
    port = url.rsplit(":", 1)[1]
    return next(child for child in psutil.Process().children(recursive=True) if port in child.cmdline())


async def in_flight(router: RunningRouter, way: Asking, generating: Callable[[], Awaitable[bool]]) -> Any:  # noqa: ANN401
    """A request of that way that the model generates for; one that ended too soon is made again."""
    while True:
        asking = asyncio.ensure_future(_asked(way, router))
        while not asking.done():
            if await generating():
                return asking
            await asyncio.sleep(0.05)
        asking.result()  # an error is raised, and not asked for again


def working(url: str) -> Callable[[], Awaitable[bool]]:
    """Whether the model has worked for a while since now: to ask it would put off when it looks for lost clients."""
    process = generator(url)
    before = _seconds(process)

    async def generating() -> bool:
        return _seconds(process) > before + 0.3

    return generating


def busy_with(url: str, requests: int) -> Callable[[], Awaitable[bool]]:
    """Whether the model generates for so many requests."""

    async def generating() -> bool:
        return await counted(url, "requests_processing") == requests

    return generating


async def _asked(way: Asking, router: RunningRouter) -> None:
    await way(router)


def _seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


@pytest.mark.parametrize("way", WAYS)
async def test_a_real_model_is_at_rest_within_a_second_after_its_client_left(
    router: RunningRouter, own_llama: str, way: str
) -> None:
    asking = await in_flight(router, WAYS[way], working(own_llama))
    before = await counted(own_llama, "tokens_predicted_total")

    asking.cancel()
    await asyncio.sleep(WITHIN_S)

    assert await counted(own_llama, "requests_processing") == 0
    assert await counted(own_llama, "tokens_predicted_total") - before < TOKENS


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_left_is_noticed_beside_others_that_stay(
    router: RunningRouter, own_llama: str, way: str
) -> None:
    staying = await in_flight(router, WAYS["chat stream"], busy_with(own_llama, 1))
    leaving = await in_flight(router, WAYS[way], busy_with(own_llama, 2))

    leaving.cancel()
    began = time.monotonic()
    while await counted(own_llama, "requests_processing") > 1:  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0.05)

    assert time.monotonic() - began < WITHIN_BUSY_S
    assert not staying.done()
    staying.cancel()
    await asyncio.wait({staying})
    while await counted(own_llama, "requests_processing"):  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0.05)


# A deliberation


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast(TROUBLED, thesis="word " * 400)
    scripted.token_delay_s = 0.01
    async with gateway(scripted, database_url, tmp_path) as suite:
        yield suite


@pytest.mark.parametrize("way", ["chat stream", "chat whole", "answers stream", "answers whole", "grpc"])
async def test_a_deliberation_stops_in_all_services(suite: Suite, scripted: ScriptedLLM, way: str) -> None:
    asking = asyncio.ensure_future(_deliberating(suite, way))
    await scripted.until(lambda llm: len(llm.bodies) == 6 and llm.in_flight == 1)  # five self-assessments, the thesis

    asking.cancel()
    async with asyncio.timeout(WITHIN_BUSY_S):
        await scripted.until(lambda llm: llm.in_flight == 0)
    await asyncio.sleep(0.2)

    assert (len(scripted.bodies), scripted.disconnects, scripted.in_flight) == (6, 1, 0)


async def _deliberating(suite: Suite, way: str) -> None:
    body: dict[str, Any] = {"question": "Is it so?", "strategy": "dialectic"}
    accept = "text/event-stream" if way == "answers stream" else "application/json"
    match way:
        case "chat stream":
            await suite.chunks("metacog/dialectic")
        case "chat whole":
            await suite.ask("metacog/dialectic")
        case "grpc":
            async with aio.insecure_channel(suite.router.grpc) as channel:
                async for _ in router_pb2_grpc.RouterServiceStub(channel).Answer(router_pb2.AnswerRequest(**body)):
                    pass
        case _:
            async with httpx.AsyncClient(base_url=suite.router.rest, timeout=60, headers={"accept": accept}) as client:
                await client.post("/v1/answers", json=body)


# Why a whole reply of llama.cpp is read as a stream


async def test_a_whole_reply_of_llamacpp_is_read_as_a_stream(database_url: str, tmp_path: Path) -> None:
    with ScriptedLLM(LLAMACPP) as llm:
        llm.reply("warm", "one two three", "eins", "zwei")
        async with gateway(llm, database_url, tmp_path) as suite:
            await suite.ask("metacog/system1")
            answer = await suite.ask("metacog/system1", temperature=0.5, logprobs=True, top_logprobs=1)
            several = await suite.ask("metacog/system1", n=2, temperature=0.5)

    [choice] = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "one two three", "stop")
    assert [entry.token for entry in choice.logprobs.content] == ["one", " two", " three"]
    assert (answer.object, answer.usage.completion_tokens) == ("chat.completion", 3)
    assert [bool(body.get("stream")) for body in llm.bodies] == [False, True, False]
    assert [other.message.content for other in several.choices] == ["eins", "zwei"]
