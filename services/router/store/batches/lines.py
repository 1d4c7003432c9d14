"""Lines of batches are claimed by the processes that answer them; every method is one short transaction."""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import Select, and_, case, func, select, tuple_, update
from sqlalchemy.orm import aliased

from chassis.database import Sessions, transaction
from services.router.core.batch_states import BatchStatus
from services.router.service.batches.values import ClaimedLine, KeptResult
from services.router.store.batches.tables import BatchLineRow, BatchRow, FileLineRow

NOW = func.clock_timestamp()
# The same while lines are looked for: an index finds what is not later than a time that stands still.
STILL = func.statement_timestamp()
COUNTED = ("number", "custom_id", "attempts", "failures", "losses")


class PostgresBatchLines:
    """This store keeps lines of batches in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def claim(self, claim: str, lease_s: float) -> ClaimedLine | None:
        """Return a line that is due, or whose lease has run out; no other process gets it while the lease lasts.

        Keys take turns, and the batches of a key. Whose lease has run out counts as lost, unless it was this claim's.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        others = aliased(BatchRow)
        served_key = (
            select(func.max(others.served_at))
            .where(others.key_name == BatchRow.key_name, others.status == BatchStatus.IN_PROGRESS)
            .scalar_subquery()
        )
        has_line = (
            select(BatchLineRow.number)
            .where(BatchLineRow.batch_id == BatchRow.batch_id, ~BatchLineRow.is_done, BatchLineRow.due_at <= STILL)
            .exists()
        )
        choosing = (
            select(BatchRow)
            .where(
                BatchRow.status == BatchStatus.IN_PROGRESS,
                BatchRow.expires_at > NOW,
                has_line,
            )
            .order_by(served_key.asc().nulls_first(), BatchRow.served_at.asc().nulls_first(), BatchRow.batch_id)
            .limit(1)
            .with_for_update(of=BatchRow)
        )
        async with transaction(self._sessions) as session:
            batch = (await session.scalars(choosing)).first()
            if batch is None:
                return None
            batch.served_at = (await session.scalars(select(NOW))).one()
            await session.flush()
            number = (
                select(BatchLineRow.number)
                .where(BatchLineRow.batch_id == batch.batch_id, ~BatchLineRow.is_done, BatchLineRow.due_at <= STILL)
                .order_by(BatchLineRow.due_at, BatchLineRow.number)
                .limit(1)
                .with_for_update(skip_locked=True)
                .cte("due")  # evaluated once, whatever the plan
            )
            claiming = (
                update(BatchLineRow)
                .where(BatchLineRow.batch_id == batch.batch_id, BatchLineRow.number.in_(select(number.c.number)))
                .values(
                    claim=claim,
                    attempts=BatchLineRow.attempts + 1,
                    losses=BatchLineRow.losses + case((BatchLineRow.claim.in_(("", claim)), 0), else_=1),
                    due_at=NOW + timedelta(seconds=lease_s),
                )
                .returning(*(getattr(BatchLineRow, name) for name in COUNTED))
            )
            line = (await session.execute(claiming)).first()
            if line is None:
                return None
            reading = select(FileLineRow.content).where(
                FileLineRow.file_id == batch.input_file_id, FileLineRow.number == line.number
            )
            return ClaimedLine(
                **{name: getattr(line, name) for name in COUNTED},
                batch_id=batch.batch_id,
                key_name=batch.key_name,
                endpoint=batch.endpoint,
                content=(await session.scalars(reading)).first() or b"",
            )

    async def renew(self, claim: str, names: Collection[tuple[str, int]], lease_s: float) -> None:
        """Renew the leases of the lines that a process answers, as batch and number; a further one that it claims ends.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        name = tuple_(BatchLineRow.batch_id, BatchLineRow.number)
        renewing = update(BatchLineRow).where(name.in_(names), BatchLineRow.claim == claim, ~BatchLineRow.is_done)
        async with transaction(self._sessions) as session:
            await session.execute(renewing.values(due_at=NOW + timedelta(seconds=lease_s)))

    async def keep(self, line: ClaimedLine, content: bytes, *, ok: bool) -> KeptResult:
        """Store the result of a line, unless it has one; return what became of it.

        Args:
            line: The line.
            content: The line of the file of results.
            ok: Whether it is a reply, and not an error.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        ending = (
            update(BatchLineRow)
            .where(BatchLineRow.batch_id == line.batch_id, BatchLineRow.number == line.number, ~BatchLineRow.is_done)
            .values(is_done=True, claim="")
            .returning(BatchLineRow.number)
        )
        count = BatchRow.completed_count if ok else BatchRow.failed_count
        left = BatchRow.total_count - BatchRow.completed_count - BatchRow.failed_count
        is_answered = and_(BatchRow.status == BatchStatus.IN_PROGRESS, BatchRow.expires_at > NOW, left > 0)
        counting = (
            update(BatchRow)
            .where(BatchRow.batch_id == line.batch_id)
            .values({count: count + 1})
            .returning(BatchRow.output_file_id if ok else BatchRow.error_file_id, ~is_answered)
        )
        async with transaction(self._sessions) as session:
            await session.execute(_locked(line.batch_id))
            if (await session.scalars(ending)).first() is None:
                return KeptResult(is_stored=False)
            file_id, ends_lines = (await session.execute(counting)).one()
            session.add(FileLineRow(file_id=file_id, number=line.number, content=content))
            return KeptResult(is_stored=True, ends_lines=ends_lines)

    async def release(self, line: ClaimedLine, claim: str, *, pause_s: float, attempts: int, failures: int) -> None:
        """Let a line be answered later.

        Args:
            line: The line.
            claim: The claim of this process.
            pause_s: Time until then [s].
            attempts: Attempts so far that count among those after which a line is given up [count].
            failures: Those in which what it needs failed [count].

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        releasing = (
            update(BatchLineRow)
            .where(
                BatchLineRow.batch_id == line.batch_id,
                BatchLineRow.number == line.number,
                BatchLineRow.claim == claim,
                ~BatchLineRow.is_done,
            )
            .values(claim="", due_at=NOW + timedelta(seconds=pause_s), attempts=attempts, failures=failures, losses=0)
        )
        async with transaction(self._sessions) as session:
            await session.execute(_locked(line.batch_id))
            await session.execute(releasing)


def _locked(batch_id: str) -> Select[str]:
    """Select a batch, and lock it: every transaction locks a batch before its lines."""
    return select(BatchRow.batch_id).where(BatchRow.batch_id == batch_id).with_for_update()
