"""What is known, in PostgreSQL; every method is one short transaction, after all embedding."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import delete, func, select, text, tuple_, union
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import ERRORS, Sessions, refusal, without_nul
from inference.embeddings import Embedded, Encoder
from kernel.msv.experience import SOURCES
from services.router.service.knowledge.values import (
    ChunkSizes,
    DeleteKnowledgeResponse,
    DocumentDraft,
    DocumentNotFound,
    KnowledgeDocument,
    KnowledgeKind,
    ListKnowledgeRequest,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
    SearchPage,
    StoredDocument,
    VerifiedAnswer,
)
from services.router.store.knowledge_tables import (
    ChunkRow,
    DocumentRow,
    EncoderRow,
    ExperienceRow,
    after_document,
    chunk_rows,
    digest_of,
    document_of,
    hit_of,
    page_token,
    rank_after,
    stored_documents,
    vector_text,
    written,
)
from services.router.store.nearest_vectors import MOST_CANDIDATES, VectorSpace, indexes, nearest_of, search_of, tuning

ENCODERS_LOCK = 0x656E636F
ROWS_AT_ONCE = 500


class PostgresKnowledge:
    """Documents, their chunks and experience in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._places: dict[tuple[str, int], VectorSpace] = {}

    async def kept(self, document_ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Those of the documents that are stored, by identifier.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with self._transaction() as session:
            rows = await stored_documents(session, DocumentRow.document_id.in_(without_nul(list(document_ids))))
        return {
            row.document_id: StoredDocument(
                document=document_of(row, encoder), cut=ChunkSizes(most=row.chunk_characters, overlap=row.chunk_overlap)
            )
            for row, encoder in rows
        }

    async def put(self, encoder: Encoder, drafts: Sequence[DocumentDraft]) -> Mapping[str, KnowledgeDocument]:
        """Store all `drafts`, or none; the documents by identifier.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        place = await self._registered(encoder)
        # Every transaction locks documents in the same order, so that no two wait for one another.
        ordered = sorted(drafts, key=lambda draft: draft.document_id)
        new = [draft for draft in ordered if draft.chunks is not None]
        async with self._transaction() as session:
            for draft in ordered:
                await session.execute(written(draft, place))
            await session.execute(delete(ChunkRow).where(ChunkRow.document_id.in_([d.document_id for d in new])))
            rows = [row for draft in new for row in chunk_rows(draft, place)]
            for at in range(0, len(rows), ROWS_AT_ONCE):
                await session.execute(insert(ChunkRow), rows[at : at + ROWS_AT_ONCE])
            stored = await stored_documents(
                session, DocumentRow.document_id.in_([draft.document_id for draft in ordered])
            )
        return {row.document_id: document_of(row, name) for row, name in stored}

    async def page(self, ask: ListKnowledgeRequest, *, key_name: str) -> ListKnowledgeResponse:
        """A page of documents, newest first, and what is stored in all; of experience, what that key may see.

        Raises:
            InvalidPageToken: For a token that was not given by this service.
            DatabaseUnavailable: When the database is away.
        """
        wanted = [DocumentRow.title.icontains(without_nul(ask.title_contains), autoescape=True)]
        if ask.page_token:
            place = tuple_(DocumentRow.added_at, DocumentRow.document_id)
            wanted.append(place < after_document(ask.page_token))
        own = [ExperienceRow.key_name == key_name] if key_name else []
        totals = select(func.count(), func.coalesce(func.sum(DocumentRow.chunks), 0)).select_from(DocumentRow)
        async with self._transaction() as session:
            rows = await stored_documents(session, *wanted, most=ask.page_size + 1)
            documents, chunks = (await session.execute(totals)).one()
            experiences = await session.scalar(select(func.count()).select_from(ExperienceRow).where(*own))
        shown = [document_of(row, name) for row, name in rows[: ask.page_size]]
        more = len(rows) > ask.page_size
        return ListKnowledgeResponse(
            documents=shown,
            next_page_token=page_token(shown[-1].added_at.isoformat(), shown[-1].document_id) if more else "",
            total_documents=documents,
            total_chunks=chunks,
            total_experiences=experiences or 0,
        )

    async def delete(self, document_id: str) -> DeleteKnowledgeResponse:
        """Delete a document and its chunks.

        Raises:
            DocumentNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """
        named = DocumentRow.document_id == without_nul(document_id)
        async with self._transaction() as session:
            chunks = await session.scalar(delete(DocumentRow).where(named).returning(DocumentRow.chunks))
        if chunks is None:
            raise DocumentNotFound(f"there is no document {document_id!r}", document_id=document_id)
        return DeleteKnowledgeResponse(document_id=document_id, chunks=chunks)

    def rank(self, ask: SearchKnowledgeRequest) -> int:
        """How many hits the pages before the one asked for have shown.

        Raises:
            InvalidPageToken: For a token that was not given for this search.
        """
        return rank_after(ask.page_token, ask) if ask.page_token else 0

    async def search(self, ask: SearchKnowledgeRequest, query: Embedded, *, rank: int, key_name: str) -> SearchPage:
        """What is nearest to `query`, of documents and of the experience of that key, after `rank` hits.

        No search shows more than 1000 hits.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        most = min(ask.page_size, MOST_CANDIDATES - rank)
        asked = {
            "query": vector_text(query.vectors[0]),
            "far": rank + most + 1,
            "least": -1.0 if ask.minimum_similarity is None else ask.minimum_similarity - 1e-9,
            "rank": rank,
            "most": most + 1,
            "key_name": key_name,
        }
        kinds = [ask.kind] if ask.kind else list(KnowledgeKind)
        async with self._transaction() as session:
            place = await self._place(session, query.encoder)
            if place is None:
                return SearchPage(hits=(), next_page_token="")
            await session.execute(text(tuning(rank + most + 1)))
            rows = (await session.execute(text(search_of(place, kinds, keyed=bool(key_name))), asked)).all()
        more = len(rows) > most and rank + most < MOST_CANDIDATES
        token = page_token(rank + most, digest_of(ask)) if more else ""
        return SearchPage(hits=[hit_of(row) for row in rows[:most]], next_page_token=token)

    async def nearest(self, query: Embedded, *, key_name: str) -> Mapping[str, float | None]:
        """Cosine of the nearest text to any row of `query`, by source; None for a source that holds nothing.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        asked = {f"query{number}": vector_text(row) for number, row in enumerate(query.vectors)}
        async with self._transaction() as session:
            place = await self._place(session, query.encoder)
            if place is None:
                return dict.fromkeys(SOURCES)
            await session.execute(text(tuning(1)))
            statement = text(nearest_of(place, list(asked), keyed=bool(key_name)))
            rows = (await session.execute(statement, {**asked, "key_name": key_name})).all()
        return {**dict.fromkeys(SOURCES), **{source: cosine for source, cosine in rows}}

    async def encoders(self, *, key_name: str) -> Sequence[str]:
        """Names of the encoders that anything is stored of.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        own = [ExperienceRow.key_name == key_name] if key_name else []
        used = union(select(DocumentRow.encoder_id), select(ExperienceRow.encoder_id).where(*own))
        async with self._transaction() as session:
            names = await session.scalars(select(EncoderRow.name).where(EncoderRow.encoder_id.in_(used)).distinct())
            return sorted(names)

    async def learn(self, learned: VerifiedAnswer, question: Embedded) -> None:
        """Store a verified answer; an earlier one of the same run is replaced.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        place = await self._registered(question.encoder)
        facts = {
            "key_name": learned.key_name,
            "question": without_nul(learned.question),
            "answer": without_nul(learned.answer),
            "encoder_id": place.encoder_id,
            "embedding": question.vectors[0],
        }
        row = insert(ExperienceRow).values(run_id=learned.run_id, **facts)
        async with self._transaction() as session:
            await session.execute(row.on_conflict_do_update(index_elements=[ExperienceRow.run_id], set_=facts))

    async def forget(self, run_id: str) -> None:
        """Delete what was learned of a run.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with self._transaction() as session:
            await session.execute(delete(ExperienceRow).where(ExperienceRow.run_id == without_nul(run_id)))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncSession]:
        try:
            async with self._sessions.begin() as session:
                yield session
        except ERRORS as error:
            raise refusal(error) from error

    async def _place(self, session: AsyncSession, encoder: Encoder) -> VectorSpace | None:
        """Where the vectors of an encoder are; None when nothing was ever stored of it."""
        name = (encoder.name, encoder.dimension)
        if name not in self._places:
            wanted = select(EncoderRow.encoder_id).where(tuple_(EncoderRow.name, EncoderRow.dimension) == name)
            number = await session.scalar(wanted)
            if number is None:
                return None
            self._places[name] = VectorSpace(encoder_id=number, dimension=encoder.dimension)
        return self._places[name]

    async def _registered(self, encoder: Encoder) -> VectorSpace:
        """Where the vectors of an encoder are; made, with its indexes, for the first text of it."""
        async with self._transaction() as session:
            place = await self._place(session, encoder)
            if place is not None:
                return place
            await session.execute(select(func.pg_advisory_xact_lock(ENCODERS_LOCK)))
            row = {"name": encoder.name, "dimension": encoder.dimension}
            await session.execute(insert(EncoderRow).values(row).on_conflict_do_nothing())
            wanted = select(EncoderRow.encoder_id).filter_by(**row)
            place = VectorSpace(encoder_id=(await session.scalars(wanted)).one(), dimension=encoder.dimension)
            for statement in indexes(place):
                await session.execute(text(statement))
        return place
