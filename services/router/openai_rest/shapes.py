"""These schemas of requests, replies and errors are in the OpenAPI document; servers may send further fields."""

from collections.abc import Mapping
from typing import Any

from services.router.service.passing.endpoints import PassedEndpoint
from services.router.service.runs.values import CallKind

Schema = Mapping[str, Any]
TEXT, WHOLE, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
OBJECTS = {"type": "array", "items": OBJECT}
TEXT_OR_NULL, WHOLE_OR_NULL = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
EXPLANATION = {"type": "object", "description": "How the answer came about; the fields of the run."}


def _object(properties: Schema, *, required: Schema | None = None, closed: bool = False) -> Schema:
    """Return the shape of an object; by default it needs all `properties`, and may have more."""
    shape = {"type": "object", "properties": properties, "required": list(properties if required is None else required)}
    return {**shape, "additionalProperties": False} if closed else shape


_ERROR = {"message": TEXT, "type": TEXT, "param": TEXT_OR_NULL, "code": TEXT}
ERROR = _object({"error": _object(_ERROR, closed=True)}, closed=True)
MESSAGE_ERROR = _object({"type": {"const": "error"}, "error": _object(_ERROR, closed=True)}, closed=True)
_MODEL = _object(
    {"id": TEXT, "object": {"const": "model"}, "created": WHOLE, "owned_by": TEXT, "metacog": OBJECT}, closed=True
)
_MODELS = _object({"object": {"const": "list"}, "data": {"type": "array", "items": _MODEL}}, closed=True)
_MESSAGES = {"messages": OBJECTS}
_CHAT = _object({"model": TEXT, **_MESSAGES, "stream": {"type": "boolean"}}, required=_MESSAGES)
_COMPLETION = _object(
    {
        "id": TEXT,
        "object": TEXT,
        "created": WHOLE,
        "model": TEXT,
        "choices": OBJECTS,
        "usage": OBJECT,
        "metacog": EXPLANATION,
    }
)
_INPUT = {"input": {"type": ["string", "array"]}}
_RESPONSE_REQUEST = _object({"model": TEXT, **_INPUT, "stream": {"type": "boolean"}}, required=_INPUT)
_RESPONSE = _object(
    {
        "id": TEXT,
        "object": {"const": "response"},
        "created_at": WHOLE,
        "model": TEXT,
        "status": {"enum": ["completed", "incomplete"]},
        "incomplete_details": {"type": ["object", "null"]},
        "output": OBJECTS,
        "usage": OBJECT,
        "store": {"type": "boolean"},
        "metacog": EXPLANATION,
    }
)
_LIMIT = {"max_tokens": WHOLE}
_MESSAGE_REQUEST = _object(
    {"model": TEXT, **_MESSAGES, **_LIMIT, "stream": {"type": "boolean"}}, required=_MESSAGES | _LIMIT
)
_MESSAGE = _object(
    {
        "id": TEXT,
        "type": {"const": "message"},
        "role": {"const": "assistant"},
        "model": TEXT,
        "content": OBJECTS,
        "stop_reason": TEXT,
        "stop_sequence": TEXT_OR_NULL,
        "usage": _object({"input_tokens": WHOLE_OR_NULL, "output_tokens": WHOLE_OR_NULL}),
        "metacog": EXPLANATION,
    }
)
_COUNT = _object({"input_tokens": WHOLE}, closed=True)
# What of the replies of passed endpoints clients read.
_PASSED: Mapping[CallKind, Schema] = {
    CallKind.COMPLETION: _object({"choices": OBJECTS}),
    CallKind.EMBEDDING: _object({"data": OBJECTS}),
    CallKind.TOKENIZE: _object({"tokens": {"type": "array"}}),
}


def _described(schema: Schema, *, body: Schema | None = None, stream: str = "") -> dict[str, Any]:
    """Return what the document says of an operation: its reply, its body, and what its stream holds."""
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if stream:
        content["text/event-stream"] = {"schema": {"type": "string", "description": stream}}
    replies = {"responses": {"200": {"content": content}}}
    if body is None:
        return replies
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}, **replies}


LIST_MODELS = _described(_MODELS)
GET_MODEL = _described(_MODEL)
CREATE_CHAT_COMPLETION = _described(
    _COMPLETION, body=_CHAT, stream="Chunks as OpenAI sends them; the last has `usage` and `metacog`."
)
CREATE_RESPONSE = _described(
    _RESPONSE, body=_RESPONSE_REQUEST, stream="Events as OpenAI sends them; the last has the response with `metacog`."
)
GET_RESPONSE = _described(_RESPONSE)
DELETE_RESPONSE = _described(
    _object({"id": TEXT, "object": {"const": "response"}, "deleted": {"const": True}}, closed=True)
)
LIST_INPUT_ITEMS = _described(
    _object(
        {
            "object": {"const": "list"},
            "data": OBJECTS,
            "first_id": TEXT_OR_NULL,
            "last_id": TEXT_OR_NULL,
            "has_more": {"type": "boolean"},
        },
        closed=True,
    )
)
CREATE_MESSAGE = _described(
    _MESSAGE,
    body=_MESSAGE_REQUEST,
    stream="Events as Anthropic sends them; the last but one has `usage` and `metacog`.",
)
COUNT_TOKENS = _described(_COUNT, body=_object({"model": TEXT, **_MESSAGES}, required=_MESSAGES))


def of_passed(endpoint: PassedEndpoint) -> dict[str, Any]:
    """Return what the document says of an endpoint that is passed on."""
    needed: Schema = {group[0]: {} for group in endpoint.inputs if len(group) == 1}
    fields: dict[str, Any] = {"model": TEXT, **{name: {} for group in endpoint.inputs for name in group}}
    body = _object(fields, required=needed)
    stream = "Chunks as the model server sends them." if endpoint.generates else ""
    return _described(_PASSED.get(endpoint.call, OBJECT), body=body, stream=stream)
