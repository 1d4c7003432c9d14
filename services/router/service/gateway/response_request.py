"""The gateway reads requests of OpenAI's Responses API as requests of a chat."""

from collections.abc import Mapping, Sequence
from typing import Any

from inference import LIMIT_ALIASES, text_of
from kernel.errors import MalformedRequest
from kernel.values import value
from services.router.core.media_sources import check_parts
from services.router.service.gateway.chat_request import bool_field, count_field, object_field
from services.router.service.gateway.passed_fields import PassedFields

# The fields that pass as they are.
SAME = ("model", "stream", "temperature", "top_p", "parallel_tool_calls", "metadata", "user", "safety_identifier")
SAME_TOO = ("prompt_cache_key", "metacog")
FIELDS = frozenset({*SAME, *SAME_TOO, "input", "instructions", "max_output_tokens", "tools", "tool_choice"}) | {
    *("text", "reasoning", "store", "previous_response_id", "truncation", "include", "stream_options", "background")
}
ROLES = frozenset({"user", "assistant", "system", "developer"})
TEXTS = frozenset({"input_text", "output_text", "text"})
ID_PREFIX = "resp_"


@value
class ResponseRequest:
    """A response request is a request of the Responses API, read.

    Attributes:
        given: The request as it came, without fields that are null.
        instructions: The system message of this response alone; empty: none.
        messages: The new messages of a chat.
        fields: The other fields of a chat.
        previous: Name of the run that it continues; empty: none.
        store: Whether it may be continued; None: the request leaves that open.
    """

    given: Mapping[str, Any]
    instructions: str
    messages: Sequence[Mapping[str, Any]]
    fields: Mapping[str, Any]
    previous: str
    store: bool | None


def parsed_response(
    body: object, passed: PassedFields, media_hosts: Sequence[str], more_fields: Sequence[str] = ()
) -> ResponseRequest:
    """Return the request in `body`.

    Args:
        body: The request as JSON has it.
        passed: The fields that it may have.
        media_hosts: Hosts from which the model server may fetch what messages name by URL.
        more_fields: Fields of model servers that the operator lets through.

    Raises:
        MalformedRequest: For a field that does not pass, or is not as it must be; names it.
        MediaSourceNotAllowed: For an image that may not be fetched.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given: dict[str, Any] = {name: item for name, item in body.items() if item is not None}
    passed.check({name: item for name, item in given.items() if name != "store"})
    _check_fixed(given)
    names = (*SAME, *SAME_TOO, *more_fields, *LIMIT_ALIASES)  # the chat rejects other names of its limits
    fields: dict[str, Any] = {name: given[name] for name in names if name in given}
    if tokens := count_field(given, "max_output_tokens"):
        fields["max_tokens"] = tokens  # which every server knows
    if given.get("stream") is True:
        fields["stream_options"] = {"include_usage": True}
    if effort := object_field(given, "reasoning").get("effort"):
        fields["reasoning_effort"] = effort
    return ResponseRequest(
        given=given,
        instructions=_text_field(given, "instructions"),
        messages=_messages(given.get("input"), media_hosts),
        fields={**fields, **_format(given), **_tools(given)},
        previous=_previous(given),
        store=bool_field(given, "store") if "store" in given else None,
    )


def _check_fixed(given: Mapping[str, Any]) -> None:
    """Check the fields that may have one value alone."""
    for name, only in (("background", False), ("truncation", "disabled"), ("include", [])):
        if given.get(name, only) != only:
            raise MalformedRequest(f"{name}: only {only!r} is served; leave it out", field=name)


def _text_field(given: Mapping[str, Any], name: str) -> str:
    text = given.get(name, "")
    if not isinstance(text, str):
        raise MalformedRequest(f"{name}: it must be a text", field=name)
    return text


def _previous(given: Mapping[str, Any]) -> str:
    """Return the run that a request continues; empty: none."""
    name = "previous_response_id"
    run_id = _text_field(given, name).removeprefix(ID_PREFIX)
    if name in given and not run_id:
        raise MalformedRequest(f"{name}: give the id of a response, or leave it out", field=name)
    return run_id


def _messages(given: object, media_hosts: Sequence[str]) -> list[dict[str, Any]]:
    if isinstance(given, str) and given:
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise MalformedRequest("input: give a text, or a list of items", field="input")
    chat: list[dict[str, Any]] = []
    for place, item in enumerate(given):
        field = f"input.{place}"
        if not isinstance(item, dict):
            raise MalformedRequest(f"{field}: it must be an item", field=field)
        _add(chat, item, field)
        for name in ("content", "output"):
            check_parts(_images(item.get(name)), f"{field}.{name}", media_hosts)
    return chat


def _images(content: object) -> list[Mapping[str, Any]]:
    """Return the images among parts, each in its place: other parts may hold any text."""
    parts: list[Mapping[str, Any]] = content if isinstance(content, list) else []
    names = ("image_url", "detail")
    return [{name: part.get(name) for name in names} if _is_image(part) else {} for part in parts]


def _is_image(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


def _add(chat: list[dict[str, Any]], item: Mapping[str, Any], field: str) -> None:
    """Add an item to the messages of a chat."""
    match item.get("type", "message"):
        case "message":
            if not isinstance(item.get("role"), str) or item["role"] not in ROLES:
                raise MalformedRequest(f"{field}.role: it must be one of {sorted(ROLES)}", field=f"{field}.role")
            chat.append({"role": item["role"], "content": _content(item.get("content"), f"{field}.content")})
        case "function_call":
            function = {"name": _name(item, "name", field), "arguments": _name(item, "arguments", field)}
            call = {"id": _name(item, "call_id", field), "type": "function", "function": function}
            if chat and chat[-1]["role"] == "assistant":
                chat[-1].setdefault("tool_calls", []).append(call)
            else:
                chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
        case "function_call_output":
            output = _content(item.get("output"), f"{field}.output")
            chat.append({"role": "tool", "tool_call_id": _name(item, "call_id", field), "content": output})
        case "reasoning":  # what a model thought before is not sent to it again
            pass
        case other:
            raise MalformedRequest(f"{field}.type: {other!r} is not taken here", field=f"{field}.type")


def _content(given: object, field: str) -> Any:  # noqa: ANN401 - a text or parts
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(part, dict) for part in given):
        raise MalformedRequest(f"{field}: it must be a text or a list of parts", field=field)
    parts = [_part(part, f"{field}.{place}") for place, part in enumerate(given)]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(part: Mapping[str, Any], field: str) -> dict[str, Any]:
    kind = text_of(part.get("type"))
    if kind in TEXTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal":
        return {"type": "text", "text": _name(part, "refusal", field)}
    if kind == "input_image":
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": _name(part, "image_url", field), **detail}}
    raise MalformedRequest(f"{field}.type: {kind!r} is not taken here; send texts and images", field=f"{field}.type")


def _name(given: Mapping[str, Any], name: str, field: str) -> str:
    text = given.get(name)
    if not isinstance(text, str) or not text:
        raise MalformedRequest(f"{field}.{name}: it must be a text that is not empty", field=f"{field}.{name}")
    return text


def _format(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of the answer as a chat states it."""
    text = object_field(given, "text")
    verbosity = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    form = object_field(text, "format")
    if form.get("type", "text") == "text":
        return verbosity
    if form["type"] != "json_schema":
        return {**verbosity, "response_format": form}
    schema = {name: form[name] for name in ("name", "description", "schema", "strict") if form.get(name) is not None}
    return {**verbosity, "response_format": {"type": "json_schema", "json_schema": schema}}


def _tools(given: Mapping[str, Any]) -> dict[str, Any]:
    tools = given.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise MalformedRequest("tools: it must be a list of tools", field="tools")
    if not tools:
        return {}
    chat: dict[str, Any] = {"tools": [_tool(tool, f"tools.{place}") for place, tool in enumerate(tools)]}
    choice = given.get("tool_choice")
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": _name(choice, "name", "tool_choice")}}
    return chat if choice is None else {**chat, "tool_choice": choice}


def _tool(tool: Mapping[str, Any], field: str) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise MalformedRequest(f"{field}.type: only functions are taken here", field=f"{field}.type")
    names = ("description", "parameters", "strict")
    more = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": {"name": _name(tool, "name", field), **more}}
