"""Requests and results about discovered categories; field names are the contract's."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from kernel.values import value
from services.delegation.service.profile_values import PageSize


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
