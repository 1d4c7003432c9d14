"""This module migrates the schema of one service; a process that serves does not import it: Alembic takes long."""

from collections.abc import Collection
from importlib.resources import files

from alembic import command, context
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, create_engine, pool, text

from chassis.database import ERRORS, KEEPALIVE, database_error
from chassis.errors import ConfigurationInvalid
from chassis.log import logger
from chassis.schema.locks import LockWaits, migrate_with_locks
from chassis.schema.versions import record_compatible, works_with

_log = logger(__name__)


def migrate(package: str, url: str, revision: str = "head") -> None:
    """Bring the schema of `package` (`services.<name>`) to `revision`, the newest where none is named.

    Replicas may do this at the same time: the migration takes an advisory lock. A schema that a newer version migrated
    stays as it is, if the code of this version works with it.

    Raises:
        DatabaseUnavailable: When the database cannot be reached.
        SchemaLocked: When other transactions hold the locks that the migration needs, for too long.
        ConfigurationInvalid: When another build migrated the schema, and this one does not know its revision.
    """
    config = Config()
    config.set_main_option("script_location", str(files(package) / "migrations"))
    config.attributes["url"] = url
    try:
        command.upgrade(config, revision)
    except ERRORS as error:
        raise database_error(error) from error


def run_migrations(metadata: MetaData, waits: LockWaits = LockWaits()) -> None:  # noqa: B008 - an immutable value
    """Run the pending migrations of the schema that `metadata` names; replicas wait for one another.

    Args:
        metadata: The tables, with their schema.
        waits: The bounds of waiting for locks.

    Raises:
        SchemaLocked: When the locks are not free within the bounds.
        ConfigurationInvalid: When another build migrated the schema, and this one does not work with it.
    """
    url = context.config.attributes["url"]
    engine = create_engine(url, poolclass=pool.NullPool, connect_args=KEEPALIVE)
    migrate_with_locks(engine, metadata.schema or "public", lambda connection: _run(connection, metadata), waits)


def _run(connection: Connection, metadata: MetaData) -> None:
    schema = metadata.schema
    connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    context.configure(
        connection=connection, target_metadata=metadata, version_table_schema=schema, include_schemas=True
    )
    script = ScriptDirectory.from_config(context.config)
    if _is_newer(connection, context.get_context().get_current_heads(), script, schema or "public"):
        return
    with context.begin_transaction():
        context.run_migrations()
    record_compatible(connection, schema or "public", script)


def _is_newer(connection: Connection, applied: Collection[str], script: ScriptDirectory, schema: str) -> bool:
    """Return whether a newer version migrated the schema, which the code of this version works with.

    Raises:
        ConfigurationInvalid: When another build migrated it, and this one does not work with it.
    """
    known = {revision.revision for revision in script.walk_revisions()}
    unknown = ", ".join(sorted(set(applied) - known))
    if unknown and works_with(connection, schema, script, applied):
        _log.warning("a newer version migrated the schema; it stays as it is", schema=schema, revision=unknown)
        return True
    if unknown:
        raise ConfigurationInvalid(
            f"schema {schema} of the database is at revision {unknown}, which this build does not have. "
            "Start the build that migrated it, set METACOG_DATABASE_URL to a new database, or drop the schema with all "
            f'that it holds: DROP SCHEMA "{schema}" CASCADE',
            setting="METACOG_DATABASE_URL",
            revision=unknown,
        )
    return False
