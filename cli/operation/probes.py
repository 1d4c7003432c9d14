"""What the model server and the encoder can do, found out by asking them: short requests, no library."""

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from cli.operation.findings import Finding, fine, note, wrong

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
    """An OpenAI-compatible server.

    Args:
        url: Its base, with `/v1`.
        key: Its key; empty: none is sent.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        authorization = {"authorization": f"Bearer {key}"} if key else {}
        self._headers = {"content-type": "application/json", **authorization}
        self._opener = build_opener(ProxyHandler({}))

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """JSON at `path`; an `OSError`, `HTTPException` or `ValueError` when there is none."""
        with self._opener.open(Request(f"{self.url}{path}", headers=self._headers), timeout=TIMEOUT_S) as reply:
            return json.loads(reply.read())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """JSON reply to `body`; raises as `get` does."""
        return json.loads(self.post_raw(path, body))

    def post_raw(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Reply to `body`; raises as `get` does."""
        request = Request(f"{self.url}{path}", data=json.dumps(body).encode(), headers=self._headers)
        with self._opener.open(request, timeout=TIMEOUT_S) as reply:
            content: bytes = reply.read()
            return content


TROUBLE = (OSError, HTTPException, ValueError, LookupError, TypeError)


def why(trouble: BaseException) -> str:
    """What went wrong with a request, in a line."""
    if isinstance(trouble, HTTPError):
        return f"it answered {trouble.code}: {trouble.read(300).decode(errors='replace').strip()}"
    return str(getattr(trouble, "reason", "") or trouble or type(trouble).__name__)


def inference(url: str, key: str, model: str, *, may_generate: bool) -> Iterator[Finding]:
    """Whether the model server answers, has the model, and what it can do."""
    server = Endpoint(url, key)
    try:
        listed = [str(each["id"]) for each in server.get("/models")["data"]]
    except TROUBLE as trouble:
        advice = "start it, or name another with METACOG_INFERENCE_URL (base URL with /v1)"
        if isinstance(trouble, HTTPError) and trouble.code in (401, 403):
            advice = "set METACOG_INFERENCE_API_KEY to its key"
        yield wrong("inference", f"{url} cannot be used: {why(trouble)}", advice)
        return
    asked = model or next(iter(listed), "")
    if asked not in listed:
        said = f"{url} does not list the model {asked!r}; it has {', '.join(listed) or 'none'}"
        yield wrong("inference", said, "set METACOG_INFERENCE_MODEL to one of these")
        return
    yield fine("inference", f"{url} serves {asked}")
    if may_generate:
        yield from _features(server, asked)


def _features(server: Endpoint, model: str) -> Iterator[Finding]:
    """What the server does with each part of a request that the suite uses."""
    base = {"model": model, "messages": HELLO, "max_tokens": 8}
    try:
        server.post("/chat/completions", base)
    except TROUBLE as trouble:
        advice = "try the same request with curl, and look at that server's log"
        yield wrong("inference: chat completions", f"they do not work: {why(trouble)}", advice)
        return
    yield fine("inference: chat completions", "they work")
    for name, more, shows, otherwise in FEATURES:
        try:
            served = shows(server.post_raw("/chat/completions", {**base, **more}))
        except TROUBLE as trouble:
            yield note(f"inference: {name}", f"refused ({why(trouble)}); {otherwise}")
            continue
        yield fine(f"inference: {name}", "served") if served else note(f"inference: {name}", f"not served; {otherwise}")


def _samples(reply: bytes) -> bool:
    return len(json.loads(reply)["choices"]) == 2


def _logprobs(reply: bytes) -> bool:
    return bool((json.loads(reply)["choices"][0].get("logprobs") or {}).get("content"))


def _schema(reply: bytes) -> bool:
    return isinstance(json.loads(json.loads(reply)["choices"][0]["message"]["content"])["sure"], bool)


def _stream(reply: bytes) -> bool:
    return reply.startswith(b"data: ") and b"[DONE]" in reply


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
        "probe and draft assessors then measure with less; hybrid and verbalized go on",
    ),
    (
        "JSON schemas",
        {"response_format": SCHEMA, "max_tokens": 24},
        _schema,
        "ratings are asked for in words and parsed, and more of them are unknown",
    ),
    ("streaming", {"stream": True}, _stream, "answers come whole instead of token by token"),
)


def encoder(url: str, key: str, model: str, measured_on: str) -> Iterator[Finding]:
    """Whether the embeddings server answers, and whether similarities are on the scale that was measured."""
    server = Endpoint(url, key)
    try:
        asked = model or str(server.get("/models")["data"][0]["id"])
        vector = server.post("/embeddings", {"model": asked, "input": ["a cat"]})["data"][0]["embedding"]
    except TROUBLE as trouble:
        advice = "start it, or name another with METACOG_ENCODER_URL; until then experience is unknown"
        yield wrong("encoder", f"{url} cannot be used: {why(trouble)}", advice)
        return
    said = f"{url} serves {asked} with {len(vector)} dimensions"
    if asked == measured_on:
        yield fine("encoder", said)
    else:
        yield note(
            "encoder",
            f"{said}; similarities were measured on {measured_on}, so experience stays unknown",
            "measure it as docs/knowledge.md says, then set METACOG_ROUTER_SIMILARITY_ENCODER, _FLOOR and _CEILING",
        )
