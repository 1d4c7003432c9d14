"""This store deletes what is too old from the delegation service's schema."""

from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime

from sqlalchemy import DateTime, func, select, text

from chassis.database import Sessions, transaction

# Agents' experience goes with its task, by its foreign key. A task that another replica deletes is left to it.
DELETE_TASKS = text(
    """
    WITH old AS (
        SELECT task_id FROM delegation.tasks
        WHERE created_at < now() - make_interval(days => :days)
        ORDER BY created_at LIMIT :most FOR UPDATE SKIP LOCKED
    ), labels AS (
        DELETE FROM delegation.feedback WHERE task_id IN (SELECT task_id FROM old)
    )
    DELETE FROM delegation.tasks WHERE task_id IN (SELECT task_id FROM old)
    """
)
FORGET = (
    text("DELETE FROM delegation.requests WHERE expires_at < now() - make_interval(days => :days)"),
    text(
        "DELETE FROM delegation.categories"
        " WHERE adopted_at IS NULL AND discovered_at < now() - make_interval(days => :days)"
    ),
    # An adopted category stays a dimension, of its name and keywords.
    text(
        "UPDATE delegation.categories SET examples = '{}'"
        " WHERE discovered_at < now() - make_interval(days => :days) AND examples <> '{}'"
    ),
)


class PostgresOldTasks:
    """This store deletes tasks that are too old. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def clock(self) -> datetime:
        """Return the time of the database's clock."""
        async with transaction(self._sessions) as session:
            return (await session.scalars(select(func.clock_timestamp(type_=DateTime(timezone=True))))).one()

    def lock(self) -> AbstractAsyncContextManager[bool]:
        """Lock nothing: replicas may delete at the same time."""
        return nullcontext(True)

    async def delete_older(self, days: int, most: int) -> int:
        """Delete at most `most` tasks older than `days`, with their feedback and experience; return how many."""
        async with transaction(self._sessions) as session:
            connection = await session.connection()
            return (await connection.execute(DELETE_TASKS, {"days": days, "most": most})).rowcount

    async def forget_older(self, days: int) -> None:
        """Delete what is as old and belongs to no task: request identifiers, proposals, and examples of categories."""
        async with transaction(self._sessions) as session:
            for statement in FORGET:
                await session.execute(statement, {"days": days})
