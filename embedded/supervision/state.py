"""The state of the parts, which the supervisor writes to a small file at each change for the other commands."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from embedded.supervision.parts import write_atomically
from embedded.supervision.processes import Home


class Stage(StrEnum):
    """The stage of a part is its place between waiting and ready."""

    WAITING = "waiting"  # for the parts that it depends on
    STARTING = "starting"
    READY = "ready"
    DONE = "done"  # the step has run
    RESTARTING = "restarting"  # the process ended; the next attempt follows after a pause
    FAILED = "failed"  # the part was never ready, or the step failed; there is no further attempt
    STOPPED = "stopped"
    UNREADY = "unready"  # the process runs and its readiness check fails
    ORPHANED = "orphaned"  # the process runs without its supervisor

    @property
    def is_up(self) -> bool:
        """Whether the parts that depend on this one may start."""
        return self in (Stage.READY, Stage.DONE)


@dataclass(slots=True, kw_only=True)
class PartState:
    """The current state of one part.

    Args:
        name: The part's name.
        stage: Its stage.
        pid: Its process; None while there is none.
        restarts: Number of restarts since the suite was started [count].
        url: Address that is shown to users.
        note: How its process last ended; empty if it never did.
        after_s: Time from the supervisor's start until it was last ready [s].
    """

    name: str
    stage: Stage = Stage.WAITING
    pid: int | None = None
    restarts: int = 0
    url: str = ""
    note: str = ""
    after_s: float | None = None


def write_state(home: Home, parts: list[PartState]) -> None:
    """Write the state of the parts for the other commands."""
    write_atomically(home.run / "state.json", json.dumps([asdict(part) for part in parts]))


def read_state(home: Home) -> list[PartState]:
    """Return the state of the parts as the supervisor last wrote it; empty if it never did."""
    try:
        found = json.loads((home.run / "state.json").read_text())
    except (FileNotFoundError, ValueError):
        return []
    return [PartState(**{**each, "stage": Stage(each["stage"])}) for each in found]
