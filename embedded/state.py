"""What the supervisor tells the other commands: one small file, replaced at each change."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from embedded.parts import write_whole
from embedded.processes import Home


class Stage(StrEnum):
    """How far a part has come."""

    WAITING = "waiting"  # for the parts it comes after
    STARTING = "starting"
    READY = "ready"
    DONE = "done"  # a step that had to run once
    RESTARTING = "restarting"  # it died; the next attempt comes after a pause
    FAILED = "failed"  # it never came up, or the step failed; no further attempt
    STOPPED = "stopped"
    UNREADY = "unready"  # it runs but does not say that it is ready
    ORPHANED = "orphaned"  # it runs though its supervisor is gone

    @property
    def is_up(self) -> bool:
        """Whether the part has done what those after it wait for."""
        return self in (Stage.READY, Stage.DONE)


@dataclass(slots=True, kw_only=True)
class PartState:
    """One part, now.

    Args:
        name: The part's name.
        stage: How far it has come.
        pid: Its process; None while there is none.
        restarts: How often it was started again since the suite came up.
        url: Where people find it.
        note: How it last ended, if it did.
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
    """Tell the other commands how the parts are."""
    write_whole(home.run / "state.json", json.dumps([asdict(part) for part in parts]))


def read_state(home: Home) -> list[PartState]:
    """How the parts were when the supervisor last said; empty if it never did."""
    try:
        found = json.loads((home.run / "state.json").read_text())
    except (FileNotFoundError, ValueError):
        return []
    return [PartState(**{**each, "stage": Stage(each["stage"])}) for each in found]
