"""The router adds time and CPU to a System 1 call: measured beside the barest proxies, in the same run.

The router is the process that users run: its database is a real PostgreSQL, every run is recorded, metrics are on. The
model server takes a fixed time (50 ms, then none) and hardly any CPU. Router and proxies take turns on a core that is
theirs alone; load, model server and PostgreSQL are on the others. Each target is measured `REPEATS` times, in turn with
all others, and what is printed is the median of the repeats; p99 is over all repeats together.

    python -m bench.router                             # or: make bench ARGS=router

CPU is the target's own, by the kernel's account, until its last run is in the database: on a machine that others use,
trust it and the ratios more than the times.
"""

import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import orjson
import psycopg

from bench.load_servers.load import Job, Times, generate
from bench.load_servers.servers import serve_fixed_time, serve_proxy, through_aiohttp, through_pyreqwest
from tests.support.stack import Database, command, environment, process

REPEATS = 5
LATENCY_MS = 50
MESSAGES = [{"role": "user", "content": "How are you? " * 20}]
BODY = {"model": "metacog/system1", "messages": MESSAGES, "max_tokens": 64}
WARM_UP = 400

spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Cell:
    """One kind of load."""

    latency_ms: int
    clients: int
    requests: int


ONE = Cell(latency_ms=LATENCY_MS, clients=1, requests=60)
MANY = Cell(latency_ms=LATENCY_MS, clients=32, requests=1600)
FLOOD = Cell(latency_ms=0, clients=32, requests=4000)


@dataclass
class Target:
    """Something that is measured, and its figures by cell, one for each repeat."""

    name: str
    port: int
    pid: int
    stream: bool = False
    records: bool = False
    times: dict[Cell, list[Times]] = field(default_factory=dict)
    cpu_ms: dict[Cell, list[float]] = field(default_factory=dict)

    def body(self) -> bytes:
        """The request, as JSON."""
        return orjson.dumps({**BODY, "stream": True} if self.stream else BODY)

    def rate(self) -> float:
        """Requests each second at no latency."""
        return statistics.median(len(times.whole_ms) / times.seconds for times in self.times[FLOOD])

    def cpu(self, cell: Cell) -> float:
        """CPU of one request [ms]."""
        return statistics.median(self.cpu_ms[cell])

    def added(self, direct: "Target", cell: Cell, *, first: bool = False) -> tuple[float, float]:
        """Added p50 and p99 over `direct` [ms], until the whole answer or its `first` event."""
        pairs = list(zip(_times(self.times[cell], first), _times(direct.times[cell], first), strict=True))
        p50 = statistics.median(statistics.median(mine) - statistics.median(its) for mine, its in pairs)
        mine, its = ([time for times in side for time in times] for side in zip(*pairs, strict=True))
        return p50, p99(mine) - p99(its)


def _times(times: Sequence[Times], first: bool) -> list[list[float]]:
    return [each.first_ms if first else each.whole_ms for each in times]


def p99(times: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(times, n=100)[98]


# -- processes --------------------------------------------------------------------------------------------------------


def cores() -> tuple[set[int], set[int]]:
    """The core of what is measured, and those of everything else; all for both where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return ({allowed[-1]}, set(allowed[:-1])) if len(allowed) > 1 else (set(allowed), set(allowed))


@contextmanager
def on(these: set[int]) -> Iterator[None]:
    """Run what is started inside on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, these)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def child(work: Any, *arguments: object) -> Iterator[tuple["Connection[Any, Any]", int]]:  # noqa: ANN401
    """A process that does `work`, given a pipe to here; with its end of the pipe and its process id."""
    here, there = spawn.Pipe()
    started = spawn.Process(target=work, args=(there, *arguments), daemon=True)
    started.start()
    there.close()  # so that its end is noticed here
    try:
        yield here, started.pid or 0
    finally:
        started.terminate()
        started.join()


def cpu_ms(pid: int) -> float:
    """CPU that a process has used so far [ms]; 0 for none."""
    if not pid:
        return 0.0
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        ticks = stat.read().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) * 1000 / os.sysconf("SC_CLK_TCK")


# -- the measurement --------------------------------------------------------------------------------------------------


class RouterMeasurement:
    """This value holds what the measurements share.

    Attributes:
        recorded: Runs that the router has been asked for [count].
        waited: Most runs found waiting in memory when a load ended [count].
    """

    def __init__(self, load: "Connection[Any, Any]", backend_port: int, database: str, router: str) -> None:
        self._load = load
        self._backend = f"http://127.0.0.1:{backend_port}"
        self._database = psycopg.connect(database.replace("+psycopg", ""), autocommit=True)
        self._router = router
        self.recorded = 0
        self.waited = 0

    def measure(self, target: Target, cell: Cell) -> None:
        """One cell of one target, once."""
        self.latency(cell.latency_ms)
        before = cpu_ms(target.pid)
        times = self.load(target, cell.clients, cell.requests)
        target.times.setdefault(cell, []).append(times)
        target.cpu_ms.setdefault(cell, []).append((cpu_ms(target.pid) - before) / cell.requests)

    def load(self, target: Target, clients: int, requests: int) -> Times:
        """Requests to a target; when it records them, until they are recorded."""
        self._load.send(Job(port=target.port, body=target.body(), clients=clients, requests=requests))
        times: Times = self._load.recv()
        if target.records:
            self.recorded += requests
            self.waited = max(self.waited, self.recorded - self.written())
            self.settle()
        return times

    def latency(self, latency_ms: int) -> None:
        """Set the model server's time."""
        with urllib.request.urlopen(f"{self._backend}/latency/{latency_ms}") as reply:
            reply.read()

    def written(self) -> int:
        """Runs in the database [count]."""
        row = self._database.execute("SELECT count(*) FROM router.runs").fetchone()
        return int(row[0]) if row else 0

    def settle(self, patience: int = 300) -> None:
        """Wait until every run is in the database, or for a while."""
        for _ in range(patience):
            if self.written() >= self.recorded:
                return
            asyncio.run(asyncio.sleep(0.05))

    def journal(self) -> dict[str, float]:
        """The journal's own figures."""
        with urllib.request.urlopen(f"{self._router}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        said = [line.split(" ") for line in lines if line.startswith("metacog_journal")]
        return {name: float(figure) for name, figure in said}


def run(measurement: RouterMeasurement, targets: Sequence[Target], repeats: int) -> None:
    """All cells of all targets, in turn."""
    measurement.latency(0)
    for target in targets:
        measurement.load(target, 8, WARM_UP)
    for repeat in range(repeats):
        for cell in (ONE, MANY, FLOOD):
            for target in (*targets[repeat % 2 :], *targets[: repeat % 2]):
                measurement.measure(target, cell)
        sys.stdout.write(f"repeat {repeat + 1} of {repeats} done\n")
        sys.stdout.flush()


def table(targets: Sequence[Target]) -> str:
    """The figures, one line a target."""
    direct = {target.stream: target for target in targets if target.name.startswith("directly")}
    limit = next(target for target in targets if "pyreqwest" in target.name)
    head = f"added [ms], {LATENCY_MS} ms backend:  1 client  p50    p99   32 clients  p50    p99   "
    lines = [f"{head}| 0 ms backend: requests/s  of limit  CPU [ms]"]
    for target in targets:
        one, many = (target.added(direct[target.stream], cell) for cell in (ONE, MANY))
        share = target.rate() / limit.rate()
        lines.append(
            f"{target.name:<36} {one[0]:>8.2f} {one[1]:>6.2f} {many[0]:>17.2f} {many[1]:>6.2f}   "
            f"| {target.rate():>24.0f} {share:>9.2f} {target.cpu(FLOOD):>9.3f}"
        )
        if target.stream and not target.name.startswith("directly"):
            firsts = [target.added(direct[True], cell, first=True) for cell in (ONE, MANY)]
            lines.append(
                f"{'  its first event':<36} {firsts[0][0]:>8.2f} {firsts[0][1]:>6.2f} "
                f"{firsts[1][0]:>17.2f} {firsts[1][1]:>6.2f}   |"
            )
    return "\n".join(lines)


async def main_on(database: Database, home: str, repeats: int) -> None:
    """Start everything around the router, measure, and print."""
    own, others = cores()
    settings = {"METACOG_DATABASE_URL": database.url, "METACOG_HOME": home, "METACOG_INFERENCE_MODEL": "fixed"}
    migrated = await asyncio.create_subprocess_exec(
        *command("router"), "migrate", env=environment(**settings), stdin=asyncio.subprocess.DEVNULL
    )
    if await migrated.wait():
        raise RuntimeError("the schema could not be made")
    with on(others), child(serve_fixed_time) as (model, _), child(generate) as (load, _):
        model_port = model.recv()
        url = f"http://127.0.0.1:{model_port}/v1"
        completions = f"{url}/chat/completions"
        with (
            on(own),
            child(serve_proxy, through_pyreqwest, completions) as (fast, fast_pid),
            child(serve_proxy, through_aiohttp, completions) as (other, other_pid),
        ):
            async with process("router", **settings, METACOG_INFERENCE_URL=url) as router:
                os.sched_setaffinity(0, others)
                port, pid = int(router.rest.rpartition(":")[2]), router.inner.pid
                targets = [
                    Target("directly", model_port, 0),
                    Target("FastAPI + pyreqwest (the limit)", fast.recv(), fast_pid),
                    Target("FastAPI + aiohttp", other.recv(), other_pid),
                    Target("metacog/system1", port, pid, records=True),
                    Target("directly, streamed", model_port, 0, stream=True),
                    Target("metacog/system1, streamed", port, pid, stream=True, records=True),
                ]
                measurement = RouterMeasurement(load, model_port, database.url, router.rest)
                await asyncio.to_thread(run, measurement, targets, repeats)
                journal, written = measurement.journal(), measurement.written()
                spooled = journal["metacog_journal_spool_bytes"]
                lost = journal["metacog_journal_lost_total"] + measurement.recorded - written
                sys.stdout.write(
                    f"\ncores: {own} for the router and the proxies, {others} for load, model server and PostgreSQL\n\n"
                    f"{table(targets)}\n\nruns: {measurement.recorded} asked for, {written} in PostgreSQL, "
                    f"{spooled:.0f} bytes on disk, {lost:.0f} lost; "
                    f"at most {measurement.waited} waited when a load ended\n"
                )


def main() -> None:
    """Measure; `--repeats N` for other than `REPEATS`."""
    repeats = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else REPEATS
    _, others = cores()
    with tempfile.TemporaryDirectory(prefix="mc-") as home:
        with on(others):
            database = Database()
            database.start()
        try:
            asyncio.run(main_on(database, home, repeats))
        finally:
            database.stop()


if __name__ == "__main__":
    main()
