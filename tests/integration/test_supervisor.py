"""The supervisor with tiny parts of its own: what dies comes back, what fails says why, and nothing stays behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from embedded.down import stop_suite
from embedded.errors import SuiteError
from embedded.ports import Port, check_ports
from embedded.status import current
from embedded.supervision.parts import ProcessSpec
from embedded.supervision.processes import Home, recorded_process, suite_processes
from embedded.supervision.state import PartState, Stage, read_state
from embedded.supervision.supervisor import ATTEMPTS
from embedded.up import check_parts_are_up, is_up, launch

pytestmark = pytest.mark.timeout(60)

HTTP_PART = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
DEAF_PART = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


def python(script: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *arguments)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def http_part(name: str, after: tuple[str, ...] = ()) -> ProcessSpec:
    port = free_port()
    ready_url = f"http://127.0.0.1:{port}/readyz"
    return ProcessSpec(name=name, command=python(HTTP_PART, str(port)), ready_url=ready_url, after=after)


def eventually(true: Callable[[], object], within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def part(home: Home, name: str) -> PartState:
    return next(state for state in read_state(home) if state.name == name)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    home.make()
    yield home
    stop_suite(home)
    assert suite_processes(home) == []


def test_all_parts_are_ready_when_launch_returns(home: Home) -> None:
    launch(home, [http_part("one"), http_part("two")])

    assert is_up(home)
    check_parts_are_up(home)
    assert [state.stage for state in current(home)] == [Stage.READY, Stage.READY]


def test_a_part_that_ends_is_restarted_and_counted(home: Home) -> None:
    launch(home, [http_part("mortal"), http_part("other")])
    first, other = part(home, "mortal").pid, part(home, "other").pid

    assert first is not None
    os.kill(first, signal.SIGKILL)

    eventually(lambda: part(home, "mortal").stage is Stage.READY and part(home, "mortal").pid != first)
    assert part(home, "mortal").restarts == 1
    assert part(home, "other").pid == other


def test_a_suite_with_a_part_that_is_down_runs_but_is_not_up(home: Home, tmp_path: Path) -> None:
    up = tmp_path / "up"
    script = (
        f"import os, sys, time; os.path.exists({str(up)!r}) and sys.exit(1); open({str(up)!r}, 'w'); time.sleep(600)"
    )
    once_only = ProcessSpec(name="fragile", command=python(script), ready_file=None)
    launch(home, [once_only])
    eventually(up.exists)

    pid = part(home, "fragile").pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    eventually(lambda: part(home, "fragile").stage is Stage.RESTARTING)
    assert is_up(home)
    with pytest.raises(SuiteError, match="fragile is restarting"):
        check_parts_are_up(home)


def test_a_part_waits_for_the_step_before_it(home: Home, tmp_path: Path) -> None:
    written = tmp_path / "written"
    step = ProcessSpec(name="step", command=python(f"open({str(written)!r}, 'w').write('done')"), once=True)
    needs = f"import os, sys; sys.exit(0 if os.path.exists({str(written)!r}) else 'too early')\n"
    waiting = http_part("waiting", after=("step",))
    waiting = replace(waiting, command=python(needs.replace("sys.exit(0", "(0") + HTTP_PART, *waiting.command[3:]))

    launch(home, [waiting, step])

    assert part(home, "step").stage is Stage.DONE
    assert part(home, "waiting").restarts == 0


def test_a_part_that_never_comes_up_is_named_with_the_last_lines_of_its_log_and_nothing_stays(home: Home) -> None:
    broken = ProcessSpec(
        name="broken", command=python("print('no such table'); raise SystemExit(3)"), ready_url="http://127.0.0.1:9/"
    )

    with pytest.raises(SuiteError) as caught:
        launch(home, [http_part("fine"), broken])

    assert "broken did not come up: it ended with status 3" in caught.value.message
    assert "no such table" in caught.value.message
    assert str(home.log("broken")) in caught.value.message
    assert home.log("broken").read_text().count("no such table") == ATTEMPTS
    assert suite_processes(home) == []


def test_a_failing_step_stops_the_start(home: Home) -> None:
    step = ProcessSpec(name="migrate", command=python("raise SystemExit('cannot reach the database')"), once=True)

    with pytest.raises(SuiteError, match="migrate did not come up") as caught:
        launch(home, [step, http_part("after", after=("migrate",))])

    assert "cannot reach the database" in caught.value.message


def test_a_part_that_is_never_ready_has_failed(home: Home) -> None:
    mute = ProcessSpec(
        name="mute", command=python("import time; time.sleep(600)"), ready_url="http://127.0.0.1:9/", ready_within_s=0.3
    )

    with pytest.raises(SuiteError, match="mute did not come up: it was not ready within 0 s"):
        launch(home, [mute])


def test_down_stops_everything_and_a_second_down_finds_nothing(home: Home) -> None:
    launch(home, [http_part("one"), http_part("two")])
    pids = [state.pid for state in read_state(home)]

    assert stop_suite(home)

    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    assert not stop_suite(home)
    assert list(home.run.glob("*.pid")) == []


def test_down_after_the_supervisor_was_killed_leaves_no_process(home: Home) -> None:
    launch(home, [http_part("one"), http_part("two")])
    supervisor = recorded_process(home, "supervisor")
    assert supervisor is not None
    supervisor.kill()
    eventually(lambda: recorded_process(home, "supervisor") is None)
    assert [state.stage for state in current(home)] == [Stage.ORPHANED, Stage.ORPHANED]

    assert stop_suite(home)

    assert suite_processes(home) == []
    assert [state.stage for state in current(home)] == [Stage.STOPPED, Stage.STOPPED]


def test_down_finds_parts_whose_pid_files_are_lost(home: Home) -> None:
    launch(home, [http_part("one")])
    supervisor = recorded_process(home, "supervisor")
    assert supervisor is not None
    supervisor.kill()
    eventually(lambda: recorded_process(home, "supervisor") is None)
    for path in home.run.iterdir():
        path.unlink()

    assert stop_suite(home)

    assert suite_processes(home) == []


def test_a_supervisor_that_receives_sigterm_stops_its_parts(home: Home) -> None:
    launch(home, [http_part("one"), http_part("two")])
    supervisor = recorded_process(home, "supervisor")
    assert supervisor is not None

    supervisor.terminate()

    eventually(lambda: suite_processes(home) == [])
    assert recorded_process(home, "supervisor") is None


def test_a_part_that_ignores_sigterm_is_killed_after_its_grace(home: Home, tmp_path: Path) -> None:
    deaf = ProcessSpec(
        name="deaf", command=python(DEAF_PART, str(tmp_path / "up")), ready_file=str(tmp_path / "up"), grace_s=0.3
    )
    launch(home, [deaf])

    assert stop_suite(home)

    assert suite_processes(home) == []


def test_what_a_part_leaves_in_its_group_goes_with_it(home: Home, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = (
        "import pathlib, subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(p.pid))\ntime.sleep(600)"
    )
    launch(home, [ProcessSpec(name="parent", command=python(script), ready_file=str(child))])
    pid, grandchild = part(home, "parent").pid, psutil.Process(int(child.read_text()))

    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    eventually(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_a_second_supervisor_of_one_home_ends_with_an_error(home: Home) -> None:
    launch(home, [http_part("one")])

    second = subprocess.run(
        [sys.executable, "-m", "embedded.supervision.supervisor", "--home", str(home.path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert second.returncode == 1
    assert "another supervisor runs this suite" in second.stdout


def test_the_error_for_a_used_port_names_its_setting_and_its_process() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        number = holder.getsockname()[1]

        with pytest.raises(SuiteError) as caught:
            check_ports([Port(number, "router REST", "METACOG_ROUTER_REST_PORT")])

    name = psutil.Process().name()
    assert caught.value.message == (
        f"port {number} (router REST) is taken by {name} (pid {os.getpid()}); set METACOG_ROUTER_REST_PORT to another"
    )


def test_up_names_every_taken_port_and_starts_nothing(home: Home) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        number = holder.getsockname()[1]
        settings = {"METACOG_HOME": str(home.path), "METACOG_ROUTER_REST_PORT": str(number)}

        done = subprocess.run(
            [sys.executable, "-m", "embedded", "up"],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert f"port {number} (router REST) is taken" in done.stdout
    assert "METACOG_ROUTER_REST_PORT" in done.stdout
    assert read_state(home) == []
