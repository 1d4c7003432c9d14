"""A schema names the versions whose code works with it, so that an earlier version can run on a later one's schema.

A migration that adds (a column that may be null or has a default, a table, an index) works with all earlier code. One
that removes what earlier code uses states in `WORKS_FROM` the oldest revision whose code works with it.
"""

from collections.abc import Collection, Sequence

from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

PREFIX = "metacog: works with the code of "


def compatible(script: ScriptDirectory) -> Sequence[str]:
    """Return the revisions whose code works with the newest schema, that one first."""
    revisions: list[str] = []
    works_from = ""
    for revision in script.walk_revisions():
        revisions.append(revision.revision)
        works_from = works_from or getattr(revision.module, "WORKS_FROM", "")
        if revision.revision == works_from:
            break
    return revisions


def record_compatible(connection: Connection, schema: str, script: ScriptDirectory) -> None:
    """Store in the comment of the table of revisions which revisions' code works with the schema as it is now."""
    comment = PREFIX + " ".join(compatible(script))
    if _comment(connection, schema) != comment:
        connection.execute(text(f"COMMENT ON TABLE \"{schema}\".alembic_version IS '{comment}'"))


def works_with(connection: Connection, schema: str, script: ScriptDirectory, applied: Collection[str]) -> bool:
    """Return whether the code of this version works with a schema that another version migrated.

    Args:
        connection: A connection to the database.
        schema: The schema.
        script: The migrations of this version.
        applied: The revision of the schema.
    """
    newest, *earlier = _comment(connection, schema).removeprefix(PREFIX).split() or [""]
    return newest in applied and script.get_current_head() in earlier


def _comment(connection: Connection, schema: str) -> str:
    query = text("SELECT coalesce(obj_description(to_regclass(:table), 'pg_class'), '')")
    return str(connection.scalar(query, {"table": f'"{schema}".alembic_version'}))
