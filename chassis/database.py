"""This module connects to PostgreSQL.

A server that hangs is worse than one that is away: nothing ends by itself. So every wait for the server has a limit, on
this side (`BoundedConnection`), since a server that is stopped keeps no limit of its own; so has every transaction. A
connection whose limit was reached, or whose task was cancelled, is closed at once, and the server ends its statement.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, OperationalError
from psycopg.abc import RV, PQGen
from psycopg.waiting import wait_async
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.ext.asyncio import AsyncSession as Session

from chassis.admission import CallerShares
from chassis.clock import LEAST_S, seconds_within_request
from chassis.errors import DatabaseUnavailable
from chassis.log import logger
from kernel.errors import Code, MetacogError

# Time that one transaction may take, and in it a wait for the server [s].
CALL_WITHIN_S = 5.0
# The same of what must not be lost for a busy moment: the result of a task [s].
RECORD_WITHIN_S = 15.0
# The same of background work, which no caller waits for, and of uploads [s].
BACKGROUND_WITHIN_S = 60.0
# Calls of one API key that may wait for a connection [count].
WAITING_CALLS = 64
# Time that a rollback may take, however little is left of its request: without it the connection is lost [s].
ROLLBACK_WITHIN_S = 0.5
# Time to wait for a free connection [s].
POOL_TIMEOUT_S = 5.0
# Connections of a pool [count].
CONNECTIONS = 16

# Limits that the server keeps [ms]: the longest statement, the longest wait for a lock, the longest pause inside of a
# transaction; and how often it looks whether the client of a running statement is still there.
SERVER_LIMITS = {
    "statement_timeout": 60_000,
    "lock_timeout": 3_000,
    "idle_in_transaction_session_timeout": 30_000,
    "client_connection_check_interval": 1_000,
}
# A server that can no longer be reached, e.g. by a partition of the network, is noticed after about 15 s.
KEEPALIVE = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

# Until when the transaction may wait for the server [s, monotonic clock]; None: `CALL_WITHIN_S` for each wait.
_wait_until: ContextVar[float | None] = ContextVar("database_wait_until", default=None)

# Errors that using the database may raise; `database_error` returns the named error for them.
ERRORS = (SQLAlchemyError, OSError, TimeoutError)

# Classes of SQLSTATE for a statement whose data can never be stored: data, integrity, size. Every other state is
# temporary: no connection, a failover, a schema that is not migrated yet, a permission still to be granted.
REJECTED_STATES = ("22", "23", "54")


class Sessions:
    """These sessions are short: one store method, one transaction.

    Args:
        engine: Where they connect.
        shares: Bounds how many a caller has at a time; None: nothing does, for what is recorded and for workers.
        within_s: Time that a transaction may take, and every wait in it [s]; None bounds the waits alone, for a lock
            that is held during other work.
        wait_s: Time that a call may wait for a place of its caller [s]; None: as long as a transaction may take.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        shares: CallerShares | None = None,
        *,
        within_s: float | None = CALL_WITHIN_S,
        wait_s: float | None = None,
    ) -> None:
        self._engine = engine
        self._make = async_sessionmaker(engine, expire_on_commit=False)
        self._shares = shares
        self._wait_s = wait_s
        self.within_s = within_s

    def within(self, within_s: float | None) -> "Sessions":
        """Return the same sessions with another limit [s]."""
        return Sessions(self._engine, self._shares, within_s=within_s, wait_s=self._wait_s)

    def begin(self) -> AbstractAsyncContextManager[Session]:
        """Open a transaction, which ends with the block."""
        return self._make.begin()

    def share(self) -> AbstractAsyncContextManager[None]:
        """Hold a place of the caller; entering raises `Overloaded` when none is free in time."""
        if self._shares is None:
            return nullcontext()
        return self._shares.place(_within_request(self.within_s if self._wait_s is None else self._wait_s))


_log = logger(__name__)


class BoundedConnection(AsyncConnection[Any]):
    """This connection waits for its server no longer than the transaction may; then it is closed."""

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server as psycopg does, within the limit.

        Raises:
            OperationalError: When the limit is reached.
        """
        until = _wait_until.get()
        limit_s = CALL_WITHIN_S if until is None else max(LEAST_S, until - time.monotonic())
        limit_s = limit_s if timeout is None else min(limit_s, timeout)
        try:
            async with asyncio.timeout(limit_s):
                return await wait_async(gen, self.pgconn.socket, interval=interval)
        except TimeoutError:
            self.pgconn.finish()
            raise OperationalError(f"no answer within {limit_s:.3g} s") from None
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise

    async def rollback(self) -> None:
        """Roll back within `ROLLBACK_WITHIN_S`: also where the time of the transaction is over.

        Raises:
            OperationalError: When that is reached.
        """
        token = _wait_until.set(time.monotonic() + ROLLBACK_WITHIN_S)
        try:
            await super().rollback()
        finally:
            _wait_until.reset(token)


def build_engine(url: str, *, connections: int = CONNECTIONS) -> AsyncEngine:
    """Return an engine with one connection pool; it connects when first used.

    Args:
        url: SQLAlchemy URL of the database.
        connections: Connections at most [count, >= 1]; half of them are kept while nothing needs them.
    """
    own = make_url(url).query.get("options", "")
    given = [own] if isinstance(own, str) else own
    limits = [f"-c {name}={limit}" for name, limit in SERVER_LIMITS.items()]
    return create_async_engine(
        url,
        connect_args={
            **KEEPALIVE,
            "options": " ".join([*limits, *given]).strip(),
            "async_creator_fn": BoundedConnection.connect,
        },
        hide_parameters=True,
        pool_size=(connections + 1) // 2,
        max_overflow=connections // 2,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
        pool_recycle=1800,
    )


def build_sessions(
    engine: AsyncEngine,
    *,
    per_caller: int = 0,
    waiting: int = WAITING_CALLS,
    wait_s: float | None = None,
    within_s: float = CALL_WITHIN_S,
) -> Sessions:
    """Return a factory of short sessions: one store method, one transaction.

    Args:
        engine: Where they connect.
        per_caller: Transactions that one API key has at a time; further ones wait, and then are rejected [count]; 0:
            no limit, for what is recorded and for background work.
        waiting: Those of one API key that may wait [count].
        wait_s: Time that they may wait [s]; None: as long as a transaction may take.
        within_s: Time that a transaction may take [s].
    """
    if not per_caller:
        return Sessions(engine, within_s=within_s)
    shares = CallerShares("database calls", places=per_caller, waiting=waiting)
    return Sessions(engine, shares, within_s=within_s, wait_s=wait_s)


@asynccontextmanager
async def transaction(sessions: Sessions) -> AsyncIterator[Session]:
    """Open one transaction, which ends with the block.

    Args:
        sessions: Where it is opened, with its limit; on behalf of a request with a deadline it ends at that, or a
            little later.

    Raises:
        DatabaseUnavailable: When the database is away, or does not answer in time.
        Overloaded: When the caller has as many transactions as it may.
        StatementRejected: When PostgreSQL will never accept a statement.
    """
    async with sessions.share(), _waiting(_within_request(sessions.within_s)), sessions.begin() as session:
        yield session


def _within_request(at_most_s: float | None) -> float | None:
    return None if at_most_s is None else seconds_within_request(at_most_s)


@asynccontextmanager
async def _waiting(limit_s: float | None) -> AsyncIterator[None]:
    """Bound all waits for the server together, also those that SQLAlchemy finishes whatever is cancelled: a COMMIT."""
    token = _wait_until.set(None if limit_s is None else time.monotonic() + limit_s)
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise DatabaseUnavailable(f"the database does not answer within {limit_s:.3g} s") from error
    except ERRORS as error:
        raise database_error(error) from error
    finally:
        _wait_until.reset(token)


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
        async with asyncio.timeout(CALL_WITHIN_S), engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except ERRORS as error:
        raise database_error(error) from error


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
