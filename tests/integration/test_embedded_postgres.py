"""The embedded database: started, adopted, stopped by anybody, and nothing written is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from embedded import postgres
from embedded.errors import SuiteError
from embedded.postgres.files import Postmaster, database_url, running, sockets_of

pytestmark = pytest.mark.timeout(90)


def eventually(true: Callable[[], object], within_s: float = 30.0) -> None:
    until = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def ask(data: Path, query: str) -> list[tuple[object, ...]]:
    address = database_url(data).replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(address) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def server(data: Path) -> Postmaster:
    found = running(data)
    assert found is not None
    return found


@contextmanager
def owner(data: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "embedded.postgres", "--data", str(data), "--ready-file", str(data) + ".ready"]
    Path(str(data) + ".ready").unlink(missing_ok=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        eventually(lambda: Path(str(data) + ".ready").exists() or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    data = tmp_path / "postgres"
    yield data
    postgres.stop(data)


def test_a_new_folder_becomes_a_database_with_pgvector(data: Path) -> None:
    url = postgres.start(data)

    assert url.startswith("postgresql+psycopg://")
    assert ask(data, "SELECT current_database()") == [("metacog",)]
    assert ask(data, "SELECT '[1,2]'::vector <-> '[1,4]'::vector") == [(2.0,)]


def test_starting_what_runs_already_adopts_it(data: Path) -> None:
    first = postgres.start(data)
    pid = server(data).pid

    assert postgres.start(data) == first
    assert server(data).pid == pid


def test_stopping_twice_is_harmless(data: Path) -> None:
    postgres.start(data)

    assert postgres.stop(data)
    assert not postgres.stop(data)
    assert not postgres.stop(data.parent / "never-there")


def test_a_restart_keeps_what_was_written(data: Path) -> None:
    postgres.start(data)
    ask(data, "CREATE TABLE kept AS SELECT 42 AS answer")

    postgres.stop(data)
    postgres.start(data)

    assert ask(data, "SELECT answer FROM kept") == [(42,)]


def test_after_a_kill_of_its_owner_the_server_is_adopted_and_then_stopped(data: Path) -> None:
    with owner(data) as first:
        pid = server(data).pid
        first.kill()
        first.wait()
    assert server(data).pid == pid

    with owner(data) as second:
        assert server(data).pid == pid
        second.terminate()
        assert second.wait(30) == 0

    assert running(data) is None


def test_any_process_can_stop_a_server_whose_owner_was_killed(data: Path) -> None:
    with owner(data) as process:
        pid = server(data).pid
        process.kill()

    assert postgres.stop(data)

    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_the_owner_ends_with_status_1_when_the_server_dies_and_the_next_recovers(data: Path) -> None:
    with owner(data) as process:
        ask(data, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(server(data).pid, signal.SIGKILL)

        assert process.wait(30) == 1

    postgres.start(data)
    assert ask(data, "SELECT answer FROM kept") == [(42,)]


def test_a_pid_file_with_the_number_of_another_program_does_not_prevent_a_start(data: Path) -> None:
    postgres.start(data)
    record = (data / "postmaster.pid").read_text().splitlines()
    postgres.stop(data)
    (data / "postmaster.pid").write_text("\n".join([str(os.getpid()), *record[1:]]) + "\n")

    postgres.start(data)

    assert server(data).pid != os.getpid()


def test_a_path_too_long_for_a_socket_gets_a_short_one(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30) / "postgres"
    try:
        postgres.start(data)

        assert sockets_of(data) != data
        assert ask(data, "SELECT 1") == [(1,)]
    finally:
        postgres.stop(data)


def test_a_folder_with_something_else_in_it_is_left_alone(data: Path) -> None:
    data.mkdir()
    (data / "thesis.txt").write_text("precious")

    with pytest.raises(SuiteError, match="neither empty nor a PostgreSQL cluster"):
        postgres.start(data)

    assert (data / "thesis.txt").read_text() == "precious"
