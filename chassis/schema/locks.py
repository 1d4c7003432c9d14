"""A migration waits for locks in short attempts, so that it does not hold up the traffic that queues behind it.

Statements of a migration need tables for themselves. While one waits for such a lock, every later statement on the
table waits behind it. So an attempt gives up after a short time, the traffic goes on, and the migration is tried again,
for a bounded time. The same holds for the lock by which replicas migrate one after another.
"""

import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from chassis.errors import DatabaseUnavailable
from chassis.log import logger
from kernel.values import value

# The advisory lock that a process holds while it migrates a schema.
LOCK = 0x6D657461

# SQLSTATE of a statement that did not get its lock in time, or that PostgreSQL ended since two waited for each other.
NO_LOCK = frozenset({"55P03", "40P01"})

_log = logger(__name__)


@value
class LockWaits:
    """These are the bounds of a migration's waiting.

    Attributes:
        attempt_s: Time that a statement waits for a lock, and holds up the traffic behind it [s].
        tables_s: Time in which the migration is tried again, from its first failed attempt on [s].
        replicas_s: Time to wait while another process migrates [s].
        first_pause_s: Time before the second attempt [s]; it doubles up to `most_pause_s`.
        most_pause_s: The longest time between two attempts [s].
    """

    attempt_s: float = 2.0
    tables_s: float = 60.0
    replicas_s: float = 300.0
    first_pause_s: float = 0.5
    most_pause_s: float = 8.0


class SchemaLocked(DatabaseUnavailable):
    """A migration did not get the locks that it needs; the schema is as it was."""


def migrate_with_locks(
    engine: Engine,
    schema: str,
    run: Callable[[Connection], None],
    waits: LockWaits = LockWaits(),  # noqa: B008 - an immutable value
) -> None:
    """Call `run` in a transaction that has the advisory lock of migrations; again while it does not get its locks.

    Args:
        engine: Engine of the database.
        schema: Schema that is migrated.
        run: Runs the pending migrations; an attempt that fails leaves no change.
        waits: The bounds of the waiting.

    Raises:
        SchemaLocked: When the locks are not free within the bounds; names who holds them, and what to do.
        SQLAlchemyError: Whatever else goes wrong in `run`.
    """
    began, first_failure = time.monotonic(), None
    pause = waits.first_pause_s
    while True:
        try:
            if _attempt(engine, run, waits.attempt_s):
                return
            problem = f"another process is migrating: {_holders(engine, _ADVISORY) or 'it has just ended'}"
            until = began + waits.replicas_s
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in NO_LOCK:
                raise
            problem = _problem_of(engine, schema, error, waits.attempt_s)
            first_failure = first_failure or time.monotonic()
            until = first_failure + waits.tables_s
        if time.monotonic() + pause > until:
            raise SchemaLocked(
                f"schema {schema} was not migrated: {problem}. Nothing was changed. "
                "End the transaction that holds the lock (SELECT pg_terminate_backend(<process>)), and migrate again",
                schema=schema,
            )
        _log.warning("a migration waits for a lock", schema=schema, problem=problem, again_in_s=pause)
        time.sleep(pause)
        pause = min(2 * pause, waits.most_pause_s)


def _attempt(engine: Engine, run: Callable[[Connection], None], within_s: float) -> bool:
    """Run the migrations; return False where another process holds the advisory lock."""
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {round(within_s * 1000)}"))
        if not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": LOCK}):
            return False
        run(connection)
        return True


# Locks that other processes hold, those of the longest transaction first.
_HELD = """
    SELECT coalesce(n.nspname || '.' || c.relname, 'the advisory lock of migrations') AS what, l.mode, l.pid,
        coalesce(a.state, 'unknown') AS state, extract(epoch FROM clock_timestamp() - a.xact_start) AS age_s
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    LEFT JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE l.granted AND l.pid <> pg_backend_pid()
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_ADVISORY = f"{_HELD} AND l.locktype = 'advisory' AND l.classid = 0 AND l.objid = {LOCK}"
_TABLES = f"{_HELD} AND n.nspname = :schema AND c.relkind IN ('r', 'p') AND position(c.relname in :statement) > 0"
MOST_NAMED = 3


def _problem_of(engine: Engine, schema: str, error: DBAPIError, within_s: float) -> str:
    """Return which statement did not get its lock, and who holds locks on its tables."""
    statement = " ".join((error.statement or "").split())[:200]
    holders = _holders(engine, _TABLES, schema=schema, statement=statement) or "a transaction that has ended since"
    return f"`{statement}` did not get its lock within {within_s:g} s; it is held by {holders}"


def _holders(engine: Engine, query: str, **about: str) -> str:
    """Return who holds locks, for a message; empty when there is none, or the database does not say."""
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(f"{query} ORDER BY a.xact_start LIMIT {MOST_NAMED}"), about).mappings().all()
    except SQLAlchemyError:
        return ""
    return ", ".join(
        f"process {row['pid']} ({row['what']}, {row['mode']}, {row['state']} for {row['age_s'] or 0:.0f} s)"
        for row in rows
    )
