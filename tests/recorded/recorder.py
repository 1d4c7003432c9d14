"""The recorder asks a checkout every request, in order, and keeps or compares what comes back."""

import asyncio
import gzip
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.recorded.asking import Asker, Body, Request
from tests.recorded.backend import backend
from tests.recorded.comparing import differences, loosened
from tests.recorded.normal import DURATIONS, TOKENS, UNORDERED, Normaliser
from tests.recorded.renaming import Renames
from tests.recorded.requests import REQUESTS
from tests.recorded.suite import Suite

FORMAT = 1
PROGRESS_EVERY = 20


@dataclass
class Difference:
    """A request that is answered otherwise than it was."""

    request: Request
    lines: list[str]


@dataclass
class Compared:
    """What a comparison found."""

    same: int = 0
    accepted: int = 0
    different: list[Difference] = field(default_factory=list)


async def answers(
    checkout: Path, renames: Renames, *, postgres_url: str = "", requests: Sequence[Request] = REQUESTS
) -> dict[str, Body]:
    """The normalised response to each request, by its identifier, from a fresh suite of `checkout`."""
    began = time.monotonic()
    say(f"starting the suite of {checkout.name}")
    got: dict[str, Body] = {}
    async with (
        backend() as url,
        Suite.started(checkout, url, renames, postgres_url) as suite,
        aiohttp.ClientSession() as session,
    ):
        normal = Normaliser(
            folders={str(suite.home): "<home>", str(checkout): "<checkout>"},
            durations=renames.also(DURATIONS),
            tokens=renames.also(TOKENS),
            unordered=renames.also(UNORDERED),
        )
        urls = {f"{name.replace('-', '_')}_url": at.rest for name, at in suite.at.items()}
        asker = Asker(suite, normal, session, saved=urls)
        say(f"the suite serves after {time.monotonic() - began:.0f} s")
        for number, request in enumerate(requests, start=1):
            await asyncio.sleep(request.pause_s)
            got[request.id] = await _answer(asker, normal, request.renamed(renames))
            if number % PROGRESS_EVERY == 0 or number == len(requests):
                say(f"{number} of {len(requests)} requests, {time.monotonic() - began:.0f} s")
        await asker.close()
    return got


async def _answer(asker: Asker, normal: Normaliser, request: Request) -> Body:
    try:
        response: Body = normal(request.id, await asker.ask(request))
    except Exception as error:  # noqa: BLE001 - what breaks here is an answer too, and the others still count
        return {"broken": f"{type(error).__name__}: {error}"}
    if "stream" in response:
        response["stream"] = normal.sorted(response["stream"])
    return response


def compared(recording: Body, now: dict[str, Body], renames: Renames) -> Compared:
    """What differs between a recording, brought to the new spelling, and what is answered now."""
    found = Compared()
    for request in REQUESTS:
        kept = recording["requests"].get(request.id)
        if kept is None:
            found.different.append(Difference(request, ["$: it is not in the recording"]))
            continue
        scope = request.scope
        old = renames.without_ignored(respelled(kept["got"], renames, request), scope)
        new = renames.without_ignored(now[request.id], scope)
        if scope.kind == "cli" and scope.id in renames.touched_text:
            old, new = loosened(old), loosened(new)
        lines = differences(old, new)
        if lines and renames.is_accepted(scope):
            found.accepted += 1
        elif lines:
            found.different.append(Difference(request, lines))
        else:
            found.same += 1
    return found


def respelled(got: Body, renames: Renames, request: Request) -> Any:  # noqa: ANN401 - a JSON document
    """A recorded response in the new spelling; only what is inside its envelope is renamed."""
    scope = request.scope
    made = dict(got)
    for part in ("headers", "body", "message", "details", "stdout", "stderr", "files"):
        if part in made:
            made[part] = renames.response(made[part], scope)
    if "stream" in made:
        made["stream"] = {
            part: [[renames.event(name, scope), renames.response(data, scope)] for name, data in events]
            for part, events in made["stream"].items()
        }
        made["stream"]["unordered"].sort(key=lambda event: json.dumps(event, sort_keys=True, ensure_ascii=False))
    return made


def write(path: Path, got: dict[str, Body]) -> None:
    """Write a recording, the same bytes for the same answers."""
    asked = {request.id: {"asked": request.asked, "got": got[request.id]} for request in REQUESTS}
    text = json.dumps({"format": FORMAT, "requests": asked}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(path: Path) -> Body:
    """A recording.

    Raises:
        ValueError: It has another format.
    """
    found: Body = json.loads(gzip.decompress(path.read_bytes()))
    if found.get("format") != FORMAT:
        raise ValueError(f"{path} has format {found.get('format')}, not {FORMAT}")
    return found


def report(found: Compared, shown: int) -> None:
    """Say what a comparison found, with the first `shown` requests that differ."""
    for difference in found.different[:shown]:
        asked = difference.request.asked
        say(f"\n{difference.request.id}: {asked['kind']} to {asked['to']}, {asked['line']}")
        for line in difference.lines[:shown]:
            say(f"  {line}")
        if len(difference.lines) > shown:
            say(f"  and {len(difference.lines) - shown} more places")
    if len(found.different) > shown:
        say(f"\nand {len(found.different) - shown} more requests")
    say(f"\n{found.same} the same, {len(found.different)} different, {found.accepted} accepted as different")


def counted() -> str:
    """How many requests there are of each kind."""
    kinds = Counter(request.kind for request in REQUESTS)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + f"; {len(REQUESTS)} in all"


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - what a command says
