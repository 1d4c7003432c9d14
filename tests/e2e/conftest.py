"""The whole suite as `make up` starts it, on ports of its own."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.settings import DEFAULT_PORTS

ROOT = Path(__file__).parents[2]


# A dialectic of the small model takes 30 to 60 s on one idle core, and the machine that tests may be busy.
PATIENCE = {"METACOG_ROUTER_TIMEOUT_MS": "280000", "METACOG_ASSIGNER_TIMEOUT_MS": "280000"}


@dataclass(frozen=True)
class Suite:
    """A suite that runs: its home and its ports by setting."""

    home: Path
    ports: dict[str, int]

    @property
    def environment(self) -> dict[str, str]:
        """Environment that names it."""
        ports = {name: str(number) for name, number in self.ports.items()}
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
        return {
            **inherited,
            **ports,
            **PATIENCE,
            "METACOG_HOME": str(self.home),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}",
        }

    def url(self, setting: str) -> str:
        """Address of the part whose port is `setting`."""
        return f"http://127.0.0.1:{self.ports[setting]}"

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `python -m embedded` for this suite."""
        return subprocess.run(
            [sys.executable, "-m", "embedded", *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )

    def relocated(self, text: str) -> str:
        """`text` of the documentation with our ports instead of the usual ones."""
        for name, usual in DEFAULT_PORTS.items():
            text = text.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{self.ports[name]}")
        return text


def free_ports(count: int) -> list[int]:
    """Return free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="session")
def suite(model_file: Path) -> Iterator[Suite]:
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "models").mkdir()
        (home / "models" / model_file.name).symlink_to(model_file)
        with suite_at(home) as running:
            yield running


@contextmanager
def suite_at(home: Path, *options: str) -> Iterator[Suite]:
    """A suite that `make up` starts at `home` with these options."""
    running = Suite(home=home, ports=dict(zip(DEFAULT_PORTS, free_ports(len(DEFAULT_PORTS)), strict=True)))
    started = running.command("up", *options)
    assert started.returncode == 0, started.stdout + started.stderr
    yield running
    running.command("down")
