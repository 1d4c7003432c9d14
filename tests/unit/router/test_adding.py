from hashlib import sha256

import pytest

from chassis.errors import ConfigurationInvalid, RequestOverLimit
from chassis.serving.auth import ApiKey, TeachingNotAllowed
from kernel.errors import MalformedRequest
from services.router.service.knowledge.add import AddLimits, add_knowledge
from services.router.service.knowledge.values import AddEvent, AddKnowledgeRequest, ChunkSizes, NewDocument
from tests.contract.fake_knowledge import FakeEncoder, FakeLibrary, fake_embeddings

ANN = ApiKey(name="ann", sha256="")


async def added(
    ask: AddKnowledgeRequest, library: FakeLibrary, encoder: FakeEncoder, *, key: ApiKey = ANN, limits: AddLimits
) -> list[AddEvent]:
    embeddings = fake_embeddings(encoder)
    return [event async for event in add_knowledge(ask, key=key, embeddings=embeddings, library=library, limits=limits)]


@pytest.mark.parametrize(("most", "overlap"), [(100, 100), (100, 101), (1, 1)])
def test_chunks_that_would_share_all_they_have_are_a_wrong_setting(most: int, overlap: int) -> None:
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
async def test_chunks_are_cut_as_asked_or_as_usual(
    characters: int | None, overlap: int | None, cut: ChunkSizes
) -> None:
    library = FakeLibrary()
    ask = AddKnowledgeRequest(
        documents=[NewDocument(text="a", document_id="x")],
        chunk_characters=characters,
        chunk_overlap_characters=overlap,
    )

    await added(ask, library, FakeEncoder(), limits=AddLimits(cut=ChunkSizes(most=80, overlap=30)))

    assert (await library.kept(["x"]))["x"].cut == cut


async def test_only_what_is_new_is_embedded() -> None:
    library, encoder = FakeLibrary(), FakeEncoder()
    old, new = NewDocument(text="Old.", document_id="old"), NewDocument(text="New. Newer.", document_id="new")
    limits = AddLimits(cut=ChunkSizes(most=8, overlap=0))
    await added(AddKnowledgeRequest(documents=[old]), library, encoder, limits=limits)
    encoder.texts.clear()

    *progress, _ = await added(AddKnowledgeRequest(documents=[old, new]), library, encoder, limits=limits)

    assert encoder.texts == ["dimension", "New.", "Newer."]
    assert [(told.finished_documents, told.total_documents) for told in progress] == [(1, 2), (2, 2)]  # type: ignore[union-attr]


async def test_a_changed_cut_embeds_again() -> None:
    library, encoder = FakeLibrary(), FakeEncoder()
    document = NewDocument(text="One. Two.", document_id="x")
    limits = AddLimits(cut=ChunkSizes(most=80, overlap=0))
    await added(AddKnowledgeRequest(documents=[document]), library, encoder, limits=limits)

    await added(AddKnowledgeRequest(documents=[document], chunk_characters=6), library, encoder, limits=limits)

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


async def test_who_may_not_teach_is_refused_before_anything_else() -> None:
    encoder, pupil = FakeEncoder(), ApiKey(name="bob", sha256="", may_teach=False)

    with pytest.raises(TeachingNotAllowed):
        await added(AddKnowledgeRequest(documents=[]), FakeLibrary(), encoder, key=pupil, limits=AddLimits())

    assert encoder.texts == []


async def test_a_name_that_stands_twice_is_refused_unless_its_text_is_the_same() -> None:
    library = FakeLibrary()
    one, same, other = (NewDocument(text=text, document_id="x") for text in ("One.", "One.", "Other."))

    await added(AddKnowledgeRequest(documents=[one, same]), library, FakeEncoder(), limits=AddLimits())
    with pytest.raises(MalformedRequest, match=r"documents\.1: document_id 'x' stands twice"):
        await added(AddKnowledgeRequest(documents=[one, other]), library, FakeEncoder(), limits=AddLimits())

    assert (await library.kept(["x"]))["x"].document.text_digest == sha256(b"One.").hexdigest()
