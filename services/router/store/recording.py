"""Runs into their table: PostgreSQL makes the rows out of the documents, in one statement for all of a batch."""

from collections.abc import Mapping, Sequence

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from services.router.store.tables import without_nul

# What each column holds of a run's document `d`. One that ended in a refusal answers no request, and leaves its
# identifier to the next attempt.
COLUMNS: Mapping[str, str] = {
    "run_id": "d->>'run_id'",
    "created_at": "(d->>'created_at')::timestamptz",
    "request_id": "CASE WHEN d->>'error_reason' = '' THEN d->>'request_id' ELSE '' END",
    "key_name": "d->>'key_name'",
    "system": "coalesce(d#>>'{route,system}', '')",
    "strategy": "d->>'strategy'",
    "degraded": "(d->>'degraded')::boolean",
    "activation": "(d#>>'{route,activation,value}')::float",
    "outcome": "CASE WHEN d->>'error_reason' = '' THEN d->>'outcome' ELSE '' END",
    "error_reason": "d->>'error_reason'",
    "confidence": "(d->>'confidence')::float",
    "confidence_raw": "coalesce(d->>'confidence_raw', d->>'confidence')::float",
    "confidence_source": "d->>'confidence_source'",
    "assessor": "coalesce(d#>>'{route,assessor}', '')",
    "config_version": "d->>'config_version'",
    "because": "coalesce(d#>>'{route,because}', '')",
    "document": "d",
}

INSERT = text(
    f"INSERT INTO router.runs ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS.values())} "
    "FROM jsonb_array_elements(CAST(:documents AS jsonb)) AS d ON CONFLICT (run_id) DO NOTHING"
)

_NUL = b"\\u0000"


async def insert_runs(session: AsyncSession, documents: Sequence[bytes]) -> None:
    """Keep runs, given as JSON; those that are there already stay as they are."""
    kept = b",".join(_without_nul(document) for document in documents)
    await session.execute(INSERT, {"documents": f"[{kept.decode()}]"})


def _without_nul(document: bytes) -> bytes:
    """`document` without the one character that PostgreSQL cannot keep."""
    return orjson.dumps(without_nul(orjson.loads(document))) if _NUL in document else document
