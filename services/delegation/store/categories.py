"""This store keeps discovered categories in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import Select, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from chassis.database import Sessions, transaction, without_nul
from services.delegation.errors import CategoryNotFound
from services.delegation.service.categories import Category
from services.delegation.store.tables import CategoryRow, TaskRow

FIELDS = tuple(name for name in Category.__dataclass_fields__ if name != "adopted")


class PostgresCategories:
    """This store keeps categories in the delegation service's schema. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def texts(self, key_name: str, limit: int) -> Sequence[str]:
        """Return the newest questions of a key, each text once."""
        text = TaskRow.document["question"].astext
        wanted = select(text).where(TaskRow.key_name == key_name).order_by(TaskRow.created_at.desc()).limit(limit)
        async with transaction(self._sessions) as session:
            found = (await session.scalars(wanted)).all()
        return list(dict.fromkeys(text for text in found if text and text.strip()))

    async def propose(self, key_name: str, categories: Sequence[Category]) -> None:
        """Store proposals in place of the key's earlier ones that were not adopted."""
        earlier = delete(CategoryRow).where(CategoryRow.key_name == key_name, CategoryRow.adopted_at.is_(None))
        rows = [{**without_nul(asdict(each)), "key_name": key_name} for each in categories]
        for row in rows:
            del row["adopted"]
        async with transaction(self._sessions) as session:
            await session.execute(earlier)
            if rows:
                await session.execute(insert(CategoryRow), rows)

    async def listed(self, key_name: str, before: str, limit: int) -> Sequence[Category]:
        """Return the key's proposals and all adopted categories, newest first, from the one after `before` on.

        Those of other keys come without their words: examples and keywords are of tasks of those keys.
        """
        visible = or_(CategoryRow.key_name == key_name, CategoryRow.adopted_at.is_not(None))
        following = [CategoryRow.category_id < without_nul(before)] if before else []
        wanted = select(CategoryRow).where(visible, *following).order_by(CategoryRow.category_id.desc()).limit(limit)
        async with transaction(self._sessions) as session:
            return [
                _category(row) if row.key_name == key_name else replace(_category(row), keywords=(), examples=())
                for row in await session.scalars(wanted)
            ]

    async def adopted(self) -> Sequence[Category]:
        """Return all adopted categories, in the order of adoption."""
        wanted = select(CategoryRow).where(CategoryRow.adopted_at.is_not(None))
        return await self._all(wanted.order_by(CategoryRow.adopted_at, CategoryRow.category_id))

    async def adopt(self, key_name: str, category_id: str, name: str) -> Category:
        """Make a category a dimension called `name`, or by its proposed name; repeating it changes nothing.

        Raises:
            CategoryNotFound: When there is no such category for the key.
        """
        named = (CategoryRow.category_id == without_nul(category_id), CategoryRow.key_name == key_name)
        async with transaction(self._sessions) as session:
            row = (await session.scalars(select(CategoryRow).where(*named).with_for_update())).first()
            if row is None:
                raise CategoryNotFound(f"there is no category {category_id!r}", category_id=category_id)
            if row.adopted_at is None:
                row.name = name or row.name
                row.adopted_at = (await session.scalars(select(func.now()))).one()
            return _category(row)

    async def _all(self, statement: Select[CategoryRow]) -> Sequence[Category]:
        async with transaction(self._sessions) as session:
            return [_category(row) for row in await session.scalars(statement)]


def _category(row: CategoryRow) -> Category:
    return Category(**{name: getattr(row, name) for name in FIELDS}, adopted=row.adopted_at is not None)
