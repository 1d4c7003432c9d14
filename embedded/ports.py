"""The ports of the suite, which other processes may use."""

import socket
from dataclasses import dataclass

import psutil

from embedded.errors import SuiteError


@dataclass(frozen=True, slots=True)
class Port:
    """A port of this machine's loopback interface, with its purpose."""

    number: int
    purpose: str
    setting: str


def port_is_free(host: str, number: int) -> bool:
    """Return whether no process listens on port `number` of `host`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the port of a closed connection is free
        try:
            probe.bind((host, number))
        except OSError:
            return False
    return True


def process_on_port(number: int) -> str | None:
    """Return the name and pid of the process that listens on port `number`, if the system shows them."""
    try:
        pids = [
            each.pid
            for each in psutil.net_connections(kind="tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == number and each.pid
        ]
        return f"{psutil.Process(pids[0]).name()} (pid {pids[0]})" if pids else None
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None


def port_conflicts(ports: list[Port], host: str = "127.0.0.1") -> list[str]:
    """Return one line for each port that is not available; empty when all are free.

    Each line names the port, its purpose, its process where the system shows it, and its setting.
    """
    lines = []
    seen: dict[int, Port] = {}
    for port in ports:
        other = seen.setdefault(port.number, port)
        if other is not port:
            lines.append(f"port {port.number} is set twice: by {other.setting} and by {port.setting}")
        elif not port_is_free(host, port.number):
            holder = process_on_port(port.number)
            by = f" by {holder}" if holder else ""
            lines.append(f"port {port.number} ({port.purpose}) is taken{by}; set {port.setting} to another")
    return lines


def check_ports(ports: list[Port]) -> None:
    """Raise an error if a port is not available.

    Raises:
        SuiteError: With one line for each such port.
    """
    lines = port_conflicts(ports)
    if lines:
        raise SuiteError("\n".join(lines), ports=",".join(str(port.number) for port in ports))
