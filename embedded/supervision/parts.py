"""A part of the suite is one process: its command, its dependencies and its readiness check."""

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
    """A process specification describes how the supervisor runs one part.

    Args:
        name: Name of the part, of its log and of its pid file.
        command: Program and arguments.
        environment: Variables that override those of the supervisor.
        url: Address that is shown to users.
        ready_url: Returns 200 for GET once the part is ready.
        ready_file: Exists once the part is ready; removed before each start.
        after: Parts that must have been ready once, or done, before this one starts.
        once: Whether the part is a step: done when it ends with status 0, failed with any other.
        ready_within_s: Time from start to readiness after which the attempt has failed [s].
        grace_s: Time between SIGTERM and SIGKILL [s].
        wave: Order of stopping; parts of a higher wave stop first.
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
        """Return whether the part is ready; a part without a readiness check is ready when it runs."""
        if self.ready_file is not None:
            return Path(self.ready_file).exists()
        return self.ready_url is None or responds_ok(self.ready_url)


def responds_ok(url: str) -> bool:
    """Return whether GET `url` returns 200."""
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
    """Write `parts` to a file for the supervisor, readable by this user only."""
    write_atomically(path, json.dumps([asdict(part) for part in parts], indent=1))


def read_plan(path: Path) -> list[ProcessSpec]:
    """Read a plan that `write_plan` wrote."""
    return [
        ProcessSpec(**{**each, "command": tuple(each["command"]), "after": tuple(each["after"])})
        for each in json.loads(path.read_text())
    ]


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at `path` atomically, readable by this user only."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
