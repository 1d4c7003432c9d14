"""Backup, a lost database, restore; and migrations that run again without harm."""

import os
from pathlib import Path

from tests.compose.live.suite import COMPOSE, PROFILE, PROJECT, READY_WITHIN_S, ROOT, Suite, awaited, command


def script(suite: Suite, name: str, file: Path) -> str:
    """Run docker/NAME.sh on this suite."""
    compose = f"{COMPOSE} --env-file {suite.folder / 'env'} -p {PROJECT} --profile {PROFILE} --profile encoder"
    environment = {"COMPOSE": compose, "METACOG_SECRETS": str(suite.secrets), "PATH": os.environ["PATH"]}
    return command(str(ROOT / "docker" / f"{name}.sh"), str(file), env=environment)


def sql(suite: Suite, statement: str) -> str:
    """What the database says."""
    return suite.inside("postgres", "psql", "-U", "metacog", "-Atqc", statement).strip()


def test_what_was_recorded_survives_the_loss_of_the_database(suite: Suite, tmp_path: Path) -> None:
    runs = suite.asked("GET", "/v1/runs").json()["runs"]
    tasks = sql(suite, "SELECT count(*) FROM delegation.tasks")
    script(suite, "backup", tmp_path / "suite.dump")
    sql(suite, "DROP SCHEMA router CASCADE; DROP SCHEMA delegation CASCADE")
    lost = suite.asked("GET", f"/v1/runs/{runs[0]['run_id']}").status_code

    script(suite, "restore", tmp_path / "suite.dump")

    awaited(suite.is_well, READY_WITHIN_S, "the suite is well after the restore")
    found = suite.asked("GET", "/v1/runs").json()["runs"]
    size = (tmp_path / "suite.dump").stat().st_size
    suite.said["backup and restore"] = f"{size} bytes, {len(runs)} runs on the first page, {tasks} tasks"
    assert lost != 200
    assert [run["run_id"] for run in found] == [run["run_id"] for run in runs]
    assert runs
    assert sql(suite, "SELECT count(*) FROM delegation.tasks") == tasks


def test_migrating_again_changes_nothing_and_ends_well(suite: Suite) -> None:
    suite.compose("run", "--rm", "-T", "migrate")

    assert awaited(suite.is_well, READY_WITHIN_S, "the suite is well")
