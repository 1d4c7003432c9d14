import json
from pathlib import Path

import pytest

from embedded.postgres.files import database_url, sockets_of
from embedded.status import all_up, format_json, format_table
from embedded.supervision.processes import ROTATE_AT_BYTES, last_lines, rotate
from embedded.supervision.state import PartState, Stage
from embedded.supervision.supervisor import LONGEST_PAUSE_S, pause_before

READY = PartState(name="router", stage=Stage.READY, pid=12, restarts=3, url="http://127.0.0.1:8080")
DEAD = PartState(name="llm", stage=Stage.RESTARTING, note="ended by SIGKILL", url="http://127.0.0.1:8000/v1")


def test_the_table_shows_restarts_and_why_a_part_is_down() -> None:
    lines = format_table([READY, DEAD]).splitlines()

    assert lines[0].split() == ["part", "state", "pid", "restarts", "url"]
    assert lines[1].split() == ["router", "ready", "12", "3", "http://127.0.0.1:8080"]
    assert "ended by SIGKILL" in lines[2]


def test_the_suite_is_up_only_when_every_part_is() -> None:
    assert all_up([READY, PartState(name="migrate", stage=Stage.DONE)])
    assert not all_up([READY, DEAD])
    assert not all_up([])


def test_a_program_can_read_the_status() -> None:
    reported = json.loads(format_json([READY, DEAD]))

    assert reported["up"] is False
    assert reported["parts"][0]["restarts"] == 3


@pytest.mark.parametrize("attempt", range(1, 40))
def test_the_pause_before_a_restart_grows_to_its_cap(attempt: int) -> None:
    assert pause_before(attempt) <= pause_before(attempt + 1) <= LONGEST_PAUSE_S


def test_a_large_log_is_put_aside_at_start(tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    log.write_bytes(b"x" * (ROTATE_AT_BYTES + 1))

    rotate(log)

    assert not log.exists()
    assert (tmp_path / "router.log.1").exists()


def test_the_last_lines_of_a_log_are_its_last(tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    log.write_text("\n".join(f"line {number}" for number in range(10_000)))

    assert last_lines(log, 2) == ["line 9998", "line 9999"]
    assert last_lines(tmp_path / "none.log") == []


def test_a_long_data_path_gets_a_short_socket_folder_of_its_own() -> None:
    one, other = Path("/srv", "a" * 120), Path("/srv", "b" * 120)

    assert sockets_of(Path("/srv/metacog")) == Path("/srv/metacog")
    assert len(str(sockets_of(one))) < 60
    assert sockets_of(one) != sockets_of(other)
    assert str(sockets_of(one)).replace("/", "%2F") in database_url(one)
