"""This module connects to PostgreSQL, and migrates the schema of one service."""

from collections.abc import Collection
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from alembic import command, context
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, create_engine, pool, text
from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.ext.asyncio import AsyncSession as Session

from chassis.errors import ConfigurationInvalid, DatabaseUnavailable
from chassis.log import logger
from chassis.schema.locks import LockWaits, migrate_with_locks
from chassis.schema.versions import record_compatible, works_with
from kernel.errors import Code, MetacogError

POOL = {"pool_size": 8, "max_overflow": 8, "pool_timeout": 2.0, "pool_pre_ping": True, "pool_recycle": 1800}
CONNECT = {"connect_timeout": 3}

# Errors that using the database may raise; `database_error` returns the named error for them.
ERRORS = (SQLAlchemyError, OSError, TimeoutError)

# Classes of SQLSTATE for a statement whose data can never be stored: data, integrity, size. Every other state is
# temporary: no connection, a failover, a schema that is not migrated yet, a permission still to be granted.
REJECTED_STATES = ("22", "23", "54")

Sessions = async_sessionmaker[Session]

_log = logger(__name__)


def build_engine(url: str) -> AsyncEngine:
    """Return an engine with one connection pool; it connects when first used."""
    return create_async_engine(url, connect_args=CONNECT, hide_parameters=True, **POOL)


def build_sessions(engine: AsyncEngine) -> Sessions:
    """Return a factory of short sessions; one store method, one transaction."""
    return async_sessionmaker(engine, expire_on_commit=False)


class StatementRejected(MetacogError):
    """PostgreSQL rejects a statement, now and later."""

    code = Code.INTERNAL
    reason = "INTERNAL"

    def __init__(self, state: str) -> None:
        super().__init__(f"the database rejected a statement (SQLSTATE {state})", state=state)
        self.state = state


def database_error(error: BaseException) -> DatabaseUnavailable | StatementRejected:
    """Return the named error for one of `ERRORS`: unreachable for now, or a statement that can never succeed."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    state = getattr(cause, "sqlstate", None)
    if isinstance(error, DataError) or (state or "").startswith(REJECTED_STATES):
        return StatementRejected(state or "22000")
    first_line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
    return DatabaseUnavailable(f"the database cannot be reached: {first_line}")


async def check(engine: AsyncEngine) -> None:
    """Return if the database answers.

    Raises:
        DatabaseUnavailable: When it does not.
    """
    try:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except ERRORS as error:
        raise database_error(error) from error


def migrate(package: str, url: str) -> None:
    """Bring the schema of `package` (`services.<name>`) to its newest version.

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
        command.upgrade(config, "head")
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
    engine = create_engine(url, poolclass=pool.NullPool, connect_args={"connect_timeout": 3})
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


def without_nul(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    """Return `item` without the one character that PostgreSQL cannot store."""
    if isinstance(item, str):
        return item.replace("\x00", "")
    if isinstance(item, dict):
        return {key: without_nul(part) for key, part in item.items()}
    return [without_nul(part) for part in item] if isinstance(item, list | tuple) else item


def utc(time: datetime) -> datetime:
    """Return `time` with its zone; one that names none is read as UTC, in both APIs."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)
