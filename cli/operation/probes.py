"""Probes find the features of the model server and the encoder with short requests."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from cli.operation.findings import Finding, fine, note, wrong
from kernel.errors import without_user_info

TIMEOUT_S = 30.0
HELLO = [{"role": "user", "content": "Answer with one word: what color is the sky?"}]
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "check",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"sure": {"type": "boolean"}},
            "required": ["sure"],
            "additionalProperties": False,
        },
    },
}


class Endpoint:
    """A client of an OpenAI-compatible server.

    Args:
        url: Base URL, with `/v1`; a user and password in it are sent as basic authentication, as the services do.
        key: API key; empty: none is sent.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = without_user_info(url.rstrip("/"))
        authorization = {"authorization": f"Bearer {key}"} if key else _basic(url)
        self._headers = {"content-type": "application/json", **authorization}
        self._opener = build_opener(ProxyHandler({}))

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON at `path`; raises `OSError`, `HTTPException` or `ValueError` if there is none."""
        with self._opener.open(Request(f"{self.url}{path}", headers=self._headers), timeout=TIMEOUT_S) as reply:
            return json.loads(reply.read())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON reply to `body`; raises as `get` does."""
        return json.loads(self.post_raw(path, body))

    def post_raw(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Return the reply to `body`; raises as `get` does."""
        request = Request(f"{self.url}{path}", data=json.dumps(body).encode(), headers=self._headers)
        with self._opener.open(request, timeout=TIMEOUT_S) as reply:
            content: bytes = reply.read()
            return content


def _basic(url: str) -> Mapping[str, str]:
    """Return the header for the user and password in `url`; none without them."""
    place = urlsplit(url)
    if place.username is None:
        return {}
    credentials = f"{unquote(place.username)}:{unquote(place.password or '')}"
    return {"authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


FAILURES = (OSError, HTTPException, ValueError, LookupError, TypeError)


def reason_of(failure: BaseException) -> str:
    """Describe the failure of a request in one line."""
    if isinstance(failure, HTTPError):
        return f"it answered {failure.code}: {failure.read(300).decode(errors='replace').strip()}"
    return str(getattr(failure, "reason", "") or failure or type(failure).__name__)


def inference(url: str, key: str, model: str, *, may_generate: bool) -> Iterator[Finding]:
    """Check that the model server answers and has the model, and find its features."""
    server = Endpoint(url, key)
    try:
        listed = [str(each["id"]) for each in server.get("/models")["data"]]
    except FAILURES as failure:
        advice = "start it, or set METACOG_INFERENCE_URL to another (base URL with /v1)"
        if isinstance(failure, HTTPError) and failure.code in (401, 403):
            advice = "set METACOG_INFERENCE_API_KEY to its key"
        yield wrong("inference", f"{url} cannot be used: {reason_of(failure)}", advice)
        return
    name = model or next(iter(listed), "")
    if name not in listed:
        problem = f"{url} does not list the model {name!r}; it has {', '.join(listed) or 'none'}"
        yield wrong("inference", problem, "set METACOG_INFERENCE_MODEL to one of these")
        return
    yield fine("inference", f"{url} serves {name}")
    if may_generate:
        yield from _features(server, name)


def _features(server: Endpoint, model: str) -> Iterator[Finding]:
    """Find the features of the server that the suite uses."""
    base = {"model": model, "messages": HELLO, "max_tokens": 8}
    try:
        server.post("/chat/completions", base)
    except FAILURES as failure:
        advice = "try the same request with curl, and look at that server's log"
        yield wrong("inference: chat completions", f"they do not work: {reason_of(failure)}", advice)
        return
    yield fine("inference: chat completions", "they work")
    for name, more, supports, otherwise in FEATURES:
        try:
            supported = supports(server.post_raw("/chat/completions", {**base, **more}))
        except FAILURES as failure:
            yield note(f"inference: {name}", f"the server returns an error ({reason_of(failure)}); {otherwise}")
            continue
        yield (
            fine(f"inference: {name}", "supported")
            if supported
            else note(f"inference: {name}", f"not supported; {otherwise}")
        )


def _samples(reply: bytes) -> bool:
    return len(json.loads(reply)["choices"]) == 2


def _logprobs(reply: bytes) -> bool:
    return bool((json.loads(reply)["choices"][0].get("logprobs") or {}).get("content"))


def _schema(reply: bytes) -> bool:
    return isinstance(json.loads(json.loads(reply)["choices"][0]["message"]["content"])["sure"], bool)


def _stream(reply: bytes) -> bool:
    return reply.startswith(b"data: ") and b"[DONE]" in reply


# A picture of one pixel.
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
_CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}
_LOOK = [
    {"type": "text", "text": "What color is it?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
]


def _answers(reply: bytes) -> bool:
    return bool(json.loads(reply)["choices"])


# What models.yaml states of a model, the request that needs it, and whether a reply shows it.
MODEL_FEATURES: Mapping[str, tuple[Mapping[str, Any], Callable[[bytes], bool]]] = {
    "tools": ({"tools": [_CLOCK]}, _answers),
    "images": ({"messages": [{"role": "user", "content": _LOOK}]}, _answers),
    "schema": ({"response_format": SCHEMA, "max_tokens": 24}, _schema),
    "logprobs": ({"logprobs": True, "top_logprobs": 1}, _logprobs),
}


def model_features(server: Endpoint, model: str) -> Mapping[str, bool]:
    """Return what a server can do with a model, by the names of models.yaml: one short call for each.

    Raises:
        OSError, HTTPException, ValueError, LookupError, TypeError: When it cannot answer a plain request.
    """
    base = {"model": model, "messages": HELLO, "max_tokens": 8}
    server.post("/chat/completions", base)
    return {name: _is_able(server, {**base, **more}, shows) for name, (more, shows) in MODEL_FEATURES.items()}


def _is_able(server: Endpoint, body: Mapping[str, Any], shows: Callable[[bytes], bool]) -> bool:
    try:
        return shows(server.post_raw("/chat/completions", body))
    except FAILURES:
        return False


FEATURES: Any = (
    (
        "several samples in one call",
        {"n": 2, "temperature": 1.0},
        _samples,
        "the suite sends one call for each sample, which costs time",
    ),
    (
        "log-probabilities",
        {"logprobs": True, "top_logprobs": 1},
        _logprobs,
        "the probe and draft assessors measure with less; hybrid and verbalized are not affected",
    ),
    (
        "JSON schemas",
        {"response_format": SCHEMA, "max_tokens": 24},
        _schema,
        "ratings are requested as text and parsed, and more of them are unknown",
    ),
    ("streaming", {"stream": True}, _stream, "answers arrive at once instead of token by token"),
)


def encoder(url: str, key: str, model: str, measured_on: str) -> Iterator[Finding]:
    """Check that the embeddings server answers, and that its similarities have the measured scale."""
    server = Endpoint(url, key)
    try:
        name = model or str(server.get("/models")["data"][0]["id"])
        vector = server.post("/embeddings", {"model": name, "input": ["a cat"]})["data"][0]["embedding"]
    except FAILURES as failure:
        advice = "start it, or set METACOG_ENCODER_URL to another; until then experience is unknown"
        yield wrong("encoder", f"{url} cannot be used: {reason_of(failure)}", advice)
        return
    detail = f"{url} serves {name} with {len(vector)} dimensions"
    if name == measured_on:
        yield fine("encoder", detail)
    else:
        yield note(
            "encoder",
            f"{detail}; similarities were measured on {measured_on}, so experience is unknown",
            "measure it as in docs/knowledge.md, then set METACOG_ROUTER_SIMILARITY_ENCODER, _FLOOR and _CEILING",
        )
