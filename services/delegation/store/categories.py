"""Discovered categories in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Select, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from chassis.database import ERRORS, Sessions, refusal, without_nul
from services.delegation.errors import CategoryNotFound
from services.delegation.service.categories import Category
from services.delegation.store.tables import CategoryRow, TaskRow

TOLD = tuple(name for name in Category.__dataclass_fields__ if name != "adopted")


class PostgresCategories:
    """Categories in the delegation service's schema. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def texts(self, key_name: str, most: int) -> Sequence[str]:
        """The newest tasks of a key, each text once."""
        text = TaskRow.document["question"].astext
        wanted = select(text).where(TaskRow.key_name == key_name).order_by(TaskRow.created_at.desc()).limit(most)
        try:
            async with self._sessions.begin() as session:
                found = (await session.scalars(wanted)).all()
        except ERRORS as error:
            raise refusal(error) from error
        return list(dict.fromkeys(text for text in found if text and text.strip()))

    async def propose(self, key_name: str, categories: Sequence[Category]) -> None:
        """Keep proposals in the place of the key's earlier ones that were not adopted."""
        earlier = delete(CategoryRow).where(CategoryRow.key_name == key_name, CategoryRow.adopted_at.is_(None))
        rows = [{**without_nul(asdict(one)), "key_name": key_name} for one in categories]
        for row in rows:
            del row["adopted"]
        try:
            async with self._sessions.begin() as session:
                await session.execute(earlier)
                if rows:
                    await session.execute(insert(CategoryRow), rows)
        except ERRORS as error:
            raise refusal(error) from error

    async def listed(self, key_name: str, before: str, most: int) -> Sequence[Category]:
        """The key's proposals and everything that was adopted, newest first."""
        visible = or_(CategoryRow.key_name == key_name, CategoryRow.adopted_at.is_not(None))
        place = [CategoryRow.category_id < without_nul(before)] if before else []
        wanted = select(CategoryRow).where(visible, *place).order_by(CategoryRow.category_id.desc()).limit(most)
        return await self._all(wanted)

    async def adopted(self) -> Sequence[Category]:
        """Everything that was adopted, in the order of adoption."""
        wanted = select(CategoryRow).where(CategoryRow.adopted_at.is_not(None))
        return await self._all(wanted.order_by(CategoryRow.adopted_at, CategoryRow.category_id))

    async def adopt(self, key_name: str, category_id: str, name: str) -> Category:
        """Make a category a dimension called `name`, or as it is proposed; again does nothing.

        Raises:
            CategoryNotFound: When there is none for the key.
        """
        named = (CategoryRow.category_id == without_nul(category_id), CategoryRow.key_name == key_name)
        try:
            async with self._sessions.begin() as session:
                row = (await session.scalars(select(CategoryRow).where(*named).with_for_update())).first()
                if row is None:
                    raise CategoryNotFound(f"there is no category {category_id!r}", category_id=category_id)
                if row.adopted_at is None:
                    row.name = name or row.name
                    row.adopted_at = (await session.scalars(select(func.now()))).one()
                return _told(row)
        except ERRORS as error:
            raise refusal(error) from error

    async def _all(self, statement: Select[CategoryRow]) -> Sequence[Category]:
        try:
            async with self._sessions.begin() as session:
                return [_told(row) for row in await session.scalars(statement)]
        except ERRORS as error:
            raise refusal(error) from error


def _told(row: CategoryRow) -> Category:
    return Category(**{name: getattr(row, name) for name in TOLD}, adopted=row.adopted_at is not None)
