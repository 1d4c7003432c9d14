"""These schemas of files and batches are in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from services.router.core.batch_states import BatchStatus

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TEXT_OR_NULL, WHOLE_OR_NULL = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
TRUE_OR_FALSE = {"type": "boolean"}
_FILE = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "object": {"const": "file"},
        "bytes": WHOLE,
        "created_at": WHOLE,
        "expires_at": WHOLE_OR_NULL,
        "filename": TEXT,
        "purpose": {"enum": ["batch", "batch_output"]},
        "status": {"const": "processed"},
        "status_details": {"type": "null"},
    },
}
_DELETED = {"type": "object", "properties": {"id": TEXT, "object": {"const": "file"}, "deleted": {"const": True}}}
_TIMES = [f"{status}_at" for status in BatchStatus if status is not BatchStatus.VALIDATING]
_COUNTS = {"type": "object", "properties": {name: WHOLE for name in ("total", "completed", "failed")}}
_PROBLEM = {
    "type": "object",
    "properties": {"code": TEXT, "line": WHOLE_OR_NULL, "message": TEXT, "param": TEXT_OR_NULL},
}
_PROBLEMS = {
    "type": ["object", "null"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _PROBLEM}},
}
_BATCH = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "object": {"const": "batch"},
        "endpoint": TEXT,
        "errors": _PROBLEMS,
        "input_file_id": TEXT,
        "completion_window": TEXT,
        "status": {"enum": [status.value for status in BatchStatus]},
        "output_file_id": TEXT_OR_NULL,
        "error_file_id": TEXT_OR_NULL,
        "created_at": WHOLE,
        "expires_at": WHOLE,
        **dict.fromkeys(_TIMES, WHOLE_OR_NULL),
        "request_counts": _COUNTS,
        "metadata": {"type": ["object", "null"], "additionalProperties": TEXT},
    },
}
_FORM = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"const": "batch"},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": WHOLE,
    },
    "required": ["file", "purpose"],
}
_CREATE = {
    "type": "object",
    "properties": {
        "input_file_id": TEXT,
        "endpoint": TEXT,
        "completion_window": {"const": "24h"},
        "metadata": {"type": ["object", "null"], "additionalProperties": TEXT},
        "output_expires_after": {"type": ["object", "null"]},
    },
    "required": ["input_file_id", "endpoint", "completion_window"],
}


def _page(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "object": {"const": "list"},
            "data": {"type": "array", "items": item},
            "first_id": TEXT_OR_NULL,
            "last_id": TEXT_OR_NULL,
            "has_more": TRUE_OR_FALSE,
        },
    }


def _reply(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


def _body(schema: Mapping[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}


UPLOAD_FILE = {**_reply(_FILE), **_body(_FORM, "multipart/form-data")}
LIST_FILES = _reply(_page(_FILE))
GET_FILE = _reply(_FILE)
GET_FILE_CONTENT = {
    "responses": {"200": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
}
DELETE_FILE = _reply(_DELETED)
CREATE_BATCH = {**_reply(_BATCH), **_body(_CREATE)}
GET_BATCH = CANCEL_BATCH = _reply(_BATCH)
LIST_BATCHES = _reply(_page(_BATCH))
