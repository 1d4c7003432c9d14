"""This store keeps the questions that agents answered right, as vectors, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction
from chassis.schema.vectors import vector_text
from inference import Embedded
from services.delegation.service.experience.values import NearestQuestion, PendingQuestion
from services.delegation.service.task_records import TaskRecord
from services.delegation.service.values import ProfileUpdate
from services.delegation.store.tables import AgentExperienceRow, TaskRow

# Each agent's newest questions of a key stay. Rows that another replica removes at the same time are left to it.
FORGET = text(
    """
    WITH above AS (
        SELECT key_name, agent FROM delegation.agent_experiences GROUP BY key_name, agent HAVING count(*) > :most
    ), oldest AS (
        SELECT past.task_id, above.agent FROM above CROSS JOIN LATERAL (
            SELECT task_id FROM delegation.agent_experiences
            WHERE key_name = above.key_name AND agent = above.agent
            ORDER BY learned_at DESC, task_id DESC OFFSET :most
        ) AS past
    )
    DELETE FROM delegation.agent_experiences WHERE (task_id, agent) IN (
        SELECT task_id, agent FROM delegation.agent_experiences JOIN oldest USING (task_id, agent)
        FOR UPDATE OF agent_experiences SKIP LOCKED
    )
    """
)

# The cosine of the nearest question by agent. Vectors of another encoder, or another length, are never compared.
NEAREST = text(
    """
    SELECT agent, count(*) AS questions, 1 - min(embedding <=> CAST(:query AS vector)) AS cosine
    FROM (
        SELECT agent, embedding FROM delegation.agent_experiences
        WHERE key_name = :key_name AND agent = ANY(:agents) AND encoder = :encoder
            AND vector_dimension = :vector_dimension AND embedding IS NOT NULL
        OFFSET 0
    ) AS comparable
    GROUP BY agent
    """
)

OTHER_ENCODERS = text(
    """
    SELECT agent, min(encoder) AS encoder FROM delegation.agent_experiences
    WHERE key_name = :key_name AND agent = ANY(:agents) AND embedding IS NOT NULL
        AND (encoder, vector_dimension) <> (:encoder, :vector_dimension)
    GROUP BY agent
    """
)


async def add_experience(session: AsyncSession, record: TaskRecord, updates: Sequence[ProfileUpdate]) -> None:
    """Store that agents answered a task right, by what their profiles learned of it; its vector follows later."""
    now = datetime.now(UTC)
    rows = [
        {
            "task_id": record.task_id,
            "agent": agent,
            "key_name": record.key_name,
            "dimensions": list(record.dimensions),
            "encoder": "",
            "vector_dimension": 0,
            "learned_at": now,
        }
        for agent in sorted({each.agent for each in updates if each.outcome == 1})
    ]
    if rows:
        await session.execute(insert(AgentExperienceRow).values(rows).on_conflict_do_nothing())


class PostgresAgentExperience:
    """This store keeps agents' experience in the delegation service's schema.

    Every method may raise `DatabaseUnavailable`.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def pending(self, limit: int) -> Sequence[PendingQuestion]:
        """Return tasks whose question has no vector yet, the earliest first."""
        question = TaskRow.document["question"].astext
        wanted = (
            select(AgentExperienceRow.task_id, question, AgentExperienceRow.learned_at)
            .join(TaskRow, TaskRow.task_id == AgentExperienceRow.task_id)
            .where(AgentExperienceRow.embedding.is_(None))
            .order_by(AgentExperienceRow.learned_at, AgentExperienceRow.task_id)
            .limit(limit)
        )
        async with transaction(self._sessions) as session:
            rows = (await session.execute(wanted)).all()
        return [PendingQuestion(task_id=row[0], question=row[1] or "") for row in rows]

    async def embed(self, task_ids: Sequence[str], embedded: Embedded) -> None:
        """Store the vectors of the questions of tasks, in their order."""
        row = AgentExperienceRow
        storing = (
            update(row)
            .where(row.task_id == bindparam("of_task"), row.embedding.is_(None))
            .values(
                embedding=bindparam("vector"),
                encoder=embedded.encoder.name,
                vector_dimension=embedded.encoder.dimension,
            )
        )
        ordered = sorted(zip(task_ids, embedded.vectors, strict=True), key=lambda each: each[0])
        async with transaction(self._sessions) as session:
            connection = await session.connection()
            await connection.execute(storing, [{"of_task": task, "vector": vector} for task, vector in ordered])

    async def forget(self, most: int) -> None:
        """Delete all but the `most` newest questions of each agent and key."""
        async with transaction(self._sessions) as session:
            await session.execute(FORGET, {"most": most})

    async def nearest(self, query: Embedded, agents: Sequence[str], *, key_name: str) -> Mapping[str, NearestQuestion]:
        """Return the nearest question that each agent answered right; agents without any are left out."""
        parameters = {
            "key_name": key_name,
            "agents": list(agents),
            "encoder": query.encoder.name,
            "vector_dimension": query.encoder.dimension,
        }
        async with transaction(self._sessions) as session:
            near = (await session.execute(NEAREST, {**parameters, "query": vector_text(query.vectors[0])})).all()
            others = (await session.execute(OTHER_ENCODERS, parameters)).all()
        found = {row.agent: NearestQuestion(other_encoder=row.encoder) for row in others}
        return found | {row.agent: NearestQuestion(cosine=row.cosine, questions=row.questions) for row in near}
