"""Requests and results about discovered categories; field names are the contract's."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from chassis.ids import new_id
from chassis.log import logger
from chassis.page_tokens import InvalidPageToken
from chassis.serving.auth import ApiKey, TeachingNotAllowed
from kernel.errors import MalformedRequest, MetacogError
from kernel.values import value
from services.delegation.core.categories import EXAMPLES, DiscoveredCategory, Vectors, discovered
from services.delegation.service.dimensions import Dimension, Embedder
from services.delegation.service.profiles import PageSize


@value
class Category:
    """A kind of task that was discovered among the tasks themselves."""

    category_id: str
    name: str
    keywords: Sequence[str]
    examples: Sequence[str]
    tasks: int
    cohesion: float
    nearest_dimension: str
    nearest_similarity: float | None
    adopted: bool
    discovered_at: datetime


@value
class DiscoverCategoriesRequest:
    """Asks for categories to be looked for."""

    tasks: Annotated[int, Field(ge=20, le=2000)] = 1000
    minimum_tasks: Annotated[int, Field(ge=3, le=2000)] = 8


@value
class DiscoverCategoriesResponse:
    """What was discovered."""

    categories: Sequence[Category]
    tasks: int


@value
class ListCategoriesRequest:
    """Asks for categories."""

    page_size: PageSize = 100
    page_token: str = ""


@value
class ListCategoriesResponse:
    """A page of categories."""

    categories: Sequence[Category]
    next_page_token: str


@value
class AdoptCategoryRequest:
    """Asks for a category to become a dimension."""

    category_id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,128}$")] = ""


@value
class AdoptCategoryResponse:
    """What was adopted."""

    category: Category


EMBED_S = 60.0
# What was adopted at another replica is known here after this time [s].
KNOWN_WITHIN_S = 30.0
MAX_EXAMPLE = 1_000

_log = logger(__name__)


class CategoryStore(Protocol):
    """Where categories are. Every method may raise `DatabaseUnavailable`."""

    async def texts(self, key_name: str, most: int) -> Sequence[str]:
        """The newest tasks of a key, each text once."""

    async def propose(self, key_name: str, categories: Sequence[Category]) -> None:
        """Keep proposals in the place of the key's earlier ones that were not adopted."""

    async def listed(self, key_name: str, before: str, most: int) -> Sequence[Category]:
        """The key's proposals and everything that was adopted, newest first."""

    async def adopted(self) -> Sequence[Category]:
        """Everything that was adopted, in the order of adoption."""

    async def adopt(self, key_name: str, category_id: str, name: str) -> Category:
        """Make a category a dimension called `name`, or as it is proposed; again does nothing.

        Raises:
            CategoryNotFound: When there is none for the key.
        """


class Categories:
    """The use cases about categories, and the dimensions in force: the configured ones and those adopted.

    Args:
        store: Where categories are.
        embedder: The sentence encoder.
        configured: The configured dimensions.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        store: CategoryStore,
        embedder: Embedder,
        configured: Sequence[Dimension],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._configured = tuple(configured)
        self._adopted: tuple[Dimension, ...] = ()
        self._clock = clock
        self._read_at = float("-inf")

    def dimensions(self) -> Sequence[Dimension]:
        """The dimensions in force, as last read."""
        return (*self._configured, *self._adopted)

    async def refresh(self) -> None:
        """Read what was adopted, unless that was done a short while ago; a store that is away changes nothing."""
        if self._clock() - self._read_at < KNOWN_WITHIN_S:
            return
        self._read_at = self._clock()
        try:
            self._adopted = self._as_dimensions(await self._store.adopted())
        except MetacogError as away:
            _log.warning("adopted categories could not be read", problem=away.message)

    async def discover(self, ask: DiscoverCategoriesRequest, *, key: ApiKey) -> DiscoverCategoriesResponse:
        """Look for categories among the newest tasks of the key, and propose them.

        Raises:
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
            DatabaseUnavailable: When the database is away.
        """
        texts = await self._store.texts(key.name, ask.tasks)
        if len(texts) < ask.minimum_tasks:
            await self._store.propose(key.name, [])
            return DiscoverCategoriesResponse(categories=[], tasks=len(texts))
        vectors = _unit((await self._embedder.embed(texts, timeout_s=EMBED_S)).vectors)
        found = await asyncio.to_thread(discovered, texts, vectors, least=ask.minimum_tasks)
        middles = await self._middles()
        proposals = [self._proposal(one, texts, middles) for one in found]
        await self._store.propose(key.name, proposals)
        return DiscoverCategoriesResponse(categories=proposals, tasks=len(texts))

    async def page(self, ask: ListCategoriesRequest, *, key: ApiKey) -> ListCategoriesResponse:
        """The key's proposals and everything that was adopted, newest first.

        Raises:
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        if ask.page_token and len(ask.page_token) != 36:
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        found = await self._store.listed(key.name, ask.page_token, ask.page_size + 1)
        shown = found[: ask.page_size]
        token = shown[-1].category_id if len(found) > ask.page_size else ""
        return ListCategoriesResponse(categories=shown, next_page_token=token)

    async def adopt(self, ask: AdoptCategoryRequest, *, key: ApiKey) -> AdoptCategoryResponse:
        """Make a category a dimension.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            MalformedRequest: For a name that a configured dimension has.
            CategoryNotFound: When there is no such category for the key.
            DatabaseUnavailable: When the database is away.
        """
        if not key.may_teach:
            raise TeachingNotAllowed("this key may not change what was learned", key=key.name)
        if ask.name in [one.id for one in self._configured]:
            raise MalformedRequest(f"name: {ask.name!r} is a configured dimension already", field="name")
        adopted = await self._store.adopt(key.name, ask.category_id, ask.name)
        self._adopted = self._as_dimensions(await self._store.adopted())
        return AdoptCategoryResponse(category=adopted)

    def _as_dimensions(self, adopted: Sequence[Category]) -> tuple[Dimension, ...]:
        known = {one.id for one in self._configured}
        made = {one.name: _as_dimension(one) for one in adopted if one.name not in known}
        return tuple(made.values())

    async def _middles(self) -> dict[str, Vectors]:
        """Middle of each dimension's prototypes."""
        with_prototypes = [one for one in self.dimensions() if one.prototypes]
        if not with_prototypes:
            return {}
        texts = [text for one in with_prototypes for text in one.prototypes]
        vectors, made, at = _unit((await self._embedder.embed(texts, timeout_s=EMBED_S)).vectors), {}, 0
        for one in with_prototypes:
            made[one.id] = _unit(vectors[at : at + len(one.prototypes)].mean(axis=0, keepdims=True))[0]
            at += len(one.prototypes)
        return made

    def _proposal(self, found: DiscoveredCategory, texts: Sequence[str], middles: dict[str, Vectors]) -> Category:
        nearness = {name: float(middle @ np.asarray(found.middle)) for name, middle in middles.items()}
        nearest = max(nearness, key=lambda name: nearness[name], default="")
        return Category(
            category_id=new_id(),
            name=found.name,
            keywords=found.keywords,
            examples=[texts[place][:MAX_EXAMPLE] for place in found.members[:EXAMPLES]],
            tasks=len(found.members),
            cohesion=found.cohesion,
            nearest_dimension=nearest,
            nearest_similarity=round(nearness[nearest], 9) if nearest else None,
            adopted=False,
            discovered_at=datetime.now(UTC),
        )


def _as_dimension(category: Category) -> Dimension:
    return Dimension(
        id=category.name,
        description=f"tasks about {', '.join(category.keywords)}",
        prototypes=[text for text in category.examples if text.strip()],
        keywords=list(category.keywords),
    )


def _unit(vectors: npt.ArrayLike) -> Vectors:
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    made: Vectors = rows / np.where(lengths > 0, lengths, 1.0)
    return made
