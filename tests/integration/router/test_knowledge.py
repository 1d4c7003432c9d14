"""What is known, with the real encoder and a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from chassis import database as db
from chassis.database import StatementRejected
from chassis.errors import DatabaseUnavailable
from chassis.ids import new_id
from chassis.page_tokens import InvalidPageToken
from chassis.schema.vectors import vector_text
from chassis.serving.auth import TEACH, ApiKey, Keyring
from inference import Embedded, Encoder, EncoderUnavailable, Spend
from kernel.conversation import Turn
from kernel.envelope import Envelope
from kernel.msv.assessors import AssessorName
from kernel.msv.experience import ExperienceWeights
from kernel.outcomes import Outcome
from services.router.service.assessment.experience_matching import ExperienceMatching
from services.router.service.knowledge.documents import AddLimits
from services.router.service.knowledge.knowledge import KnowledgeBase
from services.router.service.knowledge.values import (
    AddEvent,
    AddKnowledgeRequest,
    ChunkSizes,
    DocumentDraft,
    KnowledgeAdded,
    KnowledgeHit,
    ListKnowledgeRequest,
    NewDocument,
    SearchKnowledgeRequest,
    VerifiedAnswer,
)
from services.router.service.runs.values import Run
from services.router.store.knowledge import PostgresKnowledge
from services.router.store.nearest_vectors import VectorSpace as NearestPlace
from services.router.store.nearest_vectors import nearest_of
from tests.contract.fake_knowledge import FakeEncoder, fake_embeddings
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.models.encoder import EncoderProcess
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import (
    LIMITS,
    NO_SERVER,
    ROUTER,
    RunningRouter,
    cast,
    knowledge_base,
    router_at,
    until,
)

FJORD = "The fjord is two hundred metres deep, and its water never freezes."
FJORD_AGAIN = "Its water never freezes over, and the fjord has a depth of 200 metres."
COOKING = "Simmer the lentils with cumin until they are soft."
UNIT = Encoder(name="unit", dimension=8)
UNRELATED = "Who won the chess championship in 1972?"

pytestmark = pytest.mark.timeout(180)


@dataclass
class VectorSpace:
    """A database, and the library in it."""

    url: str
    library: PostgresKnowledge


@pytest.fixture(scope="module")
def own_database(new_database: Callable[[], str]) -> str:
    """A database of this file's own."""
    return new_database()


@pytest.fixture
async def place(own_database: str) -> AsyncIterator[VectorSpace]:
    """A library with nothing in it."""
    engine = db.build_engine(own_database)
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE router.encoders, router.documents, router.chunks, router.experiences"))
    yield VectorSpace(own_database, PostgresKnowledge(db.build_sessions(engine)))
    await engine.dispose()


@pytest.fixture
async def router(
    scripted: ScriptedLLM, place: VectorSpace, encoder_url: str, tmp_path: Path
) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, place.url, tmp_path, encoder_url=encoder_url) as running:
        yield running


@pytest.fixture
def rest(router: RunningRouter) -> RestApi:
    return RestApi(router.rest, ROUTER)


@pytest.fixture
def rpc(router: RunningRouter) -> RpcApi:
    return RpcApi(router.grpc, ROUTER)


async def experience_of(rest: RestApi, query: str) -> tuple[float | None, str, dict[str, float]]:
    msv = (await rest.ask("Assess", question=query))["msv"]
    return msv["experience"], msv["unknown_reasons"].get("experience", ""), msv["parts"]


def run_of(question: str, **more: Any) -> Run:  # noqa: ANN401
    facts: dict[str, Any] = {
        "run_id": new_id(),
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "messages": [Turn(role="user", content=question)],
        "messages_digest": "d" * 64,
        "envelope": Envelope(max_generations=1, max_generated_tokens=2, timeout_ms=3),
        "answer": "It is so.",
        "outcome": Outcome.ANSWERED,
        **more,
    }
    return Run(**facts)


# -- the whole way ----------------------------------------------------------------------------------------------------


async def test_a_paraphrase_finds_what_was_added(rest: RestApi, rpc: RpcApi) -> None:
    documents = [{"text": FJORD, "document_id": "fjord", "title": "Fjord"}, {"text": COOKING}]

    added = await rest.ask("AddKnowledge", documents=documents)
    found = await rpc.ask("SearchKnowledge", query=FJORD_AGAIN)

    assert [document["encoder"] for document in added["documents"]] == ["all-MiniLM-L6-v2"] * 2
    assert [hit["text"] for hit in found["hits"]] == [FJORD, COOKING]
    assert found["hits"][0]["similarity"] > 0.8 > 0.3 > found["hits"][1]["similarity"]
    assert (found["hits"][0]["document_id"], found["hits"][0]["title"]) == ("fjord", "Fjord")


async def test_experience_is_near_one_for_stored_texts_and_unknown_for_unrelated_ones(rest: RestApi) -> None:
    await rest.ask("AddKnowledge", documents=[{"text": FJORD}, {"text": COOKING}])

    stored, _, parts = await experience_of(rest, FJORD)
    again, _, _ = await experience_of(rest, FJORD_AGAIN)
    unrelated, reason, unrelated_parts = await experience_of(rest, UNRELATED)

    assert stored == parts["knowledge_similarity"] == 1.0
    assert again is not None
    assert again > 0.9
    assert (unrelated, reason) == (None, "nothing that is stored is near")
    assert unrelated_parts["knowledge_similarity"] == 0.0


async def test_a_question_is_routed_alike_before_and_after_an_unrelated_document_is_added(
    scripted: ScriptedLLM, place: VectorSpace, encoder_url: str, tmp_path: Path
) -> None:
    question = {"question": "What is the capital of France?", "seed": 7}
    scripted.answer = lambda _: ['{"r": [30, 20, 10]}']
    async with router_at(
        scripted, place.url, tmp_path, encoder_url=encoder_url, assessor=AssessorName.ANSWERS
    ) as running:
        apis = (RestApi(running.rest, ROUTER), RpcApi(running.grpc, ROUTER))

        async def kind_is_known() -> bool:
            """Return whether the kinds, which are read in the background, are there by now."""
            return bool((await apis[0].ask("Route", **question))["kind"])

        await until(kind_is_known)
        before = [await api.ask("Route", **question) for api in apis]
        await apis[0].ask("AddKnowledge", documents=[{"text": COOKING}])
        after = [await api.ask("Route", **question) for api in apis]

    assert [routed["activation"]["value"] is None for routed in before] == [False, False]
    assert [routed["activation"] for routed in after] == [routed["activation"] for routed in before]
    assert [routed["system"] for routed in after] == [routed["system"] for routed in before]
    reasons = [routed["msv"]["unknown_reasons"]["experience"] for routed in (before[0], after[0])]
    assert reasons == ["nothing is stored yet", "nothing that is stored is near"]


async def test_where_the_operator_declares_that_it_covers_the_questions_nothing_near_is_an_experience_of_zero(
    scripted: ScriptedLLM, place: VectorSpace, encoder_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with router_at(scripted, place.url, tmp_path, encoder_url=encoder_url, knowledge_covers=True) as running:
        rest = RestApi(running.rest, ROUTER)
        await rest.ask("AddKnowledge", documents=[{"text": COOKING}])

        value, reason, _ = await experience_of(rest, UNRELATED)

    assert (value, reason) == (0.0, "")


async def test_with_nothing_stored_experience_is_unknown_with_a_reason(rest: RestApi) -> None:
    value, reason, _ = await experience_of(rest, FJORD)

    assert (value, reason) == (None, "nothing is stored yet")


async def test_without_its_encoder_a_router_answers_with_the_reason_why_experience_is_unknown(
    scripted: ScriptedLLM, place: VectorSpace, tmp_path: Path
) -> None:
    scripted.answer = cast()
    short_lived = EncoderProcess().start()
    async with router_at(scripted, place.url, tmp_path, encoder_url=short_lived.url) as running:
        rest = RestApi(running.rest, ROUTER)
        await rest.ask("AddKnowledge", documents=[{"text": FJORD}])
        known, _, _ = await experience_of(rest, FJORD)

        short_lived.kill()
        value, reason, _ = await experience_of(rest, FJORD)
        answered = await rest.ask("Answer", question="Is it so?")
        with pytest.raises(ApiError) as error:
            await rest.ask("AddKnowledge", documents=[{"text": COOKING}])

    assert known == 1.0
    assert value is None
    assert reason.startswith("ENCODER_UNAVAILABLE: the encoder at http://127.0.0.1:")
    assert answered["run"]["answer"] == "the system1"
    assert answered["run"]["route"]["msv"]["experience"] is None
    assert (error.value.code, error.value.reason) == ("UNAVAILABLE", "ENCODER_UNAVAILABLE")


async def test_an_encoder_that_keeps_failing_is_left_alone_and_found_again(place: VectorSpace) -> None:
    encoder = FakeEncoder()
    known = KnowledgeBase(fake_embeddings(encoder), place.library, ExperienceMatching(), AddLimits())
    encoder.away = True
    reasons = [(await known.match([Turn(role="user", content="a")], "", Spend(LIMITS))).reason for _ in range(6)]

    assert all(reason.startswith("ENCODER_UNAVAILABLE") for reason in reasons)
    assert "tried again" not in reasons[4]
    assert reasons[5].endswith("(tried again in some seconds)")


async def test_similarities_of_an_encoder_without_calibration_are_not_used(place: VectorSpace) -> None:
    known = KnowledgeBase(fake_embeddings(), place.library, ExperienceMatching(), AddLimits())

    matched = await known.match([Turn(role="user", content="a")], "", Spend(LIMITS))

    assert matched.value is None
    assert "calibrated for the encoder all-MiniLM-L6-v2 and letters is in use" in matched.reason


async def test_a_conversation_is_looked_up_by_its_last_turn_and_by_its_last_turns(router: RunningRouter) -> None:
    rest = RestApi(router.rest, ROUTER)
    await rest.ask("AddKnowledge", documents=[{"text": FJORD}])
    turns = [
        Turn(role="system", content=COOKING),
        Turn(role="user", content="Let us cook."),
        Turn(role="user", content=FJORD),
    ]

    matched = await router.known.match(turns, "", Spend(LIMITS))

    assert matched.value == 1.0


async def test_a_document_can_be_replaced_listed_and_deleted(rest: RestApi) -> None:
    first = await rest.ask("AddKnowledge", documents=[{"text": FJORD, "document_id": "a/b.md", "title": "One"}])
    same = await rest.ask("AddKnowledge", documents=[{"text": FJORD, "document_id": "a/b.md", "title": "Two"}])
    other = await rest.ask("AddKnowledge", documents=[{"text": COOKING, "document_id": "a/b.md"}])
    found = await rest.ask("SearchKnowledge", query=FJORD)
    listed = await rest.ask("ListKnowledge")
    deleted = await rest.ask("DeleteKnowledge", document_id="a/b.md")
    after = await rest.ask("ListKnowledge")

    assert (first["replaced"], first["chunks"]) == (0, 1)
    assert (same["replaced"], same["chunks"], same["documents"][0]["title"]) == (1, 0, "Two")
    assert same["documents"][0]["added_at"] == first["documents"][0]["added_at"]
    assert (other["replaced"], other["chunks"]) == (1, 1)
    assert [hit["text"] for hit in found["hits"]] == [COOKING]
    assert [document["text_digest"] for document in listed["documents"]] == [sha256(COOKING.encode()).hexdigest()]
    assert deleted == {"document_id": "a/b.md", "chunks": 1}
    assert (after["total_documents"], after["total_chunks"]) == (0, 0)


async def test_verified_answers_are_experience_until_they_are_deleted(router: RunningRouter) -> None:
    rest = RestApi(router.rest, ROUTER)
    run = run_of("How deep is the fjord?", answer="Two hundred metres.")

    await router.known.experience.learn(run)
    await router.known.experience.learn(run)
    found = await rest.ask("SearchKnowledge", query="What is the depth of the fjord?")
    known, _, parts = await experience_of(rest, "How deep is the fjord?")
    await router.known.experience.forget(run.run_id)
    value, reason, _ = await experience_of(rest, "How deep is the fjord?")

    [hit] = found["hits"]
    assert (hit["kind"], hit["run_id"], hit["chunk"]) == ("EXPERIENCE", run.run_id, None)
    assert (hit["text"], hit["answer"]) == ("How deep is the fjord?", "Two hundred metres.")
    assert known == parts["experience_similarity"] == 1.0
    assert "knowledge_similarity" not in parts
    assert (value, reason) == (None, "nothing is stored yet")


@pytest.mark.parametrize(
    "more",
    [{"answer": " "}, {"messages": []}, {"outcome": Outcome.ABSTAINED}],
    ids=["no answer", "no text", "abstained"],
)
async def test_a_run_without_an_answer_or_its_text_teaches_nothing(
    place: VectorSpace, encoder_url: str, more: dict[str, Any]
) -> None:
    known = knowledge_base(encoder_url, place.library)

    await known.experience.learn(run_of("How deep is the fjord?", **more))

    assert (await place.library.page(ListKnowledgeRequest(), key_name="")).total_experiences == 0
    await known.embeddings.close()


async def test_both_sources_count_by_their_weights(place: VectorSpace, encoder_url: str) -> None:
    known = knowledge_base(encoder_url, place.library)
    uneven = ExperienceMatching(weights=ExperienceWeights(knowledge=0.25, experience=0.75), covers=True)
    weighted = KnowledgeBase(known.embeddings, place.library, uneven, AddLimits())
    await known.experience.learn(run_of(FJORD))
    [_ async for _ in known.use.add(AddKnowledgeRequest(documents=[NewDocument(text=COOKING)]), key=key("ann"))]

    matched = await weighted.match([Turn(role="user", content=FJORD)], "", Spend(LIMITS))

    assert matched.parts == {"knowledge_similarity": 0.0, "experience_similarity": 1.0}
    assert matched.value == 0.75
    assert (await known.match([Turn(role="user", content=FJORD)], "", Spend(LIMITS))).value == 1.0  # the near one alone
    await known.embeddings.close()


# -- whose it is ------------------------------------------------------------------------------------------------------


def key(name: str, *, may_teach: bool = True) -> ApiKey:
    allowed = frozenset({TEACH}) if may_teach else frozenset()
    return ApiKey(name=name, sha256=sha256(name.encode()).hexdigest(), allowed=allowed)


async def test_experience_belongs_to_its_key_and_documents_to_all(
    scripted: ScriptedLLM, place: VectorSpace, encoder_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    keyring = Keyring([key("ann"), key("bob", may_teach=False)])
    async with router_at(scripted, place.url, tmp_path, encoder_url=encoder_url, keyring=keyring) as running:
        ann = RestApi(running.rest, ROUTER, {"authorization": "Bearer ann"})
        bob = RestApi(running.rest, ROUTER, {"authorization": "Bearer bob"})
        rpc = RpcApi(running.grpc, ROUTER, (("authorization", "Bearer bob"),))
        await running.known.experience.learn(run_of("How deep is the fjord?", key_name="ann"))
        own = await experience_of(ann, "How deep is the fjord?")
        others = await experience_of(bob, "How deep is the fjord?")
        await ann.ask("AddKnowledge", documents=[{"text": COOKING, "document_id": "lentils"}])

        for_ann = await ann.ask("SearchKnowledge", query="How deep is the fjord?")
        for_bob = await bob.ask("SearchKnowledge", query="How deep is the fjord?")
        totals = [(await api.ask("ListKnowledge"))["total_experiences"] for api in (ann, bob)]
        for call in (
            bob.ask("AddKnowledge", documents=[{"text": FJORD}]),
            bob.ask("DeleteKnowledge", document_id="lentils"),
            rpc.ask("AddKnowledge", documents=[{"text": FJORD}]),
        ):
            with pytest.raises(ApiError) as error:
                await call
            assert (error.value.code, error.value.reason) == ("PERMISSION_DENIED", "TEACHING_NOT_ALLOWED")

    assert own[0] == 1.0
    assert others[:2] == (None, "nothing is stored yet")
    assert [hit["kind"] for hit in for_ann["hits"]] == ["EXPERIENCE", "DOCUMENT"]
    assert [hit["kind"] for hit in for_bob["hits"]] == ["DOCUMENT"]
    assert totals == [1, 0]


async def test_the_one_experience_of_a_key_is_found_among_thousands_of_others(place: VectorSpace) -> None:
    rows = np.random.default_rng(7).standard_normal((2000, 8)).astype(np.float32)
    query = Embedded(encoder=UNIT, vectors=rows[:1])
    mine = VerifiedAnswer(run_id=new_id(), key_name="ann", question="mine", answer="a")
    await place.library.learn(mine, Embedded(encoder=UNIT, vectors=-rows[:1]))
    engine = db.build_engine(place.url)
    crowd = (
        "INSERT INTO router.experiences (run_id, key_name, question, answer, encoder_id, embedding) "
        "SELECT :run_id, 'crowd', 'q', 'a', encoder_id, CAST(:vector AS vector) FROM router.encoders"
    )
    async with engine.begin() as connection:
        rows_of_crowd = [{"run_id": new_id(), "vector": vector_text(row)} for row in rows]
        for first in range(0, len(rows_of_crowd), 50):  # the connection waits 5 s for one statement
            await connection.execute(text(crowd), rows_of_crowd[first : first + 50])
        await connection.execute(text("ANALYZE router.experiences"))
    await engine.dispose()

    nearest = await place.library.nearest(query, key_name="ann")
    found = await place.library.search(SearchKnowledgeRequest(query="x"), query, rank=0, key_name="ann")
    of_all = await place.library.nearest(query, key_name="")

    assert nearest["experience"] == pytest.approx(-1.0, abs=1e-6)
    assert [hit.text for hit in found.hits] == ["mine"]
    assert of_all["experience"] == pytest.approx(1.0, abs=1e-6)


# -- all or nothing ---------------------------------------------------------------------------------------------------


class Failing(FakeEncoder):
    """Fails for good after some texts."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def _answer(self) -> None:
        self.away = self.away or len(self.texts) >= self._after
        super()._answer()


async def test_an_encoder_that_fails_half_way_adds_nothing(place: VectorSpace) -> None:
    known = KnowledgeBase(fake_embeddings(Failing(7)), place.library, ExperienceMatching(), AddLimits())
    request = AddKnowledgeRequest(documents=[NewDocument(text="one two three four five six " * 4)], chunk_characters=10)
    events: list[AddEvent] = []

    async def add() -> None:
        async for event in known.use.add(request, key=key("ann")):
            events.append(event)

    with pytest.raises(EncoderUnavailable):
        await add()

    assert len(events) > 1
    assert (await place.library.page(ListKnowledgeRequest(), key_name="")).total_documents == 0


async def test_a_caller_that_disconnects_half_way_adds_nothing(place: VectorSpace) -> None:
    known = KnowledgeBase(fake_embeddings(), place.library, ExperienceMatching(), AddLimits())
    request = AddKnowledgeRequest(documents=[NewDocument(text="one two three four five six " * 4)], chunk_characters=10)

    async with aclosing(known.use.add(request, key=key("ann"))) as events:
        for _ in range(3):
            await anext(events)

    assert (await place.library.page(ListKnowledgeRequest(), key_name="")).total_documents == 0


async def test_a_statement_that_fails_half_way_adds_nothing(place: VectorSpace) -> None:
    drafts = drafts_of(*("abc"), dimension=8)
    await place.library.put(UNIT, drafts[:1])
    short = replace(drafts[2], vectors=np.ones((1, 5), dtype=np.float32))

    with pytest.raises(StatementRejected):
        await place.library.put(UNIT, [replace(drafts[0], title="New"), drafts[1], short])

    page = await place.library.page(ListKnowledgeRequest(), key_name="")
    assert [(document.document_id, document.title) for document in page.documents] == [("a", "")]


async def test_adding_the_same_documents_at_once_ends_well(place: VectorSpace) -> None:
    drafts = drafts_of(*"abcdefgh", dimension=8)

    async with asyncio.TaskGroup() as group:
        for turn in range(6):
            group.create_task(place.library.put(UNIT, drafts if turn % 2 else drafts[::-1]))

    page = await place.library.page(ListKnowledgeRequest(), key_name="")
    assert (page.total_documents, page.total_chunks) == (8, 8)


async def test_without_its_database_the_knowledge_base_raises_and_experience_is_unknown(encoder_url: str) -> None:
    engine = db.build_engine(f"postgresql+psycopg://nobody@{NO_SERVER}/none")
    known = knowledge_base(encoder_url, PostgresKnowledge(db.build_sessions(engine)))

    matched = await known.match([Turn(role="user", content=FJORD)], "", Spend(LIMITS))
    with pytest.raises(DatabaseUnavailable):
        await known.use.search(SearchKnowledgeRequest(query=FJORD), key_name="")

    assert matched.value is None
    assert matched.reason.startswith("DATABASE_UNAVAILABLE: the database cannot be reached")
    await known.embeddings.close()
    await engine.dispose()


# -- how it is stored -------------------------------------------------------------------------------------------------


def drafts_of(*names: str, dimension: int, seed: int = 3) -> list[DocumentDraft]:
    """One chunk a document, with a random vector."""
    rows = np.random.default_rng(seed).standard_normal((len(names), dimension)).astype(np.float32)
    return [
        DocumentDraft(
            document_id=name,
            title="",
            labels={},
            text_digest=sha256(name.encode()).hexdigest(),
            characters=len(name),
            cut=ChunkSizes(most=800, overlap=100),
            chunks=[name],
            vectors=rows[place : place + 1],
        )
        for place, name in enumerate(names)
    ]


@pytest.mark.parametrize("dimension", [3, 768, 2001, 4001])
async def test_vectors_of_any_length_are_found(place: VectorSpace, dimension: int) -> None:
    encoder = Encoder(name="any", dimension=dimension)
    drafts = drafts_of(*"abc", dimension=dimension)
    await place.library.put(encoder, drafts)
    assert drafts[1].vectors is not None

    query = Embedded(encoder=encoder, vectors=drafts[1].vectors)
    found = await place.library.search(SearchKnowledgeRequest(query="b"), query, rank=0, key_name="")

    assert found.hits[0].document_id == "b"
    assert found.hits[0].similarity == pytest.approx(1.0, abs=1e-3)


async def test_texts_of_another_encoder_are_not_searched_and_the_reason_is_given(
    place: VectorSpace, encoder_url: str
) -> None:
    known = knowledge_base(encoder_url, place.library)
    await place.library.put(UNIT, drafts_of("a", dimension=8))

    matched = await known.match([Turn(role="user", content=FJORD)], "", Spend(LIMITS))
    found = await known.use.search(SearchKnowledgeRequest(query=FJORD), key_name="")

    assert matched.value is None
    assert matched.reason == "nothing is stored yet for the encoder all-MiniLM-L6-v2; what is stored is of unit"
    assert found.hits == ()
    await known.embeddings.close()


async def test_a_document_of_another_encoder_is_embedded_again(place: VectorSpace, encoder_url: str) -> None:
    before = KnowledgeBase(fake_embeddings(), place.library, ExperienceMatching(), AddLimits())
    after = knowledge_base(encoder_url, place.library)
    request = AddKnowledgeRequest(documents=[NewDocument(text=FJORD)])

    [*_, first] = [event async for event in before.use.add(request, key=key("ann"))]
    [*_, again] = [event async for event in after.use.add(request, key=key("ann"))]

    assert isinstance(first, KnowledgeAdded)
    assert isinstance(again, KnowledgeAdded)
    assert (first.documents[0].encoder, again.documents[0].encoder) == ("letters", "all-MiniLM-L6-v2")
    assert (again.chunks, again.replaced) == (1, 1)
    await after.embeddings.close()


async def test_the_nearest_are_found_through_the_index(place: VectorSpace) -> None:
    [draft] = drafts_of("d", dimension=8)
    rows = np.random.default_rng(5).standard_normal((3000, 8)).astype(np.float32)
    await place.library.put(UNIT, [replace(draft, chunks=["text"] * len(rows), vectors=rows)])
    engine = db.build_engine(place.url)

    async with engine.begin() as connection:
        await connection.execute(text("ANALYZE router.chunks"))
        number = await connection.scalar(text("SELECT encoder_id FROM router.encoders"))
        statement = nearest_of(NearestPlace(encoder_id=int(number or 0), dimension=8), ["query0"], keyed=False)
        plan = await connection.scalars(text(f"EXPLAIN {statement}"), {"query0": vector_text(rows[0])})
        text_of_plan = "\n".join(plan)
    await engine.dispose()

    assert f"Index Scan using ix_chunks_embedding_{number}" in text_of_plan


async def test_the_pages_of_a_search_show_every_hit_once(place: VectorSpace) -> None:
    drafts = drafts_of(*(f"d{number:03}" for number in range(57)), dimension=8)
    await place.library.put(UNIT, drafts)
    assert drafts[0].vectors is not None
    query = Embedded(encoder=UNIT, vectors=drafts[0].vectors)

    seen: list[KnowledgeHit] = []
    request = SearchKnowledgeRequest(query="x", page_size=10)
    for _ in range(6):
        page = await place.library.search(request, query, rank=place.library.rank(request), key_name="")
        seen += page.hits
        request = replace(request, page_token=page.next_page_token)

    assert page.next_page_token == ""
    assert sorted(hit.document_id for hit in seen) == sorted(draft.document_id for draft in drafts)
    assert [hit.similarity for hit in seen] == sorted((hit.similarity for hit in seen), reverse=True)


async def test_a_token_holds_for_its_own_search_only(place: VectorSpace) -> None:
    await place.library.put(UNIT, drafts_of(*"abc", dimension=8))
    query = Embedded(encoder=UNIT, vectors=np.ones((1, 8), dtype=np.float32))
    request = SearchKnowledgeRequest(query="x", page_size=1)
    token = (await place.library.search(request, query, rank=0, key_name="")).next_page_token

    for other in (replace(request, query="y"), replace(request, minimum_similarity=0.5)):
        with pytest.raises(InvalidPageToken):
            place.library.rank(replace(other, page_token=token))
    for nonsense in ("x", "%", "bnVsbA", token + "x"):
        with pytest.raises(InvalidPageToken):
            place.library.rank(replace(request, page_token=nonsense))


async def test_documents_are_listed_from_the_newest_and_by_title(place: VectorSpace) -> None:
    for number in range(5):
        [draft] = drafts_of(f"d{number}", dimension=8)
        await place.library.put(UNIT, [replace(draft, title=f"The 100% of {number}" if number % 2 else "a_b")])

    first = await place.library.page(ListKnowledgeRequest(page_size=3), key_name="")
    rest = await place.library.page(ListKnowledgeRequest(page_token=first.next_page_token), key_name="")
    some = await place.library.page(ListKnowledgeRequest(title_contains="THE 100% of"), key_name="")
    none = await place.library.page(ListKnowledgeRequest(title_contains="a%b"), key_name="")

    assert [document.document_id for document in (*first.documents, *rest.documents)] == ["d4", "d3", "d2", "d1", "d0"]
    assert [document.document_id for document in some.documents] == ["d3", "d1"]
    assert (none.documents, none.total_documents) == ([], 5)
    with pytest.raises(InvalidPageToken):
        await place.library.page(ListKnowledgeRequest(page_token="the next one"), key_name="")


# -- its size ---------------------------------------------------------------------------------------------------------


async def test_a_body_of_documents_may_be_larger_than_others(
    scripted: ScriptedLLM, place: VectorSpace, tmp_path: Path
) -> None:
    body = {"documents": [{"text": "x" * 10_000}], "chunk_characters": 0}
    async with (
        router_at(scripted, place.url, tmp_path, max_body_bytes=4096) as running,
        httpx.AsyncClient(base_url=running.rest) as client,
    ):
        over = await client.post("/v1/route", json={"question": "x" * 10_000})
        within = await client.post("/v1/knowledge", json=body)

    assert over.json()["reason"] == "BODY_TOO_LARGE"
    assert within.json()["reason"] == "MALFORMED_REQUEST"
