"""The status of the suite: the state that the supervisor wrote, checked against the processes that run now."""

import json
from dataclasses import asdict

from embedded.supervision.parts import ProcessSpec, read_plan
from embedded.supervision.processes import Home, recorded_process
from embedded.supervision.state import PartState, Stage, read_state

COLUMNS = ("part", "state", "pid", "restarts", "url")


def current(home: Home) -> list[PartState]:
    """Return the current state of each part."""
    specs = _specs(home)
    supervised = recorded_process(home, "supervisor") is not None
    return [_checked(home, state, specs.get(state.name), supervised) for state in read_state(home)]


def _specs(home: Home) -> dict[str, ProcessSpec]:
    try:
        return {part.name: part for part in read_plan(home.run / "plan.json")}
    except (FileNotFoundError, ValueError):
        return {}


def _checked(home: Home, state: PartState, spec: ProcessSpec | None, supervised: bool) -> PartState:
    """Return `state`, corrected by the processes that run now."""
    if not supervised:
        process = recorded_process(home, state.name)
        state.stage = Stage.STOPPED if process is None else Stage.ORPHANED
        state.pid = None if process is None else process.pid
    elif state.stage is Stage.READY and spec is not None and not spec.is_ready():
        state.stage = Stage.UNREADY
    return state


def format_table(states: list[PartState]) -> str:
    """Format the states as a table."""
    rows = [COLUMNS, *((s.name, str(s.stage), str(s.pid or "-"), str(s.restarts), _shown(s)) for s in states)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _shown(state: PartState) -> str:
    """Format the URL of a part, and how its process last ended if the part is not up."""
    return state.url if state.stage.is_up or not state.note else f"{state.url} ({state.note})".strip()


def format_json(states: list[PartState]) -> str:
    """Format the states as JSON."""
    return json.dumps({"up": all_up(states), "parts": [asdict(state) for state in states]}, indent=2)


def all_up(states: list[PartState]) -> bool:
    """Return whether there are parts and every one is up."""
    return bool(states) and all(state.stage.is_up for state in states)
