"""The suite under docker-compose, as a person runs it: files, keys, commands; and what Docker says of its containers.

METACOG_TEST_COMPOSE: the command, docker-compose 1.29 or 2.x (default: the 2.x of the development environment).
METACOG_TEST_PROFILE: `vllm-cpu` (default) or `cpu`.
METACOG_TEST_WITHOUT: `encoder`, where torch's CPU build is not on offer; then what needs it is not checked.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import compose  # type: ignore[import-untyped]  # its package ships no types
import httpx

ROOT = Path(__file__).parents[3]
COMPOSE = os.environ.get("METACOG_TEST_COMPOSE") or str(Path(compose.__file__).with_name("docker-compose"))
PROFILE = os.environ.get("METACOG_TEST_PROFILE") or "vllm-cpu"
PROJECT = "mctest"


def _free_ports(*names: str) -> dict[str, int]:
    """A free port of loopback for each name."""
    with ExitStack() as held:
        sockets = {name: held.enter_context(socket.socket()) for name in names}
        for one in sockets.values():
            one.bind(("127.0.0.1", 0))
        return {name: one.getsockname()[1] for name, one in sockets.items()}


PORTS = _free_ports("METACOG_ROUTER_REST_PORT", "METACOG_ROUTER_GRPC_PORT", "METACOG_CONSOLE_PORT")
TLS_PORTS = _free_ports("METACOG_TLS_REST_PORT", "METACOG_TLS_GRPC_PORT", "METACOG_TLS_CONSOLE_PORT")
FILES = ("docker-compose.yml", "docker/tls/docker-compose.yml", "tests/compose/docker-compose.test.yml")
ROUTER_URL = f"http://127.0.0.1:{PORTS['METACOG_ROUTER_REST_PORT']}"
CONSOLE_URL = f"http://127.0.0.1:{PORTS['METACOG_CONSOLE_PORT']}"
OURS = ("router", "assigner", "arbiter", "delegation", "console")
ENCODER = () if os.environ.get("METACOG_TEST_WITHOUT") == "encoder" else ("encoder",)
STARTED = (*OURS, "postgres", *ENCODER, "otel-collector", "prometheus")
MODEL_SERVER = {"vllm-cpu": "vllm-cpu", "cpu": "llm-cpu"}[PROFILE]
ARBITERS = 3
SECRETS = (
    "peer_key",
    "metrics_key",
    "inference_api_key",
    "encoder_api_key",
    "database_password",
    "database_url",
    "grafana_password",
)
READY_WITHIN_S = 900.0
SETTINGS: Mapping[str, object] = {
    **PORTS,
    **TLS_PORTS,
    "METACOG_TLS_PUBLISH": "127.0.0.1",
    "METACOG_INFERENCE_MODEL": "smollm2",
    "METACOG_OTLP_ENDPOINT": "http://otel-collector:4317",
    "METACOG_LLM_CPU_THREADS": 1,
}

T = TypeVar("T")


class CommandFailed(Exception):
    """A command ended with another status than 0."""


def command(*words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command.

    Raises:
        CommandFailed: With what it said.
    """
    done = subprocess.run(
        words, input=stdin, capture_output=True, check=False, cwd=ROOT, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")[-4000:]
        raise CommandFailed(f"{' '.join(words)}: status {done.returncode}\n{said}")
    return done.stdout.decode(errors="replace")


def awaited(ask: Callable[[], T], within_s: float, what: str) -> T:
    """What `ask` says as soon as it is true and raises nothing.

    Raises:
        TimeoutError: With the last that was said.
    """
    until, last = time.monotonic() + within_s, "nothing"
    while time.monotonic() < until:
        try:
            if said := ask():
                return said
            last = repr(said)
        except (httpx.HTTPError, CommandFailed, LookupError, ValueError) as error:
            last = f"{type(error).__name__}: {error}"
        time.sleep(0.25)
    raise TimeoutError(f"{what}: not within {within_s:.0f} s; last: {last}")


@dataclass
class Suite:
    """A running suite.

    Attributes:
        folder: Its settings and secrets.
        key: API key for people.
        said: What is to be told at the end, by name.
    """

    folder: Path
    key: str = ""
    said: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make settings and secrets."""
        (self.folder / "env").write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        told = command("make", "-s", "keys", env={"METACOG_SECRETS": str(self.secrets)})
        self.key = told.split()[-1]
        for wanted in (("server", "localhost"), ("client", "ann")):
            command("docker/tls/certificates.sh", *wanted, env={"METACOG_SECRETS": str(self.secrets)})

    @property
    def secrets(self) -> Path:
        """Folder of the secrets."""
        return self.folder / "secrets"

    def secret(self, name: str) -> str:
        """Content of one secret."""
        return (self.secrets / name).read_text().strip()

    def compose(self, *words: str, stdin: bytes | None = None) -> str:
        """Run docker-compose on this suite."""
        files = [word for file in FILES for word in ("-f", file)]
        known = ("--env-file", str(self.folder / "env"), "-p", PROJECT, "--profile", PROFILE)
        profiles = ("--profile", "encoder", "--profile", "observability")
        return command(
            COMPOSE, *files, *known, *profiles, *words, stdin=stdin, env={"METACOG_SECRETS": str(self.secrets)}
        )

    def up(self, *services: str) -> None:
        """Start services, by default all that there are images of, with three arbiters."""
        named = services or (*STARTED, MODEL_SERVER)
        scaled = ("--scale", f"arbiter={ARBITERS}") if "arbiter" in named else ()
        self.compose("up", "-d", "--no-build", *scaled, *named)

    def down(self) -> None:
        """Stop everything and forget the data."""
        self.compose("down", "-v", "--remove-orphans")

    def containers(self, service: str) -> Sequence[str]:
        """Identifiers of the running containers of a service."""
        labels = ("--filter", f"label=com.docker.compose.project={PROJECT}")
        one = ("--filter", f"label=com.docker.compose.service={service}")
        return command("docker", "ps", "-q", "--no-trunc", *labels, *one).split()

    def container(self, service: str) -> str:
        """The first of them."""
        return self.containers(service)[0]

    def inspected(self, container: str) -> dict[str, Any]:
        """What Docker says of a container."""
        told: dict[str, Any] = json.loads(command("docker", "inspect", container))[0]
        return told

    def inside(self, service: str, *words: str) -> str:
        """Output of a command in a service's container."""
        return command("docker", "exec", self.container(service), *words)

    def logs(self, service: str) -> str:
        """What all containers of a service said, on both outputs."""
        told = [
            subprocess.run(["docker", "logs", each], capture_output=True, check=True)
            for each in self.containers(service)
        ]
        return "".join((one.stdout + one.stderr).decode(errors="replace") for one in told)

    def client(self, journey: str, words: str = "", key: str | None = None) -> Any:  # noqa: ANN401 - JSON
        """What the gRPC client in a container of its own was told; it is on the services' networks."""
        name = f"{PROJECT}-client"
        create = ("docker", "create", "--name", name, "--network", f"{PROJECT}_inner", "--read-only", "--user", "10002")
        script = f"{ROOT}/tests/compose/live/grpc_client.py:/client.py:ro"
        words_in = ("python", "/client.py", journey, key if key is not None else self.key, words)
        command(*create, "-v", script, "metacog-services", *words_in)
        try:
            return json.loads(command("docker", "start", "-a", name))
        finally:
            command("docker", "rm", "-f", name)

    def ready(self) -> dict[str, str]:
        """Parts of the router's readiness; raises while it is not ready."""
        reply = httpx.get(f"{ROUTER_URL}/readyz", headers={"authorization": f"Bearer {self.key}"}, timeout=10)
        reply.raise_for_status()
        parts: dict[str, str] = reply.json()["parts"]
        return parts

    def is_well(self) -> bool:
        """Whether router and console are ready, and the router knows of nothing that is down."""
        console = httpx.get(f"{CONSOLE_URL}/readyz", timeout=10).status_code == 200
        unasked = {"encoder"} - set(ENCODER)
        down = {name: said for name, said in self.ready().items() if said != "ok" and name not in unasked}
        if down:
            raise LookupError(str(down))
        return console

    def is_healthy(self, service: str) -> bool:
        """Whether Docker finds every container of a service healthy."""
        told = [self.inspected(one)["State"].get("Health", {}).get("Status") for one in self.containers(service)]
        if not told or any(status != "healthy" for status in told):
            raise LookupError(f"{service}: {told}")
        return True

    def crash(self, service: str) -> str:
        """Kill the main process of a service's first container, as a crash would; Docker is to start it again."""
        container = self.container(service)
        os.kill(self.inspected(container)["State"]["Pid"], signal.SIGKILL)
        return container

    def asked(self, method: str, path: str, **wishes: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        """One request to the router's REST API, with the key."""
        headers = {"authorization": f"Bearer {self.key}", **wishes.pop("headers", {})}
        return httpx.request(method, f"{ROUTER_URL}{path}", headers=headers, timeout=300, **wishes)

    def recorded(self, run: str) -> bool:
        """Whether a run can be found."""
        return self.asked("GET", f"/v1/runs/{run}").status_code == 200

    def metrics(self, service: str, port: int) -> list[dict[str, float]]:
        """Samples of each replica's /metrics, by their name and labels."""
        script = (
            "import sys, urllib.request as u; "
            f"r = u.Request('http://127.0.0.1:{port}/metrics', headers={{'authorization': 'Bearer ' + sys.argv[1]}}); "
            "sys.stdout.write(u.urlopen(r, timeout=10).read().decode())"
        )
        return [
            samples(command("docker", "exec", each, "python", "-c", script, self.key))
            for each in self.containers(service)
        ]


def samples(exposition: str) -> dict[str, float]:
    """Samples of a Prometheus page, by name and labels."""
    lines = [line.rpartition(" ") for line in exposition.splitlines() if line and not line.startswith("#")]
    return {name: float(number) for name, _, number in lines}


def total(pages: Sequence[Mapping[str, float]], name: str) -> float:
    """Sum of all samples of a metric, whatever their labels."""
    return sum(
        number for page in pages for known, number in page.items() if known == name or known.startswith(name + "{")
    )
