"""The gateway reads requests of Anthropic's Messages API as requests of a chat."""

from collections.abc import Mapping, Sequence
from typing import Any

from chassis.json_text import dumps
from inference import LIMIT_ALIASES
from kernel.errors import MalformedRequest
from services.router.core.media_sources import check_media_sources
from services.router.service.gateway.chat_request import (
    bool_field,
    count_field,
    number_field,
    object_field,
    whole_number_field,
)
from services.router.service.gateway.passed_fields import PassedFields

# The fields that pass as they are, or as the chat's of another name.
SAME = ("model", "stream", "temperature", "top_p", "top_k", "metacog")
FIELDS = frozenset(
    {
        *(*SAME, "messages", "max_tokens", "system", "stop_sequences", "tools", "tool_choice", "metadata", "thinking"),
        "cache_control",  # servers find what they have read before by themselves
    }
)
COUNTED_FIELDS = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "cache_control"})
TOOL_CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}
# Blocks whose content is fetched or held, and the name of a chat's part for it.
MEDIA = ("image", "document")
# What a model thought before is not sent to it again.
THOUGHTS = ("thinking", "redacted_thinking")
MOST_TOKENS = 2**31 - 1


def chat_of_message_request(
    body: object, passed: PassedFields, media_hosts: Sequence[str], more_fields: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the request in `body` as a request of a chat.

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
    passed.check(given)
    if count_field(given, "max_tokens") is None:
        raise MalformedRequest("max_tokens: give the most tokens that the answer may have", field="max_tokens")
    number_field(given, "temperature", 0, 1)
    whole_number_field(given, "top_k", 0, MOST_TOKENS)
    chat: dict[str, Any] = {name: given[name] for name in (*SAME, *more_fields, *LIMIT_ALIASES) if name in given}
    chat |= {"messages": _messages(given, media_hosts), "max_tokens": given["max_tokens"], **_thinking(given)}
    if "stop_sequences" in given:
        chat["stop"] = _texts(given, "stop_sequences")
    if given.get("stream") is True:
        chat["stream_options"] = {"include_usage": True}
    user = object_field(given, "metadata").get("user_id")
    return {**chat, **_tools(given), **({"user": user} if isinstance(user, str) else {})}


def counted_call(body: object, passed: PassedFields, media_hosts: Sequence[str]) -> dict[str, Any]:
    """Return the request to count the tokens of a message as a request to take its chat apart.

    Raises:
        MalformedRequest, MediaSourceNotAllowed: As `chat_of_message_request`.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given = {name: item for name, item in body.items() if item is not None}
    passed.check(given)
    tools = _tools({"tools": given.get("tools")})
    refused = {name: given[name] for name in LIMIT_ALIASES & given.keys()}  # by the call, as by a chat
    messages = _messages(given, media_hosts)
    return {"model": given.get("model"), "messages": messages, **_thinking(given), **tools, **refused}


def _messages(given: Mapping[str, Any], media_hosts: Sequence[str]) -> list[dict[str, Any]]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise MalformedRequest("messages: give at least one", field="messages")
    system = _system(given.get("system"))
    chat = [{"role": "system", "content": system}] if system else []
    for place, message in enumerate(messages):
        field = f"messages.{place}"
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            raise MalformedRequest(f"{field}.role: it must be user or assistant", field=f"{field}.role")
        blocks = _blocks(message.get("content"), f"{field}.content")
        chat += _assistant(blocks, field) if message["role"] == "assistant" else _user(blocks, field)
    check_media_sources([{"content": _media(message["content"])} for message in messages], media_hosts)
    return chat


def _media(content: object) -> list[Mapping[str, Any]]:
    """Return the media among blocks, each in its place: other blocks may hold any text."""
    blocks: list[Mapping[str, Any]] = content if isinstance(content, list) else []
    return [
        block if block["type"] in MEDIA else {"content": _media(block.get("content"))} if _is_result(block) else {}
        for block in blocks
    ]


def _is_result(block: Mapping[str, Any]) -> bool:
    return bool(block["type"] == "tool_result")


def _blocks(content: object, field: str) -> list[dict[str, Any]]:
    """Return a content as blocks; a text is one.

    Raises:
        MalformedRequest: For anything else.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise MalformedRequest(f"{field}: it must be a text or a list of blocks", field=field)
    for place, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise MalformedRequest(f"{field}.{place}: it must be a block with a type", field=f"{field}.{place}")
    return content


def _system(given: object) -> str:
    return "\n\n".join(_text(block, "system") for block in _blocks(given, "system")) if given else ""


def _text(block: Mapping[str, Any], field: str) -> str:
    text = block.get("text")
    if block["type"] != "text" or not isinstance(text, str):
        raise MalformedRequest(f"{field}: only blocks of text are taken here, not {block['type']!r}", field=field)
    return text


def _user(blocks: Sequence[Mapping[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return the messages of a chat for one of a user: the results of tools, then everything else."""
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for place, block in enumerate(blocks):
        at = f"{field}.content.{place}"
        if block["type"] == "tool_result":
            content = _blocks(block.get("content") or "", f"{at}.content")
            text = "\n".join(_text(inner, f"{at}.content") for inner in content if inner["type"] not in MEDIA)
            results.append({"role": "tool", "tool_call_id": _name(block, "tool_use_id", at), "content": text})
            parts += [_part(inner, f"{at}.content") for inner in content if inner["type"] in MEDIA]
        else:
            parts.append(_part(block, at))
    if not parts:
        return results
    content = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return [*results, {"role": "user", "content": content}]


def _part(block: Mapping[str, Any], field: str) -> dict[str, Any]:
    if block["type"] not in MEDIA:
        return {"type": "text", "text": _text(block, field)}
    source = object_field(block, "source")
    match block["type"], source.get("type"):
        case "image", "base64":
            return _image(f"data:{_name(source, 'media_type', field)};base64,{_name(source, 'data', field)}")
        case "image", "url":
            return _image(_name(source, "url", field))
        case "document", "text":
            return {"type": "text", "text": _name(source, "data", field)}
    kind = f"{block['type']} from {source.get('type')!r}"
    raise MalformedRequest(f"{field}.source: {kind} is not taken; send a text, or an image", field=f"{field}.source")


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(blocks: Sequence[Mapping[str, Any]], field: str) -> list[dict[str, Any]]:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for place, block in enumerate(blocks):
        at = f"{field}.content.{place}"
        if block["type"] == "tool_use":
            function = {"name": _name(block, "name", at), "arguments": dumps(object_field(block, "input")).decode()}
            calls.append({"id": _name(block, "id", at), "type": "function", "function": function})
        elif block["type"] not in THOUGHTS:
            texts.append(_text(block, at))
    message = {"role": "assistant", "content": "".join(texts) or None}
    return [{**message, "tool_calls": calls} if calls else {**message, "content": message["content"] or ""}]


def _name(given: Mapping[str, Any], name: str, field: str) -> str:
    text = given.get(name)
    if not isinstance(text, str) or not text:
        raise MalformedRequest(f"{field}.{name}: it must be a text that is not empty", field=f"{field}.{name}")
    return text


def _texts(given: Mapping[str, Any], name: str) -> list[str]:
    texts = given[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise MalformedRequest(f"{name}: it must be a list of texts, none empty", field=name)
    return texts


def _thinking(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument by which templates switch thinking on or off; nothing where it is left open."""
    kind = object_field(given, "thinking").get("type")
    if kind is None:
        return {}
    if kind not in ("enabled", "adaptive", "disabled"):
        raise MalformedRequest("thinking.type: it must be enabled, adaptive or disabled", field="thinking.type")
    return {"chat_template_kwargs": {"enable_thinking": kind != "disabled"}}


def _tools(given: Mapping[str, Any]) -> dict[str, Any]:
    tools = given.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise MalformedRequest("tools: it must be a list of tools", field="tools")
    if not tools:
        return {}
    chat: dict[str, Any] = {"tools": [_tool(tool, f"tools.{place}") for place, tool in enumerate(tools)]}
    choice = object_field(given, "tool_choice")
    if bool_field(choice, "disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
    kind = choice.get("type")
    if kind == "tool":
        named = {"name": _name(choice, "name", "tool_choice")}
        return {**chat, "tool_choice": {"type": "function", "function": named}}
    if kind is None:
        return chat
    if not isinstance(kind, str) or kind not in TOOL_CHOICES:
        raise MalformedRequest(
            f"tool_choice.type: it must be auto, any, none or tool, not {kind!r}", field="tool_choice"
        )
    return {**chat, "tool_choice": TOOL_CHOICES[kind]}


def _tool(tool: Mapping[str, Any], field: str) -> dict[str, Any]:
    about = {"description": tool["description"]} if tool.get("description") else {}
    function = {"name": _name(tool, "name", field), **about, "parameters": object_field(tool, "input_schema")}
    return {"type": "function", "function": function}
