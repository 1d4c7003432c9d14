"""These use cases discover, list and adopt categories; field names are the contract's."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol

import numpy as np
from pydantic import Field

from chassis.admission import CallerShares
from chassis.ids import new_id
from chassis.log import logger
from chassis.page_tokens import id_in
from chassis.serving.auth import TEACH, ApiKey
from chassis.shared_results import WAIT_S, SharedResults, figure_shares, in_thread
from configuration.dimensions import Dimension, prototypes_of
from inference import Embedder, Prototypes
from kernel.errors import MalformedRequest, MetacogError, TeachingNotAllowed
from kernel.learning.kinds import unit_vectors
from kernel.values import value
from services.delegation.core.categories import EXAMPLES, DiscoveredCategory, Vectors, discovered
from services.delegation.service.profiles import PageSize


@value
class Category:
    """A category is a kind of task that was discovered among the tasks themselves."""

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
    """This request discovers categories."""

    tasks: Annotated[int, Field(ge=20, le=2000)] = 1000
    minimum_tasks: Annotated[int, Field(ge=3, le=2000)] = 8


@value
class DiscoverCategoriesResponse:
    """This response holds the categories that were discovered."""

    categories: Sequence[Category]
    tasks: int


@value
class ListCategoriesRequest:
    """This request asks for a page of categories."""

    page_size: PageSize = 100
    page_token: str = ""


@value
class ListCategoriesResponse:
    """This response is a page of categories."""

    categories: Sequence[Category]
    next_page_token: str


@value
class AdoptCategoryRequest:
    """This request makes a category a dimension."""

    category_id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,128}$")] = ""


@value
class AdoptCategoryResponse:
    """This response holds the category that was adopted."""

    category: Category


@value
class PrototypeVector:
    """A prototype vector is an example of a dimension, as the encoder reads it; never its text."""

    vector: Sequence[float]


@value
class DimensionInForce:
    """A dimension in force is configured, or an adopted category."""

    dimension: str
    adopted: bool
    prototypes: Sequence[PrototypeVector]


@value
class ListDimensionsRequest:
    """This request asks for the dimensions in force."""


@value
class ListDimensionsResponse:
    """This response holds the dimensions in force, with the encoder that their vectors are of."""

    dimensions: Sequence[DimensionInForce]
    encoder: str


EMBED_TIMEOUT_S = 60.0
# Dimensions with their vectors in one reply at most [count]; the earliest adopted of them come first.
MOST_DIMENSIONS = 200
# Time after which a category that another replica adopted is read here [s].
REFRESH_S = 30.0
MAX_EXAMPLE_CHARACTERS = 1_000
NO_VECTORS = np.zeros((0, 0), dtype=np.float64)

_log = logger(__name__)


class CategoryStore(Protocol):
    """This store holds categories. Every method may raise `DatabaseUnavailable`."""

    async def texts(self, key_name: str, limit: int) -> Sequence[str]:
        """Return the newest questions of a key, each text once."""

    async def propose(self, key_name: str, categories: Sequence[Category]) -> None:
        """Store proposals in place of the key's earlier ones that were not adopted."""

    async def listed(self, key_name: str, before: str, limit: int) -> Sequence[Category]:
        """Return the key's proposals and all adopted categories, newest first, from the one after `before` on.

        Those of other keys come without their words.
        """

    async def adopted(self) -> Sequence[Category]:
        """Return all adopted categories, in the order of adoption."""

    async def adopt(self, key_name: str, category_id: str, name: str) -> Category:
        """Make a category a dimension called `name`, or by its proposed name; repeating it changes nothing.

        Raises:
            CategoryNotFound: When there is no such category for the key.
        """


class Categories:
    """This object serves the use cases about categories and holds the dimensions in force: configured and adopted ones.

    Args:
        store: The store of categories.
        embedder: The sentence encoder.
        configured: The configured dimensions.
        shares: Bounds how many discoveries and other figures of a caller are computed at a time.
        keep_contents: Whether questions are stored; if not, none is discovered, since examples are questions.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        store: CategoryStore,
        embedder: Embedder,
        configured: Sequence[Dimension],
        *,
        shares: CallerShares | None = None,
        keep_contents: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shares = shares or figure_shares()
        self._keeps = keep_contents
        self._in_force: SharedResults[str, ListDimensionsResponse] = SharedResults(self._shares, factor=0.0)
        self._store = store
        self._embedder = embedder
        self._prototypes = Prototypes(embedder)
        self._configured = tuple(configured)
        self._adopted: tuple[Dimension, ...] = ()
        self._clock = clock
        self._read_at = float("-inf")

    def dimensions(self) -> Sequence[Dimension]:
        """Return the dimensions in force, as last read."""
        return (*self._configured, *self._adopted)

    async def refresh(self) -> None:
        """Read the adopted categories, unless that was done a short while ago; without the database nothing changes."""
        if self._clock() - self._read_at < REFRESH_S:
            return
        self._read_at = self._clock()
        try:
            self._adopted = self._as_dimensions(await self._store.adopted())
        except MetacogError as error:
            _log.warning("adopted categories could not be read", problem=error.message)

    async def discover(self, request: DiscoverCategoriesRequest, *, key: ApiKey) -> DiscoverCategoriesResponse:
        """Discover categories among the newest tasks of the key, and propose them.

        Raises:
            Overloaded: When as many figures are computed for the caller as may be.
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
            DatabaseUnavailable: When the database cannot be reached.
        """
        async with self._shares.place(WAIT_S):
            return await self._discovered(request, key)

    async def _discovered(self, request: DiscoverCategoriesRequest, key: ApiKey) -> DiscoverCategoriesResponse:
        texts = await self._store.texts(key.name, request.tasks) if self._keeps else ()
        if len(texts) < request.minimum_tasks:
            await self._store.propose(key.name, [])
            return DiscoverCategoriesResponse(categories=[], tasks=len(texts))
        vectors = unit_vectors((await self._embedder.embed(texts, timeout_s=EMBED_TIMEOUT_S)).vectors)
        found = await in_thread(discovered, texts, vectors, minimum=request.minimum_tasks)
        centroids = await self._centroids()
        proposals = [self._proposal(each, texts, centroids) for each in found]
        await self._store.propose(key.name, proposals)
        return DiscoverCategoriesResponse(categories=proposals, tasks=len(texts))

    async def page(self, request: ListCategoriesRequest, *, key: ApiKey) -> ListCategoriesResponse:
        """Return a page of the key's proposals and all adopted categories, newest first; without words of other keys.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            DatabaseUnavailable: When the database cannot be reached.
        """
        before = id_in(request.page_token) if request.page_token else ""
        found = await self._store.listed(key.name, before, request.page_size + 1)
        shown = found[: request.page_size]
        token = shown[-1].category_id if len(found) > request.page_size else ""
        return ListCategoriesResponse(categories=shown, next_page_token=token)

    async def in_force(self, _request: ListDimensionsRequest) -> ListDimensionsResponse:
        """Return the dimensions in force with the vectors of their prototypes: those configured, then those adopted.

        Of an adopted category no text is returned, since its examples are tasks of one key.

        Raises:
            Overloaded: When as many figures are computed for the caller as may be.
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
        """
        return await self._in_force.get("", self._dimensions_in_force)

    async def _dimensions_in_force(self) -> ListDimensionsResponse:
        await self.refresh()
        known = self.dimensions()[:MOST_DIMENSIONS]
        vectors = await self._prototypes.current(prototypes_of(known), timeout_s=EMBED_TIMEOUT_S)
        configured = {each.id for each in self._configured}
        listed = [
            DimensionInForce(
                dimension=each.id,
                adopted=each.id not in configured,
                prototypes=[PrototypeVector(vector=row) for row in vectors.by_kind.get(each.id, NO_VECTORS).tolist()],
            )
            for each in known
        ]
        return ListDimensionsResponse(
            dimensions=listed, encoder="" if vectors.encoder is None else vectors.encoder.name
        )

    async def adopt(self, request: AdoptCategoryRequest, *, key: ApiKey) -> AdoptCategoryResponse:
        """Make a category a dimension.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            MalformedRequest: For a name that a configured dimension has.
            CategoryNotFound: When there is no such category for the key.
            DatabaseUnavailable: When the database cannot be reached.
        """
        if not key.may(TEACH):
            raise TeachingNotAllowed("this key may not change what was learned", key=key.name)
        if request.name in [each.id for each in self._configured]:
            raise MalformedRequest(f"name: {request.name!r} is a configured dimension already", field="name")
        adopted = await self._store.adopt(key.name, request.category_id, request.name)
        self._adopted = self._as_dimensions(await self._store.adopted())
        return AdoptCategoryResponse(category=adopted)

    def _as_dimensions(self, adopted: Sequence[Category]) -> tuple[Dimension, ...]:
        known = {each.id for each in self._configured}
        dimensions = {each.name: _as_dimension(each) for each in adopted if each.name not in known}
        return tuple(dimensions.values())

    async def _centroids(self) -> dict[str, Vectors]:
        """Return the centroid of each dimension's prototypes, of length 1."""
        with_prototypes = [each for each in self.dimensions() if each.prototypes]
        if not with_prototypes:
            return {}
        texts = [text for each in with_prototypes for text in each.prototypes]
        vectors = unit_vectors((await self._embedder.embed(texts, timeout_s=EMBED_TIMEOUT_S)).vectors)
        centroids: dict[str, Vectors] = {}
        start = 0
        for each in with_prototypes:
            own = vectors[start : start + len(each.prototypes)]
            centroids[each.id] = unit_vectors(own.mean(axis=0, keepdims=True))[0]
            start += len(each.prototypes)
        return centroids

    def _proposal(self, found: DiscoveredCategory, texts: Sequence[str], centroids: dict[str, Vectors]) -> Category:
        similarities = {name: float(centroid @ np.asarray(found.centroid)) for name, centroid in centroids.items()}
        nearest = max(similarities, key=lambda name: similarities[name], default="")
        return Category(
            category_id=new_id(),
            name=found.name,
            keywords=found.keywords,
            examples=[texts[index][:MAX_EXAMPLE_CHARACTERS] for index in found.members[:EXAMPLES]],
            tasks=len(found.members),
            cohesion=found.cohesion,
            nearest_dimension=nearest,
            nearest_similarity=round(similarities[nearest], 9) if nearest else None,
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
