"""The knowledge base is stored in PostgreSQL; every method is one short transaction, after all embedding."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, select, text, tuple_, union
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import BACKGROUND_WITHIN_S, Sessions, transaction, without_nul
from chassis.page_tokens import token_of
from chassis.schema.vectors import vector_text
from inference import Embedded, Encoder
from kernel.msv.experience import SOURCES
from services.router.errors import DocumentNotFound
from services.router.service.knowledge.values import (
    ChunkSizes,
    DeleteKnowledgeResponse,
    DocumentDraft,
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
    rank_after,
    stored_documents,
    upsert_of,
)
from services.router.store.nearest_vectors import MOST_CANDIDATES, VectorSpace, indexes, nearest_of, search_of, tuning

ENCODERS_LOCK = 0x656E636F
ROWS_AT_ONCE = 500


class PostgresKnowledge:
    """This store keeps documents, their chunks and experience in the router's schema.

    Args:
        sessions: Where transactions are opened.
        answering: The same for what questions are compared with while they are answered; None: the former. A caller
            who searches much takes nothing from it.
    """

    def __init__(self, sessions: Sessions, *, answering: Sessions | None = None) -> None:
        self._sessions = sessions
        self._answering = answering or sessions
        self._spaces: dict[tuple[str, int], VectorSpace] = {}

    async def stored(self, document_ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Return those of the documents that are stored, by identifier.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            rows = await stored_documents(session, DocumentRow.document_id.in_(without_nul(list(document_ids))))
        return {
            row.document_id: StoredDocument(
                document=document_of(row, encoder), cut=ChunkSizes(most=row.chunk_characters, overlap=row.chunk_overlap)
            )
            for row, encoder in rows
        }

    async def put(self, encoder: Encoder, drafts: Sequence[DocumentDraft]) -> Mapping[str, KnowledgeDocument]:
        """Store all `drafts`, or none; return the documents by identifier.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        space = await self._registered(encoder)
        # Every transaction locks documents in the same order, so that no two wait for each other.
        ordered = sorted(drafts, key=lambda draft: draft.document_id)
        new = [draft for draft in ordered if draft.chunks is not None]
        async with transaction(self._sessions.within(BACKGROUND_WITHIN_S)) as session:
            for draft in ordered:
                await session.execute(upsert_of(draft, space))
            await session.execute(delete(ChunkRow).where(ChunkRow.document_id.in_([d.document_id for d in new])))
            rows = [row for draft in new for row in chunk_rows(draft, space)]
            for start in range(0, len(rows), ROWS_AT_ONCE):
                await session.execute(insert(ChunkRow), rows[start : start + ROWS_AT_ONCE])
            stored = await stored_documents(
                session, DocumentRow.document_id.in_([draft.document_id for draft in ordered])
            )
        return {row.document_id: document_of(row, name) for row, name in stored}

    async def page(self, request: ListKnowledgeRequest, *, key_name: str) -> ListKnowledgeResponse:
        """Return a page of documents, newest first, and the number of all; of experience, what that key may see.

        Raises:
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database is away.
        """
        conditions = [DocumentRow.title.icontains(without_nul(request.title_contains), autoescape=True)]
        if request.page_token:
            position = tuple_(DocumentRow.added_at, DocumentRow.document_id)
            conditions.append(position < after_document(request.page_token))
        own = [ExperienceRow.key_name == key_name] if key_name else []
        totals = select(func.count(), func.coalesce(func.sum(DocumentRow.chunks), 0)).select_from(DocumentRow)
        async with transaction(self._sessions) as session:
            rows = await stored_documents(session, *conditions, most=request.page_size + 1)
            documents, chunks = (await session.execute(totals)).one()
            experiences = await session.scalar(select(func.count()).select_from(ExperienceRow).where(*own))
        shown = [document_of(row, name) for row, name in rows[: request.page_size]]
        more = len(rows) > request.page_size
        return ListKnowledgeResponse(
            documents=shown,
            next_page_token=token_of(shown[-1].added_at.isoformat(), shown[-1].document_id) if more else "",
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
        is_named = DocumentRow.document_id == without_nul(document_id)
        async with transaction(self._sessions) as session:
            chunks = await session.scalar(delete(DocumentRow).where(is_named).returning(DocumentRow.chunks))
        if chunks is None:
            raise DocumentNotFound(f"there is no document {document_id!r}", document_id=document_id)
        return DeleteKnowledgeResponse(document_id=document_id, chunks=chunks)

    def rank(self, request: SearchKnowledgeRequest) -> int:
        """Return the number of hits on the pages before the requested one.

        Raises:
            InvalidPageToken: For a token that this service did not give for this search.
        """
        return rank_after(request.page_token, request) if request.page_token else 0

    async def search(self, request: SearchKnowledgeRequest, query: Embedded, *, rank: int, key_name: str) -> SearchPage:
        """Return the texts nearest to `query`, of documents and of the experience of that key, after `rank` hits.

        A search has 1000 hits at most.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        most = min(request.page_size, MOST_CANDIDATES - rank)
        parameters = {
            "query": vector_text(query.vectors[0]),
            "far": rank + most + 1,
            "least": -1.0 if request.minimum_similarity is None else request.minimum_similarity - 1e-9,
            "rank": rank,
            "most": most + 1,
            "key_name": key_name,
        }
        kinds = [request.kind] if request.kind else list(KnowledgeKind)
        async with transaction(self._sessions) as session:
            space = await self._space(session, query.encoder)
            if space is None:
                return SearchPage(hits=(), next_page_token="")
            await session.execute(text(tuning(rank + most + 1)))
            rows = (await session.execute(text(search_of(space, kinds, keyed=bool(key_name))), parameters)).all()
        more = len(rows) > most and rank + most < MOST_CANDIDATES
        token = token_of(rank + most, digest_of(request)) if more else ""
        return SearchPage(hits=[hit_of(row) for row in rows[:most]], next_page_token=token)

    async def nearest(self, query: Embedded, *, key_name: str) -> Mapping[str, float | None]:
        """Return the cosine of the nearest text to any row of `query`, by source; None for a source without texts.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        parameters = {f"query{number}": vector_text(row) for number, row in enumerate(query.vectors)}
        async with transaction(self._answering) as session:
            space = await self._space(session, query.encoder)
            if space is None:
                return dict.fromkeys(SOURCES)
            await session.execute(text(tuning(1)))
            statement = text(nearest_of(space, list(parameters), keyed=bool(key_name)))
            rows = (await session.execute(statement, {**parameters, "key_name": key_name})).all()
        return {**dict.fromkeys(SOURCES), **{source: cosine for source, cosine in rows}}

    async def encoders(self, *, key_name: str) -> Sequence[str]:
        """Return the names of the encoders that made the stored vectors.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        own = [ExperienceRow.key_name == key_name] if key_name else []
        used = union(select(DocumentRow.encoder_id), select(ExperienceRow.encoder_id).where(*own))
        async with transaction(self._answering) as session:
            names = await session.scalars(select(EncoderRow.name).where(EncoderRow.encoder_id.in_(used)).distinct())
            return sorted(names)

    async def learn(self, learned: VerifiedAnswer, question: Embedded) -> None:
        """Store a verified answer; an earlier one of the same run is replaced.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        space = await self._registered(question.encoder)
        columns = {
            "key_name": learned.key_name,
            "question": without_nul(learned.question),
            "answer": without_nul(learned.answer),
            "encoder_id": space.encoder_id,
            "embedding": question.vectors[0],
        }
        row = insert(ExperienceRow).values(run_id=learned.run_id, **columns)
        async with transaction(self._sessions) as session:
            await session.execute(row.on_conflict_do_update(index_elements=[ExperienceRow.run_id], set_=columns))

    async def forget(self, run_id: str) -> None:
        """Delete the experience of a run.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await session.execute(delete(ExperienceRow).where(ExperienceRow.run_id == without_nul(run_id)))

    async def _space(self, session: AsyncSession, encoder: Encoder) -> VectorSpace | None:
        """Return the space of an encoder's vectors; None when none was ever stored."""
        name = (encoder.name, encoder.dimension)
        if name not in self._spaces:
            query = select(EncoderRow.encoder_id).where(tuple_(EncoderRow.name, EncoderRow.dimension) == name)
            number = await session.scalar(query)
            if number is None:
                return None
            self._spaces[name] = VectorSpace(encoder_id=number, dimension=encoder.dimension)
        return self._spaces[name]

    async def _registered(self, encoder: Encoder) -> VectorSpace:
        """Return the space of an encoder's vectors; create it, with its indexes, for the first one."""
        async with transaction(self._sessions) as session:
            space = await self._space(session, encoder)
            if space is not None:
                return space
            await session.execute(select(func.pg_advisory_xact_lock(ENCODERS_LOCK)))
            row = {"name": encoder.name, "dimension": encoder.dimension}
            await session.execute(insert(EncoderRow).values(row).on_conflict_do_nothing())
            query = select(EncoderRow.encoder_id).filter_by(**row)
            space = VectorSpace(encoder_id=(await session.scalars(query)).one(), dimension=encoder.dimension)
            for statement in indexes(space):
                await session.execute(text(statement))
        return space
