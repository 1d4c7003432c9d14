"""The scripted backend is an OpenAI-compatible model server and an embeddings server in this process.

What it answers is a pure function of the request, so concurrency and repetition change nothing. What it says is
directed by words in square brackets inside the question itself, e.g. `[rate troubled] [say 42|41] What is 6 times 7?`;
the wording of the prompts around it, their number of words and the seeds do not matter.

    [rate calm|troubled|junk]  what a rating of a query or text says; `junk` is no rating at all; default calm
    [say 42|41]                answers of the samples, in turn; default 42
    [say-beta 41]              the same of the agent whose system prompt names it
    [bare]                     texts hold no answer that can be read
    [empty]                    texts are empty
    [long 300]                 texts begin with this many words
    [reason]                   texts come with reasoning of a thinking model
    [code]                     texts are Python code, a function `double`
    [tool lookup]              a call of this tool, where tools are offered
    [fail 503]                 texts are refused with this status; ratings and checks are not
    [failall 503]              everything is refused with this status
    [slow 2]                   texts take this long [s]
    [able alpha=90,beta=20]    how far agents say they are up to a task; default 80
    [kind code]                the ability that a task is said to need: the first whose name has this in it
    [judge 90]                 what a judge says; default 90
    [same]                     two answers always say the same; else never
    [probe 42|41]              the short answers that are drawn to measure agreement; default as `say`
"""

import asyncio
import json
import math
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Body = dict[str, Any]

MODEL = "scripted"
ENCODER = "all-MiniLM-L6-v2"
DIMENSION = 384
CONTEXT = 4096  # tokens of prompt and answer
TOKENS_PER_MESSAGE = 10  # what a prompt is said to have: a wording changes nothing
PROBE_TOKENS = 16
DIRECTIVES = {
    "rate", "say", "bare", "empty", "long", "reason", "code", "tool", "fail", "failall", "slow", "able", "kind",
    "judge", "same", "probe",
}  # fmt: skip
RATINGS = {"calm": (92, 90, 91, 5, 10, 8, 6), "troubled": (30, 30, 30, 80, 90, 80, 70)}
YES = {"calm": 0.9, "troubled": 0.3}
LIKELIHOOD = {"calm": 0.95, "troubled": 0.4}
CODE = "```python\ndef double(number):\n    return 2 * number\n```"
# What a text is for, told by the last of these that is fenced in its prompt.
STAGES = ("first_answer", "challenge", "weighing", "solution", "answer")


@dataclass(frozen=True)
class Said:
    """One choice of a reply."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Body] = ()
    finish: str = "stop"


class Script:
    """What one request is answered.

    Args:
        body: The request.
    """

    def __init__(self, body: Body) -> None:
        self.body = body
        texts = [_text_of(message) for message in body.get("messages") or ()]
        self.prompt = "\n".join(texts)
        found = re.findall(r"\[(\w+)(-\w+)?(?: ([^\]]*))?\]", self.prompt)
        self.told = {name + agent: text for name, agent, text in found if name in DIRECTIVES}
        named = re.search(r"You are (\w+)", self.prompt)
        self.agent = named[1].lower() if named else ""
        self.mood = self.told.get("rate", "calm")

    @property
    def schema(self) -> Body:
        """The JSON schema that is asked for; empty if none is."""
        schema: Body = (self.body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        return schema

    @property
    def is_check(self) -> bool:
        """Whether one word is asked for, and how probable it was."""
        return self.body.get("max_tokens") == 1 and (self.body.get("top_logprobs") or 0) > 1

    @property
    def is_probe(self) -> bool:
        """Whether several short answers are asked for at once."""
        few = (self.body.get("max_tokens") or CONTEXT) <= PROBE_TOKENS
        return few and (self.body.get("n") or 1) > 1 and bool(self.body.get("logprobs")) and not self.schema

    @property
    def refusal(self) -> int:
        """The status of a refusal; 0 without one."""
        is_text = not (self.schema or self.is_check or self.is_probe)
        return int(self.told.get("failall") or (self.told.get("fail") if is_text else None) or 0)

    @property
    def pause_s(self) -> float:
        """The time that it takes [s]."""
        return 0.0 if self.schema or self.is_check or self.is_probe else float(self.told.get("slow", 0))

    def choices(self) -> list[Said]:
        """The choices, in order."""
        return [self._cut(self._choice(index)) for index in range(self.body.get("n") or 1)]

    def _choice(self, index: int) -> Said:
        if self.schema:
            return Said(self._document())
        if self.is_check:
            return Said("Yes" if YES.get(self.mood, 0.9) > 0.5 else "No")
        if self.is_probe:
            return Said(self._turn("probe", index) if "probe" in self.told else self._turn("say", index))
        if "tool" in self.told and self.body.get("tools"):
            function = {"name": self.told["tool"], "arguments": '{"city": "Graz"}'}
            return Said("", "", [{"id": "call_1", "type": "function", "function": function}], "tool_calls")
        return Said(self._words(index), "First I think. Then I say." if "reason" in self.told else "")

    def _words(self, index: int) -> str:
        if "empty" in self.told:
            return ""
        padding = " ".join(["word"] * int(self.told.get("long", 0)))
        if "bare" in self.told:
            return f"{padding} I would rather leave that open.".strip()
        if "code" in self.told:
            return f"{padding} It doubles.\n\nFinal Answer:\n{CODE}".strip()
        answer = self._turn("say", index)
        stage = next((label for label in reversed(STAGES) if f"</{label}>" in self.prompt), "")
        if not re.search(r"</(question|task)>", self.prompt):
            return f"{padding} The answer is {answer}.".strip()
        by = f" {self.agent} wrote it." if self.agent else ""
        seen = f" It looks at the {stage.replace('_', ' ')}." if stage else ""
        return f"{padding} Each step holds.{seen}{by}\nFinal Answer: {answer}".strip()

    def _turn(self, name: str, index: int) -> str:
        said = self.told.get(f"{name}-{self.agent}") or self.told.get(name) or "42"
        return said.split("|")[index % len(said.split("|"))]

    def _document(self) -> str:
        """A document of the schema's shape: a rating, a judgement, abilities, or numbers of equal answers."""
        if self.mood == "junk":
            return "I cannot rate that."
        [(name, shape)] = list(self.schema["properties"].items())[:1]
        items = shape.get("items") or {}
        if items.get("type") == "object":
            return json.dumps({name: [self._ability(items["properties"])]})
        count = shape.get("minItems") or 1
        if items.get("maximum") == 100:
            return json.dumps({name: self._rating(count)})
        return json.dumps({name: [1 if "same" in self.told else 0] * count})

    def _ability(self, properties: Mapping[str, Body]) -> Body:
        wanted = self.told.get("kind", "math")
        made: Body = {}
        for name, shape in properties.items():
            options = shape.get("enum")
            if options:
                made[name] = next((option for option in options if wanted in option), options[0])
            else:
                made[name] = 90
        return made

    def _rating(self, count: int) -> list[int]:
        if count == 1:
            return [int(self.told.get("judge", 90))]
        if count == 3 and "</task>" in self.prompt:
            able = dict(part.split("=") for part in self.told.get("able", "").split(",") if part)
            level = int(able.get(self.agent, 80))
            return [level, max(level - 5, 0), max(level - 10, 0)]
        rating = RATINGS[self.mood]
        shift = zlib.crc32(self.agent.encode()) % 9 if self.agent else 0
        return [min(100, number + shift) for number in rating[-count:]]

    def _cut(self, said: Said) -> Said:
        stops = self.body.get("stop") or ()
        ends = [
            place for stop in ([stops] if isinstance(stops, str) else stops) if (place := said.text.find(stop)) >= 0
        ]
        text = said.text[: min(ends)] if ends else said.text
        limit = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        if limit is not None and len(tokens(text)) > limit:
            return Said("".join(tokens(text)[:limit]), said.reasoning, said.calls, "length")
        return Said(text, said.reasoning, said.calls, said.finish)

    def logprob(self, token: str) -> Body:
        """The entry of a token with its log-probability."""
        wanted = self.body.get("top_logprobs") or 0
        share = LIKELIHOOD.get(self.mood, 0.95)
        top = {token: share, "otherwise": (1 - share) / 2}
        if self.is_check:
            yes = YES.get(self.mood, 0.9)
            top = {"Yes": yes, "No": 1 - yes}
        listed = [{"token": each, "logprob": math.log(level)} for each, level in top.items()]
        said = top.get(token, share)
        return {
            "token": token,
            "logprob": math.log(said),
            "bytes": list(token.encode()),
            "top_logprobs": listed[:wanted],
        }


def _text_of(message: Body) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def tokens(text: str) -> list[str]:
    """The tokens of `text`: words with the blanks before them."""
    return re.findall(r"\s*\S+|\s+$", text)


def completion(script: Script) -> Body:
    """The whole reply."""
    said = script.choices()
    choices = []
    for index, each in enumerate(said):
        message: Body = {"role": "assistant", "content": each.text}
        if each.reasoning:
            message["reasoning_content"] = each.reasoning
        if each.calls:
            message["tool_calls"] = list(each.calls)
        choice: Body = {"index": index, "message": message, "finish_reason": each.finish, "logprobs": None}
        if script.body.get("logprobs"):
            choice["logprobs"] = {"content": [script.logprob(token) for token in tokens(each.text)]}
        choices.append(choice)
    return {**_head(script, "chat.completion"), "choices": choices, "usage": _usage(script, said)}


def chunks(script: Script) -> list[Body]:
    """The chunks of a stream."""
    said, head = script.choices(), _head(script, "chat.completion.chunk")
    made = []
    for index, each in enumerate(said):
        made.append({"index": index, "delta": {"role": "assistant", "content": ""}})
        made += [{"index": index, "delta": {"reasoning_content": token}} for token in tokens(each.reasoning)]
        for token in tokens(each.text):
            choice: Body = {"index": index, "delta": {"content": token}}
            if script.body.get("logprobs"):
                choice["logprobs"] = {"content": [script.logprob(token)]}
            made.append(choice)
        made += [{"index": index, "delta": {"tool_calls": [{**call, "index": 0}]}} for call in each.calls]
        made.append({"index": index, "delta": {}, "finish_reason": each.finish})
    events = [{**head, "choices": [{"finish_reason": None, **choice}]} for choice in made]
    if (script.body.get("stream_options") or {}).get("include_usage"):
        events.append({**head, "choices": [], "usage": _usage(script, said)})
    return events


def _head(script: Script, kind: str) -> Body:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": script.body.get("model", MODEL)}


def _usage(script: Script, said: Sequence[Said]) -> Body:
    prompt = TOKENS_PER_MESSAGE * len(script.body.get("messages") or ())
    answers = sum(len(tokens(each.text)) + len(tokens(each.reasoning)) for each in said)
    return {"prompt_tokens": prompt, "completion_tokens": answers, "total_tokens": prompt + answers}


def vector(text: str) -> list[float]:
    """A vector of length 1 that tells which words `text` has."""
    levels = [0.0] * DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        levels[zlib.crc32(word.encode()) % DIMENSION] += 1.0
    length = math.sqrt(sum(level * level for level in levels)) or 1.0
    return [level / length for level in levels]


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


async def _models(request: web.Request) -> web.Response:
    name = ENCODER if request.path.startswith("/encoder") else MODEL
    return web.json_response({"object": "list", "data": [{"id": name, "object": "model", "max_model_len": CONTEXT}]})


async def _embed(request: web.Request) -> web.Response:
    body = await request.json()
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"object": "embedding", "index": place, "embedding": vector(text)} for place, text in enumerate(texts)]
    return web.json_response({"object": "list", "model": ENCODER, "data": data, "usage": {"prompt_tokens": 0}})


async def _chat(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    script = Script(body)
    if script.refusal:
        return _refused(script.refusal, "the script says no")
    if body.get("model") != MODEL:
        return _refused(404, f"The model `{body.get('model')}` does not exist.")
    needed = len(tokens(script.prompt)) + (body.get("max_tokens") or 0)
    if needed > CONTEXT:
        message = f"This model's maximum context length is {CONTEXT} tokens. However, you requested {needed} tokens."
        return _refused(400, message)
    await asyncio.sleep(script.pause_s)
    if not body.get("stream"):
        return web.json_response(completion(script))
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    with suppress(ConnectionError):  # whoever asked may have hung up
        await response.prepare(request)
        for chunk in chunks(script):
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def backend() -> AsyncIterator[str]:
    """URL of the backend while it runs; `/v1` below it are the models, `/encoder/v1` are the embeddings."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/encoder/v1/models", _models)
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_post("/encoder/v1/embeddings", _embed)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
