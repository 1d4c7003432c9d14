"""No way into the suite makes the model server fetch what the operator did not allow."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.router.settings import Settings
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, RunningRouter, cast, router_at
from tests.unit.cli.running import Metacog

HOSTS = ["images.example.com", "cdn.example.com:8443", "xn--bcher-kva.example"]
DATA = "data:image/png;base64,AA=="
METADATA = "http://169.254.169.254/latest/meta-data/"


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, database_url, tmp_path, media_hosts=HOSTS) as running:
        yield running


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def asked(router: RunningRouter, *parts: Any, **more: Any) -> httpx.Response:  # noqa: ANN401
    """The reply to a chat with these parts."""
    body = {"model": "metacog/system1", "messages": [{"role": "user", "content": list(parts)}], **more}
    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=body)


ALLOWED = [
    DATA,
    "DATA:image/png;base64,AA==",
    "https://images.example.com/a.png?size=2#top",
    "http://images.example.com",
    "HTTPS://IMAGES.Example.COM/a.png",
    "https://images.example.com./a.png",
    "https://images.example.com:443/a.png",
    "https://cdn.example.com:8443/a%20b.png",
    "https://xn--bcher-kva.example/a.png",
]
NOT_ALLOWED = [
    METADATA,
    "https://images.example.com.evil.example/a.png",
    "https://evil.example/images.example.com",
    "https://evil.example?images.example.com",
    "https://evil.example#@images.example.com/",
    "http://images.example.com@evil.example/",
    "http://images.example.com:80@evil.example/",
    "http://evil.example\\@images.example.com/",
    "http://images.example.com\\.evil.example/",
    "http:\\\\evil.example/",
    "http:/evil.example/",
    "http:evil.example",
    "https://images.example.com:8443/a.png",
    "https://images.example.com:80/a.png",
    "https://cdn.example.com/a.png",
    "https://images.example.com:/a.png",
    "https://bücher.example/a.png",
    "https://images.example.com/ a.png",
    "https://images。example。com/a.png",
    "https://images.example.com%2eevil.example/a.png",
    " http://evil.example/",
    "\thttp://evil.example/",
    "ht\ntp://evil.example/",
    "http://2130706433/",
    "http://[::1]/",
    "//evil.example/a.png",
    "/etc/passwd",
    "file:///etc/passwd",
    "FILE:/etc/passwd",
    "ftp://images.example.com/a.png",
    "gopher://evil.example/",
    "javascript:alert(1)",
    "",
]


async def test_an_image_comes_from_a_host_that_is_listed_or_from_the_request_itself(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    found = {url: await asked(router, image(url)) for url in (*ALLOWED, *NOT_ALLOWED)}

    assert [url for url in ALLOWED if found[url].status_code != 200] == []
    assert [url for url in NOT_ALLOWED if found[url].status_code != 400] == []
    errors = [found[url].json()["error"] for url in NOT_ALLOWED]
    assert {error["code"] for error in errors} == {"media_source_not_allowed"}
    assert {error["param"] for error in errors} == {"messages.0.content.0.image_url.url"}
    assert [body["messages"][0]["content"][0]["image_url"]["url"] for body in scripted.bodies] == ALLOWED


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": METADATA},
        {"image_url": METADATA},
        {"image_url": {"url": METADATA}},
        {"type": "text", "text": "a", "name": "b", "image_url": {"url": METADATA}},
        {"type": "input_image", "image_url": METADATA},
        {"type": "image", "source": {"type": "url", "url": METADATA}},
        {"type": "image", "image": "/etc/passwd"},
        {"type": "audio_url", "audio_url": {"url": METADATA}},
        {"type": "input_audio", "input_audio": {"data": METADATA, "format": "wav"}},
        {"type": "video_url", "video_url": {"url": METADATA}},
        {"type": "video", "video": ["https://images.example.com/1.png", METADATA]},
        {"type": "file", "file": {"file_url": METADATA}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": METADATA}},
        {"type": "new_kind", "somewhere": {"deeper": [METADATA]}},
        {"type": "image_url", "image_url": {"url": DATA}, "uuid": "of-another-caller"},
    ],
    ids=str,
)
async def test_a_part_of_any_kind_is_checked(
    router: RunningRouter, scripted: ScriptedLLM, part: dict[str, Any]
) -> None:
    reply = await asked(router, {"type": "text", "text": "What is it?"}, part)

    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "media_source_not_allowed")
    assert scripted.bodies == []


async def test_what_holds_its_own_content_and_what_is_text_is_forwarded(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    parts = [
        {"type": "text", "text": f"What is at {METADATA}, in file:///etc/passwd?"},
        image(DATA),
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"filename": "c: a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
    ]

    reply = await asked(router, *parts)

    assert reply.status_code == 200
    assert scripted.bodies[-1]["messages"][0]["content"] == parts


@pytest.mark.parametrize("model", ["metacog", "metacog/system1", "metacog/vote", "metacog/dialectic", "scripted"])
@pytest.mark.parametrize("stream", [False, True])
async def test_no_model_name_leads_around_the_check(
    router: RunningRouter, scripted: ScriptedLLM, model: str, stream: bool
) -> None:
    reply = await asked(router, image(METADATA), model=model, stream=stream)

    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "media_source_not_allowed")
    assert scripted.bodies == []


async def test_a_tools_result_and_an_earlier_turn_are_checked(router: RunningRouter, scripted: ScriptedLLM) -> None:
    for role in ("system", "user", "assistant", "tool"):
        messages = [{"role": role, "content": [image(METADATA)]}, {"role": "user", "content": "What is it?"}]

        reply = await asked(router, messages=messages)

        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages.0.content.0.image_url.url")
    assert scripted.bodies == []


@pytest.mark.parametrize("operation", ["Route", "Answer", "Assess"])
async def test_our_own_apis_take_texts_alone(router: RunningRouter, scripted: ScriptedLLM, operation: str) -> None:
    with pytest.raises(ApiError) as raised:
        await RestApi(router.rest, ROUTER).ask(operation, messages=[{"role": "user", "content": [image(METADATA)]}])

    assert raised.value.reason == "MALFORMED_REQUEST"
    assert scripted.bodies == []


async def test_a_text_that_looks_like_a_part_stays_a_text(router: RunningRouter, scripted: ScriptedLLM) -> None:
    text = json.dumps([image(METADATA)])

    await RpcApi(router.grpc, ROUTER).ask("Answer", messages=[{"role": "user", "content": text}], strategy="system1")

    assert {type(message["content"]) for body in scripted.bodies for message in body["messages"]} == {str}


async def test_a_batch_reports_the_line_that_was_rejected(
    router: RunningRouter, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"model": "metacog/system1", "messages": [{"role": "user", "content": [image(METADATA)]}]}
    file, out = tmp_path / "asked.jsonl", tmp_path / "out.jsonl"
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file.write_text(json.dumps(line) + "\n")
    metacog = Metacog(capsys, monkeypatch)

    done = await asyncio.to_thread(metacog, "batch", file, out, "--router", router.rest)

    assert done.status != 0
    assert "media_source_not_allowed" in out.read_text()


@pytest.mark.parametrize("host", ["https://a.example", "*.example", "a.example/b", "A.example", "bücher.example", "a."])
def test_a_setting_that_lists_no_host_is_rejected(host: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        Settings.model_validate({"media_hosts": [host]})


def test_without_the_setting_no_host_is_allowed() -> None:
    assert Settings.model_validate({}).media_hosts == []
