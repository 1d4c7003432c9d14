"""Backup and restore, with PostgreSQL as it is and a command in the place of compose that runs its programs here."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from embedded.postgres.files import programs_folder
from tests.support.stack import ROOT, Database

# Runs what would run in the container `postgres`, and notes the rest. Just before databases change their names somebody
# may take the new one away; a migration may fail.
COMPOSE = """#!/bin/sh
echo "$*" >> "$NOTES"
case "$*" in
    *RENAME*) [ -z "$TAKEN" ] || "$PROGRAMS/psql" -h "$SOCKETS" -U postgres -qc "$TAKEN" ;;
    "run --rm -T migrate") exit "$MIGRATION" ;;
esac
[ "$1 $2 $3" = "exec -T postgres" ] || exit 0
shift 3
name=$1
shift
exec "$PROGRAMS/$name" -h "$SOCKETS" "$@"
"""


class Suite:
    """A database named `metacog` with one row, and its backup."""

    def __init__(self, server: Database, folder: Path) -> None:
        self.sockets = str(make_url(server.url).query["host"])
        self.notes, self.dump = folder / "notes", folder / "suite.dump"
        (folder / "compose").write_text(COMPOSE)
        (folder / "compose").chmod(0o755)
        self.environment = {
            **os.environ,
            "COMPOSE": str(folder / "compose"),
            "NOTES": str(self.notes),
            "PROGRAMS": str(programs_folder()),
            "SOCKETS": self.sockets,
        }

    def script(self, name: str, *, taken: bool = False, migration: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run docker/NAME.sh."""
        self.notes.write_text("")
        words = [str(ROOT / "docker" / f"{name}.sh"), str(self.dump)]
        settings = {"TAKEN": "ALTER DATABASE metacog_new RENAME TO taken" if taken else "", "MIGRATION": str(migration)}
        return subprocess.run(words, env={**self.environment, **settings}, capture_output=True, text=True, check=False)

    def sql(self, statement: str, database: str = "metacog") -> list[str]:
        """The first column of what a statement returns."""
        with psycopg.connect(host=self.sockets, user="metacog", dbname=database, autocommit=True) as connection:
            found = connection.execute(statement)
            return [str(row[0]) for row in found.fetchall()] if found.description else []

    def databases(self) -> list[str]:
        """The names of the databases that are there."""
        return self.sql("SELECT datname FROM pg_database WHERE datname LIKE 'metacog%' ORDER BY 1", "postgres")

    def commands(self) -> list[str]:
        """What compose itself was asked to do."""
        return [line for line in self.notes.read_text().splitlines() if not line.startswith("exec ")]


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with Database() as database:
        yield database


@pytest.fixture
def suite(server: Database, tmp_path: Path) -> Suite:
    """A suite whose database holds `kept`, which is in the backup, and `since`, which is not."""
    suite = Suite(server, tmp_path)
    with psycopg.connect(host=suite.sockets, user="postgres", dbname="postgres", autocommit=True) as connection:
        for name in ("metacog", "metacog_new", "metacog_before", "taken"):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'metacog'").fetchall():
            connection.execute("CREATE ROLE metacog SUPERUSER LOGIN")
        connection.execute("CREATE DATABASE metacog OWNER metacog")
    suite.sql("CREATE TABLE runs (name text)")
    suite.sql("INSERT INTO runs VALUES ('kept')")
    assert suite.script("backup").returncode == 0
    suite.sql("INSERT INTO runs VALUES ('since')")
    return suite


def test_a_backup_is_restored_and_the_suite_is_stopped_migrated_and_started(suite: Suite) -> None:
    done = suite.script("restore")

    assert done.returncode == 0, done.stderr
    assert suite.sql("SELECT name FROM runs") == ["kept"]
    assert suite.databases() == ["metacog"]
    assert suite.commands() == [
        "stop router assigner arbiter delegation",
        "run --rm -T migrate",
        "start router assigner arbiter delegation",
    ]


def test_a_second_rename_that_fails_leaves_the_database_as_it_was_and_the_suite_runs_with_it(suite: Suite) -> None:
    done = suite.script("restore", taken=True)

    assert done.returncode != 0
    assert 'database "metacog_new" does not exist' in done.stderr
    assert "not restored; the database is as it was" in done.stderr
    assert suite.sql("SELECT name FROM runs") == ["kept", "since"]
    assert suite.commands() == ["stop router assigner arbiter delegation", "start router assigner arbiter delegation"]


def test_a_migration_that_fails_brings_the_old_database_back(suite: Suite) -> None:
    done = suite.script("restore", migration=3)

    assert done.returncode == 3
    assert suite.sql("SELECT name FROM runs") == ["kept", "since"]
    assert suite.commands()[-1] == "start router assigner arbiter delegation"
    assert suite.script("restore").returncode == 0
    assert suite.databases() == ["metacog"]


def test_a_restore_that_was_cut_off_between_its_renames_loses_nothing_the_next_time(suite: Suite) -> None:
    suite.sql("ALTER DATABASE metacog RENAME TO metacog_before", "postgres")

    done = suite.script("restore", migration=1)

    assert done.returncode == 1
    assert suite.sql("SELECT name FROM runs") == ["kept", "since"]


def test_a_file_that_is_no_backup_stops_nothing(suite: Suite) -> None:
    suite.dump.write_text("no backup")

    done = suite.script("restore")

    assert done.returncode != 0
    assert suite.commands() == []
    assert suite.sql("SELECT name FROM runs") == ["kept", "since"]
