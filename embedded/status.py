"""How the suite is: what the supervisor last said, checked against what runs and answers now."""

import json
from dataclasses import asdict

from embedded.parts import ProcessSpec, read_plan
from embedded.processes import Home, recorded
from embedded.state import PartState, Stage, read_state

COLUMNS = ("part", "state", "pid", "restarts", "url")


def current(home: Home) -> list[PartState]:
    """State of each part now; all stopped if no supervisor runs and none of their processes does."""
    specs = _specs(home)
    supervised = recorded(home, "supervisor") is not None
    return [_checked(home, state, specs.get(state.name), supervised) for state in read_state(home)]


def _specs(home: Home) -> dict[str, ProcessSpec]:
    try:
        return {part.name: part for part in read_plan(home.run / "plan.json")}
    except (FileNotFoundError, ValueError):
        return {}


def _checked(home: Home, state: PartState, spec: ProcessSpec | None, supervised: bool) -> PartState:
    """`state`, corrected by what can be seen now."""
    if not supervised:
        process = recorded(home, state.name)
        state.stage = Stage.STOPPED if process is None else Stage.ORPHANED
        state.pid = None if process is None else process.pid
    elif state.stage is Stage.READY and spec is not None and not spec.is_ready():
        state.stage = Stage.UNREADY
    return state


def as_table(states: list[PartState]) -> str:
    """The states as a table for people."""
    rows = [COLUMNS, *((s.name, str(s.stage), str(s.pid or "-"), str(s.restarts), _shown(s)) for s in states)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _shown(state: PartState) -> str:
    """URL of a part, and how it last ended if it is not up now."""
    return state.url if state.stage.is_up or not state.note else f"{state.url} ({state.note})".strip()


def as_json(states: list[PartState]) -> str:
    """The states for a program."""
    return json.dumps({"up": all_up(states), "parts": [asdict(state) for state in states]}, indent=2)


def all_up(states: list[PartState]) -> bool:
    """Whether there is a suite and every part of it is up."""
    return bool(states) and all(state.stage.is_up for state in states)
