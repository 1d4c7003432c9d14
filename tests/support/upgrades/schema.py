"""A service of a test alone, whose versions differ in the migrations that they have."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENVIRONMENT = """
from sqlalchemy import MetaData
from chassis.schema.migrations import run_migrations
{bounds}
run_migrations(MetaData(schema="{name}"){waits})
"""
FIRST = "op.execute('CREATE TABLE {name}.things (id int)'); op.execute('INSERT INTO {name}.things VALUES (1)')"
ADDED = "op.execute('ALTER TABLE {name}.things ADD COLUMN colour text')"
DROPPED = "op.execute('ALTER TABLE {name}.things DROP COLUMN colour')"


@contextmanager
def service_at(folder: Path, name: str, *migrations: str, waits: str = "", works_from: str = "") -> Iterator[str]:
    """Write the package of a service with these migrations, and yield its name.

    Args:
        folder: Folder of the package.
        name: Name of its schema.
        migrations: What each migration executes.
        waits: Bounds of the waiting for locks, as arguments; empty: those that ship.
        works_from: The oldest revision whose code works with the last migration; empty: every one.
    """
    package = f"{name}_{folder.name}"
    versions = folder / package / "migrations" / "versions"
    versions.mkdir(parents=True)
    (folder / package / "__init__.py").touch()
    bounds = "from chassis.schema.locks import LockWaits" if waits else ""
    environment = ENVIRONMENT.format(name=name, bounds=bounds, waits=f", LockWaits({waits})" if waits else "")
    (versions.parent / "env.py").write_text(environment)
    for number, what in enumerate(migrations, start=1):
        before = f"'{number - 1:04}'" if number > 1 else None
        mark = f"WORKS_FROM = '{works_from}'\n" if works_from and number == len(migrations) else ""
        (versions / f"{number:04}.py").write_text(
            f"from alembic import op\nrevision = '{number:04}'\ndown_revision = {before}\n{mark}"
            f"def upgrade(): {what.format(name=name)}\n"
        )
    sys.path.insert(0, str(folder))
    try:
        yield package
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(package, None)
