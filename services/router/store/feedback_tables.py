"""These tables hold feedback, and the messages by which its receivers learn."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Float, ForeignKey, Identity, Index, Integer, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.router.store.tables import SCHEMA, RouterTable


class RunFeedbackRow(RouterTable):
    """A row is feedback on a run's answer; of the feedback on one run at most one counts, that is, teaches."""

    __tablename__ = "feedback"
    __table_args__ = (
        Index("ix_feedback_counts", "run_id", unique=True, postgresql_where="counts"),
        Index("ix_feedback_newest", "created_at", postgresql_where="counts"),
    )

    key_name: Mapped[str] = mapped_column(String, primary_key=True)
    feedback_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    run_id: Mapped[str] = mapped_column(String(36), ForeignKey(f"{SCHEMA}.runs.run_id", ondelete="CASCADE"), index=True)
    score: Mapped[float] = mapped_column(Float)
    note: Mapped[str] = mapped_column(String)
    teaches: Mapped[bool] = mapped_column(Boolean)
    counts: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    request_digest: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(16), server_default="VOLUNTEERED")
    reply: Mapped[dict[str, Any]] = mapped_column(JSONB)


class OutboxRow(RouterTable):
    """A message is delivered, parked, or due at `next_attempt_at`."""

    __tablename__ = "outbox"
    __table_args__ = (
        Index("ix_outbox_due", "next_attempt_at", postgresql_where="delivered_at IS NULL AND parked_at IS NULL"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    run_id: Mapped[str] = mapped_column(String(36), index=True)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    next_attempt_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    delivered_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    parked_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_error: Mapped[str] = mapped_column(String, server_default="")
