"""Stops a suite completely, even if its supervisor was killed."""

from embedded import postgres
from embedded.supervision.processes import (
    Home,
    all_recorded_processes,
    delete_pid,
    end,
    recorded_process,
    suite_processes,
)
from embedded.supervision.state import read_state

SUPERVISOR_GRACE_S = 60.0  # the supervisor stops the parts one wave after the other
PART_GRACE_S = 10.0


def stop_suite(home: Home) -> bool:
    """Stop every process of the suite; return whether any ran.

    The supervisor stops its parts itself. After a killed supervisor, the remaining processes are found by the pid
    files, by PostgreSQL's own record and by the environment variable that every process of the suite has.
    """
    if not home.path.exists():
        return False
    supervisor = recorded_process(home, "supervisor")
    if supervisor is not None:
        end([supervisor], SUPERVISOR_GRACE_S)
    delete_pid(home, "supervisor")
    return sweep(home) or supervisor is not None


def sweep(home: Home) -> bool:
    """Stop the remaining processes of the suite's parts; return whether there were any."""
    order = [part.name for part in read_state(home)]
    parts = all_recorded_processes(home)
    parts.pop("supervisor", None)
    left = sorted(parts, key=lambda name: order.index(name) if name in order else -1, reverse=True)
    for name in left:
        end([parts[name]], PART_GRACE_S)
    database = home.data.exists() and postgres.stop(home.data)
    strays = suite_processes(home)
    end(strays, PART_GRACE_S)
    for path in home.run.glob("*.pid"):
        if path.stem != "supervisor":
            path.unlink(missing_ok=True)
    return bool(left or database or strays)
