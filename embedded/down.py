"""Stopping a suite for good, whatever has become of its supervisor."""

from embedded import postgres
from embedded.processes import Home, end, forget_pid, members, recorded, recorded_all
from embedded.state import read_state

SUPERVISOR_GRACE_S = 60.0  # it stops the parts one wave after the other
PART_GRACE_S = 10.0


def stop_suite(home: Home) -> bool:
    """Stop everything that runs of the suite; whether anything did.

    The supervisor stops its parts itself. What it could not, because it was killed, is found by the pid files, by
    PostgreSQL's own record, and by the mark that every process of the suite carries.
    """
    if not home.path.exists():
        return False
    supervisor = recorded(home, "supervisor")
    if supervisor is not None:
        end([supervisor], SUPERVISOR_GRACE_S)
    forget_pid(home, "supervisor")
    return sweep(home) or supervisor is not None


def sweep(home: Home) -> bool:
    """Stop what is left of the suite's parts; whether anything was."""
    order = [part.name for part in read_state(home)]
    parts = recorded_all(home)
    parts.pop("supervisor", None)
    left = sorted(parts, key=lambda name: order.index(name) if name in order else -1, reverse=True)
    for name in left:
        end([parts[name]], PART_GRACE_S)
    database = home.data.exists() and postgres.stop(home.data)
    strays = members(home)
    end(strays, PART_GRACE_S)
    for path in home.run.glob("*.pid"):
        if path.stem != "supervisor":
            path.unlink(missing_ok=True)
    return bool(left or database or strays)
