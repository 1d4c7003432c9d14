"""Files of the router, by the stock `openai` client."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import openai
import psycopg
import pytest
from openai import AsyncOpenAI

from chassis.serving.auth import ApiKey, Keyring
from services.router.compose import FORM_BYTES
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import RunningRouter, quick_storage, router_at

RING = Keyring([ApiKey(name=name, sha256=sha256(name.encode()).hexdigest()) for name in ("ann", "bob")])
CONTENT = b'{"custom_id": "1"}\r\n\n{"custom_id": "\xc3\xa9"}\n{"no": "end"}'
LIMITS: Any = {"file_max_bytes": 300_000, "file_max_lines": 4000, "file_line_max_bytes": 50_000, "files_per_key": 3}


def client_of(router: RunningRouter, key: str = "none") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{router.rest}/v1", api_key=key, max_retries=0)


@pytest.fixture
async def router(scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    async with router_at(scripted, empty_database_url, tmp_path, **LIMITS) as router:
        yield router


@pytest.fixture
async def client(router: RunningRouter) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(router) as client:
        yield client


async def uploaded(client: AsyncOpenAI, content: bytes = CONTENT, **more: Any) -> Any:  # noqa: ANN401
    return await client.files.create(file=("lines.jsonl", content), purpose="batch", **more)


async def test_a_file_is_uploaded_shown_read_byte_by_byte_and_deleted(client: AsyncOpenAI) -> None:
    made = await uploaded(client)
    shown = await client.files.retrieve(made.id)
    read = await client.files.content(made.id)
    deleted = await client.files.delete(made.id)

    assert shown == made
    assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(CONTENT), "lines.jsonl", "batch")
    assert (made.status, made.expires_at) == ("processed", None)
    assert read.content == CONTENT
    assert (deleted.id, deleted.deleted) == (made.id, True)
    for gone in (client.files.retrieve(made.id), client.files.content(made.id), client.files.delete(made.id)):
        with pytest.raises(openai.NotFoundError) as error:
            await gone
        assert error.value.code == "file_not_found"


async def test_a_large_file_comes_back_as_it_was(client: AsyncOpenAI) -> None:
    lines = [b'{"n": %d, "text": "%b"}\n' % (number, b"x" * (number % 97)) for number in range(3900)]
    content = b"".join(lines)

    made = await uploaded(client, content)

    assert len(content) > 200_000
    assert made.bytes == len(content)
    assert (await client.files.content(made.id)).content == content


async def test_files_are_listed_page_by_page_in_either_order(client: AsyncOpenAI) -> None:
    made = [(await uploaded(client, b"%d\n" % number)).id for number in range(3)]

    newest = await client.files.list(limit=2)
    everything = [file.id async for file in client.files.list(limit=2)]
    oldest = [file.id async for file in client.files.list(limit=2, order="asc")]
    none = await client.files.list(purpose="batch_output")
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.files.list(after="file-that-is-not-there")

    assert ([file.id for file in newest.data], newest.has_more) == ([made[2], made[1]], True)
    assert everything == made[::-1]
    assert oldest == made
    assert (none.data, none.has_more) == ([], False)
    assert (unknown.value.code, unknown.value.param) == ("file_not_found", "after")


async def test_a_file_belongs_to_its_key_alone(scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path) -> None:
    async with (
        router_at(scripted, empty_database_url, tmp_path, keyring=RING, files_per_key=1) as router,
        client_of(router, "ann") as ann,
        client_of(router, "bob") as bob,
    ):
        made = await uploaded(ann)
        for foreign in (bob.files.retrieve(made.id), bob.files.content(made.id), bob.files.delete(made.id)):
            with pytest.raises(openai.NotFoundError):
                await foreign
        listed = await bob.files.list()
        await uploaded(bob)  # the bound is each key's own
        mine = await ann.files.list()

    assert listed.data == []
    assert [file.id for file in mine.data] == [made.id]


@pytest.mark.parametrize(
    ("content", "setting"),
    [
        ((b"x" * 99 + b"\n") * 3100, "METACOG_ROUTER_FILE_MAX_BYTES"),
        (b"x\n" * 4001, "METACOG_ROUTER_FILE_MAX_LINES"),
        (b"x\n" + b"y" * 50_001, "METACOG_ROUTER_FILE_LINE_MAX_BYTES"),
    ],
)
async def test_what_is_over_a_limit_is_rejected_by_its_setting_and_leaves_nothing_behind(
    client: AsyncOpenAI, empty_database_url: str, content: bytes, setting: str
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        await uploaded(client, content)

    assert (error.value.code, error.value.param) == ("request_over_limit", "file")
    assert setting in error.value.message
    with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
        stored = connection.execute("SELECT count(*) FROM router.files WHERE expires_at IS NULL OR expires_at > now()")
        assert stored.fetchone() == (0,)


async def test_a_body_over_the_limit_is_rejected_before_it_is_read(router: RunningRouter) -> None:
    size = LIMITS["file_max_bytes"] + FORM_BYTES + 1
    head = {"content-type": "multipart/form-data; boundary=x", "content-length": str(size)}
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.post("/v1/files", content=b"x" * size, headers=head)

    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")


async def test_one_file_too_many_is_rejected_until_one_is_deleted(client: AsyncOpenAI) -> None:
    made = [await uploaded(client) for _ in range(3)]
    with pytest.raises(openai.BadRequestError) as error:
        await uploaded(client)
    await client.files.delete(made[0].id)
    again = await uploaded(client)

    assert error.value.code == "too_many_files"
    assert "METACOG_ROUTER_FILES_PER_KEY" in error.value.message
    assert again.id


async def test_another_purpose_or_field_is_rejected_by_name(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as purpose:
        await client.files.create(file=("a.jsonl", b"{}"), purpose="assistants")
    with pytest.raises(openai.BadRequestError) as field:
        await uploaded(client, extra_body={"colour": "red"})
    with pytest.raises(openai.BadRequestError) as expiry:
        await uploaded(client, expires_after={"anchor": "created_at", "seconds": 1})

    assert (purpose.value.param, purpose.value.code) == ("purpose", "malformed_request")
    assert field.value.param == "colour"
    assert expiry.value.param == "expires_after"


async def test_a_file_is_gone_when_its_time_is_over(client: AsyncOpenAI, empty_database_url: str) -> None:
    made = await uploaded(client, expires_after={"anchor": "created_at", "seconds": 3600})
    with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
        connection.execute("UPDATE router.files SET expires_at = now() - interval '1 second'")

    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(made.id)

    assert made.expires_at == made.created_at + 3600
    assert (await client.files.list()).data == []


@pytest.mark.parametrize(
    ("content_type", "body", "status", "code"),
    [
        ("application/json", b"{}", 415, "unsupported_media_type"),
        ("multipart/form-data", b"x", 400, "malformed_request"),
        ("multipart/form-data; boundary=x", b"--x\r\n", 400, "malformed_request"),
        ("multipart/form-data; boundary=x", b"no form", 400, "malformed_request"),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 400, "malformed_request"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\n' + b"y" * 5000 + b"\r\n--x--\r\n",
            400,
            "malformed_request",
        ),
    ],
)
async def test_what_is_no_form_with_a_file_is_rejected_by_name(
    router: RunningRouter, content_type: str, body: bytes, status: int, code: str
) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.post("/v1/files", content=body, headers={"content-type": content_type})

    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


async def test_a_page_of_another_site_uploads_nothing(router: RunningRouter) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.post(
            "/v1/files", files={"file": b"{}"}, data={"purpose": "batch"}, headers={"origin": "http://evil.example"}
        )

    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")


async def test_without_contents_a_file_is_rejected_by_name(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    storage = quick_storage(tmp_path, contents=False)
    async with (
        router_at(scripted, empty_database_url, tmp_path, storage=storage) as router,
        client_of(router) as client,
    ):
        with pytest.raises(openai.BadRequestError) as error:
            await uploaded(client)

    assert (error.value.param, error.value.code) == ("file", "malformed_request")
    assert "METACOG_ROUTER_KEEP_CONTENTS" in error.value.message
