from hashlib import sha256

import pytest

from chassis.errors import ConfigurationInvalid, RequestOverLimit
from chassis.serving.auth import TEACH, ApiKey
from kernel.errors import MalformedRequest, TeachingNotAllowed
from services.router.service.knowledge.documents import AddLimits, add_knowledge
from services.router.service.knowledge.values import AddEvent, AddKnowledgeRequest, ChunkSizes, NewDocument
from tests.contract.fake_knowledge import FakeEncoder, FakeLibrary, fake_embeddings

ANN = ApiKey(name="ann", sha256="", allowed=frozenset({TEACH}))


async def added(
    request: AddKnowledgeRequest, store: FakeLibrary, encoder: FakeEncoder, *, key: ApiKey = ANN, limits: AddLimits
) -> list[AddEvent]:
    embeddings = fake_embeddings(encoder)
    return [event async for event in add_knowledge(request, key=key, embeddings=embeddings, store=store, limits=limits)]


@pytest.mark.parametrize(("most", "overlap"), [(100, 100), (100, 101), (1, 1)])
def test_chunks_that_would_share_all_of_their_text_are_a_wrong_setting(most: int, overlap: int) -> None:
    with pytest.raises(ConfigurationInvalid, match="METACOG_ROUTER_CHUNK_OVERLAP_CHARACTERS"):
        AddLimits(cut=ChunkSizes(most=most, overlap=overlap))


@pytest.mark.parametrize(
    ("characters", "overlap", "cut"),
    [
        (None, None, ChunkSizes(most=80, overlap=30)),
        (200, None, ChunkSizes(most=200, overlap=30)),
        (20, None, ChunkSizes(most=20, overlap=5)),
        (20, 19, ChunkSizes(most=20, overlap=19)),
        (None, 0, ChunkSizes(most=80, overlap=0)),
    ],
)
async def test_chunks_are_cut_as_requested_or_as_configured(
    characters: int | None, overlap: int | None, cut: ChunkSizes
) -> None:
    store = FakeLibrary()
    request = AddKnowledgeRequest(
        documents=[NewDocument(text="a", document_id="x")],
        chunk_characters=characters,
        chunk_overlap_characters=overlap,
    )

    await added(request, store, FakeEncoder(), limits=AddLimits(cut=ChunkSizes(most=80, overlap=30)))

    assert (await store.stored(["x"]))["x"].cut == cut


async def test_only_what_is_new_is_embedded() -> None:
    store, encoder = FakeLibrary(), FakeEncoder()
    old, new = NewDocument(text="Old.", document_id="old"), NewDocument(text="New. Newer.", document_id="new")
    limits = AddLimits(cut=ChunkSizes(most=8, overlap=0))
    await added(AddKnowledgeRequest(documents=[old]), store, encoder, limits=limits)
    encoder.texts.clear()

    *progress, _ = await added(AddKnowledgeRequest(documents=[old, new]), store, encoder, limits=limits)

    assert encoder.texts == ["dimension", "New.", "Newer."]
    assert [(event.finished_documents, event.total_documents) for event in progress] == [(1, 2), (2, 2)]  # type: ignore[union-attr]


async def test_a_changed_cut_embeds_again() -> None:
    store, encoder = FakeLibrary(), FakeEncoder()
    document = NewDocument(text="One. Two.", document_id="x")
    limits = AddLimits(cut=ChunkSizes(most=80, overlap=0))
    await added(AddKnowledgeRequest(documents=[document]), store, encoder, limits=limits)

    await added(AddKnowledgeRequest(documents=[document], chunk_characters=6), store, encoder, limits=limits)

    assert encoder.texts[-2:] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("document", "limits"),
    [
        (NewDocument(text="x" * 11), AddLimits(document_characters=10)),
        (NewDocument(text="one two three four"), AddLimits(cut=ChunkSizes(most=6, overlap=0), chunks=2)),
    ],
)
async def test_what_is_over_a_limit_is_not_embedded(document: NewDocument, limits: AddLimits) -> None:
    encoder = FakeEncoder()

    with pytest.raises(RequestOverLimit, match="the limit is"):
        await added(AddKnowledgeRequest(documents=[document]), FakeLibrary(), encoder, limits=limits)

    assert encoder.texts in ([], ["dimension"])


async def test_a_key_that_may_not_teach_is_rejected_first() -> None:
    encoder, pupil = FakeEncoder(), ApiKey(name="bob", sha256="")

    with pytest.raises(TeachingNotAllowed):
        await added(AddKnowledgeRequest(documents=[]), FakeLibrary(), encoder, key=pupil, limits=AddLimits())

    assert encoder.texts == []


async def test_an_identifier_that_occurs_twice_is_rejected_unless_its_text_is_the_same() -> None:
    store = FakeLibrary()
    one, same, other = (NewDocument(text=text, document_id="x") for text in ("One.", "One.", "Other."))

    await added(AddKnowledgeRequest(documents=[one, same]), store, FakeEncoder(), limits=AddLimits())
    with pytest.raises(MalformedRequest, match=r"documents\.1: document_id 'x' stands twice"):
        await added(AddKnowledgeRequest(documents=[one, other]), store, FakeEncoder(), limits=AddLimits())

    assert (await store.stored(["x"]))["x"].document.text_digest == sha256(b"One.").hexdigest()
