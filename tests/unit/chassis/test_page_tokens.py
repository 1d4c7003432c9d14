"""Page tokens are read only by the service that made them."""

import pytest

from chassis.ids import new_id
from chassis.page_tokens import (
    InvalidPageToken,
    checked_page_size,
    id_in,
    number_in,
    page,
    parts_of,
    time_in,
    token_of,
)
from kernel.errors import MalformedRequest


@pytest.mark.parametrize(
    "token", ["nonsense", "é", "\x00", "====", "W10", "eyJhIjoxfQ", token_of("a"), token_of("a", "b", "c")]
)
def test_a_token_that_the_service_did_not_give_is_rejected(token: str) -> None:
    with pytest.raises(InvalidPageToken) as rejected:
        parts_of(token, 2)

    assert rejected.value.metadata == {"field": "page_token"}
    assert rejected.value.reason == "INVALID_PAGE_TOKEN"


def test_a_token_never_holds_what_postgresql_cannot_compare() -> None:
    with pytest.raises(InvalidPageToken):
        parts_of(token_of("a\x00b"), 1)


@pytest.mark.parametrize("part", ["", "-1", "1.5", "²", "9" * 19, "one"])
def test_a_part_that_is_no_number_is_rejected(part: str) -> None:
    with pytest.raises(InvalidPageToken):
        number_in(part, "token")


def test_a_part_that_is_no_time_is_rejected() -> None:
    with pytest.raises(InvalidPageToken):
        time_in("yesterday", "token")


def test_an_identifier_can_be_a_token() -> None:
    name = new_id()

    assert id_in(name) == name
    for token in (name[:-1], name + "0", "\x00" * 36):
        with pytest.raises(InvalidPageToken):
            id_in(token)


def test_pages_hold_every_item_once() -> None:
    items = [(agent, dimension) for agent in ("alpha", "beta", "gamma") for dimension in ("code", "math")]
    seen: list[tuple[str, str]] = []
    token = ""
    while True:
        shown, token = page(items, lambda item: item, token, 4, parts=2)
        seen += shown
        if not token:
            break

    assert seen == items


@pytest.mark.parametrize("size", [0, -1, 201])
def test_a_page_size_out_of_range_is_rejected(size: int) -> None:
    with pytest.raises(MalformedRequest, match=r"page_size is -?\d+; it must lie in 1..200"):
        checked_page_size(size)


def test_a_page_size_in_range_is_taken() -> None:
    assert (checked_page_size(1), checked_page_size(200), checked_page_size(500, most=1000)) == (1, 200, 500)
