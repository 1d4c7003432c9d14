"""The knowledge base over fakes, on both APIs."""

from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from tests.support.apis import Api, ApiError

TEXT = "The fjord is deep. The water is cold.\n\nNobody swims there in winter."


@pytest.fixture
async def name(router: Api) -> AsyncIterator[str]:
    """A name of a document that goes with the test."""
    made = f"notes/{uuid4().hex}.md"
    yield made
    with suppress(ApiError):
        await router.ask("DeleteKnowledge", document_id=made)


async def added(router: Api, *documents: dict[str, Any], **more: object) -> dict[str, Any]:
    return await router.ask("AddKnowledge", documents=list(documents), **more)


async def test_adding_reports_its_progress_and_at_the_end_the_totals(router: Api, name: str) -> None:
    document = {"document_id": name, "title": "Fjord", "text": TEXT, "labels": {"by": "ann"}}

    events = await router.events("AddKnowledge", documents=[document], chunk_characters=20, chunk_overlap_characters=0)

    progress = [content for kind, content in events if kind == "knowledge_progress"]
    assert [kind for kind, _ in events] == [*["knowledge_progress"] * len(progress), "knowledge_added"]
    assert progress[0] == {"embedded_chunks": 0, "total_chunks": 4, "finished_documents": 0, "total_documents": 1}
    assert progress[-1] == {"embedded_chunks": 4, "total_chunks": 4, "finished_documents": 1, "total_documents": 1}
    last = events[-1][1]
    [kept] = last["documents"]
    assert (kept["document_id"], kept["title"], kept["labels"]) == (name, "Fjord", {"by": "ann"})
    assert (kept["chunks"], kept["characters"], kept["encoder"]) == (4, len(TEXT), "letters")
    assert kept["text_digest"] == sha256(TEXT.encode()).hexdigest()
    assert (last["replaced"], last["chunks"]) == (0, 4)
    assert 0 <= last["embedding_ms"] <= last["duration_ms"]


async def test_a_document_without_a_name_is_named_after_its_text_and_stored_once(router: Api) -> None:
    first = await added(router, {"text": TEXT}, {"text": TEXT})

    again = await added(router, {"text": TEXT})

    [one, same] = first["documents"]
    assert one == same
    assert one["document_id"] == sha256(TEXT.encode()).hexdigest()[:32]
    assert (again["chunks"], again["replaced"]) == (0, 0)
    await router.ask("DeleteKnowledge", document_id=one["document_id"])


async def test_a_known_name_replaces_and_an_unchanged_text_is_not_embedded_again(router: Api, name: str) -> None:
    await added(router, {"document_id": name, "text": TEXT})

    retitled = await added(router, {"document_id": name, "text": TEXT, "title": "New"})
    rewritten = await added(router, {"document_id": name, "text": "Another one."})

    assert (retitled["chunks"], retitled["replaced"], retitled["documents"][0]["title"]) == (0, 1, "New")
    assert (rewritten["chunks"], rewritten["replaced"]) == (1, 1)


async def test_documents_are_listed_page_by_page(router: Api, name: str) -> None:
    await added(router, {"document_id": name, "text": TEXT}, {"document_id": "zz", "text": "The last."})

    first = await router.ask("ListKnowledge", page_size=1)
    second = await router.ask("ListKnowledge", page_size=1, page_token=first["next_page_token"])

    assert [kept["document_id"] for kept in first["documents"] + second["documents"]] == [name, "zz"]
    assert (first["total_documents"], first["total_chunks"], first["total_experiences"]) == (2, 2, 0)
    await router.ask("DeleteKnowledge", document_id="zz")


async def test_a_deleted_document_is_gone(router: Api, name: str) -> None:
    await added(router, {"document_id": name, "text": TEXT})

    deleted = await router.ask("DeleteKnowledge", document_id=name)

    assert deleted == {"document_id": name, "chunks": 1}
    with pytest.raises(ApiError) as raised:
        await router.ask("DeleteKnowledge", document_id=name)
    assert (raised.value.code, raised.value.reason) == ("NOT_FOUND", "DOCUMENT_NOT_FOUND")
    assert raised.value.metadata == {"document_id": name}


async def test_a_search_finds_the_nearest_first(router: Api, name: str) -> None:
    await added(router, {"document_id": name, "text": "zebra zoo\n\nqueen", "title": "Z"}, chunk_characters=12)

    found = await router.ask("SearchKnowledge", query="zebra zoo", page_size=1)
    rest = await router.ask("SearchKnowledge", query="zebra zoo", page_token=found["next_page_token"])

    [hit] = found["hits"]
    assert (hit["kind"], hit["document_id"], hit["title"], hit["chunk"]) == ("DOCUMENT", name, "Z", 0)
    assert (hit["text"], hit["answer"], hit["run_id"]) == ("zebra zoo", "", "")
    assert hit["similarity"] == pytest.approx(1.0)
    assert [hit["text"] for hit in rest["hits"]] == ["queen"]
    assert (found["encoder"], rest["next_page_token"]) == ("letters", "")
    assert found["embedding_ms"] >= 0 <= found["retrieval_ms"]


async def test_a_search_can_be_narrowed(router: Api, name: str) -> None:
    await added(router, {"document_id": name, "text": "zebra zoo\n\nqueen"}, chunk_characters=12)

    near = await router.ask("SearchKnowledge", query="zebra zoo", minimum_similarity=0.9)
    none = await router.ask("SearchKnowledge", query="zebra zoo", kind="EXPERIENCE")

    assert [hit["text"] for hit in near["hits"]] == ["zebra zoo"]
    assert none["hits"] == []


@pytest.mark.parametrize(
    ("operation", "body", "reason", "says"),
    [
        ("AddKnowledge", {"documents": []}, "MALFORMED_REQUEST", "at least one"),
        ("AddKnowledge", {"documents": [{"text": " \n"}]}, "MALFORMED_REQUEST", "documents.0: the text is empty"),
        (
            "AddKnowledge",
            {"documents": [{"text": "a", "document_id": "x"}, {"text": "b", "document_id": "x"}]},
            "MALFORMED_REQUEST",
            "documents.1: document_id 'x' stands twice",
        ),
        ("AddKnowledge", {"documents": [{"text": "a"}], "chunk_characters": 0}, "MALFORMED_REQUEST", "at least 1"),
        (
            "AddKnowledge",
            {"documents": [{"text": "a"}], "chunk_characters": 9, "chunk_overlap_characters": 9},
            "MALFORMED_REQUEST",
            "less than the 9",
        ),
        ("AddKnowledge", {"documents": [{"text": "a", "document_id": "a\nb"}]}, "MALFORMED_REQUEST", "matches"),
        ("AddKnowledge", {"documents": [{"text": "a"}] * 1001}, "REQUEST_OVER_LIMIT", "the limit is 1000"),
        (
            "AddKnowledge",
            {"documents": [{"text": "ab " * 15_000}], "chunk_characters": 1},
            "REQUEST_OVER_LIMIT",
            "too many chunks",
        ),
        ("ListKnowledge", {"page_token": "nobody's"}, "INVALID_PAGE_TOKEN", "page_token"),
        ("SearchKnowledge", {"query": " "}, "MALFORMED_REQUEST", "no text to search for"),
        ("SearchKnowledge", {"query": "a", "page_size": 101}, "MALFORMED_REQUEST", "page_size"),
        ("SearchKnowledge", {"query": "a", "minimum_similarity": 1.5}, "MALFORMED_REQUEST", "minimum_similarity"),
        ("SearchKnowledge", {"query": "a", "page_token": "nobody's"}, "INVALID_PAGE_TOKEN", "page_token"),
        ("DeleteKnowledge", {"document_id": "nobody's"}, "DOCUMENT_NOT_FOUND", "no document"),
    ],
)
async def test_what_cannot_be_done_is_rejected_with_its_place(
    router: Api, operation: str, body: dict[str, Any], reason: str, says: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask(operation, **body)

    assert raised.value.reason == reason
    assert says in raised.value.message
