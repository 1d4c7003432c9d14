"""Ports that the suite wants and others may hold."""

import socket
from dataclasses import dataclass

import psutil

from embedded.errors import SuiteError


@dataclass(frozen=True, slots=True)
class Port:
    """A port of this machine's loopback, and what it is for."""

    number: int
    purpose: str
    setting: str


def port_is_free(host: str, number: int) -> bool:
    """Whether nobody listens on port `number` of `host`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection's port is free
        try:
            probe.bind((host, number))
        except OSError:
            return False
    return True


def holder_of(number: int) -> str | None:
    """Name and pid of the process that listens on port `number`, if the system lets us see it."""
    try:
        pids = [
            each.pid
            for each in psutil.net_connections(kind="tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == number and each.pid
        ]
        return f"{psutil.Process(pids[0]).name()} (pid {pids[0]})" if pids else None
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None


def clashes(ports: list[Port], host: str = "127.0.0.1") -> list[str]:
    """One line for each port that cannot be had; empty when all are free.

    Each line names the port, what it is for, who holds it where that can be seen, and the setting that changes it.
    """
    lines = []
    seen: dict[int, Port] = {}
    for port in ports:
        other = seen.setdefault(port.number, port)
        if other is not port:
            lines.append(f"port {port.number} is wanted twice: by {other.setting} and by {port.setting}")
        elif not port_is_free(host, port.number):
            holder = holder_of(port.number)
            by = f" by {holder}" if holder else ""
            lines.append(f"port {port.number} ({port.purpose}) is taken{by}; set {port.setting} to another")
    return lines


def check_ports(ports: list[Port]) -> None:
    """Refuse to start on taken ports.

    Raises:
        SuiteError: With one line for each.
    """
    lines = clashes(ports)
    if lines:
        raise SuiteError("\n".join(lines), ports=",".join(str(port.number) for port in ports))
