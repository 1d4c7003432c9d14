"""The mixed load of the soak: every kind of request that clients send, also those that fail and those that are left."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.soak.model_server import BREAKS, FAILS
from tests.support.hostile.suite import authorization

CLIENTS = 8
# Pause of a client between two requests [s]: the load is steady, and leaves the processors time.
PAUSE_S = 0.1
TIMEOUT_S = 60.0
# Runs whose answers may still be labelled [count].
RECENT = 200

NUMBER = {"question": "What is 2 + 2?", "answer_type": "NUMBER"}
WORDS = {"question": "Is it so that all of this has to be said in as many words?"}


@dataclass
class Seen:
    """What clients have seen.

    Attributes:
        requests: Requests by kind and by how they ended: `answered`, `left`, or the reason of an error [count].
        runs: Runs that began, as clients learned of them, each with the kind of its request.
        recent: Runs that were answered last.
    """

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: dict[str, str] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)

    def note(self, run_id: str, kind: str, *, answered: bool) -> None:
        """Note a run that must be stored."""
        self.runs[run_id] = kind
        if answered:
            self.recent = [*self.recent[-RECENT:], run_id]


class Client:
    """A client that sends one request after another until it is stopped.

    Args:
        session: Where it sends them, with a key.
        seen: What it reports to.
        chance: Chooses the requests.
    """

    def __init__(self, session: aiohttp.ClientSession, seen: Seen, chance: random.Random) -> None:
        self._session = session
        self._seen = seen
        self._chance = chance
        self._kind = ""

    async def go_on(self, stop: asyncio.Event) -> None:
        """Send requests until `stop`; what is in flight then is finished."""
        kinds = list(KINDS)
        while not stop.is_set():
            self._kind = kind = self._chance.choices(kinds, [KINDS[name].share for name in kinds])[0]
            try:
                ended = await KINDS[kind].send(self)
            except (aiohttp.ClientError, TimeoutError) as error:
                ended = type(error).__name__
            self._seen.requests[kind, ended] += 1
            await asyncio.sleep(PAUSE_S)

    async def answers(self, body: Mapping[str, Any]) -> str:
        """Ask by `/v1/answers`, and read the finished run."""
        async with self._session.post("/v1/answers", json=body) as reply:
            return self._end_of(await reply.json(), lambda reply: reply["run"]["run_id"])

    async def events(self, body: Mapping[str, Any]) -> str:
        """Ask by `/v1/answers`, and read the events."""
        async with self._session.post("/v1/answers", json=body, headers={"accept": "text/event-stream"}) as reply:
            name, data = "", {}
            async for line in reply.content:
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    data = json.loads(line[6:])
                    if name == "run_started":
                        self._seen.note(data["run_id"], self._kind, answered=False)
            return "answered" if name == "run_finished" else str(data.get("reason"))

    async def chat(self, body: Mapping[str, Any], *, leave_after: int = 0) -> str:
        """Ask by `/v1/chat/completions`, and hang up after so many lines of a stream [count]; 0: read it all."""
        async with self._session.post("/v1/chat/completions", json=body) as reply:
            if run_id := reply.headers.get("x-metacog-run-id"):
                self._seen.note(run_id, self._kind, answered=False)
            if reply.status != 200 or not body.get("stream"):
                return self._end_of(await reply.json(), lambda reply: reply["metacog"]["run_id"])
            lines, last, failure = 0, b"", ""
            async for line in reply.content:
                lines, last = lines + 1, line.strip() or last
                if line.startswith(b'data: {"error"'):
                    failure = str(json.loads(line[6:])["error"]["code"])
                if lines == leave_after:
                    reply.close()
                    return "left"
            return failure or ("answered" if last == b"data: [DONE]" else "cut off")

    async def feedback(self) -> str:
        """Label one of the last answers."""
        if not self._seen.recent:
            return "nothing to label"
        body = {
            "feedback_id": f"feedback-{self._chance.getrandbits(64):x}",
            "run_id": self._chance.choice(self._seen.recent),
            "correct": self._chance.random() < 0.5,
        }
        async with self._session.post("/v1/feedback", json=body) as reply:
            answer = await reply.json()
            return "answered" if reply.status == 200 else str(answer.get("reason"))

    def _end_of(self, reply: Mapping[str, Any], run_of: Callable[[Mapping[str, Any]], str]) -> str:
        error = reply.get("error", reply)
        if "run" in reply or "metacog" in reply:
            self._seen.note(run_of(reply), self._kind, answered=True)
            return "answered"
        if run_id := (error.get("metadata") or {}).get("run_id"):
            self._seen.note(run_id, self._kind, answered=False)
        return str(error.get("reason") or error.get("code") or error.get("message"))


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
        share: Its share of the load, in parts.
        send: Sends one, and returns how it ended.
    """

    share: int
    send: Callable[[Client], Awaitable[str]]


def _chat(text: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is of any kind
    return {"model": "metacog/system1", "messages": [{"role": "user", "content": text}], "max_tokens": 64, **more}


KINDS: Mapping[str, Kind] = {
    "System 1": Kind(30, lambda client: client.answers({**WORDS, "strategy": "system1"})),
    "stream": Kind(20, lambda client: client.chat(_chat("Tell me.", stream=True))),
    "votes": Kind(12, lambda client: client.answers({**NUMBER, "strategy": "vote"})),
    "routed": Kind(6, lambda client: client.events(NUMBER)),
    "dialectic": Kind(4, lambda client: client.events({**WORDS, "strategy": "dialectic"})),
    "arbitration": Kind(2, lambda client: client.answers({**NUMBER, "strategy": "arbiter"})),
    "delegation": Kind(4, lambda client: client.answers({**NUMBER, "strategy": "delegation"})),
    "feedback": Kind(8, lambda client: client.feedback()),
    "hang-up": Kind(6, lambda client: client.chat(_chat("Tell me.", stream=True), leave_after=5)),
    "malformed": Kind(4, lambda client: client.answers({"question": 7, "strategy": "none"})),
    "model server fails": Kind(2, lambda client: client.answers({"question": f"Why? {FAILS}", "strategy": "system1"})),
    "stream breaks off": Kind(2, lambda client: client.chat(_chat(f"Why? {BREAKS}", stream=True))),
}


async def load(router: str, seen: Seen, stop: asyncio.Event, *, seed: int = 1) -> None:
    """Send the mixed load to the router at `router` until `stop`."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(router, headers=authorization(), timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        for number in range(CLIENTS):
            group.create_task(Client(session, seen, random.Random(seed + number)).go_on(stop))


def summary(requests: Counter[tuple[str, str]]) -> Mapping[str, Mapping[str, int]]:
    """Return the requests by kind, each with how many ended how."""
    kinds: Sequence[str] = list(KINDS)
    return {kind: {end: count for (of, end), count in sorted(requests.items()) if of == kind} for kind in kinds}
