"""PostgreSQL: one engine a process, and the migrations of one service's own schema."""

from importlib.resources import files

from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.ext.asyncio import AsyncSession as Session

from chassis.errors import DatabaseUnavailable

POOL = {"pool_size": 8, "max_overflow": 8, "pool_timeout": 2.0, "pool_pre_ping": True, "pool_recycle": 1800}
CONNECT = {"connect_timeout": 3}

# What SQLAlchemy raises when the database is away, or not migrated yet (a table that is missing).
AWAY = (OperationalError, InterfaceError, ProgrammingError, TimeoutError, OSError)

Sessions = async_sessionmaker[Session]


def build_engine(url: str) -> AsyncEngine:
    """Engine with one connection pool; it connects when first used."""
    return create_async_engine(url, connect_args=CONNECT, **POOL)


def build_sessions(engine: AsyncEngine) -> Sessions:
    """Factory of short sessions; one store method, one transaction."""
    return async_sessionmaker(engine, expire_on_commit=False)


def unavailable(error: BaseException) -> DatabaseUnavailable:
    """The refusal that tells that the database is away."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
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
    except AWAY as error:
        raise unavailable(error) from error


def migrate(package: str, url: str) -> None:
    """Bring the schema of `package` (`services.<name>`) to its newest version.

    Replicas may do this at the same time: the migration takes an advisory lock.

    Raises:
        DatabaseUnavailable: When the database cannot be reached.
    """
    config = Config()
    config.set_main_option("script_location", str(files(package) / "migrations"))
    config.attributes["url"] = url
    try:
        command.upgrade(config, "head")
    except AWAY as error:
        raise unavailable(error) from error
