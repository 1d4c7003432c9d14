"""Responses that are kept are shown again, with the items that their model read, until their owner deletes them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from chassis.json_text import dumps
from inference import objects_of
from kernel.errors import MalformedRequest, RunNotFound
from kernel.values import value
from services.router.service.gateway.chat_reply import content, run_explanation, usage
from services.router.service.gateway.chat_request import NO_OPTIONS
from services.router.service.gateway.continuation import KEEP_SETTING, Continuation
from services.router.service.gateway.response_reply import REPEATED, response_of
from services.router.service.gateway.response_request import ID_PREFIX, ResponseRequest
from services.router.service.runs.values import CallKind, Run


@value
class RetrieveResponseRequest:
    """A whole response is shown: this request has no fields."""


@value
class ListInputItemsRequest:
    """This request asks for a page of the items that the model read.

    Attributes:
        limit: Items on the page at most [count].
        order: Whether the newest comes first.
        after: Identifier of the item after which the page begins; empty: the first page.
    """

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str = ""


def kept_request(request: ResponseRequest) -> str:
    """Return what is kept of a request, beside its conversation, to show its response again, as JSON."""
    names = ("model", *REPEATED)
    return dumps({name: request.given[name] for name in names if name in request.given}).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponses:
    """The stored responses of a key are those that it can also continue.

    Attributes:
        continuation: Finds them, and knows whether they are stored.
        forget: Deletes what a run says, and what was learned from it.
    """

    continuation: Continuation
    forget: Callable[[Run], Awaitable[None]]

    async def retrieve(self, response_id: str, key_name: str) -> dict[str, Any]:
        """Return a response.

        Raises:
            MalformedRequest: Where contents are not stored.
            RunNotFound: When there is no such response of this key.
            DatabaseUnavailable: When it cannot be looked up.
        """
        return _response(await self._kept(response_id, key_name))

    async def input_items(self, response_id: str, key_name: str, page: ListInputItemsRequest) -> dict[str, Any]:
        """Return a page of the items that the model read for a response, without its instructions.

        Raises:
            MalformedRequest: Where contents are not stored, or for an item that is not there.
            RunNotFound: When there is no such response of this key.
            DatabaseUnavailable: When it cannot be looked up.
        """
        run = await self._kept(response_id, key_name)
        items = _items(orjson.loads(run.continuation)[:-1], run.run_id)
        if page.order == "desc":
            items.reverse()
        names = [item["id"] for item in items]
        if page.after and page.after not in names:
            raise MalformedRequest(f"after: this response has no item {page.after!r}", field="after")
        begin = names.index(page.after) + 1 if page.after else 0
        data = items[begin : begin + page.limit]
        return {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": begin + page.limit < len(items),
        }

    async def delete(self, response_id: str, key_name: str) -> dict[str, Any]:
        """Delete the contents of a response, and return that they are gone; its run keeps its numbers.

        Raises:
            RunNotFound: When there is no such response of this key.
            DatabaseUnavailable: When it cannot be deleted.
        """
        run = await self._found(response_id, key_name)
        await self.forget(run)
        return {"id": f"{ID_PREFIX}{run.run_id}", "object": "response", "deleted": True}

    async def _kept(self, response_id: str, key_name: str) -> Run:
        if not self.continuation.keeps:
            message = f"response_id: {KEEP_SETTING} is false here, so that no response is stored"
            raise MalformedRequest(message, field="response_id", setting=KEEP_SETTING)
        return await self._found(response_id, key_name)

    async def _found(self, response_id: str, key_name: str) -> Run:
        run_id = response_id.removeprefix(ID_PREFIX)
        try:
            run = await self.continuation.find(run_id, key_name=key_name)
        except RunNotFound:
            run = None
        if run is None or run.call is not CallKind.RESPONSE or not run.continuation:
            raise RunNotFound(
                f"response_id: there is no response {ID_PREFIX}{run_id} of this key that was stored",
                field="response_id",
                run_id=run_id,
            )
        return run


def _response(run: Run) -> dict[str, Any]:
    """Return a response as it was given, but for what its model thought, which is not kept."""
    given: Mapping[str, Any] = orjson.loads(run.response_request or b"{}")
    answered = orjson.loads(run.continuation)[-1]
    text = None if answered.get("tool_calls") and not run.answer else content(run, NO_OPTIONS)
    completion = {
        "created": int(run.created_at.timestamp()),
        "model": given.get("model", run.model),
        "choices": [{"message": {**answered, "content": text}, "finish_reason": run.finish_reason or "stop"}],
        "usage": usage(run),
        "metacog": run_explanation(run),
    }
    request = ResponseRequest(given=given, instructions="", messages=(), fields={}, previous="", store=True)
    return response_of(completion, run.run_id, request, store=True)


def _items(messages: Sequence[Mapping[str, Any]], run_id: str) -> list[dict[str, Any]]:
    """Return the messages of a chat as items, oldest first."""
    items: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        name = f"msg_{run_id}_{place}"
        if message["role"] == "tool":
            call = message["tool_call_id"]
            kind = {"id": f"fco_{call}_{place}", "type": "function_call_output", "call_id": call}
            items.append({**kind, "output": _output(message.get("content")), "status": "completed"})
            continue
        calls = objects_of(message.get("tool_calls"))
        if message.get("content") or not calls:
            parts = _parts(message.get("content") or "", message["role"])
            head = {"id": name, "type": "message", "role": message["role"], "status": "completed"}
            items.append({**head, "content": parts})
        items += [_call(call, f"fc_{call.get('id')}_{place}") for call in calls]
    return items


def _call(call: Mapping[str, Any], name: str) -> dict[str, Any]:
    function: Mapping[str, Any] = call["function"]
    return {
        "id": name,
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
        "status": "completed",
    }


def _output(content: str | Sequence[Mapping[str, Any]] | None) -> str | list[dict[str, Any]]:
    return content or "" if content is None or isinstance(content, str) else _parts(content, "tool")


def _parts(content: str | Sequence[Mapping[str, Any]], role: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [_part(part, role) for part in parts]


def _part(part: Mapping[str, Any], role: str) -> dict[str, Any]:
    if part["type"] == "image_url":
        image = part["image_url"]
        return {
            "type": "input_image",
            "image_url": image["url"],
            "detail": image.get("detail", "auto"),
            "file_id": None,
        }
    if role == "assistant":
        return {"type": "output_text", "text": part["text"], "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": part["text"]}
