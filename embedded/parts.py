"""A part of the suite: one process, what it needs, and how one knows that it is ready."""

import http.client
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One part as the supervisor runs it.

    Args:
        name: Its name; also that of its log and its pid file.
        command: Program and arguments.
        environment: Variables over those that the supervisor itself has.
        url: Where people find it; for show.
        ready_url: Answers 200 to GET once the part is ready.
        ready_file: Is there once the part is ready; taken away before each start.
        after: Parts that must have been ready once, or done, before this one starts.
        once: A step that is done when it ends with status 0, and has failed with any other.
        ready_within_s: Time from start to readiness after which the attempt has failed [s].
        grace_s: Time between SIGTERM and SIGKILL [s].
        wave: Parts of a higher wave are stopped before those of a lower one.
    """

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    url: str = ""
    ready_url: str | None = None
    ready_file: str | None = None
    after: tuple[str, ...] = ()
    once: bool = False
    ready_within_s: float = 120.0
    grace_s: float = 10.0
    wave: int = 0

    def is_ready(self) -> bool:
        """Whether the part says it is ready; one that has no way to say so is ready when it runs."""
        if self.ready_file is not None:
            return Path(self.ready_file).exists()
        return self.ready_url is None or answers_ok(self.ready_url)


def answers_ok(url: str) -> bool:
    """Whether GET `url` is answered with 200."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", place.path or "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def write_plan(path: Path, parts: Sequence[ProcessSpec]) -> None:
    """Write `parts` for the supervisor to read; only this user may read it."""
    write_whole(path, json.dumps([asdict(part) for part in parts], indent=1))


def read_plan(path: Path) -> list[ProcessSpec]:
    """Read what `write_plan` wrote."""
    return [
        ProcessSpec(**{**each, "command": tuple(each["command"]), "after": tuple(each["after"])})
        for each in json.loads(path.read_text())
    ]


def write_whole(path: Path, text: str) -> None:
    """Replace the file at `path`, whole or not at all, readable by this user only."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
