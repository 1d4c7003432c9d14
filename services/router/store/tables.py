"""All tables and stores of the router share their schema and the way of their transactions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase

from chassis.database import ERRORS, Sessions, database_error

SCHEMA = "router"


class RouterTable(DeclarativeBase):
    """All tables of the router have this base."""

    metadata = MetaData(schema=SCHEMA)


@asynccontextmanager
async def transaction(sessions: Sessions) -> AsyncIterator[AsyncSession]:
    """Open one transaction, which ends with the block.

    Raises:
        DatabaseUnavailable: When the database is away.
        StatementRejected: When PostgreSQL will never accept a statement.
    """
    try:
        async with sessions.begin() as session:
            yield session
    except ERRORS as error:
        raise database_error(error) from error
